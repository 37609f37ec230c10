"""Jobs that ask for tasks: the columns of the job table, and the shapes that they are given."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from procure.errors import TableError
from procure.tables import JOB, check
from procure.workload.shapes import shape_jobs


def table(**columns) -> pd.DataFrame:
    """A checked job table; what is not given is left out."""
    n = len(next(iter(columns.values())))
    return check(pd.DataFrame({"job_id": [str(i) for i in range(n)], "submit_time": 0, "run_time": 10} | columns), JOB)


def test_a_row_of_tasks_may_leave_its_nodes_empty():
    """Nodes are filled in as few as the tasks may have, CPUs per node as those of the tasks on it."""
    jobs = table(
        n_tasks=[16, 0, 7, ""],
        cpus_per_task=[2, "", "", ""],
        tasks_per_node=[4, "", "", ""],
        min_nodes=["", "", 2, ""],
        n_nodes=["", 2, "", ""],
        cpus_per_node=["", 8, "", 3],
    )
    assert jobs["n_nodes"].tolist() == [4, 2, 2, 1]
    assert jobs["cpus_per_node"].tolist() == [8, 8, 4, 3]
    assert jobs["n_tasks"].tolist() == [16, 0, 7, 0]


@pytest.mark.parametrize(
    ("bad", "column"),
    [
        ({"min_nodes": 3, "max_nodes": 2}, "min_nodes"),
        ({"mem_mb_per_task": 1, "mem_mb_per_node": 1}, "mem_mb_per_task"),
        ({"gpus_per_task": 1, "gpus_per_node": 1}, "gpus_per_task"),
        ({"tasks_per_node": 3, "max_nodes": 2}, "n_tasks"),
    ],
)
def test_a_row_of_tasks_that_contradicts_itself_is_refused(bad, column):
    """The row and the column are named; a row of nodes may hold anything in them."""
    with pytest.raises(TableError, match=rf"row 2, column {column}: "):
        table(n_tasks=[0, 8], **{name: [value, value] for name, value in bad.items()}, cpus_per_node=[1, 1])


def test_as_logged_asks_for_the_nodes_that_stand_in_the_row():
    """Memory and GPUs of the tasks become those of the nodes; a table without tasks stays as it is."""
    jobs = table(n_tasks=[12, 0], mem_mb_per_task=[100, 0], gpus_per_task=[1, 0], n_nodes=[3, 2], cpus_per_node=[4, 8])
    shaped = shape_jobs(jobs, "as-logged")
    assert "n_tasks" not in shaped
    assert shaped.loc[0, ["n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node"]].tolist() == [3, 4, 400, 4]
    pd.testing.assert_frame_equal(shape_jobs(shaped, "as-logged"), shaped)


def test_whole_node_jobs_become_tasks_that_ask_for_no_less():
    """All CPUs of several nodes, or exclusive; a job of one node, or of a part of its nodes, keeps its nodes."""
    jobs = table(
        n_nodes=[2, 2, 1, 2, 3],
        cpus_per_node=[16, 8, 16, 4, 16],
        mem_mb_per_node=[1000, 10, 10, 10, 10],
        gpus_per_node=[0, 0, 0, 0, 4],
        exclusive=[False, False, False, True, False],
    )
    shaped = shape_jobs(jobs, node_cpus=16)
    assert shaped["n_tasks"].tolist() == [32, 0, 0, 32, 12]
    assert shaped["cpus_per_task"].tolist() == [1, 1, 1, 1, 4]
    assert shaped["gpus_per_task"].tolist() == [0, 0, 0, 0, 1]
    assert shaped["mem_mb_per_task"].tolist() == [63, 0, 0, 1, 3]
    assert not shaped["exclusive"].any()
    assert shape_jobs(jobs, node_cpus=32)["n_tasks"].tolist() == [0, 0, 0, 64, 0]
    assert shape_jobs(jobs)["n_tasks"].tolist() == [0, 0, 0, 8, 0]  # whose CPUs a node had is not known
    assert "n_tasks" not in shape_jobs(jobs, repack=False)


def test_rules_decide_for_some_jobs():
    """By partition or class; the first rule that holds counts, and one of an unknown column is refused."""
    jobs = table(n_nodes=[2] * 3, cpus_per_node=[4] * 3, partition=["a", "b", "b"], gpus_per_node=[0, 0, 1])
    rules = {"class=gpu": "tasks", "partition=b": "as-logged"}
    assert (shape_jobs(jobs, "tasks", rules, node_cpus=4)["n_tasks"] > 0).tolist() == [True, False, True]
    for bad in ({"partitoin=b": "tasks"}, {"partition=b": "nodes"}):
        with pytest.raises((TableError, ValueError), match=r"did you mean|shape"):
            shape_jobs(jobs, "tasks", bad)


def test_shapes_ask_for_no_less_whatever_the_job():
    """Of random tables: as tasks, a job has at least the CPUs, memory and GPUs that its nodes had in all."""
    rng = np.random.default_rng(5)
    n = 500
    jobs = table(
        n_nodes=rng.integers(1, 5, n),
        cpus_per_node=rng.integers(1, 9, n),
        mem_mb_per_node=rng.integers(0, 1000, n),
        gpus_per_node=rng.choice([0, 0, 1, 3], n),
        exclusive=rng.random(n) < 0.2,
    )
    shaped = shape_jobs(jobs)
    tasks = shaped["n_tasks"].where(shaped["n_tasks"] > 0, shaped["n_nodes"])
    per = np.where(shaped["n_tasks"] > 0, "task", "node")
    for task, node in (("cpus_per_task", "cpus_per_node"), ("mem_mb_per_task", "mem_mb_per_node")):
        each = np.where(per == "task", shaped[task], shaped[node])
        assert (tasks * each >= jobs["n_nodes"] * jobs[node]).all()
