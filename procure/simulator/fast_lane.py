"""Best-fit bin packing of single-node jobs, as one compiled loop: the sweep's fast lane.

The rule is that of `procure.policies.best_fit`, and so is every start time and node; only the search
is cheaper. Between two moments no waiting job fits any node, or it would have started. So at a moment
only two things can matter: the nodes that a completion has just touched, for the shapes that were
waiting already, and all nodes, for the shapes that have just begun to wait. When a job starts, only
its node's margins change, and they fall: the other shapes look at that one node, and only a shape
whose best node no longer holds it looks around again.

Two representations make the scans short, both by measurement:

* A node's free resources are one integer with a guard bit above each field. A request fits if
  subtracting it leaves every guard bit set, and what is left are the fields ``free − asked``.
* Running jobs stand in a timing wheel (Varghese and Lauck, SOSP 1987): level ``v`` holds the jobs
  whose end first differs from the present in digit ``v`` to the base 1,024. Times are whole seconds,
  so a slot of level 0 is one moment.

Helpers that take arrays would cost two reference counts per array and call here, so the scans stand
in line.
"""

from __future__ import annotations

import numpy as np

from procure.files.kernels import njit
from procure.simulator.arrays import Jobs, Kinds, guards_of
from procure.simulator.metrics import measure, measure_groups

_DIGIT = 10  # bits
_SLOTS = 1 << _DIGIT
_LEVELS = 4
LONGEST = 1 << (_DIGIT * _LEVELS)
"""Times from here on (s after the first submission) do not fit the wheel."""
_TOP_GUARD = 1 << 62


class FastLaneError(ValueError):
    """The fast lane cannot represent this workload; the plain loop can."""


def field_bits(jobs: Jobs, kinds: Kinds) -> tuple[int, int, int]:
    """Return how many bits the amounts of memory, CPUs and GPUs need in a node's word, or say that they do not fit."""
    bits = tuple(
        int(max(column.max(initial=0) for column in pair)).bit_length()
        for pair in (
            (jobs.shape_mem, kinds.mem),
            (jobs.shape_cpus, kinds.cpus),
            (jobs.shape_gpus, kinds.gpus),
        )
    )
    if sum(bits) + 3 + len(kinds.mem).bit_length() > 61:
        raise FastLaneError("the amounts of memory, CPUs and GPUs need more than 61 bits together")
    return bits[0], bits[1], bits[2]


def check_fast_lane(jobs: Jobs, kinds: Kinds, durations: np.ndarray) -> tuple[int, int, int]:
    """Return `field_bits`, or say why the fast lane cannot run this workload."""
    if jobs.tasks is not None:
        raise FastLaneError("a job asks for tasks that may stand on several nodes, or for whole nodes")
    if (jobs.n_nodes > 1).any():
        raise FastLaneError("a job asks for several nodes")
    if guards_of(jobs, kinds) is not None:
        raise FastLaneError("a node has several GPU models")
    if int(jobs.submit[-1]) + sum(map(int, durations.max(axis=0))) >= LONGEST:
        raise FastLaneError(f"the jobs one after another last beyond {LONGEST} s")
    return field_bits(jobs, kinds)


