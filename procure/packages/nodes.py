"""How packages are named, ``Type=count`` in quote order without zeros, and the nodes that they buy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from procure.errors import TableError
from procure.packages.quotes import check_quotes
from procure.packages.runnable import node_types
from procure.schemas import NODE, PACKAGE
from procure.tables import check
from procure.text import nearest


def package_nodes(
    package: Mapping[str, Any] | pd.Series, quotes: pd.DataFrame, existing: pd.DataFrame | None = None
) -> pd.DataFrame:
    """List the nodes of a package: counts by type, or a row of the package table, after ``existing`` nodes.

    Returns
    -------
    pandas.DataFrame
        The node table: types in quote order, each as often as its count; ``node_id`` like
        ``ComputeNode3-001`` (``new-ComputeNode3-001`` where an existing node has that name), ``kind`` the
        type, ``mem_mb`` = ``mem_gb`` × 1,000 rounded up, ``speed`` the quote's ``spec_rate``.

    Raises
    ------
    TableError
        A type that is not quoted, or a count that is no whole number.

    Examples
    --------
    >>> import procure
    >>> quotes = procure.read_quotes("quotes.csv")
    >>> len(procure.package_nodes({quotes["name"][0]: 2}, quotes))
    2
    """
    quotes = check_quotes(quotes)
    for name in package.keys():  # noqa: SIM118 - a Series iterates over its values
        if name not in PACKAGE.by_name and name not in set(quotes["name"]):
            raise TableError(f"package: no quote is named {name!r}; {nearest(str(name), quotes['name'])}")
    counts = [_count(package.get(name, 0), name) for name in quotes["name"]]
    rows = quotes.loc[np.repeat(quotes.index, counts)]
    number = np.concatenate([np.arange(1, count + 1) for count in counts])
    ids = [f"{name}-{i:03d}" for name, i in zip(rows["name"], number, strict=True)]
    nodes = pd.DataFrame({"node_id": ids, "kind": rows["name"].to_numpy()}).join(node_types(rows))
    nodes["speed"] = rows["spec_rate"].to_numpy() if "spec_rate" in rows else np.nan
    if existing is not None:
        existing = check(existing, NODE)
        # The existing system may be an earlier purchase with names made here.
        while (taken := nodes["node_id"].isin(existing["node_id"])).any():
            nodes["node_id"] = nodes["node_id"].mask(taken, "new-" + nodes["node_id"])
        nodes = pd.concat([existing, nodes], ignore_index=True)
    return check(nodes, NODE, "package")


def _count(value: Any, name: str) -> int:
    if pd.isna(value) or value < 0 or value != int(value):
        raise TableError(f"package, {name}: {value!r} was given; a count is a whole number of nodes")
    return int(value)


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
