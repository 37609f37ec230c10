"""Where batches are computed: in this process, on local workers, or on a Dask that already runs.

The one door to Dask. Whatever the farm, a task writes its own part and returns a small receipt, so
that nothing computed is lost with a worker, and at most a few batches per worker are in flight.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from procure.errors import TableError

IN_FLIGHT_PER_WORKER = 4
CONNECT_TIMEOUT = "10s"


class Receipt(NamedTuple):
    """What a task returns: how many runs it made and the kernel seconds that they took."""

    n_runs: int
    kernel_seconds: float


Task = Callable[..., Receipt]


def n_local_workers() -> int:
    """Count the processors that this process may use: Slurm's word first, then the affinity mask."""
    given = os.environ.get("SLURM_CPUS_PER_TASK", "")
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(int(given), allowed) if given.isdigit() and int(given) > 0 else allowed


def run_tasks(
    farm: str, task: Task, shared: dict[Any, Any], arguments: Sequence[tuple[Any, ...]]
) -> Iterator[Receipt]:
    """Run ``task(shared[key], *rest)`` for each ``(key, *rest)`` and yield receipts as they come.

    Parameters
    ----------
    farm
        ``serial``, ``local``, or the address of a Dask scheduler, e.g. ``tcp://host:8786``.
    shared
        Large objects that many tasks read; each is sent once to each worker.

    Raises
    ------
    TableError
        An unknown farm, no answer at the address, or a task's own error.
    """
    if farm == "serial":
        for key, *rest in arguments:
            yield task(shared[key], *rest)
        return
    if farm != "local" and "://" not in farm:
        raise TableError(
            f"farm {farm!r} is not known; known: serial, local, or an address such as tcp://host:8786"
        )
    with _client(farm, len(arguments)) as client:
        yield from _on_dask(client, task, shared, arguments)


@contextlib.contextmanager
def _client(farm: str, n_tasks: int) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    for name in ("distributed", "distributed.worker", "distributed.nanny", "distributed.scheduler"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if farm != "local":
        try:
            client = Client(farm, timeout=CONNECT_TIMEOUT, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise TableError(f"farm {farm}: no Dask scheduler answers there: {error}") from None
        with client:
            yield client
        return
    # Workers share this terminal: without this, Ctrl-C would end them before the driver has said goodbye.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if _in_main_thread() else None
    try:
        cluster = LocalCluster(
            n_workers=max(1, min(n_local_workers(), n_tasks)),
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            silence_logs=logging.CRITICAL,
        )
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    with cluster, Client(cluster, set_as_default=False) as client:
        yield client


def _in_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()


def _on_dask(
    client: Any, task: Task, shared: dict[Any, Any], arguments: Sequence[tuple]
) -> Iterator[Receipt]:
    from distributed import as_completed

    sent = {key: client.scatter(value, broadcast=True, hash=False) for key, value in shared.items()}
    waiting = iter(arguments)
    n_workers = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    running = as_completed(loop=client.loop, raise_errors=True)

    def submit_next() -> None:
        for key, *rest in waiting:
            running.add(client.submit(task, sent[key], *rest, pure=False))
            return

    for _ in range(IN_FLIGHT_PER_WORKER * n_workers):
        submit_next()
    for future in running:
        yield future.result()
        future.release()
        submit_next()
