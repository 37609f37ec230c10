"""The network: the tree, the allocators, the verifier and hops."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from naive_topology import check_conditions, isolated_can, tiers_can
from policy_cases import few

from procure.errors import TableError
from procure.topology.fabric import (
    allocate_compact,
    allocate_tiers,
    block,
    empty_fabric,
    empty_grant,
    give_back,
    make_links,
    make_search,
    note_links,
)
from procure.topology.fat_tree import FatTree, make_nodes
from procure.topology.isolated import allocate_isolated
from procure.topology.verify import average_hops, hops_of_jobs, ideal_hops, verify

pytestmark = pytest.mark.plain


def test_tree_of_a_shuffled_table():
    """Places count along pods and leaves, whatever the order of the rows."""
    nodes = make_nodes(2, 3, 4)
    shuffled = nodes.sample(frac=1, random_state=3).reset_index(drop=True)
    tree = FatTree.from_nodes(shuffled)
    assert (tree.pods, tree.leaves, tree.nodes, tree.uplinks, tree.spines) == (2, 3, 4, 4, 3)
    in_order = shuffled.loc[tree.rows]
    assert in_order["leaf"].tolist() == (np.arange(24) // 4).tolist()
    assert in_order["pod"].tolist() == (np.arange(24) // 12).tolist()


@pytest.mark.parametrize(
    ("column", "given", "message"),
    [
        ("leaf", [0, 0, 1, None], "row 4, column leaf: the value is missing"),
        ("pod", [0, 0, 0, None], "row 4, column pod: the value is missing"),
        ("pod", [0, 0, 0, 1], "row 4: leaf 1 is in pod 1 here and in pod 0 before"),
        ("uplinks", [2, 2, 0, 0], "row 3: leaf 1 has no uplinks"),
        ("uplinks", [2, 1, 2, 2], "1 uplinks here and 2"),
    ],
)
def test_bad_tree_is_one_error(column, given, message):
    """A node without a place, a leaf in two pods, without uplinks or with two figures for them are refused by name."""
    nodes = make_nodes(1, 2, 2)
    with pytest.raises(TableError, match=message):
        FatTree.from_nodes(nodes.assign(**{column: pd.array(given, dtype="Int64")}))


def test_uneven_tree_has_places_that_count_as_taken():
    """Leaves and pods of any size: what a smaller one lacks is a place without a node, and never idle."""
    nodes = make_nodes(3, 2, 3).drop(index=[1, 9, 10, 11, 17]).reset_index(drop=True)
    tree = FatTree.from_nodes(nodes.assign(uplinks=pd.array([2] * 2 + [None] * (len(nodes) - 2), dtype="Int64")))
    assert (tree.pods, tree.leaves, tree.nodes, tree.uplinks, len(tree), tree.size) == (3, 2, 3, 3, 13, 18)
    assert tree.leaf_ids.tolist() == [0, 1, 2, -1, 4, 5] and tree.n_uplinks.tolist() == [2, 3, 3, 3, 3, 3]
    assert tree.rows.tolist() == [0, 1, -1, 2, 3, 4, 5, 6, 7, -1, -1, -1, 8, 9, 10, 11, 12, -1]
    fabric = empty_fabric(tree.shape)
    assert fabric.leaf_idle.tolist() == [2, 3, 3, 0, 3, 2] and fabric.pod_idle.tolist() == [5, 3, 5]
    assert fabric.uplinks.tolist() == [3, 7, 7, 0, 7, 7] and not tree.is_even and tree.shape.largest_pod == 5


class Tree:
    """A tree with an allocator, to take from and give back to."""

    def __init__(self, kind, tree, bound=1_000_000):
        self.kind, self.shape = kind, tree.shape
        self.fabric, self.grant = empty_fabric(tree.shape), empty_grant(tree.shape)
        self.links = make_links(1_000, 100_000)
        self.search = make_search(tree.shape, bound)
        self.order = np.flatnonzero(tree.rows >= 0)
        self.held: dict[int, np.ndarray] = {}

    def allocate(self, n):
        if self.kind == "any":  # the first idle nodes in the node table's order
            first = np.sort([place for place in self.order if self.fabric.idle[place]][:n])
            self.grant.nodes[: len(first)], self.grant.n[0] = first, len(first)
            return len(first) == n
        if self.kind == "compact":
            return allocate_compact(self.shape, self.fabric, n, self.grant)
        if self.kind == "tiers":
            return allocate_tiers(self.shape, self.fabric, n, self.grant)
        return allocate_isolated(self.shape, self.fabric, self.search, n, self.grant)

    def start(self, job, n):
        if not self.allocate(n):
            return False
        block(self.shape, self.fabric, self.grant, True)
        note_links(self.shape, self.links, self.grant, job)
        self.held[job] = self.grant.nodes[:n].copy()
        return True

    def end(self, job):
        give_back(self.shape, self.fabric, self.links, self.held.pop(job), job)

    def snapshot(self):
        return [array.copy() for array in self.fabric]


KINDS = ["compact", "tiers", "isolated"]


def random_tree(rng, tapered=False, uneven=False):
    pods, leaves, nodes = (int(x) for x in rng.integers(1, 5, 3))
    uplinks = int(rng.integers(1, nodes + 1)) if tapered else 0
    spines = int(rng.integers(1, leaves + 1)) if tapered else 0
    if not uneven:
        return FatTree(pods, leaves, nodes, uplinks, spines)
    table = make_nodes(pods, leaves, nodes)
    kept = np.flatnonzero(rng.random(len(table)) < 0.8)
    table = table.iloc[kept if len(kept) else [0]].reset_index(drop=True)
    most = int(table["leaf"].value_counts().max())
    fewer = {leaf: int(rng.integers(1, most + 1)) for leaf in table["leaf"].unique() if rng.random() < 0.3}
    table = table.assign(uplinks=table["leaf"].map(fewer).astype("Int64"))
    return FatTree.from_nodes(table, uplinks=min(uplinks, most) or most, spines=spines)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tapered", [False, True])
def test_giving_back_undoes_taking(kind, tapered):
    """Whatever is taken and given back, in any order, the tree is what it was; nothing is held twice."""
    rng = np.random.default_rng(5)
    for _ in range(few(40)):
        tree = Tree(kind, random_tree(rng, tapered, uneven=bool(rng.integers(2))))
        size = int(tree.fabric.idle.sum())
        empty = tree.snapshot()
        for job in range(60):
            before = tree.snapshot()
            n = int(rng.integers(1, size + 1))
            free = {name: getattr(tree.fabric, name).copy() for name in ("idle", "uplinks", "spines")}
            if tree.start(job, n):
                grant = tree.grant
                places = tree.held[job]
                assert len(places) == n and (np.diff(places) > 0).all() and free["idle"][places].all()
                assert (grant.uplinks & ~free["uplinks"] == 0).all()
                assert (grant.spines & ~free["spines"] == 0).all()
                if rng.random() < 0.3:
                    tree.end(job)
                    assert all((a == b).all() for a, b in zip(before, tree.snapshot(), strict=True))
            if tree.held and rng.random() < 0.5:
                tree.end(int(rng.choice(list(tree.held))))
            assert tree.fabric.leaf_idle.sum() == tree.fabric.pod_idle.sum() == tree.fabric.idle.sum()
        for job in list(tree.held):
            tree.end(job)
        assert all((a == b).all() for a, b in zip(empty, tree.snapshot(), strict=True))


@pytest.mark.parametrize("kind", ["tiers", "isolated"])
def test_places_whatever_can_be_placed(kind):
    """A job is placed exactly where the slow twin finds a place by the printed rules; isolated links obey them."""
    rng = np.random.default_rng(11)
    twin = {"tiers": tiers_can, "isolated": isolated_can}[kind]
    outcomes = {True: 0, False: 0}
    for _ in range(60):
        tree = Tree(kind, random_tree(rng, uneven=bool(rng.integers(2))))
        size = int(tree.fabric.idle.sum())
        for job in range(40):
            n = int(rng.integers(1, min(size, rng.choice([4, size])) + 1))
            expected = twin(n, tree.fabric, tree.shape)
            assert tree.allocate(n) == expected, (tree.shape, n)
            outcomes[expected] += 1
            if tree.start(job, n) and kind == "isolated":
                check_conditions(tree.grant, tree.shape)
            if tree.held and rng.random() < 0.5:
                tree.end(int(rng.choice(list(tree.held))))
    assert min(outcomes.values()) > 300


@pytest.mark.parametrize("kind", ["tiers", "isolated"])
def test_search_misses_nothing(kind):
    """Whatever is idle and whichever links are free: a size is placed if, and only if, the printed rules allow it."""
    rng = np.random.default_rng(17)
    twin, n_found, n_asked = {"tiers": tiers_can, "isolated": isolated_can}[kind], 0, 0
    for _ in range(150):
        tree = Tree(kind, FatTree(*(int(x) for x in (rng.integers(1, 5), rng.integers(3, 6), rng.integers(2, 6)))))
        shape, fabric = tree.shape, tree.fabric
        free = rng.choice([0.5, 0.8, 0.95])
        fabric.idle[:] = rng.random(fabric.idle.size) < free
        on_leaf = fabric.idle.reshape(-1, shape.nodes).sum(axis=1)
        fabric.leaf_idle[:], fabric.pod_idle[:] = on_leaf, on_leaf.reshape(shape.pods, -1).sum(axis=1)
        for masks, width in ((fabric.uplinks, shape.uplinks), (fabric.spines, shape.spines)):
            bits = rng.random((masks.size, width)) < free
            bits[rng.random(masks.size) < 0.4] = True
            masks[:] = (bits << np.arange(width)).sum(axis=1)
        for n in rng.integers(1, max(2, fabric.idle.sum() + 1), 12).tolist():
            expected = twin(n, fabric, shape)
            assert tree.allocate(n) == expected, (shape, n)
            if expected and kind == "isolated":
                check_conditions(tree.grant, shape)
            n_found, n_asked = n_found + expected, n_asked + 1
    assert 300 < n_found < n_asked - 300


def test_an_empty_tree_holds_every_size():
    """On an empty tree, also a tapered one, every size up to the whole is placed by every allocator."""
    for tree in (FatTree(3, 2, 4), FatTree(2, 3, 4, uplinks=3, spines=2), FatTree(1, 1, 3)):
        for kind in KINDS:
            for n in range(1, len(tree) + 1):
                assert Tree(kind, tree).allocate(n), (kind, n)
            assert not Tree(kind, tree).allocate(len(tree) + 1)


def test_bound_cuts_the_search():
    tree = Tree("isolated", FatTree(2, 4, 4), bound=2)
    assert not tree.allocate(12)


def test_types_change_at_their_boundaries():
    """On Cab, 18 nodes are one leaf, 19 one pod, 324 one pod, 325 two pods; links are held accordingly."""
    for n, leaves, pods in ((18, 1, 1), (19, 2, 1), (324, 18, 1), (325, 19, 2)):
        tree = Tree("tiers", FatTree(4, 18, 18))
        assert tree.allocate(n)
        places = tree.grant.nodes[:n]
        assert len(set(places // 18)) == leaves and len(set(places // 324)) == pods
        assert np.count_nonzero(tree.grant.uplinks) == (leaves if n > 18 else 0)
        assert np.count_nonzero(tree.grant.spines) == (pods * 18 if n > 324 else 0)


def test_tiers_choose_as_published():
    """T1 goes to the fullest pod and leaf, T2 to the fullest pod and its emptiest leaves, T3 to the emptiest pods."""
    tree = Tree("tiers", FatTree(3, 2, 4))
    assert tree.start(0, 3) and tree.held[0].tolist() == [0, 1, 2]  # all equal: the lowest
    assert tree.start(1, 1) and tree.held[1].tolist() == [3]  # the leaf with one node left
    assert tree.start(2, 5) and tree.held[2].tolist() == [8, 12, 13, 14, 15]  # pod 0 has four; the highest leaf first
    assert tree.start(3, 2) and tree.held[3].tolist() == [9, 10]  # pod 1 has three idle nodes, pod 0 four
    assert tree.start(4, 9) and tree.held[4].tolist() == [4, *range(16, 24)]  # pod 2, then pod 0's other leaf
    assert not tree.allocate(9)


def test_compact_takes_the_fewest_switches():
    """The tightest leaf that holds the job; else the tightest pod, its largest leaves first."""
    tree = Tree("compact", FatTree(2, 3, 4))
    assert tree.start(0, 3) and tree.held[0].tolist() == [0, 1, 2]
    assert tree.start(1, 1) and tree.held[1].tolist() == [3]
    assert tree.start(2, 6) and tree.held[2].tolist() == [4, 5, 6, 7, 8, 9]
    assert tree.start(3, 13) and tree.held[3].tolist() == [10, *range(12, 24)]
    assert not tree.allocate(2)
    tree = Tree("compact", FatTree(2, 2, 4))  # one leaf is better than two of a pod with fewer idle nodes
    tree.fabric.idle[[0, 1, 4, 5]] = 0
    tree.fabric.leaf_idle[:2], tree.fabric.pod_idle[0] = 2, 4
    assert tree.allocate(4) and tree.grant.nodes[:4].tolist() == [8, 9, 10, 11]
    assert tree.allocate(2) and tree.grant.nodes[:2].tolist() == [2, 3]


def schedule_of(jobs, width=1):
    """A schedule of jobs that all run from 0 to 10: name → nodes counted from 1, as in the paper's figures."""
    return pd.DataFrame(
        {
            "job_id": list(jobs),
            "submit_time": 0,
            "start_time": 0,
            "end_time": 10,
            "n_nodes": [len(nodes) for nodes in jobs.values()],
            "node_ids": [",".join(f"n{i:0{width}d}" for i in nodes) for nodes in jobs.values()],
        }
    )


