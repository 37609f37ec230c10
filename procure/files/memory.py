"""Will a job table fit into memory? Said before it is read, since a machine without memory left says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from procure.errors import TableError

OF_PROCESS, OF_LOGGED, OF_JOB = 250_000_000, 560, 1_000
"""Bytes that a command takes, and for each job while it reads a log, and while it simulates or explains waits; measured
with 10⁷ jobs of up to 256 tasks, the last before tables were let go: 600 do where no schedule is kept or written."""
CERTAIN = 1.5
"""Times the whole memory: jobs of one node take two thirds of that, and still do not fit."""
_ROW = 70
_PACKED = {".gz", ".bz2", ".xz", ".zst"}
_PACKED_RATIO = 8


def memory_there() -> tuple[int, int]:
    """Return the bytes of memory that are free, and all: the machine's, or less where a cgroup such as Slurm's says."""
    machine = psutil.virtual_memory()
    both = [(machine.available, machine.total), *_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))]
    return min(free for free, _ in both), min(total for _, total in both)


def _limits(own: Path, root: Path) -> Iterator[tuple[int, int]]:
    """Return what is free of each limit of memory that a process is under, and the limit; none outside Linux."""
    for line in own.read_text().splitlines() if own.is_file() else ():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            top, most, used = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        elif not controllers:
            top, most, used = root, "memory.max", "memory.current"
        else:
            continue
        folder = top / path.lstrip("/")
        for one in (folder, *folder.parents):
            try:
                limit = int((one / most).read_text())
                yield max(0, limit - int((one / used).read_text())), limit
            except (OSError, ValueError):  # no such controller here, or no limit: "max"
                continue


def jobs_in(path: Path) -> int:
    """Return how many jobs a table or log holds, by its size unless it is Parquet; 0 where that cannot be told."""
    try:
        if path.suffix == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        return path.stat().st_size * (_PACKED_RATIO if path.suffix in _PACKED else 1) // _ROW if path.is_file() else 0
    except (OSError, ValueError):  # what is wrong with it says who reads it
        return 0


def lacking(what: str, n: int, each: int, remedy: str, processes: int = 1) -> str | None:
    """Say that processes with ``n`` jobs each, of so many bytes, need more memory than is free; None = they do not.

    That they need more than there is, by far, is an error.
    """
    free, total = memory_there()
    need = processes * (OF_PROCESS + n * each)
    if need <= free:
        return None
    fit = max(0, free // processes - OF_PROCESS) // each
    said = (
        f"{what} need about {need / 1e9:.1f} GB of memory, and {free / 1e9:.1f} of {total / 1e9:.1f} GB are free, "
        f"enough for {fit:,} jobs; {remedy}, or a machine with more memory"
    )
    if need > CERTAIN * total:
        raise TableError(said)
    return said
