"""What is known of a job and of the system at the moment of its submission.

One pass over a job table gives one row per job. A start, an end or a completed wait counts only if it
happened strictly before the job's submission; a job in the queue counts only if its row was submitted
before. Nothing that happens later can change a feature, which `tests/test_queue_time_features.py` proves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import pandas as pd

from procure.queue_time.events import NEVER, Events, Line, Queue
from procure.queue_time.log import Log, read_jobs
from procure.queue_time.recent import KINDS, recent_waits, sorted_waits
from procure.queue_time.recent import columns as recent_columns

HOUR, DAY = 3600, 86400
PUBLISHED = ["cpus_in_use", "mem_in_use", "queue_depth", "cpus", "mem_mb", "minutes", "owns_resources"]
"""The published features; memory in MB, the request in minutes."""
GROUPS = ("partition", "user", "shape", "like")
"""Whose jobs are looked at apart: the job's partition and user, jobs of its size, and those much like it."""

NEEDED_SECONDS = 31 * DAY
"""How far back features look, s; beyond that only at the last jobs of a group."""

BACKLOG = "expected_backlog"
"""Of the feature that an expert of its own reads and no booster: the arithmetic of the work ahead."""

N_LEVELS = 10
"""Of a job's width, doublings of its CPUs from one, and of its length, steps of 2^1.5 of its limit from a minute."""
_MOST_COLUMNS = 256
_RESOURCES = ("cpus", "mem", "gpus")

Starts: TypeAlias = dict[str, tuple[Events, np.ndarray | None]]
"""Sorted starts by grouping, and beside them the groups of the jobs asked about."""
T = TypeVar("T")


class Laid:
    """A log whose sorted events and sums are laid out once and kept, so that a question only looks them up.

    Parameters
    ----------
    log
        All jobs that are known.
    most
        As for `site_features`.
    keep
        Without it nothing is kept: features of a whole log are computed in one pass, and a million jobs fill memory.
    """

    def __init__(self, log: Log, most: dict[str, float] | None = None, keep: bool = True) -> None:
        """Take a log; what is laid out is made when it is first asked for."""
        self.log, self.most = log, most or {}
        self._kept: dict[Hashable, object] | None = {} if keep else None

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return what was made under a name, or make it."""
        if self._kept is None:
            return make()
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]  # type: ignore[return-value]

    def numbered(self, ask: Log) -> Log:
        """Number the shapes and kinds of questions as the log's own."""
        return self.log.numbered(ask, self.once("numbers", self.log.numbers))

    def n_groups(self, label: str, ask: Log) -> int:
        """Return how many groups of a label there are, with one more for questions of none of them."""
        own = int(getattr(ask, label).max(initial=0)) + 1
        return self.once(("n", label), lambda: max(int(getattr(self.log, label).max(initial=0)) + 2, own))

    def sorted(self, moment: str, label: str | None, ask: Log) -> Events:
        """Sort when jobs left the queue, or the starts or ends of those that started, in all or by a label's groups."""

        def sort() -> Events:
            if label is not None:
                return self.sorted(moment, None, ask).grouped(getattr(self.log, label), self.n_groups(label, ask))
            time = getattr(self.log, moment)
            return Events.of(time if moment == "left" else np.where(self.log.start < NEVER, time, NEVER), {})

        return self.once(("sorted", moment, label), sort)

    def waiting(self, queue: Queue, label: str, amount: str) -> np.ndarray:
        """Sum one of `_AMOUNTS` over the jobs that wait at each question, of the queue of a label."""
        return self.total(queue, (label, amount), lambda: _AMOUNTS[amount](self.log))

    def total(self, queue: Queue, name: Hashable, values: Callable[[], np.ndarray]) -> np.ndarray:
        """Sum values (n,) that go by a name over the jobs that wait at each question."""
        return queue.total(self.once(name, lambda: queue.line.sums(values())))


