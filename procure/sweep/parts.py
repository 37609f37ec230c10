"""A study's runs in batches, and one part for each: its result rows as a Parquet file that is whole or not there.

All parts and the result table have one Arrow schema, made from the result table's. A part says in its
metadata which inputs it depends on; its pages carry checksums. Nothing here can execute code when it
is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from procure.files import check_parquet, from_json, whole_file
from procure.schemas import CLASS_FIGURES, RESULT
from procure.study import Plan
from procure.study.plan import OF_CLASS
from procure.text import file_name

MOST_BATCHES, MOST_IN_ALL = 250, 2500
"""Batches per workload and policy, and in all, into which a sweep is cut unless the study says otherwise:
each costs the driver up to 22 ms, so that all cost it less than a minute, however many workers there are."""


@dataclass(frozen=True)
class Batch:
    """Some runs of one workload under one policy; ``rows`` are rows of the plan's package table."""

    workload: str
    policy: str
    rows: np.ndarray

    @property
    def pair(self) -> tuple[str, str]:
        """What batches share that are simulated on one bench."""
        return self.workload, self.policy

    @property
    def key(self) -> str:
        """A name for the batch's file: what it is, and a digest of the rows that it holds."""
        digest = hashlib.sha256(self.rows.astype("<i8").tobytes()).hexdigest()[:8]
        return f"{self.workload}.{file_name(self.policy)}.{int(self.rows[0]):09d}-{digest}"


class Receipt(NamedTuple):
    """What a batch came to: its runs and the kernel seconds that they took; or that each worker that tried it died."""

    n_runs: int
    kernel_seconds: float
    died: bool = False


def batches(plan: Plan, done: dict[tuple[str, str], np.ndarray], shard: tuple[int, int] | None = None) -> list[Batch]:
    """Cut the runs that are not done into batches, in a fixed order; ``done`` are rows by (workload, policy).

    Of a ``shard``, 7 of 32, every 32nd batch of the whole study from the eighth, whatever is done.
    """
    size = plan.study.sweep.batch_size or max(
        50, -(-len(plan.sampled_rows) // MOST_BATCHES), -(-plan.n_runs // MOST_IN_ALL)
    )
    cut = range(0, len(plan.sampled_rows), size)
    found = []
    for place, pair in enumerate(plan.pairs):
        rows = plan.sampled_rows
        if shard is not None:
            number, count = shard
            mine = [i for j, i in enumerate(cut, place * len(cut)) if j % count == number]
            rows = np.concatenate([rows[:0], *(rows[first : first + size] for first in mine)])
        todo = np.setdiff1d(rows, done.get(pair, rows[:0]))
        found += [Batch(*pair, todo[first : first + size]) for first in range(0, len(todo), size)]
    return found


_FINGERPRINT, _SECONDS = b"procure.fingerprint", b"procure.kernel_seconds"
_TYPES = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}
SCHEMA = pa.schema([(column.name, _TYPES[column.dtype]) for column in RESULT.columns])


class Part(NamedTuple):
    """What a part holds: its rows in the plan's `schema_for`, and the kernel seconds behind them."""

    table: pa.Table
    seconds: float


def schema_of(classes: Iterable[str] = ()) -> pa.Schema:
    """Return `SCHEMA`, and behind it the figures of each class of jobs that a study defines."""
    names = [f"{name}_{figure}" for name in classes for figure in CLASS_FIGURES]
    return pa.schema([*SCHEMA, *(pa.field(name, pa.float64()) for name in names)])


def schema_for(fingerprint: Mapping[str, Any]) -> pa.Schema:
    """Return the schema of the parts of a plan with this fingerprint."""
    return schema_of(name.removeprefix(OF_CLASS) for name in fingerprint if name.startswith(OF_CLASS))


class PartError(Exception):
    """A part that cannot be used, and why."""


def write_part(path: Path, rows: pa.Table, fingerprint: str, seconds: float, *, durable: bool = False) -> None:
    """Write result rows, whole or not at all, with the plan's ``fingerprint`` and kernel ``seconds`` in the metadata.

    ``durable`` outlives a power cut; a part need not: a damaged one is found and its runs are repeated.
    """
    extra = {_FINGERPRINT: fingerprint.encode(), _SECONDS: repr(seconds).encode()}
    table = rows.replace_schema_metadata(extra)
    with whole_file(path, durable=durable) as temporary, temporary.open("wb") as stream:
        pq.write_table(table, stream, write_page_checksum=True)


def read_part(path: Path, fingerprint: Mapping[str, Any]) -> Part:
    """Read a part; one that is damaged, of another schema or of other inputs of the ``fingerprint`` is a `PartError`.

    Inputs that it does not know, such as a workload that was added since, do not matter.
    """
    try:
        check_parquet(path)
        table = pq.read_table(path, partitioning=None, page_checksum_verification=True)
        metadata = table.schema.metadata or {}
        seconds = float(metadata.get(_SECONDS, b"0"))
        before = from_json(metadata.get(_FINGERPRINT, b"{}"))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise PartError(f"damaged: {str(error).splitlines()[0]}") from None
    if not isinstance(before, dict) or not before:
        raise PartError("no part of a sweep")
    other = [name for name, value in before.items() if fingerprint.get(name, value) != value]
    if other:
        raise PartError(f"of other inputs: {', '.join(other)}")
    schema = schema_for(fingerprint)
    without = [name for name in schema.names[len(SCHEMA) :] if name not in table.column_names]
    if without:
        raise PartError(f"of runs without {without[0]}, of a class that was defined later")
    try:
        return Part(table.select(schema.names).cast(schema).replace_schema_metadata(), seconds)
    except (pa.ArrowException, KeyError) as error:
        raise PartError(f"not in the result schema: {str(error).splitlines()[0]}") from None


def kernel_seconds(path: Path) -> float:
    """Return the kernel seconds behind a part that is whole."""
    return float((pq.read_schema(path).metadata or {}).get(_SECONDS, b"0"))
