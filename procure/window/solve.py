"""Every method by name, the one function that calls it, and ``neural``: annealing with proposals of a network (NSA)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from procure.errors import ArgumentError, TableError
from procure.files.archive import Archive, read_archive, write_archive
from procure.text import nearest
from procure.topology.fabric import allocate_compact, block, empty_fabric, empty_grant
from procure.topology.fat_tree import FatTree
from procure.window.problem import Allocation, Board, Window, compiled, lift, line_up, make_board, put, restore
from procure.window.search import (
    HIGHEST,
    HIGHEST_OF_PROGRAM,
    LOWEST,
    MOST_CELLS,
    begin_walk,
    chance_of,
    go_on,
    n_cells,
    solve_exact,
    solve_greedy,
    solve_lns,
    solve_sa,
    solve_seq,
)

SCHEMA = "procure.window.network/1"
POSITIONS, FEATURES = 100, 5
"""Idle nodes that the network sees, and what it sees of each, as in the published program."""


@dataclass(frozen=True)
class Network:
    """A fully connected network with tanh between layers."""

    tree: tuple[int, int, int]  # pods, leaves per pod and nodes per leaf of the tree that it was trained on
    most_nodes: int  # the size of a job that counts as 1
    weights: tuple[tuple[np.ndarray, np.ndarray], ...]  # per layer, float32[n_in, n_out] and float32[n_out]
    training: Mapping[str, Any]  # how it was trained, as plain data

    def logits(self, observation: np.ndarray) -> np.ndarray:
        """Return float32[POSITIONS], how much each start is preferred, before a softmax."""
        x = observation
        for matrix, bias in self.weights[:-1]:
            x = np.tanh(x @ matrix + bias)
        matrix, bias = self.weights[-1]
        return x @ matrix + bias

    def check_tree(self, tree: FatTree, source: str) -> None:
        """Raise a `TableError` if this is not the tree that the network was trained on."""
        given = (tree.pods, tree.leaves, tree.nodes)
        if given != self.tree:
            raise TableError(
                f"{source}: the network was trained on {_tree(self.tree)}, and this is {_tree(given)}; "
                "train one for this tree"
            )


def _tree(sizes: tuple[int, ...]) -> str:
    return "{} pods × {} leaves × {} nodes".format(*sizes)


def observe(board: Board, n_line: int, sizes: np.ndarray, network: Network) -> np.ndarray:
    """Return what the network sees, float32[POSITIONS * FEATURES], zeros behind the last idle node.

    Of each of the first idle nodes, which are the first ``n_line`` of the board's line: its leaf and its pod, numbered
    and divided by the highest number; 1 for idle; the nodes of the job that is placed next, the first of ``sizes``, and
    the mean nodes of the jobs after it, both divided by `Network.most_nodes`.
    """
    pods, leaves, _ = network.tree
    seen = np.zeros((POSITIONS, FEATURES), np.float32)
    first = board.line[: min(n_line, POSITIONS)]
    n = len(first)
    seen[:n, 0] = board.leaf[first] / max(pods * leaves - 1, 1)
    seen[:n, 1] = board.pod[first] / max(pods - 1, 1)
    seen[:n, 2] = 1
    seen[:n, 3] = int(sizes[0]) / network.most_nodes
    seen[:n, 4] = sizes[1:].mean() / network.most_nodes if len(sizes) > 1 else 0
    return seen.ravel()


def write_network(path: str | Path, network: Network) -> None:
    """Write a network's file, whole or not at all."""
    head = {
        "schema": SCHEMA,
        "tree": dict(zip(("pods", "leaves", "nodes"), network.tree, strict=True)),
        "positions": POSITIONS,
        "features": FEATURES,
        "most_nodes": network.most_nodes,
        "n_layers": len(network.weights),
        "training": dict(network.training),
    }
    arrays: dict[str, np.ndarray] = {}
    for i, (matrix, bias) in enumerate(network.weights):
        arrays |= {f"matrix{i}": matrix, f"bias{i}": bias}
    write_archive(path, Archive(head, arrays))