@njit(cache=True, nogil=True, error_model="numpy")
def best_fit_schedule(jobs, kinds, fits_empty, kind_of, durations, bits, start, end, node_of):
    """Run single-node jobs on the nodes; returns the most jobs that waited after the decisions of a moment.

    ``fits_empty`` is of `arrays.fits_empty`, ``kind_of`` uint32[n_nodes], ``durations`` int64[n_speeds, n_jobs], s,
    ``bits`` of `field_bits`. Filled are ``start`` and ``end``, int64[n_jobs], s after the first submission, and
    ``node_of``, int32[n_jobs]; −1 for a job that no empty node holds.
    """
    submit, shape_of, line_job = jobs.submit, jobs.shape_of, jobs.line_job
    asks_mem, asks_cpu, asks_gpu = jobs.shape_mem > 0, jobs.shape_cpus > 0, jobs.shape_gpus > 0
    kind_mem, kind_cpu, kind_gpu = (
        kinds.mem.astype(np.float64),
        kinds.cpus.astype(np.float64),
        kinds.gpus.astype(np.float64),
    )
    kind_speed = kinds.speed
    n_jobs, n_shapes, n_nodes, n_kinds = submit.size, asks_mem.size, kind_of.size, kind_mem.size

    # Fields from the lowest bit: GPUs, guard, CPUs, guard, memory, guard, kind; nothing borrows the top guard.
    mem_bits, cpu_bits, gpu_bits = bits
    cpu_shift = gpu_bits + 1
    mem_shift = cpu_shift + cpu_bits + 1
    kind_shift = mem_shift + mem_bits + 1
    mem_mask, cpu_mask, gpu_mask = (1 << mem_bits) - 1, (1 << cpu_bits) - 1, (1 << gpu_bits) - 1
    guards = (1 << gpu_bits) | (1 << (cpu_shift + cpu_bits)) | (1 << (mem_shift + mem_bits)) | _TOP_GUARD
    word = np.empty(n_kinds, np.int64)
    for q in range(n_kinds):
        word[q] = (
            (q << kind_shift) | (kinds.mem[q] << mem_shift) | (kinds.cpus[q] << cpu_shift) | kinds.gpus[q] | guards
        )
    free = np.empty(n_nodes, np.int64)
    present = np.zeros(n_kinds, np.bool_)
    for n in range(n_nodes):
        free[n] = word[kind_of[n]]
        present[kind_of[n]] = True
    asked = np.empty(n_shapes, np.int64)
    n_asked = np.empty(n_shapes, np.float64)
    typed = np.empty(n_shapes, np.bool_)
    runnable = np.zeros(n_shapes, np.bool_)
    for s in range(n_shapes):
        asked[s] = (jobs.shape_mem[s] << mem_shift) | (jobs.shape_cpus[s] << cpu_shift) | jobs.shape_gpus[s]
        n_asked[s] = max(1, np.int64(asks_mem[s]) + np.int64(asks_cpu[s]) + np.int64(asks_gpu[s]))
        typed[s] = jobs.shape_types[s] != -1
        for q in range(n_kinds):
            if present[q] and fits_empty[s, q]:
                runnable[s] = True

    def margin_of(left, s, q):  # the compiler puts it in line
        margin = ((left >> mem_shift) & mem_mask) / kind_mem[q] if asks_mem[s] else 0.0
        if asks_cpu[s]:
            margin += ((left >> cpu_shift) & cpu_mask) / kind_cpu[q]
        if asks_gpu[s]:
            margin += (left & gpu_mask) / kind_gpu[q]
        return margin / n_asked[s]

    head, tail = jobs.line_first[:-1].copy(), jobs.line_first[:-1].copy()
    waiting = np.empty(n_shapes, np.uint32)  # shapes with a line, in no order
    looking = np.empty(n_shapes, np.uint32)  # shapes that must find their best node
    active = np.empty(n_shapes, np.uint32)  # shapes that have one
    fresh = np.zeros(n_shapes, np.bool_)  # began to wait at this moment
    best_node = np.empty(n_shapes, np.uint32)
    best_margin = np.empty(n_shapes, np.float64)
    touched = np.empty(n_nodes, np.uint32)
    is_touched = np.zeros(n_nodes, np.bool_)
    slot = np.full((_LEVELS, _SLOTS), -1, np.int32)
    n_in_level = np.zeros(_LEVELS, np.int64)
    following = np.empty(n_jobs, np.int32)
    n_waiting = n_running = arrival = depth = max_depth = 0
    now = np.int64(0)
    present_time = np.int64(0)

    while arrival < n_jobs or n_running > 0:
        # The next moment: a submission, a slot of level 0, or the first second of a higher slot.
        if n_running > 0:
            level = 0
            while n_in_level[level] == 0:
                level += 1
            i = (present_time >> (_DIGIT * level)) & (_SLOTS - 1)
            while slot[level, i] < 0:
                i += 1
            above = _DIGIT * (level + 1)
            now = ((present_time >> above) << above) | (i << (_DIGIT * level))
            if arrival < n_jobs:
                now = min(now, submit[arrival])
        else:
            now = submit[arrival]
        changed = present_time ^ now
        present_time = now
        if changed >> _DIGIT:
            for level in range(_LEVELS - 1, 0, -1):
                if changed >> (_DIGIT * level) and n_in_level[level] > 0:
                    i = (now >> (_DIGIT * level)) & (_SLOTS - 1)
                    j = slot[level, i]
                    slot[level, i] = -1
                    while j >= 0:
                        then = following[j]
                        lower = 0
                        while (end[j] ^ now) >> (_DIGIT * (lower + 1)):
                            lower += 1
                        i = (end[j] >> (_DIGIT * lower)) & (_SLOTS - 1)
                        following[j] = slot[lower, i]
                        slot[lower, i] = j
                        n_in_level[level] -= 1
                        n_in_level[lower] += 1
                        j = then

        # Completions free their nodes; the shapes that wait already look at these nodes.
        i = now & (_SLOTS - 1)
        j = slot[0, i]
        slot[0, i] = -1
        n_touched = 0
        while j >= 0:
            n = node_of[j]
            free[n] += asked[shape_of[j]]
            if not is_touched[n]:
                is_touched[n] = True
                touched[n_touched] = n
                n_touched += 1
            n_in_level[0] -= 1
            n_running -= 1
            j = following[j]
        for i in range(n_touched):
            is_touched[touched[i]] = False
        n_looking = 0
        if n_touched > 0:
            for i in range(n_waiting):
                for k in range(n_touched):
                    if ((free[touched[k]] - asked[waiting[i]]) & guards) == guards:
                        looking[n_looking] = waiting[i]
                        n_looking += 1
                        break

        # Submissions join their line; a shape without one until now looks at all nodes.
        first_fresh = n_waiting
        while arrival < n_jobs and submit[arrival] == now:
            s = shape_of[arrival]
            tail[s] += 1
            if runnable[s]:
                if tail[s] - head[s] == 1:
                    waiting[n_waiting] = s
                    n_waiting += 1
                    looking[n_looking] = s
                    n_looking += 1
                    fresh[s] = True
                depth += 1
            else:
                head[s] += 1
                start[arrival] = end[arrival] = node_of[arrival] = -1
            arrival += 1
        if n_looking == 0:
            max_depth = max(max_depth, depth)
            continue

        # Decisions until nothing fits.
        n_active = 0
        while True:
            for i in range(n_looking):
                s = looking[i]
                least = np.inf
                where = np.uint32(n_nodes)
                seen = np.int64(0)  # the last word looked at: an equal one has an equal margin
                if fresh[s]:
                    for n in range(n_nodes):
                        left = free[n] - asked[s]
                        if (left & guards) == guards and free[n] != seen:
                            q = kind_of[n]
                            if typed[s] and not fits_empty[s, q]:
                                continue
                            seen = free[n]
                            margin = margin_of(left, s, q)
                            if margin < least:
                                least = margin
                                where = np.uint32(n)
                else:
                    for i_touched in range(n_touched):
                        n = touched[i_touched]
                        left = free[n] - asked[s]
                        if (left & guards) == guards:
                            q = kind_of[n]
                            if typed[s] and not fits_empty[s, q]:
                                continue
                            if free[n] == seen:
                                where = min(where, n)
                                continue
                            margin = margin_of(left, s, q)
                            if margin < least or (margin == least and n < where):
                                least = margin
                                where = n
                                seen = free[n]
                if where < n_nodes:
                    best_margin[s] = least
                    best_node[s] = where
                    active[n_active] = s
                    n_active += 1
            n_looking = 0
            if n_active == 0:
                break

            chosen = 0
            s = active[0]
            j = line_job[head[s]]
            for i in range(1, n_active):
                other = active[i]
                if best_margin[other] < best_margin[s] or (
                    best_margin[other] == best_margin[s] and line_job[head[other]] < j
                ):
                    chosen = i
                    s = other
                    j = line_job[head[s]]
            n = best_node[s]
            q = kind_of[n]
            head[s] += 1
            depth -= 1
            start[j] = now
            end[j] = now + durations[kind_speed[q], j]
            node_of[j] = n
            if head[s] == tail[s]:
                n_active -= 1
                active[chosen] = active[n_active]
            if end[j] == now:  # it has freed its node again before the next decision
                continue
            level = 0
            while (end[j] ^ now) >> (_DIGIT * (level + 1)):
                level += 1
            i = (end[j] >> (_DIGIT * level)) & (_SLOTS - 1)
            following[j] = slot[level, i]
            slot[level, i] = j
            n_in_level[level] += 1
            n_running += 1

            free[n] -= asked[s]
            i = 0
            while i < n_active:
                s = active[i]
                left = free[n] - asked[s]
                if (left & guards) == guards:
                    if not (typed[s] and not fits_empty[s, q]):
                        margin = margin_of(left, s, q)
                        if margin < best_margin[s] or (margin == best_margin[s] and n < best_node[s]):
                            best_margin[s] = margin
                            best_node[s] = n
                elif best_node[s] == n:
                    n_active -= 1
                    active[i] = active[n_active]
                    looking[n_looking] = s
                    n_looking += 1
                    continue
                i += 1

        for i in range(first_fresh, n_waiting):
            fresh[waiting[i]] = False
        kept = 0
        for i in range(n_waiting):
            s = waiting[i]
            if head[s] < tail[s]:
                waiting[kept] = s
                kept += 1
        n_waiting = kept
        max_depth = max(max_depth, depth)
    return max_depth


