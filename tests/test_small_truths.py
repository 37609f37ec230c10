"""Charts that hide no job, results that print as people read them, and arguments as people give them."""

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import procure
from procure.cli.progress import line
from procure.errors import TableError
from procure.page.charts import bars, gantt_text
from procure.policies.catalog import spec
from procure.progress import Step
from procure.simulator.state import WAIT, waiting
from procure.tables import JOB, NODE, check, write

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
