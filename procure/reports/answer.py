"""The first page: what to buy, what it brings, how sure that is, and which other packages deserve a look."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.comparison.classes import size_class, user_class
from procure.explanation.package import longest_waiting
from procure.page.svg import BLUE, GREY, figure, inline, literal
from procure.policies import catalog
from procure.recommender.criteria import Criteria
from procure.recommender.recommendation import Recommendation
from procure.recommender.sensitivity import load_name, most_robust, stability, waits_under_loads
from procure.sweep.results import StudyResults
from procure.sweep.trial import replayed
from procure.text import duration
from procure.workload.replay import counted_jobs

_TRIED = 10
_LESS, _MORE = load_name(0.7), load_name(1.3)
_NEARLY = 1.05
"""A package is nearly as good if jobs wait at most 5 % longer on it."""
_WORTH_NAMING = 0.01
"""A saving below 1 % of the price, and an excess wait below 1 %, are not worth a sentence."""
_MOST_WORDS = 117
"""Of the first page's sentences and its package; with headings and dates, the page has at most 150 words."""
_MEMORY = (4, 16, 64, 256)


@dataclass(frozen=True)
class Compared:
    """The waits of one workload's jobs on the first package and on what it is compared with.

    Attributes
    ----------
    workload
        The workload that was replayed: the one whose jobs wait longest.
    against
        What the first package is compared with, as a clause.
    jobs
        The jobs that count (those of the warm-up do not) with ``wait``, s, on the first package and ``before``, s, on
        the other; NaN where a job did not run. ``before`` is missing where there is nothing to compare with.
    """

    workload: str
    against: str
    jobs: pd.DataFrame

    def by_class(self) -> pd.DataFrame:
        """Return who waits: ``what class n_jobs mean p95 before_mean before_p95`` (s), a row per class with jobs."""
        jobs = self.jobs[self.jobs["wait"].notna()]
        rows = [
            {"what": what, "class": name} | _waits(part)
            for what, classes in job_classes(jobs).items()
            for name, part in jobs.groupby(classes, observed=True, sort=True)
        ]
        return pd.DataFrame(rows)

    def gains_most(self) -> str | None:
        """Name the size class that saves most waiting in all; None where nothing is saved or compared."""
        if "before" not in self.jobs:
            return None
        saved = (self.jobs["before"] - self.jobs["wait"]).groupby(size_class(self.jobs), observed=True).sum()
        best = saved.idxmax() if len(saved) else None
        return str(best) if best is not None and saved[best] > 0 else None


def _waits(jobs: pd.DataFrame) -> dict[str, float]:
    found: dict[str, float] = {"n_jobs": len(jobs)}
    for column, prefix in (("wait", ""), ("before", "before_")):
        if column in jobs:
            held = jobs[column].dropna()
            found[f"{prefix}mean"] = float(held.mean())
            found[f"{prefix}p95"] = float(held.quantile(0.95)) if len(held) else float("nan")
    return found


def job_classes(jobs: pd.DataFrame) -> dict[str, pd.Series]:
    """Sort jobs into classes: by CPUs over all nodes, GPUs, memory per node, and how much their users take."""
    memory = [f"up to {_MEMORY[0]} GB"] + [f"{low}–{high} GB" for low, high in pairwise(_MEMORY)]
    memory.append(f"over {_MEMORY[-1]} GB")
    place = np.searchsorted(np.array(_MEMORY) * 1000, jobs["mem_mb_per_node"].to_numpy(), side="left")
    gpus = pd.Categorical.from_codes(
        (jobs["gpus_per_node"] > 0).astype(int).to_numpy(), ["without GPUs", "with GPUs"], ordered=True
    )
    found = {
        "CPUs": size_class(jobs),
        "GPUs": pd.Series(gpus, index=jobs.index),
        "memory per node": pd.Series(
            pd.Categorical.from_codes(place, memory, ordered=True), index=jobs.index
        ),
    }
    if (jobs["user"] != "").any():
        found["users, by CPU time"] = user_class(jobs)
    return found


