"""Where a service sees the queue and the accounting: a Slurm, or a log that is played again."""

from __future__ import annotations

import re
import tempfile
import time as clock
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time.log import queue_jobs
from procure.queue_time.state import COMMAND, FIELDS, parse_state
from procure.serve.closed import Closed, read_closed
from procure.serve.settings import Place, Source
from procure.serve.store import JOB_COLUMNS
from procure.text import printable
from procure.workload import LogSettings, read_log, slurm_env
from procure.workload.het_jobs import join_het_jobs
from procure.workload.ledger import Ledger
from procure.workload.read_sacct import FIELDS as ACCOUNTING

PARTITIONS = "%R|%a|%C"
"""What is asked of sinfo: partitions, whether they start jobs, and their CPUs."""
OVERLAP = 1800
"""Seconds of accounting that are read again each time: slurmdbd may lag, and clocks may differ."""
ENDED = "BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO"
FUTURE = 120
"""A time so many seconds ahead of this machine's clock is the fault of a clock."""

MOST_TASKS, MOST_BAD = 2000, 50
"""Waiting tasks of an array that are looked at, and lines of squeue that may be unreadable."""
SELDOM = 300
"""Seconds between two looks at nodes, partitions and reservations."""
SHOWN = ("node", "partition", "reservation")
run_slurm = partial(slurm_env.run_slurm, unix_times=True)


def stamp(seconds: int) -> str:
    """Write a moment as sacct reads it."""
    return clock.strftime("%Y-%m-%dT%H:%M:%S", clock.localtime(seconds))  # sacct reads local times alone


@dataclass(frozen=True)
class Queue:
    """What waits and runs at a moment, as `procure.queue_time.state.read_state` gives it; CPUs, and what is closed."""

    now: int
    jobs: pd.DataFrame
    cpus: dict[str, int]
    closed: Closed = field(default_factory=Closed)


def is_due(last: float, every: float, now: float) -> bool:
    """Tell whether something is to be done again; a last time in the future is of a clock that was put right since."""
    return not 0 <= now - last < every


