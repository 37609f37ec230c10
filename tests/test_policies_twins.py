"""The policies, compiled and as a plain loop, give the schedules of their slow twins, on crowded queues too."""

from __future__ import annotations

import functools
import os

import naive_tasks as naive
import numpy as np
import pytest
from policy_cases import (
    as_dicts,
    as_found,
    case_for,
    crowded_case,
    few,
    fitting,
    found,
    job_table,
    node_table,
    plainly,
    pool_case,
    shared_case,
    sliced_case,
)

from procure import run as procure_run
from procure.errors import TableError
from procure.policies import catalog
from procure.policies.easy import Easy
from procure.policies.names import ORDERS
from procure.policies.order import score
from procure.policies.scheduler import Skipping, Strict
from procure.simulator.state import WAIT, waiting

pytestmark = pytest.mark.plain


TWINS = [name for name in naive.TWINS if not name.startswith("best-fit")]

MANY = int(os.environ.get("PROCURE_TEST_CASES", "150"))
"""Further cases of each policy in the slow tests: 2,000 take a quarter of an hour of processor time."""


@functools.lru_cache(4096)
def crowd(seed: int, n_jobs: int, foreseen: float):
    """A case as the product takes it and as the twins do; of two thousand cases, making it is most of the time."""
    rng = np.random.default_rng(seed)
    kill = bool(rng.integers(2))
    jobs, nodes = crowded_case(rng, n_jobs, kill)
    jobs = jobs.assign(due_time=jobs["submit_time"] + rng.integers(0, 30, n_jobs))
    as_asked = rng.random(n_jobs) < foreseen
    jobs["run_time"] = jobs["run_time"].where(~as_asked, jobs["requested_time"])
    ready = procure_run.prepare(jobs, nodes, kill_at_limit=kill)
    rows, servers = as_dicts(jobs, nodes, kill)
    return ready, rows, servers, naive.Sim(rows, servers).is_pool()


def compare(policy: str, twin, seed: int, n_jobs: int, foreseen: float = 0.0) -> None:
    ready, rows, servers, pool = crowd(seed, n_jobs, foreseen)
    run = procure_run.run_prepared(ready, policy)
    start, where = naive.Sim(rows, servers, pool=pool).simulate(twin)
    began = [None if second < 0 else int(second) for second in run.start]
    nodes = np.split(run.node_list, run.node_first[1:-1])
    placed = [() if second is None else tuple(rows) for second, rows in zip(began, nodes, strict=True)]
    assert (began, placed) == (start, [tuple(sorted(nodes)) for nodes in where]), (policy, seed)


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("policy", TWINS)
def test_policy_equals_its_slow_twin_on_crowded_queues(policy, many):
    for seed in range(1_000, 1_000 + MANY) if many else range(few(12)):
        compare(policy, naive.TWINS[policy](), seed, 24)


def test_a_reservation_ends_when_another_job_becomes_first_and_starts():
    """Under a queue order that changes, who held the reservation may be first again, and it is made anew."""
    policy = "easy:order=sjf,queue_order=unicef"
    compare(policy, naive.TWINS[policy](), 1_413, 24)


@pytest.mark.parametrize("begin", [0, 5])
def test_nobody_delays_a_job_that_waits_for_one_without_a_limit(begin):
    """Whenever it is, a job without a limit may start beside one that waits for another without a limit."""
    jobs = job_table(
        submit_time=[0, begin, begin, begin], run_time=[1, 100, 10, 50], requested_time=[1, 0, 10, 0],
        n_nodes=[1, 2, 3, 1],
    )  # fmt: skip
    jobs = jobs if begin else jobs.iloc[1:].reset_index(drop=True)
    for policy in ("easy", "easy:depth=2", "forecast", "conservative"):
        start, _ = found(procure_run.simulate(jobs, node_table(3), policy), jobs)
        assert start[-3:] == [begin, begin + 100, begin], policy


