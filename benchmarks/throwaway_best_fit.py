"""A throw-away kernel of best fit, to see how far the product's is from what special code reaches.

    python benchmarks/throwaway_best_fit.py LOG.csv.xz [LOG …]  a day of the first log, then all as one quarter

It knows one speed, no GPU types and no unrunnable jobs, and was written to be thrown away: nodes are looked at in
blocks of eight without a branch, and nothing is asked about types or speeds. Both kernels run one after the other in
one process on 20 packages of $1,000,000, the least of five runs each; starts and nodes must be equal.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from numba import njit

from procure import PackageRules, expand_packages, import_log, package_nodes, read_quotes, slice_day
from procure.run import Prepared, prepare
from procure.simulator.fast_lane import best_fit_schedule, check_fast_lane

ROOT = Path(__file__).resolve().parent.parent
BLOCK, LEVELS = 8, 4


@njit(cache=True, nogil=True, error_model="numpy")
def throwaway(submit, shape_of, line_job, line_first, asked, totals, kind_of, word, took, start, node_of, bits):
    """Fill ``start`` and ``node_of``; ``totals`` is float64[3, n_kinds], of memory, CPUs and GPUs."""
    mem_bits, cpu_bits, gpu_bits = bits
    cpu_shift, mem_shift = gpu_bits + 1, gpu_bits + cpu_bits + 2
    gpu_mask, cpu_mask, mem_mask = (1 << gpu_bits) - 1, (1 << cpu_bits) - 1, (1 << mem_bits) - 1
    guards = (1 << gpu_bits) | (1 << (cpu_shift + cpu_bits)) | (1 << (mem_shift + mem_bits))
    n_jobs, n_shapes, n_nodes = submit.size, asked.size, kind_of.size
    free = np.zeros((n_nodes + BLOCK - 1) // BLOCK * BLOCK, np.int64)  # what pads the last block fits nothing
    for n in range(n_nodes):
        free[n] = word[kind_of[n]] | guards
    asks = np.zeros((3, n_shapes), np.bool_)
    counted = np.ones(n_shapes)
    for s in range(n_shapes):
        asks[0, s], asks[1, s] = (asked[s] >> mem_shift) > 0, ((asked[s] >> cpu_shift) & cpu_mask) > 0
        asks[2, s] = (asked[s] & gpu_mask) > 0
        counted[s] = max(1, asks[0, s] + asks[1, s] + asks[2, s])
    head, tail = line_first[:-1].copy(), line_first[:-1].copy()
    waiting, active = np.empty(n_shapes, np.uint32), np.empty(n_shapes, np.uint32)
    looking, fresh = np.empty(n_shapes, np.uint32), np.zeros(n_shapes, np.bool_)
    best, where = np.empty(n_shapes), np.empty(n_shapes, np.int64)
    touched, marked = np.empty(n_nodes, np.int64), np.zeros(n_nodes, np.bool_)
    end, following = np.empty(n_jobs, np.int64), np.empty(n_jobs, np.int32)
    slot, n_in_level = np.full((LEVELS, 1024), -1, np.int32), np.zeros(LEVELS, np.int64)
    n_running = arrival = n_waiting = 0
    before = np.int64(0)
    while arrival < n_jobs or n_running > 0:
        if n_running > 0:  # the wheel of `fast_lane`
            level = 0
            while n_in_level[level] == 0:
                level += 1
            i = (before >> (10 * level)) & 1023
            while slot[level, i] < 0:
                i += 1
            now = ((before >> (10 * level + 10)) << (10 * level + 10)) | (i << (10 * level))
            if arrival < n_jobs:
                now = min(now, submit[arrival])
        else:
            now = submit[arrival]
        changed = before ^ now
        before = now
        for level in range(LEVELS - 1, 0, -1):
            if changed >> (10 * level) and n_in_level[level] > 0:
                i = (now >> (10 * level)) & 1023
                j = slot[level, i]
                slot[level, i] = -1
                while j >= 0:
                    then, lower = following[j], 0
                    while (end[j] ^ now) >> (10 * (lower + 1)):
                        lower += 1
                    i = (end[j] >> (10 * lower)) & 1023
                    following[j] = slot[lower, i]
                    slot[lower, i] = j
                    n_in_level[level] -= 1
                    n_in_level[lower] += 1
                    j = then
        n_touched = 0
        j = slot[0, now & 1023]
        slot[0, now & 1023] = -1
        while j >= 0:
            n_in_level[0] -= 1
            n_running -= 1
            n = node_of[j]
            free[n] += asked[shape_of[j]]
            if not marked[n]:
                marked[n] = True
                touched[n_touched] = n
                n_touched += 1
            j = following[j]
        n_looking = 0
        for i in range(n_touched):
            marked[touched[i]] = False
        for i in range(n_waiting if n_touched > 0 else 0):
            for k in range(n_touched):
                if ((free[touched[k]] - asked[waiting[i]]) & guards) == guards:
                    looking[n_looking] = waiting[i]
                    n_looking += 1
                    break
        first_fresh = n_waiting
        while arrival < n_jobs and submit[arrival] == now:
            s = shape_of[arrival]
            tail[s] += 1
            if tail[s] - head[s] == 1:
                waiting[n_waiting] = looking[n_looking] = s
                n_waiting += 1
                n_looking += 1
                fresh[s] = True
            arrival += 1
        n_active = 0
        while n_looking > 0 or n_active > 0:
            for i in range(n_looking):
                s = looking[i]
                least, at, wanted = np.inf, -1, asked[s]
                for base in range(0, free.size if fresh[s] else n_touched, BLOCK):
                    if fresh[s]:
                        fits = 0
                        for k in range(BLOCK):
                            fits |= np.int64(((free[base + k] - wanted) & guards) == guards) << k
                        if fits == 0:
                            continue
                    for k in range(min(BLOCK, (n_nodes if fresh[s] else n_touched) - base)):
                        n = base + k if fresh[s] else touched[base + k]
                        left = free[n] - wanted
                        if (left & guards) != guards:
                            continue
                        q = kind_of[n]
                        margin = 0.0
                        if asks[0, s]:
                            margin = ((left >> mem_shift) & mem_mask) / totals[0, q]
                        if asks[1, s]:
                            margin += ((left >> cpu_shift) & cpu_mask) / totals[1, q]
                        if asks[2, s]:
                            margin += (left & gpu_mask) / totals[2, q]
                        margin /= counted[s]
                        if margin < least or (margin == least and n < at):
                            least, at = margin, n
                if at >= 0:
                    best[s], where[s] = least, at
                    active[n_active] = s
                    n_active += 1
            n_looking = 0
            if n_active == 0:
                break
            chosen, s = 0, active[0]
            for i in range(1, n_active):
                other = active[i]
                if best[other] < best[s] or (best[other] == best[s] and line_job[head[other]] < line_job[head[s]]):
                    chosen, s = i, other
            n, j = where[s], line_job[head[s]]
            head[s] += 1
            start[j], node_of[j] = now, n
            if head[s] == tail[s]:
                n_active -= 1
                active[chosen] = active[n_active]
            if took[j] == 0:
                continue
            end[j], level = now + took[j], 0
            while (end[j] ^ now) >> (10 * (level + 1)):
                level += 1
            i = (end[j] >> (10 * level)) & 1023
            following[j] = slot[level, i]
            slot[level, i] = j
            n_in_level[level] += 1
            n_running += 1
            free[n] -= asked[s]
            q, i = kind_of[n], 0
            while i < n_active:
                s = active[i]
                left = free[n] - asked[s]
                if (left & guards) == guards:
                    margin = 0.0
                    if asks[0, s]:
                        margin = ((left >> mem_shift) & mem_mask) / totals[0, q]
                    if asks[1, s]:
                        margin += ((left >> cpu_shift) & cpu_mask) / totals[1, q]
                    if asks[2, s]:
                        margin += (left & gpu_mask) / totals[2, q]
                    margin /= counted[s]
                    if margin < best[s] or (margin == best[s] and n < where[s]):
                        best[s], where[s] = margin, n
                elif where[s] == n:
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
            if head[waiting[i]] < tail[waiting[i]]:
                waiting[kept] = waiting[i]
                kept += 1
        n_waiting = kept


def least(function, *arguments, repeats: int = 5) -> float:
    """Return the least seconds of processor time of some calls."""
    took = []
    for _ in range(repeats):
        began = time.process_time()
        function(*arguments)
        took.append(time.process_time() - began)
    return min(took)


def compare(ready: Prepared) -> tuple[float, float]:
    """Return the seconds of the product's kernel and of the throw-away one; they must agree."""
    jobs, kinds, n_jobs = ready.jobs, ready.kinds, len(ready.jobs.submit)
    bits = check_fast_lane(jobs, kinds, ready.durations.took)
    ours = np.empty(n_jobs, np.int64), np.empty(n_jobs, np.int64), np.empty(n_jobs, np.int32)
    given = (jobs, kinds, ready.fits, ready.kind_of, ready.durations.took, bits, *ours)
    mem_shift, cpu_shift = bits[1] + bits[2] + 2, bits[2] + 1
    unit, scale = 1 << mem_shift, 1 << cpu_shift
    asked = jobs.shape_mem * unit + jobs.shape_cpus * scale + jobs.shape_gpus
    word = kinds.mem * unit + kinds.cpus * scale + kinds.gpus
    totals = np.stack([kinds.mem, kinds.cpus, kinds.gpus]).astype(float)
    theirs = np.full(n_jobs, -1, np.int64), np.full(n_jobs, -1, np.int64)
    lines = jobs.line_job.astype(np.int64), jobs.line_first
    rest = (asked, totals, ready.kind_of, word, ready.durations.took[0], *theirs, bits)
    throwaway(jobs.submit, jobs.shape_of, *lines, *rest)
    product = least(best_fit_schedule, *given)
    special = least(throwaway, jobs.submit, jobs.shape_of, *lines, *rest)
    assert (ours[0] == theirs[0]).all() and (ours[2] == theirs[1]).all(), "the schedules differ"
    return product, special


