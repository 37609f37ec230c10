"""Is a trained policy better than rules that nobody trained? Over weeks without a break, or the published days."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.learn.features import expected_before
from procure.learn.order import at_hand
from procure.learn.search import arrays_of, start_of_search
from procure.learn.store import SEARCHED, TrainedPolicy
from procure.learn.weeks import (
    FIGURES,
    REFERENCE,
    WEEK,
    DayFilter,
    Period,
    begins,
    figures_of,
    fitting,
    known_before,
    lay_out,
    waits_of,
    week_from,
)
from procure.policies.catalog import label
from procure.policies.names import RIVALS
from procure.policies.parameters import Parameters
from procure.progress import silent
from procure.run import Outcome, Prepared, prepare_checked, run_prepared
from procure.text import Shown, counted

N_RESAMPLES = 10_000
LEVEL = 0.95
FEWEST = 2
"""Of fewer weeks or days there is no interval."""
LEARNED, UNTRAINED = "learned", "untrained"
"""The policy that is judged, and the point from which its search began."""


@dataclass(frozen=True)
class Judgement(Shown):
    """How a trained policy did beside others.

    Attributes
    ----------
    policies
        Per policy: ``policy``, the figures of `procure.learn.weeks.FIGURES` over all jobs that count (of days: the
        mean of the days), ``utilization`` (CPUs in use from the first to the last submission that counts), and the
        learned policy's mean wait and bounded slowdown as a ratio to this policy's (``wait_ratio``,
        ``slowdown_ratio``), each with the bounds of a 95 % interval by resampling weeks or days (``…_low``,
        ``…_high``).
    parts
        Per week or day and policy: ``week`` or ``day``, ``policy``, ``n_jobs``, ``mean_wait``, ``bounded_slowdown``.
    best_rival
        Whose bounded slowdown is least of those that nobody trained.
    """

    policies: pd.DataFrame
    parts: pd.DataFrame
    best_rival: str

    @property
    def part(self) -> str:
        """Either "week" or "day"."""
        return str(self.parts.columns[0])

    @property
    def title(self) -> str:
        """On how many weeks or days."""
        how = "without a break" if self.part == "week" else "from an empty system"
        return f"judged on {counted(self.parts[self.part].nunique(), self.part)} {how}"

    @property
    def table(self) -> pd.DataFrame:
        """The policies."""
        return self.policies

    @property
    def notes(self) -> list[str]:
        """How the policy stands to the best of its rivals."""
        row = self.policies.set_index("policy").loc[self.best_rival]
        words = [f"the best rival by bounded slowdown is {self.best_rival}"]
        for name, what in (("slowdown", "bounded slowdown"), ("wait", "mean wait")):
            low, high = row[f"{name}_low"], row[f"{name}_high"]
            bounds = "" if np.isnan(low) else f" ({low:.3f} to {high:.3f})"
            words.append(f"{LEARNED}: {what} {row[f'{name}_ratio']:.3f} of its{bounds}")
        return ["; ".join(words)]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as ``procure learn evaluate --format json`` prints it."""
        tables = {"policies": self.policies, f"{self.part}s": self.parts}
        return {name: table.to_dict("records") for name, table in tables.items()} | {"best_rival": self.best_rival}


def evaluate_policy(
    trained: TrainedPolicy,
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    days: DayFilter | None = None,
    *,
    daily: bool = False,
    rivals: Sequence[str | Parameters] = RIVALS,
    note: Callable[[str], None] = silent,
) -> Judgement:
    """Judge a trained policy on the whole weeks of a span, simulated in one run with the week before them.

    Parameters
    ----------
    trained
        Of `procure.learn_policy` or `procure.read_policy`.
    jobs, nodes
        Tables; jobs that no empty set of nodes holds are left out.
    days
        The span, and its zone; the other filters count for days.
    daily
        Simulate each day from an empty system instead, as the published agent was judged.
    rivals
        Policies that it is held against.
    note
        Called with what is being done, and with a warning where weeks were trained on.

    Raises
    ------
    TableError
        No job is submitted in the span, or no day is left.

    Examples
    --------
    >>> import procure
    >>> jobs, nodes = procure.read_log("jobs.parquet").jobs, procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000)
    >>> found = procure.evaluate_policy(procure.read_policy("site.policy"), jobs, nodes, rivals=["easy"])
    >>> found.policies["policy"].to_list()[:2]
    ['easy', 'untrained']
    """
    days = days or DayFilter(tz=trained.trained.get("tz", "UTC"))
    if seen := _trained_on(trained, days):
        note(f"careful: it was trained on days of this span, first {seen}: not a fair judgement")
    periods, starts = ([], np.zeros(1)) if daily else _whole_span(trained, jobs, nodes, days)
    part = "day" if daily else "week"
    rows, parts = [], []
    for period in periods or lay_out(jobs, nodes, days, daily=True, history=trained.history):
        ready = period.ready
        note(f"{counted(ready.n_counted, 'job')}, {period.name}")
        submit = ready.jobs.submit[ready.jobs.submit >= ready.counts_from]
        for name, run in _runs(period, trained, rivals, "sjf" if daily else REFERENCE):
            figures = dict(zip(FIGURES, figures_of(ready, run.start, run.end).tolist(), strict=True))
            used = utilization_between(ready, run, int(submit.min()), int(submit.max()))
            rows.append({"policy": name} | figures | {"utilization": used})
            parts.append(_parts(ready, run, starts).assign(policy=name, day=period.name))
    table = pd.DataFrame(rows).groupby("policy", sort=False).mean().reset_index()
    each = pd.concat(parts, ignore_index=True)[[part, "policy", "n_jobs", "mean_wait", "bounded_slowdown"]]
    untrained = table[table["policy"].isin(list(map(label, rivals)))]
    best = str(untrained.set_index("policy")["bounded_slowdown"].idxmin())
    return Judgement(table.join(_ratios(table["policy"], each)), each, best)


