"""The methods that place a window's jobs: ``exact`` with a proof, the others by search.

``exact`` is dynamic programming over the line of idle nodes: ``f[p, S]`` is the least cost of placing the jobs S before
position p: either position p − 1 stays free, or a job of S ends there. Jobs of equal size are alike, so S says how many
of each size. At most one job wraps round the end of the line; each way to wrap leaves a shorter line without a wrap.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from procure.window.problem import best_start, code_cost, compiled, draw, draw_share, lift, line_up, put, restore

MOST_CELLS = 1 << 22
"""Positions × sets of jobs that the program holds: 40 MB, about 0.1 s."""
_FAR = 1 << 60


def n_cells(n_idle: int, sizes: np.ndarray) -> int:
    """Return how many cells the dynamic program needs."""
    cells = n_idle + 1
    for each in np.unique(sizes, return_counts=True)[1].tolist():
        cells *= each + 1
    return cells


class _Program(NamedTuple):
    """What the dynamic program goes by."""

    cost: np.ndarray  # int64[sizes, positions], of each size at each start
    kinds: np.ndarray  # int64[sizes], nodes, ascending
    digits: np.ndarray  # int64[sets, sizes], how many of each size a set holds
    stride: np.ndarray  # int64[sizes], what one job of a size adds to a set's number


@compiled
def solve_exact(board):
    """Place all jobs at least cost in the static model; returns the cost.

    Ties: a free position before a job, the smaller job before the larger, no wrap before a wrap, the
    earlier start. Of jobs of equal size the earlier one of the list stands further left.
    """
    kinds = np.unique(board.sizes)
    cost = static_costs(board, kinds)
    m = board.owner.size
    digits, stride = _sets(board.sizes, kinds)
    program = _Program(cost, kinds, digits, stride)
    full = digits.shape[0] - 1
    f = np.empty((m + 1, full + 1), np.int64)
    best = _fill(f, program, 0, m, full)
    wrapped, at = -1, 0
    least = np.empty(kinds.size, np.int64)
    for k in range(kinds.size):
        least[k] = cost[k].min()
    for k in range(kinds.size):
        others = (digits[full] * least).sum() - least[k]
        for start in range(m - kinds[k] + 1, m):
            if cost[k, start] + others >= best:
                continue
            head = kinds[k] - (m - start)
            if head > start:
                continue
            found = cost[k, start] + _fill(f, program, head, start, full - stride[k])
            if found < best:
                best, wrapped, at = found, k, start
    low, high, target = 0, m, full
    if wrapped >= 0:
        low, high, target = kinds[wrapped] - (m - at), at, full - stride[wrapped]
    _fill(f, program, low, high, target)
    left = np.empty(kinds.size, np.int64)  # jobs of each size without positions: the last ones of the list
    for k in range(kinds.size):
        left[k] = (board.sizes == kinds[k]).sum()
    if wrapped >= 0:
        _hold(board, _take(board, left, kinds, wrapped), at, cost[wrapped, at])
    _read_back(board, f, program, left, (low, high, target))
    return best


@compiled
def static_costs(board, kinds):
    """Return int64[n_kinds, n_idle], the cost of each size at each start in the whole line, cyclic."""
    m = line_up(board)
    cost = np.empty((kinds.size, m), np.int64)
    for k in range(kinds.size):
        best_start(board, m, kinds[k])
        for start in range(m):
            cost[k, start] = code_cost(kinds[k], board.saved[start])
    return cost


@compiled
def _sets(sizes, kinds):
    """Number the sets of jobs by how many of each size they hold; returns these and a size's stride."""
    stride = np.empty(kinds.size, np.int64)
    n_sets = 1
    for k in range(kinds.size):
        stride[k] = n_sets
        n_sets *= (sizes == kinds[k]).sum() + 1
    digits = np.empty((n_sets, kinds.size), np.int64)
    for number in range(n_sets):
        rest = number
        for k in range(kinds.size - 1, -1, -1):
            digits[number, k] = rest // stride[k]
            rest %= stride[k]
    return digits, stride


@compiled
def _fill(f, program, low, high, target):
    """Fill f for the line from ``low`` to ``high``; returns the least cost of the set ``target``."""
    cost, kinds, digits, stride = program
    for number in range(target + 1):
        f[low, number] = _FAR
    f[low, 0] = 0
    for p in range(low + 1, high + 1):
        for number in range(target + 1):
            best = f[p - 1, number]
            for k in range(kinds.size):
                start = p - kinds[k]
                if start >= low and digits[number, k] > 0:
                    best = min(best, f[start, number - stride[k]] + cost[k, start])
            f[p, number] = best
    return f[high, target]


@compiled
def _read_back(board, f, program, left, span):
    """Give the jobs the positions that the least cost of ``span`` (low, high, target) stands for; uses up ``left``."""
    cost, kinds, digits, stride = program
    low, p, number = span
    while number > 0:
        if p > low and f[p, number] == f[p - 1, number]:
            p -= 1
            continue
        for k in range(kinds.size):
            start = p - kinds[k]
            if start >= low and digits[number, k] > 0:
                before = number - stride[k]
                if f[p, number] == f[start, before] + cost[k, start]:
                    _hold(board, _take(board, left, kinds, k), start, cost[k, start])
                    p, number = start, before
                    break


