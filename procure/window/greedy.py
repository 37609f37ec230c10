"""``greedy``: the largest job first, each at its best start (dynamic model)."""

from __future__ import annotations

import numpy as np

from procure.window.board import best_start, compiled, line_up, put


@compiled
def solve_greedy(board):
    """Place jobs by size, descending (ties: list order), each where it saves most pairs in what is left."""
    n_line = line_up(board)
    order = np.argsort(-board.sizes, kind="mergesort")
    for i in range(order.size):
        job = order[i]
        start, _ = best_start(board, n_line, board.sizes[job])
        n_line = put(board, job, n_line, start)
