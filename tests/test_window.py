"""Windows: costs, the static and the dynamic model, every method against its slow twin or the optimum."""

from itertools import pairwise

import naive_window
import numpy as np
import pandas as pd
import pytest
from hop_costs import cost_of_jobs
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_tasks import Sim, easy
from partition_mip import optimum
from policy_cases import as_dicts, few, job_table, queueing_jobs
from window_published import published_queue

from procure.errors import ArgumentError, TableError
from procure.run import simulate
from procure.schemas import JOB
from procure.tables import check
from procure.topology.fat_tree import FatTree, make_nodes
from procure.window.policies import Windows
from procure.window.problem import PROFILES, Window, hop_cost, line_up, make_board
from procure.window.solve import COMPILED, FEATURES, POSITIONS, Network, observe, read_network, solve, write_network
from procure.window.train import make_room, train_network
from procure.workload.studies import generate_jobs

pytestmark = pytest.mark.plain

STUDY = FatTree(25, 4, 10)
QUICK = settings(max_examples=few(60), deadline=None)


def random_window(seed: int, *, n_jobs: int = 3, most_size: int = 6, n_idle: int = 14, tree=None) -> Window:
    rng = np.random.default_rng(seed)
    tree = tree or FatTree(*(int(x) for x in rng.integers(2, 4, 2)), 4)
    idle, sizes = naive_window.as_windows(rng, tree, n_jobs, most_size, min(n_idle, len(tree)))
    return Window(tree, idle, tuple(f"j{i}" for i in range(len(sizes))), sizes)


@pytest.mark.parametrize("profile", PROFILES)
@QUICK
@given(seed=st.integers(0, 10**6))
def test_cost_from_counts_is_that_of_the_pairs(profile, seed):
    """The fast form from leaf and pod counts gives what the printed formula gives pair by pair."""
    window = random_window(seed, n_jobs=1, most_size=12)
    places = window.idle[: int(window.sizes[0])]
    assert window.cost(places, profile) == naive_window.cost(places.tolist(), window.tree, profile)


def test_costs_by_hand():
    """Four nodes, two on each of two leaves of one pod; one node alone; two nodes of different pods."""
    leaf, pod = np.array([0, 0, 1, 1]), np.zeros(4, int)
    assert hop_cost(leaf, pod, "code") == 1000 * (2 * 1 + 4 * 3) // 4 == 3500
    assert hop_cost(leaf, pod, "paper") == 2 * 1000 * (2 * 2 + 4 * 4) / 4 == 10_000
    assert hop_cost(leaf[:1], pod[:1], "code") == 1
    assert hop_cost(leaf[:1], pod[:1], "paper") == 0
    assert hop_cost(np.array([0, 9]), np.array([0, 3]), "code") == 2500
    assert hop_cost(np.array([0, 0, 1]), np.zeros(3, int), "code") == 2333  # rounded down
    with pytest.raises(ArgumentError, match="'codes' is not known"):
        hop_cost(leaf, pod, "codes")


def test_the_static_model_by_hand():
    """In the paper's figure, job 1 holds nodes 5–8 of 1–10; job 2 then has 3 starts."""
    window = Window(FatTree(2, 2, 4), np.arange(10), ("1", "2"), [4, 4])
    tried = (naive_window.static_places(window, [4, start]) for start in range(10))
    assert {tuple(sorted(found[1].tolist())) for found in tried if found} == {(0, 1, 2, 3), (0, 1, 8, 9), (0, 1, 2, 9)}


@QUICK
@given(seed=st.integers(0, 10**6), method=st.sampled_from(COMPILED))
def test_every_method_gives_each_job_its_nodes(seed, method):
    """Each job gets as many idle nodes as it asks for, nobody else's; the same seed gives the same places."""
    window = random_window(seed, n_jobs=6, n_idle=22, tree=FatTree(3, 2, 5))
    found = solve(window, method, seed=seed, steps=40)
    held = np.concatenate(found.places)
    assert [len(each) for each in found.places] == window.sizes.tolist()
    assert len(np.unique(held)) == len(held) and np.isin(held, window.idle).all()
    assert found.cost_code == naive_window.total(map(np.ndarray.tolist, found.places), window.tree)
    again = solve(window, method, seed=seed, steps=40)
    assert all((a == b).all() for a, b in zip(found.places, again.places, strict=True))
    assert found.optimal == (method == "exact")


@QUICK
@given(seed=st.integers(0, 10**6))
def test_annealing_and_search_equal_their_twins(seed):
    """Greedy, both annealings and the search place every job exactly where their slow twins do."""
    window = random_window(seed, n_jobs=4, n_idle=20, most_size=7, tree=FatTree(3, 2, 5))
    twins = {
        "greedy": naive_window.slow_greedy(window),
        "sa": naive_window.slow_sa(window, 15, 2500.0, True, seed),
        "sa-published": naive_window.slow_sa(window, 15, 25_000.0, False, seed),
    }
    exact, greedy = solve(window, "exact"), solve(window, "greedy")
    begin = exact if exact.cost_code < greedy.cost_code else greedy
    twins["lns"] = naive_window.slow_lns(window, [each.tolist() for each in begin.places], 10, seed)
    for method, places in twins.items():
        found = solve(window, method, seed=seed, steps=10 if method == "lns" else 15)
        assert [sorted(each.tolist()) for each in found.places] == [sorted(each) for each in places], method


