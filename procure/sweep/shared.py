"""How do all workers of a node share one workload? Its arrays stand in a file that each maps, not in every process."""

from __future__ import annotations

import mmap
import pickle
import socket
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from procure.errors import TableError
from procure.files import whole_file
from procure.sweep.runner import Bench

_ALIGNED = 64


class SharedBench(NamedTuple):
    """A bench without its arrays, some kilobytes that a worker is sent, and where they stand in a file."""

    path: Path
    bounds: tuple[tuple[int, int], ...]
    rest: bytes


def share(bench: Bench, path: Path) -> SharedBench:
    """Write the arrays of a bench into a new file that all workers see; a full disk is a `TableError`."""
    ready = replace(bench.ready, profiles=np.ascontiguousarray(bench.ready.profiles))  # else it is no buffer
    if bench.bits is not None:  # no policy will ask for the job table, mostly text, or for the profiles
        ready = replace(ready, table=None, profiles=ready.profiles[:, :0])
    _ = ready.usage  # kept in it from now on
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(replace(bench, ready=ready), protocol=5, buffer_callback=buffers.append)
    bounds = []
    with whole_file(path, durable=False) as temporary, temporary.open("wb") as stream:
        for raw in (each.raw() for each in buffers):
            stream.write(bytes(-stream.tell() % _ALIGNED))
            bounds.append((stream.tell(), raw.nbytes))
            stream.write(raw)
        stream.write(bytes(_ALIGNED))  # a file without a byte cannot be mapped
    return SharedBench(path, tuple(bounds), rest)


@lru_cache(maxsize=1)
def opened(shared: SharedBench) -> Bench:
    """Return the bench, its arrays mapped from the file: memory that all processes of a node have in common."""
    try:
        with shared.path.open("rb") as stream:
            # Pages that somebody writes to would become that process's own; kernels want arrays that may be written.
            view = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY))
    except OSError as error:
        raise TableError(
            f"{shared.path}: the worker on {socket.gethostname()} cannot read it: {error.strerror}; let `results` in "
            "the study file name a folder that all workers see"
        ) from None
    return pickle.loads(shared.rest, buffers=[view[at : at + n] for at, n in shared.bounds])
