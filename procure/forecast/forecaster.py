"""What is expected next: patterns prolonged into the coming days, as a job table with confidence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.forecast.boosted import boosted
from procure.forecast.confidence import Forecasts, check_mode, confidence, make_forecasts
from procure.forecast.periods import DAY, PERIODS, Patterns, PatternSettings
from procure.progress import silent
from procure.schemas import JOB
from procure.tables import check, with_clock_of
from procure.workload.clock import from_local

_FEWEST_ENDED = 3
"""Of fewer ended jobs of a key, its user's, and of fewer of these, all ended jobs say how long jobs run."""
_LEVELS = (0.1, 0.5, 0.9)


def confidence_of(patterns: Patterns, forecasts: Forecasts, mode: str) -> np.ndarray:
    """Return the confidence of each forecast under any of `MODES`, float64[n]."""
    check_mode(mode)
    if mode == "boosted":
        return boosted(patterns, forecasts)
    return confidence(forecasts, mode)


def pattern_table(patterns: Patterns, fewest: int, mode: str) -> pd.DataFrame:
    """Return `Patterns.table` with ``confidence``, that of one more period; NaN where the pattern has ended."""
    table = patterns.table(fewest).assign(confidence=np.nan)
    for name in table["every"].unique():
        sure = confidence_of(patterns, make_forecasts(patterns, name), mode)
        rows = (table["every"] == name) & table["running"]
        table.loc[rows, "confidence"] = sure[table.loc[rows, "burst"].to_numpy(int)]
    return table


