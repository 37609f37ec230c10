"""What limits the CPU time of real processes: control groups v2 or v1, or a duty cycle of stop and continue.

A *box* holds one job: all its processes, however they fork. Each kind says whether this machine lets us
use it; `choose_boxes` takes the first that does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psutil

from procure.errors import ArgumentError, TableError

PERIOD_US = 100_000
"""The period over which a control group's quota counts, µs: the kernel's default."""
DUTY_PERIOD = 0.1
"""The same for the duty cycle, s."""
KINDS = ("v2", "v1", "duty")
MARK = "PROCURE_COSCHEDULE"
"""An environment variable by which a box without a control group knows its processes."""
NORMAL_WEIGHT = 100
"""Of a control group among its neighbours, as v2 counts it."""
_KILL_FOR = 30.0


class Box(Protocol):
    """One job's processes and their share of the CPUs."""

    kind: str
    leader: int
    """The process that the job began with, which whoever started it waits for; 0 before."""

    def enter(self) -> None:
        """Put the calling process in; called between fork and exec."""

    def environment(self) -> dict[str, str]:
        """Return what the job's environment needs besides."""

    def limit(self, share: float, n_cpus: int) -> None:
        """Let the job use this share of ``n_cpus`` CPUs from now on; 0 stops it, 1 is no limit below them."""

    def members(self) -> list[psutil.Process]:
        """Return the job's living processes."""

    def cpu_seconds(self) -> float:
        """Return the CPU time that the job has used."""

    def close(self) -> None:
        """End every process of the job and remove what `limit` needs; may be called twice."""


class _Group:
    """What both versions of control groups share: members by the kernel's own list."""

    kind: str
    folder: Path
    leader = 0
    _spent = 0.0

    def enter(self) -> None:
        """Put the calling process in."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def environment(self) -> dict[str, str]:
        """Return nothing: the kernel keeps the list."""
        return {}

    def members(self) -> list[psutil.Process]:
        """Return the job's living processes."""
        return list(_processes(self._pids()))

    def _pids(self) -> list[int]:
        return [int(line) for line in (self.folder / "cgroup.procs").read_text().split()]

    def _kill(self) -> None:
        deadline = time.monotonic() + _KILL_FOR
        while (found := self._pids()) and time.monotonic() < deadline:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


