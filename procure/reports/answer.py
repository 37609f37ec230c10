"""The first page: what to buy, what it brings, how sure that is, and which other packages deserve a look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.comparison.classes import size_class, user_class
from procure.objectives.job_classes import JobClass
from procure.page.svg import BLUE, GREY, differ, figure, inline, literal
from procure.recommender.criteria import MEAN_WAIT, Criteria
from procure.recommender.other_loads import OtherLoads
from procure.recommender.recommendation import Recommendation
from procure.recommender.summary import taken_together
from procure.recommender.waiting import against_targets, concentration, few_make_most, longer_than_logged
from procure.reports.bill import bill, order_usd
from procure.schemas import CLASSES
from procure.simulator.class_waits import LONG_WAIT
from procure.study import Study
from procure.study.rules import unlisted
from procure.sweep.results import StudyResults
from procure.sweep.trial import replayed
from procure.text import counted, duration
from procure.workload.classes import class_of
from procure.workload.replay import counted_jobs

_NEARLY = 1.05
"""A package is nearly as good if jobs wait at most 5 % longer on it."""
_WORTH_NAMING = 0.01
"""A saving below 1 % of the price, and an excess wait below 1 %, are not worth a sentence."""
MOST_TYPES = 5
"""Server types that the first page names."""
_MEMORY = (4, 16, 64, 256)


@dataclass(frozen=True)
class Compared:
    """The waits of all workloads' jobs on the first package and on what it is compared with.

    Attributes
    ----------
    workload
        The workload, or how many of them were replayed: ``the 25 workloads``.
    against
        What the first package is compared with, as a clause.
    jobs
        The jobs that count (those of the warm-up do not) with ``wait``, s, on the first package and ``before``, s, on
        the other; NaN where a job did not run. ``before`` is missing where there is nothing to compare with. ``weight``
        is what the workload of a job counts; without it, all count alike.
    """

    workload: str
    against: str
    jobs: pd.DataFrame

    def by_class(self, own: Sequence[JobClass] = ()) -> pd.DataFrame:
        """Return who waits: ``what class n_jobs mean p95 before_mean before_p95`` (s), a row per class with jobs.

        ``own`` are the classes that the study defines; a job may be of several of these.
        """
        jobs = self.jobs[self.jobs["wait"].notna()]
        rows = [
            {"what": what, "class": name} | _waits(part)
            for what, classes in job_classes(jobs).items()
            for name, part in jobs.groupby(classes, observed=True, sort=True)
        ]
        rows += [{"what": "the study's classes", "class": name} | _waits(part) for name, part in _parts(jobs, own)]
        return pd.DataFrame(rows)

    def over_an_hour(self) -> float:
        """Return the share of the jobs that wait over an hour."""
        jobs = self.jobs[self.jobs["wait"].notna()]
        return _mean(jobs["wait"] > LONG_WAIT, _weight(jobs))

    def waits_longest(self, own: Sequence[JobClass] = ()) -> tuple[str, float] | None:
        """Name the class with the longest mean wait, s, of `procure.schemas.CLASSES` and ``own``; None of only one."""
        jobs = self.jobs[self.jobs["wait"].notna()]
        found = {CLASSES[place]: _mean(part["wait"], _weight(part)) for place, part in jobs.groupby(class_of(jobs))}
        found |= {name: _mean(part["wait"], _weight(part)) for name, part in _parts(jobs, own)}
        return max(found.items(), key=lambda one: one[1]) if len(found) > 1 else None

    def gains_most(self) -> str | None:
        """Name the size class whose jobs save most waiting, each on average; None where none saves any."""
        if "before" not in self.jobs:
            return None
        both = self.jobs[self.jobs["wait"].notna() & self.jobs["before"].notna()]
        saved = {
            str(name): _mean(part["before"] - part["wait"], _weight(part))
            for name, part in both.groupby(size_class(both), observed=True)
        }
        best = max(saved, key=saved.__getitem__, default=None)
        return best if best is not None and saved[best] > 0 else None


def _parts(jobs: pd.DataFrame, own: Sequence[JobClass]) -> list[tuple[str, pd.DataFrame]]:
    """Return the jobs of each class that a study defines and that has some."""
    parts = [(one.name, jobs[one.members(jobs)]) for one in own]
    return [(name, part) for name, part in parts if len(part)]


def _weight(jobs: pd.DataFrame) -> np.ndarray:
    return (jobs["weight"] if "weight" in jobs else pd.Series(1.0, index=jobs.index)).to_numpy(dtype="float64")


def _mean(values: pd.Series, weight: np.ndarray) -> float:
    return float(np.average(values, weights=weight)) if len(values) else float("nan")


def _waits(jobs: pd.DataFrame) -> dict[str, float]:
    found: dict[str, float] = {"n_jobs": len(jobs)}
    for column, prefix in (("wait", ""), ("before", "before_")):
        if column in jobs:
            held = jobs[jobs[column].notna()]
            weight, value = _weight(held), held[column]
            found[f"{prefix}mean"] = _mean(value, weight)
            found[f"{prefix}p95"] = (
                float(np.quantile(value, 0.95, weights=weight, method="inverted_cdf")) if len(held) else float("nan")
            )
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
        "memory per node": pd.Series(pd.Categorical.from_codes(place, memory, ordered=True), index=jobs.index),
    }
    if (jobs["user"] != "").any():
        found["users, by CPU time"] = user_class(jobs)
    return found


def compared(done: Recommendation) -> Compared:
    """Replay the first package on all workloads, whose mean is that of the list, and what it is compared with.

    That is the existing system alone, where it runs every job; else the waits of the log itself, where it has them;
    else the middle one of the simulated packages that run every job.
    """
    results = done.results
    of = taken_together(results)
    jobs = _counted(results)
    first = results.counts[int(done.ranking["row"].iloc[0])]
    table = jobs.assign(wait=_waits_on(results, first, jobs))
    existing = results.plan.existing
    if existing is not None and len(existing):
        alone = _waits_on(results, np.zeros_like(first), jobs)
        if not np.isnan(alone).any():
            return Compared(of, "without a purchase", table.assign(before=alone))
    if "start_time" in jobs and jobs["start_time"].notna().mean() > 0.5:
        logged = (jobs["start_time"] - jobs["submit_time"]).astype("float64").clip(lower=0)
        return Compared(of, "in the log", table.assign(before=logged.to_numpy()))
    able = np.flatnonzero(done.case.simulated & done.case.runs_all)
    if not len(able):
        return Compared(of, "", table)
    middle = able[np.argsort(done.case.wait[able], kind="stable")[len(able) // 2]]
    before = _waits_on(results, results.counts[middle], jobs)
    named = f"on the middle one of {counted(len(able), 'simulated package')}"
    return Compared(of, named, table.assign(before=before))


def _counted(results: StudyResults) -> pd.DataFrame:
    """Return the jobs of all workloads that count, with ``workload``, ``weight`` and their ``row`` in it."""
    parts = []
    for case in results.cases:
        every = results.plan.workloads[case.name].reset_index(drop=True)
        every = every.assign(workload=case.name, weight=case.weight, row=np.arange(len(every)))
        parts.append(counted_jobs(every, results.plan.warm_up(case.name)))
    return pd.concat(parts, ignore_index=True)


def _waits_on(results: StudyResults, counts: np.ndarray, jobs: pd.DataFrame) -> np.ndarray:
    """Return the waits, s, of the jobs of `_counted` on a package, NaN where one did not run."""
    found = []
    for name, part in jobs.groupby("workload", sort=False):
        run = replayed(results.plan, counts, str(name), results.policy)[0]
        schedule = run.schedule.iloc[part["row"].to_numpy()]
        waits = (schedule["start_time"] - schedule["submit_time"]).astype("float64")
        found.append(waits.to_numpy(na_value=np.nan))
    return np.concatenate(found)


@dataclass(frozen=True)
class Answer:
    """What the first page says.

    Attributes
    ----------
    title, package
        The study's name and the first package; of many types, or with long names, their beginning.
    order
        What the whole order comes to; empty where it is the price of the servers.
    brings, sure, rules, others, changes
        Its sentences, by question.
    cheapest
        Place in the list, from 0, of the cheapest package that is nearly as good; 0 is the first choice itself.
    bars
        What the picture shows: mean wait by name, s, and as it is written.
    """

    title: str
    package: str
    order: str
    brings: tuple[str, ...]
    sure: tuple[str, ...]
    rules: tuple[str, ...]
    others: tuple[str, ...]
    changes: tuple[str, ...]
    cheapest: int
    bars: dict[str, tuple[float, str]]


def answer(done: Recommendation, against: Compared) -> Answer:
    """Word the first page.

    Parameters
    ----------
    done
        The list; not empty.
    against
        What the first package is compared with.
    """
    cheapest = _cheapest(done)
    lines, whole = bill(done), order_usd(done)
    return Answer(
        title_of(done.results.plan.study),
        first_types(lines, MOST_TYPES),
        f"whole order US$ {whole:,.0f}" if whole > round(lines["line_total_usd"].sum(), 2) else "",
        tuple(_brings(done, against)),
        (about_choice(done), _sure(done)),
        tuple(one.sentence() for one in done.rule_costs),
        tuple(_others(done, cheapest)),
        tuple(_changes(done.other_loads)),
        cheapest,
        _bars(done, against, cheapest),
    )


def title_of(study: Study) -> str:
    """Return the title of a study's report; of made-up jobs it says so."""
    return cut(study.name, 5) + (", on made-up jobs" if study.made_up else "")