_AMOUNTS: dict[str, Callable[[Log], np.ndarray]] = {
    "n": lambda log: np.ones(log.n),
    "work": lambda log: log.work,
    "cpus": lambda log: log.cpus.astype(float),
    "gpu_seconds": lambda log: log.gpus * log.limit.astype(float),
    "mem": lambda log: log.mem.astype(float),
    "submit": lambda log: log.submit.astype(float),
    "endless": lambda log: np.where(log.limit > 0, 0.0, log.cpus.astype(float)),
}


def site_features(
    jobs: pd.DataFrame,
    most: dict[str, float] | None = None,
    asked: np.ndarray | None = None,
) -> pd.DataFrame:
    """Compute every feature of every job, or of those asked about, from what was known at its submission.

    Parameters
    ----------
    jobs
        A checked job table with ``start_time``; a job that has not started takes part in the queue.
    most
        The most ``cpus``, ``mem`` (MB) and ``gpus`` ever seen in use before the table begins, where it is the
        tail of a longer log; shares are of the most seen so far.
    asked
        Positions in the table of the jobs whose features are wanted; None is all of them.

    Returns
    -------
    pandas.DataFrame
        One row per job asked about, in the order asked, float32, NaN where there is nothing to know yet.
        Amounts in CPUs, MB, GPUs, seconds; ``log_`` stands for the natural logarithm of 1 + seconds.
    """
    asked = np.arange(len(jobs)) if asked is None else asked
    log = read_jobs(jobs)
    return features_of(log, log.take(asked), most).set_index(jobs.index[asked])


class _Columns(dict[str, np.ndarray]):
    """Feature columns by name, each a row of one float32 matrix: those of a million jobs take 0.7 GB, and once."""

    def __init__(self, n: int) -> None:
        self._matrix = np.empty((_MOST_COLUMNS, n), np.float32)  # what is not written to takes no memory

    def __setitem__(self, name: str, values: np.ndarray) -> None:
        row = self._matrix[len(self)]
        row[:] = values
        super().__setitem__(name, row)

    def table(self) -> pd.DataFrame:
        """Return them as a table, without a copy."""
        return pd.DataFrame(self._matrix[: len(self)].T, columns=list(self), copy=False)


