"""Which jobs will come? Patterns prolonged into the coming days, as a job table with confidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import ArgumentError
from procure.forecast.boosted import confidence_of
from procure.forecast.confidence import check_mode, make_forecasts
from procure.forecast.periods import DAY, PERIODS, Patterns, PatternSettings, find_patterns
from procure.progress import silent
from procure.schemas import JOB
from procure.tables import check, with_clock_of
from procure.text import Shown, counted
from procure.workload.clock import from_local, utc_text

_FEWEST_ENDED = 3
"""Of fewer ended jobs of a key, all ended jobs say how long jobs run."""
_REQUEST = tuple(
    "user requested_time n_nodes cpus_per_node mem_mb_per_node gpus_per_node gpu_type partition account".split()
)


@dataclass(frozen=True)
class ExpectedJobs(Shown):
    """The jobs that a log's patterns let expect.

    Attributes
    ----------
    table
        A job table, by ``submit_time``, a row per job: the request of the pattern's last job, ``run_time`` the median
        of the ended ones, ``confidence`` (that the burst comes), ``every`` (period) and ``burst`` (one number for the
        rows of one burst).
    notes
        What the user should know of the log.
    """

    table: pd.DataFrame
    notes: list[str]

    @property
    def title(self) -> str:
        """How many jobs."""
        return counted(len(self.table), "expected job")

    def to_dict(self) -> list[dict[str, Any]]:
        """Return a record per job."""
        return self.table.to_dict(orient="records")

    def shown(self) -> pd.DataFrame:
        """Return a row per burst: when, whose, how many jobs, of what size, how surely."""
        bursts = self.table.groupby("burst", sort=False)
        shown = bursts.first().assign(n_jobs=bursts.size()).reset_index()
        names = ["n_nodes", "cpus_per_node", "requested_time", "run_time", "every", "confidence"]
        return shown.assign(expected=shown["submit_time"].map(utc_text))[["expected", "user", "n_jobs", *names]]


def forecast_jobs(
    jobs: pd.DataFrame,
    days: float = 7.0,
    *,
    at: int | None = None,
    confidence: str = "boosted",
    least: float = 0.05,
    settings: PatternSettings | None = None,
    note: Callable[[str], None] = silent,
) -> ExpectedJobs:
    """Forecast which jobs will come, and how surely, from what recurs by day, week and month.

    Each pattern is prolonged period by period; the confidence of the n-th is the product of n factors of the first.
    Where several layers expect like jobs at about the same time, the surest stays.

    Parameters
    ----------
    jobs
        A checked job table; only what was known at the moment is used. An end that it does not know is taken as
        submission + run time.
    days
        Horizon.
    at
        Unix seconds; the last submission without.
    confidence
        One of `procure.forecast.confidence.MODES`.
    least
        Confidence below which a burst is left out.
    settings
        What counts as a pattern.
    note
        Called with how far the forecast is.

    Raises
    ------
    ArgumentError
        The horizon is not above 0, or an unknown mode.
    TableError
        Fewer than two days lie before the moment.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=300)
    >>> week = [jobs.assign(submit_time=jobs["submit_time"] + 86_400 * day) for day in range(7)]
    >>> procure.forecast_jobs(procure.merge(week), days=1, confidence="hazard").table["confidence"].between(0, 1).all()
    np.True_
    """
    if not 0 < days < float("inf"):
        raise ArgumentError("days", f"{days:g} was given; the horizon must be above 0 days")
    check_mode(confidence)
    patterns = find_patterns(jobs, settings, at)
    layers = patterns.layers()
    expected = _surest(pd.concat([_prolonged(patterns, name, days, confidence, note) for name in layers]), least)
    run_time = _run_times(patterns)
    rows = [_jobs_of(patterns, run_time, n, row) for n, row in enumerate(expected.itertuples(index=False))]
    asked = [*(name for name in _REQUEST if name in patterns.jobs), "submit_time", "run_time"]
    none = patterns.jobs.iloc[:0][asked].assign(confidence=0, every=0, burst=0)
    table = pd.concat(rows, ignore_index=True) if rows else none
    table["job_id"] = [f"forecast-{i + 1}" for i in range(len(table))]
    short = [name for name in PERIODS if name not in layers]
    left_out = [f"the log holds less than two periods of {', '.join(short)}: not forecast"] if short else []
    return ExpectedJobs(with_clock_of(patterns.jobs, check(table, JOB)), [*patterns.notes, *left_out])


def _prolonged(patterns: Patterns, name: str, days: float, mode: str, note: Callable[[str], None]) -> pd.DataFrame:
    """Return what one layer expects within the horizon: ``key burst expected tolerance confidence every``."""
    b, settings, at = patterns.bursts, patterns.settings, patterns.last
    f = make_forecasts(patterns, name)
    note(f"{name}: {len(f.burst):,} earlier forecasts")
    sure = confidence_of(patterns, f, mode)
    period, tolerance = PERIODS[name], int(settings.tolerance[f.layer])
    # A burst that has been followed is prolonged from its follower.
    ends = np.flatnonzero(~f.came & (f.issued >= at - period - tolerance - DAY))
    parts = []
    for step in range(1, int(days * DAY // period) + 2):
        expected = from_local(b.local[ends] + step * period, settings.tz)
        if step == 1:  # it may be late already, and still come within the tolerance
            expected = np.where(expected + tolerance > at, np.maximum(expected, at), expected)
        due = (expected >= at) & (expected <= at + days * DAY)
        what = {"key": b.key[ends[due]], "burst": ends[due], "expected": expected[due]}
        parts.append(pd.DataFrame(what | {"tolerance": tolerance, "confidence": sure[ends[due]] ** step}))
    return pd.concat(parts, ignore_index=True).assign(every=name)


def _surest(expected: pd.DataFrame, least: float) -> pd.DataFrame:
    """Keep the surest of the expectations of a key that lie within the tolerance of a surer one, in order of time."""
    surest = expected[expected["confidence"] >= least].sort_values(
        ["confidence", "expected"], ascending=[False, True], kind="stable"
    )
    kept: dict[int, list[int]] = {}
    stays = []
    for key, moment, tolerance in surest[["key", "expected", "tolerance"]].itertuples(index=False):
        stays.append(not any(abs(moment - other) <= tolerance for other in kept.get(key, ())))
        if stays[-1]:
            kept.setdefault(key, []).append(moment)
    return surest[np.array(stays, bool)].sort_values(["expected", "key"], kind="stable")


def _run_times(patterns: Patterns) -> np.ndarray:
    """Return per key the median run time, s, of the jobs that had ended; where these are few, of all of them."""
    jobs = patterns.jobs
    end = jobs["submit_time"] + jobs["run_time"]
    if "end_time" in jobs:
        end = pd.to_numeric(jobs["end_time"], errors="coerce").astype("Float64").fillna(end)
    ended = (end <= patterns.last).to_numpy(bool)
    run = jobs["run_time"][ended]
    by_key = run.groupby(patterns.bursts.key[patterns.burst_of][ended]).agg(["median", "size"])
    found = np.full(len(patterns.keys), run.median() if len(run) else 0.0)
    enough = by_key[by_key["size"] >= _FEWEST_ENDED]
    found[enough.index] = enough["median"]
    return found


def _jobs_of(patterns: Patterns, run_time: np.ndarray, number: int, row: Any) -> pd.DataFrame:
    """Return the expected jobs of one burst: as many as the pattern's bursts have, by the median."""
    b, layer = patterns.bursts, list(PERIODS).index(row.every)
    members = [row.burst]
    while b.before[layer, members[-1]] >= 0:
        members.append(int(b.before[layer, members[-1]]))
    size = max(1, round(float(np.median(b.n_jobs[members]))))
    last = patterns.jobs.iloc[[np.flatnonzero(patterns.burst_of == row.burst)[-1]]]
    request = pd.concat([last[[name for name in _REQUEST if name in last]]] * size, ignore_index=True)
    limit = int(last["requested_time"].iloc[0]) or np.inf
    return request.assign(
        submit_time=int(row.expected),
        run_time=round(min(run_time[row.key], limit)),
        confidence=row.confidence,
        every=row.every,
        burst=number,
    )
