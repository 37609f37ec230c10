"""What is computed once and kept in a folder, with a digest of all that it was computed from."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from procure.errors import TableError
from procure.files.archive import Archive, read_archive, write_archive
from procure.files.code import code_digest

Made = TypeVar("Made")
_SCHEMA = "kept-arrays-1"


def keep(
    folder: Path | None,
    name: str,
    inputs: Sequence[object],
    make: Callable[[], Made],
    pack: Callable[[Any], Archive],
    unpack: Callable[[Archive], Any],
    schema: str = _SCHEMA,
) -> Made:
    """Return what was kept of the same inputs (arrays, and what `repr` writes in full), or make it and keep it.

    No folder, or one that cannot be written, keeps nothing, nor is None kept. What was kept under the name of other
    inputs, by other code of the module of ``make`` or of what that imports, or cannot be unpacked, is replaced.
    """
    if folder is None:
        return make()
    digest = hashlib.sha256(code_digest(make.__module__).encode())
    for one in inputs:
        if isinstance(one, np.ndarray):
            digest.update(f"\n{one.dtype} {one.shape} ".encode() + np.ascontiguousarray(one).tobytes())
        else:
            digest.update(f"\n{one!r}".encode())
    path = folder / f"{name}.zip"
    with contextlib.suppress(TableError, KeyError, ValueError, TypeError):
        found = read_archive(path, schema)
        if found.head["digest"] == digest.hexdigest():
            return unpack(found)
    made = make()
    if made is not None:
        # Results may be another user's, in a folder that only they can write to: then nothing is kept.
        with contextlib.suppress(TableError, OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            packed = pack(made)
            head = {**packed.head, "schema": schema, "digest": digest.hexdigest()}
            write_archive(path, Archive(head, packed.arrays, packed.trees))
    return made


def keep_array(folder: Path | None, name: str, inputs: Sequence[object], make: Callable[[], Made]) -> Made:
    """Do as `keep` with an array."""
    return keep(folder, name, inputs, make, lambda one: Archive({}, {"kept": one}), lambda kept: kept.arrays["kept"])
