"""Obtain workers: what farms are called and told, and Dask's clients: local, of a batch system, or running already."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from procure.errors import TableError
from procure.settings import MOST_PROCESSES
from procure.sweep.store import locked_workers
from procure.text import clock_seconds

QUEUES = ("slurm", "pbs", "lsf", "sge")


Processes = Annotated[int, Field(ge=1, le=MOST_PROCESSES)]


@dataclass(frozen=True)
class FarmKeys:
    """What a user may say of how to obtain workers. Options that a farm does not use are ignored.

    ``cores`` and ``memory`` (text such as ``"8 GB"``) are those of one queued job, ``walltime`` its
    limit as the queue writes it, ``interface`` the network interface on which scheduler and workers
    listen; what is None is as the site's file says.
    ``wait`` is after how many seconds without any worker
    the sweep gives up, 0 = never.
    """

    jobs: Processes = 1
    cores: Processes | None = None
    memory: str | None = None
    walltime: str | None = None
    partition: str | None = None
    account: str | None = None
    interface: str | None = None
    wait: Annotated[float, Field(ge=0)] = 0
    REMOVED: ClassVar[dict[str, str]] = {
        "dashboard": "how far a sweep is, it says itself; leave it out",
        "scheduler_file": "give the address in it: --farm tcp://HOST:PORT",
    }


@dataclass(frozen=True)
class FarmOptions(FarmKeys):
    """How to obtain workers: ``folder`` takes logs, ``security`` joins workers at an address that sweeps share."""

    folder: Path = Path()
    security: Any = None


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


CONNECT_TIMEOUT = "10s"
_CLASSES = dict(zip(QUEUES, ("SLURMCluster", "PBSCluster", "LSFCluster", "SGECluster"), strict=True))
_ONE_THREAD = [f"export {name}_NUM_THREADS=1" for name in ("OMP", "MKL", "OPENBLAS")]

_LOOPBACK = "127.0.0.1:0"
_NO_PAGES = {"dashboard": False, "dashboard_address": _LOOPBACK}
"""Dask's HTTP servers cannot be left out: they listen on loopback, without any page."""
_QUIET = {
    "worker.http.routes": [],
    "worker.profile.enabled": False,
    "worker.memory.monitor-interval": "500ms",
    "admin.tick.interval": "1s",
    "admin.system-monitor.interval": "10s",
}
"""No page shows what a worker learns of itself, 62 times a second: two thirds of what Dask costs, with 8 on a node."""
_SCRATCH = [
    *(f"export DASK_DISTRIBUTED__{key.upper().replace('.', '__').replace('-', '_')}='{_QUIET[key]}'" for key in _QUIET),
    'export DASK_TEMPORARY_DIRECTORY="$(mktemp -d)"',
    "trap 'rm -rf \"$DASK_TEMPORARY_DIRECTORY\"' EXIT",
]
"""Left to itself, Dask takes ``dask-scratch-space`` from whoever has made it in a public folder."""

_MUTE = "import os\nos.dup2(os.open(os.devnull, os.O_WRONLY), 2)\n"
"""A local worker's first lines: Dask prints a traceback where a worker is closed while it starts."""

_LONGEST_FOLDER = 80
"""Bytes of multiprocessing's own folder; with ``/listener-…`` a path of a socket, 103 at most."""

Explain = Callable[[], tuple[str, bool]]


@contextlib.contextmanager
def connect(farm: str, options: FarmOptions, note: Callable[[str], None]) -> Iterator[tuple[Any, Explain]]:
    """Give a Dask client, and a function that says why there is no worker and whether that is final; else an error."""
    import dask
    import distributed  # noqa: F401 - brings its settings' defaults

    for name in ("", ".client", ".worker", ".nanny", ".scheduler"):
        logging.getLogger(f"distributed{name}").setLevel(logging.CRITICAL)
    how = _local if farm == "local" else _queue if farm in QUEUES else _address
    # A task is given up with its third worker, and a worker that is silent for a minute counts as lost.
    settings: dict[str, Any] = {
        "distributed.scheduler.allowed-failures": 2,
        # A workload goes out once for all batches; Dask would warn of it as of many small tasks.
        "distributed.admin.large-graph-warning-threshold": "4 GB",
        **{f"distributed.{key}": value for key, value in _QUIET.items()},
        "distributed.scheduler.http.routes": [],
    }
    if dask.config.get("distributed.scheduler.worker-ttl", None) in (None, "5 minutes"):
        settings["distributed.scheduler.worker-ttl"] = "60s"
    with contextlib.ExitStack() as stack:
        if how is not _address:
            base = dask.config.get("temporary-directory", None)
            made = tempfile.TemporaryDirectory(prefix="procure-", dir=base, ignore_cleanup_errors=True)
            settings["temporary-directory"] = stack.enter_context(made)
        stack.enter_context(dask.config.set(settings))
        yield stack.enter_context(how(farm, options, note))


