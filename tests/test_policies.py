"""The policies: published values, a case solved on paper, queueing theory, and what goes wrong."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from policy_cases import found, job_table, node_table, pool_case

from procure import run as procure_run
from procure.page.charts import gantt_text
from procure.simulator.drive import PolicyError
from procure.simulator.state import WAIT


def test_five_policies_differ_on_a_case_solved_on_paper(request):
    """FCFS, SJF, EASY, conservative and best fit draw the charts that stand in golden/on_paper.txt."""
    times = [4, 3, 2, 10, 3]
    jobs = job_table(
        submit_time=[0, 1, 1, 1, 1], n_nodes=[2, 2, 3, 1, 1], run_time=times, requested_time=times,
        mem_mb_per_node=[0, 0, 0, 300, 1000],
    )  # fmt: skip
    nodes, charts = node_table(3), []
    for policy in ("fcfs", "sjf", "easy", "conservative", "best-fit"):
        run = procure_run.simulate(jobs, nodes, policy)
        charts.append(f"{policy}\n{gantt_text(run.schedule, nodes['node_id'].tolist())}")
    golden = request.path.parent / "golden" / "on_paper.txt"
    assert "\n".join(charts) == golden.read_text(encoding="utf-8").partition("\n\n\n")[2]
    assert len({chart.partition("\n")[2] for chart in charts}) == 5


def test_a_job_runs_as_long_as_on_the_slowest_of_its_nodes():
    """Two nodes, one at half the logged speed: 10 s become 20 on both, and 10 where only the fast one is used."""
    nodes = node_table(2, speed=[2.0, 1.0])
    jobs = job_table(submit_time=[0, 50], run_time=[10, 10], n_nodes=[2, 1])
    run = procure_run.simulate(jobs, nodes, "fcfs", logged_speed="2")
    assert run.schedule["end_time"].tolist() == [20, 60]


def test_edf_is_fcfs_without_due_dates_and_not_with_them():
    """Earliest due date first falls back to the queue's order; a due date moves its job ahead."""
    for seed in range(20):
        jobs, nodes = pool_case(np.random.default_rng(seed))
        plain = found(procure_run.simulate(jobs, nodes, "fcfs"), jobs)
        assert found(procure_run.simulate(jobs, nodes, "edf"), jobs) == plain
    jobs = job_table(submit_time=[0, 0, 0], run_time=[5, 5, 5], due_time=[None, None, 9])
    starts = procure_run.simulate(jobs, node_table(1), "edf").schedule["start_time"]
    assert starts.tolist() == [5, 10, 0]


def erlang_c_wait(c: int, arrival: float, service: float) -> float:
    load = arrival * service
    terms = [load**k / math.factorial(k) for k in range(c)]
    last = load**c / math.factorial(c) * c / (c - load)
    return last / (sum(terms) + last) * service / (c - load)


def waits(policy: str, c: int, gaps: np.ndarray, service: np.ndarray) -> np.ndarray:
    n = len(gaps)
    jobs = job_table(submit_time=np.cumsum(gaps), run_time=service, requested_time=service)
    run = procure_run.simulate(jobs, node_table(c), policy).schedule
    return (run["start_time"] - run["submit_time"]).to_numpy(np.float64)[n // 10 :]


def assert_mean(sample: np.ndarray, expected: float) -> None:
    batches = sample[: len(sample) // 30 * 30].reshape(30, -1).mean(axis=1)
    half_width = 3.66 * batches.std(ddof=1) / math.sqrt(30)  # t(29), 99.9 %
    assert abs(batches.mean() - expected) < half_width
    assert half_width < 0.25 * expected


@pytest.mark.parametrize(("c", "load"), [(1, 0.6), (4, 0.7)])
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "best-fit"])
def test_mean_wait_of_m_m_c(policy, c, load):
    """One-node jobs with exponential gaps and run times wait as Erlang's formula says (99.9 % interval)."""
    rng = np.random.default_rng(5)
    service = np.ceil(rng.exponential(1e6, 60_000)).astype(np.int64)
    gaps = np.ceil(rng.exponential(1e6 / (load * c), 60_000)).astype(np.int64)
    assert_mean(waits(policy, c, gaps, service), erlang_c_wait(c, load * c / 1e6, 1e6))


