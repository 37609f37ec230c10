"""What is free over time: the one profile that every plan, reservation and forecast is laid on.

In a pool only the number of idle nodes counts: a `Profile` of steps. On shared or unlike nodes a `Timeline` keeps the
CPUs, memory and GPUs of every node, and a plan names its nodes: each has a chain of steps of its own, so that a plan
moves only those of its nodes, and all is kept from a moment to another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.policies.spread import rows_first
from procure.simulator.kernel import part
from procure.simulator.pools import enough_gpus
from procure.simulator.state import FAR, NEVER
from procure.simulator.tasks import (
    amounts,
    answer_nodes,
    answer_units,
    binds,
    keep_planned,
    lay_units,
    n_held,
    spreads,
    takes_whole,
    units_at,
    units_in,
)


class Profile(NamedTuple):
    """How many nodes are idle: ``free[k]`` from ``time[k]`` until ``time[k + 1]``; the last step never ends."""

    time: np.ndarray  # int64[2 n_jobs + 2], s
    free: np.ndarray  # int64[2 n_jobs + 2]
    n: np.ndarray  # int64[1], steps


TAKE, GIVE = -1, 1
"""The signs of `hold`."""


class Timeline(NamedTuple):
    """Chains of steps. Step ``k`` begins at ``time[k]`` and lasts until the one behind it begins.

    Step ``node`` is the first of that node; what it says holds now, whenever it began.
    """

    time: np.ndarray  # int64[n_steps], s
    behind: np.ndarray  # int64[n_steps], the node's next step; −1 = this one never ends
    cpus: np.ndarray  # int64[n_steps], free in this step
    mem: np.ndarray  # int64[n_steps], MB
    gpus: np.ndarray  # int64[n_steps]
    spare: np.ndarray  # int64[2], a step out of use, chained to the others (−1 = none); first never used
    everywhere: np.ndarray  # int64[n_nodes], all nodes, for `find_nodes`
    at: np.ndarray  # int64[n_nodes], room for `find_nodes`
    moment: np.ndarray  # int64[n_nodes], room for `find_nodes`


def make_timeline(state, needed: bool = True, more: int = 0) -> Timeline:
    """Lay out a timeline of which nothing is known yet; without room if it is not needed.

    A step begins where some job on that node begins or ends, so two for each node of each job suffice.
    """
    n_nodes = state.free_cpus.size if needed else 0
    n_steps = n_nodes + 2 * state.node_list.size + more + 2 if needed else 0
    steps = (np.zeros(n_steps, np.int64) for _ in range(5))
    room = (np.zeros(n_nodes, np.int64) for _ in range(2))
    return Timeline(*steps, np.zeros(2, np.int64), np.arange(n_nodes), *room)  # type: ignore[call-arg]


class Plan(NamedTuple):
    """When waiting jobs are planned to start and, unless in a pool, where; and what all plans leave."""

    start: np.ndarray  # int64[n_jobs], s; −1 = not planned
    nodes: np.ndarray  # int64[sum of n_nodes], as `State.node_list`
    soonest: np.ndarray  # int64[1], s; no waiting job is planned to start from now until then
    jobs: np.ndarray  # int64[n_jobs], room for jobs in an order
    scores: np.ndarray  # float64[n_jobs], room for their scores
    profile: Profile  # used in a pool
    line: Timeline  # used otherwise


def make_profile(n_steps: int) -> Profile:
    """Lay out room for so many steps."""
    return Profile(np.zeros(n_steps, np.int64), np.zeros(n_steps, np.int64), np.zeros(1, np.int64))


def make_plan(state) -> Plan:
    """Lay out an empty plan."""
    n_jobs = state.submit.size
    return Plan(
        start=np.full(n_jobs, -1, np.int64),
        nodes=np.full(state.node_list.size, -1, np.int64),
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
    if state.pool:
        reserve(state, plan, job, start)
    else:
        plan_nodes(state, plan, job, start)


@part
def withdraw(state, plan, job):
    """Take a job's plan back."""
    if state.pool:
        unreserve(state, plan, job)
    else:
        hold_plan(state, plan, job, GIVE)


