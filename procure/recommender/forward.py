"""Buy as of a day in the past, and judge the choice on what came after it: a backtest of the rule of choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError, argument
from procure.evaluation.ranking import rank_correlation
from procure.objectives.aggregate import REGRET_FLOOR, pooled_mean
from procure.packages.nodes import jobs_left_out
from procure.progress import silent
from procure.recommender.rank import Note
from procure.study import Plan, Study, load_plan, load_study
from procure.study.applications import mapper
from procure.study.plan import read_past_jobs
from procure.sweep.trial import simulate_packages
from procure.tables import with_clock_of
from procure.text import Shown, counted, duration
from procure.workload.clock import day_bounds, has_dates, moment, utc_text
from procure.workload.parts import split_days

N_PACKAGES = 1000
RULES = ("past", "mean-day", "cheapest-per-cpu", "random", "hindsight")
HORIZON, WEEK = 28 * 86_400, 7 * 86_400


@dataclass(frozen=True)
class Forward(Shown):
    """What each rule would have bought at each cut, and how that did.

    ``table`` has ``cut`` (the local day), ``rule``, ``package_id``, its ``mean_wait_time`` (s) over what came, the
    ``best_package_id`` in hindsight with its ``best_mean_wait_time``, their ``ratio`` (both at least 60 s),
    ``n_judged`` packages, ``n_runs`` for it, ``saturated`` (on what came), ``rank_correlation`` of the rule's figures
    with what came, ``share_saturated`` of all packages. Of a random choice the ratio is the geometric mean of all.
    """

    table: pd.DataFrame
    notes: list[str]
    title = "chosen before each cut, judged on what came"

    def shown(self) -> pd.DataFrame:
        """Return the table for people."""
        table = self.table.rename(columns={"mean_wait_time": "wait_s"}).round({"wait_s": 0, "ratio": 2})
        return table[["cut", "rule", "package_id", "wait_s", "ratio", "saturated", "n_runs"]]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the rows as plain values, as ``procure evaluate --forward --format json`` prints them."""
        return self.table.to_dict(orient="records")


def forward(
    study: str | Path | Study,
    cuts: Sequence[str] | None = None,
    *,
    horizon: int | None = None,
    n_packages: int = N_PACKAGES,
    seed: int = 1,
    policy: str | None = None,
    note: Note = silent,
) -> Forward:
    """Choose on the jobs before each cut by the rule of `procure.recommend` and others, and judge on those after it.

    Parameters
    ----------
    study, policy, note
        Its workloads are taken together as one log, not swept; one of its policies, None = its first; called with a
        line on each step. A wrong argument, and that no package runs every job, are a `TableError`.
    cuts, horizon
        Local days, or moments, in the log; None = every first of a month with three weeks before it and two after. s
        that are judged after a cut; None = four weeks. The log may end earlier.
    n_packages, seed
        So many packages are drawn at random from those that run every job before the cut.

    Notes
    -----
    The rules: ``past``, the rule of `procure.recommend`: the least mean wait over the past replayed as it was;
    ``mean-day``, over all days of the past, each from an empty system; ``cheapest-per-cpu``, without simulation;
    ``random``; and ``hindsight``, the best of what came. What is judged is replayed continuously, after the study's
    warm-up before the cut; a job that came and that a package cannot run counts as waiting to the last submission.

    Examples
    --------
    >>> import procure
    >>> len(procure.forward("weeks.toml", ["2021-03-29"], n_packages=3).table)
    5
    """
    study = load_study(study)
    if n_packages < 1:
        raise ArgumentError("n_packages", f"{n_packages} was given; it must be 1 or more")
    jobs = mapper(study)(read_past_jobs(study, note), study.workloads[0])
    tz, length = study.workloads[0].tz or (study.futures.tz if study.futures else None), horizon or HORIZON
    plain = study.model_copy(update={"futures": None, "workloads": study.workloads[:1]})
    plan = replace(load_plan(plain), workloads={study.workloads[0].name: jobs})
    tables = []
    for day, cut in _cuts(jobs, cuts, tz):
        warm_up = study.workloads[0].warm_up
        before, after = _between(jobs, None, cut), _between(jobs, cut - warm_up, cut + length)
        bench = _draw(plan, policy or study.simulate.policies[0], before, n_packages, seed)
        note(f"{day}: {counted(len(bench.ids), 'package')}, {len(before):,} jobs before and {len(after):,} after")
        tables.append(_judge(day, _choose(bench, before, warm_up, tz), bench, after, warm_up))
    table = pd.concat(tables, ignore_index=True)
    return Forward(table, _about(table))


