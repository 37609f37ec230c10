"""Where batches are computed: in this process, on local workers, from a queue, on a Dask that runs.

With `procure.sweep.jobqueue` the one door to Dask. Whatever the farm, a task writes its own part and
returns a small receipt, so that nothing computed is lost with a worker, and at most a few batches per
worker are in flight. What many batches share stands in the task graph: if the workers that hold it
die, Dask makes it again.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

from procure._version import __version__
from procure.errors import TableError

IN_FLIGHT_PER_WORKER = 4
MOST_LOSSES = 10
"""So often a batch is given out again that a foreign scheduler called off."""
TICK, SAY_AFTER, SAY_AGAIN = 1.0, 30.0, 300.0
QUEUES = ("slurm", "pbs", "lsf", "sge")


class Receipt(NamedTuple):
    """What a task returns: how many runs it made and the kernel seconds that they took.

    ``died`` says that workers died over this batch before; ``refused`` why this worker may not compute.
    """

    n_runs: int
    kernel_seconds: float
    died: bool = False
    refused: str = ""


Task = Callable[..., Receipt]


class Work(Protocol):
    """What is to be computed. A batch that is given back may stand in the queue again afterwards."""

    def take(self) -> Any | None:
        """Return the next batch, or None while there is none."""

    def key(self, batch: Any) -> Hashable:
        """Name what the batch shares with others."""

    def shared(self, key: Any) -> Any:
        """Make what batches share; it is sent once to each worker."""

    def arguments(self, batch: Any) -> tuple[Any, ...]:
        """Return the rest of a task's arguments."""


@dataclass
class FarmOptions:
    """How workers are come by; what a farm does not need is not looked at.

    ``cores`` and ``memory`` (text such as ``"8 GB"``) are those of one queued job, ``walltime`` its
    limit as the queue writes it. ``wait`` is after how many seconds without any worker the sweep gives
    up, 0 = never. ``folder`` takes logs and keys. ``n_workers`` is filled in: the most seen at once.
    """

    jobs: int = 1
    cores: int | None = None
    memory: str | None = None
    walltime: str | None = None
    partition: str | None = None
    account: str | None = None
    scheduler_file: Path | None = None
    tls: bool = False
    wait: float = 0
    folder: Path = Path()
    n_workers: int = field(default=0, init=False)


def n_local_workers() -> int:
    """Count the processors that this process may use: Slurm's word first, then the affinity mask."""
    given = os.environ.get("SLURM_CPUS_PER_TASK", "")
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(int(given), allowed) if given.isdigit() and int(given) > 0 else allowed


def run_tasks(
    farm: str,
    task: Task,
    work: Work,
    options: FarmOptions | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Generator[tuple[Any, Receipt] | None, None, None]:
    """Run ``task(shared, *arguments)`` for each batch of the work.

    Parameters
    ----------
    farm
        ``serial``, ``local``, ``slurm``, ``pbs``, ``lsf``, ``sge``, or the address of a Dask scheduler,
        e.g. ``tcp://host:8786``; `FarmOptions.scheduler_file` stands for an address.
    note
        Called with what the user should know.

    Yields
    ------
    tuple or None
        A batch and its receipt as they come; None about once a second while there is none.

    Raises
    ------
    TableError
        An unknown farm, no answer at the address, no worker in time, or a task's own error.
    """
    options = options or FarmOptions()
    if options.scheduler_file is not None:
        from procure.sweep.jobqueue import read_scheduler_file

        farm = read_scheduler_file(options.scheduler_file, note)
    if farm == "serial":
        options.n_workers = 1
        made: tuple[Any, Any] = (None, None)
        while (batch := work.take()) is not None:
            key = work.key(batch)
            if key != made[0]:
                made = key, work.shared(key)
            yield batch, task(made[1], *work.arguments(batch))
        return
    if farm not in ("local", *QUEUES) and "://" not in farm:
        known = ", ".join(("serial", "local", *QUEUES))
        raise TableError(f"farm {farm!r} is not known; known: {known}, or an address such as tcp://host:8786")
    from procure.sweep.jobqueue import connect

    with _one_interrupt(), connect(farm, options, note) as (client, explain):
        crew = Crew(client, options, note, explain)
        with closing(_on_dask(crew, task, work)) as receipts:
            yield from receipts


@contextmanager
def _one_interrupt() -> Iterator[None]:
    """Let the first Ctrl-C, TERM or HUP end the sweep, and no further one disturb the workers' end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(number: int, frame: object) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, stop) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


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
        self.n_workers = 0
        self._options, self._note, self._explain = options, note, explain
        self._looked = self._said = -1e9
        self._none_since: float | None = None
        self._refusals: dict[str, None] = {}

    def look(self) -> None:
        """Count the workers, at most once a tick; say why there are none.

        Raises
        ------
        TableError
            The scheduler went away, or no worker came in time, or none can come.
        """
        now = time.monotonic()
        if now - self._looked < TICK:
            return
        self._looked = now
        try:
            self.n_workers = len(self.client.nthreads())
        except (OSError, TimeoutError) as error:
            raise TableError(f"the Dask scheduler went away: {error}; what was computed is kept") from None
        self._options.n_workers = max(self._options.n_workers, self.n_workers)
        if self.n_workers:
            self._none_since = None
            return
        self._none_since = self._none_since if self._none_since is not None else now
        without = now - self._none_since
        last = self._options.wait and without >= self._options.wait
        if last or (without >= SAY_AFTER and now - self._said >= SAY_AGAIN):
            self._said = now
            words, hopeless = self._explain()
            text = "; ".join([f"no worker for {without:.0f} s", words, *self._refusals])
            if last or hopeless:
                raise TableError(f"{text}. What was computed is kept")
            self._note(text)

    def refuse(self, why: str) -> None:
        """Send a worker away that runs another procure."""
        who, _, text = why.partition(" ")
        self.client.retire_workers([who], close_workers=True)
        if text not in self._refusals:
            self._refusals[text] = None
            self._note(f"{text}; it is not used")
        self._looked = -1e9


def _on_dask(crew: Crew, task: Task, work: Work) -> Generator[tuple[Any, Receipt] | None, None, None]:
    client = crew.client
    running: dict[Any, Any] = {}
    finished: SimpleQueue[Any] = SimpleQueue()
    shared: dict[Hashable, Any] = {}
    losses: dict[int, int] = {}

    def give_out(batch: Any) -> None:
        key = work.key(batch)
        if key not in shared:
            in_use = {work.key(each) for each in running.values()}
            for old in set(shared) - in_use:
                del shared[old]
            shared[key] = client.submit(_same, work.shared(key), pure=False)
        future = client.submit(_on_worker, __version__, task, shared[key], *work.arguments(batch), pure=False)
        running[future] = batch
        future.add_done_callback(finished.put)

    while True:
        crew.look()
        most = IN_FLIGHT_PER_WORKER * max(1, crew.n_workers)
        while len(running) < most and (batch := work.take()) is not None:
            give_out(batch)
        if not running:
            return
        try:
            future = finished.get(timeout=TICK)
        except Empty:
            yield None
            continue
        batch = running.pop(future)
        receipt = _receipt(future)
        if receipt is None:
            losses[id(batch)] = losses.get(id(batch), 0) + 1
            if losses[id(batch)] > MOST_LOSSES:
                raise TableError(f"the scheduler called a batch off {MOST_LOSSES} times: {future.status}")
            shared.pop(work.key(batch), None)
            give_out(batch)
        elif receipt.refused:
            crew.refuse(receipt.refused)
            give_out(batch)
        else:
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
