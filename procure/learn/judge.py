"""Is a trained policy better than SJF on days that nobody trained on? Paired by days, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.learn.days import Day, mean_wait, simulate_day
from procure.learn.search import Settings, candidate_of, free_numbers
from procure.learn.store import TrainedPolicy
from procure.learn.weeks import FIGURES, MEAN_WAIT, SLOWDOWN, figures_of
from procure.policies.names import RIVALS
from procure.policies.parameters import Parameters
from procure.policies.queue import Skipping
from procure.policies.seams_of import with_seams
from procure.progress import silent
from procure.run import Outcome, Prepared, measured, run_prepared
from procure.simulator.metrics import METRIC_NAMES
from procure.text import Shown, counted

N_RESAMPLES = 10_000
LEVEL = 0.95
LEARNED = "learned"
RANDOM, DRAWN = "random", "easy:order=random,queue_order=random,place=best"
"""A random order, inside EASY."""
UNTRAINED = "untrained"
"""The point from which the search began."""
POLICIES = ("fcfs", "sjf", "sjf@oracle", "best-fit", LEARNED)
"""What every day is simulated under; ``sjf@oracle`` knows the run times."""


@dataclass(frozen=True)
class Judgement(Shown):
    """How a trained policy did.

    Attributes
    ----------
    days
        Per day: ``day n_jobs``, the mean wait, s, per policy of `POLICIES`, and ``ratio_to_sjf``.
    utilization
        Mean over days of the share of CPUs in use, integrated over the makespan, per policy.
    utilization_of_submissions
        The same from the first submission to the last: one span for all policies, whoever ends when.
    utilization_of_nodes
        The mean over days of `node_utilization`.
    policies
        Per rival (`procure.policies.names.RIVALS`), a random order, the untrained start and the policy: the figures of
        `procure.learn.weeks.FIGURES` and ``utilization`` (first submission to last), each the mean over the days, and
        ``wait_ratio wait_low wait_high``, the sum of the policy's daily mean waits over that of this one, with its
        interval; ``slowdown_…`` likewise.
    figures
        ``mean_ratio_to_sjf`` (sum of the daily mean waits / the same under SJF) with ``interval``,
        ``geometric_ratio_to_sjf`` (of the days' ratios) with ``geometric_interval``, ``ratio_to_best_fit``
        with its interval, ``share_of_days_better``, ``share_of_days_10_percent_worse``, ``worst_ratio``,
        ``worst_day``, and ``bridged``, the share of the distance from SJF to exact run times.
    """

    days: pd.DataFrame
    utilization: dict[str, float]
    utilization_of_submissions: dict[str, float]
    utilization_of_nodes: dict[str, float]
    figures: dict[str, Any]
    policies: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def title(self) -> str:
        """On how many days."""
        return f"judged on {counted(len(self.days), 'day')}"

    @property
    def table(self) -> pd.DataFrame:
        """The days."""
        return self.days

    @property
    def notes(self) -> list[str]:
        """The figures."""
        return [f"{name}: {value}" for name, value in self.figures.items()]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as ``procure learn evaluate --format json`` prints it."""
        return {
            "days": self.days.to_dict("records"),
            **self.figures,
            "utilization": self.utilization,
            "utilization_of_submissions": self.utilization_of_submissions,
            "utilization_of_nodes": self.utilization_of_nodes,
            "policies": self.policies.to_dict("records"),
        }


def evaluate(
    trained: TrainedPolicy,
    days: Sequence[Day],
    *,
    ahead: int = 0,
    every: int = 600,
    seed: int = 0,
    rivals: Sequence[str] = RIVALS,
    progress: Callable[[str], None] = silent,
) -> Judgement:
    """Simulate days under a trained policy and under what it is compared with.

    Parameters
    ----------
    days
        From `procure.learn.days.lay_out_days` with exact run times.
    ahead, every
        Of rollouts, see `procure.learn.policy.Learned`.
    seed
        Of the bootstrap over days.
    rivals
        Policies beside it.
    progress
        Called with the name of each day.

    Raises
    ------
    TableError
        No job waits under sjf on any of the days.
    """
    rows, in_use = [], []
    beside: dict[str, list[np.ndarray]] = {}
    others = beside_it(trained, rivals)
    for day in days:
        progress(day.name)
        if day.exact is None:
            raise ValueError(f"day {day.name} was laid out without exact run times")
        found = {name: run_prepared(day.ready, name) for name in ("fcfs", "sjf", "best-fit")}
        found |= {
            "sjf@oracle": run_prepared(day.exact, "sjf"),
            LEARNED: simulate_day(day, trained, ahead, every),
        }
        waits = {name: mean_wait(day.ready, found[name]) for name in POLICIES}
        ratio = waits[LEARNED] / waits["sjf"] if waits["sjf"] else float("nan")
        rows.append({"day": day.name, "n_jobs": day.n_jobs, **waits, "ratio_to_sjf": ratio})
        in_use.append([_utilizations(day.ready, found[name]) for name in POLICIES])
        runs = {name: found.get(name) or run_prepared(day.ready, policy(day)) for name, policy in others.items()}
        for name, run in (runs | {LEARNED: found[LEARNED]}).items():
            share = utilization_between(day.ready, run, *_submissions(day.ready))
            beside.setdefault(name, []).append(np.append(figures_of(day.ready, run.start, run.end), share))
    table = pd.DataFrame(rows)
    if not table["sjf"].any():
        raise TableError(
            f"on {counted(len(days), 'day')}, {days[0].name} to {days[-1].name}, no job waits under sjf on these "
            "nodes: there is nothing to judge; give fewer nodes or busier days"
        )
    used, of_submissions, of_nodes = (
        dict(zip(POLICIES, each, strict=True)) for each in np.mean(in_use, axis=0).T.tolist()
    )
    return Judgement(table, used, of_submissions, of_nodes, _figures(table, seed), _beside(beside, seed))


def beside_it(trained: TrainedPolicy, rivals: Sequence[str]) -> dict[str, Callable[[Day], str | Parameters]]:
    """Return what a trained policy is held against, by name: the rivals, a random order, and the untrained start."""
    inside = trained.trained.get("inside", "skip")
    begin, arrays_of = free_numbers(Settings(inside=inside, n_hidden=0))
    given: dict[str, Any] = {"order": RANDOM}
    drawn: str | Parameters = with_seams(Skipping, given)(**given) if inside == "skip" else DRAWN

    def named(name: str) -> Callable[[Day], str | Parameters]:
        return lambda day: name

    found = {name: named(name) for name in rivals}
    return found | {RANDOM: lambda day: drawn, UNTRAINED: lambda day: candidate_of(day, arrays_of(begin), inside)}


def _submissions(ready: Prepared) -> tuple[int, int]:
    return int(ready.jobs.submit.min()), int(ready.jobs.submit.max())


def _beside(figures: Mapping[str, list[np.ndarray]], seed: int) -> pd.DataFrame:
    """Set the figures of each policy beside each other, means over the days."""
    n = len(figures[LEARNED])
    draws = np.random.default_rng(seed).integers(0, n, (N_RESAMPLES, n))
    learned = np.array(figures[LEARNED])
    rows = []
    for name, each in figures.items():
        values = np.array(each)
        row = {"policy": name} | dict(zip((*FIGURES, "utilization"), values.mean(axis=0).tolist(), strict=True))
        for what, column in (("wait", MEAN_WAIT), ("slowdown", SLOWDOWN)):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio, (low, high) = ratio_of_sums(learned[:, column], values[:, column], draws)
            row |= {f"{what}_ratio": ratio, f"{what}_low": low, f"{what}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def _utilizations(ready: Prepared, found: Outcome) -> tuple[float, float, float]:
    return (
        measured(ready, found)[METRIC_NAMES.index("utilization_cpu")],
        utilization_between(ready, found, *_submissions(ready)),
        node_utilization(ready, found),
    )


def utilization_between(ready: Prepared, found: Outcome, begin: int, end: int) -> float:
    """Return the share of all CPUs in use from one second to another, on the clock of the prepared jobs."""
    ran = found.start >= 0
    inside = np.clip(found.end[ran], begin, end) - np.clip(found.start[ran], begin, end)
    busy = (inside * ready.jobs.cpus[ran] * ready.jobs.n_nodes[ran]).sum()
    return float(busy / max(ready.kinds.cpus[ready.kind_of].sum() * (end - begin), 1))


def node_utilization(ready: Prepared, found: Outcome) -> float:
    """Return the published utilization, but integrated over the makespan.

    The mean over nodes of the mean share in use of memory, CPUs and GPUs, where a node without GPUs counts 0
    for them; so less than 1 even if all is in use.
    """
    jobs, kinds = ready.jobs, ready.kinds
    ran = found.start >= 0
    run = np.where(ran, found.end - found.start, 0).astype(np.float64)
    of_job = np.repeat(np.arange(len(run)), jobs.n_nodes)
    kind = ready.kind_of[np.maximum(found.node_list, 0)]
    busy = 0.0
    for asked, total in ((jobs.mem, kinds.mem), (jobs.cpus, kinds.cpus), (jobs.gpus, kinds.gpus)):
        busy += float((run[of_job] * asked[of_job] / np.maximum(total[kind], 1)).sum())
    span = float(found.end[ran].max() - jobs.submit[ran].min())
    return busy / (3 * len(ready.kind_of) * span) if span else 0.0


def ratio_of_sums(waits: np.ndarray, references: np.ndarray, draws: np.ndarray) -> tuple[float, list[float]]:
    """Return the ratio of two policies' summed waits, and its percentile interval over resampled days."""
    ratios = waits[draws].sum(axis=1) / references[draws].sum(axis=1)
    return float(waits.sum() / references.sum()), _interval(ratios)


def _interval(values: np.ndarray) -> list[float]:
    return [float(value) for value in np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])]


