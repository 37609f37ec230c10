"""``seq``: jobs in list order take the first idle nodes, as a queue without any care for the network."""

from __future__ import annotations

from procure.window.board import compiled, line_up, put


@compiled
def solve_seq(board):
    """Give each job in list order the first positions that nobody holds."""
    n_line = line_up(board)
    for job in range(board.sizes.size):
        n_line = put(board, job, n_line, 0)