FIGURE_3 = {"red": [1, 2], "yellow": [9], "brown": [4, 5, 6, 7, 8], "blue": [3, *range(10, 19)]}
FIGURE_4 = FIGURE_3 | {"red": [1, 7], "brown": [2, 4, 5, 6, 8]}


def test_verifier_on_the_papers_figures():
    """Figure 3 shares no link; with nodes 2 and 7 exchanged, red meets brown and blue in pod 1."""
    nodes = make_nodes(2, 3, 3)
    assert verify(schedule_of(FIGURE_3, 2), nodes).isolated
    verdict = verify(schedule_of(FIGURE_4, 2), nodes)
    assert not verdict.isolated and verdict.n_shared_links > 0
    meetings = {frozenset(conflict["jobs"]) for conflict in verdict.first_conflicts}
    assert {frozenset(("red", "brown")), frozenset(("red", "blue"))} <= meetings
    assert not any("yellow" in meeting for meeting in meetings)
    assert all("pod" not in conflict["where"] for conflict in verdict.first_conflicts)


def test_verifier_sees_times_nodes_paths_and_grants():
    """Jobs one after the other share nothing; a node held twice, missing paths and links held twice are found."""
    nodes = make_nodes(2, 2, 2)
    both = schedule_of({"a": [1, 3], "b": [2, 4]})
    assert verify(both, nodes).n_shared_links == 4
    after = both.assign(start_time=[0, 10], end_time=[10, 20])
    assert verify(after, nodes).isolated
    assert verify(both.assign(links=["L0=1 L1=1", "L0=2 L1=2"]), nodes).isolated
    shared = verify(both.assign(links=["L0=1 L1=1", "L0=3 L1=2"]), nodes)
    assert shared.n_shared_links == 1 and shared.first_conflicts[0]["where"] == "leaf 0: uplinks 0"
    assert verify(both.assign(links=["L0=1 L1=2", "L0=2 L1=1"]), nodes).n_unrouted == 4
    far = schedule_of({"a": [1, 5]})
    assert verify(far.assign(links=["L0=1 L2=1 P0.0=1 P1.0=1"]), nodes).isolated
    assert verify(far.assign(links=["L0=1 L2=1 P0.0=1 P1.0=2"]), nodes).n_unrouted == 2
    assert verify(schedule_of({"a": [1], "b": [1]}), nodes).n_shared_nodes == 1


