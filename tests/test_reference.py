"""Named tuples by reference hold in a kernel what they hold in Python."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.kernel import kernel
from procure.simulator.seams import by_reference


class Inner(NamedTuple):
    """Of one type throughout, which the compiler keeps apart."""

    first: np.ndarray
    second: np.ndarray


class Outer(NamedTuple):
    """One of everything that a state holds."""

    number: int
    share: float
    flag: bool
    marked: np.ndarray
    inner: Inner
    grid: np.ndarray
    small: np.ndarray


def look(outer):
    """Read every attribute, and the address, shape and strides of the arrays."""
    o = by_reference(outer)
    o.inner.first[1] += o.number
    row, column = o.grid[1], o.grid[:, 2]
    return (
        o.number, o.share, o.flag, o.marked.size, o.marked[2], o.inner.first[1], o.inner.second.size,
        o.grid.shape, o.grid.size, o.grid.strides, row.sum(), column[0], column.strides, o.small[-1], o.small.nbytes,
    )  # fmt: skip


def test_a_kernel_reads_by_reference_what_python_reads():
    """Numbers, flags, arrays of one and two dimensions and tuples in tuples are the same, and arrays can be written."""

    def outer():
        inner = Inner(np.arange(3), np.arange(4))
        grid = np.arange(12.0).reshape(3, 4)
        return Outer(7, 0.5, True, np.array([False, False, True]), inner, grid, np.arange(5, dtype=np.uint32))

    here, there = outer(), outer()
    assert kernel(look)(there) == look(here)
    assert there.inner.first.tolist() == here.inner.first.tolist() == [0, 8, 2]
