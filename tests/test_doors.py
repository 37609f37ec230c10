"""Whatever leaves procure goes through one door: to the terminal, into CSV, and onto the disk."""

from __future__ import annotations

import ast
import csv
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.files import whole_file
from procure.files.archive import Archive, write_archive
from procure.page.html import write_page
from procure.tables import JOB, as_csv, read, write
from procure.text import printable

ROOT = Path(procure.__file__).parent
EVIL = "=\x1b]0;own\x07\x1b[31m\x9b31m\u202e\r@x"
"""A formula, an OSC, a CSI, a C1 control, the mark that turns writing round, and what overwrites a line."""


@cache
def calls() -> list[tuple[str, str, ast.Call]]:
    """List all calls in the package: the file, the function as it is written, and the call."""
    return [
        (path.relative_to(ROOT).as_posix(), ast.unparse(node.func), node)
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]


def test_the_walk_finds_calls():
    """A guard against an empty walk."""
    assert len(calls()) > 5000


def test_only_the_shared_doors_print():
    """What prints writes control characters out first; a command's own output and a version are let through."""
    doors = {"cli/common.py", "cli/main.py", "cli/progress.py", "cli/start.py", "coschedule/processes.py"}
    printing = ("print", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write", "click.echo")
    found = {path for path, name, _ in calls() if name in printing}
    assert found == doors


def test_only_escaped_frames_become_csv():
    """One function writes CSV; it escapes formulas."""
    found = [(path, name) for path, name, _ in calls() if name.endswith(".to_csv")]
    assert found == [("tables.py", "safe.to_csv")]


_WRITERS = (
    "write_text",
    "write_bytes",
    "to_parquet",
    "to_csv",
    "savefig",
    "savez",
    "ZipFile",
    "open",
    "dump",
)
_ELSEWHERE = {
    "coschedule/groups.py",  # the kernel's control files
    "sweep/tls.py",  # made new, in a folder of ours
    "queue_time/published.py",  # adds a line to a log, and ends none
}
_HELD = {"temporary", "out", "packed", "packed_arrays"}
"""How the code calls the temporary file of `whole_file`, and a file that is only memory."""


def _writes(name: str, call: ast.Call) -> bool:
    last = name.rsplit(".", 1)[-1]
    texts = [
        one.value for one in ast.walk(call) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    if last in ("open", "ZipFile"):  # "x" makes a new file or fails: it follows no link
        return any(set(text) <= set("rwab+t") and set(text) & set("wa+") for text in texts)
    return last in _WRITERS and not (last == "to_csv" and len(call.args) == 0)


def test_only_temporary_files_are_written():
    """A file is written under a new name and renamed, or is only memory: no link is followed, no target cut."""
    found, wrong = 0, []
    for path, name, call in calls():
        if path in _ELSEWHERE or not _writes(name, call):
            continue
        found += 1
        if not _HELD & {name.split(".")[0], *(ast.unparse(each) for each in call.args[:1])}:
            wrong.append((path, ast.unparse(call)))
    assert found > 12
    assert wrong == []


@pytest.mark.parametrize(
    "save",
    [
        lambda path: write(pd.DataFrame({"a": [1]}), path.with_name("link.csv")),
        lambda path: write_page(path.with_name("link.csv"), "<p>page</p>"),
        lambda path: write_archive(path.with_name("link.csv"), Archive({"schema": "x"}, {})),
    ],
    ids=["table", "page", "archive"],
)
def test_a_link_is_replaced_and_its_target_left_alone(save, tmp_path):
    """A link where a result is to be written does not lead to another's file."""
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs")
    (tmp_path / "link.csv").symlink_to(theirs)
    save(tmp_path / "link.csv")
    assert theirs.read_text() == "theirs"
    assert not (tmp_path / "link.csv").is_symlink() and (tmp_path / "link.csv").stat().st_size


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path, monkeypatch):
    """Not even whoever guesses the temporary name leads the write elsewhere."""
    monkeypatch.setattr("secrets.token_hex", lambda n: "0")
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs")
    (tmp_path / ".f.csv.0.csv").symlink_to(theirs)
    with pytest.raises(procure.errors.TableError, match="cannot be written"), whole_file(tmp_path / "f.csv"):
        pass
    assert theirs.read_text() == "theirs"


def commanded(*arguments: object) -> str:
    """Run a command; return all that it printed."""
    done = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "100"})
    assert done.exit_code in (0, 1), done.output
    return done.output


def test_names_in_topology_tables_reach_no_terminal(tmp_path):
    """Switches and nodes of a tree, jobs of a schedule, and what is in conflict."""
    tree, jobs = tmp_path / "tree.csv", tmp_path / "schedule.csv"
    commanded("topology", "make", "--pods", 2, "--leaves", 2, "--nodes", 2, "--out", tree)
    nodes = pd.read_csv(tree)
    write(nodes.assign(kind=EVIL), tree)
    pd.DataFrame(
        {
            "job_id": [EVIL + "1", EVIL + "2"], "start_time": [0, 5], "end_time": [10, 15],
            "node_ids": [";".join(nodes["node_id"][:2]), ";".join(nodes["node_id"][:2])],
        }
    ).to_csv(jobs, index=False)  # fmt: skip
    for said in (commanded("topology", "show", tree), commanded("topology", "check", jobs, "--nodes", tree)):
        assert said == printable(said, kept="\n\t"), said


def test_a_table_keeps_evil_names_and_a_spreadsheet_runs_none(tmp_path):
    """What begins like a formula is escaped in the file, and read back as it was."""
    jobs = pd.DataFrame(
        {
            "job_id": ["=1+1", "@x", "-x", "+x", "\tx", "a\r=1+1"],
            "submit_time": 0,
            "run_time": 1,
            "cpus_per_node": 1,
            "user": EVIL,
        }
    )
    path = write(jobs, tmp_path / "jobs.csv")
    with path.open(newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    assert len(rows) == len(jobs)
    assert not [cell for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@", "\t", "\r")]
    again = read(path, JOB)
    assert again["job_id"].tolist() == jobs["job_id"].tolist()
    assert again["user"].tolist() == [EVIL] * len(jobs)
    assert (as_csv(jobs) or "").encode() == path.read_bytes()
    head, rest = path.read_bytes().split(b"\n", 1)  # with a trailing comma, as spreadsheets write
    path.write_bytes(head + b"\n" + rest.replace(b'"\n', b'",\n'))
    assert read(path, JOB)["job_id"].tolist() == jobs["job_id"].tolist()
