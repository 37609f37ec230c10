"""Why is this forecast what it is? The topics that moved it most, each said in a sentence of what was seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from procure.queue_time import experts
from procure.queue_time.meanings import meaning
from procure.queue_time.model import QueueTimeModel
from procure.queue_time.predict import Request, Situation
from procure.queue_time.store import SiteModel
from procure.text import be, counted, roughly

DAY = 86_400
_LEAST = 0.06
"""A topic that moves the forecast by a smaller share than this of all that moves it is not spoken of."""
_MOST = 4
_LAST = 20
"""The jobs of a partition that started last are so many at most."""
_ENOUGH = 5
"""Starts of like jobs in a week, from which on these are spoken of, and not the last five whenever they started."""
_CONTRADICTS = 4.0
"""Waits that differ from the forecast by this factor, both at least a minute, need a word on why."""
_TOPIC_OF_EXPERT = {"backlog": "ahead", "week": "lately"}
"""Experts that look at one thing; the others are boosters."""
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


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
    ahead, own_ahead, larger_ahead
        Jobs that wait in the partition; those of them that are the user's, and those that ask for more CPUs or more
        time.
    ahead_then
        By topic (``like``, ``user``, ``lately``), the median number of jobs that were ahead of those whose waits are
        stated, as each was submitted.
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
    larger_ahead: int
    n_partitions: int
    ahead_then: dict[str, float]


def neighbours(here: Situation) -> Neighbours:
    """Look at the jobs that stand nearest to one, from what was known when it was submitted."""
    log, ask, now = here.log, here.ask, int(here.ask.submit[0])
    begun = log.start < now
    shape, user, partition = (getattr(log, name) == getattr(ask, name)[0] for name in ("shape", "user", "partition"))
    waits = (log.left >= now) & (log.row < ask.row[0]) & partition

    def last(group: np.ndarray, n: int) -> np.ndarray:
        rows = np.flatnonzero(begun & group)
        return rows[np.argsort(log.start[rows], kind="stable")[-n:]]

    def ahead_of(rows: np.ndarray) -> float:
        if not len(rows):
            return 0.0
        at, partition_of = log.submit[rows[-_LAST:]][:, None], log.partition[rows[-_LAST:]][:, None]
        some = np.flatnonzero((log.submit < at.max()) & (log.left >= at.min()))
        there = (log.submit[some] < at) & (log.left[some] >= at) & (log.partition[some] == partition_of)
        return float(np.median(there.sum(axis=1)))

    this_week = np.flatnonzero(begun & shape & (log.start >= now - 7 * DAY))
    like, own, lately = last(shape, 5), last(user, 5), last(partition, _LAST)
    larger = waits & ((log.cpus > ask.cpus[0]) | (log.limit > ask.limit[0]))
    return Neighbours(
        asked_for(here.request),
        int((begun & shape).sum()),
        int(user.sum()),
        int((begun & partition).sum()),
        log.wait[this_week].astype(float),
        log.wait[like].astype(float),
        log.wait[own].astype(float),
        log.wait[lately].astype(float),
        int(waits.sum()),
        int((waits & user).sum()),
        int(larger.sum()),
        len(log.names["partition"]),
        {
            "like": ahead_of(this_week if len(this_week) >= _ENOUGH else like),
            "user": ahead_of(own),
            "lately": ahead_of(lately),
        },
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
    if not isinstance(model, QueueTimeModel) or not model.members:
        return {}
    row = np.column_stack([model.matrix(here.features), [[np.log1p(median)]]]).astype(np.float32)
    moved = -np.mean([member.chance.contributions(row)[0][:-1] for member in model.members], axis=0)
    boosted: dict[str, float] = {}
    for name, part in zip(model.names, moved, strict=True):
        topic = meaning(name).topic
        boosted[topic] = boosted.get(topic, 0.0) + float(part)
    [weights] = model.mixture.weights(model.beyond(here.features))
    weight = dict(zip(experts.NAMES, weights.tolist(), strict=True))
    own = 1 - sum(weight[name] for name in _TOPIC_OF_EXPERT)
    total = sum(map(abs, boosted.values())) or 1.0
    found = {topic: own * part / total for topic, part in boosted.items()}
    for name, topic in _TOPIC_OF_EXPERT.items():
        part = found.get(topic, 0.0)
        found[topic] = part + (weight[name] if part >= 0 else -weight[name])
    return {topic: found[topic] for topic in sorted(found, key=lambda one: -abs(found[one]))}


def because(
    site: SiteModel,
    here: Situation,
    near: Neighbours,
    median: float,
    smaller: Mapping[str, float | None],
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
    features = dict(zip(here.features.columns, map(float, here.features.to_numpy()[0]), strict=True))
    said: dict[str, list[str]] = {}
    for topic, share in topics(site, here, median).items():
        if abs(share) < _LEAST or len(said) == _MOST:
            continue
        if sentences := _SENTENCES[topic](_Seen(here.request, near, features, share > 0, median)):
            said[topic] = sentences
    found = [sentence for sentences in said.values() for sentence in sentences]
    return [*found, *_reconcile(near, median, said), *_other_requests(median, smaller)]


def _reconcile(near: Neighbours, median: float, topics_said: Collection[str]) -> list[str]:
    """Say in a sentence why the forecast is much shorter or longer than what was seen lets expect."""
    waits = {"like": _like_waits(near), "user": near.own, "lately": near.lately}
    waited = {topic: float(np.median(waits[topic])) for topic in waits if topic in topics_said and len(waits[topic])}
    forecast_s = max(median, 60.0)
    apart = {topic: max(wait, 60.0) / forecast_s for topic, wait in waited.items()}
    topic = max(apart, key=lambda one: abs(np.log(apart[one])), default=None)
    if topic is not None and not 1 / _CONTRADICTS < apart[topic] < _CONTRADICTS:
        shorter, now, then = apart[topic] > 1, near.ahead, near.ahead_then[topic]
        if now < then / 2 if shorter else now > 2 * then:
            return [
                f"{'Fewer' if shorter else 'More'} jobs are ahead now than when those came ({now:,} against "
                f"{then:,.0f} at the median), so the forecast is {'shorter' if shorter else 'longer'} than their waits."
            ]
        return [_by_the_model(median, "those waits were longer" if shorter else "those waits were shorter")]
    return []


def _by_the_model(median: float, although: str) -> str:
    within = "at once" if median < 2.5 else f"within {roughly(median)}"
    return f"Of jobs that come in a state such as this one, half start {within} by the model, although {although}."


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


@dataclass(frozen=True)
class _Seen:
    """What a sentence may speak of; ``longer`` says whether its topic lengthens the wait."""

    request: Request
    near: Neighbours
    features: dict[str, float]
    longer: bool
    median: float


def _ahead(seen: _Seen) -> list[str]:
    where = "in this partition" if seen.near.n_partitions > 1 else "in the queue"
    if seen.near.ahead == 0:
        return [f"Nobody is ahead of you {where}."]
    n_own = "all" if seen.near.own_ahead == seen.near.ahead else f"{seen.near.own_ahead:,}"
    own = f", {n_own} of your own" if seen.near.own_ahead else ""
    text = f"{counted(seen.near.ahead, 'job')} {be(seen.near.ahead)} ahead of you {where}{own}"
    if seen.median < 60:
        return [f"{text}, yet {_before_them(seen)}."]
    lasts = seen.features["partition_drain_n_7d"]
    pace = f"; at the last week's pace {'it starts' if seen.near.ahead == 1 else 'they start'} within {roughly(lasts)}"
    return [text + (pace if 60 <= lasts < 7 * DAY else "") + "."]


def _before_them(seen: _Seen) -> str:
    """Say why a job starts soon although others are ahead of it."""
    near = seen.near
    if 2 * near.larger_ahead < near.ahead:
        within = "at once" if seen.median < 2.5 else f"within {roughly(seen.median)}"
        return f"of jobs that come in a state such as this one half start {within} by the model"
    if near.ahead == 1:
        return "yours may start before it, which asks for more CPUs or more time"
    all_of = "all" if near.larger_ahead == near.ahead else f"{near.larger_ahead:,}"
    return f"yours may start before them, of which {all_of} ask for more CPUs or more time"


def _in_use(seen: _Seen) -> list[str]:
    most, used = seen.features["capacity_seen"], seen.features["cpus_in_use"]
    left = seen.features["running_mean_remaining"]
    until = f"; by their limits the running jobs have {roughly(left)} left on average" if left >= 60 else ""
    return [f"{used:,.0f} CPUs are in use, the most seen so far is {most:,.0f}{until}."]


def _like_waits(near: Neighbours) -> np.ndarray:
    return near.like if len(near.like) >= _ENOUGH else near.last_like


def _like(seen: _Seen) -> list[str]:
    if len(seen.near.like) >= _ENOUGH:
        return [f"Jobs like yours ({seen.near.what}) {_waited(seen.near.like)} this week."]
    n = len(seen.near.last_like)
    if n == 0:
        return []
    which = "The last job" if n == 1 else f"The last {n} jobs"
    return [f"{which} like yours ({seen.near.what}) {_waited(seen.near.last_like)}."]


def _user(seen: _Seen) -> list[str]:
    n = len(seen.near.own)
    if not seen.request.user or n == 0:
        return []
    which = "Your last job" if n == 1 else f"Your last {n} jobs"
    return [f"{which} to start {_waited(seen.near.own)}."]


def _lately(seen: _Seen) -> list[str]:
    n = len(seen.near.lately)
    if n < 2:
        return []
    where = " in this partition" if seen.near.n_partitions > 1 else ""
    return [f"The last {n} jobs to start{where} {_waited(seen.near.lately)}."]


def _flow(seen: _Seen) -> list[str]:
    for hours, text in ((1, "hour"), (6, "6 hours"), (24, "24 hours")):
        started, submitted = seen.features[f"started_{hours}h"], seen.features[f"submitted_{hours}h"]
        if started + submitted >= 5:
            started_text = f"{counted(int(started), 'job')} started"
            return [f"In the last {text} {counted(int(submitted), 'job')} came and {started_text}."]
    return ["Hardly a job came or started in the last 24 hours."]


def _usage(seen: _Seen) -> list[str]:
    share, running = seen.features["user_share_7d"], seen.features["user_running_cpus"]
    if not seen.request.user or (share == 0 and running == 0):
        return []
    holds = f"; your running jobs hold {counted(int(running), 'CPU')}" if running else ""
    return [f"Your jobs took {share:.0%} of the CPU time of all that ended in the last week{holds}."]


def _habits(seen: _Seen) -> list[str]:
    mine, usual = seen.features["user_limit_used"], seen.features["limit_used"]
    if seen.request.user and np.isfinite(mine):
        return [f"Your last jobs ran for {mine:.0%} of the time that they asked for."]
    return [f"The last jobs to end ran for {usual:.0%} of the time that they asked for."] if np.isfinite(usual) else []


def _before(seen: _Seen) -> list[str]:
    for label, whose in (("user", "Your last job"), ("all", "The last job")):
        waits, ago = seen.features[f"{label}_before_1_waits"], seen.features[f"{label}_before_1_ago"]
        if np.isnan(waits) or (label == "user" and not seen.request.user):
            continue
        so_far = float(np.expm1(seen.features[f"{label}_before_1_so_far"]))
        submitted = f"{whose}, submitted {roughly(ago)} ago," if ago >= 2.5 else f"{whose}, just submitted,"
        return [f"{submitted} {'still waits' if waits else _waited(np.array([so_far]))}."]
    return []


def _clock(seen: _Seen) -> list[str]:
    day, hour = _DAYS[int(seen.features["weekday"])], int(seen.features["hour"])
    effect = "later" if seen.longer else "sooner"
    return [f"Jobs submitted at this time ({day}, {hour:02d}:00 to {hour:02d}:59 UTC) tend to start {effect}."]


def _request(seen: _Seen) -> list[str]:
    effect = "wait longer" if seen.longer else "start sooner"
    return [f"Jobs of this size ({seen.near.what}) tend to {effect} than others here."]


_SENTENCES = {
    "ahead": _ahead,
    "in_use": _in_use,
    "like": _like,
    "user": _user,
    "lately": _lately,
    "flow": _flow,
    "usage": _usage,
    "habits": _habits,
    "before": _before,
    "clock": _clock,
    "request": _request,
    "priority": lambda seen: [],
}


def _waited(waits: np.ndarray) -> str:
    about, one = roughly(float(np.median(waits))), len(waits) == 1
    if about == "at once":
        return "started at once" if one else "mostly started at once"
    return f"waited {about}" if one else f"waited {about} at the median"
