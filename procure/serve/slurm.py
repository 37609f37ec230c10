"""Where a service sees the queue and the accounting: what Slurm's commands print, now or into files."""

from __future__ import annotations

import re
import shlex
import tempfile
import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time.state import FIELDS, parse_state
from procure.serve.closed import Closed, read_closed
from procure.serve.settings import Place
from procure.workload import LogSettings, read_log, slurm
from procure.workload.ledger import Ledger
from procure.workload.read_sacct import FIELDS as ACCOUNTING
from procure.workload.sacct_table import join_het_jobs

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
    told = (line for line in text.splitlines() if line.strip() and not line.startswith("CLUSTER: "))
    head, *lines = [_first_tasks(line) for line in told] or [""]
    bad = list[str]()

    def read(some: list[str]) -> list[pd.DataFrame]:
        try:
            return [parse_state("\n".join([head, *some]), "squeue")]
        except TableError as error:
            if len(some) > 1:
                return read(some[: len(some) // 2]) + read(some[len(some) // 2 :])
            bad.append(str(error))
            if len(bad) > MOST_BAD or not some:
                raise
            return []

    return _joined(pd.concat(read(lines) or read([]), ignore_index=True)), bad


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
