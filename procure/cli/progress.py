"""What is being done and how far it is, on stderr: bars on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from procure.progress import Step, watching
from procure.text import counted, printable

_QUIET = 3.0
"""Seconds within which nothing is said, for most commands end by then."""
_EVERY = 10.0
_KNOWN_FROM = 10
"""%; from this share of the work on, the time that is left is told."""


@contextmanager
def shown() -> Iterator[None]:
    """Show the steps of whatever runs in here."""
    display = _Bars() if sys.stderr.isatty() else _Lines()
    try:
        with watching(display):
            yield
    finally:
        display.close()


class _Display:
    """Looks at the open steps twice a second, in a thread of its own, as long as there are any."""

    def __init__(self) -> None:
        self._open: list[Step] = []
        self._began = time.monotonic()
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, one: Step) -> None:
        with self._lock:
            self._open.append(one)
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def end(self, one: Step) -> None:
        with self._lock:
            self._open.remove(one)
            self.ended(one)

    def close(self) -> None:
        self._ended.set()
        with self._lock:
            self._open.clear()
            self.draw([])

    def _watch(self) -> None:
        # A closed stderr ends what is shown, not what is done.
        while not self._ended.wait(0.5):
            with self._lock, contextlib.suppress(OSError, ValueError):
                if self._open and time.monotonic() - self._began >= _QUIET:
                    self.draw(self._open)

    def draw(self, steps: Sequence[Step]) -> None:
        """Show these steps, the outermost first; none: leave nothing behind."""
        raise NotImplementedError

    def ended(self, one: Step) -> None:
        """Take a step away that has ended."""
        raise NotImplementedError


class _Lines(_Display):
    """A line every ten seconds, and one when runs that were counted are all done."""

    def __init__(self) -> None:
        super().__init__()
        self._last = -_EVERY
        self._said: Step | None = None

    def draw(self, steps: Sequence[Step]) -> None:
        if steps and time.monotonic() - self._last >= _EVERY:
            told = telling(steps)
            self._last, self._said = time.monotonic(), told[-1]
            _note(": ".join(line(one) for one in told))

    def ended(self, one: Step) -> None:
        if one is self._said and one.total and one.done == one.total:
            _note(line(one))


class _Bars(_Display):
    """A bar for each open step, gone when all have ended, so that none stands between the lines of an answer."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: Any = None  # rich.progress.Progress
        self._tasks: dict[int, Any] = {}

    def draw(self, steps: Sequence[Step]) -> None:
        if not steps:
            self._stop()
            return
        if self._bar is None:
            self._bar = _started_bar()
        for one in telling(steps):
            if id(one) not in self._tasks:
                self._tasks[id(one)] = self._bar.add_task(printable(one.what), total=None, rate="")
            self._bar.update(self._tasks[id(one)], completed=one.done, total=one.total, rate=_rate(one))

    def ended(self, one: Step) -> None:
        task = self._tasks.pop(id(one), None)
        if self._bar is not None and task is not None:
            self._bar.remove_task(task)
        if not self._open:
            self._stop()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._tasks = None, {}


def _started_bar() -> Any:
    from rich import progress as of_rich
    from rich.console import Console

    columns = (
        of_rich.TextColumn("{task.description}", markup=False),
        of_rich.BarColumn(),
        of_rich.MofNCompleteColumn(),
        of_rich.TextColumn("{task.fields[rate]}"),
        of_rich.TimeElapsedColumn(),
        of_rich.TimeRemainingColumn(),
    )
    # What is printed on stdout meanwhile must go to stdout.
    bar = of_rich.Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    bar.start()
    return bar


def _note(text: str) -> None:
    typer.echo(printable(text), err=True)


def telling(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the steps down to the outermost that can say how far it is: the others are parts of that."""
    counting = [i for i, one in enumerate(steps) if one.total and one.total > 1]
    if not counting:
        return steps
    # A share of work does not tell what is being done now: the next step does.
    return steps[: counting[0] + (2 if steps[counting[0]].unit == "%" else 1)]


def line(one: Step) -> str:
    """Say in words how far a step is."""
    took = time.monotonic() - one.began
    if not one.total or one.total == 1:
        so_far = f": {counted(one.done, one.unit)} so far" if one.done and one.unit else ""
        return one.what + so_far + (f", for {took:,.0f} s" if took >= _EVERY else "")
    how_far = f"{one.done} %" if one.unit == "%" else f"{one.done:,} of {counted(one.total, one.unit)}"
    text = f"{one.what}: {how_far}"
    rate = _rate(one)
    # The parts of a share of work are not alike, and what is loaded first is none of it: early, the pace is not known.
    known = one.done >= (_KNOWN_FROM if one.unit == "%" else 1)
    left = f", {took * (one.total - one.done) / one.done:,.0f} s left" if known else ""
    return text + (f", {rate}" if rate else "") + left


def _rate(one: Step) -> str:
    """Return runs per second; of other things there are few."""
    took = time.monotonic() - one.began
    return f"{one.done / took:,.0f} runs/s" if one.unit == "run" and one.done and took > 0 else ""
