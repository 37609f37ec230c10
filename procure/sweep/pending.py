"""What a sweep still has to do: batches that wait, and those that killed their workers cut in halves."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable

import numpy as np

from procure.errors import TableError
from procure.study import Plan
from procure.sweep.batches import Batch
from procure.sweep.parts import end_attempts, write_part
from procure.sweep.protocol import Receipt
from procure.sweep.runner import Bench, failed_rows, make_bench
from procure.sweep.store import fingerprint_text, part_path

TRIES = 3
"""Workers that may die over a batch, and at the end over a single run."""
MOST_POISON = 20
"""Runs that kill their workers from which on the workers are to blame."""


class SweepWork:
    """The batches of a sweep, their arguments made when they are given out; one put back may come again."""

    def __init__(self, plan: Plan, batches: list[Batch], farm: str, note: Callable[[str], None]) -> None:
        """Take up batches of a plan; on the serial farm no worker can die."""
        self.n_batches = len(batches)
        self.n_runs = sum(len(batch.rows) for batch in batches)
        self.n_done = 0
        self.kernel_seconds = 0.0
        self.n_workers = 0
        self._plan, self._note = plan, note
        self._ids = plan.packages["package_id"].to_numpy()
        self._counts = plan.packages[plan.types].to_numpy(np.int64)
        self._waiting = deque(batches)
        self._halves: set[str] = set()
        self._n_poison = 0
        self._session = () if farm == "serial" else (uuid.uuid4().hex[:12],)
        self._fingerprint = fingerprint_text(plan)

    def take(self) -> Batch | None:
        """Return the next batch, or None while there is none."""
        return self._waiting.popleft() if self._waiting else None

    def key(self, batch: Batch) -> tuple[str, str]:
        """Batches of one workload and policy share a bench."""
        return batch.workload, batch.policy

    def shared(self, key: tuple[str, str]) -> Bench:
        """Lay out a workload and policy."""
        return make_bench(self._plan, *key)

    def arguments(self, batch: Batch) -> tuple:
        """Return the arguments of `compute_part`, or of `attempt_part` where workers may die."""
        ids, counts = self._ids[batch.rows].tolist(), self._counts[batch.rows]
        tries = 1 if batch.key in self._halves and len(batch.rows) > 1 else TRIES
        attempts = [(session, tries) for session in self._session]
        return ids, counts, part_path(self._plan.study, batch), self._fingerprint, *attempts

    def put(self, batch: Batch, receipt: Receipt) -> None:
        """Take a batch back with its receipt: count it, or look for the run that kills its workers."""
        if not receipt.died:
            self.n_done += receipt.n_runs
            self.kernel_seconds += receipt.kernel_seconds
            return
        for session in self._session:
            end_attempts(part_path(self._plan.study, batch), session)
        if len(batch.rows) == 1:
            self._give_up(batch)
            return
        middle = len(batch.rows) // 2
        halves = [Batch(*self.key(batch), rows) for rows in (batch.rows[:middle], batch.rows[middle:])]
        self._halves |= {half.key for half in halves}
        self._waiting.extendleft(reversed(halves))

    def _give_up(self, batch: Batch) -> None:
        """Record a run as failed; the sweep goes on without it."""
        package_id = self._ids[batch.rows[0]]
        reason = f"killed its worker {TRIES} times"
        self._n_poison += 1
        if self._n_poison > MOST_POISON:
            raise TableError(
                f"{MOST_POISON} runs {reason}, the last {package_id} on {batch.workload}: "
                "is there enough memory for a worker? What was computed is kept"
            )
        rows = failed_rows(self.shared(self.key(batch)), [package_id], reason)
        write_part(part_path(self._plan.study, batch), rows, self._fingerprint, 0.0)
        self.n_done += 1
        self._note(f"package {package_id} on {batch.workload} under {batch.policy} {reason}; recorded as failed")
