"""What limits the CPU time of real processes: idle priority, control groups v2 or v1, or stop and continue in turn.

A *box* holds one job: all its processes, however they fork. Each kind says whether this machine lets us
use it; `choose_boxes` takes the first that does.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
import uuid
from pathlib import Path

import psutil

from procure.errors import ArgumentError, TableError

PERIOD_US = 100_000
"""The period over which a control group's quota counts, µs: the kernel's default."""
DUTY_PERIOD = 0.1
"""The same for the duty cycle, s."""
QUOTA = ("v2", "v1")
KINDS = ("idle", *QUOTA, "duty")
DRIVERS = ("auto", "idle", "quota", "duty", "v2", "v1")
MARK = "PROCURE_COSCHEDULE"
"""An environment variable that names a job's box, by which `clean` knows what a dead run left."""
NORMAL_WEIGHT = 100
"""Of a control group among its neighbours, as v2 counts it."""
_KILL_FOR = 30.0


class Box:
    """One job's processes and their share of the CPUs; without limits of its own, as under idle priority."""

    kind = "idle"
    leader = 0
    """The process that keeps the job (`procure.coschedule.keeper`); 0 before."""

    def __init__(self, name: str, weight: int = NORMAL_WEIGHT) -> None:
        """Be ready."""
        self.name = name
        self.idle = self.kind == "idle" and name.endswith("guest")
        self._used = self._before = 0.0

    def keep_by(self, leader: int) -> None:
        """Begin with the job, or begin again, under this keeper."""
        self.leader, self._before, self._used = leader, self._before + self._used, 0.0

    @property
    def folders(self) -> list[Path]:
        """The control groups of the job, which go with it."""
        return []

    def limit(self, share: float, n_cpus: int) -> None:
        """Let the job use this share of ``n_cpus`` CPUs from now on; 0 stops it, 1 is no limit below them.

        Of idle priority only 1 means something: as any other process from then on, where we may (root).
        """
        check_share(share)
        for process in self.members() if self.idle and share == 1.0 else []:
            with contextlib.suppress(OSError):
                os.sched_setscheduler(process.pid, os.SCHED_OTHER, os.sched_param(0))
                Path(f"/proc/{process.pid}/autogroup").write_text("0")

    def members(self) -> list[psutil.Process]:
        """Return the job's living processes: whatever descends from its keeper."""
        if not self.leader:
            return []
        try:
            return [each for each in psutil.Process(self.leader).children(recursive=True) if _alive(each)]
        except psutil.Error:
            return []

    def cpu_seconds(self) -> float:
        """Return the CPU time that the job has used, s: of who lives, and of who ended under its keeper."""
        with contextlib.suppress(psutil.Error):
            if self.leader:
                ended = psutil.Process(self.leader).cpu_times()
                now = ended.children_user + ended.children_system
                for process in self.members():
                    with contextlib.suppress(psutil.Error):
                        now += sum(process.cpu_times()[:4])  # and of its children that ended
                self._used = max(self._used, now)
        return self._before + self._used

    def close(self) -> None:
        """Remove what `limit` needs, once nothing of the job is left; may be called twice."""
        for folder in self.folders:
            _remove(folder)