def cut(text: str, most: int) -> str:
    """Return the first words of a name that somebody else chose."""
    words = text.split()
    return text if len(words) <= most else " ".join(words[:most]) + "…"


def first_types(lines: pd.DataFrame, most: int) -> str:
    """Write what is bought, of many types those for which most is paid: ``45 × A, 18 × B and 3 more types, page two``.

    Parameters
    ----------
    lines
        From `procure.reports.bill.bill`.
    most
        How many types are named.
    """
    dearest = set(np.argsort(-lines["line_total_usd"].to_numpy(), kind="stable")[:most].tolist())
    text = ", ".join(
        f"{count}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}{cut(name, 4)}"
        for place, (count, name) in enumerate(zip(lines["count"], lines["type"], strict=True))
        if place in dearest
    )
    left = len(lines) - len(dearest)
    return text + (f" and {counted(left, 'more type')}, page two" if left else "")


def _bars(done: Recommendation, against: Compared, cheapest: int) -> dict[str, tuple[float, str]]:
    wait = done.ranking["mean_wait_time"].to_numpy(dtype="float64")
    here = _waits(against.jobs[against.jobs["wait"].notna()])
    bars = {"first choice": float(wait[0])}
    if "before_mean" in here:
        bars[against.against.removeprefix("on ")] = here["before_mean"]
    if cheapest:
        bars["cheapest nearly as good"] = float(wait[cheapest])
    return {name: (seconds, duration(seconds)) for name, seconds in bars.items()}


