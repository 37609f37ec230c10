"""The optimum of the static model by programs of others: ``mip`` (HiGHS), ``cp-sat`` (OR-tools), ``mip-published``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from procure.errors import TableError, need
from procure.window.board import Board
from procure.window.exact import static_costs

NOT_PLACED = 1e9
"""What a job without nodes costs in the published program."""


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
    low, high = (np.r_[each, counts] for each in (np.zeros(m), np.ones(m)))
    found = _milp(cost.ravel(), vstack([packing, counting]), low, high, time_limit)
    if found.x is None:
        raise TableError(f"mip: no allocation was found: {found.message}")
    used = [np.flatnonzero(row).tolist() for row in np.round(found.x).reshape(len(kinds), m)]
    return Solved(_deal_out(board, kinds, used), found.status == 0)


def _milp(cost: np.ndarray, matrix: Any, low: np.ndarray, high: np.ndarray, time_limit: float | None) -> Any:
    """Choose variables of 0 or 1 at least cost so that the matrix by them lies between two bounds."""
    from scipy.optimize import LinearConstraint, milp

    matrix = matrix.tocsc()
    for name in ("indices", "indptr"):  # SciPy before 1.15 takes no others
        setattr(matrix, name, getattr(matrix, name).astype(np.int32))
    return milp(
        cost,
        integrality=np.ones(len(cost)),
        bounds=(0, 1),
        constraints=LinearConstraint(matrix, low, high),
        options={"mip_rel_gap": 0.0} | ({} if time_limit is None else {"time_limit": time_limit}),
    )


def _deal_out(board: Board, kinds: np.ndarray, used: Sequence[list[int]]) -> list[int]:
    """Give the starts that are used by each size to its jobs, in list order."""
    starts = {size: iter(each) for size, each in zip(kinds.tolist(), used, strict=True)}
    return [next(starts[size]) for size in board.sizes.tolist()]


def solve_cp_sat(board: Board, time_limit: float | None = None) -> Solved:
    """Do as `solve_partition` by constraint programming; needs the extra ``cp-sat``."""
    cp_model = need("ortools.sat.python.cp_model", "cp-sat")
    kinds, counts = np.unique(board.sizes, return_counts=True)
    cost = static_costs(board, kinds)
    m = cost.shape[1]
    model = cp_model.CpModel()
    used = [[model.new_bool_var("") for _ in range(m)] for _ in kinds]
    for k, count in enumerate(counts.tolist()):
        model.add(sum(used[k]) == count)
    for node in range(m):
        model.add_at_most_one(used[k][(node - i) % m] for k, n in enumerate(kinds.tolist()) for i in range(n))
    model.minimize(sum(int(c) * used[k][at] for k in range(len(kinds)) for at, c in enumerate(cost[k].tolist())))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if time_limit is not None:
        solver.parameters.max_time_in_seconds = time_limit
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise TableError(f"cp-sat: no allocation was found: {solver.status_name(status)}")
    chosen = [[at for at in range(m) if solver.value(row[at])] for row in used]
    return Solved(_deal_out(board, kinds, chosen), status == cp_model.OPTIMAL)


def solve_mip_published(board: Board, time_limit: float | None = None) -> Solved:
    """Solve min Σ l y + 10⁹ Σ (1 − z) with y_{j,i} ≤ x_{j,k} for each node k behind a start i, as it was formulated.

    Job j begins at i if y_{j,i} = 1, holds node i if x_{j,i} = 1 and is placed if z_j = 1: Σ_i y = z_j,
    Σ_j x ≤ 1 per node, Σ_i x = n_j z_j, x ≤ z_j. The paper leaves out z and the second of these. To compare.

    Raises
    ------
    TableError
        Nothing that places every job was found within the time limit.
    """
    from scipy.sparse import block_array, csr_array, diags_array, eye_array, kron

    sizes, m = board.sizes, len(board.owner)
    n = len(sizes)
    sum_of_job, sum_of_node = kron(eye_array(n), np.ones((1, m))), kron(np.ones((1, n)), eye_array(m))
    start = np.repeat(np.arange(n * m), np.repeat(sizes, m))
    behind = np.concatenate([np.arange(size) for size in np.repeat(sizes, m).tolist()])
    covered = start // m * m + (start % m + behind) % m
    n_pairs = len(start)
    y_of, x_of = (csr_array((np.ones(n_pairs), (np.arange(n_pairs), at)), (n_pairs, n * m)) for at in (start, covered))
    matrix = block_array(  # the columns are x, y and z
        [
            [None, sum_of_job, -eye_array(n)],
            [sum_of_node, None, None],
            [sum_of_job, None, -diags_array(sizes.astype(float))],
            [eye_array(n * m), None, -sum_of_job.T],
            [-x_of, y_of, None],
        ]
    )
    heights = [n, m, n, n * m, n_pairs]
    low, high = np.repeat([0, 0, 0, -np.inf, -np.inf], heights), np.repeat([0, 1, 0, 0, 0], heights)
    objective = np.r_[np.zeros(n * m), static_costs(board, sizes).ravel(), np.full(n, -NOT_PLACED)]
    found = _milp(objective, matrix, low, high, time_limit)
    if found.x is None or found.x[-n:].min() < 0.5:
        raise TableError(f"mip-published: no allocation of all jobs was found: {found.message}")
    return Solved(np.round(found.x[n * m : -n]).reshape(n, m).argmax(axis=1).tolist(), found.status == 0)