def test_verifier_sees_spines():
    """Two jobs on leaves of their own that hold one link to a spine share it, whether granted or not."""
    nodes = make_nodes(2, 2, 2)
    both = schedule_of({"a": [1, 5], "b": [3, 7]})
    granted = both.assign(links=["L0=1 L2=1 P0.0=1 P1.0=1", "L1=1 L3=1 P0.0=3 P1.0=1"])
    shared = verify(granted, nodes)
    assert shared.n_shared_links == 2 and not shared.isolated
    assert [each["where"] for each in shared.first_conflicts] == [
        f"pod {pod}, second-level switch 0: uplinks 0" for pod in (0, 1)
    ]
    assert verify(granted.assign(links=["L0=1 L2=1 P0.0=1 P1.0=1", "L1=1 L3=1 P0.0=2 P1.0=2"]), nodes).isolated
    assert verify(both, nodes).n_shared_links == 8  # all spine links of both pods, no uplink


def test_verifier_knows_which_links_there_are():
    """Links that the tree does not have are no isolation; the table or an argument says how many there are."""
    nodes = make_nodes(2, 2, 6)
    both = schedule_of({"a": [1, 7], "b": [2, 8]}, 2).assign(links=["L0=40 L1=40", "L0=80 L1=80"])
    found = verify(both, nodes)
    assert found.n_unknown_links == 4 and found.n_shared_links == 0 and not found.isolated
    assert found.first_conflicts[0]["where"] == "leaf 0: uplinks 6, which the tree does not have"
    assert verify(both, nodes, uplinks=8).isolated
    few_links = nodes.assign(uplinks=[5] * 6 + [6] * 18)
    third = both.assign(links=["L0=20 L1=20", "L0=10 L1=10"])
    assert verify(third, nodes).isolated and verify(third, few_links).n_unknown_links == 1
    far = schedule_of({"a": [1, 13]}, 2)
    for words, n in (("P0.0=4 P1.0=4", 2), ("P0.6=1 P1.6=1 L0=40 L2=40", 4), ("P9.0=1", 1), ("L9=1", 1)):
        assert verify(far.assign(links=f"L0=1 L2=1 P0.0=1 P1.0=1 {words}"), nodes).n_unknown_links == n, words