def _others(done: Recommendation, cheapest: int) -> list[str]:
    """Name the cheapest package that is nearly as good, where that is not the first."""
    if not cheapest:
        return []
    saved = float(done.ranking["price_usd"].iloc[0] - done.ranking["price_usd"].iloc[cheapest])
    return [f"cheapest nearly as good of the {done.k} best: rank {cheapest + 1}, US$ {saved:,.0f} less"]


def _brings(done: Recommendation, against: Compared) -> list[str]:
    first, here = done.ranking.iloc[0], _waits(against.jobs[against.jobs["wait"].notna()])
    lines = longer_than_logged(done)
    if first["jobs_left_out"]:
        lines.append(f"{int(first['jobs_left_out']):,} of {done.case.n_jobs:,} jobs cannot run")
    where = f" over {cut(against.workload, 4)}" if len(done.results.cases) > 1 else ""
    most = f"under {duration(here['p95'])}" if here["p95"] > 0 else "not at all"
    text = (
        f"jobs wait {duration(here['mean'])} on average{where}, 95 % of them {most}, {against.over_an_hour():.1%} over "
        "an hour"
    )
    worst = against.waits_longest(done.results.plan.study.job_classes)
    if worst is not None:
        text += f"; {worst[0]} longest, {duration(worst[1])}"
    if "before_mean" in here:
        text += f"; {against.against}, {duration(here['before_mean'])} and {duration(here['before_p95'])}"
    lines += [text, *_targets(done), *done.waited.brief()]
    lines += few_make_most(concentration(done, int(first["row"])))[:1]
    if (gains := against.gains_most()) is not None:
        lines.append(f"jobs of {gains.replace('-', ' to ')} CPU{'' if gains == '1' else 's'} gain most")
    return lines


def _targets(done: Recommendation) -> list[str]:
    """Say which targets the first package keeps, and which not."""
    found = against_targets(done, int(done.ranking["row"].iloc[0]))
    kept, missed = ([one["class"] for one in found if one["met"] is met] for met in (True, False))
    said = [f"kept for {', '.join(kept)}"] if kept else []
    said += [f"not kept for {', '.join(missed)}"] if missed else []
    return [f"targets: {'; '.join(said)}"] if said else []