def picked(features: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Return columns of a table (n, k) by name."""
    return features[list(names)].to_numpy()


def features_of(log: Log, ask: Log, most: dict[str, float] | None = None) -> pd.DataFrame:
    """Do as `site_features` with a job table that is laid out.

    ``ask`` are jobs of the log, of `Log.take`.
    """
    return features_in(Laid(log, most, keep=False), ask)


def features_in(laid: Laid, ask: Log) -> pd.DataFrame:
    """Do as `features_of` from sums that are kept; ``ask`` are jobs of the log, or questions of `Laid.numbered`."""
    log, columns = laid.log, _Columns(ask.n)
    _request(ask, columns)
    _in_use(laid, ask, columns)
    queues = _queue(laid, ask, columns)
    starts = _starts(laid, ask)
    _flow(laid, ask, starts["all"][0], columns)
    _recent_waits(ask, starts, columns)
    _last_submitted(log, ask, queues, columns)
    _user_habits(laid, ask, columns)
    _drain(laid, ask, queues, starts, columns)
    columns[BACKLOG] = _expected_backlog(laid, ask, queues, columns)
    del queues
    lately = recent_waits(ask, _sorted_waits(laid, starts))
    del starts
    for position, kind in enumerate(KINDS):
        for name, values in zip(recent_columns(kind), lately[:, position].T, strict=True):
            columns[name] = values
    return columns.table()


def _request(ask: Log, out: dict[str, np.ndarray]) -> None:
    moment = ask.submit + ask.origin
    out["cpus"], out["mem_mb"], out["gpus"], out["nodes"] = ask.cpus, ask.mem, ask.gpus, ask.nodes
    out["minutes"] = ask.limit / 60
    out["log_cpu_seconds"] = np.log1p(ask.work)
    out["hour"] = moment // HOUR % 24
    out["weekday"] = (moment // DAY + 3) % 7
    out["owns_resources"] = ask.optional.get("owns_resources", np.zeros(ask.n))
    for name in ("priority", "fair_share"):
        if name in ask.optional:
            out[name] = ask.optional[name]


def _in_use(laid: Laid, ask: Log, out: dict[str, np.ndarray]) -> None:
    """Add what runs, and the CPUs taken for the site's capacity: the most seen so far."""
    log, names = laid.log, ("cpus", "mem", "gpus", "n")
    starts, ends = laid.once("in use", lambda: _begun_and_over(laid, ask))
    most = laid.once("most", lambda: _most_so_far(log, _difference(starts, ends, names, log.submit), laid.most))
    now = dict(zip(names, _difference(starts, ends, names, ask.submit), strict=True))
    whole = {}
    for name in names[:3]:
        whole[name] = np.maximum(most[name][ask.row], now[name])
        out[f"{name}_in_use"] = now[name]
        out[f"{name}_in_use_share"] = now[name] / whole[name]
        out[f"{name}_free_after"] = whole[name] - now[name] - getattr(ask, name)
    out["n_running"] = now["n"]
    begun, done = laid.once("promised", lambda: _promised(log))
    holds, until = _difference(begun, done, ["cpus", "until"], ask.submit)
    out["running_cpu_seconds"] = np.maximum(until - holds * ask.submit, 0)
    out["running_mean_remaining"] = out["running_cpu_seconds"] / np.maximum(holds, 1)
    out["capacity_seen"] = whole["cpus"]


def _begun_and_over(laid: Laid, ask: Log) -> tuple[Events, Events]:
    log = laid.log
    amounts = {name: getattr(log, name).astype(float) for name in ("cpus", "mem", "gpus")} | {"n": np.ones(log.n)}
    return laid.sorted("start", None, ask).adding(amounts), laid.sorted("end", None, ask).adding(amounts)


def _most_so_far(log: Log, in_use: list[np.ndarray], seen: dict[str, float]) -> dict[str, np.ndarray]:
    """Return the most of each resource in use before each job of a log, and after its last, (n + 1,)."""
    before = {
        name: np.append(max(seen.get(name, 1), 1), values) for name, values in zip(_RESOURCES, in_use, strict=False)
    }
    return {name: np.maximum.accumulate(values) for name, values in before.items()}


def _promised(log: Log) -> tuple[Events, Events]:
    """Return the starts of jobs with a limit, and when they reach it or end."""
    limited, cpus = (log.start < NEVER) & (log.limit > 0), log.cpus.astype(float)
    promised = {"cpus": cpus, "until": cpus * (log.start + log.limit)}
    times = (np.where(limited, moment, NEVER) for moment in (log.start, log.due))
    begun, done = (Events.of(time, promised) for time in times)
    return begun, done


def _difference(
    begun: Events, done: Events, names: Sequence[str], now: np.ndarray, group: np.ndarray | None = None
) -> list[np.ndarray]:
    pairs = zip(begun.total(names, now, group), done.total(names, now, group), strict=True)
    return [more - less for more, less in pairs]


def _queue(laid: Laid, ask: Log, out: dict[str, np.ndarray]) -> dict[str, Queue]:
    """Add what waits, in all and of the job's own kind; return the sorted queues for other features."""
    log = laid.log
    line = laid.once("line", lambda: Line(log.submit, log.left, gone=laid.sorted("left", None, ask)))
    queues = {"all": Queue(line, ask.submit, ask.row)}
    everyone = queues["all"]
    depth = laid.waiting(everyone, "all", "n")
    out["queue_depth"], out["queued_cpus"] = depth, laid.waiting(everyone, "all", "cpus")
    out["queued_cpu_seconds"] = laid.waiting(everyone, "all", "work")
    out["queued_gpu_seconds"] = laid.waiting(everyone, "all", "gpu_seconds")
    out["queued_mem"] = laid.waiting(everyone, "all", "mem")
    mean_submit = laid.waiting(everyone, "all", "submit") / np.maximum(depth, 1)
    out["queue_mean_age"] = np.where(depth > 0, ask.submit - mean_submit, 0)
    out["queue_oldest_age"] = everyone.oldest_age()
    out["backlog_seconds"] = (out["queued_cpu_seconds"] + out["running_cpu_seconds"]) / out["capacity_seen"]
    for label in GROUPS:
        queue = queues[label] = Queue(
            laid.once(("line", label), functools.partial(_line, laid, label, ask)),
            ask.submit,
            ask.row,
            getattr(ask, label),
        )
        out[f"{label}_depth"] = laid.waiting(queue, label, "n")
        if label != "like":
            out[f"{label}_queued_cpu_seconds"] = laid.waiting(queue, label, "work")
        out[f"{label}_oldest_age"] = queue.oldest_age()
    for label, of in (("narrower", _width), ("shorter", _length)):
        n_ahead, work_ahead = _at_most(laid, everyone, label, of, ask)
        out[f"{label}_depth"], out[f"{label}_queued_cpu_seconds"] = n_ahead, work_ahead
    return queues


def _line(laid: Laid, label: str, ask: Log) -> Line:
    log = laid.log
    gone = laid.sorted("left", label, ask)
    return Line(log.submit, log.left, getattr(log, label), laid.n_groups(label, ask), gone)


def _width(log: Log) -> np.ndarray:
    return np.clip(np.ceil(np.log2(np.maximum(log.cpus, 1))), 0, N_LEVELS - 1)


def _length(log: Log) -> np.ndarray:
    return np.clip(np.log2(np.maximum(log.limit / 60, 1)) // 1.5, 0, N_LEVELS - 1)


def _at_most(
    laid: Laid, queue: Queue, label: str, level_of: Callable[[Log], np.ndarray], ask: Log
) -> tuple[np.ndarray, np.ndarray]:
    """Count the waiting jobs, and their CPU-seconds, whose level is at most each question's own."""
    own, found = level_of(ask), (np.zeros(ask.n), np.zeros(ask.n))
    level = laid.once(label, lambda: level_of(laid.log))
    for value in np.unique(own):
        asks = own == value
        for amount, into in zip(("n", "work"), found, strict=True):

            def values(name: str = amount, most: float = value) -> np.ndarray:
                return np.where(level <= most, _AMOUNTS[name](laid.log), 0.0)

            into[asks] = laid.total(queue, (label, amount, float(value)), values)[asks]
    return found


def _starts(laid: Laid, ask: Log) -> Starts:
    """Sort the starts, of all jobs and by each grouping; beside them the groups of the jobs asked about."""
    log = laid.log

    @functools.cache
    def values() -> dict[str, np.ndarray]:
        wait = np.where(log.start < NEVER, log.wait, 0).astype(float)
        at = log.start.astype(float)
        return {"log_wait": np.log1p(wait), "wait": wait, "at": at, "n": np.ones(log.n), "work": log.work}

    starts: Starts = {"all": (laid.once("starts", lambda: laid.sorted("start", None, ask).adding(values())), None)}
    for label in GROUPS:

        def add(one: str = label) -> Events:
            return laid.sorted("start", one, ask).adding(values())

        starts[label] = laid.once(("starts", label), add), getattr(ask, label)
    return starts


def _flow(laid: Laid, ask: Log, starts: Events, out: dict[str, np.ndarray]) -> None:
    log, one = laid.log, _AMOUNTS["n"]
    submissions = laid.once("submissions", lambda: Events.of(log.submit, {"n": one(log), "work": log.work}))
    for hours in (1, 6, 24):
        seconds = hours * HOUR
        n_started, sum_log, started = starts.within(["n", "log_wait", "work"], ask.submit, seconds)
        n_submitted, submitted = submissions.within(["n", "work"], ask.submit, seconds)
        out[f"started_{hours}h"] = n_started
        out[f"log_wait_mean_{hours}h"] = sum_log / np.where(n_started > 0, n_started, np.nan)
        out[f"started_cpu_seconds_{hours}h"] = started
        out[f"submitted_{hours}h"], out[f"submitted_cpu_seconds_{hours}h"] = n_submitted, submitted
    n_users = laid.n_groups("user", ask)
    own = laid.once("own submissions", lambda: Events.of(log.submit, {"n": one(log)}, log.user, n_users))
    for hours in (1, 24):
        [out[f"user_submitted_{hours}h"]] = own.within(["n"], ask.submit, hours * HOUR, ask.user)


def _sorted_waits(laid: Laid, starts: Starts) -> dict[str, tuple[Events, np.ndarray]]:
    found = {}
    for label in {label for label, _ in KINDS.values()}:
        events, _ = starts[label]
        found[label] = events, laid.once(("waits", label), functools.partial(sorted_waits, laid.log, events))
    return found


def _recent_waits(ask: Log, starts: Starts, out: dict[str, np.ndarray]) -> None:
    lengths = {
        "all": (5, 20, 100),
        "user": (1, 5, 20),
        "shape": (1, 5, 20),
        "like": (1, 5),
        "partition": (1, 5, 20),
    }
    for label, counts in lengths.items():
        events, own = starts[label]
        means = events.means_of_last(["log_wait", "wait", "at"], ask.submit, counts, own, ask.since)
        for n_last, (mean_log, mean, at) in zip(counts, means, strict=True):
            out[f"{label}_log_wait_{n_last}"] = mean_log
            if n_last > 1:
                out[f"{label}_wait_{n_last}"] = mean
            if n_last == counts[0]:
                out[f"{label}_since_start"] = ask.submit - at


def _last_submitted(log: Log, ask: Log, queues: dict[str, Queue], out: dict[str, np.ndarray]) -> None:
    """Add how long the jobs submitted just before have waited so far, and whether they still wait."""
    now = ask.submit
    for label, every in (("all", (1, 5)), ("user", (1, 2, 4)), ("like", (1, 3)), ("shape", (1, 3))):
        for step in every:
            row = queues[label].earlier(step)
            known = (row >= 0) & (log.submit[row] >= ask.since)
            so_far = np.maximum(np.minimum(log.left[row], now) - log.submit[row], 0)
            out[f"{label}_before_{step}_so_far"] = np.where(known, np.log1p(so_far), np.nan)
            out[f"{label}_before_{step}_waits"] = np.where(known, log.left[row] >= now, np.nan)
            out[f"{label}_before_{step}_ago"] = np.where(known, now - log.submit[row], np.nan)


def _user_habits(laid: Laid, ask: Log, out: dict[str, np.ndarray]) -> None:
    """Add the shares of their limits that a user's jobs have used, and the user's recent consumption."""
    log = laid.log
    everyone, own = laid.once("ends", lambda: _ends(laid, ask))
    out["user_limit_used"], out["user_log_run"] = own.mean_of_last(["share", "run"], ask.submit, 5, ask.user, ask.since)
    out["limit_used"], out["log_run"] = everyone.mean_of_last(["share", "run"], ask.submit, 100, None, ask.since)
    for days in (1, 7):
        [mine] = own.within(["used"], ask.submit, days * DAY, ask.user)
        [whole] = everyone.within(["used"], ask.submit, days * DAY)
        out[f"user_used_{days}d"] = mine
        out[f"user_share_{days}d"] = mine / np.maximum(whole, 1)

    def running() -> tuple[Events, Events]:
        amounts = {name: _AMOUNTS[name](log) for name in ("cpus", "n")}
        begun, over = (laid.sorted(moment, "user", ask) for moment in ("start", "end"))
        return begun.adding(amounts), over.adding(amounts)

    begun, done = laid.once("own running", running)
    out["user_running_cpus"], out["user_running_n"] = _difference(begun, done, ["cpus", "n"], ask.submit, ask.user)


def _ends(laid: Laid, ask: Log) -> tuple[Events, Events]:
    """Return the ends of jobs that ran, of all and by user, with what each used."""
    log = laid.log
    ran = log.start < NEVER
    run = np.where(ran & (log.end < NEVER), log.end - log.start, 0).astype(float)
    share = np.where(log.limit > 0, np.minimum(run / np.maximum(log.limit, 1), 2), 1.0)
    values = {"share": share, "run": np.log1p(run), "used": run * log.cpus}
    return laid.sorted("end", None, ask).adding(values), laid.sorted("end", "user", ask).adding(values)


def _drain(laid: Laid, ask: Log, queues: dict[str, Queue], starts: Starts, out: dict[str, np.ndarray]) -> None:
    """Add the seconds that the work ahead takes at the recent rate at which such work has started."""
    mine = {"n": np.ones(ask.n), "work": ask.work}
    for label, queue in queues.items():
        events, own = starts[label]
        now = events.before(ask.submit, own)
        ahead = {name: laid.waiting(queue, label, name) for name in mine}
        for days in (1, 7) if label in ("all", "user") else (7,):
            since = events.before(ask.submit - days * DAY, own)
            for name in mine:
                pace = events.sums[name][now] - events.sums[name][since] + 0.5 * mine[name]
                column = f"{'queue' if label == 'all' else label}_drain_{name}_{days}d"
                out[column] = ahead[name] * (days * DAY) / np.maximum(pace, 0.5)
    out["user_drain_running"] = out["user_queued_cpu_seconds"] / np.maximum(out["user_running_cpus"], 1)
    out["work_ahead_seconds"] = out["shorter_queued_cpu_seconds"] / out["capacity_seen"]


def _expected_backlog(laid: Laid, ask: Log, queues: dict[str, Queue], known: dict[str, np.ndarray]) -> np.ndarray:
    """Return the seconds that the most CPUs which the partition has used within a day need for the work ahead.

    The user's own waiting jobs use the share of their limits that the user's last jobs used, all others what the last
    jobs to end used; a job without a limit runs as long as they did. Where nobody waits and the job fits it is 0.
    """
    usual = np.nan_to_num(known["limit_used"], nan=1.0)
    mine = np.where(np.isnan(known["user_limit_used"]), usual, known["user_limit_used"])
    ahead = known["partition_queued_cpu_seconds"]
    own = np.minimum(known["user_queued_cpu_seconds"], ahead)
    endless = laid.waiting(queues["partition"], "partition", "endless")
    endless *= np.expm1(np.nan_to_num(known["log_run"]))
    begun, over, freed = laid.once("backlog", lambda: _held(laid, ask))
    holds, until = _difference(begun, over, ["cpus", "until"], ask.submit, ask.partition)
    running = np.maximum(until - holds * ask.submit, 0)
    most = ask.cpus.astype(float)
    for hours in (0, 1, 6, 24):
        [held] = _difference(begun, freed, ["cpus"], ask.submit - hours * HOUR, ask.partition)
        most = np.maximum(most, held)
    work = (ahead - own) * np.clip(usual, 0, 1) + own * np.clip(mine, 0, 1) + endless
    work += running * np.clip(usual, 0, 1)
    idle = (known["partition_depth"] == 0) & (known["cpus_free_after"] >= 0)
    return np.where(idle, 0.0, work / np.maximum(most, 1))


def _held(laid: Laid, ask: Log) -> tuple[Events, Events, Events]:
    """Return by partition the starts, when jobs reach their limits or end, and their ends, with the CPUs they hold."""
    log = laid.log
    cpus = log.cpus.astype(float)
    amounts = {"cpus": cpus, "until": cpus * (log.start + log.limit.astype(float))}
    begun, over, freed = (laid.sorted(moment, "partition", ask) for moment in ("start", "due", "end"))
    return begun.adding(amounts), over.adding(amounts), freed.adding({"cpus": cpus})
