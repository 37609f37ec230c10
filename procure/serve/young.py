"""The first hours: what a model that has seen little, or short waits alone, does not know of the waits of now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.queue_time.calibrate import GRID, quantiles_at
from procure.queue_time.distribution import Distribution
from procure.queue_time.model import QueueTimeModel
from procure.queue_time.predict import widened
from procure.queue_time.store import SiteModel
from procure.text import counted, roughly

FEW_ROWS = 1000
"""Waits learnt from, below which a model is young."""
LATELY, MOST_LATELY = 6 * 3600, 200
"""Seconds for which the waits of jobs that have started count as those of now, and the last so many of them."""
LEAST_BEYOND, SHARE_BEYOND = 5, 0.05
"""So many of these, and this share, must have waited longer than all that was learnt, for a model to be behind."""
LATER = 1 / (1 - (np.arange(10) + 0.5) / 10)
"""How many times as long as until now a wait may be, each as likely."""
DOUBT = 0.2
"""How much wider a young model's distributions are made otherwise, see `predict.widened`."""


@dataclass(frozen=True)
class Young:
    """What is to be said first; ``lately`` the waits of now (m,), s, where they are beyond all that was learnt."""

    text: str
    lately: np.ndarray | None = None


def young(site: SiteModel, table: pd.DataFrame, now: int) -> Young | None:
    """Tell whether a model has learnt too little, or from shorter waits than those of now; None where it has not.

    Of a job that still waits it is known that it waits longer than until now, and who comes to a queue that grows waits
    longer than who starts: the chance of a wait t times as long is taken as 1/t, as in `Distribution.after`.
    """
    if not isinstance(site.model, QueueTimeModel):
        return None
    n, longest = int(site.about["trained_rows"]), float(site.model.longest)
    submit = table["submit_time"].to_numpy(dtype=float)
    start, end = (table[name].to_numpy(dtype="float64", na_value=np.inf) for name in ("start_time", "end_time"))
    left = np.minimum(start, end)
    waits = np.flatnonzero((submit <= now) & (left > now))
    begun = np.flatnonzero((start <= now) & (start > now - LATELY))
    begun = begun[np.argsort(start[begun], kind="stable")][-MOST_LATELY:]
    age, waited = now - submit[waits], start[begun] - submit[begun]
    beyond = int((age > longest).sum() + (waited > longest).sum())
    known = f"The model has learnt from {counted(n, 'job')}, which waited at most {duration_of(longest)}"
    if beyond >= max(LEAST_BEYOND, SHARE_BEYOND * (len(age) + len(waited))):
        most = duration_of(float(max(age.max(initial=0), waited.max(initial=0))))
        text = (
            f"{known}; {beyond:,} of the {len(age) + len(waited):,} jobs that wait now or started lately have waited "
            f"longer, up to {most}. Intervals are wider for it, and waits may be longer still."
        )
        return Young(text, np.outer(np.concatenate([waited, age]), LATER).ravel())
    return Young(f"{known}: its intervals have not been proven yet, and are wider for it.") if n < FEW_ROWS else None


def duration_of(seconds: float) -> str:
    """Write a longest wait."""
    return "no time" if seconds < 2.5 else roughly(seconds)


def pooled(curve: np.ndarray, lately: np.ndarray) -> np.ndarray:
    """Return the quantiles of distributions (n, len(GRID)), s, and of the waits of now, half of each."""
    levels = (np.arange(100) + 0.5) / 100
    now = np.broadcast_to(np.quantile(lately, levels), (len(curve), len(levels)))
    found = np.quantile(np.hstack([quantiles_at(curve, levels), now]), GRID, axis=1).T
    found[:, -1] = np.maximum(curve[:, -1], lately.max())
    return np.ascontiguousarray(found)


def careful(site: SiteModel, table: pd.DataFrame, moments: np.ndarray, curve: np.ndarray) -> np.ndarray:
    """Return distributions (n, len(GRID)) of jobs submitted at moments (n,), as a young model ought to state them."""
    waited = (table["start_time"] - table["submit_time"]).max()
    ages = int(moments.max(initial=0)) - table["submit_time"].where(table["start_time"].isna()).min()
    longest = max(0 if pd.isna(waited) else waited, 0 if pd.isna(ages) else ages)
    if not isinstance(site.model, QueueTimeModel) or (
        longest <= site.model.longest and site.about["trained_rows"] >= FEW_ROWS
    ):
        return curve
    curve = curve.copy()
    for moment in np.unique(moments):
        rows, found = moments == moment, young(site, table, int(moment))
        if found is not None:
            curve[rows] = told(curve[rows], found)
    return curve


def told(curve: np.ndarray, found: Young) -> np.ndarray:
    """Return distributions (n, len(GRID)) as `young` has them stated."""
    if found.lately is not None:
        return pooled(curve, found.lately)
    return widened(Distribution(curve), DOUBT).curve
