"""How the kernels are compiled."""

from __future__ import annotations

from typing import Any

from procure.files.kernels import njit

_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "_nrt": False,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
kernel: Any = njit(**_OPTIONS)
"""Compile once, into the cache on the disk, without the interpreter's lock and without reference counts.

The state is a tuple of some 60 arrays, each of which would be counted at every call: nine tenths of a
queue policy's time. Whoever calls a kernel holds the arrays; a kernel itself may not make or return any.
A division by zero is NumPy's, no exception.
"""
part: Any = njit(**_OPTIONS | {"no_cpython_wrapper": True})
"""Compile a kernel that only other kernels call: from Python such a function can't be called.

What takes apart what comes from Python is a large part of what there is to compile of a kernel.
"""
inlined: Any = njit(inline="always", **_OPTIONS)
"""Compile a kernel within the one that calls it, where that is the only one.

With each level of calls, everything below is optimised and written out again.
"""


@part
def insert(values, n, place, value):
    """Put a value among ``n``. Of slices the compiler knows that no index is negative: it moves eight at a time."""
    to, of = values[place + 1 : n + 1], values[place:n]
    for i in range(to.size - 1, -1, -1):
        to[i] = of[i]
    values[place] = value


@part
def remove(values, n, place):
    """Take a value from among ``n``."""
    to, of = values[place : n - 1], values[place + 1 : n]
    for i in range(to.size):
        to[i] = of[i]
