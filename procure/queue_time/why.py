"""Why is this forecast what it is? The topics that moved it most, each said in a sentence of what was seen."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from procure.queue_time import experts
from procure.queue_time.meanings import meaning
from procure.queue_time.model import QueueTimeModel
from procure.queue_time.predict import Request, Situation
from procure.queue_time.store import SiteModel
from procure.text import be, counted, roughly

DAY = 86_400
_LEAST, _MOST = 0.06, 4
"""A topic that moves the forecast by a smaller share of all that moves it is not spoken of; nor are more than four."""
_LAST, _ENOUGH = 20, 5
"""The jobs of a partition that started last are so many at most; starts of like jobs in a week, from which on these are
spoken of, and not the last five whenever they started."""
_CONTRADICTS = 4.0
"""Waits that differ from the forecast by this factor, both at least a minute, need a word on why."""
_TOPIC_OF_EXPERT = {"backlog": "ahead", "week": "lately"}
"""Experts that look at one thing; the others are boosters."""
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
TEMPLATES = {
    "ahead": ("{n_ahead} {are} ahead of you {where}{of_yours}{pace}.", "Nobody is ahead of you {where}."),
    "in_use": ("{used} CPUs are in use, the most seen so far is {most}{left}.",),
    "like": ("Jobs like yours ({what}) {like} this week.", "The last jobs like yours ({what}) {last_like}."),
    "user": ("Your last jobs to start {own}.",),
    "lately": ("The last jobs to start {where} {lately}.",),
    "flow": ("In the last 24 hours {came} came and {started} started.",),
    "usage": ("Your jobs took {share} of the CPU time of all that ended in the last week{holds}.",),
    "habits": (
        "Your last jobs ran for {mine} of the time that they asked for.",
        "The last jobs to end ran for {usual} of the time that they asked for.",
    ),
    "before": (
        "Your last job, submitted {user_ago} ago, {user_so_far}.",
        "The last job, submitted {all_ago} ago, {all_so_far}.",
    ),
    "clock": ("Jobs submitted at this time ({at}) tend to {effect}.",),
    "request": ("Jobs of this size ({what}) tend to {effect} than others here.",),
    "priority": (),
}
"""Of each topic the first sentence is said of which everything is known."""


@dataclass(frozen=True)
class Neighbours:
    """The jobs that stand nearest to one, as the features group them.

    Attributes
    ----------
    what
        What like jobs ask for: ``16 CPUs, 8 h``.
    n_like, n_user, n_partition
        Starts known of like jobs, jobs known of the user, starts known in the partition.
    like, last_like, own, lately
        Waits, s: of like jobs that started in the last 7 days; of the last 5 like jobs to start; of the user's last 5,
        and of the partition's last 20.
    ahead, own_ahead
        Jobs that wait in the partition; those of them that are the user's.
    n_partitions
        Partitions known.
    """

    what: str
    n_like: int
    n_user: int
    n_partition: int
    like: np.ndarray
    last_like: np.ndarray
    own: np.ndarray
    lately: np.ndarray
    ahead: int
    own_ahead: int
    n_partitions: int


def neighbours(here: Situation) -> Neighbours:
    """Look at the jobs that stand nearest to one, from what was known when it was submitted."""
    log, ask, now = here.log, here.ask, int(here.ask.submit[0])
    begun = log.start < now
    shape, user, partition = (getattr(log, name) == getattr(ask, name)[0] for name in ("shape", "user", "partition"))
    waits = (log.left >= now) & (log.row < ask.row[0]) & partition

    def last(group: np.ndarray, n: int) -> np.ndarray:
        rows = np.flatnonzero(begun & group)
        return log.wait[rows[np.argsort(log.start[rows], kind="stable")[-n:]]].astype(float)

    return Neighbours(
        asked_for(here.request),
        int((begun & shape).sum()),
        int(user.sum()),
        int((begun & partition).sum()),
        log.wait[begun & shape & (log.start >= now - 7 * DAY)].astype(float),
        last(shape, 5),
        last(user, 5),
        last(partition, _LAST),
        int(waits.sum()),
        int((waits & user).sum()),
        len(log.names["partition"]),
    )


def asked_for(request: Request) -> str:
    """Say what a job asks for: ``16 CPUs, 8 h``; GPUs too where it asks for some."""
    gpus = f", {counted(request.gpus, 'GPU')}" if request.gpus else ""
    limit = roughly(request.requested_time) if request.requested_time else "no limit"
    return f"{counted(request.cpus, 'CPU')}{gpus}, {limit}"


def topics(site: SiteModel, here: Situation, median: float) -> dict[str, float]:
    """Return by how much each topic moves this forecast, the largest first.

    Experts that look at one thing count for its topic with their weight in the mixture; the boosters' weight is
    shared out as the chance booster's contributions at the median, summed over the features of a topic, signed:
    above 0 they lengthen the wait.
    """
    model = site.model
    if not isinstance(model, QueueTimeModel) or not model.boosters:
        return {}
    row = np.column_stack([model.matrix(here.features), [[np.log1p(median)]]]).astype(np.float32)
    moved = -model.boosters["chance"].contributions(row)[0][:-1]
    [weights] = model.mixture.weights(model.beyond(here.features))
    weight = dict(zip(experts.NAMES, weights.tolist(), strict=True))
    boosters = (1 - sum(weight[name] for name in _TOPIC_OF_EXPERT)) / (float(np.abs(moved).sum()) or 1.0)
    found: dict[str, float] = {}
    for name, part in zip(model.names, moved, strict=True):
        found[meaning(name).topic] = found.get(meaning(name).topic, 0.0) + boosters * float(part)
    for name, topic in _TOPIC_OF_EXPERT.items():
        found[topic] = found.get(topic, 0.0) + float(np.copysign(weight[name], found.get(topic, 0.0)))
    total = sum(map(abs, found.values())) or 1.0
    return {topic: found[topic] / total for topic in sorted(found, key=lambda one: -abs(found[one]))}


def because(
    site: SiteModel, here: Situation, near: Neighbours, median: float, smaller: Mapping[str, float | None]
) -> list[str]:
    """Explain a forecast in sentences.

    Parameters
    ----------
    site
        The model.
    here, near
        The job in the queue, and the jobs that stand nearest to it.
    median
        Of its forecast, s.
    smaller
        The median wait, s, of each of `smaller_requests` that the site can run, by its text.

    Returns
    -------
    list of str
        What was seen of the topics that moved the forecast most, then what another request would bring.
    """
    found: list[str] = []
    seen: list[np.ndarray] = []
    waits = {"like": near.like if len(near.like) >= _ENOUGH else near.last_like, "user": near.own}
    waits["lately"] = near.lately
    for topic, share in topics(site, here, median).items():
        if abs(share) < _LEAST or len(found) == _MOST:
            continue
        known = _facts(here, near, "start later" if share > 0 else "start sooner")
        for template in TEMPLATES[topic]:
            fields = [name for _, name, _, _ in string.Formatter().parse(template) if name]
            if all(known[name] is not None for name in fields):
                found.append(template.format(**known))
                seen.append(waits.get(topic, np.zeros(0)))
                break
    apart = [max(float(np.median(one)), 60.0) / max(median, 60.0) for one in seen if len(one)]
    apart = [one for one in apart if not 1 / _CONTRADICTS < one < _CONTRADICTS]
    if apart:
        found.append(
            f"The model expects {roughly(median)}; those waits were {'longer' if apart[0] > 1 else 'shorter'}."
        )
    return [*found, *_other_requests(median, smaller)]


def _facts(here: Situation, near: Neighbours, effect: str) -> dict[str, str | None]:
    """Return what `TEMPLATES` speak of, None where it is not known."""
    seen = dict(zip(here.features.columns, map(float, here.features.to_numpy()[0]), strict=True))
    named, lasts, left = bool(here.request.user), seen["partition_drain_n_7d"], seen["running_mean_remaining"]
    n_own = "all" if near.own_ahead == near.ahead else f"{near.own_ahead:,}"
    found: dict[str, str | None] = {
        "what": near.what,
        "where": "in this partition" if near.n_partitions > 1 else "in the queue",
        "effect": effect,
        "are": be(near.ahead),
        "n_ahead": counted(near.ahead, "job") if near.ahead else None,
        "of_yours": f", {n_own} of your own" if near.own_ahead else "",
        "pace": f"; the last week's pace clears that within {roughly(lasts)}" if 60 <= lasts < 7 * DAY else "",
        "used": f"{seen['cpus_in_use']:,.0f}",
        "most": f"{seen['capacity_seen']:,.0f}",
        "left": f"; by their limits the running jobs have {roughly(left)} left on average" if left >= 60 else "",
        "like": _waited(near.like) if len(near.like) >= _ENOUGH else None,
        "last_like": _waited(near.last_like),
        "own": _waited(near.own) if named else None,
        "lately": _waited(near.lately),
        "came": counted(int(seen["submitted_24h"]), "job"),
        "started": f"{seen['started_24h']:,.0f}",
        "share": _percent(seen["user_share_7d"]) if named and seen["user_share_7d"] > 0 else None,
        "holds": f"; your running jobs hold {counted(int(cpus), 'CPU')}" if (cpus := seen["user_running_cpus"]) else "",
        "mine": _percent(seen["user_limit_used"]) if named else None,
        "usual": _percent(seen["limit_used"]),
        "at": f"{_DAYS[int(seen['weekday'])]}, {int(seen['hour']):02d}:00 to {int(seen['hour']):02d}:59 UTC",
    }
    for whose in ("user", "all"):
        still, so_far = seen[f"{whose}_before_1_waits"], np.expm1(seen[f"{whose}_before_1_so_far"])
        known = not np.isnan(still) and (named or whose == "all")
        found[f"{whose}_ago"] = roughly(max(seen[f"{whose}_before_1_ago"], 3.0)) if known else None
        found[f"{whose}_so_far"] = "still waits" if still else _waited(np.array([so_far]))
    return found


def _percent(share: float) -> str | None:
    return f"{share:.0%}" if np.isfinite(share) else None


def _waited(waits: np.ndarray) -> str | None:
    if not len(waits):
        return None
    about, one = roughly(float(np.median(waits))), len(waits) == 1
    if about == "at once":
        return "started at once" if one else "mostly started at once"
    return f"waited {about}" if one else f"waited {about} at the median"


def smaller_requests(asked: Request) -> list[tuple[str, Request]]:
    """Return requests of half and a quarter of the limit and half of the CPUs, and what each is instead of."""
    choices: list[tuple[str, Request]] = []
    for part in (2, 4):
        if asked.requested_time >= part * 600:
            shorter = replace(asked, requested_time=asked.requested_time // part)
            choices.append((f"{roughly(shorter.requested_time)} instead of {roughly(asked.requested_time)}", shorter))
    if asked.cpus >= 2:
        cpus = asked.cpus // 2
        fewer = replace(asked, cpus=cpus, nodes=max(1, min(asked.nodes, cpus)))
        choices.append((f"{counted(cpus, 'CPU')} instead of {asked.cpus:,}", fewer))
    return choices


def _other_requests(median: float, smaller: Mapping[str, float | None]) -> list[str]:
    """Say which smaller request starts sooner, if one does by a minute and a fifth of the wait."""
    better = {text: value for text, value in smaller.items() if value is not None}
    text = min(better, key=lambda one: better[one], default=None)
    if text is None or better[text] > min(0.8 * median, median - 60):
        return []
    brings = roughly(better[text])
    what = "let it start at once, as likely as not" if brings == "at once" else f"bring the median to {brings}"
    return [f"Asking for {text} would {what}."]
