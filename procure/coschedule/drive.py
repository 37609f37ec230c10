"""Co-scheduling of two real commands: a donor, a guest in its CPUs, a quota that is set anew every interval."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import psutil

from procure.coschedule.contention import Contention, paces_of
from procure.coschedule.groups import check_share, choose_boxes
from procure.coschedule.learner import (
    EDGES,
    IN_DANGER,
    N_METRICS,
    TRUST,
    Learner,
    bin_of,
    choose,
    happiness,
    learn,
    make_learner,
    mood_of,
    pair_loss,
    projected_loss,
)
from procure.coschedule.processes import Command, Progress, allocation, interruptible, undisturbed
from procure.coschedule.settings import Driving
from procure.errors import ArgumentError
from procure.page.svg import BLUE, GREY, ORANGE, figure
from procure.progress import silent

BELIEVED = Contention(0, 0.02, 0.0)
"""What the learner expects before it has seen anything."""
NOISE = 0.05
"""A donor whose measured pace is within this of its pace alone is taken to be undisturbed."""
POLL = 0.02
"""s between looks at whether a command has ended."""
MEASURABLE = 0.5
"""s that a command must run for its CPU share to be told: starting and ending it take some time, too."""
LOGGED = ["seconds", "quota", "donor_share", "guest_share", "progress", "happiness", "loss"]
"""What is kept of each interval."""


@dataclass
class Driven:
    """What a run of two commands gave.

    Attributes
    ----------
    donor, guest
        ``seconds``, ``exit_code`` (negative: ended by that signal; None: it was not started),
        ``cpu_share`` of the allocation while it ran (None: for less than `MEASURABLE`).
    driver
        ``idle``, ``v2``, ``v1`` or ``duty``; ``why`` says why nothing better is used.
    log
        A row per interval, as `LOGGED`.
    interrupted
        Whether Ctrl-C or the like ended it.
    """

    donor: dict[str, Any]
    guest: dict[str, Any]
    driver: str
    why: str
    log: pd.DataFrame
    interrupted: bool = False
    n_quota_changes: int = 0
    quotas: list[float] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """Return what scripts read."""
        names = ("donor", "guest", "driver", "n_quota_changes", "quotas", "interrupted")
        return {name: getattr(self, name) for name in names}


def run(donor: Sequence[str], guest: Sequence[str], settings: Driving, tell: Callable[[str], None] = silent) -> Driven:
    """Run a donor and, inside its CPUs, a guest; returns when both have ended.

    The donor runs alone for one interval, by which its profile is taken. When it ends, the guest has all
    of the CPUs. What either leaves running when its first process ends is ended with it. Under idle priority the
    guest runs whenever the donor leaves a CPU over, and no quota is chosen. ``tell`` is called with a line of text at
    every choice.

    Raises
    ------
    ArgumentError
        A bad argument, a command that cannot be started, or no right to what ``driver`` asks for; then
        nothing is left running.
    """
    if not settings.limit > 0:
        raise ArgumentError("limit_a", f"a limit of {settings.limit} s was given; it is passed already")
    if not settings.interval >= 0.1:
        raise ArgumentError("interval", f"{settings.interval} s was given; 0.1 s or more is allowed")
    if settings.learner == "full":
        raise ArgumentError("learner", "full needs the loss of every quota, which only a simulation knows")
    if settings.share is not None:
        check_share(settings.share)
        if settings.driver == "idle":
            raise ArgumentError("share", "idle priority has no quota; --driver quota or duty is needed")
    says, cpus = Progress(settings.progress, settings.progress_file), allocation(settings.n_cpus)
    mind = make_learner(settings.learner, settings.seed, step=settings.step, trust=TRUST)
    driver = "by share" if settings.driver == "auto" and settings.wants_quota else settings.driver
    boxes = choose_boxes(driver, settings.weight)
    first = Command(donor, boxes[0], cpus, says, name="donor")
    second = Command(guest, boxes[1], cpus, name="guest", memory_mb=settings.memory_mb)
    pair = _Pair(first, second, settings, len(cpus), mind, tell)
    interrupted = False
    try:
        with interruptible():
            pair.go()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        with undisturbed(), contextlib.ExitStack() as last:
            for action in (second.close, first.close, pair.count):
                last.callback(action)  # each is called, whatever becomes of those before it; the last one first
    return pair.result(boxes[0].kind, boxes[2], interrupted)


class _Pair:
    """The state of one run; `go` is its clock."""

    def __init__(
        self,
        donor: Command,
        guest: Command,
        settings: Driving,
        n_cpus: int,
        learner: Learner,
        tell: Callable[[str], None],
    ) -> None:
        self.donor, self.guest, self.n_cpus, self.learner, self.tell = donor, guest, n_cpus, learner, tell
        self.limit, self.interval = settings.limit, settings.interval
        self.share = 1.0 if donor.box.kind == "idle" else settings.share  # who yields by itself needs no quota
        self.seconds, self.until_donor = settings.seconds or np.inf, settings.until_donor
        self.quota, self.level, self.changes, self.expected = 0.0, 0, 0, 0.0
        self.context: np.ndarray | None = None
        self.cpu, self.guest_cpu, self.rate = 0.0, 1.0, 0.0  # alone: shares, and progress per second
        self.done = 0.0  # s of work, where only the limit is known
        self.used = (0.0, 0.0)
        self.rows: list[dict[str, Any]] = []

    def _load(self) -> None:
        """Load, or compile, what a choice needs, before anything runs that would wait for it."""
        spare, context = make_learner("ips", 0), np.zeros(N_METRICS + 1, np.int64)
        losses = np.zeros(len(spare.experts.quotas))
        paces_of(BELIEVED, 0.5, 1.0, (0.5, 0.0), (0.5, 0.0))
        mood_of(happiness(1.0, 1.0, 1.0))
        bin_of(0, pair_loss(projected_loss(1.0, 1.0, 1.0, 1.0), 0.0))
        learn(spare, context, choose(spare, context, losses), losses, 0.0)

    def go(self) -> None:
        self._load()
        self.donor.start()
        self.donor.box.limit(1.0, self.n_cpus)
        self._watch(alone=True)
        if not self._over():
            self.guest.start()
            self._set(self.share if self.share is not None else self._first())
        while self.donor.runs and self.guest.runs and not self._over():
            self._watch()
            if self.share is None and self.donor.runs and self.guest.runs:
                self._choose()
        for command, other in ((self.donor, self.guest), (self.guest, self.donor)):
            if command.runs and not self._over() and not (command is self.guest and self.until_donor):
                other.close()
                command.box.limit(1.0, self.n_cpus)
                while command.runs and time.monotonic() - self.donor.began < self.seconds:
                    time.sleep(POLL)

    def count(self) -> None:
        self.used = (self.donor.box.cpu_seconds(), self.guest.box.cpu_seconds())

    def _over(self) -> bool:
        return self.donor.seconds >= self.seconds

    def _set(self, quota: float) -> None:
        if quota != self.quota:
            self.changes += 1
        self.quota = quota
        if self.donor.box.kind != "idle":
            self.donor.box.limit(1.0 - quota, self.n_cpus)
            self.guest.box.limit(quota, self.n_cpus)

    def _watch(self, alone: bool = False) -> None:
        """Wait an interval, and note what both did in it."""
        before = self.donor.box.cpu_seconds(), 0.0 if alone else self.guest.box.cpu_seconds()
        at, began = self.donor.progress.now(), time.monotonic()
        while time.monotonic() - began < self.interval and not self._over():
            if not self.donor.runs or not (alone or self.guest.runs):
                break
            time.sleep(POLL)
        passed = time.monotonic() - began
        used = self.donor.box.cpu_seconds(), 0.0 if alone else self.guest.box.cpu_seconds()
        shares = [max(0.0, b - a) / passed / self.n_cpus for a, b in zip(before, used, strict=True)]
        now = self.donor.progress.now()
        rate = (now - at) / passed if now is not None and at is not None else 0.0
        if self.quota == 0.0:
            self.cpu, self.rate = max(self.cpu, shares[0]), max(self.rate, rate)
        elif shares[1] < 0.9 * self.quota:
            self.guest_cpu = shares[1]
        pace = self._pace(shares[0], rate)
        self.done += pace * passed
        left = (1.0 - now) / self.rate if now is not None and self.rate > 0 else self.limit - self.done
        limit_left = self.limit - self.donor.seconds
        happy = happiness(limit_left, pace, left)
        guests = 1.0 - min(1.0, shares[1] / max(self.guest_cpu, 0.01))
        loss = pair_loss(projected_loss(self.limit, limit_left, pace, left), guests)
        row = (self.donor.seconds, self.quota, *shares, now, float(happy), None if alone else loss)
        self.rows.append(dict(zip(LOGGED, row, strict=True)))
        self.left = (left, limit_left, happy, loss)

    def _pace(self, share: float, rate: float) -> float:
        """Return the donor's pace: by its progress where it tells it, else by the CPU time that it got."""
        if self.rate > 0 and rate > 0:
            pace = rate / self.rate
        else:
            pace = share / self.cpu if self.cpu > 0 else 1.0
        return 1.0 if pace > 1.0 - NOISE else pace

    def _look(self) -> np.ndarray:
        one, other = _memory_share(self.donor), _memory_share(self.guest)
        together, elapsed = self.cpu + self.guest_cpu, self.donor.seconds / self.limit
        values = (self.cpu, one, self.guest_cpu, other, together, elapsed)
        assert len(values) == len(EDGES) == N_METRICS
        return np.array([*(bin_of(i, value) for i, value in enumerate(values)), mood_of(self.left[2])])

    def _expected(self) -> np.ndarray:
        left, limit_left, _, _ = self.left
        losses = []
        for quota in self.learner.experts.quotas:
            one, other = paces_of(BELIEVED, quota, 1.0, (self.cpu, 0.0), (self.guest_cpu, 0.0))
            losses.append(pair_loss(projected_loss(self.limit, limit_left, one, left), 1.0 - other))
        return np.array(losses)

    def _first(self) -> float:
        self.context = self._look()
        predicted = self._expected()
        self.level = choose(self.learner, self.context, predicted)
        self.expected = float(predicted[self.level])
        return float(self.learner.experts.quotas[self.level])

    def _choose(self) -> None:
        losses = np.zeros(len(self.learner.experts.quotas))
        losses[self.level] = self.left[3]
        learn(self.learner, self.context, self.level, losses, self.expected)
        quota = self._first()
        if self.context is not None and self.context[N_METRICS] == IN_DANGER:
            quota, self.level = 0.0, 0  # the donor takes its cores back
        self._set(quota)
        row = self.rows[-1]
        self.tell(
            f"{row['seconds']:7.1f} s: donor {row['donor_share']:.0%}, guest {row['guest_share']:.0%} of the CPUs, "
            f"happiness {min(row['happiness'], 99):.2f}; quota {quota:.2f}"
        )

    def result(self, driver: str, why: str, interrupted: bool) -> Driven:
        told = [
            {
                "seconds": round(command.seconds, 3),
                "exit_code": command.exit_code,
                "cpu_share": used / command.seconds / self.n_cpus if command.seconds >= MEASURABLE else None,
            }
            for command, used in zip((self.donor, self.guest), self.used, strict=True)
        ]
        log = pd.DataFrame(self.rows, columns=LOGGED)
        quotas = [float(row["quota"]) for row in self.rows]
        return Driven(told[0], told[1], driver, why, log, interrupted, self.changes, quotas)


def _memory_share(command: Command) -> float:
    """Return the share of the machine's memory that a command's processes fill."""
    total = 0
    for process in command.box.members():
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total / psutil.virtual_memory().total


def draw(log: pd.DataFrame) -> str:
    """Draw the quota and what each command got over time, from `Driven.log`; returns SVG."""
    made, axes = figure()
    axes.step(log["seconds"], log["quota"], where="pre", color=GREY, label="quota of the guest")
    axes.plot(log["seconds"], log["donor_share"], color=BLUE, label="donor")
    axes.plot(log["seconds"], log["guest_share"], color=ORANGE, label="guest")
    axes.set(xlabel="seconds since the donor's start", ylabel="share of the CPUs", ylim=(0, 1.05))
    axes.legend(frameon=False, fontsize=8)
    out = io.StringIO()
    made.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
