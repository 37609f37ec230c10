"""What waiting jobs lacked, what each feature does, what one more node is worth, and the command that says so."""

from dataclasses import replace
from functools import cache

import naive_bottleneck
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import swept

from procure.errors import TableError
from procure.explanation import bottleneck
from procure.explanation.bottleneck import CAUSES, find_bottleneck
from procure.explanation.package import marginal_values
from procure.models import Surrogate
from procure.packages import package_nodes
from procure.recommender.confidence import GROWTHS, other_loads
from procure.recommender.rank import values_of
from procure.recommender.values import Criteria
from procure.recommender.what_if import Changes, changed_jobs, read_factor, try_changes
from procure.run import simulate
from procure.schemas import JOB, NODE
from procure.study import load_study
from procure.sweep import load_plan
from procure.sweep.results import load_results
from procure.sweep.trial import find_package
from procure.tables import check
from procure.workload import generate


def nodes_of(*rows: tuple[int, int, int, str]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["cpus", "mem_mb", "gpus", "gpu_type"])
    table.insert(0, "node_id", [f"n{i}" for i in range(len(rows))])
    return check(table.assign(kind="k"), NODE)


def jobs_of(*rows: tuple[int, int, int, int, int, str]) -> pd.DataFrame:
    columns = ["submit_time", "run_time", "cpus_per_node", "mem_mb_per_node", "gpus_per_node", "gpu_type"]
    table = pd.DataFrame(rows, columns=columns)
    table.insert(0, "job_id", [str(i) for i in range(len(rows))])
    return check(table.assign(user="u", requested_time=table["run_time"], n_nodes=1), JOB)


PAIR, SMALL = [(4, 8, 0, ""), (4, 8, 0, "")], [(4, 8, 0, "")]
TYPED = [(8, 100, 1, "V100"), (8, 100, 1, "A100")]
ON_PAPER = {
    # Jobs 0 and 1 take 3 CPUs of each node to 100: from 1 on job 2 lacks CPUs, though 2 are free in sum. At 100 jobs 3
    # and 4 fit better, with all memory of a node, to 120 and 150: job 2 now finds 3 CPUs and no memory, until 120.
    "the nearest node is short of": (
        PAIR, [(0, 100, 3, 1, 0, ""), (0, 100, 3, 1, 0, ""), (1, 50, 2, 4, 0, ""), (100, 20, 1, 8, 0, ""),
               (100, 50, 1, 8, 0, "")], "best-fit", {"cpus": 99.0, "memory": 20.0}, 99.0, 0),
    # Node 0 lacks CPUs and memory, node 1 memory only.
    "the nearest is short of least": (
        PAIR, [(0, 100, 4, 8, 0, ""), (0, 100, 1, 8, 0, ""), (1, 10, 2, 2, 0, "")], "best-fit",
        {"memory": 99.0}, 0.0, 0),
    # The only free GPU is a V100; a job of any type would have started.
    "the right type": (
        TYPED, [(0, 60, 1, 1, 1, "A100"), (0, 60, 1, 1, 1, "A100")], "best-fit", {"gpu_type": 60.0}, 0.0, 0),
    "any GPU": (
        TYPED, [(0, 60, 1, 1, 1, "A100"), (0, 60, 1, 1, 1, "V100"), (0, 60, 1, 1, 1, "")], "best-fit",
        {"gpus": 60.0}, 0.0, 0),
    # A job of 1 CPU waits behind one of 4, though 3 CPUs are free all the while.
    "held back by the policy": (
        SMALL, [(0, 100, 1, 1, 0, ""), (0, 10, 4, 1, 0, ""), (0, 10, 1, 1, 0, "")], "fcfs",
        {"policy": 100.0, "cpus": 110.0}, 0.0, 0),
    # The small node, short of nothing but size, does not count; the third job fits none, and never waits.
    "too small when empty": (
        [(2, 8, 0, ""), (4, 8, 0, "")], [(0, 30, 4, 8, 0, ""), (0, 5, 4, 1, 0, ""), (0, 5, 9, 1, 0, "")], "best-fit",
        {"cpus": 15.0, "memory": 15.0}, 0.0, 1),
}  # fmt: skip
"""Nodes, jobs, policy; the seconds by cause, those fragmented, and the jobs that fit no node."""


