"""Answer questions about a job that is submitted now, many at a time, and about a user's own, from one look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time.answer import because, forecasts
from procure.queue_time.distribution import Distribution
from procure.queue_time.evaluation import LEVELS
from procure.queue_time.log import read_jobs
from procure.queue_time.predict import Request, check_request, pending_waits
from procure.queue_time.store import SiteModel
from procure.serve.closed import Closed
from procure.serve.ledger import DEADLINES, read_off
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