class Slurm:
    """Asks squeue, sinfo, scontrol and sacct, all of them about one cluster."""

    def __init__(self, source: Source, say: Callable[[str, str | None], None], hide: Collection[str] = ()) -> None:
        """Take the settings, whom to tell of problems by code, and the partitions that nobody is told of."""
        self.source, self.say, self.hide = source, say, hide
        self.cpus: dict[str, int] = {}
        self.closed = Closed()
        self.counted_at, self.unseen = 0.0, 0
        self.local: str | None = None

    def now(self) -> int:
        """Return this machine's clock."""
        return int(clock.time())

    def queue(self) -> Queue:
        """Run squeue, and sinfo and scontrol every five minutes."""
        elsewhere = self._elsewhere()
        text = run_slurm(["squeue", *elsewhere, "--all", "--array-unique", f"--format={FIELDS}"])
        jobs, bad = _jobs(text)
        wrong = f"lines of squeue that cannot be read are left out: {len(bad)}, such as {bad[0]}" if bad else None
        self.say("lines", wrong)
        now = int(clock.time())
        ahead = int(jobs["submit_time"].max()) - now if len(jobs) else 0
        wrong = f"a job's submission lies {ahead:,} s ahead of this machine's clock: synchronise the clocks"
        self.say("clock", wrong if ahead > FUTURE else None)
        if is_due(self.counted_at, SELDOM, now):
            self.counted_at = now
            self._look_at_nodes(elsewhere, int(jobs["start_time"].notna().sum()))
        return Queue(now, jobs, self.cpus, self.closed)

    def _look_at_nodes(self, elsewhere: list[str], n_running: int) -> None:
        """Count partitions' CPUs, and see what is closed; what cannot be read stays as it was."""
        try:
            found = run_slurm(["sinfo", *elsewhere, "--all", "--noheader", f"--format={PARTITIONS}"])
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
            shown = [run_slurm(["scontrol", *elsewhere, "--all", "--oneliner", "show", what]) for what in SHOWN]
            self.closed = read_closed(*shown)
            self.say("scontrol", None)
        except (TableError, ValueError, KeyError) as error:
            self.say("scontrol", f"reservations and nodes that are down are not known: {error}")

    def _elsewhere(self) -> list[str]:
        """Return what names the cluster to squeue and its like, where it is not the one of this machine.

        To name it costs a question to slurmdbd each time, without which the queue could not be seen.
        """
        if self.local is None and self.source.cluster is not None:
            found = re.search(r"(?m)^ClusterName\s*=\s*(\S+)", run_slurm(["scontrol", "show", "config"]))
            self.local = found[1] if found else ""
        return [] if self.source.cluster in (None, self.local) else [f"--clusters={self.source.cluster}"]

    def ended(self, since: int, until: int) -> pd.DataFrame:
        """Run sacct for the jobs that ended, with `OVERLAP` before ``since``."""
        begin = max(since - OVERLAP, 0)
        command = ["sacct", "--allusers", "--allocations", "--duplicates", "--parsable2", "--noconvert"]
        command += [f"--starttime={stamp(begin)}", f"--endtime={stamp(until + 1)}", f"--state={ENDED}"]
        command += [f"--format={ACCOUNTING}"]
        if self.source.cluster:
            command.append(f"--clusters={self.source.cluster}")
        text = _of_cluster(run_slurm(command), self.source.cluster)
        if text.count("\n") < 2:
            return pd.DataFrame()
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".psv") as file:  # its owner's alone
            file.write(text)
            file.flush()
            path = Path(file.name)
            try:
                how = LogSettings(format="sacct", skip_bad_rows=True)
                jobs = read_log(path, how, keep_unfinished=True, shape="tasks").jobs
            except TableError as error:
                raise TableError(str(error).replace(file.name, "sacct")) from None
        # An earlier run of a requeued job is known by its own submission, whichever rows it is read with.
        return jobs.assign(job_id=jobs["job_id"].astype(str).str.replace(r"~\d+$", "", regex=True))

    def pause(self) -> float:
        """Return the seconds between two looks."""
        return self.source.every


def _of_cluster(text: str, cluster: str | None) -> str:
    """Return sacct's lines about one cluster; an equal job id is another job in another one.

    Raises
    ------
    TableError
        There are several, and none is named.
    """
    head, *lines = text.splitlines() or [""]
    names = head.split("|")
    if "Cluster" not in names:
        return text
    place = names.index("Cluster")
    of = [cells[place].strip() if len(cells := line.split("|")) == len(names) else "" for line in lines]
    there = sorted({name for name in of if name})
    if len(there) > 1 and cluster is None:
        raise TableError(
            f"sacct gives the jobs of {len(there)} clusters, {', '.join(map(printable, there[:5]))}, whose job ids are "
            'equal: name one in config.toml, [source], as cluster = "…"; a second one needs a folder of its own'
        )
    kept = [line for line, name in zip(lines, of, strict=True) if cluster is None or name in ("", cluster)]
    return "\n".join([head, *kept, ""])


