"""``mip``: the optimum of the static model as a set partition; a column is a size at a start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.errors import TableError
from procure.window.board import Board, line_up, saved_by_start
from procure.window.cost import code_cost


class Solved(NamedTuple):
    """What a MIP gave: the start of each job, a bound below every cost, and whether the starts are optimal."""

    starts: list[int]
    bound: float
    optimal: bool


def static_costs(board: Board, kinds: np.ndarray) -> np.ndarray:
    """Return int64[n_kinds, n_idle], the cost of each size at each start in the whole line, cyclic."""
    m = line_up(board)
    cost = np.empty((len(kinds), m), np.int64)
    for k, size in enumerate(kinds.tolist()):
        saved_by_start(board, m, size, cost[k])
        cost[k] = [code_cost(size, saved) for saved in cost[k].tolist()]
    return cost


def solve_partition(board: Board, time_limit: float | None = None) -> Solved:
    """Choose starts at least cost so that every size is used as often as asked for and no node twice.

    Parameters
    ----------
    time_limit
        Seconds for HiGHS; None = until the optimum is proved.

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
    low = np.concatenate([np.zeros(m), counts])
    high = np.concatenate([np.ones(m), counts])
    options = {"mip_rel_gap": 0.0} | ({} if time_limit is None else {"time_limit": time_limit})
    found = milp(
        cost.ravel(),
        integrality=np.ones(len(chosen)),
        bounds=(0, 1),
        constraints=LinearConstraint(vstack([packing, counting]), low, high),
        options=options,
    )
    if found.x is None:
        raise TableError(f"mip: no allocation was found: {found.message}")
    used = [np.flatnonzero(row).tolist() for row in np.round(found.x).reshape(len(kinds), m)]
    at = {size: iter(starts) for size, starts in zip(kinds.tolist(), used, strict=True)}
    starts = [next(at[size]) for size in board.sizes.tolist()]
    return Solved(starts, float(found.mip_dual_bound), found.status == 0)
