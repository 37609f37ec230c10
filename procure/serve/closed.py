"""What is closed to jobs, now or at a known time: nodes that are down or drained, reservations, partitions' limits."""

from __future__ import annotations

import time as clock
from collections.abc import Collection, Sequence

import numpy as np
from pydantic import BaseModel

from procure.errors import TableError
from procure.queue_time.calibrate import GRID
from procure.queue_time.predict import Request
from procure.site.conf import Record, shown
from procure.site.nodes import closed_as
from procure.site.understand import read_partition, read_reservation
from procure.text import be, counted, roughly
from procure.workload.slurm import expand_nodes

SOON = 60
"""Seconds that a scheduler may take to start what waits as a reservation ends."""
_MOST_SAID, _MOST_STEPS = 2, 50
_AHEAD, _MOST_NOTICES = 7 * 86_400, 10


class Part(BaseModel):
    """A partition: its nodes, those that take no jobs and their CPUs, its longest limit (s, 0 = none) and state."""

    n_nodes: int
    n_closed: int
    closed_cpus: int
    most_time: int
    state: str

    @property
    def n_open(self) -> int:
        """How many nodes take jobs."""
        return self.n_nodes - self.n_closed


class Kept(BaseModel):
    """A reservation: Unix seconds, who may use it, and how many open nodes of each partition it keeps from others."""

    start: int
    end: int
    users: tuple[str, ...]
    nodes: dict[str, int]


class Closed(BaseModel):
    """What `read_closed` has found; nothing is closed where nothing was read."""

    parts: dict[str, Part] = {}
    kept: list[Kept] = []

    def first_start(self, request: Request, now: int) -> int:
        """Return in how many seconds a job could start at the soonest: where a reservation leaves it too few nodes.

        It starts at once, or as a reservation ends, if by its limit it runs into none. A user's own reservations are
        no obstacle to that user.
        """
        part = self.parts.get(request.partition)
        if part is None or part.n_open < request.nodes:
            return 0
        left, at = part.n_open - request.nodes, now
        others = [
            (one.start, one.end, n)
            for one in self.kept
            if (n := one.nodes.get(request.partition, 0)) and not (request.user and request.user in one.users)
        ]
        limit = request.requested_time or part.most_time or np.inf
        for _ in range(_MOST_STEPS):
            # A job keeps its nodes: those that are held at any moment of its run are none of them.
            held = [one for one in others if one[0] < at + limit and one[1] > at]
            if sum(n for _, _, n in held) <= left:
                break
            at = min(end for _, end, _ in held)
        return at - now

    def cautions(self, request: Request, now: int, late: float) -> list[str]:
        """Say what is closed to a job in its partition, if it starts within ``late`` s or at the soonest."""
        name, part, asked = request.partition, self.parts.get(request.partition), request.requested_time
        if part is None:
            return []
        found = []
        if part.state not in ("up", ""):
            found.append(f"Partition {name} starts no job now ({part.state}).")
        if 0 < part.most_time < asked:
            found.append(
                f"Partition {name} takes limits of at most {roughly(part.most_time)}: a job of {roughly(asked)} is "
                "refused or never starts."
            )
        if part.n_open < request.nodes:
            found.append(
                f"{part.n_closed:,} of {counted(part.n_nodes, 'node')} of {name} {be(part.n_closed)} down or drained: "
                f"a job of {counted(request.nodes, 'node')} starts only once they are back."
            )
        until = now + late + (asked or part.most_time or np.inf)
        here = [one for one in self.kept if one.nodes.get(name, 0) and one.end > now and one.start < until]
        here.sort(key=lambda one: (one.start, one.end))
        return found + [self._said(one, name, now) for one in here[:_MOST_SAID]]

    def notices(self, now: int, hide: Collection[str]) -> list[str]:
        """Say in a sentence each what the reservations of the next days keep, in partitions that are not hidden."""
        soon = [one for one in self.kept if one.end > now and one.start < now + _AHEAD]
        rows = [(one.start, one.end, name, one) for one in soon for name in one.nodes if name not in hide]
        rows.sort(key=lambda row: row[:3])
        return [self._said(one, name, now) for *_, name, one in rows[:_MOST_NOTICES]]

    def _said(self, one: Kept, name: str, now: int) -> str:
        n, n_open = one.nodes[name], self.parts[name].n_open
        which = f"all {n:,} open nodes of" if n >= n_open > 1 else f"{n:,} of {counted(n_open, 'open node')} of"
        begins = "is on" if one.start <= now else f"begins in {roughly(one.start - now)}, {_moment(one.start)},"
        return (
            f"A reservation that {begins} and lasts until {_moment(one.end)} keeps {which} {name}: jobs that would run "
            "into it wait there until its end."
        )

    def held(self, curve: np.ndarray, asked: Sequence[tuple[Request, int]], levels: np.ndarray = GRID) -> np.ndarray:
        """Move the quantiles (n, q) of waits at ``levels``, s, of requests at their moments to where they can start.

        Below the median the longer of the two counts, since jobs that fit before a reservation start meanwhile;
        towards the upper end their sum, since none may have, and `SOON`.
        """
        bound = np.array([[self.first_start(*one)] for one in asked], dtype=float).reshape(-1, 1)
        more = np.clip((levels - 0.5) / 0.45, 0.0, 1.0) * (np.minimum(curve, bound) + SOON)
        return np.where(bound > 0, np.maximum(curve, bound) + more, curve)


def _moment(seconds: int) -> str:
    return clock.strftime("%Y-%m-%d %H:%M UTC", clock.gmtime(seconds))


def read_closed(nodes: str, partitions: str, reservations: str) -> Closed:
    """Read what ``scontrol show node``, ``show partition`` and ``show reservation`` print, times as Unix seconds.

    A reservation of a part of its nodes' cores, or one that moves with the time, is left out, and so is one that
    cannot be read.
    """
    records = {record["nodename"]: record for record in shown(nodes, "nodes")}
    taken = {name for name, record in records.items() if closed_as(record) is not None}
    of_part: dict[str, set[str]] = {}
    for name, record in records.items():
        for part in filter(None, record.get("partitions", "").split(",")):
            of_part.setdefault(part, set()).add(name)
    parts = {}
    for about in (read_partition(record, []) for record in shown(partitions, "partitions")):
        mine = of_part.get(about.name, set())
        cpus = sum(_count(records[name], "cputot") for name in mine & taken)
        parts[about.name] = Part(
            n_nodes=len(mine), n_closed=len(mine & taken), closed_cpus=cpus, most_time=about.max_time or 0,
            state=about.state,
        )  # fmt: skip
    open_nodes = {name: of_part[name] - taken for name in parts.keys() & of_part.keys()}
    found = (_kept(record, records, open_nodes) for record in shown(reservations, "reservations"))
    return Closed(parts=parts, kept=[one for one in found if one is not None])


def _kept(record: Record, records: dict[str, Record], open_nodes: dict[str, set[str]]) -> Kept | None:
    try:
        about = read_reservation(record, None)
        names = set(expand_nodes(about.nodes)) if about.nodes else set()
    except (TableError, ValueError, KeyError):
        return None
    nodes = (records[name] for name in names & records.keys())
    cores = sum(_count(node, "corespersocket") * _count(node, "sockets") for node in nodes)
    if not names or "TIME_FLOAT" in about.flags or _count(record, "corecnt") < cores:
        return None
    keeps = {part: n for part, mine in open_nodes.items() if (n := len(mine & names))}
    return Kept(start=about.start, end=about.end, users=about.users, nodes=keeps)


def _count(record: Record, key: str) -> int:
    text = record.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
