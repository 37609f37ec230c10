"""The policies `window` and `closest`: published figures, slow twins, waits that do not depend on the method."""

from __future__ import annotations

import naive_window
import numpy as np
import pandas as pd
import pytest
from hop_costs import cost_of_jobs
from naive_tasks import Sim, easy
from policy_cases import as_dicts, job_table
from window_published import published_queue

from procure.run import simulate
from procure.schemas import JOB
from procure.tables import check
from procure.topology.fat_tree import FatTree, make_nodes
from procure.window.policies import Windows
from procure.window.problem import Window
from procure.window.solve import solve

pytestmark = pytest.mark.plain

FCFS = [
    *((35077, 93), (35382, 207), (35509, 195), (35123, 36), (32324, 100)),
    *((35506, 399), (36387, 71), (33129, 4), (34388, 251), (36199, 298)),
]
BF = [
    *((35077, 93), (35354, 204), (35432, 195), (34904, 35), (32619, 97)),
    *((35415, 394), (36387, 71), (33129, 4), (34359, 250), (36249, 290)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("backfill", "published"), [(False, FCFS), (True, BF)], ids=["fcfs", "bf"])
def test_published_costs_and_waits(shared_data, backfill, published):
    """The ten published (cost, wait) pairs come out to the digit, and every job starts when under our own policy."""
    path = shared_data("synthetic/data_large_1800_40.txt.xz")
    jobs = pd.read_csv(path, sep=r"\s+", names=["job_id", "submit_time", "run_time", "n_nodes"], dtype={"job_id": str})
    jobs = check(jobs.assign(requested_time=jobs["run_time"], cpus_per_node=1), JOB)
    jobs = jobs.sort_values("submit_time", kind="stable", ignore_index=True)
    nodes = make_nodes(25, 4, 10)
    found = []
    for epoch in range(10):
        part = jobs.iloc[300 * epoch : 300 * (epoch + 1)]
        schedule = simulate(part, nodes, published_queue(backfill), parameters={"exclusive": 1}).schedule
        waited = (schedule["start_time"] - schedule["submit_time"]).sum()
        found.append((int(cost_of_jobs(schedule, nodes).sum()) // 300, int(waited) // 300))
        ours = simulate(part, nodes, "easy-by-time" if backfill else "fcfs", parameters={"exclusive": True})
        assert ours.schedule["start_time"].tolist() == schedule["start_time"].tolist()
    assert found == published


def random_jobs(rng, n_nodes, n_jobs=25):
    run = rng.choice([0, 1, 3, 7, 20], n_jobs)
    submit = np.sort(rng.integers(0, 60, n_jobs))
    sizes = np.minimum(rng.integers(1, n_nodes + 1, n_jobs), rng.integers(1, n_nodes + 1, n_jobs))
    return job_table(
        submit_time=submit - submit[0],
        run_time=run,
        requested_time=np.maximum(run + rng.choice([0, 0, 2, 9], n_jobs), 1),
        n_nodes=sizes,
    )


@pytest.mark.parametrize("method", ["seq", "greedy", "exact", "lns", "sa", "sa-published"])
def test_windows_equal_their_slow_twin(method):
    """Starts and nodes are those of a clock that goes second by second, with solve times and shuffled tables."""
    rng = np.random.default_rng(5)
    for case in range(12):
        tree = FatTree(*(int(x) for x in rng.integers(1, 4, 3)))
        nodes = make_nodes(tree.pods, tree.leaves, tree.nodes).sample(frac=1, random_state=case)
        nodes = nodes.reset_index(drop=True)
        names = nodes["node_id"].iloc[FatTree.from_nodes(nodes).rows].to_list()
        jobs = random_jobs(rng, len(tree))
        length, most, seed = int(rng.integers(1, 9)), int(rng.integers(1, 6)), int(rng.integers(99))
        fixed = int(rng.integers(0, 4)) if case % 2 else 0

        def place(idle, sizes, number, tree=tree, seed=seed):
            window = Window(tree, idle, tuple(map(str, range(len(sizes)))), sizes)
            return [own.tolist() for own in solve(window, method, seed=seed + number, steps=5).places]

        rows = jobs[["submit_time", "run_time", "n_nodes"]].to_numpy().tolist()
        start, places = naive_window.slow_windows(rows, len(tree), length, most, place, lambda n, fixed=fixed: fixed)
        parameters = Windows(
            method=method, length=length, most_jobs=most, seed=seed, steps=5,
            solve_time=fixed,
        )  # fmt: skip
        schedule = simulate(jobs, nodes, parameters).schedule
        assert schedule["start_time"].tolist() == start
        found = [sorted(map(names.index, text.split(","))) for text in schedule["node_ids"]]
        assert found == places


@pytest.mark.parametrize("queue", ["easy", "fcfs"])
def test_closest_starts_jobs_when_the_queue_does(queue):
    """Jobs start when they do under the same queue on any whole nodes; each takes the best start that there was."""
    rng = np.random.default_rng(11)
    for case in range(15):
        tree = FatTree(*(int(x) for x in rng.integers(1, 4, 3)))
        nodes = make_nodes(tree.pods, tree.leaves, tree.nodes)
        jobs = random_jobs(rng, len(tree))
        schedule = simulate(jobs, nodes, f"closest:queue={queue}").schedule
        plain = simulate(jobs, nodes, queue, parameters={"exclusive": True}).schedule
        assert schedule["start_time"].tolist() == plain["start_time"].tolist(), case
        if queue == "fcfs":  # starts are in the table's order, so that what was idle is known
            held = []
            for job in schedule[["start_time", "end_time", "node_ids", "n_nodes"]].itertuples(index=False):
                busy = {place for end, own in held if end > job.start_time for place in own}
                free = [place for place in range(len(tree)) if place not in busy]
                own = sorted(int(name[1:]) - 1 for name in job.node_ids.split(","))
                assert own == sorted(naive_window.best_places(free, job.n_nodes, tree))
                held.append((job.end_time, own))


@pytest.mark.slow
def test_closest_equals_its_slow_twin():
    """With backfilling too, jobs start when EASY's slow twin says, each at its best start along the idle nodes."""
    rng = np.random.default_rng(12)
    for case in range(40):
        tree = FatTree(*(int(x) for x in rng.integers(1, 4, 3)))
        nodes = make_nodes(tree.pods, tree.leaves, tree.nodes)
        jobs = random_jobs(rng, len(tree))
        kill = bool(case % 2)
        rows, servers = as_dicts(jobs, nodes.assign(gpu_type=""), kill)
        sim = Sim([row | {"cpus": servers[0]["cpus"]} for row in rows], servers, pool=True)
        queue = easy()

        def decide(sim, tree=tree, queue=queue):
            found = queue(sim)
            if found is None:
                return None
            idle = [n for n, free in enumerate(sim.free()) if free["cpus"] > 0]
            return found[0], dict.fromkeys(naive_window.best_places(idle, len(found[1]), tree), 1)

        start, where = sim.simulate(decide)
        schedule = simulate(jobs, nodes, "closest", kill_at_limit=kill).schedule
        assert schedule["start_time"].tolist() == start, case
        own = [sorted(int(name[1:]) - 1 for name in text.split(",")) for text in schedule["node_ids"]]
        assert own == [sorted(places) for places in where], case


def test_a_window_by_hand():
    """Windows of 10 s, 8 nodes: the longest waiting first, then the smallest; at most two, and those of one node."""
    jobs = job_table(
        submit_time=[0, 1, 2, 3, 11], run_time=[100, 100, 5, 100, 5], requested_time=[100, 100, 5, 100, 5],
        n_nodes=[3, 2, 1, 2, 2],
    )  # fmt: skip
    schedule = simulate(jobs, make_nodes(2, 2, 2), "window:length=10,most_jobs=2,method=seq").schedule
    # At 10 s: the two of 2 nodes and the one of 1; at 20 s the one of 3 comes before the one of 2 that fits, too.
    assert schedule["start_time"].tolist() == [20, 10, 10, 10, 110]
    assert schedule["node_ids"].tolist() == ["n5,n6,n7", "n1,n2", "n5", "n3,n4", "n1,n2"]
