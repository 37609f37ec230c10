"""Who may write to a study's folder: one driver for the whole of it, or many that each do a shard."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import psutil

from procure.errors import TableError
from procure.study import Study

LOCK = "lock"
_HOLDER = re.compile(r"(process \d+ on \S* since \S+\n?)?")
"""What a lock holds: nothing, or who held it last."""


@contextlib.contextmanager
def locked(study: Study, shard: tuple[int, int] | None = None) -> Iterator[None]:
    """Hold the study's folder, or one shard of it; another driver is refused and told who holds it.

    The lock goes with the process, however it ends. Linux gives NFS the same lock on all nodes.

    Parameters
    ----------
    shard
        Number and count, as in 7 of 32: keeps out the whole study's driver and this shard's.

    Raises
    ------
    TableError
        Somebody holds it, or the file system has no locks.
    """
    _make(study.folder)
    whole = study.folder / LOCK
    with contextlib.ExitStack() as stack:
        if shard is None:
            _hold(stack.enter_context(_opened(whole)), fcntl.LOCK_EX, study.folder, write=True)
        else:
            own = study.folder / f"{LOCK}.{shard[0]}-of-{shard[1]}"
            _hold(stack.enter_context(_opened(whole)), fcntl.LOCK_SH, study.folder, write=False)
            _hold(stack.enter_context(_opened(own)), fcntl.LOCK_EX, study.folder, write=True)
        yield


@contextlib.contextmanager
def locked_workers(folder: Path) -> Iterator[None]:
    """Hold the right to start and cancel the queued workers of a folder, see `locked`."""
    _make(folder)
    with _opened(folder / f"{LOCK}.workers") as stream:
        _hold(stream, fcntl.LOCK_EX, folder, write=True)
        yield


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TableError(f"{folder}: cannot be made: {error.strerror}") from None


def _opened(path: Path) -> IO[str]:
    """Open a lock to read and write; refuse what is none of ours, which `_hold` would empty.

    Whoever may read a file may lock it, so only those who may write to the folder may read its locks.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if os.fstat(handle).st_uid == os.geteuid():
            writers = stat.S_IMODE(path.parent.stat().st_mode) & 0o222
            os.fchmod(handle, 0o600 | writers | writers << 1)
    except OSError as error:
        reason = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise TableError(f"{path}: cannot be written: {reason}") from None
    stream = os.fdopen(handle, "r+", encoding="utf-8", errors="replace")
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or not _HOLDER.fullmatch(stream.read(1000)):
        stream.close()
        raise TableError(f"{path}: is no lock of procure; move it away or name another results folder")
    return stream


def _hold(stream: IO[str], how: int, folder: Path, *, write: bool) -> None:
    try:
        fcntl.flock(stream, how | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise TableError(
                f"{folder}: this file system has no locks ({error.strerror}); "
                "let `results` in the study file name a folder on one that has"
            ) from None
        who = "; ".join(_shards(folder)) or _holder(stream)
        raise TableError(f"{folder}: another sweep of this study is running: {who}") from None
    if write:
        stream.seek(0)
        stream.truncate()
        started = datetime.now(UTC).isoformat(timespec="seconds")
        stream.write(f"process {os.getpid()} on {socket.gethostname()} since {started}\n")
        stream.flush()


def _holder(stream: IO[str]) -> str:
    """Say who wrote into a lock that they hold it, as far as that may still be so."""
    stream.seek(0)
    written = stream.read().strip()
    found = re.match(r"process (\d+) on (\S*) ", written)
    if found is None or (found[2] == socket.gethostname() and not psutil.pid_exists(int(found[1]))):
        return "a process that left no name; `lslocks` names it on its node"
    return written


def _shards(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.glob(f"{LOCK}.*-of-*")):
        with _opened(path) as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                found.append(f"shard {path.name.removeprefix(LOCK + '.')}, {_holder(stream)}")
    return found
