"""Where batches are computed: in this process, on local workers, from a queue, on a Dask that runs.

With `procure.sweep.jobqueue` and `procure.sweep.crew` the one door to Dask. Whatever the farm, a task
writes its own part and returns a small receipt, so that nothing computed is lost with a worker.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from procure.errors import TableError

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


def check_farm(farm: str) -> None:
    """Raise if there is no such farm: say which there are."""
    if farm not in ("serial", "local", *QUEUES) and "://" not in farm:
        known = ", ".join(("serial", "local", *QUEUES))
        raise TableError(f"farm {farm!r} is not known; known: {known}, or an address such as tcp://host:8786")


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
    check_farm(farm)
    from distributed.client import ClosedClientError

    from procure.sweep.crew import Crew, give_out
    from procure.sweep.jobqueue import connect

    with one_interrupt(), connect(farm, options, note) as (client, explain):
        crew = Crew(client, options, note, explain)
        try:
            with closing(give_out(crew, task, work)) as receipts:
                yield from receipts
        except (OSError, TimeoutError, ClosedClientError) as error:  # Dask's for a connection that is lost
            raise TableError(f"the Dask scheduler went away: {error}; what was computed is kept") from None


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _stop(number: int, frame: object) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def one_interrupt(*, last: bool = False) -> Iterator[None]:
    """Let the first Ctrl-C, TERM or HUP end the sweep, and no further one disturb the workers' end.

    Parameters
    ----------
    last
        The process ends after this, so that signals need not mean again what they meant before.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is _stop:
        yield
        return
    before = {each: signal.signal(each, _stop) for each in _SIGNALS}
    try:
        yield
    finally:
        if not last:
            for each, handler in before.items():
                signal.signal(each, handler)
