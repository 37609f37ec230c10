"""Forget compiled kernels whose callees have changed: Numba looks at the file of the kernel itself alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path

from procure.errors import TableError
from procure.files.code import code_digest
from procure.files.write import whole_file

_ROOT = Path(__file__).parent.parent
_WITHOUT_KERNELS = ("errors", "files", "progress", "schemas", "settings", "tables", "text")
"""Rooms that hold neither kernels nor numbers that kernels read, so that a change there compiles nothing again."""


def forget_stale_kernels(root: Path = _ROOT, package: str = "procure") -> list[str]:
    """Remove the compiled kernels of files that import, directly or not, a file whose code has changed since.

    Of which code the package was when this last looked is recorded in its ``__pycache__``; without a record, kernels
    are taken for fresh. A folder that cannot be written is left alone.

    Returns
    -------
    list
        The modules whose kernels were removed.
    """
    record, stamp = root / "__pycache__" / "kernels.json", _stamp(root)
    before: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        before = dict(json.loads(record.read_text(encoding="utf-8")))
    if before.get("") == stamp:
        return []
    paths = {f"{package}.{path.parent.name}.{path.stem}": path for path in root.glob("*/*.py") if _compiles(path)}
    now = {name: code_digest(name, without=_WITHOUT_KERNELS) for name in sorted(paths)}
    stale = [name for name in now if before.get(name, now[name]) != now[name]]
    with contextlib.suppress(OSError, TableError):
        for path in (paths[name] for name in stale):
            for kernel in (path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ic]"):
                kernel.unlink(missing_ok=True)
        record.parent.mkdir(exist_ok=True)
        with whole_file(record, durable=False) as temporary:
            temporary.write_text(json.dumps({"": stamp, **now}), encoding="utf-8")
    return stale


def _compiles(path: Path) -> bool:
    source = path.read_bytes()
    return b"njit" in source or b"kernel" in source


def _stamp(root: Path) -> str:
    """Digest names, sizes and times of the sources, which takes a fiftieth of the time to read them."""
    digest = hashlib.sha256()
    for room in sorted(entry.path for entry in os.scandir(root) if entry.is_dir()):
        with os.scandir(room) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.name.endswith(".py"):
                    state = entry.stat()
                    digest.update(f"{entry.path} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()
