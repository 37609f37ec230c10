"""Keep the model fresh: train it, learn from outcomes, and train it again."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time as clock
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress

import pandas as pd

from procure.errors import TableError, where
from procure.queue_time import store as files
from procure.queue_time.log import queue_jobs
from procure.queue_time.store import SiteModel, continue_training, train
from procure.serve.settings import Place
from procure.serve.slurm import is_due
from procure.serve.store import Store

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
