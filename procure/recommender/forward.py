"""Buy as of a day in the past, and judge the choice on what came after it: a backtest of rules of choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from procure.errors import ArgumentError, TableError
from procure.evaluation.ranking import rank_correlation
from procure.objectives.aggregate import REGRET_FLOOR, pooled_mean
from procure.objectives.quantities import BY_CLASS
from procure.packages.runnable import jobs_left_out
from procure.progress import silent
from procure.recommender.heats import two_heats
from procure.recommender.learning import Note
from procure.recommender.outlook import DRAWN_IN, STATED, best_and_near
from procure.recommender.race import (
    OUT,
    Race,
    Score,
    as_it_is,
    by_rank,
    features_of,
    race,
    running_order,
)
from procure.run import run_prepared
from procure.schemas import CLASSES
from procure.study import Plan, Study, load_plan, load_study
from procure.study.plan import read_past_jobs
from procure.sweep.runner import Bench, make_bench, simulate_batch
from procure.tables import with_clock_of
from procure.text import Shown, counted, duration
from procure.workload.clock import day_bounds, has_dates, moment, utc_text
from procure.workload.days import split_days
from procure.workload.futures import WEEK, Futures, draw_futures
from procure.workload.past import N_PARTS, part_bounds, scenario_weights, waits_by_part
from procure.workload.scale import cpu_seconds

N_PACKAGES, RUNS_PER_PACKAGE = 1000, 3
N_HARDEST, N_PROBED = 5, 50
NEAR_BEST = 1.2
RULES = (
    "recommended", "futures", "futures-mean", "past", "mean-day", "worst-day", "hardest-days",
    "cheapest-per-cpu", "most-cpus", "most-memory", "existing-mix",
)  # fmt: skip
"""How a package is chosen at a cut; see `forward`."""


@dataclass(frozen=True)
class Forward(Shown):
    """What each rule would have bought at each cut, and how that did.

    Attributes
    ----------
    table
        ``cut`` (the local day), ``rule``, ``package_id``, its ``mean_wait_time`` (s) over what came, the
        ``best_package_id`` in hindsight with its ``best_mean_wait_time``, their ``ratio`` (both at least 60 s),
        ``n_judged`` packages, ``n_runs`` that the choice took, ``saturated`` (on what came), and of both rules by
        futures ``best_chance``, ``near_chance`` (stated), and ``low_wait_time``, ``high_wait_time`` (the stated 90 %
        range); ``rank_correlation`` of the rule's figures with what came, over the packages that it knows wholly.
        Whether the best in hindsight is a matter of luck: ``share_near_best`` of the judged packages wait at most 1.2
        times as long;
        ``halves_correlation`` is the rank correlation of the waits over the first and the second half of what came,
        and ``halves_ratio`` the ratio on one half of the package that is the best on the other, geometric mean of
        both ways: what knowing half of what came would give.
    notes
        What the figures are about.
    """

    table: pd.DataFrame
    notes: list[str]
    title = "chosen before each cut, judged on what came"

    def shown(self) -> pd.DataFrame:
        """Return the table for people."""
        table = self.table[["cut", "rule", "package_id", "mean_wait_time", "ratio", "saturated", "n_runs"]]
        return table.assign(
            mean_wait_time=table["mean_wait_time"].round(), ratio=table["ratio"].round(2)
        ).rename(columns={"mean_wait_time": "wait_s"})

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the rows as plain values, as ``procure evaluate --forward --format json`` prints them."""
        return self.table.to_dict(orient="records")


