"""Policy slurm places tasks as select/cons_tres does; the simulator refuses a placement that is none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from procure.run import simulate
from procure.site.layout import lay_out
from procure.site.model import Latency, Limits, Partition, Priority, Qos, Select, Site
from procure.site.policy import Slurm
from procure.site.store import write_site
from procure.tables import JOB, NODE, check

pytestmark = pytest.mark.plain

CPUS, GPUS = [8, 8, 8, 8, 16, 16], [0, 0, 0, 0, 0, 4]
NODES = check(
    pd.DataFrame({"node_id": list("abcdef"), "cpus": CPUS, "mem_mb": 2000 * np.array(CPUS), "gpus": GPUS}), NODE
)


def placed(*rows: dict[str, int]) -> list[tuple[str, str]]:
    """The nodes of each job and its tasks on them, all submitted to an empty system a second after each other."""
    table = [{"job_id": str(i), "submit_time": 10 * i, "run_time": 1000} | row for i, row in enumerate(rows)]
    schedule = simulate(check(pd.DataFrame(table), JOB), NODES, "slurm").schedule
    tasks = schedule["node_tasks"] if "node_tasks" in schedule else [""] * len(schedule)
    return list(zip(schedule["node_ids"], tasks, strict=True))


MORE = {"n_tasks": 30, "cpus_per_task": 1}


@pytest.mark.parametrize(
    ("row", "nodes", "tasks"),
    [
        ({"n_tasks": 5}, "a", "5"),  # one node, of those with the least room that is enough
        ({"n_tasks": 12}, "e", "12"),
        ({"n_tasks": 20}, "a,b,c", "8,8,4"),  # no node alone: the first of the run
        ({"n_tasks": 8, "min_nodes": 2, "max_nodes": 2}, "a,b", "7,1"),  # a task is left for the other node
        ({"n_tasks": 6, "min_nodes": 2, "max_nodes": 4}, "a,b,c,d", "3,1,1,1"),  # as many nodes as it may have
        (
            {"n_tasks": 14, "min_nodes": 2, "max_nodes": 3},
            "a,b,c",
            "7,6,1",
        ),  # of 8, 6 and 1, in turn while there is room
        ({"n_tasks": 24, "max_nodes": 2}, "a,e", "8,16"),  # the last node that it may have holds all that is left
        ({"n_tasks": 26, "max_nodes": 2}, "e,f", "16,10"),  # without the small ones, where these would be too many
        ({"n_tasks": 6, "tasks_per_node": 4}, "a,b", "4,2"),  # two nodes at least, so that the run and not one is it
        ({"n_tasks": 10, "tasks_per_node": 4, "min_nodes": 3}, "a,b,c", "4,4,2"),
        ({"n_tasks": 3, "cpus_per_task": 3}, "e", "3"),
        ({"n_tasks": 3, "mem_mb_per_task": 9_000}, "e", "3"),
        ({"n_tasks": 12, "mem_mb_per_node": 20_000}, "e", "12"),
        ({"n_tasks": 3, "gpus_per_task": 1}, "f", "3"),
        ({"n_tasks": 10, "exclusive": True}, "e", "10"),
    ],
)
def test_tasks_go_where_slurm_puts_them(row, nodes, tasks):
    """On an empty system; what is beside is another job of tasks, so that none is alone."""
    assert placed(row | {"exclusive": row.get("exclusive", False)}, MORE)[0] == (nodes, tasks)


@pytest.mark.parametrize(
    ("cpus", "row", "nodes"),
    [
        ([8, 6], {"n_tasks": 2}, "b"),  # the fullest node, though each has room for all tasks
        ([3, 2], {"n_tasks": 1, "cpus_per_task": 2}, "a"),  # a CPU that makes no task of two is none
        ([5, 8, 1, 6, 6], {"n_tasks": 8, "tasks_per_node": 4, "min_nodes": 2, "max_nodes": 3}, "a,d,e"),
    ],
)
def test_nodes_are_compared_by_their_room_though_the_job_has_fewer_tasks(cpus, row, nodes):
    """As a real Slurm chose, the last with what is left of the run of the least room that is enough."""
    table = check(pd.DataFrame({"node_id": list("abcde")[: len(cpus)], "cpus": cpus, "mem_mb": 1000}), NODE)
    job = {"job_id": "0", "submit_time": 0, "run_time": 9} | row
    more = {"job_id": "1", "submit_time": 5, "run_time": 9, "n_tasks": 4, "cpus_per_task": 1}  # so that none is alone
    schedule = simulate(check(pd.DataFrame([job, more]), JOB), table, "slurm").schedule
    assert schedule["node_ids"].iloc[0] == nodes


@pytest.mark.parametrize(
    ("row", "nodes", "tasks"),
    [
        ({"n_tasks": 4}, "d", "4"),
        ({"n_tasks": 10}, "c,d", "2,8"),
        ({"n_tasks": 8, "min_nodes": 2, "max_nodes": 2}, "c,d", "1,7"),
        ({"n_tasks": 6, "min_nodes": 2, "max_nodes": 4}, "a,b,c,d", "1,1,1,3"),
        ({"n_tasks": 16}, "a,c,d", "1,7,8"),
        ({"n_tasks": 6, "tasks_per_node": 3}, "c,d", "3,3"),
    ],
)
def test_tasks_go_to_the_least_loaded_nodes(row, nodes, tasks, tmp_path):
    """Under CR_LLN, and LLN of a partition alike, as a real Slurm placed them beside jobs of 2, 5, 1 and no CPUs."""
    table = check(pd.DataFrame({"node_id": list("abcd"), "cpus": 8, "mem_mb": 1000, "features": list("abcd")}), NODE)
    part = Partition(name="p", nodes="ALL", default=True)
    write_site(Site(partitions=(part,), select=Select(lln=True)), table, tmp_path)
    rows = [{"n_tasks": n, "constraint": node} for n, node in ((2, "a"), (5, "b"), (1, "c"))]
    ask = {"constraint": "", "cpus_per_task": 1, "min_nodes": 1, "max_nodes": 0, "tasks_per_node": 0}
    rows = [
        ask | {"job_id": str(i), "submit_time": 10 * i, "run_time": 900} | one for i, one in enumerate([*rows, row])
    ]
    last = simulate(check(pd.DataFrame(rows), JOB), table, Slurm(site=str(tmp_path))).schedule.iloc[-1]
    assert (last["node_ids"], last["node_tasks"]) == (nodes, tasks)


@pytest.mark.parametrize(("cpus", "nodes"), [([4, 8], "b"), ([4, 4, 8], "a,b"), ([4, 8, 8], "c")])
def test_whole_nodes_for_tasks_as_select_linear_takes_them(cpus, nodes, tmp_path):
    """As a real Slurm chose for six tasks: the lightest nodes if they are enough, else the last with the most CPUs."""
    weight = [10 if n < 8 else 30 for n in cpus]
    table = pd.DataFrame({"node_id": list("abcd")[: len(cpus)], "cpus": cpus, "mem_mb": 1000, "weight": weight})
    site = Site(partitions=(Partition(name="p", nodes="ALL", default=True),), select=Select(consume="node"))
    write_site(site, check(table, NODE), tmp_path)
    job = {"job_id": "0", "submit_time": 0, "run_time": 9, "n_tasks": 6, "cpus_per_task": 1}
    schedule = simulate(check(pd.DataFrame([job]), JOB), check(table, NODE), Slurm(site=str(tmp_path))).schedule
    assert schedule["node_ids"].iloc[0] == nodes


def test_the_size_of_a_job_is_of_the_nodes_that_it_asks_for():
    """With --ntasks-per-node alone it is one, as a real Slurm's priorities say, though its tasks need two."""
    rows = [{"n_tasks": 6, "tasks_per_node": 4}, {"n_tasks": 6, "tasks_per_node": 0}]
    table = [{"job_id": str(i), "submit_time": 0, "run_time": 9} | row for i, row in enumerate(rows)]
    site = Site(partitions=(Partition(name="p", nodes="ALL", default=True),), priority=Priority(weight_job_size=1000))
    jobs = lay_out(site, NODES, check(pd.DataFrame(table), JOB)).jobs
    assert jobs.base[0] == jobs.base[1] and jobs.least.tolist() == [2, 1]


