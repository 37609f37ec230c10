"""The one process that looks at the queue: keeps what it sees, forecasts new jobs, and keeps the model fresh."""

from __future__ import annotations

import fcntl
import logging
import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
import time as clock
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import IO

import pandas as pd

from procure.errors import TableError, where
from procure.files import whole_file
from procure.queue_time import store as files
from procure.queue_time.log import queue_jobs
from procure.queue_time.store import SiteModel, continue_training, recent, train
from procure.serve.settings import LEAST_BETWEEN, Place, read_service
from procure.serve.slurm import Closed, Queue, Slurm, is_due
from procure.serve.store import JOB_COLUMNS, Store, forecasts, job_table, usable, why
from procure.text import counted

FEWEST = 100
"""Known starts from which a model can be trained."""
AGAIN = 1800
"""Seconds after a training until the next, however it ended."""


class Trainer:
    """The model of a service; it is trained in a process of its own, so that the queue is looked at meanwhile."""

    def __init__(self, place: Place, store: Store, say: Callable[[str, str | None], None]) -> None:
        """Read the model that there is, if any; ``say`` is told of problems by code."""
        self.place, self.store, self.say, self.how = place, store, say, place.service.model
        self.site: SiteModel | None = None
        self.updated, self.tried = 0, 0
        self.training: Future[SiteModel] | None = None
        if place.model.is_file():
            try:
                site = files.load(place.model)
                about, self.site = site.about, site
                self.updated = int(store.fact("updated", about["end"]))
                trained_at, rows = int(about["trained_until"]), int(about["trained_rows"])
                store.remember(updated=self.updated, trained_at=store.fact("trained_at", trained_at), trained_rows=rows)
            except TableError as error:
                say("model", f"{error}; it is trained again")

    def look(self, now: int) -> None:
        """Train, continue or replace the model where that is due."""
        if self.training is not None and self.training.done():
            self._take(self.training, now)
        if self.site is None:
            self._first(now)
        elif is_due(self.updated, self.how.update_every, now):
            self._learn(self.site, now)

    def _learn(self, site: SiteModel, now: int) -> None:
        try:
            # What this second brought is known, too.
            self.site = continue_training(site, self.known(_since(site), now), now=now + 1)
        except TableError as error:
            self.say("update", f"the model could not be continued: {error}")
            return
        self.say("update", None)
        self._keep(self.site, now)
        if 100 * self.site.grown >= self.how.retrain_grown:
            self._train(now)

    def known(self, since: int, now: int) -> pd.DataFrame:
        """Return the jobs since a moment that the service knows, and any that has not ended.

        One that a clock puts into the future is not among them: a model learns from later jobs than those it has seen.
        """
        most = max(files.MOST_HISTORY, 3 * self.how.max_rows)
        return self.store.jobs("(submit_time >= ? or end_time is null) and submit_time <= ?", (since, now, most))

    def _first(self, now: int) -> None:
        [(n,)] = self.store.rows("select count(*) from jobs where start_time is not null")
        self.store.remember(starts_known=n)
        if n < FEWEST:
            self.say("model", f"the starts of {n:,} jobs are known; the first model needs {FEWEST}")
        elif self._train(now):
            self.say("model", f"the first model is being trained on the starts of {n:,} jobs")

    def _train(self, now: int) -> bool:
        """Begin a training in another process, unless there is one or the last was a short while ago."""
        if self.training is not None or not is_due(self.tried, AGAIN, now):
            return False
        jobs = queue_jobs(self.known(0, now)).tail(3 * self.how.max_rows).reset_index(drop=True)
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), end_with_parent, (os.getpid(),))
        self.training = pool.submit(train, jobs, settings=self.how.boosters())
        pool.shutdown(wait=False)
        return True

    def _take(self, training: Future[SiteModel], now: int) -> None:
        """Take what a training has brought."""
        self.training, self.tried = None, now
        try:
            site = training.result()
        except Exception as error:  # there is nothing to learn, the process ended, or a library has failed in it
            text = str(error) if isinstance(error, TableError) else where(error)
            self.say("model" if self.site is None else "training", f"no model could be trained: {text}")
            return
        with suppress(TableError):  # nothing came meanwhile
            site = continue_training(site, self.known(_since(site), now), now=now + 1)
        self.site = site
        self.store.remember(trained_at=now, trained_rows=int(site.about["trained_rows"]))
        for code in ("training", "model"):
            self.say(code, None)
        self._keep(site, now)

    def _keep(self, site: SiteModel, now: int) -> None:
        self.updated = now
        files.save(site, self.place.model)
        self.store.remember(updated=now)


