"""What a sweep and a farm say to each other: tasks, receipts, and how to obtain workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import Field

from procure.errors import TableError
from procure.settings import MOST_PROCESSES

QUEUES = ("slurm", "pbs", "lsf", "sge")


class Receipt(NamedTuple):
    """What a task returns: how many runs it made and the kernel seconds that they took.

    ``died``: none; each worker that tried it died.
    """

    n_runs: int
    kernel_seconds: float
    died: bool = False


Task = Callable[..., Receipt]


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
