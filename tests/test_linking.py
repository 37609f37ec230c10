"""Kernels that only kernels call are linked with those that Python calls, and with nothing else lost."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

from procure.files.kernels import njit
from procure.simulator.kernel import entrance
from procure.simulator.reference import by_reference, held

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="is about the compiler")


@njit(no_cpython_wrapper=True)
def once(n):
    return n + 1


@njit(no_cpython_wrapper=True)
def twice(n):
    return once(once(n))


@njit(entrance=True)
def thrice(n):
    return once(n) + twice(n)


@numba.njit
def elsewhere(n):
    return twice(n)


def libraries(kernel):
    return [kernel.overloads[signature].library for signature in kernel.overloads]


def test_only_what_python_calls_becomes_machine_code():
    """What kernels call is kept unassembled, and answers right in several callers and in Numba's own."""
    assert thrice(1) == 5
    assert [each._finalized for kernel in (once, twice) for each in libraries(kernel)] == [False, False]
    assert [each._finalized for each in libraries(thrice)] == [True]
    assert elsewhere(5) == 7


class Inner(NamedTuple):
    flag: bool
    figures: np.ndarray  # float64[2, 3]
    other: bool


class Outer(NamedTuple):
    n: int
    inner: Inner
    x: float
    nothing: None
    rows: np.ndarray  # int64[4]
    few: np.ndarray  # bool[2]


@entrance
def read(outer, at):
    outer = by_reference(outer)
    inner = outer.inner
    total = outer.n + outer.x + inner.figures[1, at] + outer.rows[at] + inner.figures.shape[1] + outer.few[1]
    outer.rows[at] = -1
    return total if inner.flag and not inner.other else 0.0


@pytest.mark.parametrize(("flag", "other"), [(True, False), (True, True), (False, False)])
def test_a_named_tuple_by_reference_is_what_python_sees(flag, other):
    """Numbers, arrays of one and two dimensions, every second row and tuples within are read and written in place."""
    rows = np.arange(8)[::2]
    for each in (np.arange(4) * 2, rows):
        inner = Inner(np.bool_(flag), np.arange(6.0).reshape(2, 3), other)
        outer = Outer(np.int64(7), inner, np.float64(0.5), None, each, np.array([False, True]))
        assert not isinstance(held(outer), tuple)
        assert read(held(outer), 2) == (7 + 0.5 + 5 + 4 + 3 + 1 if flag and not other else 0)
        assert outer.rows.tolist() == [0, 2, -1, 6]


def test_what_has_no_such_layout_is_handed_over_as_it_is():
    """A named tuple that holds another thing than numbers, arrays and named tuples goes Numba's own way."""

    class Named(NamedTuple):
        name: str

    assert held(Named("a")) == Named("a") and held(3) == 3


UNTRIED = """
import numba
from procure.files import linking
linking.TRIED = (0, 0)
from procure import generate, simulate
import pandas as pd
nodes = pd.DataFrame({"node_id": ["a", "b"], "cpus": 64, "mem_mb": 256_000})
print(int(simulate(generate(n_jobs=40, seed=1), nodes, policy="fcfs").schedule["start_time"].sum()))
"""


@pytest.mark.slow
def test_a_numba_that_was_not_tried_compiles_in_its_own_way(tmp_path):
    """With a Numba whose insides are unknown the same jobs start at the same times."""
    started = []
    for text in (UNTRIED, UNTRIED.replace("linking.TRIED = (0, 0)", "")):
        setting = os.environ | {"PROCURE_CACHE": str(tmp_path / str(len(started)))}
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, env=setting)
        assert done.returncode == 0, done.stderr
        started.append(done.stdout)
    assert started[0] == started[1] and int(started[0]) > 0


FROM_THE_DISK = """
import numba
from procure.files.kernels import njit
import sys; sys.path.insert(0, sys.argv[1])
from parts import first, second, third
@numba.njit
def elsewhere(n):
    return second(n)
answer = elsewhere(1) if sys.argv[2:] else third(1)
print(answer, *(sum(each.stats.cache_hits.values()) for each in (second, first)))
"""


@pytest.mark.slow
def test_what_was_kept_unassembled_is_linked_when_read(tmp_path):
    """A kernel that is read from the cache brings what it calls with it, into a function of anybody's."""
    head = "from procure.files.kernels import njit\n"
    kernel = "@njit(cache=True, no_cpython_wrapper=True)\ndef {}(n):\n    return {}\n"
    text = head + kernel.format("first", "n + 1") + kernel.format("second", "first(n) * 2")
    (tmp_path / "parts.py").write_text(text + "@njit(entrance=True)\ndef third(n):\n    return second(n)\n")
    setting = os.environ | {"PROCURE_CACHE": str(tmp_path / "kept")}
    for hits, more in (("4 0 0", []), ("4 1 0", ["again"])):
        command = [sys.executable, "-c", FROM_THE_DISK, str(tmp_path), *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=setting)
        assert (done.stdout.strip(), done.stderr) == (hits, "")