def _jobs(text: str) -> tuple[pd.DataFrame, list[str]]:
    """Read squeue's lines; say of those that cannot be read, such as a requeued job's without a start, why not."""
    told = (line for line in text.splitlines() if line.strip() and not line.startswith("CLUSTER: "))
    head, *lines = [_first_tasks(line) for line in told] or [""]
    empty, bad = parse_state(head, "squeue"), list[str]()

    def read(some: list[str]) -> list[pd.DataFrame]:
        try:
            return [parse_state("\n".join([head, *some]), "squeue")]
        except TableError as error:
            if len(some) > 1:
                return read(some[: len(some) // 2]) + read(some[len(some) // 2 :])
            bad.append(str(error))
            if len(bad) > MOST_BAD:
                raise
            return []

    found = read(lines) if lines else []
    return _joined(pd.concat(found, ignore_index=True) if found else empty), bad


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
    for line in text.splitlines():
        name, state, counts = [*line.strip().split("|"), "", ""][:3]
        parts = counts.split("/")
        if len(parts) == 4 and parts[3].isdigit() and len(parts[3]) < 12:
            cpus[name] = cpus.get(name, 0) + int(parts[3])
            if state in ("down", "drain", "inact"):
                shut[name] = state
    return cpus, shut


class Replay:
    """Plays a log again, from the end of its first part on, at a speed."""

    def __init__(self, place: Place, began: int | None) -> None:
        """Read the log; ``began`` is where an interrupted replay had come to, Unix seconds of the log."""
        source = place.service.source
        assert source.log is not None
        jobs = queue_jobs(read_log(place.folder / source.log, LogSettings(), keep_unfinished=True).jobs)
        self.jobs, self.source = jobs.reindex(columns=list(JOB_COLUMNS)), source
        self.submit = jobs["submit_time"].to_numpy()
        self.begin = jobs["start_time"].to_numpy("float64", na_value=np.inf)
        self.end = jobs["end_time"].to_numpy("float64", na_value=np.inf)
        first = int(self.submit[int(len(jobs) * source.train_share)])
        self.moment, self.started = first if began is None else began, clock.monotonic()
        self.first = self.moment
        self.by_end = np.argsort(self.end, kind="stable")
        used = jobs["n_nodes"] * jobs["cpus_per_node"]
        self.cpus = {str(name): int(most) for name, most in used.groupby(jobs["partition"]).max().items()}

    def now(self) -> int:
        """Return the moment of the log that has come."""
        return self.moment

    def queue(self) -> Queue:
        """Return what waited and ran; then go on to the next moment."""
        now = self.moment
        upto = int(np.searchsorted(self.submit, now, side="right"))
        here = np.flatnonzero(self.end[:upto] > now)
        waits = self.begin[here] > now
        jobs = self.jobs.iloc[here]
        jobs = jobs.assign(
            state=np.where(waits, "PENDING", "RUNNING"),
            start_time=jobs["start_time"].mask(waits),
            end_time=pd.array([pd.NA] * len(here), dtype="Int64"),
            run_time=0,
        )
        return Queue(now, jobs, self.cpus)

    def ended(self, since: int, until: int) -> pd.DataFrame:
        """Return the jobs that ended after ``since`` and by ``until``."""
        low, high = (int(np.searchsorted(self.end, at, side="right", sorter=self.by_end)) for at in (since, until))
        return self.jobs.iloc[np.sort(self.by_end[low:high])]

    def pause(self) -> float:
        """Go on to the next moment; return how long it takes until then."""
        if self.moment > self.submit[-1] and not np.isfinite(self.end).any():
            return -1.0
        last = max(int(self.submit[-1]), int(self.end[np.isfinite(self.end)].max(initial=0)))
        if self.moment > last:
            return -1.0
        if self.source.speed == 0:
            self.moment += self.source.every
            return 0.0
        passed = (clock.monotonic() - self.started) * self.source.speed
        steps = max(int((self.first + passed - self.moment) // self.source.every), 1)
        self.moment += steps * self.source.every
        return max((self.moment - self.first) / self.source.speed - (clock.monotonic() - self.started), 0.0)


def shell_commands(service_source: Source) -> list[str]:
    """Return the commands of Slurm that a service runs, as lines of a shell."""
    since = "NOW-30MINUTES"
    which = f" --clusters={service_source.cluster}" if service_source.cluster else ""
    return [
        f"SLURM_BITSTR_LEN=0 SLURM_TIME_FORMAT=%s {COMMAND}  # every {service_source.every} s",
        f'sinfo --all --noheader --format="{PARTITIONS}"  # every 5 minutes',
        *(f"SLURM_TIME_FORMAT=%s scontrol --all --oneliner show {what}  # every 5 minutes" for what in SHOWN),
        "SLURM_TIME_FORMAT=%s sacct --allusers --allocations --duplicates --parsable2 --noconvert "
        f"--starttime={since} --endtime=now --state={ENDED}{which} --format={ACCOUNTING}  # every minute",
    ]
