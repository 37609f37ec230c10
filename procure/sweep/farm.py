"""Where batches are computed: in this process, on local workers, from a queue, on a Dask that runs.

With `procure.sweep.connect` the one door to Dask. Whatever the farm, a task writes its own part and returns a small
receipt, so that nothing computed is lost with a worker. Dask gives a batch to another worker where one dies, and says
so after the third; see `procure.sweep.runner.SweepWork` for what becomes of it then.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from procure._version import __version__
from procure.errors import TableError
from procure.progress import silent
from procure.sweep.connect import FarmOptions, Receipt, Task, check_farm, connect
from procure.sweep.runner import SweepWork

IN_FLIGHT_PER_WORKER = 4
MOST_FRUITLESS = 10
"""This many workers, plus three times as many as run at once, may end without a finished batch."""
TICK, SAY_AFTER, SAY_AGAIN = 1.0, 30.0, 300.0


def run_tasks(
    farm: str,
    task: Task,
    work: SweepWork,
    options: FarmOptions | None = None,
    note: Callable[[str], None] = silent,
) -> Generator[tuple[Any, Receipt] | None, None, None]:
    """Run ``task(shared, *arguments)`` for each batch of the work.

    ``farm`` is ``serial``, ``local``, ``slurm``, ``pbs``, ``lsf``, ``sge``, or a Dask scheduler's address, e.g.
    ``tcp://host:8786``. Yields a batch and its receipt as they come; None about once a second while there is none. An
    unknown farm, no answer at the address, no worker in time, and a task's own error are a `TableError`.
    """
    options = options or FarmOptions()
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
        workers = Workers(client, options, note, explain)
        try:
            for receipt in _give_out(workers, task, work):
                _go_on()
                yield receipt
        except (OSError, TimeoutError, CancelledError, ClosedClientError) as error:  # Dask's for a lost connection
            raise TableError(f"the Dask scheduler went away: {error}; what was computed is kept") from None


def _give_out(workers: Workers, task: Task, work: SweepWork) -> Generator[tuple[Any, Receipt] | None, None, None]:
    """Keep a few batches per worker in flight; what many batches share goes out once, and again where it is lost."""
    from distributed import wait

    client, running, shared = workers.client, dict[Any, Any](), dict[tuple[str, str], Any]()
    while True:
        workers.look()
        work.n_workers = workers.most
        while len(running) < workers.window and (batch := work.take(not running)) is not None:
            key = work.key(batch)
            if key not in shared:
                for old in set(shared) - {work.key(each) for each in running.values()}:
                    del shared[old]
                    work.forget(old)
                shared[key] = client.submit(_same, work.sent(key), pure=False)
            given = client.submit(_on_worker, __version__, task, shared[key], *work.arguments(batch), pure=False)
            running[given] = batch
        if not running:
            return
        try:
            with client.as_current():
                done = wait(list(running), timeout=TICK, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            done = set()
            yield None
        for future in done:
            receipt = _receipt(future)
            workers.succeed()
            if receipt.died:
                shared.clear()
            yield running.pop(future), receipt


def _receipt(future: Any) -> Receipt:
    """Return what a task gave, or that each worker which tried it died."""
    from distributed import KilledWorker

    if future.status != "error":
        return future.result()
    error = future.exception()
    if isinstance(error, KilledWorker):
        return Receipt(0, 0.0, died=True)
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
        raise TableError(
            f"the worker on {socket.gethostname()} runs procure {__version__}, this sweep {version}; give all workers "
            "one version. What was computed is kept"
        )
    return task(*arguments)


class Workers:
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
        self.most = self._n = 0
        self._options, self._note, self._explain = options, note, explain
        self._looked = self._said = -1e9
        self._none_since: float | None = None
        self._fruitless: set[str] = set()

    @property
    def window(self) -> int:
        """How many batches may be in flight."""
        return IN_FLIGHT_PER_WORKER * max(1, self._n)

    def look(self) -> None:
        """Count the workers, at most once a tick; say why there are none.

        It is an error that none comes in time, none can come, or those that come finish nothing.
        """
        now = time.monotonic()
        if now - self._looked < TICK:
            return
        self._looked = now
        there = self.client.nthreads()
        self._n = len(there)
        self.most = max(self.most, self._n)
        self._fruitless |= set(there)
        if len(self._fruitless) > MOST_FRUITLESS + 3 * self.most:
            raise TableError(
                f"{len(self._fruitless)} workers came, and none has finished a batch: is their walltime long "
                "enough, and do they run the same procure as this process? Their logs say more"
            )
        if there:
            self._none_since = None
            return
        self._none_since = self._none_since if self._none_since is not None else now
        without = now - self._none_since
        last = self._options.wait and without >= self._options.wait
        if last or (without >= SAY_AFTER and now - self._said >= SAY_AGAIN):
            self._said = now
            words, hopeless = self._explain()
            text = f"no worker for {without:.0f} s; {words}"
            if last or hopeless:
                raise TableError(f"{text}. What was computed is kept")
            self._note(text)

    def succeed(self) -> None:
        """Note that a batch was finished, or is known to be deadly."""
        self._fruitless = set()


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

    Of the ``last`` thing that a process does: signals need not mean again what they meant before.
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