def _since(site: SiteModel) -> int:
    """Return from when on jobs can tell a model anything new: from the first on of which it knows no end."""
    open_since = site.history.loc[site.history["end_time"].isna(), "submit_time"].min()
    last = int(site.about["last"])
    return last if pd.isna(open_since) else min(int(open_since), last)


def end_with_parent(parent: int) -> None:
    """End this process soon after its parent has ended, however that was."""

    def watch() -> None:
        while os.getppid() == parent:
            clock.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


LOG = logging.getLogger("procure.serve")
ACCOUNTING_EVERY = 60
"""Seconds between two looks at the accounting."""
DAY = 86_400
FUTURE = 120
"""A time so many seconds ahead of this machine's clock is the fault of a clock."""
LATE, REREAD_EVERY = 2 * DAY, 3600
"""Seconds of accounting that are read again, and how often: slurmdbd may have been away from slurmctld."""
SHORT_GAP = 4
"""Looks that fail before it is a gap."""
LOST_AFTER, KEEP_FORECASTS = 2 * DAY, 5 * 366 * DAY
SURFACED = 5 * DAY
"""A job that was never seen in the queue is forecast afterwards if the accounting tells of it within so many seconds of
its submission."""
TABLE_SPAN = 40 * DAY
"""Seconds of jobs that have ended that a question looks back over, with some to spare."""
MOST_TABLE, LEAST_TABLE = 60_000, 100
"""Jobs that have ended at most, the last ones, and jobs in all at least, however long ago they were; those that wait or
run are all there."""


