"""Two real commands in one allocation: the guest at idle priority, or at a quota by systemd.

The kernel ends all that a command started, in any session, when procure ends, however that happens: each command is
the first process of a PID namespace (`unshare --kill-child`) that is bound to procure's life (`setpriv --pdeathsig`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from procure.errors import ArgumentError, TableError
from procure.workload.slurm import slurm_memory_limit

BOUND = ("setpriv", "--pdeathsig", "KILL")
TREE = ("unshare", "--pid", "--fork", "--kill-child")
OF_USER = ("unshare", "--user", "--map-current-user", "--keep-caps")
NO_RIGHTS = ("setpriv", "--ambient-caps=-all", "--inh-caps=-all")
"""What a user's namespace needs to make one of processes is given up before the command begins."""
SETTLE = 0.5
"""s that a command must last for its CPU share to be told."""
POLL = 0.02


def allocation(n_cpus: int | None) -> list[int]:
    """Return the first CPUs of those that we may use; all without a number."""
    ours = sorted(os.sched_getaffinity(0))
    if n_cpus is not None and n_cpus > len(ours):
        raise ArgumentError("cpus", f"{n_cpus} CPUs were given; the system lets us use {len(ours)}")
    return ours[:n_cpus]


def prefix(cpus: Sequence[int], *, idle: bool, share: float | None = None, memory: str = "") -> list[str]:
    """Return the words before a command that pin it, give it its priority or quota, and bind its processes to ours."""
    words: list[str] = []
    if share is not None or memory:
        if not Path("/run/systemd/system").is_dir() or shutil.which("systemd-run") is None:
            raise ArgumentError(
                "share" if share is not None else "memory",
                "a quota and a limit of memory need systemd, which does not run here; without them the guest has idle "
                "priority, and in a Slurm job `srun --overlap --nice --mem=…` starts it",
            )
        words = ["systemd-run", "--scope", "--quiet", *(["--user"] if os.getuid() else [])]
    if share is not None:
        if not 0.0 < share < 1.0:
            raise ArgumentError("share", f"a quota of {share} was given; it is a share, between 0 and 1")
        words += ["-p", f"CPUQuota={share * len(cpus):.2%}"]
    if memory:
        try:
            words += ["-p", f"MemoryMax={slurm_memory_limit(memory)}M"]
        except ValueError as error:
            raise ArgumentError("memory", str(error)) from None
    words += [*(OF_USER if os.getuid() else ()), *BOUND, *TREE, *(NO_RIGHTS if os.getuid() else ())]
    words += ["taskset", "--cpu-list", ",".join(map(str, cpus)), *(("chrt", "--idle", "0") if idle else ())]
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise TableError(f"nothing can be run bound to procure here: {tried.stderr.strip().splitlines()[-1:]}")
    return words


class Command:
    """One of the two commands, with whatever it starts."""

    def __init__(self, name: str, words: Sequence[str], before: Sequence[str]) -> None:
        """Be ready to start."""
        if shutil.which(words[0]) is None:
            raise ArgumentError("commands", f"{words[0]}: no such command, or it cannot be run")
        self.name, self.words = name, [*before, *words]
        self.began = self.seconds = self.used = 0.0
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it; what it prints goes to standard error, marked by its name."""
        self.process = subprocess.Popen(
            self.words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.began = time.monotonic()
        if self.process.stdout is not None:
            threading.Thread(target=self._mark, args=(self.process.stdout,), daemon=True).start()

    def _mark(self, printed: IO[str]) -> None:
        for line in printed:
            sys.stderr.write(f"{self.name}|{line.rstrip()}\n")

    def runs(self) -> bool:
        """Say whether it runs; note its time and its CPU time so far, s."""
        assert self.process is not None
        with contextlib.suppress(psutil.Error):
            tree = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]
            total = 0.0
            for one in tree:
                with contextlib.suppress(psutil.Error):
                    total += sum(one.cpu_times()[:4])  # and of its children that ended
            self.used = max(self.used, total)
        running = self.process.poll() is None
        if running or not self.seconds:
            self.seconds = time.monotonic() - self.began
        return running

    def end(self) -> None:
        """End it with all that it started, which the kernel does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass(frozen=True)
class Ran:
    """What became of two commands: of each its ``seconds``, ``exit_code`` and ``cpu_share`` of the allocation."""

    donor: dict[str, Any]
    guest: dict[str, Any]
    interrupted: bool

    def to_dict(self) -> dict[str, Any]:
        """Return what scripts read."""
        return {"donor": self.donor, "guest": self.guest, "interrupted": self.interrupted}


def run(
    first: Sequence[str],
    second: Sequence[str],
    *,
    cpus: int | None = None,
    share: float | None = None,
    memory: str = "",
    seconds: float = float("inf"),
) -> Ran:
    """Run a donor and, on the same CPUs, a guest until both have ended, or for so many seconds; Ctrl-C ends both.

    The allocation are the first ``cpus``, None = all that we may use. The guest has idle priority or, by systemd, the
    quota ``share``, between 0 and 1, and so much ``memory``, such as ``4G``, at most.
    """
    ours = allocation(cpus)
    guest_before = prefix(ours, idle=share is None, share=share, memory=memory)
    pair = Command("donor", first, prefix(ours, idle=False)), Command("guest", second, guest_before)
    interrupted, began = False, time.monotonic()
    try:
        for each in pair:
            each.start()
        while sum(each.runs() for each in pair) and time.monotonic() - began < seconds:
            time.sleep(POLL)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        for each in pair:
            each.end()
    told = [
        {
            "seconds": round(each.seconds, 3),
            "exit_code": None if each.process is None else each.process.returncode,
            "cpu_share": each.used / each.seconds / len(ours) if each.seconds >= SETTLE else None,
        }
        for each in pair
    ]
    return Ran(told[0], told[1], interrupted)
