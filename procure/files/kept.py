"""Arrays that are computed once and kept in a folder, with a digest of all that they were computed from."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from procure._version import __version__
from procure.errors import TableError
from procure.files.archive import Archive, read_archive, write_archive

_SCHEMA = "kept-arrays-1"


def keep_array(
    folder: Path | None, name: str, inputs: Sequence[object], make: Callable[[], np.ndarray | None]
) -> np.ndarray | None:
    """Return an array that was kept of the same inputs, or make it and keep it.

    Parameters
    ----------
    folder
        None keeps nothing, nor does a folder that cannot be written.
    name
        Of the file, without its ending; what was kept there of other inputs is replaced.
    inputs
        All that the array depends on: arrays, and what `repr` writes in full.
    make
        Computes it; None is not kept.
    """
    if folder is None:
        return make()
    digest = hashlib.sha256(__version__.encode())
    for one in inputs:
        if isinstance(one, np.ndarray):
            digest.update(f"\n{one.dtype} {one.shape} ".encode() + np.ascontiguousarray(one).tobytes())
        else:
            digest.update(f"\n{one!r}".encode())
    path = folder / f"{name}.zip"
    with contextlib.suppress(TableError, KeyError):
        found = read_archive(path, _SCHEMA)
        if found.head["digest"] == digest.hexdigest():
            return found.arrays["kept"]
    made = make()
    if made is not None:
        # Results may be another user's, in a folder that only they can write to: then nothing is kept.
        with contextlib.suppress(TableError, OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_archive(path, Archive({"schema": _SCHEMA, "digest": digest.hexdigest()}, {"kept": made}))
    return made
