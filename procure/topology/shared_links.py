"""Places on a fat-tree whose links are shared, and what that costs: jobs go slower while others use their links.

A model of our own, with two stated parameters. A job may use every uplink of its leaves if it has
several, and every spine link of its pods if it has several. Of these, ``x`` is the share that another
job may use at the moment. The job then runs at the pace 1 / (1 + slowdown · x^exponent): ``slowdown`` is
how much longer it takes while all its links are shared, ``exponent`` whether a few shared links already
hurt (below 1) or only many (above 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.kernel import part
from procure.simulator.pace import ask_pace
from procure.simulator.seams import place as seam
from procure.simulator.state import PACE_ONE, State
from procure.topology.compact import allocate_compact
from procure.topology.fabric import Fabric, Grant, empty_fabric, empty_grant, in_order, inner, popcount
from procure.topology.fat_tree import FatTree, Shape

MOMENT, SEEN = range(2)
"""What the notes hold: how far ends are dealt with."""


class Contention(NamedTuple):
    """The parameters, and how many jobs use the links of each switch."""

    slowdown: float
    exponent: float
    on_leaf: np.ndarray  # int64[n_leaves], running jobs of several leaves
    in_pod: np.ndarray  # int64[pods], running jobs of several pods


@inner
def count_users(shape, contention, places, change):
    """Add a job, by its places in ascending order, to the users of its switches (``change`` 1), or remove it."""
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


class Links(NamedTuple):
    """A tree of which jobs share the links, and who uses which."""

    shape: Shape
    row: np.ndarray  # int64[n_places], the node table's row at a place; −1 = there is no node
    place: np.ndarray  # int64[n_nodes], the place of a row
    places: np.ndarray  # int64[sum of n_nodes], each job's places, ascending, as `State.node_list` has rows
    contention: Contention
    notes: np.ndarray  # int64[2]


def make_links(state: State, tree: FatTree, slowdown: float, exponent: float) -> Links:
    """Lay out a tree of which nobody uses a link yet."""
    place = np.empty(len(tree), np.int64)
    real = np.flatnonzero(tree.rows >= 0)
    place[tree.rows[real]] = real
    users = (np.zeros(n, np.int64) for n in (tree.pods * tree.leaves, tree.pods))
    return Links(
        tree.shape,
        np.array(tree.rows, np.int64),
        place,
        np.full(state.node_list.size, -1, np.int64),
        Contention(float(slowdown), float(exponent), *users),
        np.array([-1, 0], np.int64),
    )


@part
def note_ends(state, links):
    """Take the jobs that have ended since the last call from the links that they used, and change paces."""
    notes, contention = links.notes, links.contention
    if notes[MOMENT] != state.now[0]:
        notes[MOMENT], notes[SEEN] = state.now[0], 0
    if contention.slowdown > 0 and notes[SEEN] < state.n_ended[0]:
        for i in range(notes[SEEN], state.n_ended[0]):
            job = state.ended[i]
            places = links.places[state.node_first[job] : state.node_first[job + 1]]
            count_users(links.shape, contention, places, -1)
        ask_paces(state, links.shape, contention, links.places, -1)
    notes[SEEN] = state.n_ended[0]


@part
def note_start(state, links, job):
    """Let the job that starts on the chosen nodes use the links between them, and change paces."""
    if links.contention.slowdown > 0:
        first = state.node_first[job]
        places = links.places[first : first + state.n_nodes[job]]
        for i in range(places.size):
            places[i] = links.place[state.chosen[i]]
        count_users(links.shape, links.contention, places, 1)
        ask_paces(state, links.shape, links.contention, links.places, job)


@seam
class SharedLinks(NamedTuple):
    """Any idle nodes, or those under the fewest switches."""

    compact: bool
    links: Links
    free: Fabric  # room: of the nodes among which is picked
    grant: Grant  # room

    def pick(self, state, job, n):
        """Keep the nodes that the job gets, by place in the tree: the first rows, or as `allocate_compact` has it."""
        links, free, grant, wanted = self.links, self.free, self.grant, state.n_nodes[job]
        if self.compact:
            _lay_out(links, free, state.chosen[:n])
            allocate_compact(links.shape, free, wanted, grant)
        else:
            grant.n[0] = wanted
            for i in range(wanted):
                grant.nodes[i] = links.place[state.chosen[i]]
            in_order(grant)
        for i in range(wanted):
            state.chosen[i] = links.row[grant.nodes[i]]

    def follow(self, state):
        """Deal with the jobs that have ended."""
        note_ends(state, self.links)

    def started(self, state, job):
        """Let the job use its links."""
        note_start(state, self.links, job)


def make_shared_links(state: State, tree: FatTree, compact: bool, slowdown: float, exponent: float) -> SharedLinks:
    """Make the place of one run."""
    links = make_links(state, tree, slowdown, exponent)
    return SharedLinks(compact, links, empty_fabric(tree.shape), empty_grant(tree.shape))


@part
def _lay_out(links, free, rows):
    """Make these rows of the node table the only nodes that are free."""
    for counts in (free.idle, free.leaf_idle, free.pod_idle):
        for i in range(counts.size):
            counts[i] = 0
    for row in rows:
        at = links.place[row]
        free.idle[at] = 1
        free.leaf_idle[at // links.shape.nodes] += 1
        free.pod_idle[at // (links.shape.nodes * links.shape.leaves)] += 1