@dataclass(frozen=True)
class _Candidates:
    """Simulates packages of one study on any jobs."""

    plan: Plan
    policy: str
    ids: np.ndarray
    counts: np.ndarray

    def lay_out(self, jobs: pd.DataFrame, warm_up: int = 0) -> Bench:
        """Lay out some jobs."""
        name = next(iter(self.plan.workloads))
        first = self.plan.study.workloads[0].model_copy(update={"warm_up": warm_up, "begin": "empty"})
        study = self.plan.study.model_copy(update={"workloads": (first,)})
        plan = replace(self.plan, study=study, workloads={name: jobs})
        return make_bench(plan, name, self.policy)

    @property
    def features(self) -> np.ndarray:
        """What a race's model knows the packages by."""
        return features_of(
            self.counts, self.plan.packages[["total_cpus", "total_mem_gb", "total_gpus"]].to_numpy()
        )

    def runs(self, on: Bench, rows: np.ndarray) -> pd.DataFrame:
        """Return result rows of some packages."""
        found, _ = simulate_batch(on, self.ids[rows].tolist(), self.counts[rows])
        for run in found[found["status"] != "ok"].head(1).itertuples():
            raise TableError(f"package {run.package_id}: {run.reason}")
        return found

    def wait(self, on: Bench, rows: np.ndarray) -> np.ndarray:
        """Return mean waits, s."""
        return self.runs(on, rows)["mean_wait_time"].fillna(0.0).to_numpy(dtype="float64")

    def waits_by_class(self, on: Bench, rows: np.ndarray) -> np.ndarray:
        """Return the mean waits of all jobs, then of each class, s, float64[1 + classes, rows]."""
        return self.runs(on, rows)[list(BY_CLASS)].to_numpy(dtype="float64").T

    def past_by_part(self, on: Bench, rows: np.ndarray) -> np.ndarray:
        """Replay the past once a package; return its waits, s, float64[1 + parts, 1 + classes, rows]."""
        ready, n = on.ready, on.n_existing
        found, submit = np.empty((1 + N_PARTS, 1 + len(CLASSES), len(rows))), ready.jobs.submit
        bounds = part_bounds(submit, ready.counts_from)
        for i, row in enumerate(rows):
            nodes = np.repeat(np.arange(n, len(ready.kind_of)), self.counts[row])
            nodes = np.concatenate([np.arange(n), nodes])
            mine = {name: getattr(ready, name)[nodes] for name in ("kind_of", "leaf", "pod")}
            start = run_prepared(replace(ready, **mine), on.policy).start
            wait = np.where(start >= 0, start - submit, -1)
            found[:, :, i] = waits_by_part(submit, wait, ready.job_class, bounds)
        return found

    def judge(self, jobs: pd.DataFrame, warm_up: int) -> pd.DataFrame:
        """Replay jobs on every package; in its mean wait, a job that it cannot run waits to the last submission."""
        found = self.runs(self.lay_out(jobs, warm_up), np.arange(len(self.ids)))
        submit = jobs["submit_time"].to_numpy(np.int64)
        counted = submit >= submit.min() + warm_up
        never = np.where(counted, submit.max() - submit, 0)
        plan = self.plan
        left_out = jobs_left_out(plan.packages, plan.quotes, jobs, plan.existing, never)
        ran = (found["n_completed"].fillna(0) * found["mean_wait_time"].fillna(0.0)).to_numpy("float64")
        return found.assign(mean_wait_time=(ran + left_out) / max(int(counted.sum()), 1))