@part
def build_profile(state, profile):
    """Begin again with the running jobs only."""
    time, free, n_steps = profile.time, profile.free, profile.n
    time[0] = state.now[0]
    free[0] = state.n_idle[0]
    last = 0
    for i in range(state.n_running[0]):
        job = state.running[i]
        end = state.expected_end[job]
        if end != time[last]:
            last += 1
            time[last] = end
            free[last] = free[last - 1]
        free[last] += state.n_nodes[job]
    n_steps[0] = last + 1


@part
def drop_past_steps(profile, now):
    """Let the first step begin now."""
    time, free, n_steps = profile.time, profile.free, profile.n
    passed = 0
    while passed + 1 < n_steps[0] and time[passed + 1] <= now:
        passed += 1
    if passed > 0:
        for i in range(passed, n_steps[0]):
            time[i - passed] = time[i]
            free[i - passed] = free[i]
        n_steps[0] -= passed
    time[0] = now


@part
def find_start(profile, n, length, before, below):
    """Find the earliest moment from which ``n`` nodes are idle for ``length`` s, or until ``before``.

    A job that holds a reservation from ``before`` on may count on its own nodes then.

    Returns
    -------
    int
        s, less than ``before`` and than ``below``; −1 if there is none.
    """
    time, free, steps = profile.time, profile.free, profile.n[0]
    bound = min(before, below)
    k = 0
    while k < steps and time[k] < bound:
        if free[k] < n:
            k += 1
            continue
        end = min(time[k] + length, before)
        m = k + 1
        while m < steps and time[m] < end and free[m] >= n:
            m += 1
        if m == steps or time[m] >= end:
            return time[k]
        k = m + 1
    return -1


@part
def longest_idle(profile, n):
    """Say for how long ``n`` nodes are idle from now on: s, NEVER − 1 for ever, 0 if they are not now."""
    for k in range(profile.n[0]):
        if profile.free[k] < n:
            return profile.time[k] - profile.time[0]
    return NEVER - 1


@part
def _step_at(profile, moment):
    """Return the step that begins at ``moment``; one is made where there is none."""
    time, free, n_steps = profile.time, profile.free, profile.n
    low, high = 0, n_steps[0]
    while low < high:
        middle = (low + high) // 2
        if time[middle] < moment:
            low = middle + 1
        else:
            high = middle
    if low < n_steps[0] and time[low] == moment:
        return low
    for i in range(n_steps[0], low, -1):
        time[i] = time[i - 1]
        free[i] = free[i - 1]
    time[low] = moment
    free[low] = free[low - 1]
    n_steps[0] += 1
    return low


@part
def _merge_steps(profile, step):
    """Take a step away that changes nothing."""
    time, free, n_steps = profile.time, profile.free, profile.n
    if 0 < step < n_steps[0] and free[step] == free[step - 1]:
        n_steps[0] -= 1
        for i in range(step, n_steps[0]):
            time[i] = time[i + 1]
            free[i] = free[i + 1]


@part
def take(profile, start, end, n):
    """Hold ``n`` nodes (give back, if negative) from ``start`` until ``end``, s, both not before now."""
    if start >= end:
        return
    first = _step_at(profile, start)
    last = _step_at(profile, end)
    for i in range(first, last):
        profile.free[i] -= n
    _merge_steps(profile, last)
    _merge_steps(profile, first)


@part
def reserve(state, plan, job, start):
    """Plan a job; one that could start only after a job without a limit holds nothing."""
    plan.start[job] = min(start, FAR)
    plan.soonest[0] = min(plan.soonest[0], start)
    if start < FAR:
        take(plan.profile, start, min(start + state.estimate[job], FAR), state.n_nodes[job])


@part
def unreserve(state, plan, job):
    """Take a job's plan back."""
    start = plan.start[job]
    if start < FAR:
        take(plan.profile, start, min(start + state.estimate[job], FAR), -state.n_nodes[job])
    plan.start[job] = -1


