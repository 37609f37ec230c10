"""Why is a forecast what it is, and on how little does it rest? Each said in a line."""

from __future__ import annotations

import string
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.queue_time import experts
from procure.queue_time.features import FEATURES, picked
from procure.queue_time.predict import Request, Situation, knows_partitions
from procure.queue_time.store import GROWN, SiteModel
from procure.text import be, counted, roughly

DAY = 86_400
FEW = 20
"""Fewer starts of like jobs, or in a partition, are few."""
SLACK = 0.25
"""A load is unlike those of the training from so far beyond their range, as a share of it."""
WATCHED = {
    "queue_depth": "jobs in the queue",
    "cpus_in_use": "CPUs in use",
    "queued_cpu_seconds": "CPU-seconds in the queue",
    "submitted_24h": "submissions in 24 hours",
}
_LEAST, _MOST = 0.06, 4
"""A topic that moves the forecast by a smaller share of all that moves it is not spoken of; nor are more than four."""
TOPICS = {one.name: one.topic for one in FEATURES}
_TOPIC_OF_EXPERT = {"backlog": "ahead", "week": "lately"}
"""Experts that look at one thing; the others are boosters."""
TEMPLATES = {
    "ahead": ("{n_ahead} {are} ahead of you {where}{of_yours}{pace}.", "Nobody is ahead of you {where}."),
    "in_use": ("{used} CPUs are in use, the most seen so far is {most}.",),
    "like": ("The last jobs like yours ({what}) {like}.",),
    "user": ("Your last jobs to start {own}.",),
    "lately": ("The last jobs to start {where} {lately}.",),
    "flow": ("In the last 24 hours {came} came and {started} started.",),
    "usage": ("Your jobs took {share} of the CPU time of all that ended in the last week.",),
    "habits": ("Your last jobs ran for {mine} of the time that they asked for.",),
    "before": ("Your last job, submitted {ago} ago, {so_far}.",),
    "clock": ("Jobs submitted at this hour tend to {effect}.",),
    "request": ("Jobs of this size ({what}) tend to {effect} than others here.",),
    "priority": ("Your priority lets this job {effect}.",),
}
"""Of each topic of `features.FEATURES` the first sentence is said of which everything is known."""


@dataclass(frozen=True)
class Caution:
    """A reason to believe a forecast less: its code, a sentence, and how much wider it makes the distribution.

    See `predict.widened` for ``doubt``.
    """

    code: str
    text: str
    doubt: float = 0.0


def cautions(site: SiteModel, asked: Request, here: Situation, state: pd.DataFrame | None) -> list[Caution]:
    """Return what the model does not know of a job that is submitted now; ``asked`` is what its user gave."""
    about, log, ask = site.about, here.log, here.ask
    begun = log.start < ask.submit[0]
    shape, user, partition = (getattr(log, name) == getattr(ask, name)[0] for name in ("shape", "user", "partition"))
    n_like, n_user, n_there = int((begun & shape).sum()), int(user.sum()), int((begun & partition).sum())
    known = "No job like this one is" if n_like == 0 else f"Only {counted(n_like, 'job')} like this one {be(n_like)}"
    more, unlike = about["rows_since"] / about["trained_rows"], drifts(about["bounds"], here.features)
    there = set() if state is None else set(state["partition"])
    strange = bool(there) and not there & set(about["partitions"])
    one_queue = not knows_partitions(site)
    rows = [
        ("few_like", n_like < FEW, f"{known} known ({asked_for(here.request)}); the interval is wider.", 0.3),
        ("unknown_user", asked.user and n_user == 0, f"No job of {asked.user} is known to the model.", 0.1),
        (
            "assumed_partition", not asked.partition and len(about["partitions"]) > 1,
            f"Partition {here.request.partition} is assumed, the most used one; --partition names yours.", 0.0,
        ),
        (
            "new_partition", asked.partition and n_there < FEW,
            f"Partition {asked.partition} is new to the model: {counted(n_there, 'start')} known there.", 0.3,
        ),
        (
            "no_memory", asked.mem_mb and not about["most"]["mem"],
            "The model's log says nothing of memory: --mem changes nothing.", 0.0,
        ),
        (
            "no_partitions", strange and one_queue,
            "The model's log names no partitions: the jobs of all of them count as ahead of yours or as running.", 0.0,
        ),
        (
            "other_cluster", strange and not one_queue,
            "The model knows no partition of the state of the queue: one of them may be another cluster's.", 0.3,
        ),
        (
            "old_training", more >= GROWN,
            f"{more:.0%} more waits are known than the boosters have learnt from; train them again on the whole log "
            "with `procure queue train --update MODEL --refit`.", 0.1,
        ),
        ("drift", unlike, f"The load is not what the model was trained on: {'; '.join(unlike)}.", 0.2),
    ]  # fmt: skip
    found = [Caution(code, text, doubt) for code, holds, text, doubt in rows if holds]
    return found if state is None else [*found, *age_of(site, here.now)]


def age_of(site: SiteModel, now: int) -> list[Caution]:
    """Return a caution where the state of the queue and the end of the model's log lie more than a day apart."""
    behind = now - int(site.about["end"])
    if behind < -60:
        text = f"The state of the queue is {roughly(-behind)} older than the end of the model's log."
        return [Caution("old_state", text, 0.2)]
    if behind > DAY:
        text = (
            f"The model's log ends {roughly(behind)} before now, so that recent waits are not known; continue it with"
        )
        return [Caution("old_model", f"{text} `procure queue train --update MODEL`.", 0.2)]
    return []


