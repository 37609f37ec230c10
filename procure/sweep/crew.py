"""The workers of a Dask, and the batches that they have in hand.

At most a few batches per worker are in flight, so that a million runs weigh no more on the scheduler
than a thousand. What many batches share stands in the task graph: if the workers that hold it die,
Dask makes it again.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Generator, Hashable
from queue import Empty, SimpleQueue
from typing import Any

from procure._version import __version__
from procure.errors import TableError
from procure.sweep.farm import FarmOptions, Receipt, Task, Work

IN_FLIGHT_PER_WORKER = 4
MOST_LOSSES = 10
"""So often a batch is given out again that a foreign scheduler called off."""
MOST_FRUITLESS = 10
"""After so many workers, and three times as many as there are at once, one must have finished a batch."""
TICK, SAY_AFTER, SAY_AGAIN = 1.0, 30.0, 300.0


class Crew:
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

        Raises
        ------
        TableError
            No worker came in time, none can come, or those that come finish nothing.
        """
        now = time.monotonic()
        if now - self._looked < TICK:
            return
        self._looked = now
        self.workers = frozenset(self.client.nthreads()) - self._refused.keys()
        self._options.n_workers = max(self._options.n_workers, len(self.workers))
        self._fruitless |= self.workers
        if len(self._fruitless) > MOST_FRUITLESS + 3 * self._options.n_workers:
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
            text = "; ".join(
                [f"no worker for {without:.0f} s", words, *dict.fromkeys(self._refused.values())]
            )
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


def give_out(crew: Crew, task: Task, work: Work) -> Generator[tuple[Any, Receipt] | None, None, None]:
    """Give batches out in waves and yield them with their receipts, as `procure.sweep.farm.run_tasks` does."""
    running: dict[Any, Any] = {}
    placed: dict[Any, frozenset[str] | None] = {}
    finished: SimpleQueue[Any] = SimpleQueue()
    shared: dict[Hashable, Any] = {}
    again: list[Any] = []
    losses: dict[int, int] = {}

    def submit(batch: Any) -> None:
        key, where = work.key(batch), crew.restriction
        if key not in shared:
            for old in set(shared) - {work.key(each) for each in running.values()}:
                del shared[old]
            shared[key] = crew.client.submit(_same, work.shared(key), pure=False, workers=where)
        future = crew.client.submit(
            _on_worker, __version__, task, shared[key], *work.arguments(batch), pure=False, workers=where
        )
        running[future], placed[future] = batch, where
        future.add_done_callback(finished.put)

    def strand() -> None:
        """Take back what only workers that are gone might have computed."""
        for future, where in list(placed.items()):
            if where is not None and crew.workers and not where & crew.workers:
                shared.clear()
                del placed[future]
                again.append(running.pop(future))

    while True:
        crew.look()
        strand()
        while len(running) < crew.window:
            batch = again.pop() if again else work.take()
            if batch is None:
                break
            submit(batch)
        if not running and crew.window:
            return
        try:
            future = finished.get(timeout=TICK)
        except Empty:
            yield None
            continue
        if future not in running:
            continue
        batch = running.pop(future)
        del placed[future]
        receipt = _receipt(future)
        if receipt is None:
            losses[id(batch)] = losses.get(id(batch), 0) + 1
            if losses[id(batch)] > MOST_LOSSES:
                raise TableError(f"the scheduler called a batch off {MOST_LOSSES} times: {future.status}")
            shared.pop(work.key(batch), None)
            again.append(batch)
        elif receipt.refused:
            crew.refuse(receipt.refused)
            shared.clear()
            again.append(batch)
        else:
            losses.pop(id(batch), None)
            crew.succeed()
            yield batch, receipt


def _receipt(future: Any) -> Receipt | None:
    """Return a task's receipt; None if it was called off through no fault of its own."""
    from distributed import KilledWorker

    if future.status in ("cancelled", "lost"):
        return None
    if future.status == "finished":
        return future.result()
    error = future.exception()
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
