"""Which jobs will come, as a job table with confidence; and how good such forecasts were, made as the log went on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.forecast.confidence import MODES, NEVER, check_mode, confidence_of, make_forecasts
from procure.forecast.periods import DAY, PERIODS, Patterns, PatternSettings, find_patterns
from procure.progress import silent
from procure.schemas import JOB
from procure.tables import check, with_clock_of
from procure.text import Shown, counted
from procure.workload.clock import from_local, utc_text

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
