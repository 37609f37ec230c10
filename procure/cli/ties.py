"""Packages that the workload does not tell apart, said in a sentence of a list or of a front."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from procure.cli.chosen import Chosen
    from procure.cli.recommend import Ranked

_HEAVIER = "a heavier load says more (procure workload load)"


def of_list(done: Ranked) -> list[str]:
    """Say that no simulated package lets jobs wait, or that the whole list shares the least figure."""
    from procure.objectives import OBJECTIVES
    from procure.text import said

    table = done.found.ranking
    known = table[table["simulated"] & (table["jobs_left_out"] == table["jobs_left_out"].min())]
    if done.chosen is not None:
        known = known[known["satisfies"]]
    waits = known["mean_wait_time"].to_numpy(dtype="float64")
    if _nobody_waits(waits):
        return [
            f"no job waits under any of the {len(waits):,} packages that were simulated: with this workload, waits do "
            f"not tell packages apart, and among those with equal figures the cheapest stand first; {_HEAVIER}"
        ]
    of = OBJECTIVES["mean-wait"] if done.chosen is None else done.chosen.wanted.objective
    values = waits if done.chosen is None else known["objective_value"].to_numpy(dtype="float64")
    n = int((values == values.min(initial=float("inf"))).sum())
    if of.source != "result" or n < max(2, done.found.k):
        return []
    return [
        f"{n:,} of the {len(values):,} packages that were simulated have the same least {of.name}, "
        f"{said(float(values.min()), of.unit)}: it does not tell these apart, and the cheapest of them stand first; "
        f"{_HEAVIER}"
    ]


def of_front(front: Chosen) -> list[str]:
    """Say that no simulated package lets jobs wait."""
    from procure.objectives import OBJECTIVES

    able = front.figures.whole.runs_all
    waits, known = front.figures.value(OBJECTIVES["mean-wait"])
    some = known & (able if able.any() else ~able)
    if not _nobody_waits(waits[some]):
        return []
    return [
        f"no job waits under any of the {int(some.sum()):,} packages that were simulated: with this workload, waits do "
        f"not tell packages apart, and the front is decided by what else it is drawn by; {_HEAVIER}"
    ]


def _nobody_waits(waits: np.ndarray) -> bool:
    return len(waits) > 1 and not waits.max() > 0