def forward(
    study: str | Path | Study,
    cuts: Sequence[str] | None = None,
    *,
    horizon: int | None = None,
    n_packages: int = N_PACKAGES,
    runs: int | None = None,
    seed: int = 1,
    policy: str | None = None,
    note: Note = silent,
) -> Forward:
    """Let every rule choose on the jobs before each cut, and judge its choice on those after it.

    Parameters
    ----------
    study
        Its workloads are taken together as one log; nothing needs to have been swept.
    cuts
        Local days, or moments, in the log; None = every first of a month with three weeks before it and two after.
    horizon
        s that are judged after a cut; None = the length of the study's futures. The log may end earlier.
    n_packages
        So many packages are drawn at random from those that run every job before the cut.
    runs
        What each rule may simulate, package × workload; None = three times the packages. A rule that looks at
        more workloads than that allows for every package looks at fewer packages.
    seed
        Of the packages that are drawn.
    policy
        One of the study's; None = its first.
    note
        Called with a line on each step.

    Raises
    ------
    ArgumentError
        A cut, a number or the policy is wrong.
    TableError
        The study is wrong, or no package runs every job.

    Notes
    -----
    The rules: ``recommended``, that of `procure.recommend`: the least objective ``rank-by-class`` over the past, its
    four parts, and futures drawn from it (with the study's settings, but right after the cut, and as long as the
    horizon), a third of the weight each: all packages on the past, the best and a few others on the futures.
    ``futures``, the least objective ``rank`` over the futures, and ``futures-mean``, the least mean wait over them,
    each by a race; ``past``, the least mean wait over it replayed continuously; ``mean-day`` and ``worst-day``, over
    all days of the past, each from an empty system; ``hardest-days``, the mean over the 5 days with the largest
    median wait of 50 packages. And without any simulation: the ``cheapest-per-cpu``, the ``most-cpus``, the
    ``most-memory``, and ``existing-mix``, the package whose memory and GPUs per CPU are most like the existing
    system's, where the study has one. What is judged is replayed continuously, after the study's warm-up before the
    cut; a job that came and that a package cannot run counts as waiting to the last submission.

    Examples
    --------
    >>> import procure
    >>> found = procure.forward("weeks.toml", ["2021-03-29"], n_packages=3)
    >>> len(found.table) > 0
    True
    """
    study = load_study(study)
    for name, value in (("n_packages", n_packages), ("runs", runs or 1)):
        if value < 1:
            raise ArgumentError(name, f"{value} was given; it must be 1 or more")
    jobs = read_past_jobs(study, note)
    settings = study.futures or Futures(tz=study.workloads[0].tz)
    length = horizon or settings.length
    moments = _cuts(jobs, cuts, settings.tz, length)
    plain = study.model_copy(update={"futures": None, "workloads": study.workloads[:1]})
    plan = replace(load_plan(plain), workloads={study.workloads[0].name: jobs})
    policy = policy or study.simulate.policies[0]
    tables, notes = [], []
    for day, cut in moments:
        before = jobs[jobs["submit_time"] < cut].reset_index(drop=True)
        warm_up = study.workloads[0].warm_up
        after = _between(jobs, cut - warm_up, cut + length)
        with_clock_of(jobs, before)
        with_clock_of(jobs, after)
        bench = _draw_candidates(plan, policy, before, n_packages, seed)
        note(
            f"{day}: {counted(len(bench.ids), 'package')}, {len(before):,} jobs before and {len(after):,} after"
        )
        asked = settings.model_copy(update={"years": 0.0, "length": max(WEEK, length // WEEK * WEEK)})
        budget = runs or RUNS_PER_PACKAGE * len(bench.ids)
        chosen = [*_simulating(bench, before, asked, warm_up, budget, note), *_naive(bench)]
        tables.append(_judge(day, chosen, bench, after, warm_up))
        notes.append(_about(tables[-1], bench, min(length, int(jobs["submit_time"].max()) - cut)))
    table = pd.concat(tables, ignore_index=True)
    return Forward(table, [*notes, *_record(table)])


@dataclass(frozen=True)
class _Choice:
    rule: str
    row: int
    n_runs: int = 0
    rows: np.ndarray | None = None
    figure: np.ndarray | None = None  # of these rows
    # Chances to be the best and near it; 90 % range of the wait, s.
    stated: tuple[float, float, float, float] = (np.nan, np.nan, np.nan, np.nan)
    raced: Race | None = None


def _between(jobs: pd.DataFrame, low: int, high: int) -> pd.DataFrame:
    return jobs[(jobs["submit_time"] >= low) & (jobs["submit_time"] < high)].reset_index(drop=True)


def _cuts(
    jobs: pd.DataFrame, cuts: Sequence[str] | None, tz: str | None, length: int
) -> list[tuple[str, int]]:
    """Return the cuts and their moments; each has three weeks before it and jobs after."""
    first, last = int(jobs["submit_time"].min()), int(jobs["submit_time"].max())
    if not cuts:
        if not has_dates(jobs):
            raise ArgumentError("cut", "this log has no dates, so cuts are to be given, in its seconds")
        months = pd.date_range(
            pd.Timestamp(first, unit="s"), pd.Timestamp(last, unit="s"), freq="MS"
        ).strftime("%Y-%m-%d")
        found = [(day, day_bounds(day, tz or "UTC")[0]) for day in months]
        found = [(day, at) for day, at in found if at - first >= 3 * WEEK and last - at >= 2 * WEEK]
        if not found:
            raise ArgumentError(
                "cut", "the log has no first of a month with three weeks before it and two after"
            )
        return found
    found = []
    for text in cuts:
        try:
            at = (
                day_bounds(text, tz or "UTC")[0]
                if len(text) == 10 and has_dates(jobs)
                else moment(text, tz or "UTC")
            )
        except TableError as error:
            raise ArgumentError("cut", str(error)) from None
        if not first + 3 * WEEK <= at <= last:
            raise ArgumentError(
                "cut",
                f"{text} was given; the log goes from {utc_text(first)} to {utc_text(last)}, and a cut has three weeks "
                "of it before and some jobs after",
            )
        found.append((text, at))
    return found


def _draw_candidates(plan: Plan, policy: str, jobs: pd.DataFrame, n: int, seed: int) -> _Candidates:
    packages = plan.packages[plan.packages["distinct"].to_numpy(dtype=bool)].reset_index(drop=True)
    able = np.flatnonzero(jobs_left_out(packages, plan.quotes, jobs, plan.existing) == 0)
    if not len(able):
        raise TableError("no package runs every job, so there is nothing to choose from")
    rows = np.random.default_rng(seed).permutation(able)[:n]
    chosen = packages.iloc[rows].reset_index(drop=True)
    counts = np.ascontiguousarray(chosen[plan.types].to_numpy(np.int64))
    return _Candidates(replace(plan, packages=chosen), policy, chosen["package_id"].to_numpy(), counts)


def _simulating(
    bench: _Candidates, jobs: pd.DataFrame, settings: Futures, warm_up: int, runs: int, note: Note
) -> list[_Choice]:
    """Choose by the rules that simulate."""
    every, futures = np.arange(len(bench.ids)), list(draw_futures(jobs, settings))
    found = [_recommended(bench, jobs, futures, warm_up, runs)]
    found += _by_futures(bench, futures, warm_up, runs, note)
    past = bench.wait(bench.lay_out(jobs, warm_up), every[:runs])
    found.append(_Choice("past", int(past.argmin()), len(past), every[:runs], past))
    return [*found, *_by_days(bench, jobs, settings.tz, runs)] if has_dates(jobs) else found


def _recommended(
    bench: _Candidates, jobs: pd.DataFrame, futures: list[pd.DataFrame], warm_up: int, runs: int
) -> _Choice:
    """Choose by ``rank-by-class`` over the past, its parts and the futures, in two heats."""
    first = np.arange(min(len(bench.ids), max(2, runs // 2)))
    past = bench.past_by_part(bench.lay_out(jobs, warm_up), first)
    laid_out = [bench.lay_out(one, warm_up) for one in futures]
    heats = two_heats(
        past,
        np.array([*scenario_weights(1)]),
        lambda rows: np.array([bench.waits_by_class(one, rows) for one in laid_out]),
        min(len(first), max(2, (runs - len(first)) // len(futures))),
    )
    # Parts of the past are as long as a part; the whole and the futures say what a period that comes may bring.
    waits = heats.wait[[0, *range(1 + N_PARTS, len(heats.wait))]]
    best, near = best_and_near(waits, np.arange(1), DRAWN_IN)
    stated = (best.mean(), near.mean(), *np.quantile(waits[:, 0], STATED))
    n_runs = len(first) + len(heats.rows) * len(futures)
    return _Choice("recommended", int(heats.rows[0]), n_runs, heats.rows, heats.figure, stated)


def _raced(rule: str, raced: Race) -> _Choice:
    rows = raced.finished
    best, near = best_and_near(raced.filled, rows[:1], DRAWN_IN)
    stated = (best.mean(), near.mean(), *np.quantile(raced.filled[:, rows[0]], STATED))
    return _Choice(rule, int(rows[0]), raced.n_runs, rows, raced.figure[rows], stated, raced)


def _by_days(bench: _Candidates, jobs: pd.DataFrame, tz: str | None, runs: int) -> list[_Choice]:
    """Choose by the past's days, each from an empty system."""
    every, found = np.arange(len(bench.ids)), []
    by_day = split_days(jobs, tz or "UTC").values()
    days, weight = [bench.lay_out(day) for day in by_day], np.array([float(len(day)) for day in by_day])
    some = every[: max(1, runs // len(days))]
    waits = np.array([bench.wait(day, some) for day in days])
    for rule, figure in (("mean-day", pooled_mean(waits, weight[:, None])), ("worst-day", waits.max(axis=0))):
        found.append(_Choice(rule, int(some[figure.argmin()]), waits.size, some, figure))
    probed = every[: min(N_PROBED, max(1, runs // (2 * len(days))))]
    probe = np.array([np.median(bench.wait(day, probed)) for day in days])
    hard = np.argsort(-probe, kind="stable")[:N_HARDEST]
    left = every[: max(1, (runs - len(probed) * len(days)) // len(hard))]
    figure = pooled_mean(np.array([bench.wait(days[i], left) for i in hard]), weight[hard, None])
    n_runs = len(probed) * len(days) + len(left) * len(hard)
    return [*found, _Choice("hardest-days", int(left[figure.argmin()]), n_runs, left, figure)]


SCORES: dict[str, Score] = {"futures": by_rank, "futures-mean": as_it_is}
"""By what the rules over futures race."""


def _by_futures(
    bench: _Candidates,
    futures: list[pd.DataFrame],
    warm_up: int,
    runs: int,
    note: Note,
    scores: Mapping[str, Score] = SCORES,
) -> list[_Choice]:
    """Choose by each score over the futures; what several run is simulated once, and counts for each."""
    known = np.full((len(futures), len(bench.ids)), np.nan)
    laid_out = [bench.lay_out(future, warm_up) for future in futures]

    def simulate(future: int, rows: np.ndarray) -> np.ndarray:
        new = rows[np.isnan(known[future, rows])]
        if len(new):
            known[future, new] = bench.wait(laid_out[future], new)
        return known[future, rows]

    order = running_order(np.array([cpu_seconds(one).sum() for one in futures]))
    found = []
    for rule, score in scores.items():
        found.append(_raced(rule, race(simulate, bench.features, order, runs, score=score)))
    note(f"futures: {int((~np.isnan(known)).sum()):,} runs")
    return found


def _naive(bench: _Candidates) -> list[_Choice]:
    """Choose by the rules that do not simulate; ties go to the earlier package."""
    packages, existing = bench.plan.packages, bench.plan.existing
    cpus, mem, gpus = (
        packages[f"total_{name}"].to_numpy(dtype="float64") for name in ("cpus", "mem_gb", "gpus")
    )
    figures = {
        "cheapest-per-cpu": packages["price_usd"].to_numpy() / cpus,
        "most-cpus": -cpus,
        "most-memory": -mem,
    }
    if existing is not None and len(existing):
        had = [float(existing[name].sum()) for name in ("cpus", "mem_mb", "gpus")]
        per_cpu = np.log((mem * 1000 + 1) / cpus) - np.log((had[1] + 1) / had[0])
        figures["existing-mix"] = np.abs(per_cpu) + np.abs(
            np.log((gpus + 1) / cpus) - np.log((had[2] + 1) / had[0])
        )
    return [_Choice(rule, int(figure.argmin())) for rule, figure in figures.items()]


def _judge(
    day: str, chosen: list[_Choice], bench: _Candidates, jobs: pd.DataFrame, warm_up: int
) -> pd.DataFrame:
    """Replay what came on every package, and say how each choice did."""
    came = bench.judge(jobs, warm_up)
    wait = came["mean_wait_time"].to_numpy(dtype="float64")
    saturated = came["saturated"].to_numpy(dtype="float64")
    best = int(wait.argmin())
    near = float((np.maximum(wait, REGRET_FLOOR) <= NEAR_BEST * max(wait[best], REGRET_FLOOR)).mean())
    halves, halves_ratio = _halves(bench, jobs, warm_up)
    rows = []
    for one in chosen:
        known = one.rows is not None and one.figure is not None and len(one.rows) > 2
        told = pd.Series(one.figure).corr(pd.Series(wait[one.rows]), method="spearman") if known else np.nan
        best_chance, near_chance, low, high = one.stated
        rows.append(
            {
                "cut": day, "rule": one.rule, "package_id": bench.ids[one.row], "mean_wait_time": wait[one.row],
                "best_package_id": bench.ids[best], "best_mean_wait_time": wait[best], "ratio": _ratio(wait, one.row),
                "n_judged": len(wait), "n_runs": one.n_runs, "saturated": bool(saturated[one.row]),
                "best_chance": best_chance, "near_chance": near_chance, "low_wait_time": low, "high_wait_time": high,
                "rank_correlation": told,
                "share_saturated": float(np.nanmean(saturated)),
                "share_near_best": near, "halves_correlation": halves,
                "halves_ratio": halves_ratio,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _halves(bench: _Candidates, jobs: pd.DataFrame, warm_up: int) -> tuple[float, float]:
    """Replay the two halves of what came, each after a warm-up; return ``halves_correlation``, ``halves_ratio``.

    NaN where one has no job to count.
    """
    first, last = int(jobs["submit_time"].min()) + warm_up, int(jobs["submit_time"].max())
    middle = (first + last) // 2
    halves = _between(jobs, first - warm_up, middle), _between(jobs, middle - warm_up, last + 1)
    if last - first < 4 * warm_up or any(half.empty for half in halves):
        return float("nan"), float("nan")
    for half in halves:
        with_clock_of(jobs, half)
    one, other = (bench.judge(half, warm_up)["mean_wait_time"].to_numpy("float64") for half in halves)
    crossed = [_ratio(other, int(one.argmin())), _ratio(one, int(other.argmin()))]
    return rank_correlation(one, other), float(np.sqrt(np.prod(crossed)))


def _ratio(wait: np.ndarray, row: int) -> float:
    """Return the wait on a package over the least, both at least 60 s."""
    return float(max(wait[row], REGRET_FLOOR) / max(wait.min(), REGRET_FLOOR))


def _record(table: pd.DataFrame) -> list[str]:
    """Say which rule has chosen well over the cuts, and how surely it differs from the recommended one."""
    if table["cut"].nunique() < 2:
        return []
    log = np.log(table.pivot_table(index="cut", columns="rule", values="ratio", sort=False))
    mean = log.mean().sort_values(kind="stable")
    shown = ", ".join(f"{rule} {np.exp(value):.2f}" for rule, value in mean.items())
    found = [f"over {len(log)} cuts the choice waits so many times the best (geometric mean): {shown}"]
    first = str(mean.index[0])
    if first != "recommended":
        gap = log["recommended"] - log[first]
        better, worse = int((gap > 1e-9).sum()), int((gap < -1e-9).sum())
        chance = binomtest(better, better + worse).pvalue if better + worse else 1.0
        found.append(
            f"{first} has chosen better than recommended in {better} of {len(log)} cuts and worse in {worse} (sign "
            f"test: p = {chance:.2f})"
            + (
                "; that is no reason to prefer it"
                if chance > 1 - OUT
                else "; on this log it has been the better rule"
            )
        )
    return found


def _about(table: pd.DataFrame, bench: _Candidates, length: int) -> str:
    first, told = table.iloc[0], table.loc[table["rule"] == "past", "rank_correlation"].iloc[0]
    return (
        f"{first['cut']}: judged on {counted(len(bench.ids), 'package')} over {duration(length)} after it; "
        f"{first['share_saturated']:.0%} of them saturate; the best in hindsight waits "
        f"{duration(first['best_mean_wait_time'])}; the past's replay and what came order the packages with a rank "
        f"correlation of {float(told):.2f}"
    )