class Forecaster:
    """Which jobs will come: learns from a log, predicts a job table.

    Parameters
    ----------
    confidence
        One of `procure.forecast.confidence.MODES`.
    settings
        What counts as a pattern.
    """

    def __init__(self, confidence: str = "boosted", settings: PatternSettings | None = None) -> None:
        """Keep how to forecast."""
        check_mode(confidence)
        self.confidence = confidence
        self.settings = settings
        self.notes: list[str] = []

    def fit(self, jobs: pd.DataFrame, at: int | None = None, progress: Callable[[str], None] = silent) -> Forecaster:
        """Learn from what was known at a moment: jobs submitted by then, run times of jobs ended by then.

        Parameters
        ----------
        jobs
            A checked job table. An end that it does not know is taken as submission + run time.
        at
            s; the last submission without.

        Raises
        ------
        TableError
            Fewer than two days lie before ``at``.
        """
        submit = jobs["submit_time"].to_numpy(np.int64)
        self.at = int(submit.max()) if at is None else int(at)
        self.jobs = jobs[submit <= self.at].reset_index(drop=True)
        self.patterns = Patterns(self.settings)
        if len(self.jobs):
            self.job_burst = self.patterns.extend(self.jobs)
            self.patterns.last = self.at  # that nobody came since the last submission is known, too
        layers = self.patterns.layers()
        if not layers:
            span = (self.at - self.patterns.first) / DAY if len(self.jobs) else 0
            raise TableError(f"{span:.1f} days of the log lie before the moment; two periods, 2 days, are needed")
        short = [name for name in PERIODS if name not in layers]
        self.notes = list(self.patterns.notes)
        if short:
            self.notes.append(f"the log holds less than two periods of {', '.join(short)}: not forecast")
        self._found = {}
        for name in layers:
            found = make_forecasts(self.patterns, name)
            progress(f"{name}: {len(found.burst):,} earlier forecasts")
            self._found[name] = (found, confidence_of(self.patterns, found, self.confidence))
        self._learn_run_times()
        return self

    def _learn_run_times(self) -> None:
        jobs = self.jobs
        run = jobs["run_time"].to_numpy(np.int64)
        submit = jobs["submit_time"].to_numpy(np.int64)
        end = submit + run
        if "end_time" in jobs:
            logged = pd.to_numeric(jobs["end_time"], errors="coerce").to_numpy(np.float64, na_value=np.nan)
            end = np.where(np.isnan(logged), end, np.nan_to_num(logged)).astype(np.int64)
        ended = end <= self.at
        key = self.patterns.bursts.key[self.job_burst]
        known = pd.DataFrame({"key": key[ended], "run": run[ended], "user": jobs["user"].to_numpy()[ended]})
        self._by_key, self._by_user = (
            known.groupby(name)["run"].agg([*(lambda v, q=q: v.quantile(q) for q in _LEVELS), "size"])
            for name in ("key", "user")
        )
        everything = known["run"] if len(known) else pd.Series([0])
        self._of_all = everything.quantile(list(_LEVELS)).to_numpy()

    def _run_times(self, key: int, user: str) -> np.ndarray:
        for table, name in ((self._by_key, key), (self._by_user, user)):
            if name in table.index and table.loc[name].iloc[-1] >= _FEWEST_ENDED:
                return table.loc[name].to_numpy()[: len(_LEVELS)]
        return self._of_all

    def predict(self, days: float, least: float = 0.01) -> pd.DataFrame:
        """Return the jobs that are expected within the next days.

        Each pattern is prolonged period by period; the confidence of the n-th is the product of n
        factors of the first. Where several layers expect like jobs at about the same time, the surest stays.

        Parameters
        ----------
        days
            Horizon from the moment of the fit.
        least
            Confidence below which a burst is left out.

        Returns
        -------
        pandas.DataFrame
            A job table, by ``submit_time``, a row per expected job: the request of the pattern's last job,
            ``run_time`` the median of the ended ones, and ``confidence`` (that the burst comes),
            ``submit_spread`` (s, standard deviation about the expected submission), ``run_time_10``,
            ``run_time_90``, ``every`` (period), ``burst`` (rows of one burst have one number).

        Raises
        ------
        ArgumentError
            The horizon is not above 0.
        """
        if not days > 0:
            raise ArgumentError("days", f"{days:g} was given; the horizon must be above 0 days")
        expected = pd.concat([self._prolonged(name, days) for name in self._found])
        expected = self._merged(expected[expected["confidence"] >= least])
        rows = [self._jobs_of(number, row) for number, row in enumerate(expected.itertuples(index=False))]
        table = pd.concat(rows, ignore_index=True) if rows else self._no_jobs()
        table["job_id"] = [f"forecast-{i + 1}" for i in range(len(table))]
        return with_clock_of(self.jobs, check(table, JOB))

    def _prolonged(self, name: str, days: float) -> pd.DataFrame:
        """Return what one layer expects within the horizon: ``key burst expected spread confidence every``."""
        b, settings = self.patterns.bursts, self.patterns.settings
        f, sure = self._found[name]
        period, tolerance = PERIODS[name], int(settings.tolerance[f.layer])
        spread = self._spread(f.layer, period)
        parts = []
        until = self.at + days * DAY
        # A burst that has been followed is prolonged from its follower.
        open_ones = np.flatnonzero(~f.came & (f.issued >= self.at - period - tolerance - DAY))
        for step in range(1, int(days * DAY // period) + 2):
            expected = from_local(b.local[open_ones] + step * period, settings.tz)
            # The first may be late already, and still come within the tolerance.
            expected = np.where((expected + tolerance > self.at) & (step == 1), np.maximum(expected, self.at), expected)
            due = (expected >= self.at) & (expected <= until)
            chosen = open_ones[due]
            parts.append(
                pd.DataFrame(
                    {
                        "key": b.key[chosen],
                        "burst": chosen,
                        "expected": expected[due],
                        "spread": spread,
                        "tolerance": tolerance,
                        "confidence": sure[chosen] ** step,
                        "every": name,
                    }
                )
            )
        return pd.concat(parts, ignore_index=True)

    def _spread(self, layer: int, period: int) -> int:
        """Return the standard deviation, s, of a layer's recurrences about the expected moment."""
        b = self.patterns.bursts
        found = np.flatnonzero(b.before[layer] >= 0)
        late = b.local[found] - b.local[b.before[layer, found]] - period
        return round(float(np.sqrt(np.mean(late.astype(float) ** 2)))) if len(late) else 0

    @staticmethod
    def _merged(expected: pd.DataFrame) -> pd.DataFrame:
        """Keep the surest of the expectations of a key that lie within the tolerance of a surer one."""
        surest = expected.sort_values(["confidence", "expected"], ascending=[False, True], kind="stable")
        kept: dict[int, list[int]] = {}
        stays = []
        for key, moment, tolerance in surest[["key", "expected", "tolerance"]].itertuples(index=False):
            near = any(abs(moment - other) <= tolerance for other in kept.get(key, ()))
            stays.append(not near)
            if not near:
                kept.setdefault(key, []).append(moment)
        return surest[np.array(stays, bool)].sort_values(["expected", "key"], kind="stable")

    def _jobs_of(self, number: int, row) -> pd.DataFrame:
        """Return the expected jobs of one burst: as many as the pattern's bursts have, by the median."""
        b = self.patterns.bursts
        f, _ = self._found[row.every]
        members = [row.burst]
        while b.before[f.layer, members[-1]] >= 0:
            members.append(int(b.before[f.layer, members[-1]]))
        size = max(1, round(float(np.median(b.n_jobs[members]))))
        last = self.jobs.iloc[[self._last_job_of(row.burst)]]
        request = last[[name for name in _REQUEST if name in last]]
        low, median, high = self._run_times(row.key, str(last["user"].iloc[0]))
        limit = int(last["requested_time"].iloc[0]) or np.inf
        table = pd.concat([request] * size, ignore_index=True)
        return table.assign(
            submit_time=int(row.expected),
            run_time=round(min(median, limit)),
            confidence=row.confidence,
            submit_spread=int(row.spread),
            run_time_10=round(min(low, limit)),
            run_time_90=round(min(high, limit)),
            every=row.every,
            burst=number,
        )

    def _last_job_of(self, burst: int) -> int:
        if not hasattr(self, "_last_row"):
            order = np.argsort(self.jobs["submit_time"].to_numpy(), kind="stable")
            self._last_row = np.zeros(len(self.patterns.bursts.key), np.int64)
            self._last_row[self.job_burst[order]] = order
        return int(self._last_row[burst])

    def _no_jobs(self) -> pd.DataFrame:
        names = ["confidence", "submit_spread", "run_time_10", "run_time_90", "every", "burst"]
        return self.jobs.iloc[:0][[*(n for n in _REQUEST if n in self.jobs), "submit_time", "run_time"]].assign(
            **dict.fromkeys(names, 0)
        )


_REQUEST = tuple(
    "user requested_time n_nodes cpus_per_node mem_mb_per_node gpus_per_node gpu_type partition account".split()
)
