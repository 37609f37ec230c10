"""The methods that search without a proof: ``seq``, ``greedy``, ``lns``, ``sa``, ``sa-published``."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from procure.window.board import best_start, compiled, draw, draw_share, lift, line_up, put, restore
from procure.window.exact import solve_exact

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