@pytest.mark.parametrize("kind", ["deterministic", "two-point"])
def test_mean_wait_of_m_g_1(kind):
    """One node waits as Pollaczek and Khinchine say: λ E[S²] / 2(1 − ρ)."""
    rng = np.random.default_rng(6)
    n = 80_000
    service = np.full(n, 1e6) if kind == "deterministic" else rng.choice([2e5, 3e6], n, p=[5 / 7, 2 / 7])
    gaps = np.ceil(rng.exponential(1e6 / 0.6, n)).astype(np.int64)
    arrival = 0.6 / 1e6
    moment = 1e12 if kind == "deterministic" else 4e10 * 5 / 7 + 9e12 * 2 / 7
    assert_mean(waits("fcfs", 1, gaps, service.astype(np.int64)), arrival * moment / (2 * (1 - 0.6)))


def test_fair_share_serves_who_used_less():
    """After one user's long job, the other user's job goes first though it came later."""
    jobs = job_table(
        submit_time=[0, 10, 11], run_time=[1000, 50, 50], requested_time=[1000, 50, 50], user=["a", "a", "b"]
    )
    run = procure_run.simulate(jobs, node_table(1), "priority")
    assert run.schedule["start_time"].tolist() == [0, 1050, 1000]
    older = procure_run.simulate(jobs, node_table(1), "priority", parameters={"weight_fair_share": 0})
    assert older.schedule["start_time"].tolist() == [0, 1000, 1050]


def test_last_two_run_times_let_a_job_backfill():
    """A user whose jobs end early is believed by easy-last-two; the limit still kills."""
    jobs = job_table(
        submit_time=[0, 0, 10, 11, 12],
        run_time=[2, 2, 50, 50, 5],
        requested_time=[100, 100, 50, 50, 100],
        n_nodes=[1, 1, 1, 2, 1],
        user=["a", "a", "b", "b", "a"],
    )
    plain = procure_run.simulate(jobs, node_table(2), "easy").schedule["start_time"].tolist()
    believed = procure_run.simulate(jobs, node_table(2), "easy-last-two").schedule["start_time"].tolist()
    assert plain == [0, 0, 10, 60, 110]
    assert believed == [0, 0, 10, 60, 12]


def test_estimates_of_a_model_are_used_but_do_not_kill():
    """Estimates below the run time let a job backfill; it runs to its end all the same."""
    jobs = job_table(submit_time=[0, 1, 2], run_time=[50, 50, 60], requested_time=[50, 50, 100], n_nodes=[1, 2, 1])
    run = procure_run.simulate(jobs, node_table(2), "easy", estimates=np.array([50, 50, 20]))
    assert run.schedule["start_time"].tolist() == [0, 62, 2]
    assert run.metrics["n_killed"] == 0


def test_a_job_that_is_placed_elsewhere_than_planned_frees_what_it_was_planned_on():
    """Conservative with best fit: the third takes node B, not A as planned, so the fourth starts on A at once."""
    nodes = pd.DataFrame({"node_id": ["A", "B"], "cpus": [4, 2], "mem_mb": 100, "gpus": 0})
    jobs = job_table(
        submit_time=[0, 0, 1, 1],
        requested_time=[100, 100, 100, 50],
        run_time=[100, 100, 10, 50],
        cpus_per_node=[4, 2, 2, 4],
        mem_mb_per_node=1,
    )
    schedule = procure_run.simulate(jobs, nodes, "conservative:place=best").schedule
    assert schedule["start_time"].tolist() == [0, 0, 100, 100]


def _raises(state):
    raise KeyError("no such thing")


BAD = {
    "raises": (_raises, r"_raises raised KeyError.*0 s after the first submission \(2 jobs waiting, 0 running"),
    "no pair": (lambda state: 7, "answered 7.*an answer is"),
    "a float for a node": (lambda state: (0, [0.5]), "an answer is"),
    "an unknown job": (lambda state: (99, [0]), "no such job"),
    "a job not yet submitted": (lambda state: (2, [0]), "not waiting"),
    "an unknown node": (lambda state: (0, [5]), "no such node"),
    "two nodes for one": (lambda state: (0, [0, 1]), "another number of nodes"),
    "starts one twice": (lambda state: (0, [0]), "not waiting"),
    "names a node twice": (lambda state: (1, [0, 0]), "named twice"),
    "a busy node": (lambda state: (0, [0]) if state.start[0] < 0 else (1, [0, 1]), "lacks"),
    "never starts": (lambda state: (WAIT, []), "waits for ever"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_policy_that_errs_is_named_with_the_state(name):
    """Whatever a policy does wrong is one PolicyError that says what, when and how many wait and run."""
    policy, message = BAD[name]
    jobs = job_table(submit_time=[0, 0, 9], run_time=[9, 9, 9], n_nodes=[1, 2, 1])
    with pytest.raises(PolicyError, match=message):
        procure_run.simulate(jobs, node_table(2), policy)
