"""A real command in its box: started, watched, and ended whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from procure.coschedule.groups import MARK, Box
from procure.errors import ArgumentError

LONGEST_LINE = 1 << 16
"""Characters after which a line of output is cut."""


class Progress:
    """What a command says of how far it is: the last match of a pattern in its output, or of a file.

    A pattern has one group (a percentage) or two (done and total).
    """

    def __init__(self, pattern: str | None = None, file: Path | None = None) -> None:
        """Refuse a pattern that is no regular expression, or has not one or two groups."""
        try:
            self.pattern = re.compile(pattern or r"([\d.]+)(?:\s*/\s*([\d.]+)|\s*%)")
        except re.error as error:
            raise ArgumentError("progress", f"{pattern!r} is no regular expression: {error}") from None
        if self.pattern.groups not in (1, 2):
            raise ArgumentError("progress", f"{pattern!r} has {self.pattern.groups} groups; one or two are needed")
        self.from_output, self.file, self.last = pattern is not None and file is None, file, 0.0

    def read_line(self, line: str) -> None:
        """Take a line of output, or of the file."""
        for match in self.pattern.finditer(line):
            with contextlib.suppress(ValueError, ZeroDivisionError):
                values = [float(text) for text in match.groups() if text is not None]
                share = values[0] / values[1] if len(values) == 2 else values[0] / 100.0
                self.last = min(1.0, max(0.0, share))

    def now(self) -> float | None:
        """Return the share that is done; None where nothing is told."""
        if self.file is not None:
            with contextlib.suppress(OSError):
                for line in self.file.read_text(errors="replace").splitlines()[-3:]:
                    self.read_line(line)
        return self.last if self.from_output or self.file is not None else None


class Command:
    """One command: at most one process tree at a time, in one box, kept by `procure.coschedule.keeper`."""

    def __init__(
        self,
        words: Sequence[str],
        box: Box,
        cpus: Sequence[int],
        progress: Progress | None = None,
        *,
        name: str = "",
        memory_mb: int = 0,
    ) -> None:
        """Remember what is to be started; ``name`` marks its lines of output, ``memory_mb`` is its limit, 0 = none."""
        self.words, self.box, self.cpus, self.name, self.memory_mb = list(words), box, list(cpus), name, memory_mb
        self.progress = progress or Progress()
        self.began, self.ended = 0.0, 0.0
        self._process: subprocess.Popen | None = None
        self._control = -1
        self._listener: threading.Thread | None = None

    def start(self, quiet: bool = False) -> None:
        """Start it, in its box from the first instruction on; what it prints goes to our standard error, marked.

        There is an `ArgumentError` if there is no such command, or it may not be run.
        """
        self._let_go()
        listens = self.progress.from_output or not quiet
        out = subprocess.PIPE if listens else subprocess.DEVNULL
        folders = list(map(str, self.box.folders))
        settings = {
            "cpus": self.cpus,
            "enter": [f"{folder}/cgroup.procs" for folder in folders],
            "groups": folders,
            "idle": self.box.idle,
            "memory_mb": self.memory_mb,
        }
        control, self._control = os.pipe()
        told, report = os.pipe()
        keeper = [sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py"))]
        self._process = subprocess.Popen(
            [*keeper, str(control), str(report), json.dumps(settings), *self.words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=os.environ | {MARK: self.box.name},
            start_new_session=True,
            pass_fds=(control, report),
        )
        self.box.keep_by(self._process.pid)
        os.close(control)
        os.close(report)
        with os.fdopen(told) as said:
            problem = said.read()
        if problem:
            where = "put into its control group" if problem.startswith("/sys/") else "started"
            raise ArgumentError("commands", f"{self.words[0]}: cannot be {where}: {problem}")
        self.began, self.ended = time.monotonic(), 0.0
        if listens:
            self._listener = threading.Thread(target=self._listen, args=(self._process.stdout, quiet), daemon=True)
            self._listener.start()

    def _listen(self, stream, quiet: bool) -> None:
        mark = f"{self.name}|" if self.name else ""
        with contextlib.suppress(ValueError):  # the stream is closed as the command ends
            while raw := stream.readline(LONGEST_LINE):
                line = raw.decode(errors="replace")
                self.progress.read_line(line)
                if not quiet:
                    sys.stderr.write(f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n")

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs or before it started."""
        if self._process is None:
            return None
        if not self.ended and os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self.ended = time.monotonic()
            self.box.cpu_seconds()  # what the keeper knows goes with it
        return self._process.poll() if self.ended else None

    @property
    def runs(self) -> bool:
        """Whether its first process is alive."""
        return self._process is not None and self.exit_code is None

    @property
    def seconds(self) -> float:
        """How long it has run."""
        if self._process is None:
            return 0.0
        return (self.ended or time.monotonic()) - self.began

    def close(self) -> None:
        """End all its processes and remove its box; may be called twice."""
        self.box.cpu_seconds()
        self._let_go()
        if self._process is not None:
            self._process.wait()
            self.ended = self.ended or time.monotonic()
        if self._listener is not None:
            self._listener.join(1.0)
        self.box.close()

    def _let_go(self) -> None:
        """Tell the keeper to end everything."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1


def allocation(n_cpus: int | None) -> list[int]:
    """Return the CPUs of the donor's allocation: the first ``n_cpus`` that we may use, if there are as many, or all."""
    ours = sorted(os.sched_getaffinity(0))
    if n_cpus is not None and not 1 <= n_cpus <= len(ours):
        raise ArgumentError("cpus", f"{n_cpus} was given; this machine lets us use 1 to {len(ours)}")
    return ours[:n_cpus]


@contextlib.contextmanager
def _handling(handler: Any) -> Iterator[None]:
    """Handle Ctrl-C, a request to terminate and a lost terminal by this, where we may: in the main thread."""
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers} if ours else {}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def interruptible() -> contextlib.AbstractContextManager[None]:
    """Treat a request to terminate, or a lost terminal, as Ctrl-C, so that everything is put away."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    return _handling(stop)


def undisturbed() -> contextlib.AbstractContextManager[None]:
    """Ignore Ctrl-C and its like while everything is put away."""
    return _handling(signal.SIG_IGN)
