"""The futures of a study, drawn from the jobs of its workloads."""

from __future__ import annotations

import hashlib

import pandas as pd

from procure.schemas import CLASSES
from procure.tables import with_clock_of
from procure.workload.classes import class_of
from procure.workload.futures import Futures, draw_futures
from procure.workload.past import PAST_NAMES, past_and_parts, scenario_weights
from procure.workload.scale import as_submitted, scale_load


class StudyFutures(Futures):
    """How a study's futures are drawn.

    With ``past``, packages are simulated on the past, too, as it was and in four parts; all futures together count as
    much as the whole and as the parts.
    """

    past: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """What the workloads are called."""
        return (*(PAST_NAMES if self.past else ()), *future_names(self.draws))

    @property
    def weights(self) -> list[float]:
        """What each of them counts."""
        return scenario_weights(self.draws) if self.past else [1.0] * self.draws


def future_names(n: int) -> list[str]:
    """Name futures: ``future-01``, ``future-02`` …"""
    return [f"future-{i:0{max(2, len(str(n)))}d}" for i in range(1, n + 1)]


def table_digest(table: pd.DataFrame) -> str:
    """Return a digest of a table's columns and values."""
    rows = pd.util.hash_pandas_object(table, index=False).to_numpy().astype("<u8")
    names = ",".join(map(str, table.columns)).encode()
    return hashlib.sha256(names + rows.tobytes()).hexdigest()[:16]


def read_futures(jobs: pd.DataFrame, settings: StudyFutures) -> dict[str, pd.DataFrame]:
    """Draw a study's futures from the jobs of its workloads; a log that is too short is an error."""
    return dict(zip(future_names(settings.draws), draw_futures(jobs, settings), strict=True))


def read_past_parts(jobs: pd.DataFrame, settings: Futures, warm_up: int) -> dict[str, pd.DataFrame]:
    """Return the past and its parts, with the load that each class has grown to in the middle of the futures' years."""
    rates = {name: settings.mix.get(name, settings.growth) for name in CLASSES}  # type: ignore[call-overload]
    factors = {name: rate ** (settings.years / 2) for name, rate in rates.items()}
    if any(factor != 1 for factor in factors.values()):
        of = class_of(jobs)
        grown = [
            scale_load(jobs[of == i].reset_index(drop=True), factors[name], settings.seed)
            for i, name in enumerate(CLASSES)
            if (of == i).any()
        ]
        found = pd.concat(grown, ignore_index=True)
        jobs = with_clock_of(jobs, found.sort_values("submit_time", kind="stable", ignore_index=True))
    return past_and_parts(as_submitted(jobs), warm_up)