def _runs(
    period: Period, trained: TrainedPolicy, rivals: Sequence[str | Parameters], rule: str
) -> Iterator[tuple[str, Outcome]]:
    """Simulate a period under the rivals, where the search began, the trained policy, and a rule with exact times."""
    ready = period.ready
    for rival in rivals:
        yield label(rival), run_prepared(ready, rival)
    for name, policy in ((UNTRAINED, TrainedPolicy(SEARCHED, arrays_of(start_of_search()))), (LEARNED, trained)):
        yield name, run_prepared(ready, at_hand(policy, period))
    assert ready.table is not None and ready.nodes is not None  # as it was laid out from tables
    known = ready.table.assign(requested_time=ready.table["run_time"].clip(lower=1))
    yield f"{rule}@oracle", run_prepared(prepare_checked(known, ready.nodes, True, None, ready.counts_from), rule)


def _trained_on(trained: TrainedPolicy, days: DayFilter) -> str | None:
    """Return the first day of a week of the training of which a part lies in the span."""
    first, last = days.span
    weeks = trained.trained.get("weeks", ())
    ends = {day: (pd.Timestamp(day) + pd.Timedelta(days=6)).strftime("%Y-%m-%d") for day in weeks}
    return min((day for day, end in ends.items() if day <= last and end >= first), default=None)


def _whole_span(
    trained: TrainedPolicy, jobs: pd.DataFrame, nodes: pd.DataFrame, days: DayFilter
) -> tuple[list[Period], np.ndarray]:
    """Return the span, and where its weeks begin, s on its clock."""
    able, servers = fitting(jobs, nodes)
    span = begins(able, days)
    ready = week_from(able, servers, span.start, span[-1] + WEEK) if len(span) else None
    if ready is None:
        raise TableError(f"no job that fits the nodes is submitted {days}: there is nothing to judge")
    prior = expected_before(ready.jobs, known_before(able, ready, None, trained.history))
    return [Period(str(days), ready, prior)], np.arange(len(span)) * WEEK + ready.counts_from


def _parts(ready: Prepared, run: Outcome, starts: np.ndarray) -> pd.DataFrame:
    """Return the number of jobs and the means of those submitted from each of ``starts`` on, s."""
    counts = (ready.jobs.submit >= ready.counts_from) & (run.start >= 0)
    wait, slowdown = waits_of(ready, run.start, run.end, counts)
    week = np.searchsorted(starts, ready.jobs.submit[counts], side="right").clip(1)
    table = pd.DataFrame({"week": week, "n_jobs": 1, "mean_wait": wait, "bounded_slowdown": slowdown})
    how = {"n_jobs": "sum", "mean_wait": "mean", "bounded_slowdown": "mean"}
    return table.groupby("week").agg(how).reset_index()


def utilization_between(ready: Prepared, found: Outcome, begin: int, end: int) -> float:
    """Return the share of all CPUs in use from one second to another, on the clock of the prepared jobs."""
    ran = found.start >= 0
    inside = np.clip(found.end[ran], begin, end) - np.clip(found.start[ran], begin, end)
    busy = (inside * ready.jobs.cpus[ran] * ready.jobs.n_nodes[ran]).sum()
    return float(busy / max(ready.kinds.cpus[ready.kind_of].sum() * (end - begin), 1))


def ratio_of_sums(values: np.ndarray, references: np.ndarray, draws: np.ndarray) -> tuple[float, float, float]:
    """Return the ratio of two sums over weeks, and its percentile interval over resampled ones."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = values[draws].sum(axis=1) / references[draws].sum(axis=1)
        ratio = float(values.sum() / references.sum())
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return (ratio, float(low), float(high)) if len(values) >= FEWEST else (ratio, float("nan"), float("nan"))


def _ratios(policies: pd.Series, parts: pd.DataFrame) -> pd.DataFrame:
    """Return the learned policy's ratios to each; a day weighs as another, a week by its jobs."""
    part = str(parts.columns[0])
    weight = parts["n_jobs"] if part == "week" else 1
    n = parts[part].nunique()
    draws = np.random.default_rng(0).integers(0, n, (N_RESAMPLES, n))
    found: dict[str, dict[str, float]] = {name: {} for name in policies}
    for what, column in (("wait", "mean_wait"), ("slowdown", "bounded_slowdown")):
        weighed = parts.assign(sum=parts[column] * weight)
        sums = weighed.pivot_table("sum", part, "policy", aggfunc="sum", fill_value=0.0)
        for name, row in found.items():
            bounds = ratio_of_sums(sums[LEARNED].to_numpy(), sums[name].to_numpy(), draws)
            row |= dict(zip((f"{what}_ratio", f"{what}_low", f"{what}_high"), bounds, strict=True))
    return pd.DataFrame(list(found.values()))
