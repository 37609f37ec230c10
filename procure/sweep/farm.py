"""Drive a sweep: compute what is missing, in this process, on local workers, from a queue, or on a Dask that runs.

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
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from procure._version import __version__
from procure.errors import TableError
from procure.progress import silent, step
from procure.study import Plan, Study, load_plan, load_study
from procure.sweep import store
from procure.sweep.connect import FarmOptions, check_farm, connect, n_local_workers
from procure.sweep.parts import Batch, Receipt, batches, kernel_seconds, write_part
from procure.sweep.runner import Bench, SharedBench, SweepWork, opened, simulate_rows
from procure.text import counted

IN_FLIGHT_PER_WORKER = 4
MOST_FRUITLESS = 10
"""This many workers, plus three times as many as run at once, may end without a finished batch."""
TICK, SAY_AFTER, SAY_AGAIN = 1.0, 30.0, 300.0


def run_tasks(
    farm: str, work: SweepWork, options: FarmOptions | None = None, note: Callable[[str], None] = silent
) -> Generator[tuple[Batch, Receipt] | None, None, None]:
    """Compute each batch of the work on a farm, see `run_sweep`.

    Yields a batch and its receipt as they come; None about once a second while there is none. An unknown farm, no
    answer at the address, no worker in time, and a task's own error are a `TableError`.
    """
    if farm == "serial":
        work.n_workers = 1
        while (batch := work.take()) is not None:
            _go_on()
            yield batch, compute_part(work.bench(batch), *work.arguments(batch))
        return
    check_farm(farm)
    from distributed.client import ClosedClientError

    options = options or FarmOptions()
    with one_interrupt(), connect(farm, options, note) as (client, explain):
        try:
            for receipt in _give_out(Workers(client, options, note, explain), work):
                _go_on()
                yield receipt
        except (OSError, TimeoutError, CancelledError, ClosedClientError) as error:  # Dask's for a lost connection
            raise TableError(f"the Dask scheduler went away: {error}; what was computed is kept") from None


def _give_out(workers: Workers, work: SweepWork) -> Generator[tuple[Batch, Receipt] | None, None, None]:
    """Keep a few batches per worker in flight; what many batches share goes out once, and again where it is lost."""
    from distributed import wait

    client, running, shared = workers.client, dict[Any, Batch](), dict[tuple[str, str], Any]()
    while True:
        workers.look()
        work.n_workers = workers.most
        while len(running) < workers.window and (batch := work.take(not running)) is not None:
            if batch.pair not in shared:
                for old in set(shared) - {each.pair for each in running.values()}:
                    del shared[old]
                    work.forget(old)
                shared[batch.pair] = client.submit(_same, work.sent(batch.pair), pure=False)
            given = client.submit(_on_worker, __version__, shared[batch.pair], *work.arguments(batch), pure=False)
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


def _on_worker(
    version: str, shared: SharedBench, package_ids: list[str], counts: np.ndarray, path: Path, fingerprint: str
) -> Receipt:
    """Compute a batch, unless a worker that died before its receipt arrived has written the part."""
    if version != __version__:
        raise TableError(
            f"the worker on {socket.gethostname()} runs procure {__version__}, this sweep {version}; give all workers "
            "one version. What was computed is kept"
        )
    if path.exists():
        return Receipt(len(package_ids), kernel_seconds(path))
    return compute_part(opened(shared), package_ids, counts, path, fingerprint)


class Workers:
    """The workers of a Dask as the driver sees them: how many there are, and since when there are none."""

    def __init__(
        self, client: Any, options: FarmOptions, note: Callable[[str], None], explain: Callable[[], tuple[str, bool]]
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
        """Count the workers, at most once a tick; that none comes, or all finish nothing, is an error."""
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
    """Let the first Ctrl-C, TERM or HUP end the sweep, and no further one disturb that; ``last``: of this process."""
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


class SweepSummary(NamedTuple):
    """What a sweep did."""

    n_runs: int
    n_computed: int
    n_failed: int
    seconds: float
    kernel_seconds: float
    n_workers: int
    results: Path


def compute_part(bench: Bench, package_ids: list[str], counts: np.ndarray, path: Path, fingerprint: str) -> Receipt:
    """Simulate one batch and write its part: what a worker does."""
    rows, seconds = simulate_rows(bench, package_ids, counts)
    write_part(path, rows, fingerprint, seconds)
    return Receipt(len(rows), seconds)


def run_sweep(
    study: str | Path | Study | Plan,
    farm: str = "local",
    *,
    note: Callable[[str], None] = silent,
    options: FarmOptions | None = None,
    shard: tuple[int, int] | None = None,
) -> SweepSummary:
    """Compute the runs of a study that have no result yet; all of them are in one table afterwards.

    Parameters
    ----------
    study
        A study, the path of its file, or its plan.
    farm
        ``serial``, ``local``, ``slurm``, ``pbs``, ``lsf``, ``sge``, or a Dask scheduler's address, e.g.
        ``tcp://host:8786``; the table is the same whichever it is.
    note
        Called with what the user should know.
    options
        How to obtain the farm's workers.
    shard
        Number and count, as in 7 of 32: compute only these runs, and leave their parts for
        `procure.sweep.store.merge`.

    Raises
    ------
    TableError
        The folder holds results of other inputs, another driver holds it, the farm is not there, or
        the disk is full. Parts that were written stay and are not computed again.

    Examples
    --------
    >>> import procure
    >>> procure.run_sweep("study.toml", "serial").n_failed
    0
    """
    began = time.perf_counter()
    plan = study if isinstance(study, Plan) else load_plan(load_study(study))
    options = replace(options or FarmOptions(), folder=plan.study.folder)
    with store.locked(plan.study, shard):
        found, notes = store.open_folder(plan)
        for text in notes:
            note(text)
        work = SweepWork(plan, batches(plan, found.done(plan), shard), note)
        if farm == "local":
            options = replace(options, jobs=max(1, min(n_local_workers(), work.n_batches)))
        if work.n_batches:
            with (
                step("simulating", work.n_runs, "run") as one,
                closing(work),
                closing(run_tasks(farm, work, options, note)) as receipts,
            ):
                for given in receipts:
                    if given is not None:
                        work.put(*given)
                    one.done = work.n_done
            found = store.stored(plan)
        path = plan.study.folder / store.PARTS
        if shard is None:
            path = store.compact(plan, found)
        failed = found.failed
        for one in failed.slice(0, 1).to_pylist():
            first = f"{one['package_id']} on {one['workload']} under {one['policy']}: {one['reason']}"
            note(f"careful: {len(failed):,} of {counted(len(found.table), 'run')} failed; the first: {first}")
    return SweepSummary(
        n_runs=len(found.table),
        n_computed=work.n_done,
        n_failed=len(failed),
        seconds=time.perf_counter() - began,
        kernel_seconds=work.kernel_seconds,
        n_workers=work.n_workers,
        results=path,
    )
