"""Where compiled code is kept: in a folder of the user's own, and in one that a site offers to read."""

from __future__ import annotations

import functools
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from procure.errors import TableError

VARIABLE = "PROCURE_CACHE"
_CODE = Path(__file__)


@dataclass(frozen=True)
class KernelPlaces:
    """The folders of compiled kernels.

    Attributes
    ----------
    site
        Read and never written; None without one.
    own
        Read and written, of mode 0700; None where there is none.
    problem
        Why there is none, empty otherwise.
    """

    site: Path | None
    own: Path | None
    problem: str = ""

    @property
    def read(self) -> list[Path]:
        """The folders to look in, in this order."""
        return [place for place in (self.site, self.own) if place is not None]


@dataclass(frozen=True)
class Kept:
    """What a folder of kernels holds: how many megabytes, and how many kernels under each name."""

    size_mb: float
    kernels: dict[str, int]


def kernels_kept(place: Path) -> Kept:
    """Return what a folder of kernels holds, of whatever version."""
    sizes, kernels = 0, dict[str, int]()
    for file in place.glob("*/*.nb[ic]"):
        try:
            sizes += file.stat().st_size
        except OSError:  # removed meanwhile
            continue
        kernels[file.parent.name] = kernels.get(file.parent.name, 0) + (file.suffix == ".nbc")
    return Kept(sizes / 1e6, kernels)


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
    variable it is a folder below ``NUMBA_CACHE_DIR``, else `user_cache`.

    Raises
    ------
    TableError
        ``PROCURE_CACHE`` names a folder that cannot be made, or in which others could put code of theirs.
    """
    named, numba = os.environ.get(VARIABLE, ""), os.environ.get("NUMBA_CACHE_DIR", "")
    default = Path(numba).absolute() / "procure" if numba else user_cache()
    return _places(named, default)


@functools.cache
def _places(named: str, default: Path) -> KernelPlaces:
    site = None
    if named:
        folder = Path(named)
        if not folder.is_absolute():
            raise TableError(f"{VARIABLE}={named}: no absolute path; give the whole path of a folder")
        kernels = folder / "kernels"
        if not _is_foreign(kernels):
            if problem := _made(kernels):
                raise TableError(f"{VARIABLE}={named}: {problem}")
            return KernelPlaces(None, kernels)
        if problem := _unsafe(kernels, {0, os.geteuid(), _CODE.stat().st_uid}):
            raise TableError(f"{VARIABLE}={named}: {problem}")
        site = kernels
    kernels = default / "kernels"
    problem = _made(kernels)
    return KernelPlaces(site, None if problem else kernels, problem)


def prepare_site(folder: Path) -> None:
    """Make a folder of kernels that every user can read and only this one can write.

    Raises
    ------
    TableError
        It cannot be made or written, or is not this user's.
    """
    kernels = folder / "kernels"
    try:
        kernels.mkdir(parents=True, exist_ok=True)
        for one in (folder, kernels):
            if one.stat().st_uid == os.geteuid():
                one.chmod(0o755)
    except OSError as error:
        raise TableError(f"{folder}: cannot be made: {error.strerror}") from None
    if problem := _made(kernels):
        raise TableError(f"{folder}: {problem}")


def is_trusted(version: Path) -> bool:
    """Return whether a folder below a place, and all in it, belongs to the place's owner; one that is not there does.

    A place that others could once write may still hold what they put there.
    """
    try:
        owner, here = version.parent.stat().st_uid, version.lstat()
        with os.scandir(version) as inside:
            found = [here, *(one.stat(follow_symlinks=False) for one in inside)]
    except FileNotFoundError:
        return True
    except OSError:
        return False
    others = here.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return not others and all(one.st_uid == owner and not stat.S_ISLNK(one.st_mode) for one in found)


def _is_foreign(folder: Path) -> bool:
    """Return whether a folder is there already and is another's, or cannot be written."""
    try:
        return folder.stat().st_uid != os.geteuid() or not os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def _made(folder: Path) -> str:
    """Make a folder for this user alone, with those above it; say why it cannot be made or is not to be trusted."""
    try:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        return f"{error.filename} cannot be made ({error.strerror})"
    if problem := _unsafe(folder, {os.geteuid()}):
        return problem
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"{folder} cannot be written"


def _unsafe(folder: Path, owners: set[int]) -> str:
    """Say why others could put code of theirs into a folder; empty if they cannot."""
    try:
        whole = folder.resolve(strict=True)
        here = whole.stat()
        if here.st_uid not in owners:
            return f"{folder} belongs to another user ({here.st_uid})"
        if here.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"{folder} can be written by others: chmod go-w {folder}"
        for part in whole.parents:
            mode = part.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return f"{part} can be written by anybody, who could replace what is in it"
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return ""
