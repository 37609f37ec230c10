"""What shared links cost: a running job goes slower while other jobs use its links.

A model of our own, with two stated parameters. A job may use every uplink of its leaves if it has
several, and every spine link of its pods if it has several. Of these, ``x`` is the share that another
job may use at the moment. The job then runs at the pace 1 / (1 + slowdown · x^exponent): ``slowdown`` is
how much longer it takes while all its links are shared, ``exponent`` whether a few shared links already
hurt (below 1) or only many (above 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.pace import ask_pace
from procure.simulator.state import PACE_ONE
from procure.topology.fabric import inner
from procure.topology.fat_tree import Shape
from procure.topology.search import popcount


class Contention(NamedTuple):
    """The parameters, and how many jobs use the links of each switch."""

    slowdown: float
    exponent: float
    on_leaf: np.ndarray  # int64[n_leaves], running jobs of several leaves
    in_pod: np.ndarray  # int64[pods], running jobs of several pods


def make_contention(shape: Shape, slowdown: float, exponent: float) -> Contention:
    """Return a tree of which nobody uses a link; without slowdown, paces never change."""
    return Contention(
        float(slowdown),
        float(exponent),
        np.zeros(shape.pods * shape.leaves, np.int64),
        np.zeros(shape.pods, np.int64),
    )


@inner
def count_users(shape, contention, places, change):
    """Add a job to the users of the links of its switches (``change`` 1), or remove it (−1).

    Parameters
    ----------
    places
        int64[n], the job's nodes, ascending.
    """
    in_pod = shape.nodes * shape.leaves
    several_leaves = places[0] // shape.nodes != places[-1] // shape.nodes
    several_pods = places[0] // in_pod != places[-1] // in_pod
    for i in range(places.size):
        if several_leaves and (i == 0 or places[i] // shape.nodes != places[i - 1] // shape.nodes):
            contention.on_leaf[places[i] // shape.nodes] += change
        if several_pods and (i == 0 or places[i] // in_pod != places[i - 1] // in_pod):
            contention.in_pod[places[i] // in_pod] += change


@inner
def share_used_by_others(shape, contention, places):
    """Return the share of a running job's links that another job may use, 0 for a job on one leaf."""
    in_pod = shape.nodes * shape.leaves
    several_pods = places[0] // in_pod != places[-1] // in_pod
    if places[0] // shape.nodes == places[-1] // shape.nodes:
        return 0.0
    links = shared = 0
    for i in range(places.size):
        leaf, pod = places[i] // shape.nodes, places[i] // in_pod
        if i == 0 or leaf != places[i - 1] // shape.nodes:
            n = popcount(shape.leaf_links[leaf])
            links += n
            shared += n if contention.on_leaf[leaf] > 1 else 0
        if several_pods and (i == 0 or pod != places[i - 1] // in_pod):
            links += shape.uplinks * shape.spines
            shared += shape.uplinks * shape.spines if contention.in_pod[pod] > 1 else 0
    return shared / links


@inner
def ask_paces(state, shape, contention, all_places, starting):
    """Ask for every running job, and for the one that starts (−1 = none), the pace that its links allow."""
    for i in range(state.n_running[0] + (starting >= 0)):
        job = state.running[i] if i < state.n_running[0] else starting
        places = all_places[state.node_first[job] : state.node_first[job + 1]]
        x = share_used_by_others(shape, contention, places)
        pace = int(PACE_ONE / (1.0 + contention.slowdown * x**contention.exponent))
        # A wish of the same moment that is out of date has to be overruled, too.
        if pace != state.pace[job] or state.asked_pace[job] >= 0:
            ask_pace(state, job, pace)