def test_easy_equals_its_slow_twin_where_jobs_have_no_limit():
    """Starts and nodes are the twin's where some jobs ask for no time."""
    for seed in range(few(60)):
        rng = np.random.default_rng(seed)
        jobs, nodes = crowded_case(rng, 12)
        jobs["requested_time"] = jobs["requested_time"].where(rng.random(12) >= 0.3, 0)
        sim = naive.Sim(*as_dicts(jobs, nodes))
        sim.pool = sim.is_pool()
        assert found(procure_run.simulate(jobs, nodes, "easy"), jobs) == as_found(*sim.simulate(naive.easy())), seed


@pytest.mark.parametrize("narrow", [0, 1])
def test_conservative_promises_by_the_order_in_a_pool_as_on_nodes(narrow):
    """Of jobs submitted together the first in the order is promised first, whether nodes are a pool or not."""
    jobs = job_table(
        submit_time=[0, 1, 1, 30], run_time=[10, 9, 2, 1], requested_time=[10, 9, 2, 1],
        cpus_per_node=[2, 2, 2, 2 - narrow],
    )  # fmt: skip
    start, _ = found(procure_run.simulate(jobs, node_table(1, cpus=2), "conservative:order=sjf"), jobs)
    assert start == [0, 12, 10, 30]


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("policy", naive.PLANS)
def test_plan_equals_its_slow_twin(policy, many):
    """Policies that plan every waiting job start them when and where their twin over dense time does."""
    for seed in range(1_000, 1_000 + MANY) if many else range(3):
        compare(policy, naive.PLANS[policy](), seed, 7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "n_jobs"), [("easy", 1_000), ("easy-sjf", 1_000), ("wfp3", 1_000), ("sjf", 400), ("first-fit", 400)]
)
def test_policy_equals_its_slow_twin_with_equal_requests(policy, n_jobs):
    """The same where so many jobs of at most four requests wait at once: as many as the twin serves in seconds."""
    for seed in range(2):
        compare(policy, naive.TWINS[policy](), seed, n_jobs)


CROWDS = {
    **{"conservative": (250, 8_000), "earliest-gap": (80, 1_200), "best-gap": (28, 400), "tabu:rounds=3": (20, 400)},
    **{"easy:depth=2": (60, 1_000), "easy:depth=3,order=sjf": (60, 1_000)},
}
"""By policy: how many jobs, and the horizon of the twin, s."""


@pytest.mark.slow
@pytest.mark.parametrize("policy", CROWDS)
def test_plan_equals_its_slow_twin_with_equal_requests(policy):
    """The same where as many jobs of at most four requests wait at once as the twin can plan in seconds."""
    n_jobs, horizon = CROWDS[policy]
    for seed in range(4):
        compare(policy, naive.PLANS[policy](horizon=horizon), seed, n_jobs, foreseen=0.98)


def decided_by_scores(kind):
    """Make a queue policy as one would write it from `score`, without lines and without memory."""

    class Scored(kind):
        def make(self, state):
            order = self.make_order(state, self.order)

            def decide(state):
                for job in sorted(waiting(state), key=lambda j: (score(state, j, order), j)):
                    nodes = fitting(state, job)[: state.n_nodes[job]]
                    if len(nodes) == state.n_nodes[job]:
                        return job, nodes
                    if kind is Strict:
                        break
                return WAIT, []

            return decide

    return Scored


@pytest.mark.parametrize("kind", [Strict, Skipping])
@pytest.mark.parametrize("order", ORDERS)
def test_every_order_serves_by_its_score(kind, order):
    """Lines serve who has the lowest score now, with fair shares and with estimates made at submission."""
    for seed in (0, 3, 1, 2, 4, 5)[: few(6)]:
        jobs, nodes = crowded_case(np.random.default_rng(seed), 40)
        due = jobs["submit_time"] + np.random.default_rng(seed).integers(0, 30, len(jobs))
        jobs = jobs.assign(due_time=due)
        given = {"order": order, "last_two": bool(seed % 2), "exclusive": seed == 3}
        fast = procure_run.simulate(jobs, nodes, kind(**given))
        slow = procure_run.simulate(jobs, nodes, decided_by_scores(kind)(**given))
        assert found(fast, jobs) == found(slow, jobs), (order, seed)


