"""What waiting jobs lacked, what each feature does, what one more node is worth, and the command that says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from procure.binding import CAUSES, find_binding
from procure.run import simulate
from procure.tables import JOB, NODE, check


def nodes_of(*rows: tuple[int, int, int, str]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["cpus", "mem_mb", "gpus", "gpu_type"])
    table.insert(0, "node_id", [f"n{i}" for i in range(len(rows))])
    return check(table.assign(kind="k"), NODE)


def jobs_of(*rows: tuple[int, int, int, int, int, str]) -> pd.DataFrame:
    columns = ["submit_time", "run_time", "cpus_per_node", "mem_mb_per_node", "gpus_per_node", "gpu_type"]
    table = pd.DataFrame(rows, columns=columns)
    table.insert(0, "job_id", [str(i) for i in range(len(rows))])
    return check(table.assign(user="u", requested_time=table["run_time"], n_nodes=1), JOB)


def booked(jobs: pd.DataFrame, nodes: pd.DataFrame, policy: str = "best-fit") -> tuple[dict[str, float], float]:
    run = simulate(jobs, nodes, policy)
    found = find_binding(run.schedule, nodes)
    waited = (run.schedule["start_time"] - run.schedule["submit_time"]).dropna().sum()
    assert found.total_seconds == pytest.approx(float(waited))
    return {cause: found.seconds[cause] for cause in CAUSES if found.seconds[cause]}, found.spread_seconds


def test_each_waiting_second_is_booked_under_what_the_nearest_node_is_short_of():
    """Two nodes of 4 CPUs and 8 MB, on paper: job 2 lacks CPUs for 99 s, then memory for 20 s.

    Jobs 0 and 1 take 3 CPUs of each node to 100. From 1 on, job 2 asks 2 CPUs and 4 MB: every node has memory and lacks
    CPUs, though 2 are free in sum. At 100 jobs 3 and 4 fit better (all memory of a node) and start, to
    120 and 150; job 2 now finds 3 CPUs and no memory, until 120.
    """
    nodes = nodes_of((4, 8, 0, ""), (4, 8, 0, ""))
    early = [(0, 100, 3, 1, 0, ""), (0, 100, 3, 1, 0, ""), (1, 50, 2, 4, 0, "")]
    jobs = jobs_of(*early, (100, 20, 1, 8, 0, ""), (100, 50, 1, 8, 0, ""))
    assert booked(jobs, nodes) == ({"cpus": 99.0, "memory": 20.0}, 99.0)


def test_a_gpu_job_lacks_gpus_or_the_right_type():
    """On paper: an A100 job waits 60 s while the only free GPU is a V100; a job of any type would have started."""
    nodes = nodes_of((8, 100, 1, "V100"), (8, 100, 1, "A100"))
    assert booked(jobs_of((0, 60, 1, 1, 1, "A100"), (0, 60, 1, 1, 1, "A100")), nodes) == ({"gpu_type": 60.0}, 0.0)
    both = jobs_of((0, 60, 1, 1, 1, "A100"), (0, 60, 1, 1, 1, "V100"), (0, 60, 1, 1, 1, ""))
    assert booked(both, nodes) == ({"gpus": 60.0}, 0.0)


def test_what_is_free_is_held_back_by_the_policy():
    """FCFS on paper: a 1-CPU job waits 100 s behind a 4-CPU job, though 3 CPUs are free all the while."""
    nodes = nodes_of((4, 8, 0, ""))
    jobs = jobs_of((0, 100, 1, 1, 0, ""), (0, 10, 4, 1, 0, ""), (0, 10, 1, 1, 0, ""))
    found, _ = booked(jobs, nodes, "fcfs")
    assert found["policy"] == 100 and found["cpus"] == 100 + 10


def test_a_node_that_is_too_small_when_empty_is_not_the_nearest():
    """A 4-CPU job waits for the big node's CPUs; the small node, short of nothing but size, does not count."""
    nodes = nodes_of((2, 8, 0, ""), (4, 8, 0, ""))
    jobs = jobs_of((0, 30, 4, 8, 0, ""), (0, 5, 4, 1, 0, ""), (0, 5, 9, 1, 0, ""))
    found, spread = booked(jobs, nodes)
    assert set(found) == {"cpus", "memory"} and found["cpus"] == 15 and spread == 0
    run = simulate(jobs, nodes)
    assert find_binding(run.schedule, nodes).n_unrunnable == 1


def test_the_chart_over_time_sums_to_all_waiting():
    """Bins of equal width hold the mean number of waiting jobs; their sum is the waiting job-seconds."""
    nodes = nodes_of((4, 8, 0, ""))
    jobs = jobs_of(*((i, 7, 2, 1, 0, "") for i in range(20)))
    found = find_binding(simulate(jobs, nodes).schedule, nodes)
    chart = found.over_time(10)
    assert float((chart[list(CAUSES)].sum(axis=1) * chart["seconds"]).sum()) == pytest.approx(found.total_seconds)
    assert np.all(chart[list(CAUSES)].to_numpy() >= 0)
