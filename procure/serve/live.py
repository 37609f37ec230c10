"""What the web side knows: it follows the files that the collector writes, and answers many questions together."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import sqlite3
import time as clock
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from starlette.exceptions import HTTPException

from procure.errors import TableError, where
from procure.queue_time import store as files
from procure.queue_time.answer import because, forecasts
from procure.queue_time.distribution import Distribution
from procure.queue_time.evaluation import LEVELS
from procure.queue_time.log import read_jobs
from procure.queue_time.predict import Request, check_request, pending_waits
from procure.queue_time.store import SiteModel
from procure.serve.settings import Place
from procure.serve.slurm import Closed
from procure.serve.store import DEADLINES, LEAST_FREE, Store, read_off, track_record
from procure.text import counted, nearest, printable, roughly

FEW = 1000
"""Waits learnt from, below which a model is young."""
MOST_PENDING = 20
"""Jobs of one user that are looked at, those that wait longest."""
Answer = dict[str, Any]
"""What is said of a request, as the interface gives it; ``error`` alone where the site cannot run it."""


class Snapshot:
    """The queue at a moment and a model, laid out for questions; ``kept`` and ``mine`` are its answers."""

    def __init__(
        self, site: SiteModel, table: pd.DataFrame, now: int, hide: Sequence[str] = (), closed: Closed | None = None
    ) -> None:
        """Lay out a job table of what has ended lately and of what waits and runs, and what is closed to jobs."""
        self.site, self.now, self.hide, self.closed = site, now, set(hide), closed or Closed()
        n = int(site.about["trained_rows"])
        known = f"The model has learnt from {counted(n, 'job')}: its intervals have not been proven yet."
        self.beginning = known if n < FEW else None
        self.notices = self.closed.notices(now, self.hide)
        self.table = table[table["submit_time"] <= now].reset_index(drop=True)
        self.log = read_jobs(self.table)
        self.kept: dict[Request, Answer] = {}
        self.mine: dict[tuple[str, str | None], tuple[list[Answer], int]] = {}
        self.open = self.table[self.table["end_time"].isna()].reset_index(drop=True)
        self.open["job_id"] = self.open["job_id"].astype(str)
        self.partitions = self.open[["partition"]].drop_duplicates().astype(object)  # of Python's texts: read quickly

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Answer requests as if each were submitted now, alone."""
        found: dict[Request, Answer] = {}
        for request in requests:
            try:
                self._check(request)
            except TableError as error:
                found[request] = {"error": printable(str(error))}
        if asked := [request for request in dict.fromkeys(requests) if request not in found]:
            found |= zip(asked, self._answers(asked), strict=True)
        return [found[request] for request in requests]

    def _check(self, request: Request) -> None:
        """Refuse what this site cannot run, and a hidden partition to who has no job there."""
        if self.hide and request.partition:
            own = set(self.table.loc[self.table["user"] == request.user, "partition"]) if request.user else set()
            known = {*self.site.about["partitions"], *self.partitions["partition"]} - (self.hide - own)
            if request.partition not in known:
                text = f"unknown partition {request.partition!r}; {nearest(request.partition, sorted(known))}"
                raise TableError(text)
        check_request(self.site, request, self.partitions)

    def _answers(self, given: list[Request]) -> list[Answer]:
        here, careful, said = forecasts(self.site, given, self.partitions, self.now, self.log)
        said = Distribution(self.closed.held(said.curve, [(one, self.now) for one in here.requests]))
        rows = pd.DataFrame(read_off(self.site, here.features, said)).to_dict("records")
        found = []
        for request, row, seen, doubts in zip(here.requests, rows, because(self.site, here), careful, strict=True):
            shut = self.closed.cautions(request, self.now, row["upper_90"])
            first = [self.beginning] if self.beginning else []
            found.append(
                {
                    "median_s": row["median"],
                    "interval_s": [row["lower_90"], row["upper_90"]],
                    "interval_50_s": [row["lower_50"], row["upper_50"]],
                    "chance": {name: row[f"chance_{name}"] for name in DEADLINES},
                    "because": " ".join(seen),
                    "caution": [*first, *shut, *(one.text for one in doubts)],
                    "partition": request.partition,
                }
            )
        return found

    def pending(self, user: str, job_id: str | None = None) -> tuple[list[Answer], int]:
        """Return when a user's waiting jobs, or one of them, may start, as `procure queue watch` says it.

        Beside it, how many there are; at most `MOST_PENDING` are looked at.
        """
        mine = self.open[(self.open["user"] == user) & self.open["start_time"].isna()]
        mine = mine if job_id is None else mine[mine["job_id"] == job_id]
        if mine.empty:
            return [], 0
        site = replace(self.site, history=self.table[self.table["end_time"].notna()])
        found = pending_waits(site, self.open, user, self.now, MOST_PENDING, job_id)
        jobs = mine.drop_duplicates("job_id", keep="last").set_index("job_id").loc[found["job_id"]]
        asked = [(Request.of(job), self.now) for job in jobs.itertuples(index=False)]
        ends = ["lower_90", "lower_50", "median", "upper_50", "upper_90"]
        found[ends] = self.closed.held(found[ends].to_numpy(dtype=float), asked, LEVELS)
        rows = [
            {name: row[name] for name in ("job_id", "cpus", "partition")}
            | {"waited_s": row["waited"], "median_s": row["median"], "time_s": row["requested_time"]}
            | {"submit_time": self.now - row["waited"], "interval_s": [row["lower_90"], row["upper_90"]]}
            | {"interval_50_s": [row["lower_50"], row["upper_50"]]}
            for row in found.to_dict("records")
        ]
        return rows, len(mine)

    def job(self, user: str, job_id: str) -> dict[str, Any] | None:
        """Return the state and times of a user's job; None where the user has no such job."""
        mine = self.table[(self.table["user"] == user) & (self.table["job_id"].astype(str) == job_id)]
        if mine.empty:
            return None
        job = mine.iloc[-1]
        start, end = (None if pd.isna(job[name]) else int(job[name]) for name in ("start_time", "end_time"))
        state = "ended" if end is not None else "waits" if start is None else "runs"
        about = {"job_id": job_id, "state": state, "submit_time": int(job["submit_time"])}
        return about | {"start_time": start, "end_time": end}

    def totals(self) -> list[dict[str, Any]]:
        """Return what waits and runs in each partition: jobs and CPUs, nobody's name."""
        jobs = self.open.assign(cpus=self.open["n_nodes"] * self.open["cpus_per_node"])
        jobs = jobs[~jobs["partition"].isin(self.hide)]
        shut = {name for name, part in self.closed.parts.items() if part.n_closed} - self.hide
        found = []
        for name in sorted({*jobs["partition"], *shut}):
            here, about = jobs[jobs["partition"] == name], self.closed.parts.get(name)
            waits = here["start_time"].isna()
            waiting, running, age = here[waits], here[~waits], self.now - here.loc[waits, "submit_time"]
            one = {"partition": str(name), "waiting": len(waiting), "waiting_cpus": int(waiting["cpus"].sum())}
            one |= {"running": len(running), "running_cpus": int(running["cpus"].sum())}
            one |= {"median_waited_s": None if waiting.empty else int(age.median())}
            one |= {"nodes": about.n_nodes if about else None, "nodes_closed": about.n_closed if about else None}
            found.append(one | {"cpus_closed": about.closed_cpus if about else None})
        return found

    def next_hours(self, hours: int = 12) -> list[dict[str, int]]:
        """Return how many CPUs the jobs that run now still hold after each of the next hours, by their limits."""
        running = self.open[self.open["start_time"].notna()]
        cpus = (running["n_nodes"] * running["cpus_per_node"]).to_numpy()
        limit = running["requested_time"].to_numpy()
        until = running["start_time"].to_numpy(dtype=float) + np.where(limit > 0, limit, np.inf)
        return [{"hour": hour, "cpus": int(cpus[until > self.now + 3600 * hour].sum())} for hour in range(hours + 1)]


