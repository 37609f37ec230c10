"""A fitted model's file: a zip with a JSON head, NumPy arrays without pickles, and trees as UBJSON.

Nothing in it can execute code when it is read, and a digest tells whether it is what was written. What is computed once
is kept in such files, too, with a digest of all that it was computed from.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from procure._version import __version__
from procure.errors import TableError
from procure.files.caches import code_digest
from procure.files.read import UNPACKED_BYTES, UNPACKED_RATIO
from procure.files.write import whole_file

Made = TypeVar("Made")
_WRITER = "written_by"
"""The head's key of the version of procure that wrote the file, for those who cannot read it."""


@dataclass(frozen=True)
class Archive:
    """A fitted model as plain data: ``head`` for JSON, ``arrays`` by name, ``trees`` as UBJSON by name."""

    head: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    trees: Mapping[str, bytes] = field(default_factory=dict)


def write_archive(path: str | Path, archive: Archive) -> None:
    """Write an archive, whole or not at all; the same content is the same bytes. Arrays hold no Python objects."""
    packed = io.BytesIO()
    for name, array in archive.arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"array {name} holds Python objects")
    np.savez(packed, **dict(archive.arrays))  # type: ignore[arg-type]  # NumPy's types end at allow_pickle
    parts = {"arrays.npz": packed.getvalue()}
    parts |= {f"{name}.ubj": content for name, content in archive.trees.items()}
    head = {_WRITER: __version__} | dict(archive.head)
    parts = {"head.json": _head_with_digest(head, parts)} | parts
    with whole_file(path) as temporary, zipfile.ZipFile(temporary, "w") as file:
        for name, content in parts.items():  # an entry without a date, so that equal models are equal bytes
            file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 6)


def read_archive(path: str | Path, schema: str, hint: str = "") -> Archive:
    """Read an archive of this schema; ``hint`` says what to do without one. A damaged or other one is an error."""
    path = Path(path)
    if not path.is_file():
        raise TableError(f"{path}: no such file{hint}")
    try:
        with zipfile.ZipFile(path) as file:
            _check_unpacked(file, path)
            written = file.read("head.json")
            head = json.loads(written)
            if head.get("schema") != schema:
                other = head.get(_WRITER, __version__) != __version__
                writer = f" and procure {head[_WRITER]} wrote it" if other else ""
                raise TableError(
                    f"{path}: the model's schema is {head.get('schema')!r}{writer}; procure {__version__} reads "
                    f"{schema!r}: {'use the version that wrote it, or ' if other else ''}train it again"
                )
            parts = {name: file.read(name) for name in file.namelist() if name != "head.json"}
            head.pop("content_sha256", None)
            if written != _head_with_digest(head, parts):
                raise TableError(f"{path}: damaged, or of an earlier version of procure; train it again")
            packed_arrays = io.BytesIO(parts["arrays.npz"])
            with zipfile.ZipFile(packed_arrays) as inner:
                _check_unpacked(inner, path)
            with np.load(packed_arrays, allow_pickle=False) as packed:
                arrays = {name: packed[name] for name in packed.files}
            trees = {n.removesuffix(".ubj"): parts[n] for n in parts if n.endswith(".ubj")}
    except TableError:
        raise
    except Exception:  # a damaged file fails in zipfile, zlib, json or NumPy, each in its own way
        raise TableError(
            f"{path}: not a whole model file of this version of procure: it is another kind of file, or damaged; "
            "name another, or train it again"
        ) from None
    head.pop(_WRITER, None)
    return Archive(head, arrays, trees)


def _head_with_digest(head: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    digest = hashlib.sha256(json.dumps(dict(head)).encode())
    for name, content in sorted(parts.items()):
        digest.update(f"\n{name} {len(content)}\n".encode())
        digest.update(content)
    return json.dumps({"content_sha256": digest.hexdigest()} | dict(head)).encode()


def _check_unpacked(file: zipfile.ZipFile, path: Path) -> None:
    """Refuse a zip file whose parts are much larger than it; a part never unpacks to more than its head says."""
    most = max(UNPACKED_BYTES, UNPACKED_RATIO * path.stat().st_size)
    unpacked = sum(part.file_size for part in file.infolist())
    if unpacked > most:
        raise TableError(
            f"{path}: unpacks to {unpacked:,} bytes; a model file of this size, to {most:,} at most; train it again"
        )


def keep(
    folder: Path | None,
    name: str,
    inputs: Sequence[object],
    make: Callable[[], Made],
    pack: Callable[[Any], Archive],
    unpack: Callable[[Archive], Any],
    schema: str = "kept-arrays-1",
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


def load_booster(content: bytes, source: str) -> Any:
    """Return the `xgboost.Booster` that some bytes hold, trusted as XGBoost trusts them; that it cannot is an error."""
    import xgboost

    found = xgboost.Booster({"nthread": 1, "verbosity": 0})
    try:
        found.load_model(bytearray(content))
        found.save_config()  # makes XGBoost look at its settings now
    except (ValueError, OverflowError):  # XGBoost's own error is a ValueError
        raise TableError(
            f"{source}: the model file is damaged, or written by another XGBoost than {installed_xgboost()}; "
            "train it again"
        ) from None
    return found


def installed_xgboost() -> str:
    """Return the version of XGBoost, whichever of its builds is installed."""
    for name in ("xgboost", "xgboost-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of unknown version"
