"""``lns``: large-neighbourhood search in the dynamic model."""

from __future__ import annotations

import math

import numpy as np

from procure.window.board import best_start, compiled, draw, draw_share, lift, line_up, put, restore
from procure.window.exact import solve_exact
from procure.window.greedy import solve_greedy

MOST_REMOVED = 4
"""Jobs that one step removes at most."""
HIGHEST, LOWEST = 300.0, 1.0
"""The temperatures of the first and the last step, in units of cost."""


@compiled
def solve_lns(board, steps, with_exact):
    """Remove a few jobs and put them back, in random order, each at its best start; keep the best.

    The search begins with the greedy placement or, ``with_exact``, with the optimum of the static model
    if that costs less, and so never ends above either. A placement that costs more by d is accepted with
    probability exp(−d / T), T falling geometrically from `HIGHEST` to `LOWEST`.
    """
    n_jobs = board.sizes.size
    solve_greedy(board)
    best_held, best_costs = board.held.copy(), board.costs.copy()
    if with_exact:
        for job in range(n_jobs):
            lift(board, job)
        solve_exact(board)
        if board.costs.sum() >= best_costs.sum():
            restore(board, best_held, best_costs)
    best_held[:] = board.held
    best_costs[:] = board.costs
    held, costs = board.held.copy(), board.costs.copy()
    energy = best = board.costs.sum()
    order = np.arange(n_jobs)
    for t in range(steps):
        n = 1 + draw(board.rng, min(n_jobs, MOST_REMOVED))
        for i in range(n):  # the first n of a shuffled order
            other = i + draw(board.rng, n_jobs - i)
            order[i], order[other] = order[other], order[i]
            lift(board, order[i])
        n_line = line_up(board)
        for i in range(n):
            start, _ = best_start(board, n_line, board.sizes[order[i]])
            n_line = put(board, order[i], n_line, start)
        new = board.costs.sum()
        if new < best:
            best = new
            best_held[:] = board.held
            best_costs[:] = board.costs
        temperature = HIGHEST * math.exp(-math.log(HIGHEST / LOWEST) * t / steps)
        if new <= energy or draw_share(board.rng) < math.exp((energy - new) / temperature):
            energy = new
            held[:] = board.held
            costs[:] = board.costs
        else:
            restore(board, held, costs)
    restore(board, best_held, best_costs)
