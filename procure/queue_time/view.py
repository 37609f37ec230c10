"""What features are computed from: a log as each job saw it at its submission, every sort made once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from procure.queue_time.log import NEVER, Log

HOUR, DAY = 3600, 86400


@dataclass(frozen=True)
class Events:
    """Events sorted by group and time, with running sums of their values: what was known at a moment.

    Everything is a sort, a running sum and a binary search. An event of the very second of the question does not count:
    within one second a log does not tell which came first. Groups are codes from 0; without groups all are of group 0.
    """

    key: np.ndarray  # int64[n], group × `NEVER` + time, ascending
    first: np.ndarray  # int64[n_groups + 1], where each group's events begin
    order: np.ndarray  # int64[n], the events' positions before sorting
    sums: dict[str, np.ndarray] = field(default_factory=dict)  # by name, float64[n + 1], starting at 0

    @classmethod
    def of(cls, time: np.ndarray) -> Events:
        """Sort events that happen, at (n,) int64 seconds, not negative; those at `NEVER` are left out."""
        order = np.flatnonzero(time < NEVER)
        order = order[np.argsort(time[order], kind="stable")]
        key = time[order]
        return cls(key, np.searchsorted(key, np.arange(2) * NEVER), order)

    def grouped(self, group: np.ndarray, n_groups: int) -> Events:
        """Return events of one group sorted by the groups (n,) of each, without values."""
        by = by_group(group[self.order], n_groups)
        order = self.order[by]
        key = group[order] * NEVER + self.key[by]
        return Events(key, np.searchsorted(key, np.arange(n_groups + 1) * NEVER), order)

    def adding(self, values: dict[str, np.ndarray]) -> Events:
        """Return the same events, sorted already, where each adds other values, (n,) by name."""
        sums = {name: np.append(0.0, np.cumsum(_exact(value[self.order]))) for name, value in values.items()}
        return Events(self.key, self.first, self.order, sums)

    def before(self, time: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Count the sorted events up to each moment, its group's last one included: an end for a slice."""
        return np.searchsorted(self.key, group * NEVER + np.maximum(time, 0), side="left")

    def total(self, name: str, time: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Sum a value over each group's events before each moment."""
        return self.between(name, self.first[group], self.before(time, group))

    def between(self, name: str, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Sum a value over slices of the sorted events."""
        return np.asarray(self.sums[name][end] - self.sums[name][begin])


def by_group(group: np.ndarray, n_groups: int) -> np.ndarray:
    """Sort codes (n,) from 0, those of one group as they stand; few groups are sorted by their digits."""
    return np.argsort(group.astype(np.uint16) if n_groups <= 2**16 else group, kind="stable")


def _exact(values: np.ndarray) -> np.ndarray:
    """Round to multiples of 2⁻²⁸, of which sums below 2²⁵ are exact, as are those of whole numbers below 2⁵³.

    So what is known of one group at a moment does not hang on how events of others, or of later, are rounded: a model
    that knows the last jobs alone is told to the bit what one is told that looks back from the end of a log.
    """
    return np.round(values * 2.0**28) * 2.0**-28


class Queue:
    """The jobs of each question's group that wait at its moment.

    ``submit`` (n,) is ascending; ``left`` is when each job left the queue, `NEVER` if it has not, and ``gone``
    `Events.of` that, by group. ``now``, ``row`` and ``own`` (m,) are the questions' moments, how many of the jobs came
    before each, and their groups.
    """

    def __init__(
        self,
        submit: np.ndarray,
        left: np.ndarray,
        group: np.ndarray,
        gone: Events,
        now: np.ndarray,
        row: np.ndarray,
        own: np.ndarray,
    ) -> None:
        """Find the questions' places."""
        n = len(submit)
        self.submit, self.left, self.gone, self.now, self.own = submit, left, gone, now, own
        self.rows = by_group(group, len(gone.first) - 1)
        self.group = group[self.rows]
        key = self.group * (n + 1) + self.rows
        self.first, self.came = np.searchsorted(key, own * (n + 1)), np.searchsorted(key, own * (n + 1) + row)
        self.begin, self.end = gone.first[own], gone.before(now, own)

    def piled(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sum values (n,) over the jobs that have come and those that have left, in the order of both."""
        come, gone = (np.append(0.0, np.cumsum(values[order])) for order in (self.rows, self.gone.order))
        return come, gone

    def total(self, piled: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Sum what `piled` has summed over the jobs that wait at each question."""
        come, gone = piled
        return np.asarray(come[self.came] - come[self.first] - (gone[self.end] - gone[self.begin]))

    @cached_property
    def ceiling(self) -> np.ndarray:
        """The running maximum, within each group, of the times at which jobs left the queue: ascending."""
        return np.maximum.accumulate(self.group * (2 * NEVER) + self.left[self.rows])

    def oldest_age(self) -> np.ndarray:
        """Return the age of the oldest job that waits at each question; 0 without one.

        The first row which had not left by now is a binary search away.
        """
        if not len(self.rows):
            return np.zeros(len(self.now), np.int64)
        found = np.maximum(np.searchsorted(self.ceiling, self.own * (2 * NEVER) + self.now, side="left"), self.first)
        waits = found < self.came
        return np.where(waits, self.now - self.submit[self.rows[np.where(waits, found, 0)]], 0)

    def earlier(self, steps: int) -> np.ndarray:
        """Return the row ``steps`` places before each question in its group; −1 where there is none."""
        place = self.came - steps
        if not len(self.rows):
            return np.full(len(place), -1)
        return np.where(place >= self.first, self.rows[np.maximum(place, 0)], -1)


RECENT_LEVELS = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
"""The levels that are kept of each empirical distribution."""
_MOST = 50
"""The most waits that a distribution is read off, evenly spaced over the starts of its window."""
_BLOCK = 20_000
RECENT_PREFIX = "recent_"
"""Of the names of the feature columns, which only `mixture` reads: boosters do not see them."""
RECENT_KINDS = {
    "day": ("partition", DAY),
    "week": ("partition", 7 * DAY),
    "month": ("partition", 30 * DAY),
    "shape": ("shape", 7 * DAY),
    "user": ("user", 30 * DAY),
}
"""By name: whose jobs (see `log.Log`), and the seconds before the submission in which they started."""


def recent_columns(kind: str) -> list[str]:
    """Return the names of a kind's feature columns, one per level."""
    return [f"{RECENT_PREFIX}{kind}_{round(100 * level):02d}" for level in RECENT_LEVELS]


WEEK_MEDIAN = recent_columns("week")[int(np.searchsorted(RECENT_LEVELS, 0.5))]


def recent_waits(log: Log, starts: Events, now: np.ndarray, own: np.ndarray, seconds: int) -> np.ndarray:
    """Return quantiles of the waits of the jobs of each question's group that started within so many seconds.

    ``starts`` are those of all jobs, sorted by groups; ``now`` and ``own`` (n,) the questions' moments and groups. The
    result is (n, len(RECENT_LEVELS)) float32, the natural logarithm of 1 + seconds; NaN without a start in the window.
    """
    log_wait = np.log1p(np.where(log.start < NEVER, log.wait, 0).astype(float))
    values = np.append(log_wait[starts.order], 0.0)
    begin, end = starts.before(now - seconds, own), starts.before(now, own)
    parts = [slice(first, first + _BLOCK) for first in range(0, len(now), _BLOCK)]
    found = [_quantiles(values, begin[rows], end[rows]).astype(np.float32) for rows in parts]
    return np.concatenate([np.zeros((0, len(RECENT_LEVELS)), np.float32), *found])


def _quantiles(values: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the quantiles at `RECENT_LEVELS` of slices of values, each thinned to `_MOST`; NaN where it is empty."""
    count = end - begin
    n = np.minimum(count, _MOST)
    back = np.arange(_MOST) * count[:, None] // np.maximum(n, 1)[:, None]
    inside = np.arange(_MOST) < n[:, None]
    kept = np.sort(np.where(inside, values[np.where(inside, end[:, None] - 1 - back, 0)], np.inf), axis=1)
    place = np.clip(RECENT_LEVELS * (n[:, None] + 1) - 1, 0, np.maximum(n[:, None] - 1, 0))
    below = place.astype(np.int64)
    above = np.minimum(below + 1, np.maximum(n[:, None] - 1, 0))
    rows = np.arange(len(n))[:, None]
    kept[n == 0, 0] = np.nan
    low, high = kept[rows, below], kept[rows, above]
    return low + (place - below) * (high - low)


N_LEVELS = 10
"""Of a job's width, doublings of its CPUs from one, and of its length, steps of 2^1.5 of its limit from a minute."""
_AMOUNTS: dict[str, Callable[[Log], np.ndarray]] = {
    "n": lambda log: np.ones(log.n),
    "work": lambda log: log.work,
    "cpus": lambda log: log.cpus.astype(float),
    "mem": lambda log: log.mem.astype(float),
    "gpus": lambda log: log.gpus.astype(float),
    "gpu_seconds": lambda log: log.gpus * log.limit.astype(float),
    "submit": lambda log: log.submit.astype(float),
    "endless": lambda log: np.where(log.limit > 0, 0.0, log.cpus.astype(float)),
    "until": lambda log: log.cpus * (log.start + log.limit.astype(float)),
}
LEVEL: dict[str, Callable[[Log], np.ndarray]] = {
    "narrower": lambda log: np.clip(np.ceil(np.log2(np.maximum(log.cpus, 1))), 0, N_LEVELS - 1),
    "shorter": lambda log: np.clip(np.log2(np.maximum(log.limit / 60, 1)) // 1.5, 0, N_LEVELS - 1),
}


def once(method: Callable[..., Any], of_log: bool = False) -> Callable[..., Any]:
    """Keep what a method of `View` returns for its arguments, with the view or, ``of_log``, with its log."""

    @functools.wraps(method)
    def kept(self: View, *key: Any) -> Any:
        place, held = (method.__name__, *key), self.log.kept if of_log else self.kept
        if place not in held:
            held[place] = method(self, *key)
        return held[place]

    return kept


once_of_log = functools.partial(once, of_log=True)
"""As `once`, for what no question changes."""


class View:
    """A log and the jobs asked about, with what features have in common; ``view[name]`` is a feature before.

    They are jobs of the log, of `Log.take`, or questions, of `Log.asking`; ``most`` is as for `site_features`.
    """

    def __init__(self, log: Log, ask: Log, most: dict[str, float] | None = None) -> None:
        """Take a log; what is sorted is sorted when it is first asked for."""
        self.log, self.ask, self.most, self.now = log, ask, most or {}, ask.submit
        self.kept: dict[Any, Any] = {}
        self.known: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a feature that was computed before, (n,) float32."""
        return self.known[name]

    @once
    def groups(self, label: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups of the log's jobs, and of those asked about; all jobs are one group."""
        if label == "all":
            return np.zeros(self.log.n, np.int64), np.zeros(self.ask.n, np.int64)
        codes = getattr(self.log, label)
        return codes, np.minimum(getattr(self.ask, label), codes.max(initial=-1) + 1)  # the last group has no past

    @once_of_log
    def sorted(self, moment: str, label: str = "all") -> Events:
        """Sort when jobs left the queue, or when those that started did, were due or ended, by a label's groups."""
        if label != "all":
            codes = self.groups(label)[0]
            return self.sorted(moment).grouped(codes, int(codes.max(initial=-1)) + 2)
        started = moment in ("left", "submit") or self.log.start < NEVER
        return Events.of(np.where(started, getattr(self.log, moment), NEVER))

    @once_of_log
    def happened(self, moment: str, label: str, *amounts: str) -> Events:
        """Sort as `sorted`, and sum amounts."""
        return self.sorted(moment, label).adding({name: _AMOUNTS[name](self.log) for name in amounts})

    @once_of_log
    def starts(self, label: str) -> Events:
        """Sort the starts, with their waits."""
        log, wait = self.log, np.where(self.log.start < NEVER, self.log.wait, 0).astype(float)
        values = {"log_wait": np.log1p(wait), "wait": wait, "at": log.start.astype(float)}
        return self.sorted("start", label).adding(values | {name: _AMOUNTS[name](log) for name in ("n", "work")})

    @once_of_log
    def ends(self, label: str) -> Events:
        """Sort the ends of jobs that ran, with what each used."""
        log = self.log
        run = np.where((log.start < NEVER) & (log.end < NEVER), log.end - log.start, 0).astype(float)
        share = np.where(log.limit > 0, np.minimum(run / np.maximum(log.limit, 1), 2), 1.0)
        return self.sorted("end", label).adding({"share": share, "run": np.log1p(run), "used": run * log.cpus})

    @once
    def lately(self, what: str, label: str, seconds: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return where the `starts` or `ends` of each question's group begin and end within so many seconds.

        Without a number, of all that are looked at.
        """
        events, own = getattr(self, what)(label), self.groups(label)[1]
        since = self.ask.since if seconds is None else self.now - seconds
        return events.before(since, own), events.before(self.now, own)

    def mean(self, what: str, label: str, name: str, n_last: int) -> np.ndarray:
        """Average a value over a group's last `starts` or `ends`; NaN where there is none."""
        first, end = self.lately(what, label)
        begin, sums = np.maximum(end - n_last, first), getattr(self, what)(label).sums[name]
        return (sums[end] - sums[begin]) / np.where(end > begin, end - begin, np.nan)

    def running(self, amount: str, label: str = "all", over: str = "end", before: int = 0) -> np.ndarray:
        """Sum what has started but is not yet over, so many seconds before each question."""
        amounts = ("cpus", "mem", "gpus", "n", "until")
        moments = (self.happened(one, label, *amounts) for one in ("start", over))
        begun, done = (one.total(amount, self.now - before, self.groups(label)[1]) for one in moments)
        return np.asarray(begun - done)

    @once
    def whole(self, name: str) -> np.ndarray:
        """Return the most of a resource in use so far, which is taken for the site's capacity."""
        log, (none, _) = self.log, self.groups("all")
        begun, done = (self.happened(one, "all", "cpus", "mem", "gpus", "n", "until") for one in ("start", "end"))
        before = begun.total(name, log.submit, none) - done.total(name, log.submit, none)
        most = np.maximum.accumulate(np.append(max(self.most.get(name, 1), 1), before))
        return np.maximum(most[self.ask.row], self.running(name))

    @once
    def promised(self, amount: str) -> np.ndarray:
        """Sum over the running jobs that have a limit."""
        log = self.log
        limited = (log.start < NEVER) & (log.limit > 0)
        values = {name: _AMOUNTS[name](log) for name in ("cpus", "until")}
        moments = (Events.of(np.where(limited, one, NEVER)).adding(values) for one in (log.start, log.due))
        begun, done = (one.total(amount, self.now, self.groups("all")[1]) for one in moments)
        return np.asarray(begun - done)

    @once
    def queue(self, label: str) -> Queue:
        """Find the questions' places in the queue."""
        log, (group, own) = self.log, self.groups(label)
        return Queue(log.submit, log.left, group, self.sorted("left", label), self.now, self.ask.row, own)

    @once_of_log
    def piled(self, label: str, amount: str) -> tuple[np.ndarray, np.ndarray]:
        """Sum an amount over all jobs of a group, as `Queue.total` takes it."""
        return self.queue(label).piled(_AMOUNTS[amount](self.log))

    @once
    def waiting(self, label: str, amount: str) -> np.ndarray:
        """Sum an amount over the waiting jobs of a group, or of those that are ``narrower`` or ``shorter``."""
        if label not in LEVEL:
            return self.queue(label).total(self.piled(label, amount))
        values = _AMOUNTS[amount](self.log)
        queue, own, level = self.queue("all"), LEVEL[label](self.ask), LEVEL[label](self.log)
        found = np.zeros(self.ask.n)
        for most in np.unique(own):
            found[own == most] = queue.total(queue.piled(np.where(level <= most, values, 0.0)))[own == most]
        return found

    def job_before(self, label: str, step: int, what: str) -> np.ndarray:
        """Return of the job submitted so many before how long it waited ``so_far``, or whether it ``waits``, or when.

        NaN where it is not looked at.
        """
        if not len(self.log.submit):
            return np.full(self.ask.n, np.nan)
        row = self.queue(label).earlier(step)
        submit, left = self.log.submit[row], self.log.left[row]
        values = {
            "so_far": np.log1p(np.maximum(np.minimum(left, self.now) - submit, 0)),
            "waits": left >= self.now,
            "ago": self.now - submit,
        }
        return np.where((row >= 0) & (submit >= self.ask.since), values[what], np.nan)

    def drain(self, label: str, amount: str, days: int) -> np.ndarray:
        """Return how long what waits lasts at the pace of the last days, s."""
        mine = np.ones(self.ask.n) if amount == "n" else self.ask.work
        pace = self.within("starts", label, amount, days * DAY) + 0.5 * mine
        return np.asarray(self.waiting(label, amount) * (days * DAY) / np.maximum(pace, 0.5))

    def expected_backlog(self) -> np.ndarray:
        """Return the seconds that the most CPUs which the partition has used within a day need for the work ahead.

        The user's own waiting jobs use the share of their limits that the user's last jobs used, all others what the
        last jobs to end used; a job without a limit runs as long as they did. Where nobody waits and the job fits it
        is 0.
        """
        usual = np.nan_to_num(self["limit_used"], nan=1.0)
        mine = np.where(np.isnan(self["user_limit_used"]), usual, self["user_limit_used"])
        ahead = self["partition_queued_cpu_seconds"]
        own = np.minimum(self["user_queued_cpu_seconds"], ahead)
        endless = self.waiting("partition", "endless") * np.expm1(np.nan_to_num(self["log_run"]))
        holds, until = (self.running(name, "partition", "due") for name in ("cpus", "until"))
        most = self.ask.cpus.astype(float)
        for hours in (0, 1, 6, 24):
            most = np.maximum(most, self.running("cpus", "partition", "end", hours * HOUR))
        work = (ahead - own) * np.clip(usual, 0, 1) + own * np.clip(mine, 0, 1) + endless
        work += np.maximum(until - holds * self.now, 0) * np.clip(usual, 0, 1)
        idle = (self["partition_depth"] == 0) & (self["cpus_free_after"] >= 0)
        return np.where(idle, 0.0, work / np.maximum(most, 1))

    @once
    def quantiles(self, kind: str) -> np.ndarray:
        """Return the quantiles of a kind of recent waits, (n, levels)."""
        label, seconds = RECENT_KINDS[kind]
        return recent_waits(self.log, self.starts(label), self.now, getattr(self.ask, label), seconds)

    def within(self, what: str, label: str, amount: str, seconds: int) -> np.ndarray:
        """Sum an amount of what happened within so many seconds: jobs' ``submit``, ``starts`` or ``ends``."""
        if what in ("starts", "ends"):
            return getattr(self, what)(label).between(amount, *self.lately(what, label, seconds))  # type: ignore[no-any-return]
        events, own = self.happened(what, label, "n", "work"), self.groups(label)[1]
        return events.between(amount, events.before(self.now - seconds, own), events.before(self.now, own))

    def typical_wait(self, seconds: int) -> np.ndarray:
        """Average the log waits of what started within so many seconds; NaN where nothing did."""
        n, log_wait = (self.within("starts", "all", name, seconds) for name in ("n", "log_wait"))
        return log_wait / np.where(n > 0, n, np.nan)

    def mean_age(self) -> np.ndarray:
        """Return the mean age of the waiting jobs."""
        depth = self.waiting("all", "n")
        return np.where(depth > 0, self.now - self.waiting("all", "submit") / np.maximum(depth, 1), 0)

    def share_used(self, seconds: int) -> np.ndarray:
        """Return the user's share of what ended within so many seconds."""
        mine, whole = (self.within("ends", label, "used", seconds) for label in ("user", "all"))
        return mine / np.maximum(whole, 1)