@pytest.mark.parametrize("name", ON_PAPER)
def test_each_waiting_second_is_booked_under_what_is_lacking(name: str):
    """Worked out on paper; all causes add up to the waits."""
    rows, asked, policy, seconds, fragmented, n_unrunnable = ON_PAPER[name]
    nodes = nodes_of(*rows)
    run = simulate(jobs_of(*asked), nodes, policy)
    found = find_bottleneck(run.schedule, nodes)
    waited = (run.schedule["start_time"] - run.schedule["submit_time"]).dropna().sum()
    assert found.total_seconds == pytest.approx(float(waited))
    assert {cause: found.seconds[cause] for cause in CAUSES if found.seconds[cause]} == seconds
    assert (found.fragmented_seconds, found.n_unrunnable) == (fragmented, n_unrunnable)


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


@cache
def _loaded():
    return load_results(swept())


def loaded(jobs=None):
    """The small study's results; with other jobs, these in its workload's place."""
    found = replace(_loaded())
    if jobs is not None:
        found = replace(found, plan=replace(found.plan, workloads={"day-1": jobs}))
    return found


@pytest.mark.slow
def test_each_change_alone_then_all_together():
    """The baseline is first; growth adds jobs, the GPU share adds GPU jobs only, all together adds both."""
    jobs = loaded().plan.workloads["day-1"].copy()
    jobs.loc[::20, "gpus_per_node"] = 1
    results = loaded(jobs)
    counts = results.counts[int(np.flatnonzero(results.cases[0].runs_all)[0])]
    changes = Changes(growth=1.5, gpu_jobs=3.0, policy="fcfs", seed=2)
    table = try_changes(results, counts, changes).set_index("situation")
    assert list(table.index) == ["as it is", "load × 1.5", "GPU jobs × 3", "policy fcfs", "all together"]
    base = table.loc["as it is"]
    assert base["n_jobs"] == 300 and base["wait_difference"] == 0
    assert table.loc["load × 1.5", "n_jobs"] > 300
    more = table.loc["GPU jobs × 3"]
    assert more["gpu_jobs"] > base["gpu_jobs"] and more["n_jobs"] - 300 == more["gpu_jobs"] - base["gpu_jobs"]
    assert table.loc["policy fcfs", "policy"] == table.loc["all together", "policy"] == "fcfs"
    assert table.loc["all together", "n_jobs"] > table.loc["load × 1.5", "n_jobs"]
    again = try_changes(results, counts, changes).set_index("situation")
    assert again.equals(table)


@pytest.mark.slow
def test_the_first_under_other_loads_waits_as_what_if_says():
    results = loaded()
    rows = np.flatnonzero(results.cases[0].runs_all & results.cases[0].simulated)[:3]
    table = other_loads(results, values_of(results, Criteria()), rows, [], seed=2)["loads"]
    assert [one["load"] for one in table] == [*GROWTHS]
    for one in table:
        changes = Changes(growth=one["load"], seed=2)
        waits = [float(try_changes(results, results.counts[row], changes)["mean_wait_time"].iloc[1]) for row in rows]
        assert one["mean_wait_time"] == waits[0] and one["regret_seconds"] == waits[0] - min(waits)
        assert one["rank"] == 1 + sum(wait < waits[0] for wait in waits)


def test_gpu_shares_are_read_and_jobs_without_gpus_refused():
    """2x is twice the jobs; a bare number could be a share, and a share of all is gone."""
    assert read_factor("2x") == 2.0 and read_factor(None) is None
    for wrong in ("2", "30%"):
        with pytest.raises(TableError, match="such as 2x"):
            read_factor(wrong)
    without = generate(1, 50).assign(gpus_per_node=0)
    with pytest.raises(TableError, match="no job of this workload asks for GPUs"):
        try_changes(loaded(without), loaded().counts[0], Changes(gpu_jobs=2.0))
    assert len(changed_jobs(without.assign(gpus_per_node=1), Changes(gpu_jobs=2.0))) == 100
