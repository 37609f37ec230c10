"""Split what ``sacct --parsable2`` prints into columns of text, whatever delimits them."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.workload.ledger import Ledger, log_bytes
from procure.workload.log_settings import How
from procure.workload.rows import Rows
from procure.workload.sacct_json import json_rows

_CELLS = {
    "jobid": r"\s*\d@", "submit eligible start end": r"\d@|None|Unknown|", "constraints jobname": ".*?",
    "nnodes ncpus reqcpus alloccpus elapsedraw uid gid": r"[\d.KM]*", "exitcode": r"\d+:\d+|",
    "submitline": r"(?:\S*/)?(?:sbatch|srun|salloc)\b.*?|\(null\)|",
}  # fmt: skip
"""What cells look like: of columns that may hold the delimiter, and of those by which that is told; @ holds none."""
_MOST_MARKS, _LINE = 200, "submitline"


def table(path: str | Path, how: How, rows: Callable[[str], Rows] | None) -> tuple[pd.DataFrame, Ledger]:
    """Split the file into text columns; lines with another number of fields than the header are bad."""
    text = log_bytes(path).decode("utf-8", errors="replace")
    if rows is not None:
        frame, ledger = rows(text).table(str(path), how.skip_bad_rows)
        if frame.empty:
            why = "; ".join(f"{n:,}: {reason}" for reason, n in ledger.dropped.items())
            raise TableError(f"{path}: holds no ended job{'; ' if why else ''}{why}")
        return frame, ledger
    if text.lstrip()[:1] in ("{", "["):
        frame = json_rows(text, str(path))
        return frame, Ledger(str(path), np.arange(1, len(frame) + 1), len(frame), how.skip_bad_rows, "job")
    # A name may hold what Unicode counts as the end of a line, so only the file's own ends count.
    lines = [line.removesuffix("\r") for line in [*filter(None, [how.fields]), *text.split("\n")]]
    body = [number for number, line in enumerate(lines) if line.strip()]
    header = lines[body.pop(0)]
    if not re.search(r"\bJobID", header, re.IGNORECASE):
        raise TableError(
            f"{path}: the first line is not a header of sacct --parsable2 (JobID|…); of a file without a header name "
            "its columns, --set fields=JobID,User,Submit,Start,End,…; or make one with the command that "
            "`procure workload import --print-sacct-command` prints"
        )
    sample = header if how.fields is None or not body else lines[body[0]]
    apart = set(re.findall(r"\W+", header)) if how.fields is None else set()
    many = header.count(",") if how.fields is not None and body else 1_000_000  # a node list has commas, too
    delimiter = apart.pop() if len(apart) == 1 else min("|;,^\t", key=lambda mark: abs(many - sample.count(mark)))
    if delimiter not in sample or not delimiter.strip(" "):
        raise TableError(
            f"{path}: no delimiter parts its columns; a table with spaces cuts its cells: collect it with "
            "sacct --parsable2, as `procure workload import --print-sacct-command` prints, or convert it to CSV"
        )
    names = [name.strip(' "').lower() for name in header.split("," if how.fields is not None else delimiter)]
    body = [number for number in body if lines[number] != header]  # it stands again where files were joined
    if _LINE in names:
        body = _in_rows(lines, body, names, delimiter)
    split = [_cells(lines[number], delimiter) for number in body]
    more = names[-1] != _LINE and all(len(one) == len(names) + 1 and not one[-1] for one in split)
    names += [""] * (more and len(split) > 0)  # an empty field after the last of each row, as editors write
    row = _row_of(names, delimiter)
    split = [_mended(parts, delimiter, row) for parts in split]
    good = [i for i, parts in enumerate(split) if len(parts) == len(names)]
    ledger = Ledger(str(path), np.array([body[i] for i in good], dtype=np.int64), len(body), how.skip_bad_rows)
    if len(good) < len(body):
        first = next(i for i, parts in enumerate(split) if len(parts) != len(names))
        what = f"where {'fields names' if how.fields is not None else 'the header has'} {len(names)}"
        ledger.skip_lines(len(body) - len(good), f"row {body[first]}: {len(split[first])} fields {what}")
    frame = pd.DataFrame([split[i] for i in good], columns=names, dtype=object)
    return frame.loc[:, ~frame.columns.duplicated()], ledger


def _in_rows(lines: list[str], body: list[int], names: list[str], delimiter: str) -> list[int]:
    """Join what follows a line's end in a command with the row that it stands in."""
    begins = re.compile(rf"\d[^{re.escape(delimiter)}]*{re.escape(delimiter)}")
    by_id = names[-1] == _LINE and names[0] == "jobid"
    row = _row_of(names, delimiter)
    rows: list[int] = []
    for number in body:
        line = lines[number]
        short_ = line.count(delimiter) < len(names) - 1
        if rows and (not begins.match(line) if by_id else short_ and not row.fullmatch(lines[rows[-1]])):
            lines[rows[-1]] += f" {line}"
        else:
            rows.append(number)
    return rows


def _cells(line: str, delimiter: str) -> list[str]:
    """Split a row; quotation marks hold a cell together as other tools write CSV, while sacct's own | needs none."""
    quoted = '"' in line and (delimiter != "|" or line[0] == '"')
    return next(csv.reader([line], delimiter=delimiter)) if quoted else line.split(delimiter)


def _row_of(names: list[str], delimiter: str) -> re.Pattern[str]:
    """Return what a row with the delimiter in a constraint (old|new), a name or a command line looks like."""
    other = f"[^{re.escape(delimiter)}]*"
    kinds = {name: cell.replace("@", other) for several, cell in _CELLS.items() for name in several.split()}
    return re.compile(re.escape(delimiter).join(f"({kinds.get(name, other)})" for name in names), re.DOTALL)


def _mended(parts: list[str], delimiter: str, row: re.Pattern[str]) -> list[str]:
    """Return the fields of a row that has more than the header, where its cells tell which of them belong together."""
    if not 0 < len(parts) - row.groups <= _MOST_MARKS:
        return parts
    found = row.fullmatch(delimiter.join(parts))
    return [*found.groups()] if found else parts