def _figures(table: pd.DataFrame, seed: int) -> dict[str, Any]:
    n = len(table)
    draws = np.random.default_rng(seed).integers(0, n, (N_RESAMPLES, n))
    learned, sjf, best_fit, exact = (
        table[name].to_numpy(np.float64) for name in (LEARNED, "sjf", "best-fit", "sjf@oracle")
    )
    ratio, interval = ratio_of_sums(learned, sjf, draws)
    to_best_fit, best_fit_interval = ratio_of_sums(learned, best_fit, draws)
    logs = np.log((learned + 1.0) / (sjf + 1.0))  # a second each, so that a day without waits is no infinity
    ratios = table["ratio_to_sjf"].to_numpy(np.float64)
    worst = int(np.nanargmax(ratios))
    distance = float(sjf.sum() - exact.sum())
    return {
        "mean_ratio_to_sjf": ratio,
        "interval": interval,
        "geometric_ratio_to_sjf": float(np.exp(logs.mean())),
        "geometric_interval": [float(np.exp(value)) for value in _interval(logs[draws].mean(axis=1))],
        "ratio_to_best_fit": to_best_fit,
        "ratio_to_best_fit_interval": best_fit_interval,
        "share_of_days_better": float((learned < sjf).mean()),
        "share_of_days_10_percent_worse": float((learned > 1.1 * sjf).mean()),
        "worst_ratio": float(ratios[worst]),
        "worst_day": str(table["day"].iloc[worst]),
        "bridged": float((sjf.sum() - learned.sum()) / distance) if distance > 0 else None,
    }
