"""Compiled kernels, kept by what they were compiled from: the one door to Numba's compiler.

Numba keeps a kernel beside its source and looks at that file alone. Here it stands in `procure.files.caches`' folders
under a digest of its file and of all files of procure which that imports, directly or not: a callee that changes makes
another digest, and the same code in another checkout or after a new installation has the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import platform
import secrets
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.dispatcher import Dispatcher
from numba.core.types import unliteral

from procure.errors import TableError
from procure.files.caches import is_trusted, kernel_places, kernels_kept
from procure.files.code import code_digest

_CODE = Path(__file__).parent.parent
_WITHOUT_KERNELS = ("errors", "files", "progress", "schemas", "settings", "tables", "text")
"""Rooms that hold neither kernels nor numbers that kernels read, so that a change there compiles nothing again."""
_SAME_CODE = ("NUMBA_CACHE_DIR", "NUMBA_DEBUG_CACHE", "NUMBA_DISABLE_JIT", "NUMBA_NUM_THREADS", "NUMBA_WARNINGS")
"""Settings of Numba's that do not change what it compiles."""
_MOST_KEPT = 8
"""Versions of a file whose kernels are kept, the last used first."""


def njit(function: Callable[..., Any] | None = None, *, cache: bool = False, **options: Any) -> Any:
    """Compile as ``numba.njit`` does, but once for all constants; with ``cache``, the code is kept by its content."""

    def compiled(one: Callable[..., Any]) -> Any:
        made: Any = numba.njit(**options)(one)
        if isinstance(made, Dispatcher):
            _take_constants_as_variables(made)
        if cache and isinstance(made, Dispatcher):
            if Path(one.__code__.co_filename).is_file():
                made._cache = KernelCache(one)  # type: ignore[attr-defined]
            else:  # of a notebook, or typed at a prompt
                with contextlib.suppress(RuntimeError):
                    made.enable_caching()
        return made

    return compiled if function is None else compiled(function)


def _take_constants_as_variables(kernel: Any) -> None:
    """Let calls with a number share the code of those with a variable: Numba compiles it for each constant anew."""
    template = kernel.get_call_template

    def of_variables(arguments: Any, named: Any) -> Any:
        return template([unliteral(one) for one in arguments], {name: unliteral(one) for name, one in named.items()})

    kernel.get_call_template = of_variables


@functools.cache
def kept_under(module: str, file: str) -> str:
    """Return the name of the folder of a module's kernels, which changes with whatever they may be compiled from."""
    digest = hashlib.sha256(code_digest(module, without=_WITHOUT_KERNELS).encode())
    path = Path(file)
    if not module.startswith("procure."):
        for one in _beside(path):
            digest.update(one.read_bytes())
    digest.update(_compiler().encode())
    return f"{module.removeprefix('procure.')}-{digest.hexdigest()[:16]}"


def _beside(path: Path) -> list[Path]:
    """Return the modules that a module of another package may take kernels from: its whole package, or its folder."""
    top = path.parent
    if not (top / "__init__.py").is_file():
        return sorted(top.glob("*.py"))
    while (top.parent / "__init__.py").is_file():
        top = top.parent
    return sorted(top.rglob("*.py"))


@functools.cache
def _compiler() -> str:
    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))
    parts = [f"{name} {version(name)}" for name in ("numba", "llvmlite", "numpy")]
    python = f"{sys.implementation.cache_tag} {platform.system()} {platform.machine()}"
    return " ".join([python, *parts, *(one for one in settings if not one.startswith(_SAME_CODE))])


def compiled_files() -> dict[str, int]:
    """Return how many kernels are kept of each file of procure as it is today."""
    found: dict[str, int] = {}
    for place in kernel_places().read:
        for name, count in kernels_kept(place).kernels.items():
            file = name.rpartition("-")[0]
            path = _CODE.joinpath(*file.split(".")).with_suffix(".py")
            if path.is_file() and kept_under(f"procure.{file}", str(path)) == name:
                found[file] = found.get(file, 0) + count
    return found


class _Locator(_CacheLocator):
    """What Numba asks of a place: its path, and what tells one version and one function from another."""

    def __init__(self, function: Any, file: str) -> None:
        self._py_file = file
        self._lineno = function.__code__.co_firstlineno
        self.name = kept_under(function.__module__, file)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func, py_file)

    def get_cache_path(self) -> str:
        own = kernel_places().own
        return "" if own is None else str(own / self.name)

    def get_source_stamp(self) -> str:
        return self.name

    def get_disambiguator(self) -> str:
        return str(self._lineno)

    def ensure_cache_path(self) -> None:
        _make_room(Path(self.get_cache_path()))


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012  # as Numba has it


