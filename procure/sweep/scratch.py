"""Where Dask puts its locks, its spill and its workers' folders: a folder of this run alone."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from procure.errors import TableError


@contextlib.contextmanager
def scratch_folder(base: str | Path | None = None) -> Iterator[Path]:
    """Make a folder of mode 0700 that nobody else has named, and remove it at the end.

    Left to itself, Dask takes ``dask-scratch-space`` from whoever has made it, opens files in it through links, and
    imports Python from it.

    Parameters
    ----------
    base
        Where to make it; None is the folder for temporary files (``TMPDIR``). Where anybody could put another
        folder in its place, it is made in the user's home instead.

    Raises
    ------
    TableError
        Neither will do.
    """
    wanted = Path(base) if base is not None else Path(tempfile.gettempdir())
    problems = []
    for parent in (wanted, Path("~").expanduser()):
        problem = _problem(parent)
        if not problem:
            break
        problems.append(problem)
    else:
        raise TableError(f"no place for the workers' temporary files: {'; '.join(problems)}; name one with TMPDIR")
    with tempfile.TemporaryDirectory(
        prefix=f"procure-{os.getuid()}-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def _problem(folder: Path) -> str:
    """Say why others could replace what is made in a folder, or why nothing can be made; empty if it will do."""
    try:
        whole = folder.resolve(strict=True)
        for part in (whole, *whole.parents):
            mode = part.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return f"{part} has mode {stat.S_IMODE(mode):04o}, so that anybody can replace what stands in it"
    except (OSError, RuntimeError) as error:
        return f"{folder}: {getattr(error, 'strerror', None) or error}"
    return "" if os.access(whole, os.W_OK | os.X_OK) and whole.is_dir() else f"{folder}: cannot be written"
