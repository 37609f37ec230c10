"""Jobs of tasks: every policy that takes them gives the schedule of its slow twin."""

from __future__ import annotations

import naive_tasks as naive
import numpy as np
import pytest
from policy_cases import as_dicts, few, pool_case, shared_case, sliced_case

from procure import run as procure_run

pytestmark = pytest.mark.plain


def shortest(job, j):
    return job["est"]


def largest(job, j):
    return -max(job["cpus"], 1) * job["n"]


TWINS = {
    "fcfs": lambda: naive.queue(lambda job, j: 0, False),
    "first-fit": lambda: naive.queue(lambda job, j: 0, True),
    "sjf": lambda: naive.queue(shortest, True),
    "largest-first": lambda: naive.queue(largest, True),
    "best-fit": naive.best_fit,
    "best-fit-of-node": lambda: naive.best_fit(True),
    "easy": naive.easy,
    "easy-sjf": lambda: naive.easy(shortest),
    "easy-by-time": lambda: naive.easy(by_time_only=True),
    "easy:keep=true,queue_order=sjf": lambda: naive.easy(head_key=shortest, keep=True),
    "easy:queue_depth=3": lambda: naive.easy(reach=3),
}
NAMES = [*TWINS, *(f"{name}:place={place}" for name in ("fcfs", "first-fit", "easy") for place in ("best", "worst"))]


def compare(name: str, case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kill = bool(rng.integers(2))
    jobs, nodes = naive.tasks_case(rng, *case(rng, kill=kill))
    run = procure_run.simulate(jobs, nodes, name, kill_at_limit=kill)
    gpus = jobs[["gpus_per_node", "gpus_per_task"]].max(axis=1)
    rows, servers = as_dicts(jobs.assign(gpus_per_node=gpus), nodes, kill)
    rows = [naive.with_tasks(row, job) for row, job in zip(jobs.to_dict("records"), rows, strict=True)]
    place = name.partition("place=")[2] or "first"
    sim = naive.Sim(rows, servers, place)
    start, where = sim.simulate(TWINS[name if name in TWINS else name.partition(":")[0]]())
    first = int(jobs["submit_time"].min())
    found = run.schedule["start_time"].astype("float") - first
    assert [None if np.isnan(s) else int(s) for s in found] == start, (name, case.__name__, seed)
    assert list(run.schedule["node_ids"]) == [",".join(f"n{n}" for n in sorted(w)) for w in where]
    units = [",".join(str(w[n]) for n in sorted(w)) for w in where]
    units = [text if n else "" for text, n in zip(units, jobs["n_tasks"], strict=True)]
    assert list(run.schedule["node_tasks"]) == units


@pytest.mark.parametrize("name", NAMES)
def test_policy_equals_its_slow_twin(name):
    """Start times, nodes and the tasks on each are the twin's."""
    for seed in range(few(33)):
        for case in (pool_case, shared_case, sliced_case):
            compare(name, case, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_policy_equals_its_slow_twin_on_more_cases(name):
    """The same on 2,000 further cases."""
    for seed in range(100, 767):
        for case in (pool_case, shared_case, sliced_case):
            compare(name, case, seed)