class Collector:
    """Looks at a Slurm again and again; see `tick`."""

    def __init__(self, place: Place) -> None:
        """Take the folder of a service for itself; a `TableError` says that another has it, or whose it is."""
        self.place, self.service = place, place.service
        self.lock = lock(place)
        self.store = Store(place.database, writer=True)
        of_this(self.store, place)
        self.origin = Slurm(place, self.say)
        self.at = self.origin.now()
        self.trainer = Trainer(place, self.store, self.say)
        self.accounted = int(self.store.fact("accounted", 0))
        self.unkept: str | None = None
        self.closed = Closed.model_validate(self.store.fact("closed", {}))
        self.reread, self.at_once = 0, DAY
        self.asked, self.failed, self.tidied = 0, 0, 0
        self.looked = self.store.fact("looked")
        self.open = job_table([])
        if self.trainer.site is not None and not self.store.rows("select 1 from jobs limit 1"):
            history = self.trainer.site.history
            self.store.put_jobs(history[history["end_time"].notna()])  # a model that came without its database

    def say(self, code: str, text: str | None) -> None:
        """Note a problem for the page, and in the log once as it comes and once as it goes."""
        with suppress(sqlite3.Error):
            if self.store.problem(code, text, getattr(self, "at", int(clock.time()))):
                LOG.warning("%s", text) if text else LOG.info("%s: mended", code)

    def run(self, stop: threading.Event) -> None:
        """Look until told to stop."""
        while not stop.is_set():
            began = clock.monotonic()
            try:
                self.tick()
                if self.store.lost():
                    raise FileNotFoundError
                self._kept(None)
                self.say("look", None)
            except (sqlite3.Error, OSError) as error:
                self._kept(error)
            except TableError as error:
                self.say("look", f"a look at the queue came to nothing: {error}")
            except Exception as error:  # whatever it is, the next look is made
                self.say("look", f"a look at the queue has failed ({type(error).__name__}); the log says where")
                LOG.error("a look at the queue has failed: %s", where(error))
            stop.wait(max(self.service.source.every - (clock.monotonic() - began), 0.0))

    def _kept(self, error: sqlite3.Error | OSError | None) -> None:
        """Say once that nothing can be kept, and once that it can again; the log says it where the database cannot."""
        text = None if error is None else f"what was seen could not be kept: {why(self.place.database, error)}"
        if text != self.unkept:
            LOG.warning("%s", text or "what is seen is kept again")
            self.unkept = text
        with suppress(sqlite3.Error):
            self.store.problem("disk", text, self.at)

    def tick(self) -> None:
        """Look once: at the accounting where it is due, at the queue, then forecast, settle and write."""
        self.at = self.origin.now()
        self._account(self.at)
        queue = self._queue()
        if queue is None:
            return
        now = self.at = queue.now
        self._take(queue)
        table = self.table()
        self._forecast(now, table)  # before the model learns what is known now
        self.store.settle()
        self.trainer.look(now)
        if self.trainer.site is not None and not 0 <= self.store.fact("began", -1) <= now:
            self.store.remember(began=now)  # a job that comes from now on has a forecast
        self.write(table)
        if is_due(self.tidied, DAY, now):
            self.tidied = now
            most = 3 * self.service.model.max_rows
            self.store.tidy(self.open, now - LOST_AFTER, now, most, now - KEEP_FORECASTS)

    def close(self) -> None:
        """Let go of the folder."""
        self.store.close()
        self.lock.close()

    def _queue(self) -> Queue | None:
        try:
            queue = self.origin.queue()
        except TableError as error:
            self.failed += 1
            if self.failed >= SHORT_GAP or self.looked is None:
                self.say("squeue", f"the queue is not seen: {error}")
            return None
        shortest = SHORT_GAP * max(self.service.source.every, LEAST_BETWEEN)
        if self.looked is not None and queue.now - self.looked > shortest:
            self.store.db.execute("insert or replace into gaps values (?, ?, 'queue')", (self.looked, queue.now))
            LOG.warning("the queue was not seen for %d s", queue.now - self.looked)
        self.failed, self.looked = 0, queue.now
        self.say("squeue", None)
        return queue

    def _account(self, now: int) -> None:
        """Read the accounting since the last time, a day at once, and each hour what may have come late."""
        if not is_due(self.asked, ACCOUNTING_EVERY, now):
            return
        self.asked = now
        if self.accounted > now + FUTURE:  # by a clock that was ahead: what was read is not known
            self.accounted = 0
        since = self.accounted or now - self.service.source.history_days * DAY
        again = is_due(self.reread, REREAD_EVERY, now)
        since, n_odd = min(since, now - LATE) if again else since, 0
        while since < now:
            until = min(since + self.at_once, now) if self.place.dumps is None else now  # a file is read whole
            try:
                jobs = self.origin.ended(since, until)
            except TableError as error:
                self.at_once = max(self.at_once // 2, 3600)
                self.say("sacct", f"the accounting cannot be read: {error}")
                return
            if len(jobs):
                jobs, odd = in_order(jobs, now)
                n_odd += odd
                self.store.put_jobs(jobs)  # a job that was read twice is one job
            since, self.accounted = until, max(self.accounted, until)
            self.store.remember(accounted=self.accounted)
        self.reread, self.at_once = now if again else self.reread, min(2 * self.at_once, DAY)
        text = "sacct shows the jobs of one user alone: this account may not read those of others (PrivateData)"
        self.say("private", text if self._is_alone(now) else None)
        if n_odd or again:
            text = (
                f"{counted(n_odd, 'job')} of the accounting started before the submission, ended before the start, or "
                "is submitted in the future: these times are put in order; synchronise the clocks"
            )
            self.say("clocks", text if n_odd else None)
        self.say("sacct", None)

    def _is_alone(self, now: int) -> bool:
        """Tell whether the accounting of two days is one user's while several others wait or run."""
        seen = "select count(*), count(distinct user) from jobs where coalesce(state, '') != 'LOST' and end_time > ?"
        [(n, users)] = self.store.rows(seen, (now - LATE,))
        return n >= 20 and users == 1 and self.open["user"].nunique() > 2

    def _take(self, queue: Queue) -> None:
        """Keep what waits and runs; say which partition is gone."""
        self.open, odd = in_order(queue.jobs, queue.now)
        text = f"{counted(odd, 'job')} of the queue started before the submission, or are submitted in the future"
        self.say("clock", f"{text}: synchronise the clocks" if odd else None)
        self.store.put_jobs(self.open)
        if queue.closed != self.closed:
            self.closed = queue.closed
            self.store.remember(closed=self.closed.model_dump())
        seen = queue.now if self.place.dumps else int(clock.time())
        self.store.remember(looked=queue.now, looked_wall=seen, cpus=queue.cpus)
        site = self.trainer.site
        shown = set(site.about["partitions"]) - {"", "ALL", *self.service.hide} if site and queue.cpus else set()
        gone = sorted(shown - set(queue.cpus))
        text = f"the model knows partitions that are no longer there: {', '.join(gone[:5])}"
        self.say("partition", text if gone else None)

    def table(self) -> pd.DataFrame:
        """Return the job table that features look at: what has ended, and what waits and runs."""
        queue = self.open.reindex(columns=list(JOB_COLUMNS)).astype({"job_id": str})
        known = self.store.jobs("end_time is not null and coalesce(state, '') != 'LOST'", (MOST_TABLE,))
        if known.empty:
            return queue.reset_index(drop=True)
        keys, mine = (pd.MultiIndex.from_frame(one[["job_id", "submit_time"]]) for one in (queue, known))
        both = pd.concat([recent(known[~mine.isin(keys)]), queue], ignore_index=True)
        return both.sort_values(["submit_time", "job_id"], kind="stable", ignore_index=True)  # as the database has them

    def _forecast(self, now: int, table: pd.DataFrame) -> None:
        """Forecast every job that is seen for the first time."""
        site, every = self.trainer.site, self.service.source.every
        if site is None:
            return
        since = min(int(self.store.fact("began", now)), now)
        new = self.store.without_forecast(max(since, now - max(SURFACED, 2 * every)))
        keys = pd.MultiIndex.from_frame(table[["job_id", "submit_time"]])
        asked = table[keys.isin(list(new))] if new else table[:0]
        if asked.empty:
            return
        # After a gap what still waits is as late as what has started: to judge the former alone would be unfair.
        late = asked["start_time"].notna() | (now - asked["submit_time"] > 2 * every + 60)
        self.store.put_forecasts(forecasts(site, table, late.astype(bool), now, self.closed))

    def write(self, table: pd.DataFrame) -> None:
        """Write the table that questions are answered from: what waits or runs, however old, and has ended lately."""
        lately = (table["end_time"] >= self.at - TABLE_SPAN).fillna(False).to_numpy(dtype=bool)
        lately[-LEAST_TABLE:] = True
        kept = table[lately | table["end_time"].isna().to_numpy()]
        with whole_file(self.place.queue, durable=False) as temporary:
            temporary.chmod(0o600)
            kept.to_parquet(temporary, index=False)


def in_order(jobs: pd.DataFrame, now: int) -> tuple[pd.DataFrame, int]:
    """Put the times of jobs in order, where clocks that differ have turned them round; return how many were not.

    Nobody starts before the submission or ends before the start: what comes too early counts as at once. Jobs that are
    submitted more than `FUTURE` s after now are left out until then.
    """
    start = jobs["start_time"].clip(lower=jobs["submit_time"])
    end = jobs["end_time"].clip(lower=start.fillna(jobs["submit_time"]))
    odd = ((start != jobs["start_time"]) | (end != jobs["end_time"])).fillna(False).astype(bool)
    later = jobs["submit_time"] > now + FUTURE
    found = jobs.assign(start_time=start, end_time=end) if odd.any() else jobs
    return found[~later], int((odd | later).sum())


def of_this(store: Store, place: Place) -> None:
    """Refuse a folder whose jobs came from another Slurm: their ids and times would be mixed."""
    cluster = place.service.source.cluster
    mine = f"Slurm, cluster {cluster}" if cluster else "Slurm"
    known = store.fact("source", mine)
    if known != mine:
        text = f"what is kept there is of {known}, and config.toml names {mine}; use another folder, or remove"
        raise TableError(f"{place.folder}: {text} {place.database.name}, {place.model.name} and {place.queue.name}")
    store.remember(source=mine)


def lock(place: Place, patience: float = 3.0) -> IO[bytes]:
    """Take the folder; the lock goes with the process, however it ends.

    One whose service was killed notices within a second, so that a new one waits that long.
    """
    until = clock.monotonic() + patience
    try:
        place.lock.touch(mode=0o600)
        with suppress(FileNotFoundError):
            place.model.chmod(0o600)  # one that was trained elsewhere: it holds users' names
        stream = place.lock.open("ab")
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return stream
            except BlockingIOError:
                if clock.monotonic() > until:
                    stream.close()
                    text = "another collector is at work there; one polls a site"
                    raise TableError(f"{place.folder}: {text}") from None
                clock.sleep(0.1)
    except OSError as error:
        raise TableError(f"{place.lock}: cannot be written: {error.strerror}") from None


def begin_log() -> None:
    """Write what is said in the service's processes to standard error."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")


def main(config: Path) -> int:
    """Collect until told to stop, or until who started this has ended; return the exit code."""
    os.umask(0o077)  # what the service keeps is its own alone
    os.nice(10)  # questions are answered first
    begin_log()
    end_with_parent(os.getppid())
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        place = read_service(config)
        with usable(place.database), closing(Collector(place)) as collector:
            collector.run(stop)
    except TableError as error:
        LOG.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