def test_verifier_says_how_long_links_were_shared():
    """Of three jobs over links, two share them for half of their time; a job on one leaf is not counted."""
    jobs = schedule_of({"a": [1, 3], "b": [2, 4], "c": [5, 7], "d": [6]})
    found = verify(jobs.assign(start_time=[0, 5, 0, 0], end_time=[10, 15, 10, 10]), make_nodes(2, 2, 2))
    assert (found.n_allocations, found.n_over_links, found.n_sharing) == (4, 3, 2)
    assert found.shared_time == pytest.approx(10 / 30)


def test_verifier_refuses_what_it_cannot_read():
    """A node that is not in the table, and links that are no masks, are one error each."""
    nodes = make_nodes(1, 2, 2)
    with pytest.raises(TableError, match="job a ran on node n5, which is not in the node table"):
        verify(schedule_of({"a": [5]}), nodes)
    with pytest.raises(TableError, match="job a has 'L0' among its links"):
        verify(schedule_of({"a": [1, 2]}).assign(links="L0"), nodes)
    with pytest.raises(TableError, match="column node_ids is missing"):
        verify(schedule_of({"a": [1]}).drop(columns="node_ids"), nodes)


@pytest.mark.parametrize(("kind", "tapered"), [("tiers", False), ("isolated", False), ("isolated", True)])
def test_allocations_share_no_link(kind, tapered):
    """The verifier finds no link held twice over thousands of allocations on random trees; `benchmarks/` has more."""
    rng = np.random.default_rng(23)
    n_allocations = 0
    while n_allocations < 3000:
        tree = random_tree(rng, tapered, uneven=bool(rng.integers(2)))
        schedule, n_started = random_schedule(kind, tree, rng, 300)
        n_allocations += n_started
        nodes = make_nodes(tree.pods, tree.leaves, tree.nodes)
        nodes = nodes.assign(uplinks=np.repeat(tree.n_uplinks, tree.nodes))
        verdict = verify(schedule, nodes, spines=tree.spines)
        assert verdict.isolated, verdict.first_conflicts[:3]


