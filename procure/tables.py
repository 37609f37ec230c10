"""The check that every border calls, and the only doors between a table and a file.

A table is a pandas frame. Its schema (`procure.schemas`) says, for each column, the dtype, the unit and
the meaning; `check` coerces a frame to it or says in one sentence what is wrong and where.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from procure.errors import TableError, reason
from procure.files import check_parquet, damage_of, existing_file, is_parquet, read_bytes, read_rows, whole_file
from procure.files.write import ESCAPED, as_csv, with_formulas
from procure.schemas import JOB, METRICS, NODE, PACKAGE, QUOTE, RESULT, SCHEMAS, Column, Schema  # noqa: F401 - one door
from procure.text import money, nearest, printable, short


class CellError(TableError):
    """One cell of a table is wrong; ``row`` from 0, ``column``, and ``what`` is the message without the place."""

    def __init__(self, source: str, row: int, column: str, what: str) -> None:
        """Take where the cell is, and what is wrong with it."""
        super().__init__(f"{source and f'{source}, '}row {row + 1}, column {column}: {what}")
        self.row, self.column, self.what = row, column, what


def _plain(value: object) -> object:
    """Turn a NumPy scalar into the plain value that a user wrote."""
    return value.item() if isinstance(value, np.generic) else value


_TRUE, _FALSE = {"true", "yes", "1"}, {"false", "no", "0", ""}


def _money(given: str) -> str:
    """Turn currency text into the number in it; leave other text as it is."""
    try:
        return repr(money(given))
    except ValueError:
        return given


_NOTHING = {"", "nan", "NaN", "None", "<NA>"}
"""What a cell of numbers holds where there is none; in a column of text these are names, but for the first."""
_KINDS = {"int": "i", "float": "f"}
"""NumPy's letter of each dtype of a schema's numbers."""


def _right_text(values: pd.Series, column: Column) -> pd.Series | None:
    """Return text, what is missing filled in, each equal value of a file's once; None = some must be looked at."""
    if isinstance(values.dtype, pd.StringDtype):
        text = pa.array(values.array)
    elif values.dtype == object and pd.api.types.infer_dtype(values, skipna=False) == "string":
        try:
            text = pa.array(values.to_numpy(), pa.large_string())
        except ValueError:  # half of a surrogate pair
            return None
    else:
        return None
    needed = column.required and column.default is None and column.name != "reason"
    if pc.any(pc.utf8_is_space(text)).as_py() or (needed and (text.null_count or pc.any(pc.equal(text, "")).as_py())):
        return None
    if column.longest is not None and (pc.max(pc.utf8_length(text)).as_py() or 0) > column.longest:
        return None
    if values.dtype == object:
        return values
    text = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    coded = text.fill_null("").dictionary_encode()
    each = coded.dictionary.to_numpy(zero_copy_only=False)
    return pd.Series(each[coded.indices.to_numpy()], index=values.index, dtype=object)


def _may_be_text(values: pd.Series) -> bool:
    return bool(values.dtype == object or pd.api.types.is_string_dtype(values.dtype))


def _gone(values: pd.Series, given: list | None, nothing: set[str]) -> np.ndarray:
    """Tell which values are missing; ``given`` are the same one by one where they may be text."""
    missing = np.asarray(values.isna())
    if given is not None:
        missing = missing | np.array([str(value).strip() in nothing for value in given], dtype=bool)
    return missing


def _numbers(values: pd.Series, missing: np.ndarray, column: Column, source: str) -> np.ndarray:
    """Return float64 numbers, NaN where missing; complain of the first text."""
    if pd.api.types.is_numeric_dtype(values.dtype):
        return np.asarray(values.astype("float64").to_numpy(na_value=np.nan))
    text = values.astype(str)
    if column.money:
        text = text.map(_money, na_action="ignore")
    numbers = as_floats(text.where(~missing))
    bad = np.flatnonzero(np.isnan(numbers) & ~missing)
    if bad.size:
        kind = "a whole number" if column.dtype == "int" else "a number"
        unit = f" ({column.unit})" if column.unit else ""
        given = _plain(values.iloc[bad[0]])
        raise CellError(source, int(bad[0]), column.name, f"{short(given)} is not {kind}{unit}")
    return numbers


def as_floats(text: pd.Series) -> np.ndarray:
    """Return float64 numbers, NaN where there is none; one of hundreds of digits is infinite."""
    try:
        numbers = pd.to_numeric(text, errors="coerce")
    except OverflowError:
        huge = text.astype(str).str.fullmatch(r"\s*[-+]?\d{300,}\s*").to_numpy(dtype=bool)
        numbers = pd.to_numeric(text.astype(object).mask(huge, "inf"), errors="coerce")
    return np.asarray(numbers.to_numpy(dtype="float64", na_value=np.nan))


