"""Every method by name, and the one function that calls it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from procure.errors import ArgumentError
from procure.text import nearest
from procure.topology.compact import allocate_compact
from procure.topology.fabric import empty_fabric, empty_grant, no_holders, take
from procure.topology.fat_tree import FatTree
from procure.window.board import Board, compiled, make_board
from procure.window.exact import MOST_CELLS, n_cells, solve_exact
from procure.window.heuristics import HIGHEST, HIGHEST_OF_PROGRAM, solve_greedy, solve_lns, solve_sa, solve_seq
from procure.window.mip import solve_partition
from procure.window.network import read_network, solve_neural
from procure.window.problem import Allocation, Window

COMPILED = ("seq", "greedy", "exact", "lns", "sa", "sa-published")
"""Methods that are kernels, in the order of `solve_compiled`'s numbers."""
SEQ, GREEDY, EXACT, LNS, SA, SA_PUBLISHED = range(len(COMPILED))
METHODS = (*COMPILED, "compact", "mip", "neural:NET")
"""Every method as a user names it; NET is the file of a trained network."""
STEPS = {"lns": 300, "sa": 1000, "sa-published": 1000, "neural": 500}
"""Steps of the methods that take them. The paper anneals for 500 and 1000 and asks its network 500 times; more than
300 of ``lns`` gained nothing on windows that were made for setting it."""


class Options(NamedTuple):
    """What a solver may be told."""

    seed: int = 0
    steps: int = 0  # 0 = `STEPS`
    time_limit: float | None = None  # s, of the MIP


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


class Solver(NamedTuple):
    """A method that is ready to solve: its name and ``solve(board, window, steps, time_limit) -> optimal``."""

    name: str
    solve: Callable[[Board, Window, Options], bool]


def check_method(method: str) -> str:
    """Return a method's name if there is such a method.

    Raises
    ------
    ArgumentError
        There is not, or ``neural`` comes without a network.
    """
    if method == "neural" or method == "neural:":
        raise ArgumentError("method", "method 'neural' needs a trained network: neural:NET, its file")
    if method not in METHODS and not method.startswith("neural:"):
        raise ArgumentError("method", f"method {method!r} is not known; {nearest(method, METHODS)}")
    return method


def make_solver(method: str) -> Solver:
    """Make a method ready by its name; reads the network of ``neural:NET``.

    Raises
    ------
    ArgumentError
        The method is not known, or ``neural`` comes without a network.
    TableError
        The network cannot be read.
    """
    if check_method(method) in COMPILED:
        return Solver(method, _compiled_solver(method))
    if method == "mip":
        return Solver(method, _by_mip)
    if method == "compact":
        return Solver(method, _by_rule)
    path = method.partition(":")[2]
    network = read_network(path)

    def by_network(board: Board, window: Window, options: Options) -> bool:
        network.check_tree(window.tree, path)
        solve_neural(board, network, options.steps or STEPS["neural"], options.seed)
        return False

    return Solver(method, by_network)


def _compiled_solver(name: str) -> Callable[[Board, Window, Options], bool]:
    number = COMPILED.index(name)

    def solve_it(board: Board, window: Window, options: Options) -> bool:
        small = n_cells(len(board.owner), board.sizes) <= MOST_CELLS
        if number == EXACT and not small:
            return _by_mip(board, window, options)
        solve_compiled(board, number, options.steps or STEPS.get(name, 1), small)
        return number == EXACT

    return solve_it


def _by_rule(board: Board, window: Window, options: Options) -> bool:
    """Place each job in list order by the rule of Slurm's tree plugin; all must fit."""
    shape = window.tree.shape
    fabric, grant = empty_fabric(shape), empty_grant(shape)
    fabric.idle[:] = 0
    fabric.idle[window.idle] = 1
    fabric.leaf_idle[:] = fabric.idle.reshape(-1, shape.nodes).sum(axis=1)
    fabric.pod_idle[:] = fabric.leaf_idle.reshape(shape.pods, -1).sum(axis=1)
    for job, n in enumerate(window.sizes.tolist()):
        allocate_compact(shape, fabric, n, grant)
        take(shape, fabric, no_holders(shape), grant, job)
        board.held[board.first[job] : board.first[job + 1]] = np.searchsorted(window.idle, grant.nodes[:n])
    return False


def _by_mip(board: Board, window: Window, options: Options) -> bool:
    """Give the jobs what their starts in the static model say."""
    solved, m = solve_partition(board, options.time_limit), len(board.owner)
    for job, start in enumerate(solved.starts):
        own = slice(board.first[job], board.first[job + 1])
        board.held[own] = (start + np.arange(board.sizes[job])) % m
        board.owner[board.held[own]] = job
    return solved.optimal


def solve(
    window: Window, method: str | Solver = "lns", *, seed: int = 0, steps: int = 0, time_limit: float | None = None
) -> Allocation:
    """Place a window's jobs.

    Parameters
    ----------
    method
        One of `METHODS`, or what `make_solver` made of one.
    seed
        Of the random numbers, for ``lns``, ``sa``, ``sa-published`` and ``neural``.
    steps
        Of the same; 0 = as many as is usual (`STEPS`).
    time_limit
        Seconds for the MIP; the best allocation so far is then the answer, and not ``optimal``.

    Raises
    ------
    ArgumentError
        A method that is not known, a negative seed or number of steps.
    TableError
        A MIP found nothing in time, or a network is of another tree or cannot be read.

    Examples
    --------
    >>> import procure
    >>> procure.solve_window(procure.read_window("instance.json"), "exact").optimal
    True
    """
    solver = make_solver(method) if isinstance(method, str) else method
    for name, value in (("seed", seed), ("steps", steps)):
        if value < 0:
            raise ArgumentError(name, f"{name} is {value}; at least 0 is needed")
    if time_limit is not None and not time_limit > 0:
        raise ArgumentError("time_limit", f"the time limit is {time_limit} s; it must be above 0")
    if solver.name in METHODS:
        _load(solver.name)
    began = time.perf_counter()
    board = make_board(window.tree.shape, window.idle, window.sizes, seed)
    optimal = solver.solve(board, window, Options(seed, steps, time_limit))
    seconds = time.perf_counter() - began
    bounds = board.first.tolist()
    places = tuple(window.idle[board.held[low:high]] for low, high in pairwise(bounds))
    return Allocation(window, solver.name, places, seconds, optimal)


@cache
def _load(method: str) -> None:
    """Solve a window of one node, so that the first time taken holds no compiling and no import."""
    one = np.array([0], np.int64)
    board = make_board(FatTree(1, 1, 1, uplinks=1, spines=1).shape, one, one + 1, 0)
    window = Window(FatTree(1, 1, 1, uplinks=1, spines=1), one, ("one",), one + 1)
    make_solver(method).solve(board, window, Options(0, 0, None))
