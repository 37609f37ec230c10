"""A compiled kernel is compiled again when a function that it calls has changed in another file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from procure.files.kernels import forget_stale_kernels

KERNEL = """from numba import njit
from procure.room.callee import callee


@njit(cache=True)
def kernel():
    return callee()
"""
CALLEE = "from numba import njit\n\n\n@njit(cache=True)\ndef callee():\n    return {}\n"
RUN = """
import sys
from pathlib import Path

import pytest
import procure, procure.files.code as code
from procure.files.kernels import forget_stale_kernels
root = Path(sys.argv[1])
procure.__path__.append(str(root))
code._ROOT = root
print(forget_stale_kernels(root))
from procure.room.caller import kernel
print(kernel(), sum(kernel.stats.cache_hits.values()))
"""


def ran(root: Path) -> list[str]:
    """Run the kernel in a process of its own: which were forgotten; what it gave, and how often the cache was hit."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(root)], capture_output=True, text=True, check=True,
        env={name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"},
    )  # fmt: skip
    return done.stdout.split("\n")[:2]


@pytest.mark.slow
def test_a_changed_callee_is_compiled_in(tmp_path: Path) -> None:
    """The answer is that of today's callee; without a change, and after one of a comment, the cache is used."""
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").write_text("")
    (room / "caller.py").write_text(KERNEL)
    (room / "callee.py").write_text(CALLEE.format(1))
    assert ran(tmp_path) == ["[]", "1 0"]
    assert ran(tmp_path) == ["[]", "1 1"]
    (room / "callee.py").write_text(CALLEE.format(2))
    assert ran(tmp_path) == ["['procure.room.callee', 'procure.room.caller']", "2 0"]
    assert ran(tmp_path) == ["[]", "2 1"]
    (room / "callee.py").write_text("# why\n" + CALLEE.format(2))
    assert ran(tmp_path)[0] == "[]"


def test_what_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    """A package without folders for kernels, as a read-only installation has it, is no error."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "kernel.py").write_text(KERNEL)
    assert forget_stale_kernels(tmp_path) == []