@contextlib.contextmanager
def _local(farm: str, options: FarmOptions, note: Callable[[str], None]) -> Iterator[tuple[Any, Explain]]:
    """Start workers here that nobody else can speak to: loopback is every local user's, so all ports want keys."""
    import dask
    from distributed import Client, Nanny, Scheduler, SpecCluster
    from distributed.security import Security
    from distributed.utils import get_mp_context

    n_workers = max(1, min(n_local_workers(), options.jobs))
    common = {"host": "127.0.0.1", "protocol": "tls://", "security": Security.temporary()}
    of_worker = {"nthreads": 1, "memory_limit": 1.0 / n_workers, "silence_logs": logging.CRITICAL, "preload": [_MUTE]}
    worker = {"cls": Nanny, "options": common | of_worker | _NO_PAGES}
    with contextlib.ExitStack() as stack:
        forked = _can_fork()
        method = "forkserver" if forked else "spawn"
        stack.enter_context(dask.config.set({"distributed.worker.multiprocessing-method": method}))
        if forked:
            get_mp_context().set_forkserver_preload(["distributed", "procure.sweep.runner"])
        with _without_interrupts():
            try:
                cluster = SpecCluster(
                    scheduler={"cls": Scheduler, "options": common | _NO_PAGES | {"port": 0}},
                    worker=worker,
                    workers=dict.fromkeys(range(n_workers), worker),
                    security=common["security"],
                    silence_logs=logging.CRITICAL,
                )
            except (RuntimeError, OSError) as error:
                why = str(error).rstrip(".")
                raise TableError(f"farm local: no worker could start: {why}; --farm serial computes here") from None
            stack.enter_context(cluster)
        client = stack.enter_context(Client(cluster, set_as_default=False))
        cluster.adapt(minimum=n_workers, maximum=n_workers)  # replaces a worker whose nanny has ended too
        yield client, lambda: ("no local worker could start; is there memory left?", False)


def _can_fork() -> bool:
    """Say whether workers may be forked from a process that has imported everything.

    Not before Python 3.11.1, where other users of the machine could speak to it (CVE-2022-42919); nor in a temporary
    folder so deep that its socket's path is longer than Unix takes.
    """
    return sys.version_info >= (3, 11, 1) and len(get_temp_dir().encode()) <= _LONGEST_FOLDER


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes that Ctrl-C on this terminal will not end before the driver has; heed it here at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    resource_tracker.ensure_running()  # whichever thread starts it lets interrupts through from then on
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # threads and processes inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)  # one that is pending is in `came` now
        signal.signal(signal.SIGINT, handler)
    if came:
        signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def _address(farm: str, options: FarmOptions, note: Callable[[str], None]) -> Iterator[tuple[Any, Explain]]:
    from distributed import Client

    if not farm.startswith(("tls://", "wss://")):
        note(f"warning: {farm} has no TLS: whoever reaches its port can run code as you; see docs/how-to/hpc.md")
    try:
        client = Client(farm, timeout=CONNECT_TIMEOUT, set_as_default=False, security=options.security)
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        raise TableError(f"farm {farm}: no Dask scheduler answers there: {error}") from None
    with client:
        yield client, lambda: (f"none has joined the Dask scheduler at {farm}", False)


@contextlib.contextmanager
def _queue(farm: str, options: FarmOptions, note: Callable[[str], None]) -> Iterator[tuple[Any, Explain]]:
    from distributed import Client

    name = job_name(options.folder)
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked_workers(options.folder))
        _cancel(farm, name)
        # However this ends, and whatever Dask has lost sight of: no job of this study is left.
        stack.callback(_cancel, farm, name)
        cluster = stack.enter_context(make_cluster(farm, options))
        words = refusal(farm, cluster.job_script())
        if words:
            raise TableError(f"farm {farm}: a worker's job is refused: {words}")
        note(f"{options.jobs} jobs named {name}; their output goes to {options.folder / 'logs'}")
        cluster.adapt(minimum_jobs=options.jobs, maximum_jobs=options.jobs)
        client = stack.enter_context(Client(cluster, set_as_default=False))
        yield client, lambda: _explain(farm, name, cluster.job_script())


def job_name(folder: Path) -> str:
    """Name the jobs of a study's folder: whoever holds its lock may cancel what bears this name."""
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]
    return f"procure-{folder.name[:40]}-{digest}"