def lines_of(answer: Answer) -> list[str]:
    """Write an answer for people; the first line is what is said as one submits."""
    low, high = (roughly(one) for one in answer["interval_s"])
    median = answer["median_s"]
    when = "is likely to start at once" if median < 2.5 else f"is expected to start in about {roughly(median)}"
    between = "" if high == "at once" else f" (9 in 10: {'within' if low == 'at once' else f'{low} to'} {high})"
    chance = ", ".join(f"{name[:-1]} h {share:.0%}" for name, share in answer["chance"].items())
    lines = [f"procure: this job {when}{between}. {answer['because']}", f"Chance of a start within {chance}."]
    return [*lines, *(f"Careful: {one}" for one in answer["caution"])]


def lines_of_jobs(said: Answer) -> list[str]:
    """Write what is said of a caller's waiting jobs for people."""
    careful = [f"Careful: {one}" for one in said["caution"]]
    if not said["jobs"]:
        return ["none of your jobs waits", *careful]
    wide = max(16, *(len(printable(str(job["job_id"]))) for job in said["jobs"]))
    lines = [f"{'job':<{wide}} {'CPUs':>6}  {'partition':<12} {'may start in':<14} 9 in 10"]
    for job in said["jobs"]:
        low, high = (roughly(one) for one in job["interval_s"])
        start = roughly(job["median_s"])
        name = printable(str(job["job_id"]))
        lines.append(f"{name:<{wide}} {job['cpus']:>6}  {job['partition']:<12} {start:<14} {low} to {high}")
    if said["n"] > len(said["jobs"]):
        lines.append(f"{len(said['jobs'])} of {said['n']} shown, those that wait longest")
    return lines + careful


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
            return about | track_record(store, now, days, self.hide)


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