class GroupV2(_Group):
    """A control group of version 2: `cpu.max`, `cgroup.freeze`, `cpu.stat`."""

    kind = "v2"

    def __init__(self, name: str, weight: int, parent: Path | None = None) -> None:
        """Make the group."""
        self.folder = (parent or parent_v2()) / name
        self.folder.mkdir()
        if weight != NORMAL_WEIGHT:
            (self.folder / "cpu.weight").write_text(str(weight))

    def limit(self, share: float, n_cpus: int) -> None:
        """Set the quota; 0 stops the processes."""
        check_share(share)
        quota = int(share * n_cpus * PERIOD_US)
        if quota >= 1000:  # the least that the kernel takes
            (self.folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        (self.folder / "cgroup.freeze").write_text("0" if quota >= 1000 else "1")

    def cpu_seconds(self) -> float:
        """Return the CPU time used, s."""
        if self.folder.exists():
            words = (self.folder / "cpu.stat").read_text().split()
            self._spent = int(words[words.index("usage_usec") + 1]) / 1e6
        return self._spent

    def close(self) -> None:
        """End every process, and remove the group."""
        if not self.folder.exists():
            return
        self.cpu_seconds()
        for name, text in (("cgroup.kill", "1"), ("cgroup.freeze", "0")):  # the first from Linux 5.14 on
            if (self.folder / name).exists():
                (self.folder / name).write_text(text)
        self._kill()
        _remove(self.folder)


class GroupV1(_Group):
    """A control group of version 1: `cpu.cfs_quota_us`; a quota of 0 stops the processes one by one."""

    kind = "v1"

    def __init__(self, name: str, weight: int) -> None:
        """Make the group."""
        self.folder = folder_v1("cpu") / name
        self.folder.mkdir()
        if not (self.folder / "cpu.cfs_quota_us").exists():
            self.folder.rmdir()
            raise TableError(f"{self.folder / 'cpu.cfs_quota_us'} does not exist: the kernel has no CPU quotas")
        self.account: Path | None = None
        try:
            account = folder_v1("cpuacct") / name
            if not account.exists():  # where both controllers are mounted together, it is the same folder
                account.mkdir()
            self.account = account
        except OSError:
            pass
        self._stopped = False
        (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        if weight != NORMAL_WEIGHT:
            (self.folder / "cpu.shares").write_text(str(max(2, weight * 1024 // NORMAL_WEIGHT)))

    def enter(self) -> None:
        """Put the calling process in."""
        super().enter()
        if self.account is not None:
            (self.account / "cgroup.procs").write_text(str(os.getpid()))

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
        if self.folder.exists():
            if self.account is not None:
                self._spent = int((self.account / "cpuacct.usage").read_text()) / 1e9
            else:
                self._spent = max(self._spent, cpu_seconds_of(self.members()))
        return self._spent

    def close(self) -> None:
        """End every process, and remove the group."""
        if not self.folder.exists():
            return
        self.cpu_seconds()
        self._kill()
        for folder in {self.folder, self.account} - {None}:
            _remove(folder)  # type: ignore[arg-type]


class Duty:
    """No control group: all processes of the job are stopped and continued in turn, in a thread of its own.

    They are known by a mark in their environment, as descendants of this process, whose orphans they
    become (`as_subreaper`); or as processes that were seen with it before.
    """

    kind = "duty"
    leader = 0

    def __init__(self, name: str, weight: int) -> None:
        """Be ready; the thread begins with the first limit."""
        self.name = name
        self._known: dict[int, psutil.Process] = {}
        self._share = 1.0
        self._spent: dict[int, float] = {}
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._turn, daemon=True)

    def enter(self) -> None:
        """Do nothing: the environment marks the process."""

    def environment(self) -> dict[str, str]:
        """Return the mark."""
        return {MARK: self.name}

    def members(self) -> list[psutil.Process]:
        """Return the job's living processes."""
        with self._lock:
            for process in psutil.Process().children(recursive=True):
                try:
                    if process.pid not in self._known and process.environ().get(MARK) == self.name:
                        self._known[process.pid] = process
                except psutil.Error:
                    continue
            self._known = {pid: each for pid, each in self._known.items() if _alive(each)}
            return list(self._known.values())

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

    def cpu_seconds(self) -> float:
        """Return the CPU time used, s."""
        for process in self.members():
            self._spent[process.pid] = max(self._spent.get(process.pid, 0.0), cpu_seconds_of([process]))
        return sum(self._spent.values())

    def close(self) -> None:
        """End every process, and the thread."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()
        deadline = time.monotonic() + _KILL_FOR
        while (found := self.members()) and time.monotonic() < deadline:
            signal_all(found, signal.SIGKILL)
            reap(found, self.leader)
            time.sleep(0.01)


def check_share(share: float) -> None:
    """Refuse a quota outside 0 to 1."""
    if not 0.0 <= share <= 1.0:
        raise ArgumentError("share", f"a quota of {share} was given; it is a share, from 0 to 1")


def _processes(pids: list[int]) -> Iterator[psutil.Process]:
    for pid in pids:
        try:
            process = psutil.Process(pid)
        except psutil.Error:
            continue
        if _alive(process):
            yield process


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def reap(processes: list[psutil.Process], leader: int) -> None:
    """Take dead orphans that fell to us from the kernel's list; not a job's first process."""
    for process in processes:
        if process.pid != leader:
            with contextlib.suppress(OSError):
                os.waitpid(process.pid, os.WNOHANG)


def signal_all(processes: list[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to each, unless its number was given to another process meanwhile."""
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue


def cpu_seconds_of(processes: list[psutil.Process]) -> float:
    """Return the CPU time of processes and of their children that ended."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def as_subreaper(on: bool = False) -> None:
    """Become, or stop being, whom orphaned descendants fall to, so that none is lost."""
    ctypes.CDLL(None).prctl(36, int(on), 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def die_with_parent() -> None:
    """Have the kernel end the calling process when its parent is gone, however that happened."""
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + _KILL_FOR
    while True:
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
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

    Raises
    ------
    TableError
        There is none; the message says which file and which delegation is missing.
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
    """Return our own group of version 1 in a controller's hierarchy, if we may make groups in it.

    Raises
    ------
    TableError
        The controller is not mounted, or its folder cannot be written.
    """
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
    """Make the boxes of donor and guest by the best means that this machine has.

    Returns
    -------
    tuple
        Both boxes, and why better means are not used; empty if the best is.

    Raises
    ------
    ArgumentError
        There is no such driver, or what was asked for cannot be used here.
    """
    if driver not in ("auto", *KINDS):
        raise ArgumentError("driver", f"driver {driver!r} is not known; auto, {', '.join(KINDS)} are")
    if not 1 <= weight <= 10_000:
        raise ArgumentError("weight", f"a weight of {weight} was given; 1 to 10000 is allowed, 100 is normal")
    token = f"procure-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    reasons: list[str] = []
    makers = {"v2": GroupV2, "v1": GroupV1, "duty": Duty}
    for kind in KINDS if driver == "auto" else (driver,):
        made: list[Box] = []
        try:
            for name in ("donor", "guest"):
                made.append(makers[kind](f"{token}-{name}", weight))  # type: ignore[operator]
            return made[0], made[1], "; ".join(reasons)
        except (TableError, OSError) as error:
            for box in made:
                box.close()
            text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
            reasons.append(f"{kind}: {text}")
    raise ArgumentError("driver", "; ".join(reasons))
