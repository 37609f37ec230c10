"""Keeps one command and whatever it starts, and ends all of it; a script of its own, which needs Python alone.

    python -I -S keeper.py CONTROL REPORT SETTINGS COMMAND [ARGUMENT …]

It is the parent of the command, and orphans fall to it, so that nothing that the command starts can leave its tree:
neither a session of its own nor an empty environment helps. It ends all when the command's first process has ended,
when that fills more memory than it may, or when the pipe CONTROL is closed: by procure, or because procure is gone,
however that happened. Then it also removes the control groups. Into REPORT goes why the command cannot be started.
SETTINGS are JSON: ``cpus enter groups idle memory_mb``.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path

POLL = 0.02
"""s between looks at what has ended."""
KILL_FOR = 30.0


def descendants() -> dict[int, int]:
    """Return the resident memory, in pages, of each living process below this one."""
    children: dict[int, list[int]] = {}
    pages = {}
    for folder in Path("/proc").iterdir():
        if (name := folder.name).isdigit():
            try:
                words = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if words[0] != b"Z":
                children.setdefault(int(words[1]), []).append(int(name))
                pages[int(name)] = int(words[21])
    found, waiting = {}, children.get(os.getpid(), [])
    while waiting:
        pid = waiting.pop()
        found[pid] = pages[pid]
        waiting += children.get(pid, [])
    return found


class Keeper:
    """The command's first process, how it ended, and its groups."""

    def __init__(self, leader: int, groups: list[str]) -> None:
        """Keep a process that has begun."""
        self.leader, self.groups, self.status = leader, groups, -1

    def reap(self) -> None:
        """Take the dead from the kernel's list; keep how the first process ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.leader:
                self.status = status

    def end_all(self) -> None:
        """Kill until nothing is left."""
        deadline = time.monotonic() + KILL_FOR
        while time.monotonic() < deadline:
            found = set(descendants())
            for folder in self.groups:
                try:
                    found |= {int(line) for line in Path(folder, "cgroup.procs").read_text().split()}
                except OSError:
                    continue
            if not found:
                break
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.005)
            self.reap()
        self.reap()

    def remove(self) -> None:
        """Remove the groups, which the last process leaves a moment after it is dead."""
        deadline = time.monotonic() + KILL_FOR
        for folder in self.groups:
            while Path(folder).is_dir() and time.monotonic() < deadline:
                try:
                    Path(folder).rmdir()
                except OSError:
                    time.sleep(0.01)

    def watch(self, control: int, memory_mb: int) -> None:
        """Wait until the command ends, or is to be ended."""
        looked = 0.0
        while self.status < 0:
            if select.select([control], [], [], POLL)[0]:
                self.end_all()
                self.remove()
                return
            self.reap()
            if memory_mb and time.monotonic() > looked + 0.1:
                looked = time.monotonic()
                filled = sum(descendants().values()) * resource.getpagesize() // 1_048_576
                if filled > memory_mb:
                    os.write(2, f"procure: fills {filled} MB, its limit is {memory_mb} MB: ended\n".encode())
                    break
        self.end_all()


def put(path: str, text: str) -> None:
    """Write into a file of the kernel."""
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def begin(words: list[str], report: int, settings: dict) -> None:
    """Become the command, at its place and priority; never returns."""
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG: not without its keeper
        os.sched_setaffinity(0, settings["cpus"])
        if settings["idle"]:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            with contextlib.suppress(OSError):  # a session may be a scheduling group, whose weight is what counts
                put("/proc/self/autogroup", "19")
        for path in settings["enter"]:
            put(path, str(os.getpid()))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(words[0], words)
    except OSError as error:
        os.write(report, (f"{error.filename}: " * bool(error.filename) + str(error.strerror)).encode())
    os._exit(127)


def main() -> None:
    """Start the command, keep it, and end as it did."""
    control, report, settings = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    os.set_inheritable(control, False)
    os.set_inheritable(report, False)
    leader = os.fork()
    if leader == 0:
        begin(sys.argv[4:], report, settings)
    os.close(report)
    keeper = Keeper(leader, settings["groups"])
    keeper.watch(control, settings["memory_mb"])
    if os.WIFSIGNALED(keeper.status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(os.WTERMSIG(keeper.status), signal.SIG_DFL) if os.WTERMSIG(keeper.status) != 9 else None
        os.kill(os.getpid(), os.WTERMSIG(keeper.status))
    os._exit(os.WEXITSTATUS(keeper.status))


if __name__ == "__main__":
    main()
