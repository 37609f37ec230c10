"""``sa`` and ``sa-published``: simulated annealing over starts, with and without taking back what is refused."""

from __future__ import annotations

import math

import numpy as np

from procure.window.board import compiled, draw, draw_share, lift, line_up, put, restore
from procure.window.seq import solve_seq

LOWEST = 2.5
"""The temperature at the end, in units of cost."""
HIGHEST, HIGHEST_OF_PROGRAM = 2500.0, 25_000.0
"""The temperature at the beginning: as printed in the paper, and as in its program."""
MOST_STARTS = 100
"""Idle nodes, from the first, among which a start is drawn."""


@compiled
def solve_sa(board, steps, highest, rollback):
    """Anneal from ``seq``: remove one or two jobs, put them back in list order at random starts.

    The temperature falls as T = highest · (lowest / highest)^(t / steps) at step t, and a placement that
    costs more by d is accepted with probability exp(−d / T). Without ``rollback``, as in the published
    program, a refused placement stays and only its cost is forgotten: a random walk that remembers the
    best it met. The best placement met is the answer.
    """
    solve_seq(board)
    n_jobs = board.sizes.size
    energy = best = board.costs.sum()
    held, costs = board.held.copy(), board.costs.copy()
    best_held, best_costs = held.copy(), costs.copy()
    removed = np.zeros(n_jobs, np.bool_)
    for t in range(steps):
        temperature = highest * math.exp(-math.log(highest / LOWEST) * t / steps)
        pick(board.rng, 1 + draw(board.rng, 2), removed)
        for job in range(n_jobs):
            if removed[job]:
                lift(board, job)
        n_line = line_up(board)
        for job in range(n_jobs):
            if removed[job]:
                n_line = put(board, job, n_line, draw(board.rng, min(n_line, MOST_STARTS)))
        new = board.costs.sum()
        if new < best:
            best = new
            best_held[:] = board.held
            best_costs[:] = board.costs
        if new <= energy or draw_share(board.rng) < math.exp((energy - new) / temperature):
            energy = new
            held[:] = board.held
            costs[:] = board.costs
        elif rollback:
            restore(board, held, costs)
    restore(board, best_held, best_costs)


@compiled
def pick(rng, n, removed):
    """Mark ``n`` jobs by chance, or all if there are no more."""
    removed[:] = n >= removed.size
    while n > 0 and removed.sum() < min(n, removed.size):
        removed[draw(rng, removed.size)] = True