def _is_right(values: pd.Series, column: Column) -> bool:
    """Tell, of NumPy's own numbers, whether all that must be there are, and in range: none is checked twice."""
    if not isinstance(values.dtype, np.dtype) or values.dtype.kind not in _KINDS.get(column.dtype, ""):
        return False
    least = -np.inf if column.minimum is None else column.minimum
    most = np.inf if column.maximum is None else column.maximum
    numbers = values.to_numpy()
    right = (numbers >= least) & (numbers <= most) & np.isfinite(numbers)
    return bool((right | np.isnan(numbers)).all() if column.nullable and column.dtype == "float" else right.all())


def _coerce(values: pd.Series, column: Column, source: str) -> pd.Series:
    if _is_right(values, column):
        return values if values.dtype == column.pandas_dtype else values.astype(column.pandas_dtype)
    if column.dtype == "str" and (right := _right_text(values, column)) is not None:
        return right
    maybe_text = _may_be_text(values)
    given = list(values) if maybe_text or column.dtype == "str" else None
    missing = _gone(values, given if maybe_text else None, {""} if column.dtype == "str" else _NOTHING)

    def refuse(bad: Any, what: str, show: bool = True) -> None:
        for row in np.flatnonzero(np.asarray(bad, dtype=bool))[:1]:
            shown = f"{short(_plain(values.iloc[row]))} " if show else ""
            raise CellError(source, int(row), column.name, f"{shown}{what}")

    if missing.any() and column.dtype != "str" and not column.nullable:
        if column.required or column.default is None:
            refuse(missing, f"the value is missing; {column.meaning.partition(';')[0]} is required", show=False)
        values = values.astype(object).where(~missing, column.default)
        missing = np.zeros(len(values), dtype=bool)
    if column.dtype == "str":
        if column.required and column.default is None and column.name != "reason":
            refuse(missing, f"the value is missing; {column.meaning}", show=False)
        text = ["" if gone else str(value) for gone, value in zip(missing.tolist(), given or [], strict=True)]
        if column.longest is not None and max(map(len, text), default=0) > column.longest:
            refuse(
                [len(one) > column.longest for one in text],
                f"is too long; {column.longest} characters are allowed",
            )
        return pd.Series(text, index=values.index, dtype=object)
    if column.dtype == "bool":
        if values.dtype == bool:
            return values
        text = values.astype(str).str.strip().str.lower()
        refuse(~text.isin(_TRUE | _FALSE), "is not true or false")
        return text.isin(_TRUE)
    whole: pd.Series | np.ndarray
    if column.dtype == "int" and pd.api.types.is_integer_dtype(values.dtype):
        whole = values
    else:
        whole = numbers = _numbers(values, missing, column, source)
        refuse(np.isinf(numbers), "is not finite")
        if column.dtype == "int":
            refuse(~np.isnan(numbers) & (numbers != np.floor(numbers)), "is not a whole number")
            refuse(np.abs(numbers) >= 2.0**53, "is too large")
    compared = whole.to_numpy(np.float64, na_value=np.nan) if isinstance(whole, pd.Series) else whole
    if column.minimum is not None:
        unit = f" ({column.unit})" if column.unit else ""
        least = f"{column.minimum:g}"
        refuse(compared < column.minimum, f"is below {least}; {column.meaning}{unit} must be at least {least}")
    if column.maximum is not None:
        unit = f" {column.unit}" if column.unit else ""
        refuse(compared > column.maximum, f"is too large; at most {column.maximum:,.0f}{unit} is allowed")
    return pd.Series(whole, index=values.index).astype(column.pandas_dtype)


def clock_of(jobs: pd.DataFrame) -> str | None:
    """Return in what a job table's times are: ``unix``, or ``log`` for its log's own seconds; None = it does not say.

    It stands in the frame's ``attrs``, which pandas passes on through some operations only; this, `with_clock` and
    `with_clock_of` alone touch them.
    """
    return jobs.attrs.get("clock")


def with_clock(jobs: pd.DataFrame, clock: str) -> pd.DataFrame:
    """Let a new job table say in what its times are; see `clock_of`."""
    jobs.attrs["clock"] = clock
    return jobs


def with_clock_of(other: pd.DataFrame, jobs: pd.DataFrame) -> pd.DataFrame:
    """Let a new job table have its times in what another's are."""
    jobs.attrs = dict(other.attrs)
    return jobs