def compared(done: Recommendation) -> Compared:
    """Replay the first package on the workload that waits longest, and what it is compared with.

    That is the existing system alone, where it runs every job; else the waits of the log itself, where it has them;
    else the middle one of the simulated packages that run every job.
    """
    results = done.results
    workload = longest_waiting(results.cases)
    every = results.plan.workloads[workload].reset_index(drop=True)
    jobs = counted_jobs(every.assign(row=np.arange(len(every))), results.plan.warm_up(workload))
    rows = jobs.pop("row").to_numpy()
    first = results.counts[int(done.ranking["row"].iloc[0])]
    table = jobs.assign(wait=_wait_of(results, first, workload, rows))
    existing = results.plan.existing
    if existing is not None and len(existing):
        alone = _wait_of(results, np.zeros_like(first), workload, rows)
        if not np.isnan(alone).any():
            return Compared(workload, "without a purchase", table.assign(before=alone))
    if "start_time" in jobs and jobs["start_time"].notna().mean() > 0.5:
        logged = (jobs["start_time"] - jobs["submit_time"]).astype("float64").clip(lower=0)
        return Compared(workload, "in the log", table.assign(before=logged.to_numpy()))
    case = next(one for one in results.cases if one.name == workload)
    able = np.flatnonzero(case.simulated & case.runs_all)
    if not len(able):
        return Compared(workload, "", table)
    middle = able[np.argsort(case.wait[able], kind="stable")[len(able) // 2]]
    before = _wait_of(results, results.counts[middle], workload, rows)
    return Compared(workload, "on a middling package of the same budget", table.assign(before=before))


def _wait_of(results: StudyResults, counts: np.ndarray, workload: str, rows: np.ndarray) -> np.ndarray:
    """Return the waits, s, of some rows of a workload's jobs, NaN where one did not run."""
    schedule = replayed(results.plan, counts, workload, results.policy)[0].schedule.iloc[rows]
    return (schedule["start_time"] - schedule["submit_time"]).astype("float64").to_numpy(na_value=np.nan)


@dataclass(frozen=True)
class Answer:
    """What the first page says.

    Attributes
    ----------
    brings, sure, others, changes
        Its sentences, by question.
    robust, cheapest
        Places in the list, from 0, of the most robust package and of the cheapest that is nearly as good; 0 is the
        first choice itself, None = not known.
    bars
        What the picture shows: mean wait, s, by name.
    loads
        Waits of the first packages under the logged load (first row) and others, see `waits_under_loads`; None under
        policies that are too slow to try them.
    """

    brings: tuple[str, ...]
    sure: tuple[str, ...]
    others: tuple[str, ...]
    changes: tuple[str, ...]
    robust: int | None
    cheapest: int
    bars: dict[str, float]
    loads: pd.DataFrame | None


def answer(done: Recommendation, against: Compared, names: list[str]) -> Answer:
    """Word the first page.

    Parameters
    ----------
    done
        The list; not empty.
    against
        What the first package is compared with.
    names
        The packages of the list as people read them.
    """
    ranking = done.ranking.head(done.k)
    wait = ranking["mean_wait_time"].to_numpy(dtype="float64")
    loads = _loads(done)
    cheapest = _cheapest(done)
    robust = None if loads is None else most_robust(loads)[0]
    bars = {"first choice": wait[0]}
    excess = np.zeros(len(wait)) if loads is None else most_robust(loads)[1]
    if robust and excess[0] - excess[robust] <= _WORTH_NAMING:
        robust = 0
    if robust:
        bars["most robust"] = wait[robust]
    if cheapest:
        bars["cheapest that is nearly as good"] = wait[cheapest]
    here = _waits(against.jobs[against.jobs["wait"].notna()])
    if "before_mean" in here:
        bars[against.against] = here["before_mean"]
    brings, sure, changes = _brings(done, against, here), _sure(done, loads), _changes(loads)
    saved = float(ranking["price_usd"].iloc[0] - ranking["price_usd"].iloc[cheapest])
    others = _others(names, robust or 0, float(excess[robust or 0]), cheapest, saved)
    if len(" ".join([*brings, *sure, *changes, *others, names[0]]).split()) > _MOST_WORDS:
        ranks = [f"number {place + 1} of the list" for place in range(len(names))]
        others = _others(ranks, robust or 0, float(excess[robust or 0]), cheapest, saved)
    return Answer(
        tuple(brings),
        tuple(sure),
        tuple(others),
        tuple(changes),
        robust,
        cheapest,
        bars,
        loads,
    )


def _others(names: list[str], robust: int, excess: float, cheapest: int, saved: float) -> list[str]:
    """Name the most robust package and the cheapest that is nearly as good, where these are not the first."""
    lines = []
    if robust:
        lines.append(
            f"most robust: {names[robust]}, at most {excess:.0%} behind the best under any load tried"
        )
    if cheapest:
        lines.append(f"cheapest nearly as good: {names[cheapest]}, US$ {saved:,.0f} less")
    return lines


def roughly(seconds: float) -> str:
    """Write a length of time for a committee: as `duration`, but in one unit from ten of it on."""
    for size, unit, below in ((60, "min", 3570.0), (3600, "h", 171_000.0), (86_400, "d", float("inf"))):
        if 10 * size <= seconds < below:
            return f"{seconds / size:,.0f} {unit}"
    return duration(seconds)


def _brings(done: Recommendation, against: Compared, here: dict[str, float]) -> list[str]:
    first = done.ranking.iloc[0]
    lines = []
    if first["jobs_left_out"]:
        lines.append(f"it cannot run {int(first['jobs_left_out']):,} of the {done.case.n_jobs:,} jobs")
    where = f", on {against.workload}" if len(done.results.cases) > 1 else ""
    text = f"jobs wait {roughly(here['mean'])} on average{where}, 95 % of them under {roughly(here['p95'])}"
    if "before_mean" in here:
        text += f"; {against.against}, {roughly(here['before_mean'])} and {roughly(here['before_p95'])}"
    lines.append(text)
    if (gains := against.gains_most()) is not None:
        lines.append(f"jobs of {gains.replace('-', ' to ')} CPU{'' if gains == '1' else 's'} gain most")
    return lines


def _loads(done: Recommendation) -> pd.DataFrame | None:
    """Return the waits of the first packages under the logged load and others; None under policies that are slow."""
    if not catalog.is_batched(done.results.policy):
        return None
    head = done.ranking.head(min(_TRIED, max(done.k, 1)))
    waits = waits_under_loads(done.results, done.results.counts[head["row"].to_numpy()])
    now = pd.DataFrame([head["mean_wait_time"].to_numpy(dtype="float64")], ["now"], waits.columns)
    return pd.concat([now, waits])


def _sure(done: Recommendation, loads: pd.DataFrame | None) -> list[str]:
    parts, sure = [], done.confidence
    if sure is not None and len(sure.table) > 1 and sure.table["alike"].notna().all():
        n = int(sure.table["alike"].sum())
        parts.append(
            f"one of {n:,} equally good packages" if n > 1 else "better than every other package looked at"
        )
    if loads is not None and loads.shape[1] > 1:
        held = loads.loc[[_LESS, _MORE]].to_numpy()
        worst = int((held < held[:, :1]).sum(axis=1).max()) + 1
        stays = "this one stays first" if worst == 1 else f"this one stays among the first {worst}"
        parts.append(f"{stays} of {loads.shape[1]} if load grows or falls by 30 %")
    return ["; ".join(parts) or "how sure this order is, is not known: the jobs were not resampled"]


def _changes(loads: pd.DataFrame | None) -> list[str]:
    if loads is None or loads.shape[1] < 2:
        return []
    found = stability(loads.iloc[1:])
    moved = found[found["rank"] > 1]
    if moved.empty:
        return [f"nothing that was tried: {', '.join(found['situation'])}"]
    worst = moved.loc[moved["regret_seconds"].idxmax()]
    return [f"{worst['situation']}, another package leads by {roughly(worst['regret_seconds'])}"]


def _cheapest(done: Recommendation) -> int:
    """Return the place of the cheapest package of the list that is nearly as good as the first; 0 for none."""
    ranking = done.ranking.head(done.k)
    if done.criteria != Criteria():
        return 0
    wait, price = (ranking[name].to_numpy(dtype="float64") for name in ("mean_wait_time", "price_usd"))
    good = (ranking["jobs_left_out"] == ranking["jobs_left_out"].iloc[0]).to_numpy() & (
        wait <= _NEARLY * wait[0] + 1.0
    )
    place = int(np.where(good, price, np.inf).argmin())
    return place if price[0] - price[place] > _WORTH_NAMING * price[0] else 0


def bars_chart(bars: dict[str, float]) -> Markup:
    """Draw the mean waits that the first page speaks of."""
    made, axes = figure(5.6, 0.3 + 0.34 * len(bars))
    place = np.arange(len(bars))[::-1]
    axes.barh(place, list(bars.values()), color=[BLUE] + [GREY] * (len(bars) - 1), height=0.62)
    for y, seconds in zip(place, bars.values(), strict=True):
        axes.annotate(
            roughly(seconds),
            (seconds, y),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.set_yticks(place, [literal(name) for name in bars])
    axes.set_xlim(0, max([*bars.values(), 1.0]) * 1.2)
    axes.xaxis.set_visible(False)
    axes.grid(False)
    axes.spines["bottom"].set_visible(False)
    return inline(made, "bars", "Mean wait: " + "; ".join(f"{k} {roughly(v)}" for k, v in bars.items()))