@compiled
def _take(board, left, kinds, k):
    """Return the last job of a size that has no positions yet."""
    seen = 0
    for job in range(board.sizes.size):
        seen += board.sizes[job] == kinds[k]
        if seen == left[k]:
            left[k] -= 1
            return job
    return -1


@compiled
def _hold(board, job, start, cost):
    m = board.owner.size
    board.costs[job] = cost
    for i in range(board.sizes[job]):
        board.held[board.first[job] + i] = (start + i) % m
        board.owner[(start + i) % m] = job


MOST_REMOVED = 4
"""Jobs that one step of ``lns`` removes at most."""
LNS_HIGHEST, LNS_LOWEST = 300.0, 1.0
"""The temperatures of the first and the last step of ``lns``, in units of cost."""
HIGHEST, HIGHEST_OF_PROGRAM, LOWEST = 2500.0, 25_000.0, 2.5
"""The temperature at the beginning of annealing, as printed in the paper and as in its program, and at the end."""
MOST_STARTS = 100
"""Idle nodes, from the first, among which annealing draws a start."""


@compiled
def solve_seq(board):
    """Give each job in list order the first positions that nobody holds: a queue without any care for the network."""
    n_line = line_up(board)
    for job in range(board.sizes.size):
        n_line = put(board, job, n_line, 0)


@compiled
def solve_greedy(board):
    """Place jobs by size, descending (ties: list order), each where it saves most pairs in what is left."""
    n_line = line_up(board)
    for job in np.argsort(-board.sizes, kind="mergesort"):
        n_line = put(board, job, n_line, best_start(board, n_line, board.sizes[job]))


class Walk(NamedTuple):
    """The placement from which a search goes on, and the best that it met, as in `Board`."""

    held: np.ndarray
    costs: np.ndarray
    best_held: np.ndarray
    best_costs: np.ndarray


@compiled
def begin_walk(board):
    """Begin a search from what the board holds."""
    return Walk(board.held.copy(), board.costs.copy(), board.held.copy(), board.costs.copy())


@compiled
def chance_of(board, walk, t, steps, highest, lowest):
    """Return the chance with which the board's placement is accepted: 1, or if it costs more by d, exp(−d / T).

    At step t the temperature is T = highest · (lowest / highest)^(t / steps).
    """
    temperature = highest * math.exp(-math.log(highest / lowest) * t / steps)
    return math.exp(min(0, walk.costs.sum() - board.costs.sum()) / temperature)


@compiled
def go_on(board, walk, accepted, rollback):
    """Keep the board's placement if it is the best, and go on from it or, not ``accepted``, from the last one."""
    if board.costs.sum() < walk.best_costs.sum():
        walk.best_held[:] = board.held
        walk.best_costs[:] = board.costs
    if accepted:
        walk.held[:] = board.held
        walk.costs[:] = board.costs
    elif rollback:
        restore(board, walk.held, walk.costs)


@compiled
def solve_lns(board, steps, with_exact):
    """Remove a few jobs and put them back, in random order, each at its best start; keep the best.

    The search begins with the greedy placement or, ``with_exact``, with the optimum of the static model
    if that costs less, and so never ends above either.
    """
    n_jobs = board.sizes.size
    solve_greedy(board)
    if with_exact:
        greedy = begin_walk(board)
        for job in range(n_jobs):
            lift(board, job)
        solve_exact(board)
        if board.costs.sum() >= greedy.costs.sum():
            restore(board, greedy.held, greedy.costs)
    walk = begin_walk(board)
    order = np.arange(n_jobs)
    for t in range(steps):
        n = 1 + draw(board.rng, min(n_jobs, MOST_REMOVED))
        for i in range(n):  # the first n of a shuffled order
            other = i + draw(board.rng, n_jobs - i)
            order[i], order[other] = order[other], order[i]
            lift(board, order[i])
        n_line = line_up(board)
        for i in range(n):
            n_line = put(board, order[i], n_line, best_start(board, n_line, board.sizes[order[i]]))
        chance = chance_of(board, walk, t, steps, LNS_HIGHEST, LNS_LOWEST)
        go_on(board, walk, chance == 1 or draw_share(board.rng) < chance, True)
    restore(board, walk.best_held, walk.best_costs)


@compiled
def solve_sa(board, steps, highest, rollback):
    """Anneal from ``seq``: remove one or two jobs, put them back in list order at random starts.

    Without ``rollback``, as in the published program, a refused placement stays and only its cost is forgotten: a
    random walk that remembers the best it met. The best placement met is the answer.
    """
    solve_seq(board)
    n_jobs = board.sizes.size
    walk = begin_walk(board)
    removed = np.zeros(n_jobs, np.bool_)
    for t in range(steps):
        n = 1 + draw(board.rng, 2)
        removed[:] = n >= n_jobs
        while removed.sum() < min(n, n_jobs):
            removed[draw(board.rng, n_jobs)] = True
        for job in range(n_jobs):
            if removed[job]:
                lift(board, job)
        n_line = line_up(board)
        for job in range(n_jobs):
            if removed[job]:
                n_line = put(board, job, n_line, draw(board.rng, min(n_line, MOST_STARTS)))
        chance = chance_of(board, walk, t, steps, highest, LOWEST)
        go_on(board, walk, chance == 1 or draw_share(board.rng) < chance, rollback)
    restore(board, walk.best_held, walk.best_costs)
