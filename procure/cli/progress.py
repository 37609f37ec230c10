"""What is being done and how far it is, on stderr: bars on a terminal, a line for each step elsewhere."""

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
"""Seconds within which nothing is said of a step, for most end by then."""
_LONG = 10.0
_KNOWN_FROM = 10
"""%; from this share of the work on, the time that is left is told."""


@contextmanager
def shown() -> Iterator[None]:
    """Show the steps of whatever runs in here."""
    display = _Display()
    try:
        with watching(display):
            yield
    finally:
        display.ended.set()
        with display.lock:
            display.stop_bars()


class _Display:
    """Looks at the open steps twice a second, in a thread of its own, as long as there are any.

    On a terminal each has rich's bar, gone when all have ended, so that none stands between the lines of an answer.
    Elsewhere each step is told in one line, and when runs that were counted are all done in another.
    """

    def __init__(self) -> None:
        self._open, self._began, self._told = list[Step](), time.monotonic(), set[tuple[str, ...]]()
        self._said: Step | None = None
        self._bars: Any = None
        self._tasks: dict[int, Any] = {}
        self.lock, self.ended = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, one: Step) -> None:
        with self.lock:
            self._open.append(one)
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def end(self, one: Step) -> None:
        with self.lock:
            self._open.remove(one)
            if (task := self._tasks.pop(id(one), None)) is not None:
                self._bars.remove_task(task)
            if not self._open:
                self.stop_bars()
            if one is self._said and one.total and one.done == one.total:
                typer.echo(printable(line(one)), err=True)

    def stop_bars(self) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._bars, self._tasks = None, {}

    def _watch(self) -> None:
        # A closed stderr ends what is shown, not what is done.
        while not self.ended.wait(0.5):
            with self.lock, contextlib.suppress(OSError, ValueError):
                if not self._open or time.monotonic() - self._began < _QUIET or self.ended.is_set():
                    continue
                steps = telling(self._open)
                what = tuple(one.what for one in steps)
                if sys.stderr.isatty():
                    self._draw_bars(steps)
                elif what not in self._told and time.monotonic() - steps[-1].began >= _QUIET:
                    self._told.add(what)
                    self._said = steps[-1]
                    typer.echo(printable(": ".join(map(line, steps))), err=True)

    def _draw_bars(self, steps: Sequence[Step]) -> None:
        from rich import progress as of_rich
        from rich.console import Console
        from rich.markup import escape

        if self._bars is None:
            own = of_rich.Progress.get_default_columns()
            columns = (*own[:2], of_rich.MofNCompleteColumn(), of_rich.TextColumn("{task.fields[rate]}"), own[-1])
            # What is printed on stdout meanwhile must go to stdout.
            self._bars = of_rich.Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
            self._bars.start()
        for one in steps:
            if id(one) not in self._tasks:
                self._tasks[id(one)] = self._bars.add_task(escape(printable(one.what)), total=None, rate="")
            self._bars.update(self._tasks[id(one)], completed=one.done, total=one.total, rate=_rate(one))


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
        return one.what + so_far + (f", for {took:,.0f} s" if took >= _LONG else "")
    how_far = f"{one.done} %" if one.unit == "%" else f"{one.done:,} of {counted(one.total, one.unit)}"
    rate = _rate(one)
    # The parts of a share of work are not alike, and what is loaded first is none of it: early, the pace is not known.
    known = one.done >= (_KNOWN_FROM if one.unit == "%" else 1)
    left = f", {took * (one.total - one.done) / one.done:,.0f} s left" if known else ""
    return f"{one.what}: {how_far}" + (f", {rate}" if rate else "") + left


def _rate(one: Step) -> str:
    """Return runs per second; of other things there are few."""
    took = time.monotonic() - one.began
    return f"{one.done / took:,.0f} runs/s" if one.unit == "run" and one.done and took > 0 else ""
