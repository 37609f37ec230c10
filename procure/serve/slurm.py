"""Where a service sees the queue, the accounting and what is closed to jobs: what Slurm's commands print."""

from __future__ import annotations

import re
import shlex
import tempfile
import time as clock
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import BaseModel

from procure.errors import TableError
from procure.queue_time.distribution import GRID
from procure.queue_time.predict import Request
from procure.queue_time.state import FIELDS, parse_state
from procure.serve.settings import Place
from procure.site.conf import Record, shown
from procure.site.nodes import closed_as
from procure.site.understand import read_partition, read_reservation
from procure.text import be, counted, roughly
from procure.workload import LogSettings, read_log, slurm
from procure.workload.ledger import Ledger
from procure.workload.read_sacct import FIELDS as ACCOUNTING
from procure.workload.sacct_table import join_het_jobs
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
        most, n_closed, of_all = part.most_time, part.n_closed, counted(part.n_nodes, "node")
        size, limits = counted(request.nodes, "node"), f"takes limits of at most {roughly(most)}"
        rows = (
            (part.state not in ("up", ""), f"Partition {name} starts no job now ({part.state})."),
            (0 < most < asked, f"Partition {name} {limits}: a job of {roughly(asked)} is refused or never starts."),
            (
                part.n_open < request.nodes,
                f"{n_closed:,} of {of_all} of {name} {be(n_closed)} down or drained: a job of {size} starts only once "
                "they are back.",
            ),
        )
        found = [text for holds, text in rows if holds]
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


ENDED = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO"
_SHOW = "scontrol --all --oneliner show"
COMMANDS = {
    "squeue": f'squeue --all --array-unique --format="{FIELDS}"',
    "sinfo": 'sinfo --all --noheader --format="%R|%a|%C"',
    **{what: f"{_SHOW} {what}" for what in ("node", "partition", "reservation")},
    "sacct": f"sacct --allusers --allocations --duplicates --parsable2 --noconvert --state={ENDED} "
    f"--format={ACCOUNTING}",
}
"""What a service asks; of partitions their states and CPUs. The files of ``dumps`` have these names, and ``.txt``."""
OVERLAP = 1800
"""Seconds of accounting that are read again each time: slurmdbd may lag, and clocks may differ."""
MOST_TASKS, MOST_BAD = 2000, 50
"""Waiting tasks of an array that are looked at, and lines of squeue that may be unreadable."""
SELDOM = 300
"""Seconds between two looks at nodes, partitions and reservations."""
run_slurm = partial(slurm.run_slurm, unix_times=True)


def script() -> str:
    """Return a shell's lines that write the files of ``dumps``, each whole or not at all."""
    lines = {name: command for name, command in COMMANDS.items() if name != "squeue"} | {"squeue": COMMANDS["squeue"]}
    lines["sacct"] += " --starttime=now-2days --endtime=now"
    return "\n".join(f"{command} > {name}.new && mv {name}.new {name}.txt" for name, command in lines.items())


@dataclass(frozen=True)
class Queue:
    """What waits and runs at a moment, of `queue_time.state.parse_state`; partitions' CPUs, and what is closed."""

    now: int
    jobs: pd.DataFrame
    cpus: dict[str, int]
    closed: Closed


def is_due(last: float, every: float, now: float) -> bool:
    """Tell whether something is to be done again; a last time in the future is of a clock that was put right since."""
    return not 0 <= now - last < every