def test_whole_nodes_are_not_shared():
    """A job of tasks that takes its nodes whole leaves no room on them."""
    first, second, third = placed({"n_tasks": 9, "exclusive": True}, {"n_tasks": 16, "exclusive": False}, MORE)
    assert first == ("e", "9") and second[0] == "f"
    assert "e" not in third[0].split(",") and "f" not in third[0].split(",")


def test_random_jobs_of_tasks_run_and_hold_what_they_ask_for():
    """Every job that fits the empty system starts, on no more nodes than it may have, and each task is somewhere."""
    rng = np.random.default_rng(2)
    n = 120
    low = rng.choice([1, 1, 2], n)
    jobs = pd.DataFrame(
        {
            "job_id": [str(i) for i in range(n)],
            "submit_time": np.sort(rng.integers(0, 300, n)),
            "run_time": rng.integers(5, 60, n),
            "requested_time": 60,
            "n_tasks": rng.integers(2, 20, n),
            "cpus_per_task": rng.choice([1, 1, 2], n),
            "mem_mb_per_task": rng.choice([0, 500], n),
            "min_nodes": low,
            "max_nodes": np.where(rng.random(n) < 0.5, 0, low + rng.integers(0, 3, n)),
        }
    )
    jobs = check(jobs, JOB)
    site = Site(partitions=(Partition(name="batch", nodes="ALL", default=True),), priority=Priority(type="basic"))
    layout = lay_out(site, NODES, jobs)
    schedule = simulate(jobs, NODES, "slurm").schedule
    assert (schedule["start_time"].isna().to_numpy() == layout.refused).all()
    ran = schedule[schedule["start_time"].notna()]
    assert len(ran) > 80
    counts = ran["node_tasks"].map(lambda text: [int(one) for one in text.split(",")])
    assert (counts.map(sum) == ran["n_tasks"]).all() and counts.map(min).min() >= 1
    assert (counts.map(len) >= ran["min_nodes"]).all()
    assert ((counts.map(len) <= ran["max_nodes"]) | (ran["max_nodes"] == 0)).all()