@part
def lay_running(state, line):
    """Begin again with the running jobs only."""
    line.spare[0], line.spare[1] = -1, state.free_cpus.size
    for node in range(state.free_cpus.size):
        line.time[node] = state.now[0]
        line.behind[node] = -1
        line.cpus[node] = state.total_cpus[node]
        line.mem[node] = state.total_mem[node]
        line.gpus[node] = state.total_gpus[node]
    for i in range(state.n_running[0]):
        job = state.running[i]
        hold(state, line, job, state.node_list, state.now[0], state.expected_end[job], TAKE)


@part
def hold(state, line, job, node_list, start, end, sign):
    """Take a job's amounts on its nodes from ``start`` until ``end`` (`TAKE`), or give them back (`GIVE`)."""
    if start < end:
        tasks, first = state.tasks, state.node_first[job]
        for i in range(first, first + n_held(state, tasks, job)):
            hold_on(state, line, job, node_list[i], units_at(tasks, i), start, end, sign)


@part
def hold_on(state, line, job, node, units, start, end, sign):
    """Take the amounts of so many units of a job on one node, or give them back."""
    time, behind = line.time, line.behind
    whole, share = takes_whole(state, state.tasks, job), amounts(state, state.tasks, job, units)
    before, k = -1, node
    while behind[k] >= 0 and time[behind[k]] <= start:
        before, k = k, behind[k]
    if time[k] < start:
        before, k = k, _split(line, k, start)
    while True:
        if behind[k] < 0 or time[behind[k]] > end:
            _split(line, k, end)
        if whole:
            line.cpus[k] = -1 if sign < 0 else state.total_cpus[node]
            line.mem[k] = -1 if sign < 0 else state.total_mem[node]
            line.gpus[k] = -1 if sign < 0 else state.total_gpus[node]
        else:
            line.cpus[k] += sign * share[0]
            line.mem[k] += sign * share[1]
            line.gpus[k] += sign * share[2]
        if time[behind[k]] == end:
            break
        k = behind[k]
    _merge(line, k)
    if before >= 0:
        _merge(line, before)


@part
def _split(line, k, moment):
    """Let a step end at a moment; returns the new one behind it, in which nothing is different."""
    new = line.spare[0]
    if new >= 0:
        line.spare[0] = line.behind[new]
    else:
        new = line.spare[1]
        line.spare[1] += 1
    line.behind[new] = line.behind[k]
    line.behind[k] = new
    line.time[new] = moment
    line.cpus[new] = line.cpus[k]
    line.mem[new] = line.mem[k]
    line.gpus[new] = line.gpus[k]
    return new


@part
def _merge(line, k):
    """Take the step behind a step away if it changes nothing."""
    after = line.behind[k]
    if line.cpus[after] == line.cpus[k] and line.mem[after] == line.mem[k] and line.gpus[after] == line.gpus[k]:
        _take_away(line, k, after)


@part
def _take_away(line, k, after):
    line.behind[k] = line.behind[after]
    line.behind[after] = line.spare[0]
    line.spare[0] = after


@part
def holds_throughout(state, line, job, node, start, end):
    """Say whether a node holds a job from ``start`` until ``end``."""
    if (state.node_types[node] & state.types[job]) == 0:
        return False
    time, behind, k = line.time, line.behind, node
    while behind[k] >= 0 and time[behind[k]] <= start:
        k = behind[k]
    while k >= 0 and (k == node or time[k] < end):
        if line.cpus[k] < state.cpus[job] or line.mem[k] < state.mem[job]:
            return False
        if not enough_gpus(line.gpus[k], state.gpus[job], state.guards):
            return False
        k = behind[k]
    return True


@part
def drop_past(line, node, now):
    """Let a node's first step be the one that holds now."""
    after = line.behind[node]
    while after >= 0 and line.time[after] <= now:
        line.time[node] = line.time[after]
        line.cpus[node] = line.cpus[after]
        line.mem[node] = line.mem[after]
        line.gpus[node] = line.gpus[after]
        _take_away(line, node, after)
        after = line.behind[node]