def test_exact_is_the_optimum_of_tight_lines():
    """Hardly an idle node more than asked for, where a wrap pays: what trying every start costs, for every wrap."""
    rng = np.random.default_rng(4)
    for case in range(60):
        sizes = rng.integers(1, 5, int(rng.integers(1, 4)))
        tree = FatTree(*(int(x) for x in rng.integers(1, 5, 2)), 3)
        n = min(int(sizes.sum()) + case % 3, len(tree))
        sizes = sizes[np.cumsum(sizes) <= n]
        idle = np.sort(rng.choice(len(tree), n, replace=False))
        if len(sizes):
            window = Window(tree, idle, tuple(map(str, range(len(sizes)))), sizes)
            assert solve(window, "exact").cost_code == naive_window.static_optimum(window), window


def test_compact_is_the_rule_of_the_tree_plugin():
    """Jobs in list order take the tightest leaf that holds them, on idle nodes that nobody took."""
    window = Window(FatTree(2, 2, 4), np.array([0, 1, 4, 5, 6, 8, 9, 10, 11]), ("a", "b", "c"), [2, 3, 4])
    found = solve(window, "compact")
    assert [sorted(each.tolist()) for each in found.places] == [[0, 1], [4, 5, 6], [8, 9, 10, 11]]


@pytest.mark.parametrize("n", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_dynamic_program_is_the_set_partition(n):
    """On random cyclic instances the dynamic program costs what the set-partition MIP proves optimal."""
    for seed in range(n):
        window = random_window(10_000 + seed, n_jobs=5, most_size=12, n_idle=45, tree=FatTree(4, 3, 5))
        assert optimum(window) == solve(window, "exact").cost_code


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": [0, 1]}, "at least 1"),
        ({"sizes": [5, 1]}, "ask for 6 nodes in all, idle are 4"),
        ({"ids": ("a", "a")}, "named twice"),
        ({"idle": [1, 2, 3, 16]}, "idle node 16 is not in the tree"),
        ({"idle": [3, 3, 1, 2]}, "named twice"),
    ],
)
def test_what_is_no_window(change, message):
    good = {"tree": FatTree(2, 2, 4), "idle": [9, 1, 2, 3], "ids": ("a", "7"), "sizes": [2, 1]}
    assert Window(**good).idle.tolist() == [1, 2, 3, 9]
    with pytest.raises(TableError, match=message):
        Window(**good | change)


def test_refusals():
    """An unknown method, a network that is not named, a bad seed: one error each."""
    window = random_window(1)
    for arguments, message in (
        ({"method": "lsn"}, "'lsn' is not known.*lns"),
        ({"method": "neural"}, "needs a trained network"),
        ({"seed": -1}, "seed is -1"),
        ({"method": "mip"}, "removed"),
    ):
        with pytest.raises(ArgumentError, match=message):
            solve(window, **arguments)
    many = Window(STUDY, np.arange(215), tuple(map(str, range(20))), np.arange(1, 21))
    with pytest.raises(ArgumentError, match="use lns"):
        solve(many, "exact")


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


@pytest.mark.parametrize("method", ["seq", "greedy", "exact", "lns", "sa", "sa-published"])
def test_windows_equal_their_slow_twin(method):
    """Starts and nodes are those of a clock that goes second by second, with solve times and shuffled tables."""
    rng = np.random.default_rng(5)
    for case in range(12):
        tree = FatTree(*(int(x) for x in rng.integers(1, 4, 3)))
        nodes = make_nodes(tree.pods, tree.leaves, tree.nodes).sample(frac=1, random_state=case)
        nodes = nodes.reset_index(drop=True)
        names = nodes["node_id"].iloc[FatTree.from_nodes(nodes).rows].to_list()
        jobs = queueing_jobs(rng, len(tree), 25)
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
        jobs = queueing_jobs(rng, len(tree), 25)
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
        jobs = queueing_jobs(rng, len(tree), 25)
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


TREE = FatTree(3, 2, 10)
WINDOW = Window(TREE, np.arange(5, 50), ("a", "b", "c"), [12, 4, 9])


def random_network(seed: int = 1, n_in: int = POSITIONS * FEATURES) -> Network:
    rng = np.random.default_rng(seed)
    sizes = (n_in, 16, POSITIONS)
    weights = tuple(
        (rng.normal(0, 0.1, (a, b)).astype(np.float32), np.zeros(b, np.float32)) for a, b in pairwise(sizes)
    )
    return Network((3, 2, 10), 40, weights, {"seed": seed})


