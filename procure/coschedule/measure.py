"""What sharing costs two real commands: each alone, then together at each quota, and the model fitted to it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from procure.coschedule.contention import Contention, fit
from procure.coschedule.groups import check_share, choose_boxes
from procure.coschedule.processes import Command, Progress, allocation, interruptible, undisturbed
from procure.coschedule.settings import Measuring
from procure.errors import ArgumentError, TableError
from procure.progress import silent

SETTLE = 0.5
"""s after which counting begins, so that starting a command is not measured."""


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes
    ----------
    table
        A row alone for each command, then one per quota: ``quota`` (the guest's; empty alone), ``seconds``,
        ``a_share b_share`` of the allocation's CPU time, ``a_rate b_rate``, ``a_pace b_pace`` (share of
        the rate alone).
    rate
        What a rate counts: ``progress``, ``runs`` or ``cpu_seconds`` per second.
    contention
        The model fitted to the paces.
    driver, why
        As in `procure.coschedule.drive.Driven`.
    """

    table: pd.DataFrame
    rate: str
    contention: Contention
    driver: str
    why: str

    def record(self) -> dict[str, Any]:
        """Return what scripts read."""
        return {
            "driver": self.driver,
            "rate": self.rate,
            "overhead": self.contention.overhead,
            "severity": self.contention.severity,
            "rows": self.table.to_dict(orient="records"),
        }


def measure(
    first: Sequence[str], second: Sequence[str], settings: Measuring | None = None, tell: Callable[[str], None] = silent
) -> Measured:
    """Measure two commands: the first as donor, the second as guest; each is started again when it ends.

    ``tell`` is called with a line of text after each measurement.

    A command's rate is its progress per second where a pattern tells it; else its runs per second, if
    both ended at least three times while alone; else CPU seconds per second, which hides what memory
    contention costs.

    Raises
    ------
    ArgumentError
        A bad argument, a command that cannot be started, or no right to what ``driver`` asks for.
    """
    settings = settings or Measuring()
    seconds = settings.seconds
    if not seconds >= 1:
        raise ArgumentError("seconds", f"{seconds} s was given; 1 s or more is allowed")
    for each in settings.quotas:
        check_share(each)
        if each in (0.0, 1.0):
            raise ArgumentError("quotas", f"a quota of {each} leaves one command nothing; between 0 and 1 is allowed")
    if settings.driver == "idle":
        raise ArgumentError("driver", "idle priority has no quotas to measure at; quota or duty is needed")
    cpus = allocation(settings.n_cpus)
    plan: list[float | None] = [None, None, *settings.quotas]
    found: list[dict[str, Any]] = []
    kind, why = "", ""
    with interruptible():
        for i, quota in enumerate(plan):
            boxes = choose_boxes("by share" if settings.driver == "auto" else settings.driver, settings.weight)
            kind, why = boxes[0].kind, boxes[2]
            words = [first, second] if quota is not None else [first if i == 0 else second]
            pair = [_Again(line, box, cpus, settings.progress) for line, box in zip(words, boxes[:2], strict=False)]
            shares = [1.0] if quota is None else [1.0 - quota, quota]
            try:
                counted = _count(pair, shares, len(cpus), seconds)
            finally:
                with undisturbed(), contextlib.ExitStack() as last:
                    for action in (boxes[0].close, boxes[1].close, *(each.command.close for each in pair)):
                        last.callback(action)
            side = "ab"[i] if quota is None else "ab"
            row: dict[str, Any] = {"quota": quota, "seconds": counted[0]["seconds"]}
            for name, values in zip(side, counted, strict=True):
                row |= {f"{name}_{key}": value for key, value in values.items() if key != "seconds"}
            found.append(row)
            tell(
                f"{'alone' if quota is None else f'quota {quota:g}'}: "
                + ", ".join(f"{name} {row[f'{name}_share']:.1%} of the CPUs" for name in side)
            )
    return _summarise(pd.DataFrame(found), settings.bandwidth, kind, why)


def _summarise(raw: pd.DataFrame, bandwidth: tuple[float, float] | None, kind: str, why: str) -> Measured:
    raw = raw.reindex(columns=["quota", "seconds", *(f"{n}_{key}" for key in _COUNTED for n in "ab")])
    alone = {"a": raw.iloc[0], "b": raw.iloc[1]}
    rate = "cpu_seconds"
    if all(alone[n][f"{n}_progress"] > 0 for n in "ab"):
        rate = "progress"
    elif all(alone[n][f"{n}_runs"] * alone[n]["seconds"] >= 3 for n in "ab"):
        rate = "runs"
    table = raw[["quota", "seconds", "a_share", "b_share"]].copy()
    for n in "ab":
        column = raw[f"{n}_share"] if rate == "cpu_seconds" else raw[f"{n}_{rate}"]
        table[f"{n}_rate"] = column
        table[f"{n}_pace"] = column / column.iloc["ab".index(n)]
    cpu = [float(alone[n][f"{n}_share"]) for n in "ab"]
    draws = bandwidth or (0.0, 0.0)
    rows = [
        (row["quota"], cpu[0], cpu[1], *draws, row["a_pace"], row["b_pace"])
        for row in table.iloc[2:].to_dict("records")
    ]
    return Measured(table, rate, fit(rows), kind, why)  # type: ignore[arg-type]


_COUNTED = ("share", "progress", "runs")


class _Again:
    """A command that is started again whenever it ends, in one box."""

    def __init__(self, words: Sequence[str], box: Any, cpus: list[int], pattern: str | None) -> None:
        self.command = Command(words, box, cpus, Progress(pattern))
        self.n_ended, self.told, self._last = 0, 0.0, 0.0

    def look(self) -> None:
        """Start the command if it does not run; note its progress, over all its runs."""
        now = self.command.progress.now()
        if now is not None:
            self.told += now - self._last if now >= self._last else now
            self._last = now
        if self.command.runs:
            return
        if self.command.exit_code is not None:
            if self.command.exit_code != 0:
                code = self.command.exit_code
                raise TableError(f"{self.command.words[0]}: ended with exit code {code}; nothing can be measured")
            self.n_ended += 1
        self.command.start(quiet=True)


def _count(pair: list[_Again], shares: list[float], n_cpus: int, seconds: float) -> list[dict[str, float]]:
    for each, share in zip(pair, shares, strict=True):
        each.look()
        each.command.box.limit(share, n_cpus)
    _keep(pair, SETTLE)
    began, before = time.monotonic(), [_state(each) for each in pair]
    _keep(pair, seconds)
    passed = time.monotonic() - began
    found = []
    for each, old in zip(pair, before, strict=True):
        share, progress, runs = (b - a for a, b in zip(old, _state(each), strict=True))
        found.append(
            {"seconds": passed, "share": share / passed / n_cpus, "progress": progress / passed, "runs": runs / passed}
        )
    return found


def _state(each: _Again) -> tuple[float, float, float]:
    return each.command.box.cpu_seconds(), each.told, float(each.n_ended)


def _keep(pair: list[_Again], seconds: float) -> None:
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        for each in pair:
            each.look()
        time.sleep(0.005)