class Slurm:
    """Asks squeue, sinfo, scontrol and sacct about one cluster, or reads what they have printed."""

    def __init__(self, place: Place, say: Callable[[str, str | None], None]) -> None:
        """Take the service's settings, and whom to tell of problems by code."""
        self.source, self.hide, self.dumps, self.say = place.service.source, place.service.hide, place.dumps, say
        self.cpus: dict[str, int] = {}
        self.closed = Closed()
        self.counted_at, self.unseen = 0.0, 0
        self.local: str | None = None

    def now(self) -> int:
        """Return this machine's clock, or when the queue was written."""
        if self.dumps is None:
            return int(clock.time())
        try:
            return int((self.dumps / "squeue.txt").stat().st_mtime)
        except OSError:
            return int(clock.time())

    def _printed(self, name: str, *more: str) -> str:
        if self.dumps is None:
            return run_slurm([*shlex.split(COMMANDS[name]), *more])
        path = self.dumps / f"{name}.txt"
        try:
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise TableError(f"{path}: cannot be read: {error.strerror}") from None

    def queue(self) -> Queue:
        """Look at the queue, and every five minutes at partitions, nodes and reservations."""
        elsewhere = self._elsewhere()
        jobs, bad = _jobs(self._printed("squeue", *elsewhere))
        wrong = f"lines of squeue that cannot be read are left out: {len(bad)}, such as {bad[0]}" if bad else None
        self.say("lines", wrong)
        now = self.now()
        if is_due(self.counted_at, SELDOM, now):
            self.counted_at = now
            self._look_at_nodes(elsewhere, int(jobs["start_time"].notna().sum()))
        return Queue(now, jobs, self.cpus, self.closed)

    def _look_at_nodes(self, elsewhere: list[str], n_running: int) -> None:
        """Count partitions' CPUs, and see what is closed; what cannot be read stays as it was."""
        try:
            found = self._printed("sinfo", *elsewhere)
            self.cpus, shut = _partitions(found)
            self.say("sinfo", None)
            self.unseen = self.unseen + 1 if re.search(r"\|[1-9]\d*/", found) and not n_running else 0
            text = "squeue shows no job that runs, though CPUs are allocated: this account may not see others' jobs"
            self.say("unseen", f"{text} (PrivateData)" if self.unseen > 1 else None)
            told = [f"{name} ({state})" for name, state in shut.items() if name not in self.hide]
            self.say("shut", f"partitions that start no job now: {', '.join(told[:5])}" if told else None)
        except TableError as error:
            self.say("sinfo", str(error))
        try:
            shown = (self._printed(what, *elsewhere) for what in ("node", "partition", "reservation"))
            self.closed = read_closed(*shown)
            self.say("scontrol", None)
        except (TableError, ValueError, KeyError) as error:
            self.say("scontrol", f"reservations and nodes that are down are not known: {error}")

    def _elsewhere(self) -> list[str]:
        """Return what names the cluster to squeue and its like, where it is not the one of this machine.

        To name it costs a question to slurmdbd each time, without which the queue could not be seen.
        """
        if self.source.cluster is None or self.dumps is not None:
            return []
        if self.local is None:
            found = re.search(r"(?m)^ClusterName\s*=\s*(\S+)", run_slurm(["scontrol", "show", "config"]))
            self.local = found[1] if found else ""
        return [] if self.source.cluster == self.local else [f"--clusters={self.source.cluster}"]

    def ended(self, since: int, until: int) -> pd.DataFrame:
        """Return the jobs that ended, with `OVERLAP` before ``since``."""
        begin, end = (  # sacct reads local times alone
            clock.strftime("%Y-%m-%dT%H:%M:%S", clock.localtime(at)) for at in (max(since - OVERLAP, 0), until + 1)
        )
        cluster = [f"--clusters={self.source.cluster}"] if self.source.cluster else []
        text = self._printed("sacct", f"--starttime={begin}", f"--endtime={end}", *cluster)
        if text.count("\n") < 2:
            return pd.DataFrame()
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".psv") as file:  # its owner's alone
            file.write(text)
            file.flush()
            try:
                how = LogSettings(format="sacct", skip_bad_rows=True)
                jobs = read_log(Path(file.name), how, keep_unfinished=True, shape="tasks").jobs
            except TableError as error:
                raise TableError(str(error).replace(file.name, "sacct")) from None
        # An earlier run of a requeued job is known by its own submission, whichever rows it is read with.
        return jobs.assign(job_id=jobs["job_id"].astype(str).str.replace(r"~\d+$", "", regex=True))


def _jobs(text: str) -> tuple[pd.DataFrame, list[str]]:
    """Read squeue's lines; say of those that cannot be read, such as a requeued job's without a start, why not."""
    told = (_first_tasks(line) for line in text.splitlines() if not line.startswith("CLUSTER: "))
    bad = list[str]()
    jobs = parse_state("\n".join(told), "squeue", bad=bad)
    if len(bad) > MOST_BAD:
        raise TableError(bad[0])
    return _joined(jobs), bad


def _first_tasks(line: str) -> str:
    """Cut a waiting array down to its first `MOST_TASKS` tasks."""
    job_id, bar, rest = line.partition("|")
    found = re.fullmatch(r"(\s*\d+_\[)([\d,:-]+)(.*)", job_id)
    if found is None:
        return line
    kept, left = [], MOST_TASKS
    for part in found[2].split(","):
        numbers = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?(?::(\d{1,9}))?", part)
        if numbers is None or not left:
            break
        first, last, step = int(numbers[1]), int(numbers[2] or numbers[1]), max(int(numbers[3] or 1), 1)
        n = min((last - first) // step + 1, left)
        kept.append(f"{first}-{first + (n - 1) * step}:{step}")
        left -= n
    return f"{found[1]}{','.join(kept)}{found[3]}{bar}{rest}" if kept else line


def _joined(jobs: pd.DataFrame) -> pd.DataFrame:
    """Join the components of a heterogeneous job, 12+0 and 12+1, as the accounting's reader does."""
    if not jobs["job_id"].astype(str).str.contains("+", regex=False).any():
        return jobs
    ledger = Ledger("squeue", np.arange(len(jobs)), len(jobs))
    start = jobs["start_time"].to_numpy("float64", na_value=np.nan)
    plain = jobs.drop(columns="end_time").assign(start_time=start)
    columns = join_het_jobs({name: plain[name].to_numpy() for name in plain.columns}, ledger)
    found = pd.DataFrame(columns)[ledger.keep].reset_index(drop=True)
    start, none = pd.array(found["start_time"].round(), dtype="Int64"), pd.array([pd.NA] * len(found), dtype="Int64")
    return found.assign(start_time=start, end_time=none, state=np.where(start.isna(), "PENDING", "RUNNING"))


def _partitions(text: str) -> tuple[dict[str, int], dict[str, str]]:
    """Read sinfo's partitions: their CPUs, of allocated/idle/other/total, and the state of those that start no job."""
    cpus: dict[str, int] = {}
    shut: dict[str, str] = {}
    for name, state, total in re.findall(r"(?m)^\s*([^|\n]*)\|([^|\n]*)\|[^/\n]*/[^/\n]*/[^/\n]*/(\d{1,11})\s*$", text):
        cpus[name] = cpus.get(name, 0) + int(total)
        if state in ("down", "drain", "inact"):
            shut[name] = state
    return cpus, shut
