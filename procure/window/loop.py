"""The policy `window`: jobs wait until their window closes, and are then placed together.

As in the published program: window k closes at k · length after the first submission, and looks at jobs
submitted before that. It is skipped if since the last one nobody was submitted and nobody ended.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.drive import loop
from procure.simulator.state import WAIT
from procure.topology.shared_links import Places
from procure.window.board import MODULUS, compiled, lay_out
from procure.window.solve import solve_compiled

CLOSED_AT, ARRIVED, ENDED, N_WINDOWS, START_AT, N_PICKED, N_ALONE, NEXT, N_IDLE, MOMENT, SEEN = range(11)
"""What the notes hold: the last window, what it had seen, the jobs that are to start, and how far ends are counted."""


class WindowOwn(NamedTuple):
    """The parameters, and what the policy keeps during a run."""

    method: int
    steps: int
    with_exact: int
    seed: int
    length: int  # s
    most_jobs: int  # of several nodes
    solve_time: int  # s
    tree: Places
    places: np.ndarray  # int64[sum of n_nodes], each job's places, as `State.node_list` has rows
    idle: np.ndarray  # int64[n_places], room for the places of the idle nodes
    n_ended: np.ndarray  # int64[1], jobs that have ended
    picked: np.ndarray  # int64[n_nodes], jobs of several nodes that are to start, then those of one node
    keys: np.ndarray  # int64[n_jobs], room for sorting
    admitted: np.ndarray  # int64[n_jobs], s of the first window that saw the job
    notes: np.ndarray  # int64[11]


@compiled
def window(state, own):
    """Collect jobs for ``length`` seconds, then place them together; until then everybody waits.

    A window takes jobs by how many windows they have waited (most first), then by nodes (fewest first),
    then in queue order, until the next does not fit the idle nodes or would be one too many
    (``most_jobs``, of several nodes). Jobs of one node then get the first idle nodes that are left.
    """
    if close_window(state, own):
        solve_window(state, own)
    return next_start(state, own)


@compiled
def window_loop(world, state, own):
    """The compiled loop of `window`."""
    return loop(world, state, window, own)


@compiled
def _count_ends(state, own):
    """Count the jobs that ended since the last call."""
    notes = own.notes
    seen = notes[SEEN] if notes[MOMENT] == state.now[0] else 0
    own.n_ended[0] += state.n_ended[0] - seen
    notes[MOMENT], notes[SEEN] = state.now[0], state.n_ended[0]


@compiled
def close_window(state, own):
    """Say whether a window closes now with jobs that are to be solved; ``picked`` then holds them."""
    _count_ends(state, own)
    notes, now = own.notes, state.now[0]
    if now % own.length or now == notes[CLOSED_AT] or notes[NEXT] < notes[N_PICKED] + notes[N_ALONE]:
        return False
    arrived = state.n_submitted[0]
    while arrived > 0 and state.submit[arrived - 1] == now:
        arrived -= 1
    notes[CLOSED_AT] = now
    if arrived == notes[ARRIVED] and own.n_ended[0] == notes[ENDED]:
        return False
    own.admitted[notes[ARRIVED] : arrived] = now
    notes[ARRIVED], notes[ENDED] = arrived, own.n_ended[0]
    _pick(state, own, arrived)
    n_taken = notes[N_PICKED] + notes[N_ALONE]
    if n_taken > 0:
        notes[N_WINDOWS] += 1
        notes[START_AT] = now + own.solve_time
    return notes[N_PICKED] > 0


@compiled
def _list_idle(state, own):
    """Write the places of the idle nodes to ``idle``, ascending; returns how many."""
    n, row = 0, own.tree.row
    for place in range(row.size):
        if row[place] >= 0 and state.free_cpus[row[place]] >= 0:
            own.idle[n] = place
            n += 1
    return n


@compiled
def _pick(state, own, arrived):
    """Choose the window's jobs: ``picked`` begins with those of several nodes and ends with those of one."""
    notes = own.notes
    left = notes[N_IDLE] = _list_idle(state, own)
    notes[N_PICKED] = notes[N_ALONE] = notes[NEXT] = 0
    n_jobs = state.submit.size
    job = state.next_waiting[n_jobs]
    while job < arrived and left > 0:  # jobs that one window saw first have waited for equally many
        seen_first = own.admitted[job]
        n = 0
        while job < arrived and own.admitted[job] == seen_first:
            own.keys[n] = state.n_nodes[job] * (n_jobs + 1) + job
            n += 1
            job = state.next_waiting[job]
        own.keys[:n].sort()
        for key in own.keys[:n]:
            size, other = key // (n_jobs + 1), key % (n_jobs + 1)
            if size > left or (size > 1 and notes[N_PICKED] == own.most_jobs):
                return
            left -= size
            if size > 1:
                own.picked[notes[N_PICKED]] = other
                notes[N_PICKED] += 1
            else:
                notes[N_ALONE] += 1
                own.picked[own.picked.size - notes[N_ALONE]] = other


@compiled
def solve_window(state, own):
    """Solve the window by a compiled method and note each job's places."""
    sizes = np.empty(own.notes[N_PICKED], np.int64)
    for i in range(sizes.size):
        sizes[i] = state.n_nodes[own.picked[i]]
    idle = own.idle[: own.notes[N_IDLE]]
    board = lay_out(own.tree.shape, idle, sizes, (own.seed + own.notes[N_WINDOWS]) % MODULUS)
    solve_compiled(board, own.method, own.steps, own.with_exact)
    note_places(state, own, board.first, board.held)


@compiled
def note_places(state, own, first, held):
    """Note the places of the picked jobs; ``held[first[j]:first[j + 1]]`` are positions of ``idle``."""
    for i in range(first.size - 1):
        begin = state.node_first[own.picked[i]]
        for k in range(first[i], first[i + 1]):
            own.places[begin + k - first[i]] = own.idle[held[k]]


@compiled
def next_start(state, own):
    """Answer with the next job that is to start now, or ask to be called when there may be one."""
    notes, now = own.notes, state.now[0]
    n_taken = notes[N_PICKED] + notes[N_ALONE]
    if notes[NEXT] == n_taken or now < notes[START_AT]:
        state.wake[0] = (now // own.length + 1) * own.length if notes[NEXT] == n_taken else notes[START_AT]
        return WAIT, state.chosen[:0]
    i = notes[NEXT]
    notes[NEXT] += 1
    if i < notes[N_PICKED]:
        return _start_on_places(state, own, own.picked[i])
    job = own.picked[own.picked.size - (i - notes[N_PICKED]) - 1]
    _list_idle(state, own)
    own.places[state.node_first[job]] = own.idle[0]
    return _start_on_places(state, own, job)


@compiled
def _start_on_places(state, own, job):
    """Answer with a job whose places stand in ``places``."""
    places = own.places[state.node_first[job] : state.node_first[job + 1]]
    places.sort()
    for i in range(places.size):
        state.chosen[i] = own.tree.row[places[i]]
    return job, state.chosen[: places.size]
