"""The optimum of the static model as a set partition, solved by HiGHS: an oracle of `exact`."""

from __future__ import annotations

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_array, vstack

from procure.window.problem import make_board
from procure.window.search import static_costs


def optimum(window):
    """The least cost of starts that use every size as often as asked for and no node twice."""
    board = make_board(window.tree.shape, window.idle, window.sizes, 0)
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
        options={"mip_rel_gap": 0.0},
    )
    assert found.status == 0
    return round(found.fun)
