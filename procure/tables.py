"""The five tables of procure, each written once as data, and the check that every border calls.

A table is a pandas frame. Its schema says, for each column, the dtype, the unit and the meaning;
`check` coerces a frame to its schema or says in one sentence what is wrong and where. `read` and
`write` are the only doors between a table and a file.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError


@dataclass(frozen=True)
class Column:
    """One column of a table.

    ``dtype`` is ``int``, ``float``, ``str`` or ``bool``. A column that is not ``required`` may be
    absent; then it is filled with ``default``, or left out where the default is None. A ``nullable``
    int is pandas' ``Int64``. ``money`` accepts currency text such as ``$6,960``.
    """

    name: str
    dtype: str
    unit: str
    meaning: str
    required: bool = True
    default: object = None
    nullable: bool = False
    minimum: float | None = None
    money: bool = False

    @property
    def pandas_dtype(self) -> str:
        """The dtype that a checked frame holds."""
        if self.dtype == "int":
            return "Int64" if self.nullable else "int64"
        return {"float": "float64", "str": "object", "bool": "bool"}[self.dtype]


@dataclass(frozen=True)
class Schema:
    """A table's columns in order; ``unique`` names the column whose values may not repeat.

    An ``open`` table may carry further columns (a count per quoted type, a log's own extras); they
    stand after the known ones, unchecked.
    """

    name: str
    columns: tuple[Column, ...]
    unique: str | None = None
    open: bool = False
    version: int = 1
    by_name: dict[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the columns by name."""
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})

    @property
    def names(self) -> list[str]:
        """The columns' names in order."""
        return [column.name for column in self.columns]


def _int(name: str, unit: str, meaning: str, **rest: object) -> Column:
    rest.setdefault("minimum", 0)
    return Column(name, "int", unit, meaning, **rest)  # type: ignore[arg-type]


def _float(name: str, unit: str, meaning: str, **rest: object) -> Column:
    rest.setdefault("minimum", 0)
    return Column(name, "float", unit, meaning, **rest)  # type: ignore[arg-type]


def _str(name: str, meaning: str, **rest: object) -> Column:
    return Column(name, "str", "", meaning, **rest)  # type: ignore[arg-type]


_OPTIONAL: dict[str, object] = {"required": False, "nullable": True}

QUOTE = Schema(
    "quote",
    (
        _str("name", "the vendor's name of the server type; a column of the package table"),
        _str("category", "e.g. compute, bigmem, gpu; a package takes one type of each, or as the study says"),
        _int("cpus", "CPUs", "CPU cores per node", minimum=1),
        _float("mem_gb", "GB = 1,000 MB", "memory per node"),
        _int("gpus", "GPUs", "GPUs per node"),
        _float("price_usd", "US$", "price of one node; text such as $6,960 is accepted", money=True),
        _str("vendor", "who quoted", required=False, default=""),
        _str("gpu_type", "GPU model; empty = any", required=False, default=""),
        _str("processor", "processor model, for information", required=False, default=""),
        _float("spec_rate", "any speed", "speed of one core; empty = ratio 1.0", **_OPTIONAL),
        _float("power_w", "W", "power of one busy node", **_OPTIONAL),
        _float("idle_power_w", "W", "power of one idle node", **_OPTIONAL),
        _float("rack_units", "U", "height of one node in a rack", **_OPTIONAL),
        _int("min_count", "nodes", "at least so many if the type is bought", **_OPTIONAL),
        _int("max_count", "nodes", "at most so many", **_OPTIONAL),
        _int(
            "pack_size", "nodes", "sold only in multiples of this", required=False, nullable=True, minimum=1
        ),
        _str(
            "lot",
            "the lot that the type is offered for; a lot goes to one vendor",
            required=False,
            default="",
        ),
        Column("mandatory", "bool", "", "the type is in every package", required=False, default=False),
        _str("valid_until", "last day of the offer, YYYY-MM-DD", required=False, default=""),
        _float("licence_usd_per_year", "US$/year", "licences per node", money=True, **_OPTIONAL),
        _float("support_usd_per_year", "US$/year", "support per node", money=True, **_OPTIONAL),
        _str("source", "where the figures come from", required=False, default=""),
    ),
    unique="name",
)