def meddled(kind):
    """Ask a policy, and start the newest job instead where that fits, every other time."""

    class Meddled(kind):
        def make(self, state):
            asked, rng = super().make(state), np.random.default_rng(0)

            def decide(state):
                job, nodes = asked(state)
                newest = int(state.previous_waiting[len(state.submit)])
                if job == WAIT or rng.integers(2):
                    return job, nodes
                instead = fitting(state, newest)[: state.n_nodes[newest]]
                return (newest, instead) if len(instead) == state.n_nodes[newest] else (job, nodes)

            return decide

    return Meddled


def test_lines_hold_when_somebody_else_starts_jobs():
    """A policy that is not always obeyed still knows who waits and what is free."""
    for seed in range(8):
        jobs, nodes = crowded_case(np.random.default_rng(seed), 40)
        fast = procure_run.simulate(jobs, nodes, meddled(Skipping)(order="sjf"))
        slow = procure_run.simulate(jobs, nodes, meddled(decided_by_scores(Skipping))(order="sjf"))
        assert found(fast, jobs) == found(slow, jobs), seed


def test_easy_makes_its_reservation_anew_when_it_was_not_obeyed():
    """Who calls EASY may start another job than it answered; what that takes is not what was foreseen."""

    class Disobeyed(Easy):
        def make(self, state):
            asked = super().make(state)

            def decide(state):
                job, nodes = asked(state)
                if job == 2 and state.start[3] < 0:  # short; instead the long one, on the same node
                    return 3, nodes.copy()
                return job, nodes

            return decide

    times = [10, 20, 5, 100, 100]
    jobs = job_table(submit_time=[0] * 5, run_time=times, requested_time=times, n_nodes=[2, 4, 1, 1, 1])
    start, _ = found(procure_run.simulate(jobs, node_table(5), Disobeyed()), jobs)
    assert start == [0, 10, 0, 0, 30]


SERVED = (
    *("fcfs", "lcfs", "sjf", "first-fit", "largest-first", "easy", "easy-sjf", "easy-by-time"),
    *("best-fit", "best-fit-of-node", "conservative"),
)

WITHOUT_SLICES = ("learned",)
"""Policies that refuse nodes with several GPU models."""


def compare_case(name: str, case, seed: int, kill: bool) -> None:
    rng = np.random.default_rng(seed)
    jobs, nodes = case(rng, kill=kill)
    run = procure_run.simulate(jobs, nodes, name, kill_at_limit=kill)
    rows, servers = as_dicts(jobs, nodes, kill)
    sim = naive.Sim(rows, servers, pool=case is pool_case)
    twin = (naive.TWINS | naive.PLANS)[name]()
    assert found(run, jobs) == as_found(*sim.simulate(twin)), (name, case.__name__, seed, kill)


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SERVED)
@pytest.mark.parametrize("case", [pool_case, shared_case, sliced_case])
@pytest.mark.parametrize("kill", [True, False])
def test_policy_equals_its_slow_twin_in_small_cases(name, case, kill, many):
    """Start times and nodes are the twin's, with equal times, zero durations, early ends and overruns."""
    swift = name != "conservative"
    for seed in range(100, 140 if swift else 110) if many else range(few(10 if swift else 3)):
        compare_case(name, case, seed, kill)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "name",
    [
        name if name == "easy" else pytest.param(name, marks=pytest.mark.slow)
        for name in catalog.names()
        if catalog.entry(name).compiled
    ],
)
def test_plain_loop_equals_compiled(name):
    """A policy called from Python gives the schedule of its compiled loop; one that knows no slices says so."""
    if name in WITHOUT_SLICES:
        jobs, nodes = sliced_case(np.random.default_rng(0))
        with pytest.raises(TableError, match="several GPU models"):
            procure_run.simulate(jobs, nodes, name)
    for seed in range(3):
        for case in (pool_case, shared_case) if name in WITHOUT_SLICES else (pool_case, shared_case, sliced_case):
            jobs, nodes = case_for(name, case)(np.random.default_rng(seed))
            quick = procure_run.simulate(jobs, nodes, name, fast_lane=False)
            plain = procure_run.simulate(jobs, nodes, plainly(name)())
            assert found(quick, jobs) == found(plain, jobs)
            assert quick.metrics == plain.metrics
