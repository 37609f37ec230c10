"""A log replayed as it came: the warm-up, the backlog's test, and what was running when it began."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import write_study

from procure import simulate
from procure.errors import ArgumentError, TableError
from procure.simulator.metrics import N_MOMENTS, Usage, backlog
from procure.study import load_plan, load_study
from procure.sweep import run_sweep
from procure.sweep.store import read_results
from procure.tables import write
from procure.workload.parts import begin_as_logged

T0 = 1_620_000_000
ONE = pd.DataFrame({"node_id": ["n"], "cpus": [1], "mem_mb": [1000]})


def job_table(submit, run, **more) -> pd.DataFrame:
    names = [f"j{i}" for i in range(len(submit))]
    return pd.DataFrame(
        {"job_id": names, "submit_time": T0 + np.asarray(submit), "run_time": run, "cpus_per_node": 1} | more
    )


def test_jobs_of_the_warm_up_run_but_do_not_count():
    """The first job keeps the node busy and is not counted; the later ones wait for it and are."""
    jobs = job_table([0, 10, 20], [100, 10, 10])
    run = simulate(jobs, ONE, warm_up=10)
    assert run.schedule["start_time"].tolist() == [T0, T0 + 100, T0 + 110]
    assert run.metrics["n_jobs"] == run.metrics["n_completed"] == 2
    assert run.metrics["mean_wait_time"] == (90 + 90) / 2
    assert run.metrics["makespan"] == 120 - 10
    assert simulate(jobs, ONE, warm_up=11).metrics["n_jobs"] == 1


@pytest.mark.parametrize(("warm_up", "text"), [(-1, "0 or more"), (21, "nothing would be left")])
def test_a_warm_up_that_leaves_nothing_is_refused(warm_up, text):
    with pytest.raises(ArgumentError, match=text):
        simulate(job_table([0, 10, 20], [1, 1, 1]), ONE, warm_up=warm_up)


def test_work_left_is_what_had_not_been_done_at_the_last_submission():
    """Of 40 s of work on one CPU, submitted within 10 s, 10 s are done by then."""
    run = simulate(job_table([0, 5, 10], [20, 10, 10]), ONE)
    assert run.metrics["work_left"] == 30 / 40


def naive_backlog(submit, start, end, usage, capacity, counts_from):
    """The test as it is written down: look at all jobs at each of 300 moments."""
    share = [
        max((amount[j] / whole if whole else 0.0) for amount, whole in zip(usage, capacity, strict=True))
        for j in range(len(submit))
    ]
    first, last = max(counts_from, submit[0]), submit[-1]
    levels = []
    for i in range(1, N_MOMENTS + 1):
        # Whole numbers: moment × 300, so that no rounding decides.
        moment = first * N_MOMENTS + (last - first) * i
        waits = [
            j for j in range(len(submit)) if submit[j] * N_MOMENTS <= moment < start[j] * N_MOMENTS and start[j] >= 0
        ]  # fmt: skip
        levels.append(sum(share[j] * (end[j] - start[j]) for j in waits))
    thirds = np.array(levels).reshape(3, -1).min(axis=1)
    mean = np.mean(levels)
    tolerance = 1e-9 * (1 + mean)
    saturated = thirds[0] + tolerance < thirds[1] and thirds[1] + tolerance < thirds[2] and thirds[2] > mean + tolerance
    counted = [j for j in range(len(submit)) if submit[j] >= counts_from and start[j] >= 0]
    total = sum(share[j] * (end[j] - start[j]) for j in counted)
    left = sum(share[j] * max(0, end[j] - max(last, start[j])) for j in counted)
    return saturated, left / total if total else 0.0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(-1, 600), st.integers(0, 90)), min_size=1, max_size=25),
    st.integers(0, 200),
    st.booleans(),
)
def test_the_backlog_is_what_looking_at_every_moment_gives(rows, counts_from, growing):
    rows = sorted(rows)
    submit = np.array([row[0] for row in rows], np.int64)
    wait = np.array([row[1] for row in rows], np.int64)
    if growing:  # each waits longer than the one before: many of these are saturated
        wait = np.arange(len(rows)) * 9
    start = np.where(wait < 0, -1, submit + wait)
    end = np.where(wait < 0, -1, start + [row[2] for row in rows])
    usage = Usage(*np.ones((3, len(rows))) * [[2.0], [3.0], [0.0]])
    found = backlog(submit, start, end, usage, (10.0, 10.0, 0.0), counts_from)
    expected = naive_backlog(submit.tolist(), start, end, usage, (10.0, 10.0, 0.0), counts_from)
    assert found[0] == expected[0]
    assert found[1] == pytest.approx(expected[1])


def queue(load: float, seed: int, n: int = 6000, servers: int = 4) -> pd.DataFrame:
    """A queue with Poisson arrivals and exponential run times of a mean of 600 s."""
    rng = np.random.default_rng(seed)
    gaps, run = rng.exponential(600 / servers / load, n), np.ceil(rng.exponential(600, n)).astype(int)
    return job_table(np.cumsum(gaps).astype(int), run)


@pytest.mark.parametrize(("load", "saturated"), [(0.5, 0), (0.85, 0), (1.15, 1), (1.5, 1)])
def test_a_queue_saturates_if_more_work_arrives_than_can_be_done(load, saturated):
    """By queueing theory a queue of load 0.85 always empties again, one of 1.15 grows for ever."""
    node = ONE.assign(cpus=4)
    found = [simulate(queue(load, seed), node).metrics["saturated"] for seed in range(8)]
    assert found == [saturated] * 8


def test_the_system_can_begin_with_what_was_running():
    """At the moment one job has ended, one runs until second 80, one waits: it starts when that has ended."""
    jobs = job_table(
        [0, 10, 20, 60], [5, 70, 10, 10],
        requested_time=[0, 90, 0, 0],
        start_time=T0 + np.array([0, 10, 80, 90]), end_time=T0 + np.array([5, 80, 90, 100]),
    )  # fmt: skip
    cut = begin_as_logged(jobs, T0 + 50)
    assert cut["job_id"].tolist() == ["j1", "j2", "j3"]
    assert cut["run_time"].tolist() == [31, 10, 10]
    assert cut["requested_time"].tolist() == [51, 0, 0]
    run = simulate(cut, ONE, warm_up=1)
    assert (run.schedule["start_time"] - T0).tolist() == [49, 80, 90]
    assert run.metrics["n_jobs"] == 1 and run.metrics["mean_wait_time"] == 90 - 60


def test_a_log_without_starts_cannot_say_what_was_running():
    with pytest.raises(TableError, match="start_time and end_time"):
        begin_as_logged(job_table([0, 10], [5, 5]), T0 + 5)


def study_file(folder, workload: str) -> Path:
    write(queue(0.7, 1, n=400), folder / "jobs.parquet")
    return write_study(folder / "study.toml", f'jobs = "jobs.parquet"\n{workload}', "[sweep]\nsample = 40")


@pytest.mark.parametrize("given", ['"2h"', "7200", '"0-02:00:00"'])
def test_a_study_replays_a_log_and_leaves_the_warm_up_out(tmp_path, given):
    """Every spelling of two hours gives the same rows, of the jobs submitted after them."""
    plan = load_plan(load_study(study_file(tmp_path, f"warm_up = {given}")))
    run_sweep(plan, "serial")
    rows = read_results(plan.study, plan)
    submit = plan.workloads["log"]["submit_time"]
    assert (rows["n_jobs"] == (submit >= submit.min() + 7200).sum()).all()
    assert plan.n_counted("log") == rows["n_jobs"].iloc[0] < len(submit)
    assert rows["saturated"].isin([0, 1]).all() and rows["work_left"].between(0, 1).all()
    assert "after 7200 s" in plan.fingerprint["workload log"]


@pytest.mark.parametrize(
    ("workload", "text"),
    [
        ('warm_up = "900d"', "nothing would be left to count"),
        ('warm_up = "soon"', "length of time"),
        ("warm_up = -5", "at least 0"),
        ('begin = "as-logged"', "needs warm_up"),
        ('begin = "as-logged"\nwarm_up = "2h"', "start_time and end_time"),
    ],
)
def test_bad_warm_ups_get_one_clear_error(tmp_path, workload, text):
    with pytest.raises(TableError, match=text):
        load_plan(load_study(study_file(tmp_path, workload)))