@part
def _in_step(state, tasks, line, job, node, k):
    """Say how many units of a job a node whose GPUs will do holds in a step."""
    if tasks is None:
        return np.int64(
            line.cpus[k] >= state.cpus[job]
            and line.mem[k] >= state.mem[job]
            and enough_gpus(line.gpus[k], state.gpus[job], state.guards)
        )
    return units_in(state, tasks, state.shape[job], node, line.cpus[k], line.mem[k], line.gpus[k])


@part
def _next_start(state, tasks, line, job, node, k, start, before):
    """Find the first moment from ``start`` on, in step ``k`` or behind it, at which a node holds one unit throughout.

    Returns
    -------
    tuple of int
        The step, and s, at most ``before``; NEVER if there is none.
    """
    time, behind, length = line.time, line.behind, state.estimate[job]
    while start <= before and start < FAR:
        end = min(start + length, FAR)
        m = k
        while _in_step(state, tasks, line, job, node, m) > 0:
            m = behind[m]
            if m < 0 or time[m] >= end:
                return k, start
        k = behind[m]
        if k < 0:
            break
        start = time[k]
    return k, NEVER


@part
def soonest(state, line, job, nodes, n, before):
    """Find the earliest moment, not after ``before``, at which one of ``nodes[:n]`` holds a job as long as it lasts.

    ``nodes`` is ascending; the lowest row is laid into ``chosen``. Returns s, or −1 if there is none.
    """
    now, types = state.now[0], state.types[job]
    found = -1
    for i in range(n):
        node = nodes[i]
        if (state.node_types[node] & types) == 0:
            continue
        drop_past(line, node, now)
        start = _next_start(state, state.tasks, line, job, node, node, now, before)[1]
        if start < NEVER:
            found, before = start, start - 1
            state.chosen[0] = node
            if start == now:
                break
    if found >= 0:
        answer_units(state.tasks, state.chosen[0], 1)
        answer_nodes(state.tasks, 1)
    return found


@part
def find_nodes(state, line, job, before):
    """Find the earliest moment, not after ``before``, at which enough nodes hold a job as long as it lasts.

    The lowest rows of these nodes are laid into ``chosen``. Returns s, or −1 if there is none.
    """
    if state.n_nodes[job] == 1:
        return soonest(state, line, job, line.everywhere, line.at.size, before)
    return _find_several(state, state.tasks, line, job, before)


@part
def _find_several(state, tasks, line, job, before):
    at, moment, n_nodes, wanted = line.at, line.moment, line.at.size, state.n_nodes[job]
    if tasks is not None:
        return find_units(state, tasks, line, job, before)
    time, behind, now = line.time, line.behind, state.now[0]
    for node in range(n_nodes):
        moment[node] = NEVER
        if (state.node_types[node] & state.types[job]) != 0:
            drop_past(line, node, now)
            at[node], moment[node] = _next_start(state, tasks, line, job, node, node, now, before)
    start = now
    while True:
        found, later = 0, NEVER
        for node in range(n_nodes):
            if moment[node] < start:
                k = at[node]
                while behind[k] >= 0 and time[behind[k]] <= start:
                    k = behind[k]
                at[node], moment[node] = _next_start(state, tasks, line, job, node, k, start, before)
            if moment[node] == start:
                state.chosen[found] = node
                found += 1
                if found == wanted:
                    return start
            else:
                later = min(later, moment[node])
        if later == NEVER:
            return -1
        start = later


@part
def _throughout(state, tasks, line, job, node, k, start):
    """Say how many units a node holds from ``start``, in step ``k``, as long as the job lasts.

    Returns
    -------
    tuple of int
        The units; when the last step that holds no more is over, s, NEVER if there is none; and when the first step
        begins that is not looked at.
    """
    end = min(start + state.estimate[job], FAR)
    least, leaves = np.int64(1) << 60, NEVER
    while k >= 0 and (line.time[k] < end or least == np.int64(1) << 60):
        n = units_in(state, tasks, state.shape[job], node, line.cpus[k], line.mem[k], line.gpus[k])
        k = line.behind[k]
        if n <= least:
            least, leaves = n, line.time[k] if k >= 0 else NEVER
    if least == tasks.most[state.shape[job]]:
        leaves = NEVER
    return least, leaves, line.time[k] if k >= 0 else NEVER


