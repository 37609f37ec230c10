"""Which jobs a package leaves out: exactly those that a simulation finds unrunnable."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.packages import PackageRules, expand_packages, package_nodes
from procure.packages.runnable import jobs_left_out, mem_mb
from procure.run import simulate
from procure.schemas import JOB, QUOTE
from procure.tables import check

TYPES = check(
    pd.DataFrame(
        {
            "name": ["Small", "Big", "Gpu"],
            "category": ["compute", "bigmem", "gpu"],
            "cpus": [8, 4, 16],
            "mem_gb": [32, 512, 64.5],
            "gpus": [0, 0, 2],
            "gpu_type": ["", "", "a100"],
            "price_usd": [1.0, 1.0, 1.0],
        }
    ),
    QUOTE,
)


def packages(*counts: tuple[int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(counts, columns=["Small", "Big", "Gpu"])


def jobs(*requests: tuple) -> pd.DataFrame:
    names = ["n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node", "gpu_type"]
    table = pd.DataFrame(requests, columns=names)
    table["job_id"], table["submit_time"], table["run_time"] = range(len(table)), 0, 10
    return check(table, JOB)


def test_each_resource_can_leave_a_job_out():
    """A job is left out if no single type has CPUs, memory, GPUs and GPU type together."""
    table = jobs(
        (1, 8, 32_000, 0, ""),  # Small or Gpu
        (1, 4, 512_000, 0, ""),  # Big
        (1, 8, 512_000, 0, ""),  # no type has both
        (1, 1, 0, 2, "a100"),  # Gpu
        (1, 1, 0, 2, "h100"),  # the wrong model
        (1, 1, 0, 2, ""),  # any model
        (1, 1, 0, 0, "h100"),  # no GPU asked for: the model does not matter
    )
    found = jobs_left_out(packages((1, 0, 0), (1, 1, 0), (1, 1, 1), (0, 0, 0)), TYPES, table)
    assert found.tolist() == [5, 4, 2, 7]
    assert found.dtype == np.int64


def test_a_job_on_several_nodes_needs_that_many_nodes_that_fit():
    """Nodes of different types add up; nodes that are too small do not."""
    table = jobs((3, 8, 20_000, 0, ""))
    assert jobs_left_out(packages((2, 9, 0), (3, 0, 0), (2, 0, 1)), TYPES, table).tolist() == [1, 0, 0]


def test_existing_nodes_count_for_every_package():
    """What the centre has already can run what a package cannot."""
    table = jobs((1, 4, 512_000, 0, ""), (2, 8, 0, 0, ""))
    nodes = pd.DataFrame({"node_id": ["a"], "cpus": [8], "mem_mb": [600_000], "gpus": [0], "gpu_type": [""]})
    assert jobs_left_out(packages((1, 0, 0)), TYPES, table).tolist() == [2]
    assert jobs_left_out(packages((1, 0, 0), (0, 0, 0)), TYPES, table, nodes).tolist() == [0, 1]


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


def test_many_packages_take_less_than_a_second():
    """100,000 packages against 16,000 jobs of 160 shapes."""
    random = np.random.default_rng(1)
    table = packages(*random.integers(0, 90, (100_000, 3)).tolist())
    shapes = [(1, int(c), int(m), int(g), "") for c, m, g in random.integers(0, [20, 600_000, 4], (160, 3))]
    many = jobs(*[shapes[i] for i in random.integers(0, 160, 16_000)])
    began = time.perf_counter()
    jobs_left_out(table, TYPES, many)
    assert time.perf_counter() - began < 1


def test_rules_and_enumeration_agree_with_it(tmp_path):
    """A package table comes through with its own count columns."""
    table = expand_packages(TYPES, PackageRules(budget_usd=3, min_gpu_nodes=0))
    assert len(jobs_left_out(table, TYPES, jobs((1, 1, 0, 0, "")))) == len(table)
