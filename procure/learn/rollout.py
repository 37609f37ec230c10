"""Rollouts: the queue is simulated ahead under a few orders with expected run times, and the best one decides."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from procure.learn.features import expected_run_time, follow_classes, observe
from procure.learn.scores import Scored, cheapest_node, free_share, score, scored, start_job
from procure.policies.lines import N_FILLED, follow_queue
from procure.simulator.kernel import kernel
from procure.simulator.state import WAIT, State
from procure.simulator.steps import holds

ORDERS = ("learned", "run_time", "area", "requested")
"""What is tried: the trained score, the shortest expected run time, the smallest expected run time × share of
the dominant resource, and the shortest request. Of equals, the first."""
LEARNED, RUN_TIME, AREA, REQUESTED = range(4)
ORDER, SINCE, N_TRIED = range(3)
"""What the notes hold: the order that decides, the second from which on it does, and rollouts so far."""
LEFT_AT_LEAST = 0.1
"""A running job is expected to run on for at least this share of its expected run time."""


class Ahead(NamedTuple):
    """What rollouts have of their own in a run."""

    scored: Scored
    horizon: int  # s
    every: int  # s
    shadow: State  # the state with free resources of its own
    keys: np.ndarray  # float64[n_orders, n_lines]
    order: np.ndarray  # int64[n_lines], room: filled lines by key
    n_left: np.ndarray  # int64[n_lines], room: who waits in the simulation
    end: np.ndarray  # int64[n_jobs], s; of the entries that run in the simulation
    job: np.ndarray  # int64[n_jobs], whose request an entry has
    at: np.ndarray  # int64[n_jobs], where an entry's nodes stand in ``nodes``
    nodes: np.ndarray  # int64[sum of n_nodes]
    notes: np.ndarray  # int64[3]


def make_ahead(state: State, own: Scored, horizon: int, every: int) -> Ahead:
    """Lay out what rollouts need in one run."""
    n_lines, n_jobs = len(own.lines.first), len(state.submit)
    shadow = state._replace(
        free_cpus=state.free_cpus.copy(), free_mem=state.free_mem.copy(), free_gpus=state.free_gpus.copy()
    )
    lines = (np.zeros(n_lines, np.int64) for _ in range(2))
    jobs = (np.zeros(n_jobs, np.int64) for _ in range(3))
    return Ahead(  # type: ignore[call-arg]
        own,
        horizon,
        every,
        shadow,
        np.zeros((len(ORDERS), n_lines)),
        *lines,
        *jobs,
        np.zeros(len(state.node_list), np.int64),
        np.array([LEARNED, -every, 0], np.int64),
    )


@kernel
def _find_keys(state, own):
    """Fill ``keys`` with each filled line's place in each order, as it is now."""
    base = own.scored
    lines, kin = base.lines, base.kin
    queue, free = math.log10(1.0 + state.n_waiting[0]) / 3.0, free_share(state)
    for i in range(lines.counters[N_FILLED]):
        line = lines.filled[i]
        run = expected_run_time(kin, line, state.now[0])
        observe(state, kin, line, lines.first[line], 0.0, queue, free, base.row)
        own.keys[LEARNED, line] = score(base.weights, base.hidden, base.row)
        own.keys[RUN_TIME, line] = run
        own.keys[AREA, line] = run * 10.0 ** (2.0 * kin.fixed[line, 1])
        own.keys[REQUESTED, line] = kin.requested[line]


@kernel
def _sort_lines(own, which):
    """Lay the filled lines into ``order`` by an order's key, then by their first job: insertion sort."""
    lines = own.scored.lines
    keys, order, first = own.keys, own.order, lines.first
    n = lines.counters[N_FILLED]
    for i in range(n):
        line = lines.filled[i]
        k = i
        while k > 0 and (
            keys[which, order[k - 1]] > keys[which, line]
            or (keys[which, order[k - 1]] == keys[which, line] and first[order[k - 1]] > first[line])
        ):
            order[k] = order[k - 1]
            k -= 1
        order[k] = line
    return n


@kernel
def _move(shadow, job, node, sign):
    """Take one node's share of a job (sign −1), or give it back (1)."""
    if shadow.options.exclusive:
        shadow.free_cpus[node] = shadow.total_cpus[node] if sign > 0 else -1
        shadow.free_mem[node] = shadow.total_mem[node] if sign > 0 else -1
        shadow.free_gpus[node] = shadow.total_gpus[node] if sign > 0 else -1
    else:
        shadow.free_cpus[node] += sign * shadow.cpus[job]
        shadow.free_mem[node] += sign * shadow.mem[job]
        shadow.free_gpus[node] += sign * shadow.gpus[job]


@kernel
def _find_nodes(shadow, job, places, nodes, at):
    """Lay the nodes for a job into ``nodes`` from ``at`` on; says whether there are enough."""
    wanted = shadow.n_nodes[job]
    if wanted == 1:
        nodes[at] = cheapest_node(shadow, job, places)
        return nodes[at] >= 0
    found = 0
    for node in range(shadow.free_cpus.size):
        if holds(shadow, node, job):
            nodes[at + found] = node
            found += 1
            if found == wanted:
                return True
    return False


