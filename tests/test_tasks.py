"""Jobs of tasks: every policy that takes them gives the schedule of its slow twin."""

from __future__ import annotations

import os

import naive_tasks as naive
import numpy as np
import pytest
from policy_cases import (
    as_dicts,
    few,
    job_table,
    node_table,
    pool_case,
    shared_case,
    sliced_case,
    tasks_case,
    unit_case,
)

from procure import run as procure_run
from procure.errors import TableError
from procure.policies import catalog
from procure.schemas import JOB, NODE
from procure.simulator import usable
from procure.simulator.state import WAIT, build, waiting
from procure.simulator.steps import units
from procure.tables import check

pytestmark = pytest.mark.plain


TAKE_TASKS = (
    *("fcfs", "first-fit", "sjf", "largest-first", "best-fit", "best-fit-of-node", "easy", "easy-sjf", "easy-by-time"),
    *("easy:queue_order=sjf,keep=true", "easy:queue_depth=3", "easy:depth=3", "easy:depth=2,order=sjf"),
    *("conservative", "earliest-gap", "best-gap", "tabu:rounds=0"),
)
MANY = int(os.environ.get("PROCURE_TEST_CASES", "40"))
"""Seeds of each policy in the slow tests, three cases a seed: 667 take a quarter of an hour."""
PLACED = [f"{name}:place={place}" for name in ("fcfs", "first-fit", "easy") for place in ("best", "worst")]


@pytest.fixture(autouse=True)
def _of_two_alike(monkeypatch):
    """Keep idle nodes apart by kind from two on, not only where there are many."""
    monkeypatch.setattr(usable, "ALIKE", 2)


