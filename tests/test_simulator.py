"""The simulator: the fast lane, the loop, and the metrics."""

from __future__ import annotations

import naive_tasks as naive
import numpy as np
import pandas as pd
import pytest
from policy_cases import as_dicts, job_table, node_table

from procure import run as procure_run
from procure.errors import TableError
from procure.simulator.metrics import quantile
from procure.workload import import_log, slice_day

TYPES = ["", "a100", "v100"]


def random_case(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame, dict]:
    """Few distinct values everywhere, so that ties, equal times and full nodes are the rule."""
    n_jobs, n_nodes = int(rng.integers(1, 40)), int(rng.integers(1, 7))
    jobs = job_table(
        submit_time=1_000 + np.sort(rng.integers(0, rng.choice([1, 5, 40, 3000]), n_jobs)),
        run_time=rng.choice([0, 0, 1, 2, 5, 1023, 1024, 1025, 5000, 2_000_000], n_jobs),
        requested_time=rng.choice([0, 1, 4, 6000], n_jobs),
        cpus_per_node=rng.choice([0, 1, 1, 2, 3, 8], n_jobs),
        mem_mb_per_node=rng.choice([0, 1, 100, 333, 500, 5000], n_jobs),
        gpus_per_node=rng.choice([0, 0, 0, 1, 2], n_jobs),
        gpu_type=rng.choice(TYPES, n_jobs),
    )
    nodes = node_table(
        n_nodes,
        cpus=rng.choice([1, 4, 7], n_nodes),
        mem_mb=rng.choice([100, 1000, 999], n_nodes),
        gpus=rng.choice([0, 1, 3], n_nodes),
        gpu_type=rng.choice(TYPES, n_nodes),
    )
    if rng.random() < 0.5:
        nodes["speed"] = rng.choice([1.0, 0.7, 3.0], n_nodes)
    options = {"kill_at_limit": bool(rng.random() < 0.3), "logged_speed": rng.choice([None, "1", "2.5"])}
    return jobs, nodes, options


