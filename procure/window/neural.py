"""``neural``: simulated annealing in which a network proposes the starts (NSA)."""

from __future__ import annotations

import math

import numpy as np

from procure.window.board import Board, line_up, put, restore
from procure.window.network import POSITIONS, Network, observe
from procure.window.sa import HIGHEST, LOWEST
from procure.window.seq import solve_seq


def solve_neural(board: Board, network: Network, steps: int, seed: int) -> None:
    """Anneal from ``seq``: remove one or two jobs, put them back, largest first, where the network says.

    As `procure.window.sa.solve_sa` with rollback and the paper's temperatures, but for the start, which
    is drawn from the network's probabilities for the first idle nodes instead of uniformly.
    """
    rng = np.random.default_rng(seed)
    solve_seq(board)
    n_jobs = len(board.sizes)
    held, costs = board.held.copy(), board.costs.copy()
    best_held, best_costs = held.copy(), costs.copy()
    energy = best = int(costs.sum())
    for t in range(steps):
        n = min(int(rng.integers(1, 3)), n_jobs)
        removed = rng.choice(n_jobs, n, replace=False)
        removed = removed[np.argsort(-board.sizes[removed], kind="stable")]
        for job in removed:
            board.owner[board.held[board.first[job] : board.first[job + 1]]] = -1
        n_line = line_up(board)
        for i, job in enumerate(removed):
            n_line = put(board, job, n_line, _propose(board, network, n_line, removed, i, rng))
        new = int(board.costs.sum())
        if new < best:
            best, best_held, best_costs = new, board.held.copy(), board.costs.copy()
        temperature = HIGHEST * math.exp(-math.log(HIGHEST / LOWEST) * t / steps)
        if new <= energy or rng.random() < math.exp((energy - new) / temperature):
            energy, held, costs = new, board.held.copy(), board.costs.copy()
        else:
            restore(board, held, costs)
    restore(board, best_held, best_costs)


def _propose(board: Board, network: Network, n_line: int, removed: np.ndarray, i: int, rng: np.random.Generator) -> int:
    """Draw a start from the network's probabilities."""
    seen = observe(
        board.leaf,
        board.pod,
        board.line[:n_line],
        int(board.sizes[removed[i]]),
        board.sizes[removed[i + 1 :]],
        network,
    )
    logits = network.logits(seen)[: min(n_line, POSITIONS)].astype(np.float64)
    weights = np.cumsum(np.exp(logits - logits.max()))
    return min(int(np.searchsorted(weights, rng.random() * weights[-1], side="right")), len(weights) - 1)
