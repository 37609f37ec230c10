"""What names and files of others can do to a terminal, a spreadsheet or another file: nothing."""

from __future__ import annotations

import json
import os
import re
import time
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_lab import make_study

import procure
from procure.cli import common
from procure.cli.progress import line
from procure.errors import ArgumentError, TableError
from procure.page.gantt import bars, gantt_figure, gantt_text
from procure.page.html import write_page
from procure.policies.catalog import spec
from procure.progress import Step
from procure.simulator.state import WAIT, waiting
from procure.study import load_study
from procure.sweep.lock import locked
from procure.sweep.manifest import refuse_other_inputs
from procure.tables import JOB, NODE, check, write
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


def test_printable():
    """Letters of any script stay; only control characters are written out, but for those that are kept."""
    assert printable("Żółw 日本 – ×") == "Żółw 日本 – ×"
    assert printable("a\nb\tc\x1b") == r"a\nb\tc\x1b"
    assert printable("a\nb\x1b", kept="\n") == "a\nb\\x1b"


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
    figure, page = (gantt_figure(schedule, tmp_path / "g.svg"), write_page(tmp_path / "p.html", f"<p>{EVIL}</p>"))
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


JOBS = check(
    pd.DataFrame(
        {"job_id": ["a", "b", "c"], "submit_time": [0, 0, 1], "run_time": [4, 2, 3], "cpus_per_node": [2, 2, 1]}
    ),
    JOB,
)
NODES = check(pd.DataFrame({"node_id": ["n0"], "cpus": [4], "mem_mb": [100]}), NODE)


@pytest.fixture
def files(tmp_path):
    write(JOBS, tmp_path / "jobs.csv")
    write(NODES, tmp_path / "nodes.csv")
    return tmp_path


@st.composite
def schedules(draw):
    n = draw(st.integers(1, 12))
    starts = draw(st.lists(st.integers(0, 20), min_size=n, max_size=n))
    lengths = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    nodes = draw(st.lists(st.sampled_from(["a", "b", "a,b"]), min_size=n, max_size=n))
    start = np.array(starts)
    return pd.DataFrame(
        {
            "job_id": [str(i) for i in range(n)], "submit_time": 0, "start_time": start,
            "end_time": start + np.array(lengths), "node_ids": nodes,
        }
    )  # fmt: skip


@pytest.mark.slow
@given(schedule=schedules())
@settings(max_examples=60, deadline=None)
def test_no_job_of_a_chart_covers_another(schedule):
    """Bars of one lane of a node do not overlap, every second of every job is drawn, and no lane is one too many."""
    chart = bars(schedule)
    for _, lane in chart[chart["end"] > chart["start"]].groupby(["node_id", "lane"]):
        lane = lane.sort_values("start")
        assert (lane["start"].to_numpy()[1:] >= lane["end"].to_numpy()[:-1]).all()
    seconds = int((chart["end"] - chart["start"]).sum())
    if chart["end"].max() > 0:
        assert sum(c not in ". " for row in gantt_text(schedule).splitlines() for c in row.split("|")[1]) == seconds
    for node, held in chart.groupby("node_id"):
        at_once = max(int(((held["start"] <= t) & (t <= held["end"])).sum()) for t in range(31))
        assert held["lane"].max() + 1 <= max(at_once, 1), node


def test_jobs_that_share_a_node_stand_above_each_other():
    run = procure.simulate(JOBS, NODES, "fcfs")
    assert gantt_text(run.schedule) == "n0 |1111.|\n   |22333|\n"


def test_policies_are_compared_as_names_parameters_and_callables(files):
    easy = spec("easy").parameters
    deeper = spec("easy:depth=4").parameters
    found = procure.compare(files / "jobs.csv", str(files / "nodes.csv"), ["easy", easy, deeper, fits])
    name = type(easy).__name__
    assert found.table["policy"].tolist() == ["easy", name, f"{name}:depth=4", "fits"]
    waits = found.table.set_index("policy")["mean_wait_time"]
    assert waits["easy"] == waits[name] == procure.simulate(JOBS, NODES, "easy").metrics["mean_wait_time"]
    assert procure.compare(JOBS, NODES, ["fcfs"]).table["n_completed"].tolist() == [3]
    with pytest.raises(TableError, match="only once"):
        procure.compare(JOBS, NODES, [fits, fits])
    with pytest.raises(TableError, match="policies are a list"):
        procure.compare(JOBS, NODES, "easy")
    with pytest.raises(TableError, match="no such file"):
        procure.compare(JOBS, files / "gone.csv", ["easy"])
    assert procure.simulate(files / "jobs.csv", files / "nodes.csv").metrics["n_completed"] == 3


def fits(state):
    """Start the first waiting job that a node can hold."""
    for job in waiting(state):
        nodes = np.flatnonzero((state.free_cpus >= state.cpus[job]) & (state.free_mem >= state.mem[job]))
        if len(nodes):
            return job, nodes[:1]
    return WAIT, []


def test_the_time_left_is_told_once_it_is_known():
    """Of a share of work not before a tenth is done: what is loaded first would be taken for the pace."""
    began = time.monotonic() - 190
    assert "left" not in line(Step("training", 100, "%", 1, began))
    assert "190 s left" in line(Step("training", 100, "%", 50, began))
    assert "left" in line(Step("simulating", 100, "run", 1, began))
