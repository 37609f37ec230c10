"""The waiting jobs in lines, so that a decision looks at a few lines instead of thousands of jobs.

Jobs that can only be served one after another stand in one *line*: jobs of one shape under an order that
never changes, or jobs whose scores change alike under one that does. Three facts make decisions cheap:

* Between two moments no job that did not fit fits, unless a node was freed. So each line knows on how
  many nodes its shape fits, and only nodes that were touched since the last decision are looked at.
* Of a line only its first job can be next, or its first that ends in time: a tree over the line, with
  the least estimate below each of its knots, finds either in a few steps.
* A job joins and leaves its line once.

`docs/explanation/simulator.md` says what each of these gave.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from procure.policies.order import is_queue_order
from procure.simulator.arrays import filled, numbered
from procure.simulator.drive import specialised
from procure.simulator.kernel import inlined, kernel, part
from procure.simulator.seams import by_reference
from procure.simulator.state import State
from procure.simulator.tasks import units_in
from procure.simulator.usable import EVERY, count_units

NEVER = 1 << 62
"""The estimate of a place in a line at which no job waits."""
N_FILLED, N_SEEN, N_JOINED, DECIDED, DECISION = range(5)
"""What the counters count: lines in which jobs wait, jobs submitted and jobs waiting as far as the lines
know; the job of the last decision, −1 if none; and how many decisions there were."""


class Lines(NamedTuple):
    """Lines of waiting jobs, each in its order; ``filled`` holds those in which somebody waits.

    The tree of line ``l`` stands at ``root[l]``: its top is knot 1, knot ``k`` has the knots ``2 k`` and
    ``2 k + 1`` below it, and the ``width[l]`` last ones are the places of the line.
    """

    order: Any
    by_queue: bool  # the order is that of the queue
    ranked: bool  # jobs compare by rank; otherwise by their scores now
    by_shape: bool  # all jobs of a line have one shape
    rank: np.ndarray  # int64[n_jobs], place in an order that never changes
    line_of: np.ndarray  # int64[n_jobs]
    leaf_of: np.ndarray  # int64[n_jobs], the job's place in ``least``
    root: np.ndarray  # int64[n_lines]
    width: np.ndarray  # int64[n_lines], a power of two
    least: np.ndarray  # int64[], s; least estimate of those who wait at or below a knot
    job_at: np.ndarray  # int64[], whose place a knot is
    first: np.ndarray  # int64[n_lines], the first job in the line; n_jobs = nobody waits
    shape: np.ndarray  # int64[n_lines]; 0 unless ``by_shape``
    n_fitting: np.ndarray  # int64[n_lines], units of the line's shape that nodes hold; kept while it is filled
    all_nodes: np.ndarray  # bool[n_lines], these are those of all nodes; else all nodes hold at least as many
    filled: np.ndarray  # int64[n_lines], the first N_FILLED entries
    place: np.ndarray  # int64[n_lines], where the line stands in ``filled``
    refused: np.ndarray  # int64[n_lines], the decision in which the line was held back
    counters: np.ndarray  # int64[5]
    seen_cpus: np.ndarray  # int64[n_nodes], what was free when ``n_fitting`` was brought up to date
    seen_mem: np.ndarray  # int64[n_nodes], MB
    seen_gpus: np.ndarray  # int64[n_nodes]


def _fill_scores(state, order, scores):
    state, order = by_reference(state), by_reference(order)
    for job in range(scores.size):
        scores[job] = order.score(state, job)


def make_lines(state: State, order: Any, by_shape: bool, apart: tuple[np.ndarray, ...] = ()) -> Lines:
    """Lay out the lines of a run in which nothing has been submitted yet.

    Parameters
    ----------
    order
        A named tuple of a class of orders (`procure.simulator.seams.order`).
    by_shape
        Whether all jobs of a line must have one shape; needed to say who fits.
    apart
        Arrays [n_jobs]: jobs that differ in any of them stand in different lines, each in queue order
        unless the order never changes.
    """
    n_jobs = len(state.submit)
    rank = np.arange(n_jobs)
    by_queue = is_queue_order(order)
    alike = order.alike(state) if hasattr(order, "alike") else (np.arange(n_jobs),)
    if alike is None and not by_queue:
        scores = np.empty(n_jobs)
        specialised(_fill_scores, order)(state, order, scores)
        rank[np.argsort(scores, kind="stable")] = np.arange(n_jobs)
    line_of = numbered(*(alike or (np.zeros(n_jobs, np.int64),)), *([state.shape] if by_shape else []), *apart)
    size = np.bincount(line_of)
    width = 1 << np.ceil(np.log2(size)).astype(np.int64)
    root = np.cumsum(2 * width) - 2 * width
    stands = np.lexsort((rank, line_of))
    leaf_of = np.empty(n_jobs, np.int64)
    leaf_of[stands] = np.arange(n_jobs) + np.repeat(root + width - (np.cumsum(size) - size), size)
    job_at = np.full(int(root[-1] + 2 * width[-1]), -1, np.int64)
    job_at[leaf_of] = np.arange(n_jobs)
    shape = np.zeros(len(size), np.int64)
    if by_shape:
        shape[line_of] = state.shape
    return Lines(
        order=order,
        by_queue=by_queue,
        ranked=alike is None,
        by_shape=by_shape,
        rank=rank,
        line_of=line_of,
        leaf_of=leaf_of,
        root=root,
        width=width,
        job_at=job_at,
        shape=shape,
        all_nodes=np.zeros(len(size), np.bool_),
        **filled(len(job_at), least=NEVER),
        **filled(len(size), first=n_jobs, n_fitting=0, filled=0, place=0, refused=-1),
        counters=np.array([0, 0, 0, -1, 0], np.int64),
        seen_cpus=state.free_cpus.copy(),
        seen_mem=state.free_mem.copy(),
        seen_gpus=state.free_gpus.copy(),
    )


@part
def first_within(lines, line, bound):
    """Return the first job of a line whose estimate is at most ``bound``, s; −1 if there is none."""
    top, least = lines.root[line], lines.least
    if least[top + 1] > bound:
        return -1
    k = 1
    while k < lines.width[line]:
        k *= 2
        if least[top + k] > bound:
            k += 1
    return lines.job_at[top + k]


@part
def first_reached(lines, line, bound, reach):
    """Return the first job of a line, none queued behind ``reach``, whose estimate is at most ``bound``; −1 if none."""
    job = first_within(lines, line, bound)
    if job <= reach:
        return job
    top = lines.root[line] + lines.width[line]
    for leaf in range(top, top + lines.width[line]):
        if lines.least[leaf] <= bound and lines.job_at[leaf] <= reach:
            return lines.job_at[leaf]
    return -1


@part
def _set(top, leaf, least, value):
    """Write an estimate to a place of a line, and bring the knots above it up to date."""
    least[leaf] = value
    k = (leaf - top) >> 1
    while k >= 1:
        below = min(least[top + 2 * k], least[top + 2 * k + 1])
        if least[top + k] == below:
            return
        least[top + k] = below
        k >>= 1


@inlined
def _join(state, lines, job):
    line = lines.line_of[job]
    _set(lines.root[line], lines.leaf_of[job], lines.least, state.estimate[job])
    lines.counters[N_JOINED] += 1
    first = lines.first[line]
    if first == state.submit.size:
        lines.place[line] = lines.counters[N_FILLED]
        lines.filled[lines.counters[N_FILLED]] = line
        lines.counters[N_FILLED] += 1
        if lines.by_shape and not state.pool:
            enough = state.shapes.n_nodes[lines.shape[line]]
            lines.n_fitting[line] = count_units(state, state.tasks, lines.shape[line], enough)
            lines.all_nodes[line] = lines.n_fitting[line] < enough
        lines.first[line] = job
    elif lines.rank[job] < lines.rank[first]:
        lines.first[line] = job


@part
def _quit(state, lines, job):
    line = lines.line_of[job]
    _set(lines.root[line], lines.leaf_of[job], lines.least, NEVER)
    lines.counters[N_JOINED] -= 1
    if lines.first[line] != job:
        return
    first = first_within(lines, line, NEVER - 1)
    if first >= 0:
        lines.first[line] = first
        return
    lines.first[line] = state.submit.size
    lines.counters[N_FILLED] -= 1
    last = lines.filled[lines.counters[N_FILLED]]
    lines.filled[lines.place[line]] = last
    lines.place[last] = lines.place[line]


@part
def holds_line(state, lines, line):
    """Say whether all nodes hold the units that a job of a line asks for."""
    wanted = state.shapes.n_nodes[lines.shape[line]]
    if lines.n_fitting[line] < wanted and not lines.all_nodes[line]:
        lines.n_fitting[line] = count_units(state, state.tasks, lines.shape[line], EVERY)
        lines.all_nodes[line] = True
    return lines.n_fitting[line] >= wanted


@inlined
def _look_again(state, lines, node):
    """Bring the counts of the filled lines up to what a node has free now."""
    tasks, filled, shape_of, n_fitting = state.tasks, lines.filled, lines.shape, lines.n_fitting
    had_cpus, had_mem, had_gpus = lines.seen_cpus[node], lines.seen_mem[node], lines.seen_gpus[node]
    has_cpus, has_mem, has_gpus = state.free_cpus[node], state.free_mem[node], state.free_gpus[node]
    if had_cpus == has_cpus and had_mem == has_mem and had_gpus == has_gpus:
        return
    for i in range(lines.counters[N_FILLED]):
        line = filled[i]
        before = units_in(state, tasks, shape_of[line], node, had_cpus, had_mem, had_gpus)
        after = units_in(state, tasks, shape_of[line], node, has_cpus, has_mem, has_gpus)
        if before != after:
            n_fitting[line] += after - before
    lines.seen_cpus[node], lines.seen_mem[node], lines.seen_gpus[node] = has_cpus, has_mem, has_gpus


@kernel
def follow_queue(state, lines):
    """Bring the lines up to what was started, freed and submitted since the last decision."""
    counters = lines.counters
    counters[DECISION] += 1
    decided = counters[DECIDED]
    if decided >= 0:
        if state.start[decided] >= 0:
            _quit(state, lines, decided)
        counters[DECIDED] = -1
    if lines.by_shape and not state.pool:
        touched = state.touched
        for i in range(touched.n[0]):
            node = touched.nodes[i]
            touched.marked[node] = False
            _look_again(state, lines, node)
        touched.n[0] = 0
    n_jobs = state.submit.size
    if state.n_submitted[0] > counters[N_SEEN]:
        job = state.previous_waiting[n_jobs]
        while job != n_jobs and job >= counters[N_SEEN]:
            _join(state, lines, job)
            job = state.previous_waiting[job]
        counters[N_SEEN] = state.n_submitted[0]
    if counters[N_JOINED] != state.n_waiting[0]:  # somebody else has started jobs
        for job in range(state.n_submitted[0]):
            if state.start[job] >= 0 and lines.least[lines.leaf_of[job]] != NEVER:
                _quit(state, lines, job)


@part
def precedes(state, lines, job, other):
    """Say whether the order serves a job before another; ties go to the earlier queued one."""
    if lines.ranked:
        return lines.rank[job] < lines.rank[other]
    value, least = lines.order.score(state, job), lines.order.score(state, other)
    return value < least or (value == least and job < other)


@part
def refuse(lines, job):
    """Hold back a job's line until the next decision."""
    lines.refused[lines.line_of[job]] = lines.counters[DECISION]


@part
def first_of(state, lines, place, fitting_only):
    """Return the job that the order serves first, of all or of those that fit; n_jobs if there is none."""
    filled, first, rank = lines.filled, lines.first, lines.rank
    n_jobs = state.submit.size
    best = n_jobs
    least = np.inf
    for i in range(lines.counters[N_FILLED]):
        line = filled[i]
        if lines.refused[line] == lines.counters[DECISION] or (fitting_only and not place.fits(state, lines, line)):
            continue
        job = first[line]
        if lines.ranked:
            if best == n_jobs or rank[job] < rank[best]:
                best = job
        else:
            value = lines.order.score(state, job)
            if value < least or (value == least and job < best):
                best, least = job, value
    return best
