"""Which jobs a package leaves out: exactly those that a simulation finds unrunnable."""

from __future__ import annotations

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.packages import package_nodes
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
