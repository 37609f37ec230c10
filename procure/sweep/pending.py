"""What a sweep still has to do: batches that wait, and single runs of those that killed their workers."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np

from procure.errors import TableError
from procure.study import Plan
from procure.sweep.parts import Batch, kernel_seconds, write_part
from procure.sweep.protocol import Receipt
from procure.sweep.runner import Bench, SharedBench, failed_rows, make_bench, share
from procure.sweep.store import PARTS, fingerprint_text, part_path

MOST_POISON = 20
"""Runs, or batches of which none comes back in between, that kill their workers: then the workers are to blame."""


class SweepWork:
    """The batches of a sweep, their arguments made when they are given out.

    A batch over which workers died is cut into single runs. These are given out last, each alone on the whole farm, so
    that a worker's death has one cause; a run that kills its workers even so is recorded as failed.
    """

    def __init__(self, plan: Plan, batches: list[Batch], note: Callable[[str], None]) -> None:
        """Take up batches of a plan."""
        self.n_batches = len(batches)
        self.n_runs = sum(len(batch.rows) for batch in batches)
        self.n_done = 0
        self.kernel_seconds = 0.0
        self.n_workers = 0
        self._plan, self._note = plan, note
        self._ids = plan.packages["package_id"].to_numpy()
        self._counts = plan.packages[plan.types].to_numpy(np.int64)
        self._waiting = deque(batches)
        self._suspects: deque[Batch] = deque()
        self._alone: set[str] = set()
        self._sent: dict[tuple[str, str], SharedBench] = {}
        self._n_killed = self._n_poison = 0
        self._fingerprint = fingerprint_text(plan)

    def take(self, alone: bool = True) -> Batch | None:
        """Return the next batch, or None; what killed workers before only if nothing else is being computed."""
        if self._waiting:
            return self._waiting.popleft()
        return self._suspects.popleft() if alone and self._suspects else None

    def key(self, batch: Batch) -> tuple[str, str]:
        """Batches of one workload and policy share a bench."""
        return batch.workload, batch.policy

    def shared(self, key: tuple[str, str]) -> Bench:
        """Lay out a workload and policy."""
        return make_bench(self._plan, *key)

    def sent(self, key: tuple[str, str]) -> SharedBench:
        """Lay out a workload and policy for workers elsewhere, once, in a file of a name that none of them has met."""
        if key not in self._sent:
            path = self._plan.study.folder / PARTS / f".{secrets.token_hex(8)}.arrays"
            self._sent[key] = share(self.shared(key), path)
        return self._sent[key]

    def forget(self, key: tuple[str, str]) -> None:
        """Remove the file of a workload and policy of which no batch is under way."""
        self._sent.pop(key).path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all such files."""
        for key in list(self._sent):
            self.forget(key)

    def arguments(self, batch: Batch) -> tuple[list[str], np.ndarray, Path, str]:
        """Return the arguments of `procure.sweep.run.compute_part` behind the bench."""
        ids, counts = self._ids[batch.rows].tolist(), self._counts[batch.rows]
        return ids, counts, part_path(self._plan.study, batch), self._fingerprint

    def put(self, batch: Batch, receipt: Receipt) -> None:
        """Take a batch back with its receipt: count it, or look for the run that kills its workers."""
        path = part_path(self._plan.study, batch)
        if receipt.died and path.exists():  # the worker died behind its part, before the receipt arrived
            receipt = Receipt(len(batch.rows), kernel_seconds(path))
        if not receipt.died:
            self._n_killed = 0
            self.n_done += receipt.n_runs
            self.kernel_seconds += receipt.kernel_seconds
        elif batch.key in self._alone:
            self._give_up(batch)
        else:
            self._n_killed += 1
            self._refuse_more(self._n_killed, "batches in a row")
            alone = [Batch(*self.key(batch), batch.rows[i : i + 1]) for i in range(len(batch.rows))]
            self._alone |= {one.key for one in alone}
            self._suspects.extend(alone)

    def _give_up(self, batch: Batch) -> None:
        """Record a run as failed; the sweep goes on without it."""
        package_id, reason = self._ids[batch.rows[0]], "killed every worker that tried it"
        self._n_poison += 1
        self._refuse_more(self._n_poison, f"runs, the last {package_id} on {batch.workload},")
        rows = failed_rows(self.shared(self.key(batch)), [package_id], reason)
        write_part(part_path(self._plan.study, batch), rows, self._fingerprint, 0.0)
        self.n_done += 1
        self._note(f"package {package_id} on {batch.workload} under {batch.policy} {reason}; recorded as failed")

    @staticmethod
    def _refuse_more(n: int, what: str) -> None:
        if n > MOST_POISON:
            raise TableError(
                f"{MOST_POISON} {what} killed every worker that tried them: is there enough memory for a worker? "
                "What was computed is kept"
            )