def read_network(path: str | Path) -> Network:
    """Read a network's file; a `TableError` says that it is not there, damaged, or of another input size than ours."""
    archive = read_archive(path, SCHEMA, "; `procure.window.train.train_network` writes one")
    head, arrays = archive.head, archive.arrays
    size = (head.get("positions"), head.get("features"))
    if size != (POSITIONS, FEATURES):
        raise TableError(
            f"{path}: the network sees {size[0]} nodes with {size[1]} numbers each; "
            f"this version asks one of {POSITIONS} nodes with {FEATURES}"
        )
    try:
        tree = tuple(int(head["tree"][name]) for name in ("pods", "leaves", "nodes"))
        weights = tuple((arrays[f"matrix{i}"], arrays[f"bias{i}"]) for i in range(int(head["n_layers"])))
        ends = [POSITIONS * FEATURES, *(len(bias) for _, bias in weights)]
        fit = all(m.shape == (a, b) for (m, _), (a, b) in zip(weights, pairwise(ends), strict=True))
        fit = fit and all(part.dtype.kind == "f" and np.isfinite(part).all() for pair in weights for part in pair)
        fit = fit and all(0 < size < 2**31 for size in tree) and isinstance(head.get("training", {}), dict)
        most_nodes = int(head["most_nodes"])
    except (KeyError, OverflowError, TypeError, ValueError):
        fit = False
    if not fit or not weights or ends[-1] != POSITIONS or most_nodes < 1:
        raise TableError(f"{path}: the network's layers do not fit each other; train it again")
    return Network((tree[0], tree[1], tree[2]), most_nodes, weights, head.get("training", {}))


def solve_neural(board: Board, network: Network, steps: int, seed: int) -> None:
    """Anneal from ``seq``: remove one or two jobs, put them back, largest first, where the network says.

    As `procure.window.search.solve_sa` with rollback and the paper's temperatures, but for the start, which
    is drawn from the network's probabilities for the first idle nodes instead of uniformly.
    """
    rng = np.random.default_rng(seed)
    solve_seq(board)
    n_jobs = len(board.sizes)
    walk = begin_walk(board)
    for t in range(steps):
        n = min(int(rng.integers(1, 3)), n_jobs)
        removed = rng.choice(n_jobs, n, replace=False)
        removed = removed[np.argsort(-board.sizes[removed], kind="stable")]
        for job in removed:
            lift(board, job)
        n_line = line_up(board)
        for i, job in enumerate(removed):
            n_line = put(board, job, n_line, _propose(board, network, n_line, removed[i:], rng))
        chance = chance_of(board, walk, t, steps, HIGHEST, LOWEST)
        go_on(board, walk, chance == 1 or rng.random() < chance, True)
    restore(board, walk.best_held, walk.best_costs)


def _propose(board: Board, network: Network, n_line: int, jobs: np.ndarray, rng: np.random.Generator) -> int:
    """Draw a start of the first of some jobs from the network's probabilities."""
    seen = observe(board, n_line, board.sizes[jobs], network)
    logits = network.logits(seen)[: min(n_line, POSITIONS)].astype(np.float64)
    weights = np.cumsum(np.exp(logits - logits.max()))
    return min(int(np.searchsorted(weights, rng.random() * weights[-1], side="right")), len(weights) - 1)


COMPILED = ("seq", "greedy", "exact", "lns", "sa", "sa-published")
"""Methods that are kernels, in the order of `solve_compiled`'s numbers."""
SEQ, GREEDY, EXACT, LNS, SA, SA_PUBLISHED = range(len(COMPILED))
METHODS = (*COMPILED, "compact", "neural:NET")
"""Every method as a user names it; NET is the file of a trained network."""
TOO_LARGE = "exact holds no window of so many jobs of different sizes"
STEPS = {"lns": 300, "sa": 1000, "sa-published": 1000, "neural": 500}
"""Steps of the methods that take them. The paper anneals for 500 and 1000 and asks its network 500 times; more than
300 of ``lns`` gained nothing on windows that were made for setting it."""