def twin(jobs: pd.DataFrame, nodes: pd.DataFrame, options: dict) -> tuple[list, list, list, int]:
    """Run the slow twin on the tables; start, end and node of each job, and the most that waited."""
    speeds = nodes["speed"].to_numpy() if "speed" in nodes else np.ones(len(nodes))
    logged = options["logged_speed"]
    per_node = []
    for speed in speeds:
        tenths, by = (1, 1) if logged is None or "speed" not in nodes else (int(float(logged) * 10), round(speed * 10))
        took = -(-jobs["run_time"].to_numpy() * tenths // by)
        limit = jobs["requested_time"].to_numpy()
        cut = options["kill_at_limit"] & (limit > 0) & (took > limit)
        per_node.append(np.where(cut, limit, took))
    rows, servers = as_dicts(jobs, nodes)
    sim = naive.Sim([row | {"runs": runs} for row, runs in zip(rows, np.transpose(per_node), strict=True)], servers)
    start, where = sim.simulate(naive.best_fit())
    first = int(jobs["submit_time"].min())
    start = [-1 if one is None else first + one for one in start]
    end = [-1 if one < 0 else one + took for one, took in zip(start, sim.took, strict=True)]
    return start, end, ["".join(nodes["node_id"].iloc[n] for n in one) for one in where], sim.deepest


@pytest.mark.parametrize("n_cases", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_fast_lane_equals_the_written_rule_on_random_cases(n_cases):
    """Every start, end and node is the slow twin's: ties, zero durations, equal times, oversized jobs."""
    rng = np.random.default_rng(n_cases)
    for _ in range(n_cases):
        jobs, nodes, options = random_case(rng)
        run = procure_run.simulate(jobs, nodes, "best-fit", **options)
        times = (run.schedule[name].fillna(-1).tolist() for name in ("start_time", "end_time"))
        found = (*times, run.schedule["node_ids"].tolist(), run.metrics["max_queue_depth"])
        assert found == twin(jobs, nodes, options)


def test_plain_loop_equals_fast_lane():
    """The loop with the best-fit policy gives the fast lane's schedule and metrics, to the last bit."""
    rng = np.random.default_rng(11)
    for _ in range(25):
        jobs, nodes, options = random_case(rng)
        fast = procure_run.simulate(jobs, nodes, "best-fit", **options)
        plain = procure_run.simulate(jobs, nodes, "best-fit", fast_lane=False, **options)
        pd.testing.assert_frame_equal(fast.schedule, plain.schedule)
        assert fast.metrics == plain.metrics


INDEPENDENT = [
    ("202104", "2021-05-04", (20, 2, 2), 12_765, 274.107403),
    ("202104", "2021-04-30", (40, 4, 3), 3_959, 236_301.061632),
]


@pytest.mark.parametrize(("month", "day", "counts", "n_completed", "mean_wait"), INDEPENDENT)
def test_independent_values_of_real_days(shared_data, month, day, counts, n_completed, mean_wait):
    """Two real days give the completed jobs and the mean wait that another implementation found."""
    log = import_log(shared_data(f"beocat_2021/all_jobs_{month}.csv.xz"), "csv", preset="beocat").jobs
    kinds = [(64, 256_000, 0), (24, 1_024_000, 0), (64, 512_000, 8)]
    rows = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
    cpus, mem_mb, gpus = zip(*rows, strict=True)
    nodes = node_table(len(rows), cpus=cpus, mem_mb=list(mem_mb), gpus=list(gpus))
    run = procure_run.simulate(slice_day(log, day, "America/Chicago"), nodes, "best-fit")
    assert run.metrics["n_completed"] == n_completed
    assert run.metrics["mean_wait_time"] == pytest.approx(mean_wait, abs=5e-7)


def test_metrics_of_a_case_solved_by_hand():
    """Three one-CPU jobs on one CPU and one too large: every figure as worked out on paper."""
    jobs = job_table(
        submit_time=[100, 100, 120, 120],
        run_time=[30, 5, 40, 1],
        requested_time=[60, 60, 25, 60],
        mem_mb_per_node=[500, 500, 1000, 5000],
    )
    run = procure_run.simulate(jobs, node_table(1))
    # j0 100–130; j2 fills the memory better: 130–155, cut at its limit of 25; j1 155–160; j3 fits no node
    assert run.schedule["start_time"].tolist()[:3] == [100, 155, 130]
    assert run.schedule["start_time"].isna().tolist() == [False, False, False, True]
    expected = {
        "n_jobs": 4, "n_completed": 3, "n_unrunnable": 1, "n_killed": 1,
        "mean_wait_time": 65 / 3, "median_wait_time": 10.0, "p95_wait_time": 50.5, "max_wait_time": 55.0,
        "mean_bounded_slowdown": (1 + 60 / 10 + 35 / 25) / 3, "mean_turnaround_time": (30 + 60 + 35) / 3,
        "makespan": 60.0, "utilization_cpu": 1.0,
        "utilization_mem": (500 * 30 + 500 * 5 + 1000 * 25) / (1000 * 60), "max_queue_depth": 2,
        "work_left": (10 + 25 + 5) / 60, "saturated": 0, "utilization_nodes": 1.0,
        "share_over_1h": 0.0, "user_fair_wait_time": 65 / 3, "cpu_mean_wait_time": 65 / 3, "cpu_p95_wait_time": 50.5,
        "cpu_share_over_1h": 0.0,
    }  # fmt: skip
    absent = {name for name, value in run.metrics.items() if value is None}  # no job of these classes, no GPU
    waits = ("mean_wait_time", "p95_wait_time", "share_over_1h")
    assert absent == {"utilization_gpu"} | {f"{of}_{what}" for of in ("gpu", "memory", "wide") for what in waits}
    assert {name: run.metrics[name] for name in run.metrics.keys() - absent} == pytest.approx(expected, rel=1e-15)


def test_queue_order_is_submission_time_then_row():
    """An unsorted job table is served by submission time, and equal times by row."""
    jobs = job_table(submit_time=[50, 0, 0], run_time=[10, 10, 10])
    run = procure_run.simulate(jobs, node_table(1))
    assert run.schedule["start_time"].tolist() == [50, 0, 10]


def test_quantile_equals_numpy():
    """The 95th percentile and the median are NumPy's, bit for bit, in whatever order the values stand."""
    rng = np.random.default_rng(3)
    for size in range(1, 60):
        ramp = np.arange(1, size + 1)
        for waits in (rng.integers(1, 10**6, size), rng.integers(1, 4, size), ramp, np.minimum(ramp, ramp[::-1])):
            for n_zeros in (0, 1, size):
                values = np.concatenate([np.zeros(n_zeros, np.int64), waits])
                for share in (0.5, 0.95):
                    found = quantile(rng.permutation(waits), size, n_zeros, share)
                    assert found == np.quantile(values, share) == quantile(waits.copy(), size, n_zeros, share)


def test_amounts_too_large_for_the_fast_lane_still_run():
    """Amounts near the largest that a table takes need more bits than a word has: the plain loop takes over."""
    jobs = job_table(submit_time=[0, 0], run_time=[5, 5], mem_mb_per_node=[2**33, 2**30], gpus_per_node=2**28)
    run = procure_run.simulate(jobs, node_table(1, cpus=2**29, mem_mb=2**33, gpus=2**29))
    assert run.schedule["start_time"].tolist() == [0, 5]


def test_multi_node_job_is_refused_by_name(monkeypatch):
    """A job of several nodes is never cut to one: a policy for single-node jobs names it."""
    entries = procure_run.catalog.POLICIES
    monkeypatch.setitem(entries, "best-fit", entries["best-fit"]._replace(multi_node=False))
    jobs = job_table(submit_time=[0, 0], run_time=[5, 5], n_nodes=[1, 3])
    with pytest.raises(TableError, match="job j1 asks for 3 nodes"):
        procure_run.simulate(jobs, node_table(1, cpus=4))
