"""Windows: costs, the static and the dynamic model, every method against its slow twin or the optimum."""

from __future__ import annotations

import json

import naive_window
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_cases import few

from procure.errors import ArgumentError, TableError
from procure.topology.fat_tree import FatTree
from procure.window.problem import PROFILES, Window, hop_cost, read_window
from procure.window.solve import COMPILED, solve

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


@QUICK
@given(seed=st.integers(0, 10**6))
def test_profiles_have_the_same_order(seed):
    """The paper's cost is twice the unrounded cost of the code plus 1000 (n − 1), whatever the places."""
    window = random_window(seed, n_jobs=1, most_size=12)
    n = int(window.sizes[0])
    places = np.random.default_rng(seed).permutation(window.idle)[:n]
    paper, code = window.cost(places, "paper"), window.cost(places, "code")
    assert n == 1 or 0 <= (paper - 1000 * (n - 1)) / 2 - code < 1 + 1e-9


def test_models_by_hand():
    """In the paper's figure, job 1 holds nodes 5–8 of 1–10; job 2 then has 3 static starts and 6 dynamic ones."""
    window = Window(FatTree(2, 2, 4), np.arange(10), ("1", "2"), [4, 4])
    static, dynamic = set(), set()
    for start in range(10):
        try:
            static.add(tuple(sorted(naive_window.static_places(window, [4, start])[1].tolist())))
        except ArgumentError:
            continue
    for start in range(6):
        dynamic.add(tuple(sorted(naive_window.dynamic_places(window, [0, 1], [4, start])[1].tolist())))
    assert static == {(0, 1, 2, 3), (0, 1, 8, 9), (0, 1, 2, 9)}
    assert static < dynamic and len(dynamic) == 6
    with pytest.raises(ArgumentError, match="not in a line of 6"):
        naive_window.dynamic_places(window, [0, 1], [4, 6])
    with pytest.raises(ArgumentError, match="each of the jobs once"):
        naive_window.dynamic_places(window, [0, 0], [4, 1])


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


def test_exact_wraps_from_the_first_start_on():
    """Two jobs of two on leaves of one, two and one idle nodes: the one goes round the end of the line."""
    window = Window(FatTree(3, 1, 2), np.array([0, 2, 3, 4]), ("a", "b"), [2, 2])
    found = solve(window, "exact")
    assert sorted(sorted(each.tolist()) for each in found.places) == [[0, 4], [2, 3]]
    assert found.cost_code == naive_window.static_optimum(window)


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