@compiled
def solve_compiled(board, method, steps, with_exact):
    """Call one of the `COMPILED` methods by its number; ``with_exact`` is for ``lns``."""
    if method == SEQ:
        solve_seq(board)
    elif method == GREEDY:
        solve_greedy(board)
    elif method == EXACT:
        solve_exact(board)
    elif method == LNS:
        solve_lns(board, steps, with_exact)
    elif method == SA:
        solve_sa(board, steps, HIGHEST, True)
    else:
        solve_sa(board, steps, HIGHEST_OF_PROGRAM, False)


Solver = Callable[[Board, Window, int, int], bool]
"""``solve(board, window, seed, steps)`` places a window's jobs; says whether that is proved to be optimal."""


def check_method(method: str) -> str:
    """Return a method's name; an `ArgumentError` says that it is not known, or a network is missing."""
    if method in ("neural", "neural:"):
        raise ArgumentError("method", "method 'neural' needs a trained network: neural:NET, its file")
    if method == "mip":
        raise ArgumentError("method", "method 'mip' was removed: exact proves the same optimum")
    if method not in METHODS and not method.startswith("neural:"):
        raise ArgumentError("method", f"method {method!r} is not known; {nearest(method, METHODS)}")
    return method


def make_solver(method: str) -> Solver:
    """Make a method ready by its name; reads the network of ``neural:NET``."""
    if check_method(method) == "compact":
        return _by_rule
    if method in COMPILED:
        number = COMPILED.index(method)

        def by_kernel(board: Board, window: Window, seed: int, steps: int) -> bool:
            small = n_cells(len(board.owner), board.sizes) <= MOST_CELLS
            if number == EXACT and not small:
                raise ArgumentError("method", f"{TOO_LARGE}; use lns")
            solve_compiled(board, number, steps or STEPS.get(method, 1), small)
            return number == EXACT

        return by_kernel
    path = method.partition(":")[2]
    network = read_network(path)

    def by_network(board: Board, window: Window, seed: int, steps: int) -> bool:
        network.check_tree(window.tree, path)
        solve_neural(board, network, steps or STEPS["neural"], seed)
        return False

    return by_network


def _by_rule(board: Board, window: Window, seed: int, steps: int) -> bool:
    """Place each job in list order by the rule of Slurm's tree plugin; all must fit."""
    shape = window.tree.shape
    fabric, grant = empty_fabric(shape), empty_grant(shape)
    fabric.idle[:] = 0
    fabric.idle[window.idle] = 1
    fabric.leaf_idle[:] = fabric.idle.reshape(-1, shape.nodes).sum(axis=1)
    fabric.pod_idle[:] = fabric.leaf_idle.reshape(shape.pods, -1).sum(axis=1)
    for job, n in enumerate(window.sizes.tolist()):
        allocate_compact(shape, fabric, n, grant)
        block(shape, fabric, grant, True)
        board.held[board.first[job] : board.first[job + 1]] = np.searchsorted(window.idle, grant.nodes[:n])
    return False


def solve(window: Window, method: str = "lns", *, seed: int = 0, steps: int = 0) -> Allocation:
    """Place a window's jobs.

    Parameters
    ----------
    method
        One of `METHODS`.
    seed
        Of the random numbers, for ``lns``, ``sa``, ``sa-published`` and ``neural``.
    steps
        Of the same; 0 = as many as is usual (`STEPS`).

    Raises
    ------
    ArgumentError
        A method that is not known, a negative seed or number of steps, too many sizes for ``exact``.
    TableError
        A network is of another tree or cannot be read.

    Examples
    --------
    >>> import procure
    >>> from procure.window.problem import FatTree, Window
    >>> procure.solve_window(Window(FatTree(2, 2, 4), range(9), ("a", "b"), [2, 4]), "exact").optimal
    True
    """
    for name, value in (("seed", seed), ("steps", steps)):
        if value < 0:
            raise ArgumentError(name, f"{name} is {value}; at least 0 is needed")
    solver = make_solver(method)
    began = time.perf_counter()
    board = make_board(window.tree.shape, window.idle, window.sizes, seed)
    optimal = solver(board, window, seed, steps)
    places = tuple(window.idle[board.held[low:high]] for low, high in pairwise(board.first.tolist()))
    return Allocation(window, method, places, time.perf_counter() - began, optimal)
