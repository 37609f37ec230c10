"""Where batches are computed: in this process, on local workers, from a queue, on a Dask that runs.

With `procure.sweep.connect` and `procure.sweep.workers` the one door to Dask. Whatever the farm, a task
writes its own part and returns a small receipt, so that nothing computed is lost with a worker.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any

from procure.errors import TableError
from procure.progress import silent
from procure.sweep.connect import connect, read_scheduler_file
from procure.sweep.pending import SweepWork
from procure.sweep.protocol import FarmOptions, Receipt, Task, check_farm
from procure.sweep.workers import WorkerPool, give_out


def run_tasks(
    farm: str,
    task: Task,
    work: SweepWork,
    options: FarmOptions | None = None,
    note: Callable[[str], None] = silent,
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
        farm = read_scheduler_file(options.scheduler_file, note)
    if farm == "serial":
        work.n_workers = 1
        made: tuple[Any, Any] = (None, None)
        while (batch := work.take()) is not None:
            _go_on()
            key = work.key(batch)
            if key != made[0]:
                made = key, work.shared(key)
            yield batch, task(made[1], *work.arguments(batch))
        return
    check_farm(farm)
    from distributed.client import ClosedClientError

    with one_interrupt(), connect(farm, options, note) as (client, explain):
        pool = WorkerPool(client, options, note, explain)
        try:
            with closing(give_out(pool, task, work)) as receipts:
                for receipt in receipts:
                    _go_on()
                    yield receipt
        except (OSError, TimeoutError, ClosedClientError) as error:  # Dask's for a connection that is lost
            raise TableError(f"the Dask scheduler went away: {error}; what was computed is kept") from None


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_stopped = threading.Event()
"""Set by the first signal, whose KeyboardInterrupt Python drops if it comes while a ``__del__`` runs."""


def _stop(number: int, frame: object) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    _stopped.set()
    raise KeyboardInterrupt


def _go_on() -> None:
    if _stopped.is_set():
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
        _stopped.clear()
        if not last:
            for each, handler in before.items():
                signal.signal(each, handler)
