"""What names and files of others can do to a terminal, a spreadsheet or another file: nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import pandas as pd
import pytest
from sweep_lab import make_study
from typer.testing import CliRunner

from procure.cli import common
from procure.cli.main import app
from procure.errors import ArgumentError, TableError
from procure.page.gantt import gantt_figure, gantt_text
from procure.page.html import write_page
from procure.schemas import PACKAGE
from procure.study import load_study
from procure.sweep.lock import locked
from procure.sweep.manifest import refuse_other_inputs
from procure.tables import read, write
from procure.text import printable

EVIL = "\x1b]0;owned\x07\x9b31mc1\u202e"


@pytest.mark.parametrize("output", list(common.Format))
def test_escape_sequences_of_names_reach_no_terminal(output, capsys, monkeypatch):
    """Tables, records, notes and errors write control characters out; JSON and CSV keep the value."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    common.print_table(pd.DataFrame({"name": [EVIL], EVIL: [1]}), output, EVIL)
    common.print_record({"name": EVIL}, output, EVIL)
    common.note(EVIL)
    said = capsys.readouterr()
    for text in (said.out, said.err):
        ours = re.sub("\x1b\\[[0-9;]*m", "", text)  # bold and italic are rich's own
        assert not set("\x1b\x07\x9b\u202e") & set(ours)
    if output is common.Format.TABLE:
        assert r"\x1b" in said.out
    assert r"\x1b" in said.err
    common.print_json({"name": EVIL})
    text = capsys.readouterr().out
    assert json.loads(text) == {"name": EVIL}
    assert "\x9b" not in text


@pytest.mark.slow
def test_an_error_obeys_no_escape_sequence(tmp_path):
    """An error that quotes a file's or a column's name writes control characters out."""
    quotes = tmp_path / "q\x1b[31m.csv"
    quotes.write_text("name,\x1b[2Jprice_usd\nA,1\n")
    done = subprocess.run(
        [sys.executable, "-m", "procure.cli.main", "quotes", "check", str(quotes)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "\\x1b" in done.stderr
    assert "\x1b" not in done.stderr


def test_printable():
    """Letters of any script stay; only control characters are written out, but for those that are kept."""
    assert printable("Żółw 日本 – ×") == "Żółw 日本 – ×"
    assert printable("a\nb\tc\x1b") == r"a\nb\tc\x1b"
    assert printable("a\nb\x1b", kept="\n") == "a\nb\\x1b"


TEXTS = ["=1+1", "+a", "-b", "@c", "\td", "'=e", "''-f", "'g", "h", "", "'", '=h,"i"']


def test_a_spreadsheet_finds_no_formula(tmp_path):
    """In CSV no text begins as a formula does, in a cell or a head; what was written is read, in CSV and Parquet."""
    required = {column.name: 1 for column in PACKAGE.columns if column.required}
    ids = [f"p{i}" for i in range(len(TEXTS))]
    table = pd.DataFrame(required | {"package_id": ids, "other": -1.5, "=x": TEXTS})
    for name in ("t.csv", "t.csv.gz", "t.parquet"):
        back = read(write(table, tmp_path / name), PACKAGE)
        assert back["=x"].tolist() == TEXTS, name
    raw = pd.read_csv(tmp_path / "t.csv", dtype=str, keep_default_na=False)
    assert not [cell for cell in (*raw.columns, *raw.iloc[:, -1]) if cell[:1] in "=+-@\t" and cell]
    assert set(raw["other"]) == {"-1.5"}, "a number is no text"
    assert raw.iloc[7, -1] == "'g"


def test_csv_on_stdout_holds_no_formula(capsys):
    """CSV that a command prints is escaped as CSV that it writes."""
    common.print_table(pd.DataFrame({"name": ["=cmd()", "b"], "n": [-1, 2]}), common.Format.CSV)
    common.print_record({"name": "@x"}, common.Format.CSV)
    assert capsys.readouterr().out == "name,n\n'=cmd(),-1\nb,2\nname\n'@x\n"


def test_a_lock_that_is_none_of_ours_is_left_alone(tmp_path):
    """A lock that is a link, a hard link or another file is refused, and what stands in it stays."""
    study = load_study(make_study(tmp_path))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    lock = study.folder / "lock"
    study.folder.mkdir(parents=True)
    for make in (lock.symlink_to, lock.hardlink_to, lambda path: lock.write_bytes(path.read_bytes())):
        make(victim)
        with pytest.raises(TableError, match=r"is a link|is no lock of procure"), locked(study):
            pass
        with pytest.raises(TableError, match=r"is a link|is no lock of procure"), locked(study, (0, 2)):
            pass
        assert victim.read_text() == lock.read_text() == "precious"
        lock.unlink()
    empty = tmp_path / "empty"
    empty.touch()
    lock.symlink_to(empty)
    with pytest.raises(TableError, match="is a link"), locked(study):
        pass
    assert empty.read_text() == ""
    lock.unlink()
    for _ in range(2):
        with locked(study):
            assert lock.read_text().startswith(f"process {os.getpid()} on ")


def test_json_nested_too_deep_is_one_error(tmp_path):
    """Files that procure itself wrote may be altered: no depth ends in a RecursionError."""
    (tmp_path / "manifest.json").write_text('{"settings": ' + "[" * 100_000)
    with pytest.raises(TableError, match=r"no manifest|nested too deep"):
        refuse_other_inputs(SimpleNamespace(study=SimpleNamespace(folder=tmp_path)))


def test_charts_and_pages_hold_no_character_that_controls(tmp_path, recwarn):
    """Names in figures, charts as text and HTML pages are written out; a figure stays XML, without a warning."""
    schedule = pd.DataFrame({"job_id": [EVIL], "submit_time": 0, "start_time": 0, "end_time": 5, "node_ids": EVIL})
    figure, page = (
        gantt_figure(schedule, tmp_path / "g.svg"),
        write_page(tmp_path / "p.html", f"<p>{EVIL}</p>"),
    )
    ElementTree.parse(figure)
    for text in (gantt_text(schedule), figure.read_text(), page.read_text()):
        assert not set("\x1b\x07\x9b\u202e") & set(text)
        assert text.isascii() or r"\x1b" in text
    assert not recwarn.list


def test_a_chart_of_more_than_can_be_looked_at_is_refused():
    """A schedule over years, a character per second, and a figure of a hundred thousand bars."""
    rows = {"job_id": "1", "submit_time": 0, "start_time": 0, "end_time": 2**40, "node_ids": "a"}
    with pytest.raises(ArgumentError, match="1 s per character make 1 lines of 1,099,511,627,776 characters"):
        gantt_text(pd.DataFrame([rows]))
    with pytest.raises(TableError, match="has 100,000 bars"):
        gantt_figure(pd.DataFrame([rows] * 100_000), "never.svg")


def test_version_is_printed():
    """Output that holds nothing of others is as before."""
    assert CliRunner().invoke(app, ["--version"]).output.startswith("procure ")