PACKAGE = Schema(
    "package",
    (
        _str("package_id", "type=count pairs joined by commas, in quote-file order, without zeros"),
        _float("price_usd", "US$", "price of all nodes of the package"),
        _int("total_cpus", "CPUs", "CPU cores of all nodes"),
        _float("total_mem_gb", "GB = 1,000 MB", "memory of all nodes"),
        _int("total_gpus", "GPUs", "GPUs of all nodes"),
        Column("distinct", "bool", "", "the first row with these counts; only these are simulated"),
    ),
    open=True,
)

JOB = Schema(
    "job",
    (
        _str("job_id", "the log's own identifier"),
        _str("user", "who submitted; empty = unknown", required=False, default=""),
        _int("submit_time", "s, Unix, UTC", "when the job was submitted", minimum=None),
        _int("requested_time", "s", "the user's limit; 0 = none", required=False, default=0),
        _int("run_time", "s", "what it took on the logged system"),
        _int("n_nodes", "nodes", "nodes, each with the amounts below", required=False, default=1, minimum=1),
        _int("cpus_per_node", "CPUs", "CPUs asked for on each node"),
        _int("mem_mb_per_node", "MB", "memory asked for on each node", required=False, default=0),
        _int("gpus_per_node", "GPUs", "GPUs asked for on each node", required=False, default=0),
        _str("gpu_type", "GPU model asked for; empty = any", required=False, default=""),
        _str("partition", "partition or queue; empty = unknown", required=False, default=""),
        _str("account", "account or group", required=False),
        _str("qos", "quality of service", required=False),
        _float("priority", "", "priority as logged", required=False, nullable=True, minimum=None),
        _str("state", "final state as logged, e.g. COMPLETED", required=False),
        _int("eligible_time", "s, Unix, UTC", "when the job could first start", minimum=None, **_OPTIONAL),
        _int("start_time", "s, Unix, UTC", "when it started; empty = never", minimum=None, **_OPTIONAL),
        _int("end_time", "s, Unix, UTC", "when it ended; empty = not yet", minimum=None, **_OPTIONAL),
        _str("node_ids", "the nodes that it got, separated by commas", required=False),
    ),
    open=True,
)

NODE = Schema(
    "node",
    (
        _str("node_id", "name of the server"),
        _str("kind", "its server type", required=False, default="node"),
        _int("cpus", "CPUs", "CPU cores"),
        _int("mem_mb", "MB", "memory"),
        _int("gpus", "GPUs", "GPUs", required=False, default=0),
        _str("gpu_type", "GPU model; empty = any", required=False, default=""),
        _float("speed", "any speed", "speed of one core; empty = ratio 1.0", **_OPTIONAL),
        _float("power_w", "W", "power of the busy node", **_OPTIONAL),
        _float("idle_power_w", "W", "power of the idle node", **_OPTIONAL),
        _int("leaf", "", "leaf switch", **_OPTIONAL),
        _int("pod", "", "pod of the fat-tree", **_OPTIONAL),
    ),
    unique="node_id",
)

