"""The policy `closest`: one job at a time, each at the start along the idle nodes that costs least."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.drive import loop
from procure.simulator.state import FAR, WAIT
from procure.window.board import best_start, compiled, lay_out, line_up, put
from procure.window.placing import Placing, deal_with_ends, list_idle, start_on_places


class ClosestOwn(NamedTuple):
    """The parameters, and what the policy keeps during a run."""

    backfill: int
    placing: Placing
    notes: np.ndarray  # int64[4]


HEAD, CHANGES, SHADOW, EXTRA = range(4)
"""What the notes hold: whose reservation stands, after how many changes, its time and the nodes that it leaves."""


@compiled
def closest(state, own):
    """Start the first job of the queue at its best start; else, under EASY, one that does not delay it.

    The best start is that along the line of idle nodes, cyclic, whose nodes have the fewest hops between
    them; ties: the first. All nodes are alike and jobs take them whole, so who starts when is as under
    ``easy:exclusive=true``.
    """
    deal_with_ends(state, own.placing)
    n_jobs = state.submit.size
    head = state.next_waiting[n_jobs]
    if head == n_jobs:
        return WAIT, state.chosen[:0]
    if state.n_nodes[head] <= state.n_idle[0]:
        return _start(state, own, head)
    if not own.backfill:
        return WAIT, state.chosen[:0]
    notes = own.notes
    if notes[HEAD] != head or notes[CHANGES] != state.n_changes[0]:
        notes[HEAD], notes[CHANGES] = head, state.n_changes[0]
        _reserve(state, own, head)
    job = state.next_waiting[head]
    while job != n_jobs and state.n_idle[0] > 0:
        if state.n_nodes[job] <= state.n_idle[0]:
            in_time = min(state.now[0] + state.estimate[job], FAR) <= notes[SHADOW]
            if in_time or state.n_nodes[job] <= notes[EXTRA]:
                notes[EXTRA] -= 0 if in_time else state.n_nodes[job]
                notes[CHANGES] = state.n_changes[0] + 1  # what it takes is foreseen
                return _start(state, own, job)
        job = state.next_waiting[job]
    return WAIT, state.chosen[:0]


@compiled
def closest_loop(world, state, own):
    """The compiled loop of `closest`."""
    return loop(world, state, closest, own)


@compiled
def _reserve(state, own, head):
    """Find when running jobs, ending as expected, leave the first job its nodes, and how many more."""
    free = state.n_idle[0]
    i = 0
    while free < state.n_nodes[head]:
        free += state.n_nodes[state.running[i]]
        i += 1
    shadow = state.expected_end[state.running[i - 1]]
    while i < state.n_running[0] and state.expected_end[state.running[i]] == shadow:
        free += state.n_nodes[state.running[i]]
        i += 1
    own.notes[SHADOW], own.notes[EXTRA] = shadow, free - state.n_nodes[head]


@compiled
def _start(state, own, job):
    placing = own.placing
    idle = placing.idle[: list_idle(state, placing)]
    board = lay_out(placing.shape, idle, state.n_nodes[job : job + 1], 0)
    n_line = line_up(board)
    start, _ = best_start(board, n_line, state.n_nodes[job])
    put(board, 0, n_line, start)
    for i in range(state.n_nodes[job]):
        placing.places[state.node_first[job] + i] = idle[board.held[i]]
    return start_on_places(state, placing, job)
