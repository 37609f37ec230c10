"""The five tables: what `check` accepts, refuses and says, and that files are whole or not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from procure.schemas import JOB, NODE, SCHEMAS, Column, Schema
from procure.tables import TableError, check, read, write

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "tables.md"
NODES = {"node_id": ["a", "b"], "cpus": [4, 8], "mem_mb": [1000, 2000]}


def page_text() -> str:
    """Write the reference page of the tables out of their schemas."""
    lines = [
        "# Tables",
        "Made from the schemas in `procure/tables.py`; a test keeps it so.",
        "",
        "In CSV that procure writes or prints, text that a spreadsheet would run as a formula, because it begins with",
        "`=`, `+`, `-`, `@`, one of their full-width forms, a tab or a break, has an apostrophe before it; so has what",
        "follows a semicolon, a tab or a break within a text. Reading a table takes it away again; numbers, JSON and",
        "Parquet are as they are.",
    ]
    for schema in SCHEMAS.values():
        lines += ["", f"## {schema.name}"]
        if schema.unique:
            lines.append(f"One row per `{schema.unique}`.")
        if schema.open:
            lines.append("Further columns may follow (a count per quoted type, a log's own extras).")
        lines += ["", "| Column | Type | Unit | Meaning | If absent |", "| --- | --- | --- | --- | --- |"]
        for column in schema.columns:
            default = "–" if column.default is None else repr(column.default)
            absent = "required" if column.required else default
            meaning = column.meaning.replace("|", "\\|")
            lines.append(f"| `{column.name}` | {column.dtype} | {column.unit} | {meaning} | {absent} |")
    return "\n".join(lines) + "\n"


def test_reference_page_is_the_schemas():
    assert PAGE.read_text() == page_text()


BAD = [
    ({**NODES, "cpus": [4, -8]}, r"nodes, row 2, column cpus: -8 is below 0"),
    ({**NODES, "cpus": [4, "many"]}, r"nodes, row 2, column cpus: 'many' is not a whole number"),
    ({**NODES, "cpus": [4, 2.5]}, r"row 2, column cpus: 2.5 is not a whole number"),
    ({**NODES, "cpus": [4, None]}, r"row 2, column cpus: the value is missing"),
    ({**NODES, "cpus": [4, np.inf]}, r"row 2, column cpus: inf is not finite"),
    ({**NODES, "cpus": [4, 1e17]}, r"row 2, column cpus: 1e\+17 is too large"),
    ({**NODES, "node_id": ["a", "a"]}, r"row 2, column node_id: duplicate 'a', also in row 1"),
    ({**NODES, "node_id": ["a", ""]}, r"row 2, column node_id: the value is missing"),
    ({**NODES, "memory": [1, 1]}, r"unknown column 'memory'; did you mean mem_mb"),
    ({"node_id": ["a"]}, r"column cpus is missing; the table has node_id"),
    ({"node_id": ["a"], "x\nall is well": [1]}, r"the table has node_id, x\\nall is well"),
]


@pytest.mark.parametrize(("columns", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_what_is_wrong_is_said_with_row_and_column(columns, message):
    """Each kind of bad value gives one error that names the source, the row and the column."""
    with pytest.raises(TableError, match=message):
        check(pd.DataFrame(columns), NODE, "nodes")


def test_check_does_not_modify_its_argument():
    """The frame given to `check` is the same afterwards; the one returned has the schema's dtypes."""
    frame = pd.DataFrame(NODES)
    before = frame.copy()
    checked = check(frame, NODE)
    pd.testing.assert_frame_equal(frame, before)
    assert checked["gpus"].tolist() == [0, 0]
    assert checked["mem_mb"].dtype == "int64"


def test_a_shortened_column_name_is_not_taken_for_an_extra():
    """A job table with mem_mb instead of mem_mb_per_node is refused: its memory would count as none."""
    row = {"job_id": "a", "submit_time": 0, "run_time": 1, "cpus_per_node": 1, "mem_mb": 4000}
    with pytest.raises(TableError, match="rename it to mem_mb_per_node"):
        check(pd.DataFrame([row]), JOB)


@given(
    st.lists(
        st.tuples(st.integers(-(2**40), 2**40), st.integers(0, 2**40), st.integers(1, 100)), min_size=1, max_size=20
    ),
    st.sampled_from([".parquet", ".csv", ".csv.gz"]),
)
def test_written_and_read_back_is_the_same(tmp_path_factory, rows, suffix):
    columns = pd.DataFrame(rows, columns=["submit_time", "run_time", "cpus_per_node"])
    jobs = check(columns.assign(job_id=[f"{i}" for i in range(len(rows))], start_time=pd.NA), JOB)
    path = tmp_path_factory.mktemp("tables") / f"jobs{suffix}"
    pd.testing.assert_frame_equal(read(write(jobs, path), JOB), jobs)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("header.csv", b"node_id,cpus,mem_mb\n", "holds no node"),
        ("broken.parquet", b"PAR1 no", "cannot be read"),
        ("broken.csv.xz", b"\xfd7zXZ\x00", "cannot be read"),
    ],
)
def test_damaged_files_are_one_sentence(tmp_path, name, content, message):
    """An empty, truncated or foreign file is named with what is wrong."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError, match=message):
        read(path, NODE)


def test_schema_with_default_fills_missing_cells():
    """A missing cell of a column with a default takes the default; so does an absent column."""
    schema = Schema("t", (Column("a", "int", "", "a", required=False, default=7),))
    assert check(pd.DataFrame({"a": ["", "3"]}), schema)["a"].tolist() == [7, 3]


@pytest.mark.parametrize("name", ["jobs.txt", "jobs", "jobs.gz", "jobs.csv.zip", "csv", "jobs.CSV"])
def test_a_name_that_says_no_format_is_refused(name, tmp_path):
    """Nothing is written under it; the formats that there are, are named."""
    with pytest.raises(TableError, match=r"written as \.parquet or \.csv"):
        write(pd.DataFrame({"a": [1]}), tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.parquet", "a.b.csv", "a.csv.gz", "a.csv.xz"])
def test_a_name_that_says_a_format_is_written_in_it(name, tmp_path):
    path = write(pd.DataFrame({"a": [1]}), tmp_path / name)
    found = pd.read_parquet(path) if name.endswith("parquet") else pd.read_csv(path)
    assert found["a"].tolist() == [1]