METRICS = (
    _int("n_jobs", "jobs", "jobs in the workload"),
    _int("n_completed", "jobs", "jobs that ran, killed ones included", nullable=True),
    _int("n_unrunnable", "jobs", "jobs that fit no empty set of nodes", nullable=True),
    _int("n_killed", "jobs", "jobs cut at their limit", nullable=True),
    _float("mean_wait_time", "s", "mean of start − submit over the jobs that ran", nullable=True),
    _float("median_wait_time", "s", "median wait", nullable=True),
    _float("p95_wait_time", "s", "95th percentile of the wait, linear interpolation", nullable=True),
    _float("max_wait_time", "s", "longest wait", nullable=True),
    _float("mean_bounded_slowdown", "", "mean of max(1, (end − submit)/max(run, 10 s))", nullable=True),
    _float("mean_turnaround_time", "s", "mean of end − submit", nullable=True),
    _float("makespan", "s", "last end − first submit, over the jobs that ran", nullable=True),
    _float("utilization_cpu", "share", "busy CPU-seconds / (CPUs × makespan)", nullable=True),
    _float("utilization_mem", "share", "busy MB-seconds / (MB × makespan)", nullable=True),
    _float("utilization_gpu", "share", "busy GPU-seconds / (GPUs × makespan)", nullable=True),
    _int("max_queue_depth", "jobs", "most jobs waiting after the decisions of a moment", nullable=True),
)
"""What one run is measured by, in the order in which `simulate` reports it."""

RESULT = Schema(
    "result",
    (
        _str("package_id", "which package was simulated"),
        _str("workload", "which workload"),
        _str("policy", "which policy"),
        _str("status", "ok, or failed"),
        _str("reason", "why a run failed; empty if it did not"),
        *METRICS,
        _int("schema_version", "", "version of this table"),
    ),
    open=True,
)

SCHEMAS = {schema.name: schema for schema in (QUOTE, PACKAGE, JOB, NODE, RESULT)}


def nearest(word: str, legal: Iterable[str], n: int = 3) -> str:
    """Say which legal names come nearest to a mistyped one, or all of them if none does."""
    names = [str(name) for name in legal]
    close = difflib.get_close_matches(word, names, n=n, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names) or 'none'}"


def _plain(value: object) -> object:
    """Turn a NumPy scalar into the plain value that a user wrote."""
    return value.item() if isinstance(value, np.generic) else value


def _where(source: str, row: int | None, column: str | None) -> str:
    parts = [source] if source else []
    if row is not None:
        parts.append(f"row {row + 1}")
    if column is not None:
        parts.append(f"column {column}")
    return ", ".join(parts) + ": " if parts else ""


# A comma separates thousands and nothing else, so that a decimal comma is an error and not 100 times the price.
_CURRENCY = re.compile(
    r"^\s*(-?)\s*(?:USD?|US\$|\$)?\s*(-?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d*\.?\d+(?:[eE][-+]?\d+)?))\s*(?:USD|\$)?\s*$"
)
_TRUE, _FALSE = {"true", "yes", "1"}, {"false", "no", "0", ""}


def _money(text: str) -> str:
    """Turn currency text into the number in it; leave what is none as it is."""
    match = _CURRENCY.match(text)
    return match.group(1) + match.group(2).replace(",", "") if match else text


def _is_missing(values: pd.Series) -> np.ndarray:
    missing = values.isna().to_numpy()
    if values.dtype == object or pd.api.types.is_string_dtype(values.dtype):
        missing = missing | values.astype(str).str.strip().isin(["", "nan", "NaN", "None", "<NA>"]).to_numpy()
    return missing


def _numbers(values: pd.Series, column: Column, source: str) -> np.ndarray:
    """Return float64 numbers, NaN where missing; complain of the first text."""
    missing = _is_missing(values)
    if pd.api.types.is_numeric_dtype(values.dtype):
        return np.asarray(values.astype("float64").to_numpy(na_value=np.nan))
    text = values.astype(str)
    if column.money:
        text = text.map(_money)
    numbers = pd.to_numeric(text.where(~missing), errors="coerce").to_numpy(dtype="float64")
    bad = np.flatnonzero(np.isnan(numbers) & ~missing)
    if bad.size:
        kind = "a whole number" if column.dtype == "int" else "a number"
        unit = f" ({column.unit})" if column.unit else ""
        given = _plain(values.iloc[bad[0]])
        raise TableError(f"{_where(source, int(bad[0]), column.name)}{given!r} is not {kind}{unit}")
    return numbers