@dataclass(frozen=True)
class _Bench:
    """Simulates packages of one study on any jobs."""

    plan: Plan
    policy: str
    ids: np.ndarray
    counts: np.ndarray

    def runs(self, jobs: pd.DataFrame, warm_up: int = 0) -> pd.DataFrame:
        """Return result rows of all packages; a run that failed is an error."""
        first = self.plan.study.workloads[0].model_copy(update={"warm_up": warm_up, "begin": "empty"})
        study = self.plan.study.model_copy(update={"workloads": (first,)})
        plan = replace(self.plan, study=study, workloads={first.name: jobs})
        found = simulate_packages(plan, self.counts, first.name, self.policy, jobs, "raise")
        return found.assign(mean_wait_time=found["mean_wait_time"].fillna(0.0).astype("float64"))

    def judge(self, jobs: pd.DataFrame, warm_up: int) -> pd.DataFrame:
        """Replay jobs on every package; in its mean wait, a job that it cannot run waits to the last submission."""
        found, submit, plan = self.runs(jobs, warm_up), jobs["submit_time"].to_numpy(np.int64), self.plan
        counts = submit >= submit.min() + warm_up
        never = np.where(counts, submit.max() - submit, 0)
        left_out = jobs_left_out(plan.packages, plan.quotes, jobs, plan.existing, never)
        ran = (found["n_completed"].fillna(0) * found["mean_wait_time"]).to_numpy("float64")
        return found.assign(mean_wait_time=(ran + left_out) / max(int(counts.sum()), 1))


def _between(jobs: pd.DataFrame, low: int | None, high: int) -> pd.DataFrame:
    mine = jobs["submit_time"].between(-np.inf if low is None else low, high, inclusive="left")
    return with_clock_of(jobs, jobs[mine].reset_index(drop=True))


def _draw(plan: Plan, policy: str, jobs: pd.DataFrame, n: int, seed: int) -> _Bench:
    """Draw n packages at random from those that run every job; that there is none is an error."""
    packages = plan.packages[plan.packages["distinct"].to_numpy(dtype=bool)].reset_index(drop=True)
    able = np.flatnonzero(jobs_left_out(packages, plan.quotes, jobs, plan.existing) == 0)
    if not len(able):
        raise TableError("no package runs every job, so there is nothing to choose from")
    chosen = packages.iloc[np.random.default_rng(seed).permutation(able)[:n]].reset_index(drop=True)
    counts = np.ascontiguousarray(chosen[plan.types].to_numpy(np.int64))
    return _Bench(replace(plan, packages=chosen), policy, chosen["package_id"].to_numpy(), counts)


def _choose(bench: _Bench, jobs: pd.DataFrame, warm_up: int, tz: str | None) -> dict[str, tuple[np.ndarray, int]]:
    """Return by which figure each rule chooses, the least, float64[packages], and how many runs that took."""
    n, packages = len(bench.ids), bench.plan.packages
    found = {"past": (bench.runs(jobs, warm_up)["mean_wait_time"].to_numpy(), n)}
    if has_dates(jobs):
        days = split_days(jobs, tz or "UTC").values()
        waits = np.array([bench.runs(day)["mean_wait_time"].to_numpy() for day in days])
        found["mean-day"] = pooled_mean(waits, np.array([[float(len(day))] for day in days])), n * len(days)
    price, cpus = (packages[name].to_numpy(dtype="float64") for name in ("price_usd", "total_cpus"))
    return found | {"cheapest-per-cpu": (price / cpus, 0)}