def doubt_of(found: list[Caution]) -> float:
    """Return how much wider these cautions make a distribution together."""
    return min(sum(one.doubt for one in found), 0.6)


def bounds(features: pd.DataFrame) -> dict[str, list[float]]:
    """Keep the 0.5th and 99.5th percentile of each watched load in the training window."""
    return {name: np.quantile(features[name].to_numpy(dtype=float), [0.005, 0.995]).tolist() for name in WATCHED}


def drifts(known: dict[str, list[float]], features: pd.DataFrame) -> list[str]:
    """Return which loads of the last row of features lie outside `bounds`, a line each."""
    names = [name for name in WATCHED if name in known]
    lines = []
    for name, value in zip(names, picked(features, names)[-1].tolist(), strict=True):
        low, high = known[name]
        if not low - SLACK * (high - low) <= value <= high + SLACK * (high - low):
            lines.append(f"{WATCHED[name]} {value:,.0f} now, {low:,.0f} to {high:,.0f} in training")
    return lines


def asked_for(request: Request) -> str:
    """Say what a job asks for: ``16 CPUs, 8 h``; GPUs too where it asks for some."""
    gpus = f", {counted(request.gpus, 'GPU')}" if request.gpus else ""
    limit = roughly(request.requested_time) if request.requested_time else "no limit"
    return f"{counted(request.cpus, 'CPU')}{gpus}, {limit}"


def topics(site: SiteModel, here: Situation) -> dict[str, float]:
    """Return by how much each topic moves this forecast, the largest first.

    Experts that look at one thing count for its topic with their weight in the mixture; the boosters' weight is
    shared out as the contributions to the median that is trained again, summed over the features of a topic, signed:
    above 0 they lengthen the wait.
    """
    model = site.model
    moved = model.boosters["again"].contributions(model.matrix(here.features))[0]
    [weights] = model.mixture.weights(model.beyond(here.features))
    weight = dict(zip(experts.NAMES, weights.tolist(), strict=True))
    boosters = (1 - sum(weight[name] for name in _TOPIC_OF_EXPERT)) / (float(np.abs(moved).sum()) or 1.0)
    found: dict[str, float] = {}
    for name, part in zip(model.names, moved, strict=True):
        found[TOPICS.get(name, "")] = found.get(TOPICS.get(name, ""), 0.0) + boosters * float(part)
    for name, topic in _TOPIC_OF_EXPERT.items():
        found[topic] = found.get(topic, 0.0) + float(np.copysign(weight[name], found.get(topic, 0.0)))
    total = sum(map(abs, found.values())) or 1.0
    return {topic: found[topic] / total for topic in sorted(found, key=lambda one: -abs(found[one]))}


def because(site: SiteModel, here: Situation) -> list[str]:
    """Explain a forecast: a sentence on what was seen of each topic that moved it most."""
    found: list[str] = []
    for topic, share in topics(site, here).items():
        if abs(share) < _LEAST or len(found) == _MOST:
            continue
        known = _facts(here) | {"effect": "start later" if share > 0 else "start sooner"}
        for template in TEMPLATES.get(topic, ()):
            if all(known[name] is not None for _, name, _, _ in string.Formatter().parse(template) if name):
                found.append(template.format(**known))
                break
    return found


def _facts(here: Situation) -> dict[str, str | None]:
    """Return what `TEMPLATES` speak of, None where it is not known."""
    seen = dict(zip(here.features.columns, map(float, here.features.to_numpy()[0]), strict=True))
    named, ahead, own = bool(here.request.user), int(seen["partition_depth"]), int(seen["user_depth"])
    lasts, still, so_far = (
        seen[f"{one}"] for one in ("partition_drain_n_7d", "user_before_1_waits", "user_before_1_so_far")
    )
    before = named and not np.isnan(still)
    return {
        "what": asked_for(here.request),
        "where": "in this partition" if len(here.log.names["partition"]) > 1 else "in the queue",
        "are": be(ahead),
        "n_ahead": counted(ahead, "job") if ahead else None,
        "of_yours": f", {'all' if own >= ahead else f'{own:,}'} of your own" if named and own else "",
        "pace": f"; the last week's pace clears that within {roughly(lasts)}" if 60 <= lasts < 7 * DAY else "",
        "used": f"{seen['cpus_in_use']:,.0f}",
        "most": f"{seen['capacity_seen']:,.0f}",
        "like": _waited(seen["shape_log_wait_5"]),
        "own": _waited(seen["user_log_wait_5"]) if named else None,
        "lately": _waited(seen["partition_log_wait_20"]),
        "came": counted(int(seen["submitted_24h"]), "job"),
        "started": f"{seen['started_24h']:,.0f}",
        "share": f"{seen['user_share_7d']:.0%}" if named and seen["user_share_7d"] > 0 else None,
        "mine": f"{seen['user_limit_used']:.0%}" if named and np.isfinite(seen["user_limit_used"]) else None,
        "ago": roughly(max(seen["user_before_1_ago"], 3.0)) if before else None,
        "so_far": ("still waits" if still else _waited(so_far)) if before else None,
    }


def _waited(log_wait: float) -> str | None:
    """Say a typical wait, ln(1 + s)."""
    if np.isnan(log_wait):
        return None
    about = roughly(float(np.expm1(log_wait)))
    return "mostly started at once" if about == "at once" else f"typically waited {about}"