class _Files(IndexDataCacheFile):
    """An index, and a file for each signature, which is never written twice.

    Numba numbers these files: two processes that compile for different signatures at the same time may take the same
    number, and one then runs the other's code.
    """

    def save(self, key: Any, data: Any) -> None:
        name = f"{Path(self._index_name).stem}.{secrets.token_hex(4)}.nbc"
        self._save_data(name, data)
        with _locked(Path(self._cache_path)):
            self._save_index({**self._known(), key: name})
        if Path(self._cache_path).stat().st_mode & 0o005:  # a site's, whatever the umask
            for path in (self._index_path, self._data_path(name)):
                Path(path).chmod(0o644)

    def _known(self) -> dict[Any, str]:
        try:
            return dict(self._load_index())
        except Exception:  # a damaged pickle raises anything
            return {}


class KernelCache(FunctionCache):
    """What a compiled function reads its code from, and keeps it in; nothing is looked up before the first call."""

    _impl_class = _Implementation

    def __init__(self, function: Any) -> None:
        """Remember whose code it is."""
        self._py_func, self._name = function, repr(function)
        self._read: list[_Files] | None = None
        self.enable()

    @property
    def cache_path(self) -> str:
        """The folder in which the code is kept."""
        self._look_up()
        return str(self._impl.locator.get_cache_path())

    def flush(self) -> None:
        """Forget what the user's own folder holds of this function."""
        self._look_up()
        if self._cache_path:
            super().flush()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for a signature; None where there is none, or none that can be read."""
        target_context.refresh()
        if not self._enabled:
            return None
        for files in self._look_up():
            try:
                data = files.load(self._index_key(sig, target_context.codegen()))
                if data is not None:
                    return self._impl.rebuild(target_context, data)
            except Exception:  # what was cut off by a full disk raises anything: it is compiled again
                continue
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for a signature, where it can be kept."""
        self._look_up()
        if not self._enabled or not self._impl.check_cachable(data):
            return
        if not self._cache_path:
            _say_once(kernel_places().problem)
            return
        if not is_trusted(Path(self._cache_path)):
            _say_once(f"{self._cache_path} holds what is not this user's: remove it")
            return
        try:
            self._impl.locator.ensure_cache_path()
            self._cache_file.save(self._index_key(sig, data.codegen), self._impl.reduce(data))
        except (OSError, TableError) as error:
            _say_once(f"{self._cache_path}: {getattr(error, 'strerror', None) or error}")

    def _look_up(self) -> list[_Files]:
        if self._read is None:
            super().__init__(self._py_func)
            base, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
            folders = [place / stamp for place in kernel_places().read if is_trusted(place / stamp)]
            self._read = [_Files(str(folder), base, stamp) for folder in folders]
            with contextlib.suppress(OSError):  # `_make_room` goes by when a version was last used
                os.utime(self._cache_path)
            self._cache_file = _Files(self._cache_path, base, stamp)
        return self._read


@functools.cache
def _say_once(problem: str) -> None:
    warnings.warn(
        f"compiled code is not kept, so that each run compiles again: {problem}; "
        "name a folder of your own with PROCURE_CACHE",
        RuntimeWarning,
        stacklevel=2,
    )


def _make_room(folder: Path) -> None:
    """Make the folder of a version, and remove those of the versions of its file that were used longest ago."""
    if folder.is_dir():
        return
    mode = 0o755 if folder.parent.stat().st_mode & 0o005 else 0o700
    folder.mkdir(mode=mode, exist_ok=True)
    folder.chmod(mode)
    name = folder.name.rpartition("-")[0]
    others = [one for one in folder.parent.glob(f"{name}-*") if one.name.rpartition("-")[0] == name]
    with contextlib.suppress(OSError):
        others.sort(key=lambda one: one.stat().st_mtime, reverse=True)
    for one in others[_MOST_KEPT:]:
        shutil.rmtree(one, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time read and write an index: an entry that is lost is compiled again.

    Where there are no locks, or one is held for long, it goes on without.
    """
    with os.fdopen(os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)) as stream:
        for _ in range(50):
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        yield
