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
from procure.queue_time.store import SiteModel
from procure.queue_time.training import growth, train, update
from procure.serve.settings import Place
from procure.serve.sources import is_due
from procure.serve.store import Store

FEWEST = 100
"""Known starts from which a model can be trained."""
AGAIN = 1800
"""Seconds after a training until the next, however it ended."""


class Keeper:
    """The model of a service; it is trained in a process of its own, so that the queue is looked at meanwhile."""

    def __init__(self, place: Place, store: Store, say: Callable[[str, str | None], None], wait: bool) -> None:
        """Read the model that there is, if any.

        Parameters
        ----------
        place, store
            The service's.
        say
            Told of problems by code.
        wait
            Wait for a training to end, as a replay without a clock does, whose result is then always the same.
        """
        self.place, self.store, self.say, self.how, self.wait = place, store, say, place.service.model, wait
        self.site: SiteModel | None = None
        self.updated, self.tried, self.kept = 0, 0, 0.0
        self.training: Future[SiteModel] | None = None
        if place.model.is_file():
            try:
                self.site = files.load(place.model)
                self.updated = int(store.fact("updated", self.site.about["end"]))
                store.remember(updated=self.updated)
                if store.fact("trained_at") is None:
                    about = self.site.about
                    store.remember(trained_at=int(about["trained_until"]), trained_rows=int(about["trained_rows"]))
            except TableError as error:
                say("model", f"{error}; it is trained again")

    def look(self, now: int) -> bool:
        """Train, continue or replace the model where that is due; return whether it changed."""
        changed = self._arrived(now) if self.training is not None and self.training.done() else False
        if self.site is None:
            return changed or self._first(now)
        if not is_due(self.updated, self.how.update_every, now):
            return changed
        jobs = self.known(self._since(self.site), now)
        try:
            due = 100 * growth(self.site, jobs) >= self.how.retrain_grown
            self.site, _, _ = update(self.site, jobs, now + 1)  # what this second brought is known, too
        except TableError as error:
            self.say("update", f"the model could not be continued: {error}")
            return changed
        self.say("update", None)
        self._keep(now)
        if due and self.training is None and is_due(self.tried, AGAIN, now):
            self._train(now)
        return True

    def known(self, since: int, now: int) -> pd.DataFrame:
        """Return the jobs since a moment that the service knows, those of a queue as they were last seen.

        One that a clock puts into the future is not among them: a model learns from later jobs than those it has seen.
        """
        jobs = self.store.jobs(since, max(files.MOST_HISTORY, 3 * self.how.max_rows))
        return jobs[jobs["submit_time"].between(since, now)].reset_index(drop=True)

    @staticmethod
    def _since(site: SiteModel) -> int:
        """Return from when on jobs can tell a model anything new: from the first on of which it knows no end."""
        open_since = site.history.loc[site.history["end_time"].isna(), "submit_time"].min()
        last = int(site.about["last"])
        return last if pd.isna(open_since) else min(int(open_since), last)

    def _first(self, now: int) -> bool:
        [(n,)] = self.store.rows("select count(*) from jobs where start_time is not null")
        self.store.remember(starts_known=n)
        if n < FEWEST:
            self.say("model", f"the starts of {n:,} jobs are known; the first model needs {FEWEST}")
        elif self.training is None and is_due(self.tried, AGAIN, now):
            self.say("model", f"the first model is being trained on the starts of {n:,} jobs")
            return self._train(now)
        return False

    def _train(self, now: int) -> bool:
        """Begin a training in another process; return whether the model has changed, where that is waited for."""
        jobs = queue_jobs(self.known(0, now)).tail(3 * self.how.max_rows).reset_index(drop=True)
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), end_with_parent, (os.getpid(),))
        self.training = pool.submit(train, jobs, settings=self.how.boosters())
        pool.shutdown(wait=self.wait)
        return self._arrived(now) if self.wait else False

    def _arrived(self, now: int) -> bool:
        """Take what a training has brought; return whether the model changed."""
        assert self.training is not None
        training, self.training = self.training, None
        self.tried = now
        try:
            new = training.result()
        except Exception as error:  # there is nothing to learn, the process ended, or a library has failed in it
            text = str(error) if isinstance(error, TableError) else where(error)
            self.say("model" if self.site is None else "training", f"no model could be trained: {text}")
            return False
        self.say("training", None)
        self.site = new
        with suppress(TableError):  # nothing came meanwhile
            self.site, _, _ = update(new, self.known(self._since(new), now), now + 1)
        self.say("model", None)
        self.store.remember(trained_at=now, trained_rows=int(new.about["trained_rows"]))
        self._keep(now)
        return True

    def _keep(self, now: int) -> None:
        """Write the model; a hurried replay does so every ten seconds."""
        assert self.site is not None
        self.updated = now
        if self.wait and clock.monotonic() - self.kept < 10:
            return
        self.kept = clock.monotonic()
        files.save(self.site, self.place.model)
        self.store.remember(updated=now)


def end_with_parent(parent: int) -> None:
    """End this process soon after its parent has ended, however that was."""

    def watch() -> None:
        while os.getppid() == parent:
            clock.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