class GroupV2(Box):
    """A control group of version 2: `cpu.max`, `cgroup.freeze`, `cpu.stat`."""

    kind = "v2"

    def __init__(self, name: str, weight: int = NORMAL_WEIGHT, parent: Path | None = None) -> None:
        """Make the group."""
        super().__init__(name)
        self.folder = (parent or parent_v2()) / name
        self.folder.mkdir()
        if weight != NORMAL_WEIGHT:
            (self.folder / "cpu.weight").write_text(str(weight))

    @property
    def folders(self) -> list[Path]:
        """The group."""
        return [self.folder]

    def limit(self, share: float, n_cpus: int) -> None:
        """Set the quota; 0 stops the processes."""
        check_share(share)
        quota = int(share * n_cpus * PERIOD_US)
        if quota >= 1000:  # the least that the kernel takes
            (self.folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        (self.folder / "cgroup.freeze").write_text("0" if quota >= 1000 else "1")

    def cpu_seconds(self) -> float:
        """Return the CPU time used, s."""
        with contextlib.suppress(OSError):
            words = (self.folder / "cpu.stat").read_text().split()
            self._used = int(words[words.index("usage_usec") + 1]) / 1e6
        return self._used


class GroupV1(Box):
    """A control group of version 1: `cpu.cfs_quota_us`; a quota of 0 stops the processes one by one."""

    kind = "v1"

    def __init__(self, name: str, weight: int = NORMAL_WEIGHT) -> None:
        """Make the group."""
        super().__init__(name)
        self.folder = folder_v1("cpu") / name
        self.folder.mkdir()
        if not (self.folder / "cpu.cfs_quota_us").exists():
            self.folder.rmdir()
            raise TableError(f"{self.folder / 'cpu.cfs_quota_us'} does not exist: the kernel has no CPU quotas")
        self.account: Path | None = None
        with contextlib.suppress(OSError, TableError):
            account = folder_v1("cpuacct") / name
            account.mkdir(exist_ok=True)  # where both controllers are mounted together, it is the same folder
            self.account = account
        self._stopped = False
        (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        if weight != NORMAL_WEIGHT:
            (self.folder / "cpu.shares").write_text(str(max(2, weight * 1024 // NORMAL_WEIGHT)))

    @property
    def folders(self) -> list[Path]:
        """Its groups in one or two hierarchies."""
        return [self.folder] + ([] if self.account in (None, self.folder) else [self.account])  # type: ignore[list-item]

    def limit(self, share: float, n_cpus: int) -> None:
        """Set the quota; 0 stops the processes."""
        check_share(share)
        quota = int(share * n_cpus * PERIOD_US)
        if quota >= 1000:
            (self.folder / "cpu.cfs_quota_us").write_text(str(quota))
        if (quota < 1000) != self._stopped:
            self._stopped = quota < 1000
            signal_all(self.members(), signal.SIGSTOP if self._stopped else signal.SIGCONT)
        elif self._stopped:
            signal_all(self.members(), signal.SIGSTOP)  # what was forked while we stopped the others

    def cpu_seconds(self) -> float:
        """Return the CPU time used, s."""
        if self.account is None:
            return super().cpu_seconds()
        with contextlib.suppress(OSError):
            self._used = int((self.account / "cpuacct.usage").read_text()) / 1e9
        return self._used


class Duty(Box):
    """No control group: all processes of the job are stopped and continued in turn, in a thread of its own."""

    kind = "duty"

    def __init__(self, name: str, weight: int = NORMAL_WEIGHT) -> None:
        """Be ready; the thread begins with the first limit."""
        super().__init__(name)
        self._share = 1.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._turn, daemon=True)

    def limit(self, share: float, n_cpus: int) -> None:
        """Set the share of each period in which the processes run."""
        check_share(share)
        self._share = share
        if not self._thread.is_alive() and not self._end.is_set():
            self._thread.start()

    def _turn(self) -> None:
        while not self._end.is_set():
            share = self._share
            if share > 0:
                signal_all(self.members(), signal.SIGCONT)
                self._end.wait(DUTY_PERIOD * share)
            if share < 1 and not self._end.is_set():
                signal_all(self.members(), signal.SIGSTOP)
                self._end.wait(DUTY_PERIOD * (1 - share))

    def close(self) -> None:
        """End the thread."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()


def check_share(share: float) -> None:
    """Refuse a quota outside 0 to 1."""
    if not 0.0 <= share <= 1.0:
        raise ArgumentError("share", f"a quota of {share} was given; it is a share, from 0 to 1")


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def signal_all(processes: list[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to each, unless its number was given to another process meanwhile."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + _KILL_FOR
    while folder.is_dir():
        try:
            folder.rmdir()
        except OSError:  # the last process is not gone yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _mounts() -> list[tuple[str, Path, list[str]]]:
    rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [(row[2], Path(row[1]), row[3].split(",")) for row in rows if row[2].startswith("cgroup")]


def _own(controller: str) -> str:
    """Return the path of our own group in a hierarchy; the empty name is that of version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path.lstrip("/")
    return ""


def parent_v2() -> Path:
    """Return the nearest group of version 2, ours or above, in which we may make groups with a CPU quota.

    The `TableError` where there is none says which file and which delegation is missing.
    """
    root = next((folder for kind, folder, _ in _mounts() if kind == "cgroup2"), None)
    if root is None:
        raise TableError("no file system of type cgroup2 is mounted")
    own = root / _own("")
    reasons = []
    for folder in (own, *own.parents):
        reasons.append(_hindrance(folder))
        if not reasons[-1]:
            return folder
        if folder == root:
            break
    raise TableError(reasons[0])


def _hindrance(folder: Path) -> str:
    """Say why no group with a CPU quota can be made in a folder; empty if one can."""
    controllers, passed_on = folder / "cgroup.controllers", folder / "cgroup.subtree_control"
    if not controllers.exists() or "cpu" not in controllers.read_text().split():
        return f"{controllers} does not name cpu: it is not delegated to us, or version 1 has it"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{folder} is not ours to write in: Delegate=cpu is missing (`systemd-run --user` has it)"
    if "cpu" not in passed_on.read_text().split():
        try:
            passed_on.write_text("+cpu")
        except OSError as error:
            return f"{passed_on}: {error.strerror}; cpu cannot be passed on to groups in it"
    return ""


def folder_v1(controller: str) -> Path:
    """Return our own group of version 1 in a hierarchy; a `TableError` says why we may not make groups in it."""
    for kind, root, options in _mounts():
        if kind == "cgroup" and controller in options:
            folder = root / _own(controller)
            if not folder.exists():  # in a container, our path is that of the machine outside
                folder = root
            if not os.access(folder, os.W_OK | os.X_OK):
                raise TableError(f"{folder} is not ours to write in; an administrator has to give us a group")
            return folder
    raise TableError(f"no control-group hierarchy of version 1 has the controller {controller}")


def choose_boxes(driver: str, weight: int = NORMAL_WEIGHT) -> tuple[Box, Box, str]:
    """Make the boxes of donor and guest by the best means that this machine has, and say why no better ones are used.

    Raises
    ------
    ArgumentError
        There is no such driver, or what was asked for cannot be used here.
    """
    if driver not in (*DRIVERS, "by share"):
        raise ArgumentError("driver", f"driver {driver!r} is not known; {', '.join(DRIVERS)} are")
    if not 1 <= weight <= 10_000:
        raise ArgumentError("weight", f"a weight of {weight} was given; 1 to 10000 is allowed, 100 is normal")
    token = f"procure-{os.getpid()}-{_birth(os.getpid())}-{uuid.uuid4().hex[:8]}"
    reasons: list[str] = []
    makers = {"idle": Box, "v2": GroupV2, "v1": GroupV1, "duty": Duty}
    for kind in {"auto": KINDS, "quota": QUOTA, "by share": (*QUOTA, "duty")}.get(driver, (driver,)):
        made: list[Box] = []
        try:
            for name in ("donor", "guest"):
                made.append(makers[kind](f"{token}-{name}", weight))
            return made[0], made[1], "; ".join(reasons)
        except (TableError, OSError) as error:
            for box in made:
                box.close()
            text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
            reasons.append(f"{kind}: {text}")
    raise ArgumentError("driver", "; ".join(reasons))


def _birth(pid: int) -> str:
    """Return when a process began, by which it is told from a later one of its number; empty = there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


_NAME = re.compile(r"procure-(\d+)-(\d+)-[0-9a-f]{8}-(?:donor|guest)")


def _is_dead(name: str) -> bool:
    """Say whether a name is that of a box of a run that is gone."""
    match = _NAME.fullmatch(name)
    return match is not None and _birth(int(match[1])) != match[2]


def clean() -> list[str]:
    """End and remove what runs left that are gone, keepers included; returns a line for each process and group.

    Processes are known by their group, or by the mark in their environment; others' runs are left alone.
    """
    found: dict[int, str] = {}
    folders = [folder for _, root, _ in _mounts() for folder in root.glob("**/procure-*") if _is_dead(folder.name)]
    for folder in folders:
        with contextlib.suppress(OSError):
            found |= {int(line): folder.name for line in (folder / "cgroup.procs").read_text().split()}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if _is_dead(name := process.environ().get(MARK, "")):
                found[process.pid] = name
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for folder in folders:
        _remove(folder)
    return [f"process {pid} of {name}" for pid, name in sorted(found.items())] + [f"group {each}" for each in folders]
