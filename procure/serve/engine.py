"""Answer questions about a job that is submitted now: many at a time, from one layout of the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time import cautions
from procure.queue_time.distribution import Distribution
from procure.queue_time.events import NEVER
from procure.queue_time.features import features_of
from procure.queue_time.log import Log, read_jobs
from procure.queue_time.model import QueueTimeModel
from procure.queue_time.predict import (
    Request,
    Situation,
    check_request,
    pending_waits,
    usual_partition,
    widened,
)
from procure.queue_time.store import SiteModel
from procure.queue_time.why import Neighbours, asked_for
from procure.serve.ledger import DEADLINES, naive
from procure.text import be, counted, roughly

MOST_PENDING = 20
"""Jobs of one user that are looked at, those that wait longest."""


@dataclass(frozen=True)
class Answer:
    """What is said of a request: see `Snapshot.answer`; ``error`` alone is set where the site cannot run it."""

    error: str = ""
    median: float = 0.0
    interval_50: tuple[float, float] = (0.0, 0.0)
    interval_90: tuple[float, float] = (0.0, 0.0)
    chance: dict[str, float] | None = None
    because: str = ""
    caution: tuple[str, ...] = ()
    week_median: float = 0.0
    last_five: float = 0.0
    partition: str = ""


class Snapshot:
    """The queue at a moment and a model, laid out for questions."""

    def __init__(self, site: SiteModel, table: pd.DataFrame, now: int) -> None:
        """Lay out a job table of what has ended lately and of what waits and runs."""
        self.site, self.now = site, now
        self.table = table[table["submit_time"] <= now].reset_index(drop=True)
        self.log = read_jobs(self.table) if len(self.table) else None
        self.open = self.table[self.table["end_time"].isna()].reset_index(drop=True)
        self.usual = usual_partition(site)
        self.codes: dict[str, dict[str, int]] = {}
        if self.log is not None:
            for name in ("user", "partition"):
                texts = self.table[name].astype(str).to_numpy()[self.log.order]
                self.codes[name] = dict(zip(texts, getattr(self.log, name).tolist(), strict=True))
        begun = self.table[self.table["start_time"].notna()]
        self.starts_in = {str(name): int(n) for name, n in begun["partition"].value_counts().items()}
        self.jobs_of = {str(name): int(n) for name, n in self.table["user"].value_counts().items()}
        self.partitions = pd.concat([self.open, pd.DataFrame([_row(Request(1, 0), now)])], ignore_index=True)
        self.partitions = self.partitions[["partition", "end_time"]]

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Answer requests as if each were submitted now, alone."""
        found: list[Answer | None] = [None] * len(requests)
        asked: list[Request] = []
        places: list[int] = []
        for place, request in enumerate(requests):
            try:
                check_request(self.site, request, self.open)
            except TableError as error:
                found[place] = Answer(error=str(error))
            else:
                asked.append(replace(request, partition=request.partition or self.usual))
                places.append(place)
        for place, one in zip(places, self._answers(asked, [requests[p] for p in places]), strict=True):
            found[place] = one
        return [one for one in found if one is not None]

    def _answers(self, asked: list[Request], given: list[Request]) -> list[Answer]:
        if not asked:
            return []
        log, first = self._with(asked)
        places = first + np.arange(len(asked))
        features = features_of(log, places, self.site.about["most"], self.site.about.get("replay", False), aside=True)
        model = self.site.model
        if not isinstance(model, QueueTimeModel):
            raise TableError("the service needs a model of the method procure")
        said = model.distribution(features)
        guesses = naive(self.site, features)
        rows = np.argsort(log.order)[places]
        columns = features.columns
        found = []
        for place, (request, original) in enumerate(zip(asked, given, strict=True)):
            own = features.iloc[[place]]
            careful = self._cautions(original, own, log, int(rows[place]))
            one = Distribution(said.curve[[place]])
            if doubt := cautions.doubt_of(careful):
                one = widened(one, doubt)
            seen = dict(zip(columns, own.iloc[0].to_numpy(dtype=float).tolist(), strict=True))
            inner, outer = (one.interval(share)[0].tolist() for share in (0.5, 0.9))
            found.append(
                Answer(
                    "",
                    float(one.quantile(0.5)[0]),
                    (inner[0], inner[1]),
                    (outer[0], outer[1]),
                    {name: float(one.chance(seconds)[0]) for name, seconds in DEADLINES.items()},
                    because(seen, float(guesses["week_median"][place]), request),
                    tuple(caution.text for caution in careful),
                    float(guesses["week_median"][place]),
                    float(guesses["last_five"][place]),
                    request.partition,
                )
            )
        return found

    def _with(self, asked: list[Request]) -> tuple[Log, int]:
        """Return the log with a row for each request, submitted now, and how many rows there were before."""
        if self.log is None:
            table = pd.DataFrame([_row(one, self.now) for one in asked])
            none = pd.array([pd.NA] * len(asked), dtype="Int64")
            return read_jobs(table.assign(start_time=none, end_time=none)), 0
        log, m = self.log, len(asked)
        nodes = np.array([one.nodes for one in asked])
        each = np.array([-(-one.cpus // one.nodes) for one in asked])
        gpus = np.array([-(-one.gpus // one.nodes) for one in asked])
        never, zero = np.full(m, NEVER), np.zeros(m, np.int64)
        new: dict[str, np.ndarray] = dict.fromkeys(("start", "end", "left", "due"), never)
        new |= {"row": log.n + np.arange(m), "order": log.n + np.arange(m), "shape": zero, "like": zero}
        new |= {"submit": np.full(m, self.now - log.origin), "limit": np.array([one.requested_time for one in asked])}
        new |= {"cpus": nodes * each, "mem": nodes * np.array([one.mem_mb for one in asked])}
        new |= {"gpus": nodes * gpus, "nodes": nodes, "user": self._coded("user", [one.user for one in asked])}
        new["partition"] = self._coded("partition", [one.partition for one in asked])
        longer: dict[str, Any] = {
            name: np.concatenate([getattr(log, name), values.astype(getattr(log, name).dtype)])
            for name, values in new.items()
        }
        longer["optional"] = {name: np.concatenate([v, np.full(m, np.nan)]) for name, v in log.optional.items()}
        # `asking` numbers the groups of like jobs again.
        return replace(log, **longer).asking(log.n, cpus=longer["cpus"][log.n]), log.n

    def _coded(self, name: str, texts: list[str]) -> np.ndarray:
        known = dict(self.codes[name])
        return np.array([known.setdefault(text, len(known)) for text in texts])

    def _cautions(self, given: Request, features: pd.DataFrame, log: Log, row: int) -> list[cautions.Caution]:
        """Return what the model does not know of a request."""
        n_like = int(((log.shape == log.shape[row]) & (log.start < NEVER)).sum())
        partition, none = given.partition or self.usual, np.zeros(0)
        counts = (n_like, self.jobs_of.get(given.user, 0), self.starts_in.get(partition, 0))
        near = Neighbours(asked_for(given), *counts, none, none, none, none, 0, 0, 0, len(self.starts_in), {})
        here = Situation(replace(given, partition=partition), self.now, self.partitions, len(self.open), log, features)
        return cautions.cautions(self.site, given, here, near, True)

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
        return pending_waits(site, self.open, user, self.now, MOST_PENDING, job_id), int(mine.sum())

    def totals(self) -> list[dict[str, Any]]:
        """Return what waits and runs in each partition: jobs and CPUs, nobody's name."""
        jobs = self.open.assign(
            cpus=self.open["n_nodes"] * self.open["cpus_per_node"],
            waits=self.open["start_time"].isna(),
            age=self.now - self.open["submit_time"],
        )
        found = []
        for name, part in jobs.groupby("partition"):
            waiting, running = part[part["waits"]], part[~part["waits"]]
            found.append(
                {
                    "partition": str(name),
                    "waiting": len(waiting),
                    "waiting_cpus": int(waiting["cpus"].sum()),
                    "running": len(running),
                    "running_cpus": int(running["cpus"].sum()),
                    "median_waited_s": None if waiting.empty else int(waiting["age"].median()),
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


def _row(one: Request, now: int) -> dict[str, Any]:
    """Return a request as a row of a job table."""
    return {
        "job_id": "?",
        "user": one.user,
        "partition": one.partition,
        "submit_time": now,
        "requested_time": one.requested_time,
        "run_time": 0,
        "n_nodes": one.nodes,
        "cpus_per_node": -(-one.cpus // one.nodes),
        "mem_mb_per_node": one.mem_mb,
        "gpus_per_node": -(-one.gpus // one.nodes),
    }


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