@pytest.mark.parametrize(
    ("own_cores", "cpus", "n_tasks", "dealt"),
    [("", 1, 5, "5"), ("task", 1, 5, "4,1"), ("task", 3, 2, "2"), ("cpu", 3, 2, "1,1"), ("cpu", 1, 5, "4,1")],
)
def test_tasks_and_cpus_with_cores_of_their_own(tmp_path, own_cores, cpus, n_tasks, dealt):
    """On nodes of four cores of two threads, as a real Slurm dealt them out with ``--ntasks-per-core=1`` and hints."""
    nodes = pd.DataFrame({"node_id": list("abc"), "cpus": 8, "mem_mb": 9000, "threads_per_core": 2})
    write_site(Site(partitions=(Partition(name="p", nodes="ALL", default=True),)), nodes, tmp_path)
    row = {"job_id": "1", "submit_time": 0, "run_time": 10, "n_tasks": n_tasks, "cpus_per_task": cpus}
    more = {"job_id": "2", "submit_time": 20, "run_time": 10, "n_tasks": 9, "cpus_per_task": 1, "own_cores": ""}
    jobs = check(pd.DataFrame([row | {"own_cores": own_cores}, more]), JOB)
    schedule = simulate(jobs, check(nodes, NODE), f"slurm:site={tmp_path}").schedule
    assert schedule["node_tasks"].iloc[0] == dealt


@pytest.mark.parametrize(("bound", "starts"), [(None, [1, 1, 11]), (5, [1, 11, 21]), (6, [1, 1, 11])])
def test_a_job_of_nodes_takes_whole_cores_where_nodes_differ_in_threads(tmp_path, bound, starts):
    """A CPU of each of two nodes is a core of two threads on a and one CPU on b: 3 in all, as a real Slurm counted."""
    nodes = pd.DataFrame({"node_id": ["a", "b"], "cpus": 4, "mem_mb": 9000, "threads_per_core": [2, 1]})
    qos = Qos(name="normal", limits=Limits(grp_tres={} if bound is None else {"cpu": bound}))
    part = Partition(name="p", nodes="ALL", default=True)
    latency = Latency(job_end=0, pass_at_end=0)
    site = Site(partitions=(part,), qos=(qos,), enforce=("limits",), priority=Priority(type="basic"), latency=latency)
    write_site(site, nodes, tmp_path)
    jobs = {"job_id": list("123"), "submit_time": 0, "run_time": 9, "n_nodes": [2, 1, 1], "cpus_per_node": [1, 3, 3]}
    table = check(pd.DataFrame(jobs | {"mem_mb_per_node": 10, "requested_time": 60, "qos": "normal"}), JOB)
    assert simulate(table, check(nodes, NODE), f"slurm:site={tmp_path}").schedule["start_time"].tolist() == starts


@pytest.mark.parametrize(
    ("defaults", "row", "cpus", "mem"),
    [
        ("cpu mem", {"n_tasks": 1, "gpus_per_task": 3}, 6, 9000),
        ("mem", {"n_tasks": 1, "gpus_per_task": 3}, 1, 9000),
        ("cpu", {"n_tasks": 1, "gpus_per_task": 3}, 6, 100),
        ("cpu mem", {"n_tasks": 5, "gpus_per_node": 1, "max_nodes": 1}, 5, 3000),
        ("", {"n_tasks": 1, "gpus_per_task": 1}, 1, 100),
    ],
)
def test_defaults_per_gpu(defaults, row, cpus, mem):
    """DefCpuPerGPU=2 DefMemPerGPU=3000 decide where a job left it open, as a real Slurm allocated."""
    site = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True, def_cpu_per_gpu=2, def_mem_per_gpu_mb=3000),)
    )
    nodes = check(pd.DataFrame({"node_id": ["a"], "cpus": 16, "mem_mb": 64_000, "gpus": 4}), NODE)
    job = {"job_id": "1", "submit_time": 0, "run_time": 10, "cpus_per_task": 1, "mem_mb_per_task": 100}
    found = lay_out(site, nodes, check(pd.DataFrame([job | row | {"gpu_defaults": defaults}]), JOB)).jobs
    assert (found.cpus[0], found.mem[0]) == (cpus, pytest.approx(mem, abs=5))
