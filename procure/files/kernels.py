"""Compiled kernels, kept by what they were compiled from: the one door to Numba's compiler.

Numba looks at a kernel's own file alone, by its time of change. Here it stands under a digest of its file and of all
files of procure which that imports, directly or not: a callee that changes makes another digest, and the same code in
another checkout or after a new installation has the same.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import secrets
import shutil
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.dispatcher import Dispatcher
from numba.core.types import unliteral

from procure.errors import TableError
from procure.files.caches import code_digest, kernel_places

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
            if cache and Path(one.__code__.co_filename).is_file():  # else of a notebook, or typed at a prompt
                made._cache = KernelCache(one)  # type: ignore[attr-defined]
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
    if not module.startswith("procure."):
        for one in _beside(Path(file)):
            digest.update(one.read_bytes())
    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))
    parts = [f"{name} {version(name)}" for name in ("numba", "llvmlite", "numpy")]
    parts += [f"{sys.implementation.cache_tag} {platform.system()} {platform.machine()}"]
    digest.update(" ".join([*parts, *(one for one in settings if not one.startswith(_SAME_CODE))]).encode())
    return f"{module.removeprefix('procure.')}-{digest.hexdigest()[:16]}"


def _beside(path: Path) -> list[Path]:
    """Return the modules that a module of another package may take kernels from: its whole package, or its folder."""
    top = path.parent
    if not (top / "__init__.py").is_file():
        return sorted(top.glob("*.py"))
    while (top.parent / "__init__.py").is_file():
        top = top.parent
    return sorted(top.rglob("*.py"))


def compiled_files() -> dict[str, int]:
    """Return how many kernels are kept of each file of procure as it is today."""
    found: dict[str, int] = {}
    for folder in {file.parent for place in kernel_places().read for file in place.glob("*/*.nbc")}:
        file = folder.name.rpartition("-")[0]
        path = _CODE.joinpath(*file.split(".")).with_suffix(".py")
        if path.is_file() and kept_under(f"procure.{file}", str(path)) == folder.name:
            found[file] = found.get(file, 0) + len(list(folder.glob("*.nbc")))
    return found


class _Locator(_CacheLocator):
    """What Numba asks of a place: its path, and what tells versions and functions apart."""

    def __init__(self, function: Any, file: str) -> None:
        self._py_file = file
        self._line = function.__code__.co_firstlineno
        self.name = kept_under(function.__module__, file)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func, py_file)

    def get_cache_path(self) -> str:
        return str((kernel_places().own or Path("/nonexistent")) / self.name)

    def get_source_stamp(self) -> str:
        return self.name

    def get_disambiguator(self) -> str:
        return str(self._line)

    def ensure_cache_path(self) -> None:
        """Make the folder of a version, and remove those of the versions of its file that were used longest ago."""
        folder = Path(self.get_cache_path())
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            name = self.name.rpartition("-")[0]
            others = [one for one in folder.parent.glob(f"{name}-*") if one.name.rpartition("-")[0] == name]
            with contextlib.suppress(OSError):
                others.sort(key=lambda one: one.stat().st_mtime, reverse=True)
            for one in others[_MOST_KEPT:]:
                shutil.rmtree(one, ignore_errors=True)


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012  # as Numba has it


class _Files(IndexDataCacheFile):
    """An index, and a file for each signature, of a name that no other process takes.

    Numba numbers these files: two processes that compile for different signatures at the same time may take the same
    number, and one then runs the other's code.
    """

    def _data_name(self, number: int) -> str:
        return f"{Path(self._index_name).stem}.{secrets.token_hex(4)}.nbc"


class KernelCache(FunctionCache):
    """What a compiled function reads its code from, and keeps it in; nothing is looked up before the first call."""

    _impl_class = _Implementation

    def __init__(self, function: Any) -> None:
        """Remember whose code it is."""
        self._py_func, self._name = function, repr(function)
        self.enable()

    @functools.cached_property
    def _places(self) -> list[_Files]:
        super().__init__(self._py_func)
        base, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
        with contextlib.suppress(OSError):  # versions go by when they were last used
            os.utime(self._cache_path)
        return [_Files(str(place / stamp), base, stamp) for place in kernel_places().read]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for a signature; None where there is none, or none that can be read."""
        for files in self._places:
            self._cache_file = files
            with contextlib.suppress(Exception):  # what a full disk cut off raises anything: it is compiled again
                if (found := super().load_overload(sig, target_context)) is not None:
                    return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for a signature, where it can be kept."""
        try:
            if kernel_places().own is None:
                raise TableError(kernel_places().problem)
            self._cache_file = self._places[-1]
            try:
                super().save_overload(sig, data)
            except (OSError, TableError):
                raise
            except Exception:  # an index that was cut off
                self._cache_file.flush()
                super().save_overload(sig, data)
        except (OSError, TableError) as error:
            _say_once(str(error))


@functools.cache
def _say_once(problem: str) -> None:
    warnings.warn(
        f"compiled code is not kept, so that each run compiles again: {problem}; "
        "name a folder of your own with PROCURE_CACHE",
        RuntimeWarning,
        stacklevel=2,
    )
