"""The workers of a Dask, and the batches that they have in hand.

At most a few batches per worker are in flight, so that a million runs weigh no more on the scheduler
than a thousand. What many batches share stands in the task graph: if the workers that hold it die,
Dask makes it again.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Generator, Hashable
from concurrent.futures import CancelledError
from queue import Empty, SimpleQueue
from typing import Any

from procure._version import __version__
from procure.errors import TableError
from procure.sweep.pending import SweepWork
from procure.sweep.protocol import FarmOptions, Receipt, Task

IN_FLIGHT_PER_WORKER = 4
MOST_LOSSES = 10
"""Times that a batch is submitted again after a foreign scheduler has cancelled it."""
MOST_FRUITLESS = 10
"""This many workers, plus three times as many as run at once, may end without a finished batch."""
TICK, SAY_AFTER, SAY_AGAIN = 1.0, 30.0, 300.0


class WorkerPool:
    """The workers of a Dask as the driver sees them: how many there are, and since when there are none."""

    def __init__(
        self,
        client: Any,
        options: FarmOptions,
        note: Callable[[str], None],
        explain: Callable[[], tuple[str, bool]],
    ) -> None:
        """Begin without having looked."""
        self.client = client
        self.workers: frozenset[str] = frozenset()
        self.n_workers = 0
        self._options, self._note, self._explain = options, note, explain
        self._looked = self._said = -1e9
        self._none_since: float | None = None
        self._refused: dict[str, str] = {}
        self._fruitless: set[str] = set()

    @property
    def window(self) -> int:
        """How many batches may be in flight: none while only workers of another version are there."""
        return IN_FLIGHT_PER_WORKER * max(0 if self._refused else 1, len(self.workers))

    @property
    def restriction(self) -> frozenset[str] | None:
        """Which workers may compute, if not all."""
        return self.workers if self._refused else None

    def look(self) -> None:
        """Count the workers, at most once a tick; say why there are none.

        It is an error that none comes in time, none can come, or those that come finish nothing.
        """
        now = time.monotonic()
        if now - self._looked < TICK:
            return
        self._looked = now
        self.workers = frozenset(self.client.nthreads()) - self._refused.keys()
        self.n_workers = max(self.n_workers, len(self.workers))
        self._fruitless |= self.workers
        if len(self._fruitless) > MOST_FRUITLESS + 3 * self.n_workers:
            raise TableError(
                f"{len(self._fruitless)} workers came, and none has finished a batch: is their walltime long "
                "enough, and do they run the same procure as this process? Their logs say more"
            )
        if self.workers:
            self._none_since = None
            return
        self._none_since = self._none_since if self._none_since is not None else now
        without = now - self._none_since
        last = self._options.wait and without >= self._options.wait
        if last or (without >= SAY_AFTER and now - self._said >= SAY_AGAIN):
            self._said = now
            words, hopeless = self._explain()
            text = "; ".join([f"no worker for {without:.0f} s", words, *dict.fromkeys(self._refused.values())])
            if last or hopeless:
                raise TableError(f"{text}. What was computed is kept")
            self._note(text)

    def succeed(self) -> None:
        """Note that a worker has finished a batch, or that one is known to be deadly."""
        self._fruitless = set()

    def refuse(self, why: str) -> None:
        """Give a worker that runs another procure no further batch."""
        who, _, text = why.partition(" ")
        if text not in self._refused.values():
            self._note(f"{text}; it is not used")
        self._refused[who] = text
        self.workers -= {who}


def give_out(pool: WorkerPool, task: Task, work: SweepWork) -> Generator[tuple[Any, Receipt] | None, None, None]:
    """Give batches out in waves and yield them with their receipts, as `procure.sweep.farm.run_tasks` does."""
    hand = _InHand(pool, task, work)
    while True:
        pool.look()
        work.n_workers = pool.n_workers
        hand.fill()
        if not hand.running and pool.window:
            return
        yield hand.receive()


class _InHand:
    def __init__(self, pool: WorkerPool, task: Task, work: SweepWork) -> None:
        self.running: dict[Any, Any] = {}
        self._pool, self._task, self._work = pool, task, work
        self._placed: dict[Any, frozenset[str] | None] = {}
        self._finished: SimpleQueue[Any] = SimpleQueue()
        self._shared: dict[Hashable, Any] = {}
        self._again: list[Any] = []
        self._losses: dict[int, int] = {}

    def fill(self) -> None:
        """Take back what only workers that are gone might have computed, and give out as much as may be."""
        for future, where in list(self._placed.items()):
            if where is not None and self._pool.workers and not where & self._pool.workers:
                self._shared.clear()
                self._again.append(self._drop(future))
        while len(self.running) < self._pool.window:
            batch = self._again.pop() if self._again else self._work.take()
            if batch is None:
                return
            self._submit(batch)

    def receive(self) -> tuple[Any, Receipt] | None:
        """Wait a tick for a receipt; None if there is none, or the batch must be given out again."""
        try:
            future = self._finished.get(timeout=TICK)
        except Empty:
            return None
        if future not in self.running:
            return None
        batch, receipt = self._drop(future), _receipt(future)
        if receipt is not None and not receipt.refused:
            self._losses.pop(id(batch), None)
            self._pool.succeed()
            return batch, receipt
        if receipt is not None:
            self._pool.refuse(receipt.refused)
        else:
            self._losses[id(batch)] = self._losses.get(id(batch), 0) + 1
            if self._losses[id(batch)] > MOST_LOSSES:
                raise TableError(
                    f"the scheduler called a batch off {MOST_LOSSES} times: {future.status}; what was computed is kept"
                )
        self._shared.clear()
        self._again.append(batch)
        return None

    def _submit(self, batch: Any) -> None:
        key, where = self._work.key(batch), self._pool.restriction
        if key not in self._shared:
            for old in set(self._shared) - {self._work.key(each) for each in self.running.values()}:
                del self._shared[old]
            self._shared[key] = self._pool.client.submit(_same, self._work.shared(key), pure=False, workers=where)
        future = self._pool.client.submit(
            _on_worker,
            __version__,
            self._task,
            self._shared[key],
            *self._work.arguments(batch),
            pure=False,
            workers=where,
        )
        self.running[future], self._placed[future] = batch, where
        future.add_done_callback(self._finished.put)

    def _drop(self, future: Any) -> Any:
        del self._placed[future]
        return self.running.pop(future)


def _receipt(future: Any) -> Receipt | None:
    """Return a task's receipt; None if it was called off through no fault of its own."""
    from distributed import KilledWorker

    if future.status in ("cancelled", "lost"):
        return None
    try:
        if future.status == "finished":
            return future.result()
        error = future.exception()
    except CancelledError:  # the connection was lost since its status was asked
        return None
    if isinstance(error, KilledWorker):
        return None
    if isinstance(error, TableError):
        raise error
    raise TableError(
        f"a worker could not do its task: {type(error).__name__}: {error}; "
        f"workers must run procure {__version__} and the same Python packages as this process"
    )


def _same(value: Any) -> Any:
    return value


def _on_worker(version: str, task: Task, *arguments: Any) -> Receipt:
    if version != __version__:
        from distributed import get_worker

        who = f"the worker on {socket.gethostname()} runs procure {__version__}"
        return Receipt(0, 0.0, refused=f"{get_worker().address} {who}, this sweep {version}")
    return task(*arguments)
