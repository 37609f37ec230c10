"""A digest of the code that a result depends on, so that what was kept is made again when that code changes."""

from __future__ import annotations

import functools
import hashlib
import re
import sys
from collections.abc import Collection
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_IMPORT = re.compile(r"^\s*(?:from (procure[\w.]*) import (\([^)]*\)|[^\n]*)|import (procure[\w.]*))", re.MULTILINE)
_SAYS_NOTHING = re.compile(r'^[ \t]*"""[\s\S]*?"""|^[ \t]*#.*$', re.MULTILINE)


def code_digest(*modules: str, without: Collection[str] = ()) -> str:
    """Return a digest of modules of procure and of all modules of it that they import, directly or not.

    Comments, docstrings and blank lines do not count, nor does what is imported by a name in a string. A module of
    another package counts, but not what it imports from other packages, nor the rooms of ``without``.
    """
    seen: set[Path] = set()
    for module in modules:
        source = getattr(sys.modules.get(module), "__file__", None)
        if source is not None and not module.startswith("procure."):
            _add_file(Path(source), seen, without)
        _add_module(module, seen, without)
    digest = hashlib.sha256()
    for path in sorted(seen):
        digest.update(_read(path)[0])
    return digest.hexdigest()[:16]


def _add_module(module: str, seen: set[Path], without: Collection[str]) -> None:
    if module.partition(".")[2].partition(".")[0] in without:
        return
    path = _path_of(module)
    if path is not None:
        _add_file(path, seen, without)


@functools.cache
def _path_of(module: str) -> Path | None:
    """Return the file of a module of procure; None of another."""
    if not module.startswith("procure."):
        return None
    place = _ROOT.joinpath(*module.split(".")[1:])
    return next((one for one in (place.with_suffix(".py"), place / "__init__.py") if one.is_file()), None)


def _add_file(path: Path, seen: set[Path], without: Collection[str]) -> None:
    if path not in seen:
        seen.add(path)
        for name in _read(path)[1]:
            _add_module(name, seen, without)


@functools.cache
def _read(path: Path) -> tuple[bytes, tuple[str, ...]]:
    """Return a digest of a file's code, and the modules of procure that it may import."""
    text = path.read_text(encoding="utf-8")
    names: list[str] = []
    for package, imported, module in _IMPORT.findall(text):
        names += [module] if module else [package, *(f"{package}.{name}" for name in re.findall(r"\w+", imported))]
    lines = [line for line in _SAYS_NOTHING.sub("", text).splitlines() if line.strip()]
    return hashlib.sha256("\n".join(lines).encode()).digest(), tuple(names)
