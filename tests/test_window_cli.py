"""Windows as a user calls for them: made-up jobs, and methods side by side on the same windows."""

from __future__ import annotations

import pytest

import procure as library
from procure.errors import TableError
from procure.tables import JOB, NODE, read
from procure.window.policies import Windows
from procure.workload.studies import read_released

pytestmark = pytest.mark.plain


@pytest.fixture
def files(tmp_path, procure):
    """Jobs of the study's generator, and a tree that they queue on."""
    jobs, nodes = tmp_path / "jobs.parquet", tmp_path / "nodes.csv"
    made = ("workload", "generate", "--recipe", "window", "--seed", 1, "--n-jobs", 60, "--out")
    assert procure(*made, jobs)[0] == 0 == procure(*made, tmp_path / "again.parquet")[0]
    assert (tmp_path / "again.parquet").read_bytes() == jobs.read_bytes()
    assert procure("topology", "make", "--tree", "6x4x10", "--out", nodes)[0] == 0
    return jobs, nodes


def test_the_released_instance_reads(shared_data):
    """The released file gives its jobs."""
    table = read_released(shared_data("synthetic/data_large_1800_40.txt.xz")).iloc[1:3]
    got = table[["submit_time", "run_time", "n_nodes"]].to_numpy().tolist()
    assert got == [[39, 450, 4], [45, 1091, 25]]


@pytest.mark.slow
def test_compare_on_the_same_windows(files):
    """On the same windows the search never ends above the optimum of the static model; the wait is one."""
    jobs, nodes = read(files[0], JOB), read(files[1], NODE)
    methods, how = ["seq", "sa", "exact", "lns"], {"parameters": Windows(length=60), "most": 4, "steps": 50}
    table = library.compare_windows(jobs, nodes, methods, **how).set_index("method")
    costs = table.loc[["lns", "exact", "seq"], "mean_cost_code"].tolist()
    assert costs == sorted(costs) and costs[0] < costs[2]
    assert len(set(table["mean_wait"])) == 1
    for wrong in (["seq", "seq"], ["seq", "foo"]):
        with pytest.raises(TableError):
            library.compare_windows(jobs, nodes, wrong)
