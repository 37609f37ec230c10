"""``mip-published``: the static model as it was formulated, with a variable for each job on each node; to compare."""

from __future__ import annotations

import numpy as np

from procure.errors import TableError
from procure.window.board import Board
from procure.window.partition import Solved, static_costs

NOT_PLACED = 1e9
"""What a job without nodes costs in the published program."""


def solve_mip_published(board: Board, time_limit: float | None = None) -> Solved:
    """Solve min Σ l y + 10⁹ Σ (1 − z) with y_{j,i} ≤ x_{j,k} for each node k behind a start i.

    Job j begins at i if y_{j,i} = 1, holds node i if x_{j,i} = 1 and is placed if z_j = 1: Σ_i y = z_j,
    Σ_j x ≤ 1 per node, Σ_i x = n_j z_j, x ≤ z_j. The paper leaves out z and the second of these.

    Raises
    ------
    TableError
        Nothing that places every job was found within the time limit.
    """
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array

    sizes, m = board.sizes, len(board.owner)
    n = len(sizes)
    cost = np.concatenate([static_costs(board, sizes[j : j + 1])[0] for j in range(n)])
    cell = np.arange(n * m)
    job, node = cell // m, cell % m
    x, y, z = 0, n * m, 2 * n * m  # where each kind of variable begins
    rows, columns, values, highs, lows = [], [], [], [], []
    n_rows = 0

    def add(row: np.ndarray, column: np.ndarray, value: np.ndarray | float, high: float, low: float) -> None:
        nonlocal n_rows
        height = int(row.max()) + 1
        rows.append(row + n_rows)
        columns.append(column)
        values.append(np.broadcast_to(value, row.shape))
        highs.append(np.full(height, high))
        lows.append(np.full(height, low))
        n_rows += height

    jobs = np.arange(n)
    add(np.r_[job, jobs], np.r_[y + cell, z + jobs], np.r_[np.ones(n * m), -np.ones(n)], 0, 0)
    add(node, x + cell, 1.0, 1, 0)
    add(np.r_[job, jobs], np.r_[x + cell, z + jobs], np.r_[np.ones(n * m), -sizes.astype(float)], 0, 0)
    add(np.r_[cell, cell], np.r_[x + cell, z + job], np.repeat([1.0, -1.0], n * m), 0, -np.inf)
    start = np.repeat(cell, sizes[job])
    behind = np.concatenate([np.arange(size) for size in sizes[job].tolist()])
    covered = start // m * m + (start % m + behind) % m
    pair = np.arange(len(start))
    add(np.r_[pair, pair], np.r_[y + start, x + covered], np.repeat([1.0, -1.0], len(pair)), 0, -np.inf)
    matrix = csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (n_rows, z + n))
    objective = np.concatenate([np.zeros(n * m), cost, np.full(n, -NOT_PLACED)])
    found = milp(
        objective,
        integrality=np.ones(z + n),
        bounds=(0, 1),
        constraints=LinearConstraint(matrix, np.concatenate(lows), np.concatenate(highs)),
        options={"mip_rel_gap": 0.0} | ({} if time_limit is None else {"time_limit": time_limit}),
    )
    if found.x is None or found.x[z:].min() < 0.5:
        raise TableError(f"mip-published: no allocation of all jobs was found: {found.message}")
    starts = np.round(found.x[y:z]).reshape(n, m).argmax(axis=1)
    return Solved(starts.tolist(), float(found.mip_dual_bound) + NOT_PLACED * n, found.status == 0)
