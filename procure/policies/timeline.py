"""What is free over time on shared or unlike nodes: the CPUs, memory and GPUs of every node.

Each node has a chain of steps of its own, so that a plan moves only those of its nodes, and all is kept from a moment
to another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.policies.names import FIRST
from procure.policies.spread import spread
from procure.simulator.kernel import part
from procure.simulator.state import FAR, NEVER
from procure.simulator.tasks import (
    amounts,
    answer_nodes,
    answer_units,
    binds,
    enough_gpus,
    lay_units,
    n_held,
    spreads,
    takes_whole,
    units_at,
    units_in,
)

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

    Returns the step, and s, at most ``before``; NEVER if there is none.
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
def find_nodes(state, tasks, line, job, before):
    """Find the earliest moment, not after ``before``, at which enough nodes hold a job as long as it lasts.

    The lowest rows of these nodes are laid into ``chosen``. Returns s, or −1 if there is none.
    """
    if state.n_nodes[job] == 1:
        return soonest(state, line, job, line.everywhere, line.at.size, before)
    if tasks is not None:
        return find_units(state, tasks, line, job, before)
    at, moment, n_nodes, wanted = line.at, line.moment, line.at.size, state.n_nodes[job]
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

    Also when the last step that holds no more is over, s, NEVER if there is none; and when the first step begins that
    is not looked at.
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
            spread(state, tasks, job, found, FIRST, tasks.keys)
            return start
        start = later
    return -1


@part
def longest_now(state, tasks, line, shape):
    """Say for how long enough nodes hold a shape from now on: s, NEVER − 1 for ever, 0 if not now.

    Of tasks, how long is not said: what holds them now is taken to do so for ever.
    """
    if tasks is not None:
        left = state.shapes.n_nodes[shape]
        for node in range(line.at.size):
            drop_past(line, node, state.now[0])
            left -= units_in(state, tasks, shape, node, line.cpus[node], line.mem[node], line.gpus[node])
        return NEVER - 1 if left <= 0 else 0
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
def holding_now(state, tasks, line, job):
    """Lay all nodes that hold a job, or some of its tasks, from now on into ``chosen``; returns how many nodes."""
    now, found = state.now[0], 0
    for node in range(line.at.size):
        if (state.node_types[node] & state.types[job]) != 0:
            drop_past(line, node, now)
            if tasks is None:
                n = np.int64(_next_start(state, tasks, line, job, node, node, now, now)[1] == now)
            else:
                n = _throughout(state, tasks, line, job, node, node, now)[0]
            answer_units(tasks, node, n)
            if n > 0:
                state.chosen[found] = node
                found += 1
    return found