def test_what_the_network_sees():
    """Leaf and pod divided by the highest number, 1 for idle, this job's and the others' nodes over 40; then zeros."""
    board = make_board(FatTree(3, 2, 10).shape, np.array([0, 30, 50, 51]), np.ones(2, int), seed=0)
    board.owner[[0, 2]] = 0
    seen = observe(board, line_up(board), np.array([10, 4, 8]), random_network())
    rows = seen.reshape(POSITIONS, FEATURES)
    assert rows[0] == pytest.approx([3 / 5, 1 / 2, 1, 10 / 40, 6 / 40])
    assert rows[1] == pytest.approx([1, 1, 1, 10 / 40, 6 / 40])
    assert not rows[2:].any()


def test_a_network_places_every_job(tmp_path):
    """A network's file is read again as it was; its search places every job, the same for the same seed."""
    network, path = random_network(), tmp_path / "net.zip"
    write_network(path, network)
    again = read_network(path)
    seen = np.random.default_rng(0).random(POSITIONS * FEATURES).astype(np.float32)
    assert (again.logits(seen) == network.logits(seen)).all()
    assert (again.tree, again.most_nodes, again.training) == (network.tree, 40, {"seed": 1})
    found = solve(WINDOW, f"neural:{path}", steps=30, seed=5)
    held = np.concatenate(found.places)
    assert [len(each) for each in found.places] == [12, 4, 9] and len(np.unique(held)) == 25
    assert found.cost_code <= solve(WINDOW, "seq").cost_code and not found.optimal
    other = solve(WINDOW, f"neural:{path}", steps=30, seed=5)
    assert all((a == b).all() for a, b in zip(other.places, found.places, strict=True))


def test_refusals_of_a_network(tmp_path):
    """Another tree, another input size, layers that do not fit, no such file: one sentence each."""
    path = tmp_path / "net.zip"
    write_network(path, random_network())
    with pytest.raises(TableError, match=r"trained on 3 pods × 2 leaves × 10 nodes, and this is 4 pods"):
        solve(Window(FatTree(4, 2, 10), np.arange(9), ("a",), [3]), f"neural:{path}")
    write_network(path, random_network(n_in=400))
    with pytest.raises(TableError, match="layers do not fit"):
        read_network(path)
    with pytest.raises(TableError, match=r"no such file; `procure\.window\.train\.train_network` writes one"):
        solve(WINDOW, f"neural:{tmp_path / 'none.zip'}")
    for arguments, message in (({"minutes": 0}, "0 minutes"), ({"steps": 0}, "0 steps")):
        with pytest.raises(ArgumentError, match=message):
            train_network(generate_jobs(9, 1), make_nodes(3, 2, 10), **arguments)


def test_the_room_rewards_the_cost_of_what_it_placed():
    """An episode places one or two jobs, largest first, on what is free; the reward is minus their cost, at its end."""
    pytest.importorskip("gymnasium")
    room = make_room([WINDOW], random_network(), 3)
    rng, lengths = np.random.default_rng(0), set()
    for _ in range(50):
        seen, _ = room.reset()
        done, rewards, sizes = False, [], []
        while not done:
            mask = room.action_masks()
            assert mask.sum() == min(room.n_line, POSITIONS) == (seen.reshape(POSITIONS, FEATURES)[:, 2] > 0).sum()
            sizes.append(room.board.sizes[room.removed[room.at]])
            seen, reward, done, _, _ = room.step(int(rng.integers(mask.sum())))
            rewards.append(reward)
        places = [WINDOW.idle[room.board.held[slice(*room.board.first[j : j + 2])]] for j in room.removed]
        assert rewards[:-1] == [0.0] * (len(rewards) - 1) and sizes == sorted(sizes, reverse=True)
        assert rewards[-1] == pytest.approx(-sum(WINDOW.cost(own) for own in places) / 10_000)
        lengths.add(len(rewards))
    assert lengths == {1, 2}


@pytest.mark.slow
def test_training_is_repeatable(tmp_path):
    """A short training ends with a network that solves; seed and number of placements settle its weights."""
    pytest.importorskip("sb3_contrib")
    jobs, nodes = generate_jobs(60, 2), make_nodes(3, 2, 10)
    jobs["n_nodes"] = jobs["n_nodes"].clip(upper=20)
    first, second = (train_network(jobs, nodes, minutes=5, steps=2048, seed=4) for _ in range(2))
    assert all((a[0] == b[0]).all() for a, b in zip(first.weights, second.weights, strict=True))
    assert first.tree == (3, 2, 10) and first.most_nodes == 20 and first.training["placements"] == 2048
    path = tmp_path / "net.zip"
    write_network(path, first)
    assert len(solve(WINDOW, f"neural:{path}", steps=20).places) == 3
