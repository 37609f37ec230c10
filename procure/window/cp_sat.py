"""``cp-sat``: the optimum of the static model by constraint programming (OR-tools, the extra ``cp-sat``)."""

from __future__ import annotations

import numpy as np

from procure.errors import TableError
from procure.window.board import Board
from procure.window.partition import Solved, static_costs


def solve_cp_sat(board: Board, time_limit: float | None = None) -> Solved:
    """Choose a start of each size at least cost, as often as asked for; intervals along the line do not overlap.

    Raises
    ------
    TableError
        OR-tools is not installed, or nothing was found within the time limit.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise TableError("cp-sat needs OR-tools, which is not installed; pip install 'procure-hpc[cp-sat]'") from None
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
    starts = {n: iter([at for at in range(m) if solver.value(used[k][at])]) for k, n in enumerate(kinds.tolist())}
    chosen = [next(starts[n]) for n in board.sizes.tolist()]
    return Solved(chosen, solver.best_objective_bound, status == cp_model.OPTIMAL)
