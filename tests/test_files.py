"""Files as users have them: trailing commas, byte-order marks, other separators, standard input."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

from procure.errors import TableError
from procure.packages import read_quotes
from procure.schemas import JOB, NODE
from procure.study.existing import read_existing
from procure.tables import read
from procure.workload import import_log

NODES = "node_id,cpus,mem_mb\na,4,1000\nb,8,2000\n"
JOBS = "job_id,submit_time,run_time,cpus_per_node,user\n1,100,10,4,ann\n2,160,20,8,bob\n"
QUOTES = "name,category,cpus,mem_gb,gpus,price_usd\nx,compute,32,128,0,6960\ny,compute,64,256,0,9960\n"


def trailing(text: str, extra: str = ",") -> str:
    """End every row but the header with an extra field."""
    header, *rows = text.splitlines()
    return "\n".join([header, *(row + extra for row in rows)]) + "\n"


def rows_of(reader, path):
    if reader == "nodes":
        return read(path, NODE)
    if reader == "jobs":
        return read(path, JOB)
    if reader == "quotes":
        return read_quotes(path)
    if reader == "existing":
        return read_existing(path).nodes
    return import_log(path, "csv").jobs


READERS = [("nodes", NODES), ("jobs", JOBS), ("quotes", QUOTES), ("existing", NODES), ("log", JOBS)]


@pytest.mark.parametrize(("reader", "text"), READERS, ids=[name for name, _ in READERS])
def test_a_trailing_comma_shifts_no_column(reader, text, tmp_path):
    """Extra fields that are empty in every row, or only in some, leave the table as it is without them."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    wanted = rows_of(reader, path)
    for bad in (
        trailing(text),
        trailing(text, ",,,"),
        trailing(text, ", "),
        text[:-1] + ",\n",
        trailing(text).replace("\n", ",\n"),
    ):
        path.write_text(bad)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert rows_of(reader, path).equals(wanted), bad


@pytest.mark.parametrize(("reader", "text"), READERS, ids=[name for name, _ in READERS])
def test_a_row_with_more_fields_than_the_header_is_one_error(reader, text, tmp_path):
    """The error says which row, and how many fields it and the header have; whichever row it is."""
    path = tmp_path / "a.csv"
    n = text.split("\n")[0].count(",") + 1
    for bad, row in ((trailing(text, ",7"), 1), (text[:-1] + ",7\n", 2), (trailing(text)[:-1] + "7\n", 2)):
        path.write_text(bad)
        with pytest.raises(TableError, match=f"a.csv, row {row}: .*{n + 1} fields where the header has {n}"):
            rows_of(reader, path)


@pytest.mark.parametrize(("reader", "text"), READERS, ids=[name for name, _ in READERS])
def test_marks_and_separators_of_a_spreadsheet_are_read(reader, text, tmp_path):
    """A byte-order mark, UTF-16, semicolons or tabs give the same table as plain commas."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    wanted = rows_of(reader, path)
    for form in (
        b"\xef\xbb\xbf" + text.encode(),
        text.replace(",", "\t").encode("utf-16"),
        text.replace(",", ";").encode(),
        text.replace(",", "\t").replace("\n", "\r\n").encode(),
        trailing(text).replace(",", ";").encode(),
    ):
        path.write_bytes(form)
        assert rows_of(reader, path).equals(wanted), form


def test_a_comma_in_a_quoted_cell_is_no_field(tmp_path):
    """Quoted separators, quotes and breaks stay in their cell, also where the rows end with a comma."""
    path = tmp_path / "a.csv"
    path.write_text('job_id,submit_time,run_time,cpus_per_node,user\n"a;b,""c""\nd",100,10,4,ann,\n')
    assert read(path, JOB)["job_id"].tolist() == ['a;b,"c"\nd']


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_is_read(name):
    """A quote table, Slurm's nodes and a log can come from a pipe."""
    slurm = "NodeName=n1 CPUTot=4 RealMemory=1000 State=IDLE\n"
    for command, text, wanted in (
        (["quotes", "check", name], QUOTES, "2 types"),
        (["quotes", "nodes", name], slurm, "1 of 1"),
        (["quotes", "nodes", name], NODES, "2 of 2"),
        (["workload", "import", name, "--format", "csv"], JOBS, "2 jobs kept"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "procure.cli.main", *command],
            input=text, capture_output=True, text=True, env=os.environ,
        )  # fmt: skip
        assert wanted in done.stdout, done.stderr