@kernel
def _begin(state, own):
    """Copy what runs, waits and is free; returns (entries that run, nodes laid down, jobs that wait)."""
    base, shadow = own.scored, own.shadow
    lines, kin, now = base.lines, base.kin, state.now[0]
    for node in range(state.free_cpus.size):
        shadow.free_cpus[node] = state.free_cpus[node]
        shadow.free_mem[node] = state.free_mem[node]
        shadow.free_gpus[node] = state.free_gpus[node]
    waiting = laid = 0
    for i in range(lines.counters[N_FILLED]):
        line = lines.filled[i]
        own.n_left[line] = kin.n_waiting[line]
        waiting += kin.n_waiting[line]
    for entry in range(state.n_running[0]):
        job = state.running[entry]
        expected = expected_run_time(kin, lines.line_of[job], now)
        left = max(expected - (now - state.start[job]), LEFT_AT_LEAST * expected, 1.0)
        own.end[entry] = now + np.int64(left)
        own.job[entry] = job
        own.at[entry] = laid
        for k in range(state.node_first[job], state.node_first[job + 1]):
            own.nodes[laid] = state.node_list[k]
            laid += 1
    return state.n_running[0], laid, waiting


@kernel
def _end(shadow, own, running, now):
    """Give back the nodes of every entry that ends now, before anybody is placed; returns how many run on."""
    entry = 0
    while entry < running:
        if own.end[entry] > now:
            entry += 1
            continue
        for k in range(shadow.n_nodes[own.job[entry]]):
            _move(shadow, own.job[entry], own.nodes[own.at[entry] + k], 1)
        running -= 1
        own.end[entry], own.job[entry] = own.end[running], own.job[running]
        own.at[entry] = own.at[running]
    return running


@kernel
def waiting_ahead(state, own, which):
    """Return the seconds that jobs of the queue wait within the horizon if an order serves it; nobody joins it."""
    base, shadow = own.scored, own.shadow
    lines, kin = base.lines, base.kin
    n_lines = _sort_lines(own, which)
    running, laid, waiting = _begin(state, own)
    now = state.now[0]
    until = now + own.horizon
    total = 0
    while True:
        for i in range(n_lines):
            line = own.order[i]
            job = lines.first[line]
            while own.n_left[line] > 0 and _find_nodes(shadow, job, base.places, own.nodes, laid):
                for k in range(shadow.n_nodes[job]):
                    _move(shadow, job, own.nodes[laid + k], -1)
                run = max(expected_run_time(kin, line, state.now[0]), 1.0)
                own.end[running], own.job[running], own.at[running] = now + np.int64(run), job, laid
                running += 1
                laid += shadow.n_nodes[job]
                own.n_left[line] -= 1
                waiting -= 1
        if waiting == 0 or running == 0:
            return total + waiting * (until - now)
        soonest = 0
        for entry in range(1, running):
            if own.end[entry] < own.end[soonest]:
                soonest = entry
        moment = min(own.end[soonest], until)
        total += waiting * (moment - now)
        now = moment
        if now == until:
            return total
        running = _end(shadow, own, running, now)


@kernel
def _any_fits(state, base):
    lines = base.lines
    for i in range(lines.counters[N_FILLED]):  # noqa: SIM110 - Numba compiles no generator
        if base.nodes.fits(state, lines, lines.filled[i]):
            return True
    return False


@kernel
def rolled_out(state, own):
    """Choose between orders by simulating the queue ahead; then start the first that fits in the best order.

    At most once in ``every`` seconds the queue is simulated ``ahead`` seconds under each of `ORDERS`, with
    expected run times and without further submissions; the order under which its jobs wait least decides until
    the next time. A running job is expected to run on for what is left of its expected run time.
    """
    base, notes = own.scored, own.notes
    lines, kin = base.lines, base.kin
    follow_classes(state, lines, kin)
    follow_queue(state, lines)
    if not _any_fits(state, base):
        return WAIT
    if state.now[0] >= notes[SINCE] + own.every and state.n_waiting[0] > 1:
        _find_keys(state, own)
        notes[SINCE] = state.now[0]
        notes[N_TRIED] += 1
        least = waiting_ahead(state, own, LEARNED)
        notes[ORDER] = LEARNED
        for which in range(1, len(ORDERS)):
            total = waiting_ahead(state, own, which)
            if total < least:
                notes[ORDER], least = which, total
    if notes[ORDER] == LEARNED:
        return scored(state, base)
    _find_keys(state, own)
    best = -1
    for i in range(lines.counters[N_FILLED]):
        line = lines.filled[i]
        if base.nodes.fits(state, lines, line) and (
            best < 0
            or own.keys[notes[ORDER], line] < own.keys[notes[ORDER], best]
            or (own.keys[notes[ORDER], line] == own.keys[notes[ORDER], best] and lines.first[line] < lines.first[best])
        ):
            best = line
    return start_job(state, base, lines.first[best])
