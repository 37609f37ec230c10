"""Every method by name, and the one function that calls it."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from procure.errors import ArgumentError
from procure.text import nearest
from procure.topology.compact import allocate_compact
from procure.topology.fabric import empty_fabric, empty_grant, no_holders, take
from procure.window.board import Board, compiled, make_board
from procure.window.exact import MOST_CELLS, n_cells, solve_exact
from procure.window.heuristics import HIGHEST, HIGHEST_OF_PROGRAM, solve_greedy, solve_lns, solve_sa, solve_seq
from procure.window.network import read_network, solve_neural
from procure.window.problem import Allocation, Window

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
        take(shape, fabric, no_holders(shape), grant, job)
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
