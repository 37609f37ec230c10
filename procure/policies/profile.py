"""What is free over time: the one face on which every plan, reservation and forecast is laid.

In a pool it is a `Profile`, see `procure.policies.pool_profile`; elsewhere a `Timeline`, on which a plan names its
nodes, see `procure.policies.timeline`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.policies.pool_profile import Profile, build_profile, find_start, make_profile, take
from procure.policies.timeline import GIVE, TAKE, Timeline, find_nodes, hold, lay_running, make_timeline
from procure.simulator.kernel import part
from procure.simulator.state import FAR
from procure.simulator.tasks import answer_nodes, answer_units, keep_planned, n_held, units_at


class Plan(NamedTuple):
    """When waiting jobs are planned to start and, unless in a pool, where; and what all plans leave."""

    start: np.ndarray  # int64[n_jobs], s; −1 = not planned
    nodes: np.ndarray  # int32[sum of n_nodes], as `State.node_list`
    soonest: np.ndarray  # int64[1], s; no waiting job is planned to start from now until then
    jobs: np.ndarray  # int64[n_jobs], room for jobs in an order
    scores: np.ndarray  # float64[n_jobs], room for their scores
    profile: Profile  # used in a pool
    line: Timeline  # used otherwise


def make_plan(state) -> Plan:
    """Lay out an empty plan."""
    n_jobs = state.submit.size
    return Plan(
        start=np.full(n_jobs, -1, np.int64),
        nodes=np.full(state.node_list.size, -1, np.int32),
        soonest=np.full(1, FAR, np.int64),
        jobs=np.zeros(n_jobs, np.int64),
        scores=np.zeros(n_jobs),
        profile=make_profile(2 * n_jobs + 2),
        line=make_timeline(state, not state.pool),
    )


@part
def begin_plan(state, plan):
    """Begin again with the running jobs only."""
    if state.pool:
        build_profile(state, plan.profile)
    else:
        lay_running(state, plan.line)


@part
def earliest(state, plan, job, before, below):
    """Find the earliest moment at which there is room for a job as long as it lasts, or until ``before``.

    In a pool a job that holds nodes from ``before`` on may count on them then. Elsewhere ``before`` is the last
    moment that will do, and the lowest rows that hold the job are laid into ``chosen``.

    Returns
    -------
    int
        s, in a pool less than ``below``; −1 if there is none.
    """
    if state.pool:
        return find_start(plan.profile, state.n_nodes[job], state.estimate[job], before, below)
    return find_nodes(state, plan.line, job, before)


@part
def promise(state, plan, job, start):
    """Plan a job at the moment that `earliest` found."""
    if not state.pool:
        plan_nodes(state, plan, job, start)
        return
    plan.start[job] = min(start, FAR)  # behind a job without a limit it holds nothing
    plan.soonest[0] = min(plan.soonest[0], start)
    if start < FAR:
        take(plan.profile, start, min(start + state.estimate[job], FAR), state.n_nodes[job])


@part
def withdraw(state, plan, job):
    """Take a job's plan back."""
    if not state.pool:
        hold_plan(state, plan, job, GIVE)
        return
    start = plan.start[job]
    if start < FAR:
        take(plan.profile, start, min(start + state.estimate[job], FAR), -state.n_nodes[job])
    plan.start[job] = -1


@part
def plan_nodes(state, plan, job, start):
    """Plan a job on the ``chosen`` nodes from ``start``; with −1 it is not planned."""
    first = state.node_first[job]
    keep_planned(state, state.tasks, job, start)
    for i in range(n_held(state, state.tasks, job)):
        plan.nodes[first + i] = state.chosen[i]
    plan.start[job] = start
    if start >= 0:
        plan.soonest[0] = min(plan.soonest[0], start)
    hold_plan(state, plan, job, TAKE)


@part
def lay_planned(state, tasks, plan, job):
    """Lay the nodes on which a job is planned into ``chosen`` as an answer."""
    first = state.node_first[job]
    for i in range(n_held(state, tasks, job)):
        state.chosen[i] = plan.nodes[first + i]
        answer_units(tasks, plan.nodes[first + i], units_at(tasks, first + i))
    answer_nodes(tasks, n_held(state, tasks, job))


@part
def hold_plan(state, plan, job, sign):
    """Hold what a waiting job's plan needs (`TAKE`), or give it back (`GIVE`)."""
    start = plan.start[job]
    if start >= 0:
        hold(state, plan.line, job, plan.nodes, start, min(start + state.estimate[job], FAR), sign)