@pytest.mark.slow
@settings(max_examples=few(25), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_exact_is_the_optimum(seed):
    """Up to 3 jobs on up to 14 idle nodes: the dynamic program costs what trying every start costs."""
    window = random_window(seed)
    assert solve(window, "exact").cost_code == naive_window.static_optimum(window)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_dynamic_is_never_above_static(seed):
    """The best of the dynamic model costs at most that of the static one; the search never ends above that."""
    window = random_window(seed, n_jobs=3, most_size=4, n_idle=9)
    static, dynamic = naive_window.static_optimum(window), naive_window.dynamic_optimum(window)
    assert free_optimum(window) <= dynamic <= static
    assert free_optimum(window) <= solve(window, "lns").cost_code <= static


def free_optimum(window: Window) -> float:
    """A bound below every allocation: a MIP over how many nodes each job has on each leaf and in each pod.

    The cost without rounding down, minus 1 per job.
    """
    from scipy.optimize import LinearConstraint, milp

    leaf = window.idle // window.tree.nodes
    leaves, room = np.unique(leaf, return_counts=True)
    pods = np.unique(leaves // window.tree.leaves)
    columns, saving = [], []  # (job, place of kind, which, count): 1 if the job has so many nodes there
    for job, n in enumerate(window.sizes.tolist()):
        for kind, places in (("leaf", leaves), ("pod", pods)):
            columns += [(job, kind, at, c) for at in places.tolist() for c in range(n + 1)]
    index = {column: i for i, column in enumerate(columns)}
    saving = [1000 * 2 * (c * (c - 1) // 2) / window.sizes[job] for job, _, _, c in columns]
    rows, low, high = [], [], []

    def add(terms, least, most):
        row = np.zeros(len(columns))
        for column, value in terms:
            row[index[column]] += value
        rows.append(row)
        low.append(least)
        high.append(most)

    jobs = range(len(window.sizes))
    for job, n in enumerate(window.sizes.tolist()):
        for kind, places in (("leaf", leaves), ("pod", pods)):
            for at in places.tolist():
                add([((job, kind, at, c), 1) for c in range(n + 1)], 1, 1)
            add([((job, kind, at, c), c) for at in places.tolist() for c in range(n + 1)], n, n)
        for pod in pods.tolist():
            inside = [at for at in leaves.tolist() if at // window.tree.leaves == pod]
            terms = [((job, "leaf", at, c), c) for at in inside for c in range(n + 1)]
            add(terms + [((job, "pod", pod, c), -c) for c in range(n + 1)], 0, 0)
    for at, n_here in zip(leaves.tolist(), room.tolist(), strict=True):
        add([((j, "leaf", at, c), c) for j in jobs for c in range(int(window.sizes[j]) + 1)], 0, n_here)
    found = milp(
        -np.array(saving), integrality=np.ones(len(columns)), bounds=(0, 1),
        constraints=LinearConstraint(np.array(rows), low, high), options={"mip_rel_gap": 0.0},
    )  # fmt: skip
    far = sum(1000 * 5 * (n * (n - 1) // 2) / n for n in window.sizes.tolist())
    return far + found.fun - len(window.sizes)


@pytest.mark.parametrize("n", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_dynamic_program_is_the_set_partition(n):
    """On random cyclic instances the dynamic program costs what the set-partition MIP proves optimal."""
    for seed in range(n):
        window = random_window(10_000 + seed, n_jobs=5, most_size=12, n_idle=45, tree=FatTree(4, 3, 5))
        mip = solve(window, "mip")
        assert mip.optimal and mip.cost_code == solve(window, "exact").cost_code


def test_a_lone_job_may_take_everything():
    """A job that needs every idle node gets them all under every method."""
    window = Window(FatTree(2, 2, 4), np.arange(3, 10), ("all",), [7])
    for method in (*COMPILED, "mip"):
        assert sorted(solve(window, method).places[0].tolist()) == list(range(3, 10))


def test_more_sets_of_jobs_than_the_program_holds():
    """Where sizes are too many for the dynamic program, `exact` is the MIP, and still the optimum is proved."""
    sizes = list(range(1, 21))
    window = Window(STUDY, np.arange(215), tuple(map(str, sizes)), sizes)
    found = solve(window, "exact", time_limit=60)
    assert [len(each) for each in found.places] == sizes
    assert found.cost_code <= solve(window, "greedy").cost_code or not found.optimal


def test_instance_file(tmp_path):
    """What is written is read again; each defect of an instance is one sentence that names it."""
    path = tmp_path / "instance.json"
    good = {"tree": {"pods": 2, "leaves": 2, "nodes": 4}, "idle": [9, 1, 2, 3]}
    good["jobs"] = [{"id": "a", "n_nodes": 2}, {"id": "7", "n_nodes": 1}]
    path.write_text(json.dumps(good))
    again = read_window(path)
    assert again.idle.tolist() == [1, 2, 3, 9] and again.ids == ("a", "7") and again.sizes.tolist() == [2, 1]
    for change, message in (
        ({"jobs": [{"id": "a", "n_nodes": 0}]}, "n_nodes"),
        ({"jobs": [{"id": "a", "n_nodes": 5}]}, "ask for 5 nodes in all, idle are 4"),
        ({"jobs": [{"id": "a", "n_nodes": 1}, {"id": "a", "n_nodes": 1}]}, "two jobs are named a"),
        ({"jobs": []}, "jobs"),
        ({"idle": [16]}, "idle node 16 is not in the tree"),
        ({"idle": [3, 3]}, "idle node 3 is named twice"),
        ({"idle": ["n1"]}, "idle"),
        ({"tree": {"pods": 0, "leaves": 1, "nodes": 1}}, "pods"),
        ({"nodes": []}, "nodes"),
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(TableError, match=message):
            read_window(path)
    path.write_text("{")
    with pytest.raises(TableError, match="not JSON"):
        read_window(path)


def test_refusals():
    """An unknown method, a network that is not named, a bad seed: one error each."""
    window = random_window(1)
    for arguments, message in (
        ({"method": "lsn"}, "'lsn' is not known.*lns"),
        ({"method": "neural"}, "needs a trained network"),
        ({"seed": -1}, "seed is -1"),
        ({"time_limit": 0.0}, "must be above 0"),
    ):
        with pytest.raises(ArgumentError, match=message):
            solve(window, **arguments)


KEYS = ("tree", "idle", "jobs", "pods", "leaves", "nodes", "id", "n_nodes", "x")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    tree=st.fixed_dictionaries({name: st.integers(-1, 3) | JSON for name in ("pods", "leaves", "nodes")}) | JSON,
    idle=st.lists(st.integers(-1, 9), max_size=6) | JSON,
    jobs=st.lists(st.fixed_dictionaries({"id": st.text(max_size=2), "n_nodes": st.integers(-1, 4)}), max_size=3) | JSON,
)
def test_any_instance_is_read_or_refused_with_its_file(tmp_path_factory, tree, idle, jobs):
    """Whatever JSON it is: a window that is solved and written again, or one error that names the file."""
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps({"tree": tree, "idle": idle, "jobs": jobs}))
    try:
        window = read_window(path)
    except TableError as error:
        assert str(error).startswith(str(path))
        return
    found = solve(window, "exact")
    taken = np.concatenate(found.places)
    assert len(set(taken.tolist())) == int(window.sizes.sum()) and set(taken.tolist()) <= set(window.idle.tolist())