def check(frame: pd.DataFrame, schema: Schema, source: str = "") -> pd.DataFrame:
    """Return a table in its schema's columns, order and dtypes; an open table's further columns stand behind.

    The frame is not modified. ``source`` is what an error calls the table, e.g. the file's name.

    Raises
    ------
    TableError
        A missing or unknown column, a missing, negative or non-numeric value, or a repeated name,
        with source, row (the first row after the header is row 1) and column.

    Examples
    --------
    >>> import procure
    >>> from procure.schemas import JOB
    >>> jobs = procure.generate(seed=1, n_jobs=10)
    >>> procure.check(jobs, JOB).shape[0]
    10
    """
    source = source or f"{schema.name} table"
    if schema is JOB:
        frame = _with_nodes(frame)
    names = [str(name).strip() for name in frame.columns]
    if len(set(names)) < len(names):
        raise TableError(f"{source}: duplicate column {next(n for at, n in enumerate(names) if n in names[:at])}")
    frame = frame.set_axis(names, axis=1).reset_index(drop=True)
    absent = [c.name for c in schema.columns if c.required and c.name not in frame.columns]
    if absent:
        has = printable(", ".join(map(str, frame.columns))) or "no columns"
        more = f"; missing too: {', '.join(absent[1:])}" if absent[1:] else ""
        raise TableError(f"{source}: column {absent[0]} is missing; the table has {has}{more}")
    unknown = [name for name in frame.columns if name not in schema.by_name]
    for name in unknown if schema.open else []:
        meant = [c.name for c in schema.columns if c.name not in frame.columns and c.name.startswith(f"{name}_")]
        if meant:  # an amount under a shortened name would silently count as not asked for
            raise TableError(f"{source}: unknown column {name!r}; rename it to {meant[0]}, or leave it out")
    if unknown and not schema.open:
        raise TableError(f"{source}: unknown column {unknown[0]!r}; {nearest(unknown[0], schema.names)}")
    columns: dict[str, pd.Series] = {}
    for column in schema.columns:
        if column.name in frame.columns:
            columns[column.name] = _coerce(frame.pop(column.name), column, source)
        elif column.default is not None and (not column.beside or column.beside in names):
            columns[column.name] = pd.Series(column.default, index=frame.index, dtype=column.pandas_dtype)
    rest = {name: frame[name] for name in unknown}
    checked = pd.DataFrame(columns | rest, index=frame.index, copy=False)  # of columns as they are none is made twice
    with_clock_of(frame, checked)
    if "n_tasks" in columns:
        _refuse_tasks(checked, source)
    if schema.unique:
        again = np.flatnonzero(checked[schema.unique].duplicated().to_numpy())
        if again.size:
            row, value = int(again[0]), checked[schema.unique].iloc[again[0]]
            first = int(np.flatnonzero((checked[schema.unique] == value).to_numpy())[0])
            raise CellError(
                source,
                row,
                schema.unique,
                f"duplicate {short(value)}, also in row {first + 1}; each {schema.unique} must be unique",
            )
    return checked


def _with_nodes(frame: pd.DataFrame) -> pd.DataFrame:
    """Fill in the shape of nodes of rows of tasks that leave it empty: as few nodes as they may have."""
    if "n_tasks" not in frame:
        return frame

    def number(name: str, least: int) -> np.ndarray:
        found = as_floats(frame[name]) if name in frame else np.zeros(len(frame))
        return np.maximum(np.nan_to_num(found), least)

    tasks, each, most = number("n_tasks", 0), number("cpus_per_task", 1), number("tasks_per_node", 0)
    nodes = np.maximum(number("min_nodes", 1), np.where(most > 0, np.ceil(tasks / np.maximum(most, 1)), 1))
    filled = {}
    for name, values in (
        ("n_nodes", nodes),
        ("cpus_per_node", np.ceil(tasks / number("n_nodes", 0).clip(nodes)) * each),
    ):
        given = frame[name] if name in frame else pd.Series(None, index=frame.index, dtype=object)
        empty = (tasks > 0) & _gone(given, [*given] if _may_be_text(given) else None, _NOTHING)
        if empty.any():
            filled[name] = given.astype(object).where(~empty, values)
    return frame.assign(**filled)


