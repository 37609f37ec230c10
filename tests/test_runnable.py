"""Which jobs a package leaves out: exactly those that a simulation finds unrunnable."""

from __future__ import annotations

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import quote_table

from procure.packages import package_nodes
from procure.packages.runnable import jobs_left_out, mem_mb
from procure.run import simulate
from procure.schemas import JOB, QUOTE
from procure.tables import check

KINDS = {"category": ["compute", "bigmem", "gpu"], "gpu_type": ["", "", "a100"]}
SIZES = {"cpus": [8, 4, 16], "mem_gb": [32, 512, 64.5], "gpus": [0, 0, 2]}
TYPES = check(quote_table(name=["Small", "Big", "Gpu"], **KINDS, **SIZES), QUOTE)


def packages(*counts: tuple[int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(counts, columns=["Small", "Big", "Gpu"])


def jobs(*requests: tuple) -> pd.DataFrame:
    names = ["n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node", "gpu_type"]
    table = pd.DataFrame(requests, columns=names)
    table["job_id"], table["submit_time"], table["run_time"] = range(len(table)), 0, 10
    return check(table, JOB)


def test_memory_is_rounded_up_to_whole_megabytes():
    """1 GB is 1,000 MB; a fraction of a megabyte counts as one, a float's noise does not."""
    assert mem_mb(pd.Series([256.0, 64.5, 0.0001, 1.001])).tolist() == [256_000, 64_500, 1, 1001]


@settings(max_examples=40, deadline=None)
@given(
    counts=st.tuples(*[st.integers(0, 2)] * 3).filter(any),
    requests=st.lists(
        st.tuples(
            st.just(1),
            st.integers(0, 20),
            st.sampled_from([0, 32_000, 32_001, 64_500, 512_000]),
            st.integers(0, 3),
            st.sampled_from(["", "a100", "h100"]),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_equals_what_a_simulation_counts(counts, requests):
    """The count is the simulator's n_unrunnable, without simulation."""
    table, one = jobs(*requests), packages(counts)
    run = simulate(table, package_nodes(one.iloc[0], TYPES))
    assert jobs_left_out(one, TYPES, table)[0] == run.metrics["n_unrunnable"]


@settings(max_examples=100, deadline=None)
@given(
    counts=st.tuples(*[st.integers(0, 3)] * 3).filter(any),
    own=st.integers(0, 2),
    tasks=st.tuples(
        st.integers(1, 60),
        st.sampled_from([1, 2, 5]),
        st.sampled_from([0, 4_000, 40_000]),
        st.sampled_from([0, 0, 1]),
        st.sampled_from([0, 3]),
        st.integers(1, 3),
        st.sampled_from([0, 3, 4]),
    ),
)
def test_tasks_fit_on_the_largest_nodes_that_they_may_have(counts, own, tasks):
    """Counted one by one: so many nodes at most, each with as many tasks as it holds when empty."""
    names = ["n_tasks", "cpus_per_task", "mem_mb_per_task", "gpus_per_task", "tasks_per_node", "min_nodes", "max_nodes"]
    asked = dict(zip(names, tasks, strict=True))
    if asked["max_nodes"] and asked["tasks_per_node"]:
        asked["n_tasks"] = min(asked["n_tasks"], asked["max_nodes"] * asked["tasks_per_node"])
    table = check(pd.DataFrame([{"job_id": "1", "submit_time": 0, "run_time": 1} | asked]), JOB)
    existing = pd.DataFrame({"cpus": [12] * own, "mem_mb": 9_000, "gpus": 0, "gpu_type": ""})
    nodes = [(8, 32_000, 0)] * counts[0] + [(4, 512_000, 0)] * counts[1] + [(16, 64_500, 2)] * counts[2]
    held = []
    for cpus, mem, gpus in [*nodes, *[(12, 9_000, 0)] * own]:
        n = 0
        while (
            n < (asked["tasks_per_node"] or 99)
            and (n + 1) * asked["cpus_per_task"] <= cpus
            and (n + 1) * asked["mem_mb_per_task"] <= mem
            and (n + 1) * asked["gpus_per_task"] <= gpus
        ):
            n += 1
        held += [n] * (n > 0)
    held = sorted(held, reverse=True)[: asked["max_nodes"] or 99]
    runs = sum(held) >= asked["n_tasks"] and len(held) >= min(asked["min_nodes"], asked["n_tasks"])
    assert jobs_left_out(packages(counts), TYPES, table, existing)[0] == (not runs)
