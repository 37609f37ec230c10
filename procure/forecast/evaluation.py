"""How good the forecasts are, made one after another as the log went on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.forecast.boosted import confidence_of
from procure.forecast.confidence import MODES, make_forecasts
from procure.forecast.known import NEVER
from procure.forecast.periods import PERIODS, PatternSettings, find_patterns
from procure.progress import silent
from procure.text import Shown

SOFT, HARD = 1 / 3, 2 / 3
"""The published borders: from the first on a reservation is held, from the second on it is not given up."""
_LEAST_SHARE = 0.01
"""Of the forecasts, in a tenth of the confidence that says something of its calibration."""


@dataclass(frozen=True)
class Judged(Shown):
    """What an evaluation gave: a record per period and confidence mode, as `judge` says, and stated fallbacks."""

    rows: list[dict[str, Any]]
    notes: list[str]

    title = "forecasts judged by what came"

    @property
    def table(self) -> pd.DataFrame:
        """The rows as a table."""
        return pd.DataFrame(self.rows)


def evaluate(
    jobs: pd.DataFrame,
    settings: PatternSettings | None = None,
    modes: Sequence[str] = MODES,
    *,
    progress: Callable[[str], None] = silent,
) -> Judged:
    """Judge every forecast from the third period on whose outcome the log knows.

    Parameters
    ----------
    jobs
        A checked job table.

    Raises
    ------
    TableError
        The log is shorter than two days, or no forecast can be judged.

    Examples
    --------
    >>> import procure
    >>> set(procure.evaluate_forecasts(procure.read_log("week.parquet").jobs).table["period"])
    {'day'}
    """
    patterns = find_patterns(jobs, settings)
    jobs = patterns.jobs
    cpus = (jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"]).to_numpy(np.float64)
    hours = np.bincount(patterns.burst_of, cpus * jobs["run_time"].to_numpy(np.float64) / 3600)  # of each burst
    rows, notes = [], list(patterns.notes)
    for name in patterns.layers():
        f = make_forecasts(patterns, name)
        judged = (f.known < NEVER) & (f.issued >= patterns.first + 2 * PERIODS[name])
        came = f.came[judged]
        if not judged.any():
            notes.append(f"{name}: no forecast could be judged")
            continue
        if came.all() or not came.any():
            notes.append(
                f"{name}: all of {judged.sum()} forecasts {'came true' if came.any() else 'failed'}: there is nothing "
                "to rank, so no AUC and no gain"
            )
        for mode in modes:
            progress(f"{name}: {mode}")
            sure = confidence_of(patterns, f, mode)[judged]
            row = {"period": name, "confidence": mode} | judge(sure, came)
            rows.append(row | reserved(sure, came, hours[f.burst][judged]))
    if not rows:
        raise TableError("; ".join(notes) or "no forecast can be judged: the log holds no two periods")
    missing = [name for name in PERIODS if name not in patterns.layers()]
    if missing:
        notes.append(f"the log holds less than two periods of {', '.join(missing)}: not judged")
    return Judged(rows, notes)


def judge(sure: np.ndarray, came: np.ndarray) -> dict[str, Any]:
    """Measure stated chances against outcomes.

    ``n_forecasts n_hits base_rate auc brier brier_constant`` (of the base rate, known afterwards, for all),
    ``brier_gain`` (share below the constant's) and ``worst_tenth``, the largest difference of stated and observed in a
    tenth of the confidence with at least 1 % of the forecasts.
    """
    from sklearn.metrics import roc_auc_score  # takes a second to import

    base = float(came.mean())
    brier, constant = float(np.mean((sure - came) ** 2)), base * (1 - base)
    tenth = np.minimum((sure * 10).astype(int), 9)
    n, above = np.bincount(tenth), np.bincount(tenth, sure - came)
    enough = n >= max(1, _LEAST_SHARE * len(came))
    return {
        "n_forecasts": len(came),
        "n_hits": int(came.sum()),
        "base_rate": base,
        "auc": float(roc_auc_score(came, sure)) if constant else np.nan,
        "brier": brier,
        "brier_constant": constant,
        "brier_gain": 1 - brier / constant if constant else np.nan,
        "worst_tenth": float(np.max(np.abs(above[enough]) / n[enough])),
    }


def reserved(sure: np.ndarray, came: np.ndarray, size: np.ndarray) -> dict[str, float]:
    """Measure what reservations for these forecasts would have held.

    A reservation is as large, in CPU-hours, as the burst that is to come again was. Of the published borders:
    ``precision`` is the share of reserved CPU-hours whose burst came, ``recall`` the share of the CPU-hours of all
    bursts that were followed by a like one.
    """
    again, found = size[came].sum(), {}
    for name, border in (("soft", SOFT), ("hard", HARD)):
        held = sure >= border
        hit = size[held & came].sum()
        found[f"precision_{name}"] = float(hit / size[held].sum()) if size[held].sum() else np.nan
        found[f"recall_{name}"] = float(hit / again) if again else np.nan
    return found