def _sure(done: Recommendation) -> str:
    sure = done.confidence
    if sure is None or len(sure.table) < 2 or not sure.table["alike"].notna().all():
        return "how sure this order is, is not known"
    n, of = int(sure.table["alike"].sum()), len(sure.table) - 1
    best = f"better than {'the one' if of == 1 else f'each of the {of}'} that it was compared with"
    return f"{_alike(done, n)}, of {of} that it was compared with" if n > 1 else best


def _changes(found: OtherLoads | None) -> list[str]:
    """Say what other loads and drawn weeks do to the first package."""
    if found is None:
        return []
    n, every = found.loads.shape[1], found.to_dict()
    lines = []
    for one in every["loads"]:
        place = "" if n == 1 else f", rank {one['rank']} of {n}"
        lines.append(f"load × {one['load']:g}: jobs wait {duration(one['mean_wait_time'])}{place}")
    if (weeks := every["weeks"]) is not None:
        low, high = duration(weeks["low_wait_time"]), duration(weeks["high_wait_time"])
        lines.append(f"{weeks['n']} drawn periods: {low} to {high}")
    return ["; ".join(lines)]


def about_choice(done: Recommendation) -> str:
    """Say among how many packages the first was chosen, and how many of these were simulated."""
    plan, ranking = done.results.plan, done.ranking
    n, known, able = len(ranking), int(ranking["simulated"].sum()), int((ranking["jobs_left_out"] == 0).sum())
    runs = "" if able == n else f"; {f'{able:,}' if able else 'none'} of them {'run' if able > 1 else 'runs'} every job"
    if plan.searched is not None:
        return f"the first of {n:,} packages that a search simulated, of {unlisted(plan.study, plan.searched)}{runs}"
    if n == 1:
        return "the only package that the rules allow"
    how = "all simulated" if known == n else f"{known:,} of them simulated, the others predicted"
    return f"the first of {n:,} packages, {how}{runs}"


def _alike(done: Recommendation, n: int) -> str:
    """Say that n packages cannot be told apart, and how far apart their waits are on these very jobs."""
    assert done.confidence is not None
    text = f"these jobs cannot tell it from {counted(n - 1, 'other')}"
    if done.criteria.objective != MEAN_WAIT:
        return text
    alike = done.confidence.table.loc[done.confidence.table["alike"], "package_id"]
    waits = done.ranking.loc[done.ranking["package_id"].isin(alike), "mean_wait_time"]
    ends = list(dict.fromkeys([duration(waits.min()), duration(waits.max())]))
    return f"{text}, with waits of {' to '.join(ends)}"


def _cheapest(done: Recommendation) -> int:
    """Return the place of the cheapest package of the list that is nearly as good as the first; 0 for none."""
    ranking = done.ranking.head(done.k)
    if done.criteria != Criteria():
        return 0
    wait, price = (ranking[name].to_numpy(dtype="float64") for name in ("mean_wait_time", "price_usd"))
    good = (ranking["jobs_left_out"] == ranking["jobs_left_out"].iloc[0]).to_numpy() & (wait <= _NEARLY * wait[0] + 1.0)
    place = int(np.where(good, price, np.inf).argmin())
    return place if price[0] - price[place] > _WORTH_NAMING * price[0] else 0


def bars_chart(bars: dict[str, tuple[float, str]]) -> Markup:
    """Draw the mean waits that the first page speaks of; nothing where they are equal."""
    if not differ([one for one, _ in bars.values()]):
        return Markup()
    made, axes = figure(4.6, 0.3 + 0.3 * len(bars))
    place = np.arange(len(bars))[::-1]
    seconds = [one for one, _ in bars.values()]
    axes.barh(place, seconds, color=[BLUE] + [GREY] * (len(bars) - 1), height=0.62)
    for y, (x, told) in zip(place, bars.values(), strict=True):
        axes.annotate(told, (x, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(place, [literal(name) for name in bars])
    axes.set_xlim(0, max([*seconds, 1.0]) * 1.2)
    axes.xaxis.set_visible(False)
    axes.grid(False)
    axes.spines["bottom"].set_visible(False)
    return inline(made, "bars", "Mean wait: " + "; ".join(f"{k} {told}" for k, (_, told) in bars.items()))
