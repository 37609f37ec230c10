"""What features are computed from: a log as each job saw it at its submission, every sort made once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from procure.queue_time.events import NEVER, Events, Queue
from procure.queue_time.log import Log
from procure.queue_time.recent import KINDS, recent_waits

HOUR, DAY = 3600, 86400
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
        label, seconds = KINDS[kind]
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
