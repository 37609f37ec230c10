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
import pickle
import platform
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps
from numba.core.types import unliteral

from procure.errors import TableError
from procure.files.caches import kernel_places, kernels_kept
from procure.files.code import code_digest
from procure.files.write import whole_file

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
    kept = sum((kernels_kept(place).kernels for place in kernel_places().read), Counter[str]())
    found = Counter[str]()
    for name, count in kept.items():
        file = name.rpartition("-")[0]
        path = _CODE.joinpath(*file.split(".")).with_suffix(".py")
        if path.is_file() and kept_under(f"procure.{file}", str(path)) == name:
            found[file] += count
    return found


class KernelCache(NullCache):
    """What a compiled function reads its code from, and keeps it in: a file for each signature and kind of processor.

    Numba's own keeps an index beside such files and numbers them: two processes that compile for different signatures
    at the same time may take the same number, and one then runs the other's code.
    """

    def __init__(self, function: Any) -> None:
        """Remember whose code it is; nothing is looked up before the first call."""
        self._function = function

    @functools.cached_property
    def _folder(self) -> str:
        return kept_under(self._function.__module__, self._function.__code__.co_filename)

    def _file(self, sig: Any, codegen: Any) -> str:
        code, cells = self._function.__code__, self._function.__closure__ or ()
        # Named tuples of several classes may have one name.
        types = [(one, getattr(one, "instance_class", None)) for one in getattr(sig, "args", sig)]
        key = types, codegen.magic_tuple(), code.co_code, dumps([one.cell_contents for one in cells])
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return f"{code.co_name}-{code.co_firstlineno}.{digest}.nbc"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for a signature; None where there is none, or none that can be read."""
        target_context.refresh()
        name = self._file(sig, target_context.codegen())
        for place in kernel_places().read:
            with contextlib.suppress(OSError):  # versions go by when they were last used
                os.utime(place / self._folder)
            with contextlib.suppress(Exception):  # what a full disk cut off raises anything: it is compiled again
                kept_for, kept = pickle.loads((place / self._folder / name).read_bytes())
                if kept_for == sig:
                    return CompileResult._rebuild(target_context, *kept)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for a signature, where it can be kept."""
        if data.library.has_dynamic_globals or not all(one.can_cache for one in data.lifted):
            return
        places = kernel_places()
        try:
            if places.own is None:
                raise TableError(places.problem)
            folder = places.own / self._folder
            if not folder.is_dir():
                _make_room(folder)
            with whole_file(folder / self._file(sig, data.codegen), durable=False) as temporary:
                temporary.write_bytes(dumps((sig, data._reduce())))
        except (OSError, TableError) as error:
            _say_once(str(error))


def _make_room(folder: Path) -> None:
    """Make the folder of a version, and remove those of the versions of its file that were used longest ago."""
    folder.mkdir(exist_ok=True)
    name = folder.name.rpartition("-")[0]
    others = [one for one in folder.parent.glob(f"{name}-*") if one.name.rpartition("-")[0] == name]
    with contextlib.suppress(OSError):
        others.sort(key=lambda one: one.stat().st_mtime, reverse=True)
    for one in others[_MOST_KEPT:]:
        shutil.rmtree(one, ignore_errors=True)


@functools.cache
def _say_once(problem: str) -> None:
    warnings.warn(
        f"compiled code is not kept, so that each run compiles again: {problem}; "
        "name a folder of your own with PROCURE_CACHE",
        RuntimeWarning,
        stacklevel=2,
    )
