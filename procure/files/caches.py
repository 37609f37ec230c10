"""Where compiled code is kept, the user's own or a site's; and a digest of the code that a result depends on."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from procure.errors import TableError

_ROOT = Path(__file__).parent.parent
_IMPORT = re.compile(r"^\s*(?:from (procure[\w.]*) import (\([^)]*\)|[^\n]*)|import (procure[\w.]*))", re.MULTILINE)
_SAYS_NOTHING = re.compile(r'^[ \t]*"""[\s\S]*?"""|^[ \t]*#.*$', re.MULTILINE)


def code_digest(*modules: str, without: Collection[str] = ()) -> str:
    """Return a digest of modules of procure and of all modules of it that they import, directly or not.

    Comments, docstrings and blank lines do not count, nor does what is imported by a name in a string. A module of
    another package counts, but not what it imports from other packages, nor the rooms of ``without``.
    """
    todo, seen = list(modules), dict[Path, bytes]()
    while todo:
        path = _path_of(module := todo.pop())
        room = module.split(".")[1] if module.startswith("procure.") else ""
        if path is not None and path not in seen and room not in without:
            seen[path], imported = _read(path)
            todo += (one for one in imported if one != "procure")  # whose file only says where names live
    return hashlib.sha256(b"".join(seen[path] for path in sorted(seen))).hexdigest()[:16]


@functools.cache
def _path_of(module: str) -> Path | None:
    """Return the file of a module of procure, or of another that is loaded."""
    if not module.startswith("procure."):
        source = getattr(sys.modules.get(module), "__file__", None)
        return None if source is None else Path(source)
    place = _ROOT.joinpath(*module.split(".")[1:])
    return next((one for one in (place.with_suffix(".py"), place / "__init__.py") if one.is_file()), None)


@functools.cache
def _read(path: Path) -> tuple[bytes, tuple[str, ...]]:
    """Return a digest of a file's code, and the modules of procure that it may import."""
    text = path.read_text(encoding="utf-8")
    names: list[str] = []
    for package, imported, module in _IMPORT.findall(text):
        names += [module] if module else [package, *(f"{package}.{name}" for name in re.findall(r"\w+", imported))]
    lines = [line for line in _SAYS_NOTHING.sub("", text).splitlines() if line.strip()]
    return hashlib.sha256("\n".join(lines).encode()).digest(), tuple(names)


VARIABLE = "PROCURE_CACHE"
_CODE = Path(__file__)


class KernelPlaces(NamedTuple):
    """The folders of compiled kernels: the site's, which is read, and the user's own; or why there is none."""

    site: Path | None
    own: Path | None
    problem: str = ""

    @property
    def read(self) -> list[Path]:
        """The folders to look in, in this order."""
        return [place for place in (self.site, self.own) if place is not None]


def user_cache() -> Path:
    """Return the user's own folder for what can be made again: below ``XDG_CACHE_HOME``, else ``~/.cache``."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (base if base.is_absolute() else Path("~/.cache").expanduser()) / "procure"
    except RuntimeError:  # a user without a home
        return Path("/nonexistent/procure")


def kernel_places() -> KernelPlaces:
    """Return where compiled kernels are read and kept.

    ``PROCURE_CACHE`` names the folder: the user's own, or one that belongs to root or to the owner of procure's code
    and that nobody else can write, which is read; what is missing there is kept in the user's own. Without the
    variable it is a folder below ``NUMBA_CACHE_DIR``, else `user_cache`. A folder of ``PROCURE_CACHE`` that cannot be
    made, or in which others could put code of theirs, is an error.
    """
    named, numba = os.environ.get(VARIABLE, ""), os.environ.get("NUMBA_CACHE_DIR", "")
    return _places(named, Path(numba).absolute() / "procure" if numba else user_cache())


@functools.cache
def _places(named: str, default: Path) -> KernelPlaces:
    site = None
    if named:
        place = Path(named) / "kernels"
        if not Path(named).is_absolute():
            raise TableError(f"{VARIABLE}={named}: no absolute path; give the whole path of a folder")
        is_own = _is_own(place)
        if problem := _made(place) if is_own else _unsafe(place, {0, os.geteuid(), _CODE.stat().st_uid}):
            raise TableError(f"{VARIABLE}={named}: {problem}")
        if is_own:
            return KernelPlaces(None, place)
        site = place
    problem = _made(default / "kernels")
    return KernelPlaces(site, None if problem else default / "kernels", problem)


def prepare_site(folder: Path) -> None:
    """Make a folder of kernels that every user can read and only this one can write, now and what is put there."""
    os.umask(0o022)
    try:
        (folder / "kernels").mkdir(parents=True, exist_ok=True)
        (folder / "kernels").chmod(0o755)
    except OSError as error:
        raise TableError(f"{folder}: cannot be made: {error.strerror}") from None
    if problem := _unsafe(folder / "kernels", {os.geteuid()}):
        raise TableError(problem)


def _is_own(folder: Path) -> bool:
    """Tell whether a folder is this user's to write, or is not there yet."""
    try:
        return folder.stat().st_uid == os.geteuid() and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return True


def _made(folder: Path) -> str:
    """Make a folder for this user alone; say why it cannot be made, written or trusted."""
    try:
        for one in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            one.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        return f"{error.filename} cannot be made ({error.strerror})"
    return _unsafe(folder, {os.geteuid()}) or ("" if _is_own(folder) else f"{folder} cannot be written")


def _unsafe(folder: Path, owners: set[int]) -> str:
    """Say why others could put code of theirs into a folder; empty if they cannot."""
    try:
        here = folder.stat()
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if here.st_uid not in owners:
        return f"{folder} belongs to another user ({here.st_uid})"
    return f"{folder} can be written by others: chmod go-w {folder}" if here.st_mode & 0o022 else ""