def make_cluster(farm: str, options: FarmOptions) -> Any:
    """Make dask-jobqueue's cluster; what is not given is as ``jobqueue.yaml`` says, else one core and 2 GB."""
    import dask
    from distributed import Scheduler
    from distributed.security import Security

    dask_jobqueue = _import_dask_jobqueue(farm)

    def site(key: str) -> Any:
        return dask.config.get(f"jobqueue.{farm}.{key}", None)

    cores, walltime = options.cores or site("cores") or 1, options.walltime or site("walltime")
    arguments = [*(site("worker-extra-args") or ()), "--nworkers", str(cores)]
    arguments += ["--no-dashboard", "--dashboard-address", _LOOPBACK]
    arguments += [] if walltime is None else lifetime_arguments(str(walltime), farm)
    of_site = dict(site("scheduler-options") or {})
    if options.interface:
        of_site = {key: value for key, value in of_site.items() if key not in ("host", "interface")}
    logs = options.folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    logging.getLogger("dask_jobqueue").setLevel(logging.CRITICAL)
    try:
        return getattr(dask_jobqueue, _CLASSES[farm])(
            cores=cores,
            processes=cores,
            memory=options.memory or site("memory") or "2 GB",
            walltime=walltime,
            queue=options.partition,
            **{"account" if farm in ("slurm", "pbs") else "project": options.account},
            job_name=job_name(options.folder),
            log_directory=str(logs.resolve()),
            worker_extra_args=arguments,
            job_script_prologue=[*(site("job-script-prologue") or ()), *_ONE_THREAD, *_SCRATCH],
            interface=options.interface,
            scheduler_cls=Scheduler,
            scheduler_options=of_site | _NO_PAGES,
            silence_logs=logging.CRITICAL,
            security=Security.temporary(),
            protocol="tls://",
            shared_temp_directory=str(logs.resolve()),
        )
    except (ValueError, OSError, RuntimeError) as error:
        raise TableError(f"farm {farm}: {str(error).splitlines()[0]}") from None


def _import_dask_jobqueue(farm: str) -> Any:
    before = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ImportError:
        raise TableError(f"farm {farm} needs dask-jobqueue; install it with: pip install 'procure-hpc[hpc]'") from None
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)  # on import it makes Ctrl-C a silent exit with code 0
    return dask_jobqueue


_NO_SECONDS = {"slurm": r"\d+", "pbs": "(?!)", "sge": "(?!)"}
"""The wall times that end in minutes, by farm."""


def lifetime_arguments(walltime: str, farm: str = "") -> list[str]:
    """Let a worker leave before its job's limit, and not all workers at one moment.

    ``walltime`` is read as the batch system reads it: LSF's ``HH:MM`` and minutes; Slurm's ``MM:SS`` and minutes; of
    PBS and SGE a bare number is seconds.
    """
    without_seconds = re.fullmatch(_NO_SECONDS.get(farm, r"\d+(:\d+)?"), walltime)
    try:
        seconds = int(clock_seconds(f"{walltime}:00" if without_seconds else walltime))
    except ValueError:
        seconds = 0
    if seconds <= 0:
        raise TableError(f"walltime {walltime!r} was given; write hours:minutes:seconds, e.g. 1:00:00")
    stagger = min(150, seconds // 10)
    return ["--lifetime", f"{seconds - 2 * stagger}s", "--lifetime-stagger", f"{stagger}s"]


def _run(*command: str) -> subprocess.CompletedProcess[str] | None:
    """Ask the batch system something; None if it does not answer. Signals to this process spare it."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, start_new_session=True)
    except (OSError, subprocess.TimeoutExpired):
        return None


def _cancel(farm: str, name: str) -> None:
    if farm == "slurm":
        _run("scancel", f"--user={getpass.getuser()}", f"--name={name}")


def refusal(farm: str, script: str) -> str:
    """Return the batch system's words if it would refuse a job; empty if it would take it."""
    if farm != "slurm":
        return ""
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as stream:
        stream.write(script)
        stream.flush()
        asked = _run("sbatch", "--test-only", stream.name)
    if asked is None:
        return "sbatch does not answer; is this a login node?"
    return " ".join(asked.stderr.split()) if asked.returncode else ""


def _explain(farm: str, name: str, script: str) -> tuple[str, bool]:
    if farm != "slurm":
        return f"look at the {farm} queue for jobs named {name}", False
    asked = _run("squeue", f"--user={getpass.getuser()}", f"--name={name}", "-h", "-o", "%T (%r), start %S")
    if asked is None or asked.returncode:
        return "Slurm does not answer", False
    states = sorted(set(asked.stdout.splitlines()))
    if states:
        return f"Slurm says of {len(asked.stdout.splitlines())} jobs named {name}: {', '.join(states)}", False
    words = refusal(farm, script)
    return f"no job named {name} is in Slurm's queue: {words or 'they ended; look at their logs'}", bool(words)
