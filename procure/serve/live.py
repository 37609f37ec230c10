"""What the web side knows: it follows the files that the collector writes, and asks many questions together."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import sqlite3
import time as clock
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
from starlette.exceptions import HTTPException

from procure.errors import TableError, where
from procure.queue_time import store as files
from procure.queue_time.predict import Request
from procure.queue_time.store import SiteModel
from procure.serve import ledger
from procure.serve.answers import Answer, Snapshot
from procure.serve.closed import Closed
from procure.serve.settings import Place
from procure.serve.store import LEAST_FREE, Store
from procure.text import roughly

LOG = logging.getLogger("procure.serve")
MOST_WAITING, MOST_EACH = 2000, 400
"""Questions that may wait in all, and of one caller."""
MOST_KEPT = 5000
"""Answers of one look that are kept, of 1.3 kB each, and users whose jobs are."""
FRESH = 30.0
"""Seconds for which the record is not counted again."""
SPANS = (0, 1, 7, 28, 90, 365)
"""Days of the record that may be asked for, 0 = all: each is counted once for all who ask."""


class Live:
    """The queue, the model and the record, as the collector last wrote them."""

    def __init__(self, place: Place) -> None:
        """Take the service's folder."""
        self.place, self.hide = place, place.service.hide
        self.snapshot: Snapshot | None = None
        self.site: SiteModel | None = None
        self.stamps: dict[Path, tuple[int, int]] = {}
        self.store: Store | None = None
        self.facts: dict[str, Any] = {}
        self.totals: list[dict[str, Any]] = []
        self.hours: list[dict[str, int]] = []
        self.waiting: dict[Request, None] = {}
        self.of_caller: Counter[str] = Counter()
        self.turn, self.aside, self.counting = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()
        self.records: dict[int, tuple[float, dict[str, Any]]] = {}
        self.began, self.broken = clock.time(), ""

    async def follow(self) -> None:
        """Look for newer files once a second, for ever."""
        while True:
            try:
                await asyncio.to_thread(self.refresh)
            except (TableError, OSError, ValueError, sqlite3.Error) as error:
                LOG.warning("what the collector wrote cannot be read: %s", error)
            except Exception as error:  # whatever it is, the next look is made
                LOG.error("what the collector wrote could not be taken: %s", where(error))
            await asyncio.sleep(1)

    def refresh(self) -> None:
        """Read what the collector has written since."""
        if self.store is None:
            if not self.place.database.is_file():
                return
            self.store = Store(self.place.database)
        self.facts = {name: json.loads(value) for name, value in self.store.rows("select name, value from facts")}
        self.facts["problems"] = list(self.store.problems().values())
        if (stamp := self._newer(self.place.model)) is not None:
            self.site = files.load(self.place.model)
            self.stamps[self.place.model] = stamp
            self.stamps.pop(self.place.queue, None)
        if self.site is not None and (stamp := self._newer(self.place.queue)) is not None:
            table = pd.read_parquet(self.place.queue)
            if table.empty or "looked" not in self.facts:  # the collector has begun, and seen nothing yet
                return
            closed = Closed.model_validate(self.facts.get("closed", {}))
            snapshot = Snapshot(self.site, table, int(self.facts["looked"]) + 1, self.hide, closed)
            self.totals, self.hours, self.snapshot = snapshot.totals(), snapshot.next_hours(), snapshot
            self.stamps[self.place.queue] = stamp

    def _newer(self, path: Path) -> tuple[int, int] | None:
        """Return what tells a file from the one that was last taken; None where it is that one, or is not there."""
        try:
            about = path.stat()
        except OSError:
            return None
        stamp = (about.st_mtime_ns, about.st_ino)
        return None if self.stamps.get(path) == stamp else stamp

    @property
    def cpus(self) -> dict[str, int]:
        """The CPUs of each partition, where they are known."""
        return {name: n for name, n in self.facts.get("cpus", {}).items() if name not in self.hide}

    def state_age(self) -> int:
        """Return how many seconds ago the queue was seen."""
        return max(int(clock.time() - self.facts.get("looked_wall", self.began)), 0)

    def stale(self) -> list[str]:
        """Say that the queue has not been seen for long, where that is so."""
        age = self.state_age()
        text = f"The queue was last seen {roughly(age)} ago: it may be another by now."
        return [text] if age > self.place.stale_after else []

    def model_facts(self) -> dict[str, Any]:
        """Return when the model was trained, on how many rows, and when it last learnt."""
        names = {"trained_at": "trained_at", "rows": "trained_rows", "updated_at": "updated"}
        return {name: self.facts.get(fact) for name, fact in names.items()}

    def readiness(self) -> dict[str, Any]:
        """Return whether questions can be answered, and what is amiss."""
        problems = [*self.facts.get("problems", [])]
        problems += [text for text in (self.broken, self.store and self.store.lost()) if text]
        if shutil.disk_usage(self.place.folder).free < LEAST_FREE:  # of which the database cannot tell
            problems.append("The disk of the service is full: what happens in the queue cannot be kept.")
        found = {"ready": self.snapshot is not None, "problems": [*problems, *self.stale()]}
        return found | {"state_age_s": self.state_age(), "model": self.model_facts()}

    def known(self) -> Snapshot:
        """Return the queue as it was last seen, or refuse: it has not been."""
        if self.snapshot is None:
            raise HTTPException(503, "; ".join(self.readiness()["problems"]) or "the queue has not been seen yet")
        return self.snapshot

    async def ask(self, requests: list[Request], key: str) -> list[Answer]:
        """Answer questions; those that come while others are answered are laid out together.

        A `starlette.exceptions.HTTPException` of 503 refuses where too many of a caller ``key`` or of all wait.
        """
        self.known()
        if self.of_caller.total() + len(requests) > MOST_WAITING or self.of_caller[key] + len(requests) > MOST_EACH:
            raise HTTPException(503, "too many questions wait; ask again in a moment", {"retry-after": "1"})
        self.of_caller[key] += len(requests)
        self.waiting.update(dict.fromkeys(requests))
        try:
            async with self.turn:
                snapshot = self.known()
                if len(snapshot.kept) > MOST_KEPT:
                    snapshot.kept.clear()
                if not snapshot.kept.keys() >= set(requests):
                    new = [one for one in {**dict.fromkeys(requests), **self.waiting} if one not in snapshot.kept]
                    self.waiting.clear()
                    said = await asyncio.to_thread(snapshot.answer, new)
                    snapshot.kept.update(zip(new, said, strict=True))
                found = [snapshot.kept[one] for one in requests]
        finally:
            for one in requests:  # those that were known wait no more, either
                self.waiting.pop(one, None)
            self.of_caller[key] -= len(requests)
            self.of_caller += Counter()  # forgets who has none
        about = {"model": self.model_facts(), "state_age_s": self.state_age()}
        return [one if "error" in one else one | about | {"caution": [*one["caution"], *self.stale()]} for one in found]

    async def pending(self, user: str, job_id: str | None = None) -> dict[str, Any]:
        """Return a user's waiting jobs, or one, and when each may start; and how many there are."""
        snapshot, key = self.known(), (user, job_id)
        async with self.aside:
            if key not in snapshot.mine:
                if len(snapshot.mine) >= MOST_KEPT:
                    raise HTTPException(503, "too many ask at once; ask again in a moment", {"retry-after": "1"})
                snapshot.mine[key] = await asyncio.to_thread(snapshot.pending, user, job_id)
        jobs, n = snapshot.mine[key]
        return {"user": user, "n": n, "jobs": jobs, "state_age_s": self.state_age(), "caution": self.stale()}

    async def job(self, user: str, job_id: str) -> dict[str, Any] | None:
        """Return what is known of a user's job; None where the user has no such job."""
        found = self.known().job(user, job_id)
        if found is not None and found["state"] == "waits":
            found["forecast"] = next(iter((await self.pending(user, job_id))["jobs"]), None)
        return found and found | {"state_age_s": self.state_age(), "caution": self.stale()}

    async def honesty(self, days: int) -> dict[str, Any]:
        """Return how the forecasts of the last days, one of `SPANS`, have held; 0 = all of them."""
        async with self.counting:
            at, known = self.records.get(days, (-FRESH, {}))
            if clock.monotonic() - at > FRESH:
                known = await asyncio.to_thread(self._count, days)
                self.records[days] = clock.monotonic(), known
        return known

    def _count(self, days: int) -> dict[str, Any]:
        """Count the record, over a connection of its own: what follows the collector does not wait for it."""
        about = {"beginning": self.snapshot.beginning if self.snapshot else None, "days": days}
        if not self.place.database.is_file():
            return about | {"all": None, "by_partition": [], "by_day": [], "counts": {}, "warning": None}
        now = int(self.facts.get("looked", clock.time()))
        with closing(Store(self.place.database)) as store:
            return about | ledger.counted(store, now, days, self.hide)


def look(place: Place) -> list[tuple[str, str, str]]:
    """Return what `procure serve run --check` shows: what was looked at, what was seen, what is amiss with it or ""."""
    live = Live(place)
    live.refresh()
    if live.store is None:
        return [("state", "", "the service has never run here")]
    trained, behind = live.facts.get("trained_rows"), live.facts.get("looked", 0) - live.facts.get("updated", 0)
    found = [("state", f"the queue was seen {roughly(live.state_age())} ago", "".join(live.stale()))]
    slow = trained is None or behind > 3 * place.service.model.update_every
    seen = f"trained on {trained or 0:,} jobs, has learnt {roughly(max(behind, 0))} before the last look"
    found.append(("model", seen, seen * slow))
    month = live._count(28)
    share = f"{month['all']['coverage_90']:.1%} of " if month["all"]["n"] else ""
    held = f"{share}{month['all']['n']:,} jobs of 28 days within the 90 % interval"
    found.append(("intervals", held, month["warning"] or ""))
    return found + [("problem", "", text) for text in live.readiness()["problems"] if text not in live.stale()]