@njit(cache=True, nogil=True, error_model="numpy")
def best_fit_batch(
    jobs,
    kinds,
    fits_empty,
    durations,
    killed,
    bits,
    usage,
    groups,
    counts_from,
    existing_kind_of,
    type_kind_of,
    counts,
    out,
):
    """Fill ``out``, float64[n_packages, n_metrics], with the metrics of each package under best-fit bin packing.

    All as `best_fit_schedule`, `metrics.measure` and `metrics.measure_groups` take it; ``killed``
    bool[n_speeds, n_jobs], the limit cuts the job at this speed. Before the nodes of a package, ``counts``
    int64[n_packages, n_types] of each type, whose kinds are ``type_kind_of``, stand those of the kinds
    ``existing_kind_of``.
    """
    n_jobs = jobs.submit.size
    n_existing = existing_kind_of.size
    start = np.empty(n_jobs, np.int64)
    end = np.empty(n_jobs, np.int64)
    node_of = np.empty(n_jobs, np.int32)
    was_killed = np.zeros(n_jobs, np.bool_)
    for p in range(counts.shape[0]):
        kind_of = np.empty(n_existing + counts[p].sum(), np.uint32)
        for n in range(n_existing):
            kind_of[n] = existing_kind_of[n]
        filled = n_existing
        for t in range(counts.shape[1]):
            for _ in range(counts[p, t]):
                kind_of[filled] = type_kind_of[t]
                filled += 1
        depth = best_fit_schedule(jobs, kinds, fits_empty, kind_of, durations, bits, start, end, node_of)
        capacity_cpu = capacity_mem = capacity_gpu = 0.0
        for n in range(kind_of.size):
            capacity_cpu += kinds.cpus[kind_of[n]]
            capacity_mem += kinds.mem[kind_of[n]]
            capacity_gpu += kinds.gpus[kind_of[n]]
        for j in range(n_jobs):
            if node_of[j] >= 0:
                was_killed[j] = killed[kinds.speed[kind_of[node_of[j]]], j]
        capacity = (capacity_cpu, capacity_mem, capacity_gpu)
        measure(jobs.submit, start, end, was_killed, usage, capacity, 0, depth, counts_from, out[p])
        measure_groups(jobs.submit, start, groups, counts_from, out[p])
