"""The optimum of the static model as a set partition: ``mip``, solved by HiGHS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.errors import TableError
from procure.window.board import Board
from procure.window.exact import static_costs


class Solved(NamedTuple):
    """The start of each job, and whether they are proved to be optimal."""

    starts: list[int]
    optimal: bool


def solve_partition(board: Board, time_limit: float | None = None) -> Solved:
    """Choose starts at least cost so that every size is used as often as asked for and no node twice: a set partition.

    Parameters
    ----------
    time_limit
        Seconds for the solver; None = until the optimum is proved.

    Raises
    ------
    TableError
        Nothing was found within the time limit.
    """
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array, vstack

    kinds, counts = np.unique(board.sizes, return_counts=True)
    cost = static_costs(board, kinds)
    m = cost.shape[1]
    covered = [
        ((start + np.arange(size)) % m, np.full(size, k * m + start))
        for k, size in enumerate(kinds.tolist())
        for start in range(m)
    ]
    rows, columns = (np.concatenate(part) for part in zip(*covered, strict=True))
    packing = csr_array((np.ones(len(rows)), (rows, columns)), (m, len(kinds) * m))
    chosen = np.arange(len(kinds) * m)
    counting = csr_array((np.ones(len(chosen)), (chosen // m, chosen)), (len(kinds), len(chosen)))
    matrix = vstack([packing, counting]).tocsc()
    for name in ("indices", "indptr"):  # SciPy before 1.15 takes no others
        setattr(matrix, name, getattr(matrix, name).astype(np.int32))
    low, high = (np.r_[each, counts] for each in (np.zeros(m), np.ones(m)))
    found = milp(
        cost.ravel(),
        integrality=np.ones(cost.size),
        bounds=(0, 1),
        constraints=LinearConstraint(matrix, low, high),
        options={"mip_rel_gap": 0.0} | ({} if time_limit is None else {"time_limit": time_limit}),
    )
    if found.x is None:
        raise TableError(f"mip: no allocation was found: {found.message}")
    used = np.round(found.x).reshape(len(kinds), m)
    starts = {size: iter(np.flatnonzero(row).tolist()) for size, row in zip(kinds.tolist(), used, strict=True)}
    return Solved([next(starts[size]) for size in board.sizes.tolist()], found.status == 0)
