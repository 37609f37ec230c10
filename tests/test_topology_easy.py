"""EASY on the allocators: published order of starts, the slow twin, isolation of whole schedules, errors."""

from __future__ import annotations

import numpy as np
import pytest
from naive_topology import SlowEasy
from policy_cases import few, job_table, node_table, queueing_jobs
from test_topology import Tree

from procure.errors import TableError
from procure.run import simulate
from procure.topology.fabric import Fabric, empty_grant
from procure.topology.fat_tree import FatTree, make_nodes
from procure.topology.verify import verify

pytestmark = pytest.mark.plain
ALLOCATORS = ("any", "compact", "tiers", "isolated")
ORDER_OF_STARTS = job_table(
    job_id=["1", "2", "3", "4"], submit_time=[1, 1, 1, 1], n_nodes=[33, 33, 30, 1],
    run_time=[360, 360, 57_600, 60], requested_time=[600, 600, 57_600, 60],
)  # fmt: skip


@pytest.mark.parametrize("policy", ["tiers", "tiers:hold_reserved_links=true"])
def test_published_order_of_starts(policy):
    """The published program's own case, 3 pods × 4 leaves × 8 nodes: jobs start in the order 1, 3, 4, 2."""
    schedule = simulate(ORDER_OF_STARTS, make_nodes(3, 4, 8), policy).schedule
    assert schedule["start_time"].tolist() == [1, 361, 1, 1]
    assert schedule["links"].str.len().gt(0).tolist() == [True, True, True, False]


def test_other_allocators_start_all_at_once():
    """Where no pod belongs to one large job, all four jobs fit; the verifier finds shared links only where allowed."""
    nodes = make_nodes(3, 4, 8)
    for policy, shares in (("any", True), ("compact", True), ("isolated", False)):
        schedule = simulate(ORDER_OF_STARTS, nodes, policy).schedule
        assert schedule["start_time"].tolist() == [1, 1, 1, 361]
        assert verify(schedule, nodes).isolated != shares