def report(name: str, jobs: pd.DataFrame) -> None:
    """Print both kernels' seconds on 20 packages."""
    quotes = read_quotes(ROOT / "quotes/example-2023.csv")
    packages = expand_packages(quotes, PackageRules(rules="published", budget_usd=1_000_000))
    packages = packages[packages["distinct"]]
    rng, found = np.random.default_rng(0), []
    while len(found) < 20:
        nodes = package_nodes(packages.iloc[rng.integers(len(packages))], quotes)
        ready = prepare(jobs, nodes, kill_at_limit=False)
        runs = np.empty(len(jobs), bool)
        runs[ready.jobs.row] = ready.fits.any(axis=1)[ready.jobs.shape_of]
        found.append((len(nodes), *compare(prepare(jobs[runs], nodes, kill_at_limit=False))))
    sizes, ours, theirs = np.array(found).T
    print(
        f"{name}, {len(jobs):,} jobs, {sizes.min():.0f} to {sizes.max():.0f} nodes: {ours.mean() * 1000:.2f} ms on "
        f"average ({ours.min() * 1000:.2f} to {ours.max() * 1000:.2f}), throw-away {theirs.mean() * 1000:.2f} "
        f"({theirs.min() * 1000:.2f} to {theirs.max() * 1000:.2f}); ratio {np.median(ours / theirs):.2f} at the "
        f"median, {(ours / theirs).max():.2f} at most"
    )


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    months = [import_log(log, "csv", preset="beocat").jobs for log in sys.argv[1:]]
    report("2021-03-16", slice_day(months[0], "2021-03-16", "America/Chicago"))
    together = pd.concat(months, ignore_index=True)
    report("the quarter", together.assign(job_id=np.arange(len(together)).astype(str)))
