"""Answer questions about a job that is submitted now: many at a time, from one layout of the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time.distribution import Distribution
from procure.queue_time.events import NEVER
from procure.queue_time.explain import Caution, cautions, doubt_of
from procure.queue_time.features import features_of, picked
from procure.queue_time.log import Log, read_jobs
from procure.queue_time.metrics import LEVELS
from procure.queue_time.predict import (
    Request,
    Situation,
    check_request,
    pending_waits,
    stated,
    usual_partition,
    widened,
)
from procure.queue_time.store import SiteModel
from procure.serve.closed import Closed, held, soonest
from procure.serve.ledger import naive, off
from procure.text import be, counted, nearest, roughly

_SEEN = ["partition_depth", "user_depth", "partition_drain_n_7d"]
FEW = 1000
"""Waits learnt from, below which a model is young."""
MOST_PENDING = 20
"""Jobs of one user that are looked at, those that wait longest."""


@dataclass(frozen=True)
class Answer:
    """What is said of a request, ``row`` by the names of the record; ``error`` alone where the site cannot run it."""

    error: str = ""
    row: dict[str, float] = field(default_factory=dict)
    because: str = ""
    caution: tuple[str, ...] = ()
    partition: str = ""

    @property
    def median(self) -> float:
        """As likely sooner as later, s."""
        return self.row["median"]

    def interval(self, share: int) -> list[float]:
        """Return between which of ``share`` percent start, 50 or 90, s."""
        return [self.row[f"lower_{share}"], self.row[f"upper_{share}"]]


class Snapshot:
    """The queue at a moment and a model, laid out for questions; ``kept`` and ``mine`` are its answers."""

    def __init__(
        self,
        site: SiteModel,
        table: pd.DataFrame,
        now: int,
        hide: Sequence[str] = (),
        closed: Closed | None = None,
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
        self.mine: dict[tuple[str, str | None], Any] = {}
        self.open = self.table[self.table["end_time"].isna()].reset_index(drop=True)
        self.partitions = self.open[["partition"]].drop_duplicates().astype(object)  # of Python's texts: read quickly
        begun = self.table[self.table["start_time"].notna()]
        self.starts_in = {str(name): int(n) for name, n in begun["partition"].value_counts().items()}
        self.jobs_of = {str(name): int(n) for name, n in self.table["user"].value_counts().items()}
        begun_shapes = self.log.shape[self.log.start < NEVER]
        self.starts_like = np.append(np.bincount(begun_shapes, minlength=self.log.n), 0)

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Answer requests as if each were submitted now, alone."""
        refused: dict[int, Answer] = {}
        for place, request in enumerate(requests):
            try:
                self._check(request)
            except TableError as error:
                refused[place] = Answer(error=str(error))
        asked = [request for place, request in enumerate(requests) if place not in refused]
        answered = iter(self._answers(asked))
        return [refused[place] if place in refused else next(answered) for place in range(len(requests))]

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
        if not given:
            return []
        asked = [replace(one, partition=one.partition or usual_partition(self.site)) for one in given]
        ask, features = self._features(asked)
        said = stated(self.site, features)
        if not isinstance(said, Distribution):
            raise TableError("the service needs a model of the method procure")
        here = [
            Situation(one, self.now, self.log, ask.one(place), features.iloc[place : place + 1])
            for place, one in enumerate(asked)
        ]
        careful = [self._cautions(request, own) for request, own in zip(given, here, strict=True)]
        doubts = np.array([doubt_of(one) for one in careful])
        for doubt in np.unique(doubts[doubts > 0]):
            rows = doubts == doubt
            said.curve[rows] = widened(Distribution(said.curve[rows]), doubt).curve
        said.curve[:] = held(said.curve, soonest(self.closed, [(one, self.now) for one in asked]))
        return self._told(here, said, features, careful)

    def _features(self, asked: list[Request]) -> tuple[Log, pd.DataFrame]:
        """Return requests as questions to the log, and their features."""
        ask = self.log.asking(self.now, [one.amounts for one in asked])
        return ask, features_of(self.log, ask, self.site.seen)

    def _told(
        self, here: list[Situation], said: Distribution, features: pd.DataFrame, careful: list[list[Caution]]
    ) -> list[Answer]:
        """Read the answers off the distributions of a batch."""
        rows = pd.DataFrame(off(said) | naive(self.site, features)).to_dict("records")
        seen = pd.DataFrame(picked(features, _SEEN).astype(float), columns=_SEEN).to_dict("records")
        first, found = (self.beginning,) if self.beginning else (), []
        for own, row, known, doubts in zip(here, rows, seen, careful, strict=True):
            shut = self.closed.cautions(own.request, self.now, row["upper_90"])
            why = because(known, row["week_median"], own.request)
            said_of = (*first, *shut, *(one.text for one in doubts))
            found.append(Answer("", row, why, said_of, own.request.partition))
        return found

    def _cautions(self, given: Request, here: Situation) -> list[Caution]:
        """Return what the model does not know of a request; what that does not ask of its neighbours is left out."""
        n_like = int(self.starts_like[here.ask.shape[0]])
        counts = (n_like, self.jobs_of.get(given.user, 0), self.starts_in.get(here.request.partition, 0))
        return cautions(self.site, given, here, counts, self.partitions)

    def pending(self, user: str, job_id: str | None = None) -> tuple[pd.DataFrame, int]:
        """Return when a user's waiting jobs, or one of them, may start, as `procure queue watch` says it.

        Beside it, how many there are; at most `MOST_PENDING` are looked at.
        """
        mine = (self.open["user"] == user) & self.open["start_time"].isna()
        if job_id is not None:
            mine &= self.open["job_id"].astype(str) == job_id
        if not mine.any():
            return pd.DataFrame(), 0
        site = replace(self.site, history=self.table[self.table["end_time"].notna()])
        found = pending_waits(site, self.open, user, self.now, MOST_PENDING, job_id)
        jobs = self.open[mine].assign(job_id=self.open["job_id"].astype(str)).drop_duplicates("job_id", keep="last")
        asked = [Request.of(job) for job in jobs.set_index("job_id").loc[found["job_id"]].itertuples(index=False)]
        first = soonest(self.closed, [(one, self.now) for one in asked])
        if first.any():
            ends = ["lower_90", "lower_50", "median", "upper_50", "upper_90"]
            found[ends] = held(found[ends].to_numpy(dtype=float), first, LEVELS)
        return found, int(mine.sum())

    def totals(self) -> list[dict[str, Any]]:
        """Return what waits and runs in each partition: jobs and CPUs, nobody's name."""
        jobs = self.open.assign(
            cpus=self.open["n_nodes"] * self.open["cpus_per_node"],
            waits=self.open["start_time"].isna(),
            age=self.now - self.open["submit_time"],
        )
        found = []
        shown = jobs[~jobs["partition"].isin(self.hide)]
        there = dict(list(shown.groupby("partition")))
        shut = {name for name, part in self.closed.parts.items() if part.n_closed} - self.hide
        for name in sorted(there.keys() | shut):
            part, about = there.get(name, shown[:0]), self.closed.parts.get(name)
            waiting, running = part[part["waits"]], part[~part["waits"]]
            found.append(
                {
                    "partition": str(name),
                    "waiting": len(waiting),
                    "waiting_cpus": int(waiting["cpus"].sum()),
                    "running": len(running),
                    "running_cpus": int(running["cpus"].sum()),
                    "median_waited_s": None if waiting.empty else int(waiting["age"].median()),
                    "nodes": about.n_nodes if about else None,
                    "nodes_closed": about.n_closed if about else None,
                    "cpus_closed": about.closed_cpus if about else None,
                }
            )
        return found

    def next_hours(self, hours: int = 12) -> list[dict[str, int]]:
        """Return how many CPUs the jobs that run now still hold after each of the next hours, by their limits."""
        running = self.open[self.open["start_time"].notna()]
        cpus = (running["n_nodes"] * running["cpus_per_node"]).to_numpy()
        limit = running["requested_time"].to_numpy()
        until = running["start_time"].to_numpy(dtype=float) + np.where(limit > 0, limit, np.inf)
        return [{"hour": hour, "cpus": int(cpus[until > self.now + 3600 * hour].sum())} for hour in range(hours + 1)]


def because(seen: dict[str, float], week: float, request: Request) -> str:
    """Say in a sentence what stands behind a forecast: who is ahead, and how long jobs have waited there lately."""
    ahead, own = int(seen["partition_depth"]), int(seen["user_depth"])
    where = f"in {request.partition}" if request.partition else "in the queue"
    mine = f", {'all' if own >= ahead else f'{own:,}'} of your own" if request.user and own and ahead else ""
    first = f"{counted(ahead, 'job')} {be(ahead)} ahead {where}{mine}" if ahead else f"Nobody is ahead {where}"
    lately = "mostly started at once" if week < 2.5 else f"waited {roughly(week)} at the median"
    lasts = seen["partition_drain_n_7d"]
    pace = f", which the last week's pace clears within {roughly(lasts)}" if ahead and 60 <= lasts < 7 * 86_400 else ""
    return f"{first}{pace}; this week's jobs there {lately}."
