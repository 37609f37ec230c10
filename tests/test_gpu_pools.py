"""Nodes with several GPU models or MIG slices: no pool gives more than it has, and what cannot be meant is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from policy_cases import SLICE, few, node_table, sliced_case

import procure
from procure.errors import TableError
from procure.files.gpu_pools import joined_pools, pool_for, pools_of
from procure.packages.nodes import fits, request_shapes
from procure.schemas import JOB, NODE
from procure.simulator.arrays import gpu_fields
from procure.tables import check
from procure.workload.speedups import run_times_on

pytestmark = pytest.mark.plain


def test_a_package_is_said_to_run_what_the_simulation_runs() -> None:
    for seed in range(few(20)):
        jobs, nodes = sliced_case(np.random.default_rng(seed))
        jobs, nodes = check(jobs.assign(n_nodes=1, submit_time=0), JOB), check(nodes, NODE)
        shapes = request_shapes(jobs)
        able = fits(nodes, shapes)
        for n in range(len(nodes)):
            ran = procure.simulate(jobs, nodes.iloc[[n]], "first-fit").schedule
            found = ran[ran["start_time"].notna()][["cpus_per_node", "mem_mb_per_node", "gpus_per_node", "gpu_type"]]
            said = shapes[able[n]][list(found)]
            assert set(map(tuple, found.to_numpy())) == set(map(tuple, said.to_numpy()))


def test_a_job_is_as_fast_as_on_the_pool_that_it_takes() -> None:
    """Jobs without a model take the first pool, whatever the other is."""
    jobs = pd.DataFrame({"submit_time": 0, "run_time": 100, "gpus_per_node": 1, "gpu_type": ["", "a100", SLICE]})
    jobs = jobs.assign(gpu_speeds="A100=4|A100_1g.5gb=0.5")
    assert run_times_on(jobs, None, None, f"2x a100 + 14x {SLICE}").tolist() == [25, 25, 200]
    assert run_times_on(jobs, None, None, f"14x {SLICE} + 2x A100").tolist() == [200, 25, 200]


def test_models_that_a_job_may_take_by_two_rules_are_named() -> None:
    """A job without a model on A100 + L40S, and on L40S alone; one that names a model is no question."""
    nodes = node_table(2, gpus=[4, 4], gpu_type=["2x A100 + 2x L40S", "L40S"])
    jobs = pd.DataFrame({"gpus_per_node": [1, 1], "gpu_type": ["a100", "l40s"]})
    fields = gpu_fields(jobs, nodes)
    assert fields is not None and len(set(fields.of_model.values())) == 2
    with pytest.raises(
        TableError, match=r"'a100' and 'l40s' stand in one node.*no model \(gpu_models.any\) may run on a100"
    ):
        gpu_fields(jobs.assign(gpu_type=""), nodes)
    with pytest.raises(TableError, match=r"for 'v100' \(gpu_models\.\"v100\"\) may run on a100, l40s\. Write runs_on"):
        gpu_fields(jobs.assign(gpu_type="v100|A100|L40S"), nodes)
    assert gpu_fields(jobs, nodes.assign(gpu_type="A100")) is None


def test_pools_are_read_in_their_order() -> None:
    """And written so that they are read again; a pool without a model serves every request."""
    pools = pools_of(f"2x A100+14 × {SLICE}", 16)
    assert pools == (("A100", 2), (SLICE, 14))
    assert [pool_for(pools, frozenset(one)) for one in (["a100"], [SLICE], [], ["h100"])] == [0, 1, 0, -1]
    assert pool_for(pools_of("", 4), frozenset(["h100"])) == 0
    assert pools_of(joined_pools(pools)[1], 16) == pools
    assert joined_pools([("a100", 2), ("", 1)]) == (3, "") and joined_pools([("t4", 1), ("T4", 2)]) == (3, "t4")