def _cuts(jobs: pd.DataFrame, cuts: Sequence[str] | None, tz: str | None) -> list[tuple[str, int]]:
    """Return the cuts and their moments; each has three weeks before it and jobs after."""
    first, last, dated = int(jobs["submit_time"].min()), int(jobs["submit_time"].max()), has_dates(jobs)
    if not cuts:
        if not dated:
            raise ArgumentError("cut", "this log has no dates, so cuts are to be given, in its seconds")
        months = pd.date_range(*(pd.Timestamp(one, unit="s") for one in (first, last)), freq="MS").strftime("%Y-%m-%d")
        found = [(day, day_bounds(day, tz or "UTC")[0]) for day in months]
        found = [(day, at) for day, at in found if at - first >= 3 * WEEK and last - at >= 2 * WEEK]
        if not found:
            raise ArgumentError("cut", "the log has no first of a month with three weeks before it and two after")
        return found
    found = []
    for text in cuts:
        with argument("cut"):
            at = day_bounds(text, tz or "UTC")[0] if len(text) == 10 and dated else moment(text, tz or "UTC")
        if not first + 3 * WEEK <= at <= last:
            told = f"{text} was given; the log goes from {utc_text(first)} to {utc_text(last)}"
            raise ArgumentError("cut", f"{told}, and a cut has three weeks of it before and some jobs after")
        found.append((text, at))
    return found


def _judge(
    day: str, chosen: dict[str, tuple[np.ndarray, int]], bench: _Bench, jobs: pd.DataFrame, warm_up: int
) -> pd.DataFrame:
    """Replay what came on every package, and say how each choice did."""
    came = bench.judge(jobs, warm_up)
    wait, saturated = (came[name].to_numpy(dtype="float64") for name in ("mean_wait_time", "saturated"))
    best, ids = int(wait.argmin()), bench.ids
    ratio = np.maximum(wait, REGRET_FLOOR) / max(wait[best], REGRET_FLOOR)
    columns = ("rule", "package_id", "mean_wait_time", "ratio", "n_runs", "saturated", "rank_correlation")
    rows: list[tuple[Any, ...]] = []
    for rule, (figure, n_runs) in (chosen | {"hindsight": (wait, 0)}).items():
        row = int(figure.argmin())
        told = rank_correlation(figure, wait) if len(wait) > 2 else np.nan
        rows.append((rule, ids[row], wait[row], float(ratio[row]), n_runs, bool(saturated[row]), told))
    rows.insert(-1, ("random", None, float(wait.mean()), float(np.exp(np.log(ratio).mean())), 0, None, np.nan))
    table = pd.DataFrame(rows, columns=columns)
    table.insert(0, "cut", day)
    table.insert(4, "best_package_id", ids[best])
    table.insert(5, "best_mean_wait_time", wait[best])
    return table.assign(n_judged=len(wait), share_saturated=float(np.nanmean(saturated)))


def _about(table: pd.DataFrame) -> list[str]:
    """Say of each cut what was judged, and over the cuts how often the best each rule waits."""
    found = [
        f"{of.cut}: judged on {of.n_judged:,} packages, of which {of.share_saturated:.0%} saturate; the best in "
        f"hindsight waits {duration(of.best_mean_wait_time)}; the past's replay and what came order them with a rank "
        f"correlation of {of.rank_correlation:.2f}"
        for of in table.drop_duplicates("cut").itertuples()
    ]
    if len(found) > 1:
        mean = np.exp(np.log(table["ratio"]).groupby(table["rule"]).mean()).sort_values(kind="stable")
        shown = ", ".join(f"{rule} {value:.2f}" for rule, value in mean.items())
        found.append(f"over {len(found)} cuts the choice waits so many times the best (geometric mean): {shown}")
    return found
