"""What is being done, and how far is it? Whoever takes long says so; whoever runs it decides whether to show it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

Item = TypeVar("Item")


@dataclass
class Step:
    """Something that takes a while: ``what`` is being done, and how many of ``total`` things, None = unknown, are done.

    ``unit`` is what one of these is called; it ``began``, s, by `time.monotonic`.
    """

    what: str
    total: int | None = None
    unit: str = ""
    done: int = 0
    began: float = field(default_factory=time.monotonic)


_WATCHER: ContextVar[Any] = ContextVar("procure_watcher", default=None)


@contextmanager
def watching(watcher: Any) -> Iterator[None]:
    """Tell a watcher of the steps in here, in this thread, by its ``begin`` and ``end``; without one they cost nothing.

    It reads how far they are whenever it likes.
    """
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@contextmanager
def step(what: str, total: int | None = None, unit: str = "") -> Iterator[Step]:
    """Name what is done in here; add to ``done`` of what is given as it proceeds."""
    one, watcher = Step(what, total, unit), _WATCHER.get()
    if watcher is None:
        yield one
        return
    watcher.begin(one)
    try:
        yield one
    finally:
        watcher.end(one)


def track(items: Collection[Item], what: str, unit: str) -> Iterator[Item]:
    """Yield items, and count those that are done."""
    with step(what, len(items), unit) as one:
        for item in items:
            yield item
            one.done += 1


class _Silent:
    def __call__(self, *said: object) -> None:
        """Do nothing."""

    def __repr__(self) -> str:
        return "silent"


silent = _Silent()
"""What a function is told to call with its notes where nobody listens."""
