"""How packages are named: ``Type=count``, in quote order, without zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from procure.errors import TableError


def id_array(counts: np.ndarray, names: Sequence[str]) -> pa.Array:
    """Name packages of counts int64 (packages, types); ``names`` are those of the types, in quote order."""
    parts = []
    for name, column in zip(names, counts.T, strict=True):
        numbers = pa.array(np.ascontiguousarray(column))
        part = pc.binary_join_element_wise(f"{name}=", numbers.cast(pa.string()), ",", "")
        parts.append(pc.if_else(pc.equal(numbers, 0), "", part))
    return pc.utf8_rtrim(pc.binary_join_element_wise(*parts, ""), characters=",")


def package_ids(counts: np.ndarray, names: Sequence[str]) -> list[str]:
    """Name packages as `id_array` does, as a list."""
    return list(id_array(counts, names).to_pylist())


def counts_of_ids(ids: Sequence[str], names: Sequence[str]) -> np.ndarray:
    """Read counts, int64 (packages, types), back from package ids; one of a type that is not quoted is an error."""
    column = {name: j for j, name in enumerate(names)}
    counts = np.zeros((len(ids), len(names)), dtype=np.int64)
    for row, text in enumerate(ids):
        for part in text.split(","):
            name, _, count = part.rpartition("=")
            if name not in column or not count.isdecimal():
                raise TableError(f"package {text!r} is not of these quotes")
            counts[row, column[name]] = int(count)
    return counts