def compare(name: str, case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kill, units = bool(rng.integers(2)), case is pool_case and seed % 2 == 1
    jobs, nodes = (unit_case if units else tasks_case)(rng, *case(rng, kill=kill))
    run = procure_run.simulate(jobs, nodes, name, kill_at_limit=kill)
    rows, servers = as_dicts(jobs, nodes, kill)
    place = name.partition("place=")[2] or "first"
    ready = procure_run.prepare(jobs, nodes)  # whether only counts matter is the run's own; what follows, the twin's
    state = build(ready.jobs, ready.system, ready.durations)[1]
    sim = naive.Sim(rows, servers, place, bool(state.pool))
    twin = name.partition(":place")[0]
    start, where = sim.simulate((naive.TWINS | naive.PLANS)[twin]())
    first = int(jobs["submit_time"].min())
    found = run.schedule["start_time"].astype("float") - first
    assert [None if np.isnan(s) else int(s) for s in found] == start, (name, case.__name__, seed)
    assert list(run.schedule["node_ids"]) == [",".join(f"n{n}" for n in sorted(w)) for w in where]
    units = [",".join(str(w[n]) for n in sorted(w)) for w in where]
    units = [text if n else "" for text, n in zip(units, jobs["n_tasks"], strict=True)]
    assert list(run.schedule["node_tasks"]) == units


@pytest.mark.parametrize("seeds", [range(few(33)), pytest.param(range(100, 100 + MANY), marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [*TAKE_TASKS, *PLACED])
def test_policy_equals_its_slow_twin(name, seeds):
    for seed in seeds:
        for case in (pool_case, shared_case, sliced_case):
            compare(name, case, seed)


def test_a_plan_is_made_anew_where_the_number_of_nodes_is_limited():
    """A job that starts on a node which one planned before it did not use may change that one's nodes."""
    compare("best-gap", shared_case, 650)


@pytest.mark.parametrize("name", ["best-fit", "first-fit:place=worst", "easy", "easy:place=best"])
def test_nodes_that_are_not_looked_at_change_nothing(name, monkeypatch):
    """On 100 nodes of two kinds, in words of 32, the schedule is that of looking at every node."""
    for seed in range(few(6)):
        rng = np.random.default_rng(seed)
        jobs, _ = shared_case(rng, n_jobs=80)
        jobs = jobs.assign(n_nodes=rng.integers(1, 70, 80), gpus_per_node=0)
        system = node_table(100, cpus=np.repeat([4, 5], 50), mem_mb=np.repeat([1000, 400], 50))
        jobs, nodes = tasks_case(rng, jobs, system)
        monkeypatch.setattr(usable, "ALIKE", 2)
        ours = procure_run.simulate(jobs, nodes, name).schedule
        monkeypatch.setattr(usable, "ALIKE", 1000)
        assert ours.equals(procure_run.simulate(jobs, nodes, name).schedule), seed


@pytest.mark.parametrize("name", ["best-fit", "easy", "conservative"])
def test_a_run_that_lets_its_table_go_measures_the_same(name):
    for seed in range(few(6)):
        rng = np.random.default_rng(seed)
        jobs, nodes = tasks_case(rng, *shared_case(rng, n_jobs=40))
        jobs = jobs.assign(user=rng.choice([*"abc"], 40), state="COMPLETED", gpu_speeds="v100=2", kind_speeds="node=3")
        whole = procure_run.simulate(jobs, nodes, name)
        tables, how = ([check(jobs, JOB)], check(nodes, NODE)), {"kill_at_limit": True, "logged_speed": None}
        part = procure_run.simulate_only(*tables, name, **how)
        assert part.metrics == whole.metrics, seed
        ids = [run.schedule.loc[run.schedule["start_time"].isna(), "job_id"].tolist() for run in (part, whole)]
        assert ids[0] == ids[1]


TABLE = job_table(
    submit_time=[0, 0, 5], run_time=10, requested_time=10, n_tasks=[5, 0, 6], cpus_per_task=1, n_nodes=[1, 2, 1]
)


@pytest.mark.parametrize("answer", ["nodes", "units", "too many", "too few"])
def test_a_policy_in_python_may_say_the_tasks_on_each_node(answer):
    """Without, the nodes are filled in their order; more than a node holds, or another number, is refused."""

    def policy(state):
        for job in waiting(state):
            held = np.array([units(state, n, job) for n in range(3)])
            if held.sum() >= state.n_nodes[job] == 5:
                given = {"units": (2, 3, 0), "too many": (5, 0, 0), "too few": (1, 1, 1)}.get(answer)
                nodes = np.arange(3 if answer == "too few" else 2)
                return (job, nodes) if given is None else (job, nodes, given[: len(nodes)])
        return WAIT, []

    jobs, nodes = TABLE.head(1), node_table(3, cpus=4)
    if answer.startswith("too"):
        with pytest.raises(TableError, match="free CPUs" if answer == "too many" else "tasks"):
            procure_run.simulate(jobs, nodes, policy)
        return
    run = procure_run.simulate(jobs, nodes, policy)
    assert list(run.schedule["node_tasks"]) == ["4,1" if answer == "nodes" else "2,3"]


@pytest.mark.parametrize("name", ["coschedule", "isolated", "easy:place=compact", "easy:hold=forecast", "rules"])
def test_a_policy_that_places_nodes_only_refuses_tasks_by_name(name):
    nodes = node_table(3, cpus=4, leaf=0, pod=0)
    with pytest.raises(TableError, match=r"2 of 3 jobs ask for tasks.*as-logged.*easy"):
        procure_run.simulate(TABLE, nodes, name)


def test_whole_nodes_are_refused_where_only_all_jobs_can_take_theirs():
    """The error names the column; with all jobs exclusive, or as policy rules says, they are placed."""
    jobs = job_table(submit_time=[0, 0], run_time=10, n_nodes=[1, 1], cpus_per_node=2, exclusive=[True, False])
    nodes = node_table(2, cpus=4, leaf=0, pod=0)
    with pytest.raises(TableError, match=r"1 of 2 jobs take theirs whole \(column exclusive\)"):
        procure_run.simulate(jobs, nodes, "isolated")
    assert procure_run.simulate(jobs, nodes, "isolated:exclusive=true").metrics["n_completed"] == 2


def test_tasks_of_one_node_are_a_job_of_one_node():
    """They run in the fast lane, and where a node must hold them all, every policy takes them."""
    jobs = TABLE.assign(max_nodes=[1, 0, 1], n_nodes=1, n_tasks=[4, 0, 3])
    alone = TABLE.drop(columns=["n_tasks", "cpus_per_task"]).assign(n_nodes=1, cpus_per_node=[4, 1, 3])
    for name in ("best-fit", "conservative", "tabu"):
        found, expected = (procure_run.simulate(table, node_table(2, cpus=4), name) for table in (jobs, alone))
        assert found.metrics == expected.metrics


def test_memory_of_a_node_counts_on_each_node_used():
    """Utilization counts the memory that each used node gives beside that of its tasks."""
    jobs = job_table(submit_time=[0], run_time=10, n_tasks=[5], cpus_per_task=1, mem_mb_per_node=500, gpus_per_node=0)
    run = procure_run.simulate(jobs, node_table(2, cpus=4, mem_mb=1000), "first-fit")
    assert run.metrics["utilization_mem"] == 0.5
    assert run.metrics["utilization_cpu"] == 5 / 8
    assert all(catalog.model_of(name).takes_tasks for name in catalog.POLICIES)