@part
def find_units(state, tasks, line, job, before):
    """Do as `find_nodes` for a job of tasks: enough of them on as many nodes as may be.

    What a node holds grows only when the window leaves the step that holds least; so only these moments are tried.
    """
    shape, start, units = state.shape[job], state.now[0], tasks.units
    at, leaves, enters = line.at, line.moment, tasks.enters
    for node in range(at.size):
        drop_past(line, node, start)
        at[node], leaves[node] = node, start
    while start <= before and start < FAR:
        left, found, later, end = state.n_nodes[job], 0, NEVER, min(start + state.estimate[job], FAR)
        for node in range(at.size):
            if leaves[node] <= start or enters[node] < end:
                while line.behind[at[node]] >= 0 and line.time[line.behind[at[node]]] <= start:
                    at[node] = line.behind[at[node]]
                units[node], leaves[node], enters[node] = _throughout(state, tasks, line, job, node, at[node], start)
            later = min(later, leaves[node])
            if units[node] > 0:
                left -= units[node]
                state.chosen[found] = node
                found = lay_units(tasks, found, units[node])
        if left <= 0 and (not binds(tasks, shape) or spreads(tasks, shape, found, state.n_nodes[job])):
            rows_first(state, tasks, job, found)
            return start
        start = later
    return -1


@part
def longest_now(state, line, shape):
    """Say for how long enough nodes hold a shape from now on: s, NEVER − 1 for ever, 0 if not now.

    Of tasks, how long is not said: what holds them now is taken to do so for ever.
    """
    return _longest_now(state, state.tasks, line, shape)


@part
def _longest_now(state, tasks, line, shape):
    if tasks is not None:
        return _now_at_least(state, tasks, line, shape)
    shapes, wanted = state.shapes, state.shapes.n_nodes[shape]
    cpus, mem, gpus, types = shapes.cpus[shape], shapes.mem[shape], shapes.gpus[shape], shapes.types[shape]
    now, most, found = state.now[0], line.moment, 0
    for node in range(line.at.size):
        if (state.node_types[node] & types) == 0:
            continue
        drop_past(line, node, now)
        k = node
        while k >= 0 and line.cpus[k] >= cpus and line.mem[k] >= mem and enough_gpus(line.gpus[k], gpus, state.guards):
            k = line.behind[k]
        length = NEVER - 1 if k < 0 or line.time[k] >= FAR else line.time[k] - now
        if k == node or (found == wanted and length <= most[wanted - 1]):
            continue
        i = found if found < wanted else wanted - 1
        while i > 0 and most[i - 1] < length:
            most[i] = most[i - 1]
            i -= 1
        most[i] = length
        found = min(found + 1, wanted)
    return most[wanted - 1] if found == wanted else 0


@part
def _now_at_least(state, tasks, line, shape):
    left = state.shapes.n_nodes[shape]
    for node in range(line.at.size):
        drop_past(line, node, state.now[0])
        left -= units_in(state, tasks, shape, node, line.cpus[node], line.mem[node], line.gpus[node])
    return NEVER - 1 if left <= 0 else 0


@part
def holding_now(state, line, job):
    """Lay all nodes that hold a job from now on, as long as it lasts, into ``chosen``; returns how many."""
    now, found = state.now[0], 0
    for node in range(line.at.size):
        if (state.node_types[node] & state.types[job]) != 0:
            drop_past(line, node, now)
            if _held_now(state, state.tasks, line, job, node):
                state.chosen[found] = node
                found += 1
    return found


@part
def _held_now(state, tasks, line, job, node):
    """Say whether a node holds a job, of tasks any, from now on; and keep how many."""
    now = state.now[0]
    if tasks is None:
        return _next_start(state, tasks, line, job, node, node, now, now)[1] == now
    tasks.units[node] = _throughout(state, tasks, line, job, node, node, now)[0]
    return tasks.units[node] > 0


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