def _coerce(values: pd.Series, column: Column, source: str) -> pd.Series:
    missing = _is_missing(values)
    if missing.any() and column.dtype != "str" and not column.nullable:
        if column.required or column.default is None:
            row = int(np.flatnonzero(missing)[0])
            raise TableError(
                f"{_where(source, row, column.name)}the value is missing; {column.meaning} is required"
            )
        values = values.astype(object).where(~missing, column.default)
        missing = np.zeros(len(values), dtype=bool)
    if column.dtype == "str":
        if column.required and missing.any() and column.default is None and column.name not in ("reason",):
            row = int(np.flatnonzero(missing)[0])
            raise TableError(f"{_where(source, row, column.name)}the value is missing; {column.meaning}")
        return values.astype(object).where(~missing, "").map(str).astype(object)
    if column.dtype == "bool":
        if values.dtype == bool:
            return values
        text = values.astype(str).str.strip().str.lower()
        bad = np.flatnonzero(~text.isin(_TRUE | _FALSE).to_numpy())
        if bad.size:
            given = _plain(values.iloc[bad[0]])
            raise TableError(f"{_where(source, int(bad[0]), column.name)}{given!r} is not true or false")
        return text.isin(_TRUE)
    if column.dtype == "int" and pd.api.types.is_integer_dtype(values.dtype):
        whole = values
    else:
        numbers = _numbers(values, column, source)
        bad = np.flatnonzero(np.isinf(numbers))
        if bad.size:
            raise TableError(
                f"{_where(source, int(bad[0]), column.name)}{_plain(values.iloc[bad[0]])!r} is not finite"
            )
        whole = pd.Series(numbers, index=values.index)
        if column.dtype == "int":
            bad = np.flatnonzero(~np.isnan(numbers) & (numbers != np.floor(numbers)))
            if bad.size:
                given = _plain(values.iloc[bad[0]])
                raise TableError(f"{_where(source, int(bad[0]), column.name)}{given!r} is not a whole number")
            large = np.flatnonzero(np.abs(numbers) >= 2.0**53)
            if large.size:
                given = _plain(values.iloc[large[0]])
                raise TableError(f"{_where(source, int(large[0]), column.name)}{given!r} is too large")
    if column.minimum is not None:
        low = np.flatnonzero((whole < column.minimum).fillna(False).to_numpy(dtype=bool))
        if low.size:
            given = _plain(values.iloc[low[0]])
            unit = f" ({column.unit})" if column.unit else ""
            raise TableError(
                f"{_where(source, int(low[0]), column.name)}{given!r} is below {column.minimum:g}; "
                f"{column.meaning}{unit} must be at least {column.minimum:g}"
            )
    return whole.astype(column.pandas_dtype)


def check(frame: pd.DataFrame, schema: Schema, source: str = "") -> pd.DataFrame:
    """Return the table in its schema's columns, order and dtypes.

    Parameters
    ----------
    frame
        Any frame; it is not modified.
    schema
        One of `SCHEMAS`.
    source
        What to call the table in an error, e.g. the file's name.

    Returns
    -------
    pandas.DataFrame
        Known columns first, in schema order; an open table's further columns after them; a fresh
        RangeIndex.

    Raises
    ------
    TableError
        A missing or unknown column, a missing, negative or non-numeric value, or a repeated name,
        with source, row (the first row after the header is row 1) and column.
    """
    source = source or f"{schema.name} table"
    frame = frame.rename(columns=lambda name: str(name).strip()).reset_index(drop=True)
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise TableError(f"{source}: column {repeated[0]} stands twice")
    absent = [c.name for c in schema.columns if c.required and c.name not in frame.columns]
    if absent:
        has = ", ".join(map(str, frame.columns)) or "no columns"
        raise TableError(f"{source}: column {absent[0]} is missing; the table has {has}")
    unknown = [name for name in frame.columns if name not in schema.by_name]
    for name in unknown if schema.open else []:
        meant = [
            c.name for c in schema.columns if c.name not in frame.columns and c.name.startswith(f"{name}_")
        ]
        if meant:  # an amount under a shortened name would silently count as not asked for
            raise TableError(f"{source}: unknown column {name!r}; rename it to {meant[0]}, or leave it out")
    if unknown and not schema.open:
        raise TableError(f"{source}: unknown column {unknown[0]!r}; {nearest(unknown[0], schema.names)}")
    columns: dict[str, pd.Series] = {}
    for column in schema.columns:
        if column.name in frame.columns:
            columns[column.name] = _coerce(frame[column.name], column, source)
        elif column.default is not None:
            columns[column.name] = pd.Series(column.default, index=frame.index, dtype=column.pandas_dtype)
    checked = pd.DataFrame(columns | {name: frame[name] for name in unknown}, index=frame.index)
    checked.attrs = dict(frame.attrs)
    if schema.unique:
        again = np.flatnonzero(checked[schema.unique].duplicated().to_numpy())
        if again.size:
            row, value = int(again[0]), checked[schema.unique].iloc[again[0]]
            first = int(np.flatnonzero((checked[schema.unique] == value).to_numpy())[0])
            raise TableError(
                f"{_where(source, row, schema.unique)}{value!r} stands already in row {first + 1}; "
                f"each {schema.unique} may stand once"
            )
    return checked


