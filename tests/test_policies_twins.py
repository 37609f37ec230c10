"""The compiled policies, the plain loop and the slow twins give the same schedules."""

from __future__ import annotations

import naive_tasks as naive
import numpy as np
import pytest
from policy_cases import as_dicts, as_found, case_for, few, found, plainly, pool_case, shared_case, sliced_case

from procure import run as procure_run
from procure.errors import TableError
from procure.policies import catalog

pytestmark = pytest.mark.plain

SERVED = (
    *("fcfs", "lcfs", "sjf", "first-fit", "largest-first", "easy", "easy-sjf", "easy-by-time"),
    *("best-fit", "best-fit-of-node", "conservative"),
)

WITHOUT_SLICES = ("learned",)
"""Policies that refuse nodes with several GPU models."""


def compare(name: str, case, seed: int, kill: bool) -> None:
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
def test_policy_equals_its_slow_twin(name, case, kill, many):
    """Start times and nodes are the twin's, with equal times, zero durations, early ends and overruns."""
    swift = name != "conservative"
    for seed in range(100, 140 if swift else 110) if many else range(few(10 if swift else 3)):
        compare(name, case, seed, kill)


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
