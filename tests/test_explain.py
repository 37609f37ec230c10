"""What waiting jobs lacked, what each feature does, what one more node is worth, and the command that says so."""

from __future__ import annotations

import json

import naive_bottleneck
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import run, swept

from procure.errors import TableError
from procure.explanation import bottleneck
from procure.explanation.bottleneck import CAUSES, find_bottleneck
from procure.explanation.package import marginal_values
from procure.models import Surrogate
from procure.packages import package_nodes
from procure.run import simulate
from procure.schemas import JOB, NODE
from procure.study import load_study
from procure.sweep import load_plan
from procure.sweep.results import load_results
from procure.sweep.trial import find_package
from procure.tables import check


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
    found = find_bottleneck(run.schedule, nodes)
    waited = (run.schedule["start_time"] - run.schedule["submit_time"]).dropna().sum()
    assert found.total_seconds == pytest.approx(float(waited))
    return {cause: found.seconds[cause] for cause in CAUSES if found.seconds[cause]}, found.fragmented_seconds


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


def test_the_nearest_node_is_the_one_that_is_short_of_least():
    """On paper: node 0 lacks CPUs and memory, node 1 memory only; the job lacks memory, for 99 s."""
    nodes = nodes_of((4, 8, 0, ""), (4, 8, 0, ""))
    jobs = jobs_of((0, 100, 4, 8, 0, ""), (0, 100, 1, 8, 0, ""), (1, 10, 2, 2, 0, ""))
    assert booked(jobs, nodes) == ({"memory": 99.0}, 0.0)


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
    assert find_bottleneck(run.schedule, nodes).n_unrunnable == 1


def test_the_chart_over_time_sums_to_all_waiting():
    """Bins of equal width hold the mean number of waiting jobs; their sum is the waiting job-seconds."""
    nodes = nodes_of((4, 8, 0, ""))
    jobs = jobs_of(*((i, 7, 2, 1, 0, "") for i in range(20)))
    schedule = simulate(jobs, nodes).schedule
    found = find_bottleneck(schedule, nodes)
    span = int(schedule["end_time"].max())
    waiting = [int(((schedule["submit_time"] <= t) & (schedule["start_time"] > t)).sum()) for t in range(span)]
    assert found.over_time(span)["cpus"].tolist() == pytest.approx(waiting)
    chart = found.over_time(10)
    assert float((chart[list(CAUSES)].sum(axis=1) * chart["seconds"]).sum()) == pytest.approx(found.total_seconds)
    assert np.all(chart[list(CAUSES)].to_numpy() >= 0)


def test_factors_multiply_to_the_prediction():
    """Typical wait × all factors is what the model predicts, for every row."""
    rng = np.random.default_rng(1)
    x = rng.random((60, 4))
    model = Surrogate(profile="fine").fit(x, np.exp(3 * x[:, 0]) * 10)
    typical, factors = model.contributions(x[:7])
    assert typical * factors.prod(axis=1) == pytest.approx(model.predict(x[:7]), rel=1e-4)
    assert np.abs(np.log(factors)).sum(axis=0).argmax() == 0


def test_one_more_node_is_simulated_and_paid():
    """The marginal value is the difference of two simulations, per 1,000 US$ of the node's price."""
    results = load_results(swept())
    plan = results.plan
    counts = plan.packages[plan.types].to_numpy(np.int64)[0]
    table = marginal_values(results, counts).set_index("type")
    more = counts.copy()
    more[plan.types.index("ComputeNode3")] += 1
    nodes = [package_nodes(dict(zip(plan.types, one.tolist(), strict=True)), plan.quotes) for one in (counts, more)]
    before, after = (
        simulate(plan.workloads["day-1"], one, kill_at_limit=False).metrics["mean_wait_time"] for one in nodes
    )
    assert table.loc["ComputeNode3", "saved_seconds"] == pytest.approx(before - after)
    assert table.loc["ComputeNode3", "usd"] == 8298
    assert table.loc["ComputeNode3", "saved_per_1000_usd"] == pytest.approx((before - after) / 8.298)


@pytest.mark.slow
def test_explain_and_against():
    """One JSON document with both packages; the sentences name what jobs lack and who is better."""
    plan = load_plan(load_study(swept()))
    first, second = plan.packages.loc[plan.packages["distinct"], "package_id"].iloc[[0, 40]]
    told = json.loads(run("explain", str(swept()), first, second, "--format", "json").stdout)
    one, other = told["packages"]
    assert one["package_id"] == first and other["package_id"] == second
    assert one["waits"][0]["mean_wait_time"] == pytest.approx(one["wait"])
    assert np.prod([row["factor"] for row in one["factors"]]) * one["typical_seconds"] == pytest.approx(
        one["predicted_seconds"]
    )
    assert {row["what"] for row in told["differences"]} >= {"price", "nodes", "total", "wait, s", "factor"}
    lacked = one["binding"]["day-1"]
    n_ran = 300 - lacked["n_unrunnable"]
    assert sum(lacked["seconds"].values()) == pytest.approx(one["wait"] * n_ran)
    text = run("explain", swept(), first, second).stdout
    assert "what jobs of workload day-1 waited for" in text and "less on" in text and "than on" in text
    rows = run("explain", str(swept()), first, "--format", "csv").stdout.splitlines()
    assert rows[0] == "package_id,section,item,value" and len(rows) > 20


def test_an_unknown_package_is_one_line_with_the_nearest():
    """A type that is not quoted, a count that is none, and a package outside the study's."""
    plan = load_plan(load_study(swept()))
    with pytest.raises(TableError, match="no quote is named 'ComputeNod3'; did you mean ComputeNode3"):
        find_package(plan, "ComputeNod3=1")
    with pytest.raises(TableError, match="'ComputeNode3=x' is not TYPE=COUNT"):
        find_package(plan, "ComputeNode3=x")
    with pytest.raises(TableError, match=r"not among the study's .* the nearest is 'ComputeNode3="):
        find_package(plan, "ComputeNode3=99")
    known = next(one for one in plan.packages["package_id"] if "," in one)
    turned = ",".join(reversed(known.split(",")))
    assert (find_package(plan, turned) == find_package(plan, known)).all()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["best-fit", "fcfs", "easy"]))
def test_the_compiled_loop_books_what_the_plain_rule_books(seed: int, policy: str):
    """Jobs of several nodes, GPU types and all: every second by cause, moment and request is equal to the last bit."""
    random = np.random.default_rng(seed)
    kinds = [(4, 8, 0, ""), (8, 8, 1, "V100"), (8, 16, 2, "A100")]
    nodes = nodes_of(*(kinds[i] for i in random.integers(0, 3, 5)))
    n = 60
    gpus = random.integers(0, 3, n) * (random.random(n) < 0.4)
    jobs = jobs_of(
        *zip(
            np.sort(random.integers(0, 200, n)), random.integers(0, 60, n), random.integers(1, 9, n),
            random.integers(0, 17, n), gpus, np.where(gpus > 0, random.choice(["", "V100", "A100"], n), ""),
            strict=True,
        )
    )  # fmt: skip
    if policy != "best-fit":
        jobs["n_nodes"] = random.integers(1, 3, n)
    schedule = simulate(jobs, nodes, policy).schedule
    found = find_bottleneck(schedule, nodes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bottleneck, "book", naive_bottleneck.book)
        slow = find_bottleneck(schedule, nodes)
    assert (found.seconds, found.fragmented_seconds) == (slow.seconds, slow.fragmented_seconds)
    assert np.array_equal(found.cumulative, slow.cumulative)
    pd.testing.assert_frame_equal(found.shapes, slow.shapes)