def existing_file(path: str | Path) -> Path:
    """Return the path of a file that is there.

    Raises
    ------
    TableError
        It is a folder, or there is nothing.
    """
    path = Path(path)
    if path.is_dir():
        raise TableError(f"{path}: is a folder; name a file")
    if not path.is_file():
        raise TableError(f"{path}: no such file")
    return path


def read(path: str | Path, schema: Schema) -> pd.DataFrame:
    """Read and check a table from CSV (plain or compressed) or Parquet, by its file name.

    Raises
    ------
    TableError
        The file is missing, empty, truncated, not of its kind, or fails `check`.
    """
    path = existing_file(path)
    try:
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
        else:
            frame = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    except pd.errors.EmptyDataError:
        raise TableError(
            f"{path}: the file is empty; a header with {', '.join(schema.names[:4])} … is needed"
        ) from None
    except Exception as error:  # every reader and decompressor raises its own classes for a damaged file
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TableError(f"{path}: cannot be read as {path.suffix.lstrip('.') or 'CSV'}: {reason}") from None
    if frame.empty:
        raise TableError(f"{path}: holds no {schema.name}; at least one row is needed")
    return check(frame, schema, str(path))


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Give a temporary name to write to, which becomes ``path`` only when the block ends without error.

    Raises
    ------
    TableError
        The folder is missing, the disk is full, or writing is not allowed.
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise TableError(f"{path}: cannot be written: {error.strerror}") from None
    temporary = Path(name)
    try:
        os.close(handle)
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        raise TableError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def check_name(path: str | Path) -> Path:
    """Return a path whose name says how a table is written.

    Raises
    ------
    TableError
        It ends in none of ``.parquet``, ``.csv``, ``.csv.gz``, ``.csv.bz2``, ``.csv.xz``, ``.csv.zst``.
    """
    path = Path(path)
    if re.search(r"\.(parquet|csv(\.(gz|bz2|xz|zst))?)$", path.name) is None:
        raise TableError(
            f"{path}: a table is written as .parquet or .csv, or as .csv.gz, .csv.bz2, .csv.xz or .csv.zst"
        )
    return path


def write(frame: pd.DataFrame, path: str | Path) -> Path:
    """Write a table as Parquet or CSV, by its file name: whole or not at all.

    The file appears under its name only when it is complete (temporary name, flush, rename).

    Raises
    ------
    TableError
        The name says no format (`check_name`), the folder is missing, the disk is full, or writing is not allowed.
    """
    path = check_name(path)
    with whole_file(path) as temporary:
        if path.suffix == ".parquet":
            frame.to_parquet(temporary, index=False)
        else:
            frame.to_csv(temporary, index=False)
    return path