def random_schedule(kind, tree, rng, n_jobs):
    """Start and end random jobs; time is the number of the step."""
    live = Tree(kind, tree)
    size, rows, started = len(tree), {}, 0
    width = len(str(tree.size))
    for job in range(n_jobs):
        if live.start(job, int(rng.integers(1, max(2, int(size * rng.choice([0.1, 0.4, 1.0])))))):
            started += 1
            words = [f"L{leaf}={int(m):x}" for leaf, m in enumerate(live.grant.uplinks) if m]
            words += [
                f"P{s // tree.uplinks}.{s % tree.uplinks}={int(m):x}" for s, m in enumerate(live.grant.spines) if m
            ]
            names = ",".join(f"n{i + 1:0{width}d}" for i in live.held[job])
            rows[job] = [str(job), job, n_jobs, names, " ".join(words)]
        while live.held and rng.random() < 0.5:
            ended = int(rng.choice(list(live.held)))
            live.end(ended)
            rows[ended][2] = job + 1
    columns = ["job_id", "start_time", "end_time", "node_ids", "links"]
    return pd.DataFrame(list(rows.values()), columns=columns), started


def test_hops():
    """APH of two leaves, two pods and one node; the ideal of 324 nodes on Cab is 1.895."""
    assert average_hops(np.array([0, 0]), np.array([0, 0])) == 0
    assert average_hops(np.array([0, 1]), np.array([0, 0])) == 2
    assert average_hops(np.array([0, 1, 2]), np.array([0, 0, 1])) == pytest.approx((2 + 4 + 4) / 3)
    assert average_hops(np.array([0]), np.array([0])) == 0
    assert round(ideal_hops(324, FatTree(4, 18, 18)), 3) == 1.895
    schedule = schedule_of({"a": [1, 3], "b": [2, 5], "c": [4]})
    hops = hops_of_jobs(schedule.assign(node_ids=schedule["node_ids"].str.replace("n0", "n")), make_nodes(2, 2, 2))
    assert hops["aph"].tolist() == [2, 4, 0] and hops["ideal_aph"].tolist() == [0, 0, 0]


def test_ideal_hops_of_an_uneven_tree():
    """No placement has fewer hops than the ideal one, by trying all of one, two and three nodes of a small tree."""
    nodes = make_nodes(2, 3, 3).drop(index=[0, 1, 4, 5, 9, 12]).reset_index(drop=True)
    tree, (leaf, pod) = FatTree.from_nodes(nodes), nodes[["leaf", "pod"]].to_numpy(np.int64).T
    for n in range(1, 8):
        tried = [average_hops(leaf[[*rows]], pod[[*rows]]) for rows in combinations(range(len(nodes)), n)]
        assert ideal_hops(n, tree) == pytest.approx(min(tried)), n