def random_case(rng, n_jobs=40, uneven=False):
    """A tree with shuffled rows and a workload that queues."""
    pods, leaves, per_leaf = (int(x) for x in rng.integers(1, 4, 3))
    nodes = make_nodes(pods, leaves, per_leaf).sample(frac=1, random_state=int(rng.integers(99)))
    if uneven and len(nodes) > 2:
        nodes = nodes.iloc[: -1 - int(rng.integers(len(nodes) // 3 + 1))]
    return queueing_jobs(rng, len(nodes), n_jobs), nodes.reset_index(drop=True)


def twin(jobs, nodes, allocator, queue_depth, hold):
    """The slow twin on the same allocator; its tree is three sets: idle places, free uplinks, free spine links."""
    tree = FatTree.from_nodes(nodes)
    shape, live = tree.shape, Tree(allocator, tree)
    real = np.flatnonzero(tree.rows >= 0)
    order = np.empty(len(tree), np.int64)
    order[tree.rows[real]] = real

    def as_fabric(sets):
        idle = np.array([place in sets[0] for place in range(tree.size)], np.int64)
        leaf = idle.reshape(-1, shape.nodes).sum(axis=1)
        masks = [np.zeros(shape.pods * size, np.int64) for size in (shape.leaves, shape.uplinks)]
        for mask, links in zip(masks, sets[1:], strict=True):
            for switch, link in links:
                mask[switch] |= 1 << link
        return Fabric(idle, leaf, leaf.reshape(-1, shape.leaves).sum(axis=1), *masks)

    def allocate(sets, n):
        live.fabric, live.grant, live.order = as_fabric(sets), empty_grant(shape), order
        if not live.allocate(n):
            return None
        links = [
            {(s, i) for s, mask in enumerate(masks) for i in range(62) if int(mask) >> i & 1}
            for masks in (live.grant.uplinks, live.grant.spines)
        ]
        return set(live.grant.nodes[:n].tolist()), *links

    def take(sets, held):
        for own, other in zip(sets, held, strict=True):
            own -= other

    def give(sets, held):
        for own, other in zip(sets, held, strict=True):
            own |= other

    def links(n, size, leaves=False):
        return {(s, i) for s in range(n) for i in range(size) if not leaves or shape.leaf_links[s] >> i & 1}

    everything = (
        set(real.tolist()),
        links(shape.pods * shape.leaves, shape.uplinks, True),
        links(shape.pods * shape.uplinks, shape.spines),
    )
    counts = allocator in ("any", "compact")
    slow = SlowEasy(
        allocate, take, give, lambda sets: tuple(set(s) for s in sets), everything, queue_depth, counts, hold
    )
    rows = [
        {"submit": s, "run": min(r, q), "limit": q, "n": n}
        for s, r, q, n in jobs[["submit_time", "run_time", "requested_time", "n_nodes"]].to_numpy().tolist()
    ]
    start, places = slow.run(rows)
    names = nodes["node_id"].to_numpy()[tree.rows]
    return [start[j] for j in range(len(rows))], [set(names[list(places[j][0])]) for j in range(len(rows))]


@pytest.mark.parametrize(
    ("allocator", "hold"), [*((each, False) for each in ALLOCATORS), ("tiers", True), ("isolated", True)]
)
def test_compiled_equals_slow_twin(allocator, hold):
    """Starts and nodes are those of the slow twin, also with a short queue depth and on uneven trees."""
    rng = np.random.default_rng(7)
    for case in range(few(25)):
        jobs, nodes = random_case(rng, uneven=case % 2 and allocator != "isolated")
        queue_depth = int(rng.choice([2, 5, 128]))
        held = ",hold_reserved_links=true" if hold else ""
        schedule = simulate(jobs, nodes, f"{allocator}:queue_depth={queue_depth}{held}").schedule
        start, names = twin(jobs, nodes, allocator, queue_depth, hold)
        assert schedule["start_time"].tolist() == start
        assert [set(text.split(",")) for text in schedule["node_ids"]] == names


def test_without_isolation_it_is_easy():
    """Any idle nodes, and the fewest switches, start every job when EASY on whole nodes does."""
    rng = np.random.default_rng(3)
    for _ in range(few(20)):
        jobs, nodes = random_case(rng)
        easy = simulate(jobs, nodes, "easy:exclusive=true").schedule["start_time"]
        for policy in ("any", "compact"):
            found = simulate(jobs, nodes, f"{policy}:queue_depth=1000").schedule["start_time"]
            assert found.tolist() == easy.tolist()


def test_too_large_jobs_are_set_aside():
    """A job larger than the tree is unrunnable and counted; the others run."""
    jobs = job_table(submit_time=[0, 0, 0], n_nodes=[2, 9, 8], run_time=[5, 5, 5], requested_time=[5, 5, 5])
    run = simulate(jobs, make_nodes(2, 2, 2), "isolated")
    assert run.metrics["n_unrunnable"] == 1
    assert run.schedule["start_time"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize(
    "policy", ["any", "compact", "closest", "tiers", "isolated", "window", "isolated:uplinks=2,spines=1"]
)
def test_uneven_trees_run_every_job(policy):
    """On leaves and pods of any size every job that the nodes hold runs, and isolating policies share no link."""
    rng = np.random.default_rng(29)
    for _ in range(few(12)):
        jobs, nodes = random_case(rng, uneven=True)
        schedule = simulate(jobs[jobs["n_nodes"] <= len(nodes)], nodes, policy).schedule
        assert schedule["start_time"].notna().all()
        if policy.startswith(("tiers", "isolated")):
            links = {"uplinks": 2, "spines": 1} if "uplinks" in policy else {}
            verdict = verify(schedule, nodes, **links)
            assert verdict.isolated, verdict.first_conflicts[:3]


def test_fewer_links_on_some_leaves():
    """The node table's links hold in a run: with one uplink on three of four leaves, the second of two jobs waits."""
    jobs = job_table(submit_time=[0, 0], n_nodes=[3, 3], run_time=[5, 5], requested_time=[5, 5])
    starts = {}
    for n in (2, 1):
        nodes = make_nodes(1, 4, 2).assign(uplinks=[2, 2, *[n] * 6])
        schedule = simulate(jobs, nodes, "isolated").schedule
        starts[n] = schedule["start_time"].tolist()
        assert verify(schedule, nodes).isolated
    assert starts == {2: [0, 0], 1: [0, 5]}


def test_trees_and_nodes_that_cannot_be_used_are_refused():
    """No tree, and nodes that hold only some of the jobs are one error each."""
    jobs = job_table(submit_time=[0, 0], run_time=[1, 1], cpus_per_node=[1, 4])
    with pytest.raises(TableError, match="row 1, column leaf: the value is missing"):
        simulate(jobs, node_table(2, cpus=4), "tiers")
    with pytest.raises(TableError, match="asks for 4 CPUs, 0 MB and 0 GPUs per node fits 1 of 4 nodes"):
        simulate(jobs, make_nodes(2, 1, 2).assign(cpus=[1, 1, 4, 1]), "isolated")
    with pytest.raises(TableError, match=r"63.*at most 62"):
        simulate(jobs, make_nodes(1, 1, 2, cpus=4), "isolated:uplinks=63")