def _refuse_tasks(jobs: pd.DataFrame, source: str) -> None:
    """Refuse the first row whose tasks contradict themselves."""
    most, wide = jobs["max_nodes"], jobs["tasks_per_node"]
    wrong = {
        "min_nodes": ((most > 0) & (jobs["min_nodes"] > most), "is above max_nodes"),
        "n_tasks": (
            (most > 0) & (wide > 0) & (jobs["n_tasks"] > most * wide),
            "is more than tasks_per_node on max_nodes nodes",
        ),
    }
    for amount, what in (("mem_mb", "memory is"), ("gpus", "GPUs are")):
        both = (jobs[f"{amount}_per_task"] > 0) & (jobs[f"{amount}_per_node"] > 0)
        said = f"is given beside {amount}_per_node: {what} per task or per node, leave one at 0"
        wrong[f"{amount}_per_task"] = both, said
    for column, (bad, said) in wrong.items():
        for row in np.flatnonzero((bad & (jobs["n_tasks"] > 0)).to_numpy())[:1]:
            raise CellError(source, int(row), column, f"{jobs[column].iloc[row]} {said}")


def as_table(given: pd.DataFrame | str | Path, schema: Schema) -> pd.DataFrame:
    """Return a checked table: of a frame as `check` does, of a file as `read` does."""
    return read(given, schema) if isinstance(given, str | Path) else check(given, schema)


def cell_errors(frame: pd.DataFrame, schema: Schema, source: str = "") -> tuple[pd.DataFrame, list[CellError]]:
    """Return a frame in which every wrong cell holds a right value, and an error for each; single cells only."""
    frame, found = frame.reset_index(drop=True), []
    for column in schema.columns:
        while column.name in frame:
            try:
                _coerce(frame[column.name], column, source)
                break
            except CellError as error:
                found.append(error)
                filler = {"str": "x", "bool": "false"}.get(column.dtype, str(max(1, column.minimum or 0)))
                values = frame[column.name].astype(object)
                values.iloc[error.row] = filler
                frame = frame.assign(**{column.name: values})
    return frame, sorted(found, key=lambda error: error.row)


def read(path: str | Path, schema: Schema) -> pd.DataFrame:
    """Read and check a table: Parquet by its file name or first bytes, else CSV (plain or compressed); ``-`` is stdin.

    A file that is missing, empty, truncated, not of its kind, or fails `check` is a `TableError`.
    """
    path = existing_file(path)
    try:
        content = b"" if path.suffix == ".parquet" else read_bytes(path)
        if path.suffix == ".parquet" or is_parquet(content):
            file = io.BytesIO(content) if content else path
            check_parquet(file)
            # Of many rows, column by column: else Arrow's table stands beside the frame.
            many = {"split_blocks": True, "self_destruct": True} if pq.read_metadata(file).num_row_groups > 1 else {}
            given = [pd.read_parquet(file, to_pandas_kwargs=many)]
        else:
            given = [read_rows(content, str(path))]
            if ESCAPED.search(content):
                given = [with_formulas(given[0])]
    except pd.errors.EmptyDataError:
        raise TableError(
            f"{path}: the file is empty; a header with {', '.join(schema.names[:4])} … is needed"
        ) from None
    except (TableError, MemoryError):
        raise
    except Exception as error:  # every reader and decompressor raises its own classes for a damaged file
        if path.suffix == ".parquet":
            raise TableError(f"{path}: cannot be read as Parquet: {damage_of(path)}; write it anew") from None
        raise TableError(f"{path}: cannot be read as CSV: {reason(error)}") from None
    if given[0].empty:
        raise TableError(f"{path}: holds no {schema.name}; at least one row is needed")
    try:
        return check(given.pop(), schema, str(path))  # which nobody else holds: a column is gone as it is checked
    except TableError:
        raise
    except ValueError:  # Parquet's text is decoded when it is looked at
        raise TableError(f"{path}: holds text that is not UTF-8") from None
    finally:
        pa.default_memory_pool().release_unused()  # as much as the table


def check_name(path: str | Path) -> Path:
    """Return a path whose name says how a table is written; an error says which names do."""
    path = Path(path)
    if re.search(r"\.(parquet|csv(\.(gz|bz2|xz|zst))?)$", path.name) is None:
        raise TableError(
            f"{path}: a table is written as .parquet or .csv, or as .csv.gz, .csv.bz2, .csv.xz or .csv.zst"
        )
    return path


def write(frame: pd.DataFrame, path: str | Path) -> Path:
    """Write a table as Parquet or CSV, by its file name: whole or not at all, see `procure.files.whole_file`."""
    path = check_name(path)
    with whole_file(path) as temporary:
        if path.suffix == ".parquet":
            frame.to_parquet(temporary, index=False)
        else:
            as_csv(frame, temporary)
    return path
