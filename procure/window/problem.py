"""A window as data, what an answer is, and the window laid out for the kernels that place its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from procure.errors import ArgumentError, TableError
from procure.files.kernels import njit
from procure.text import counted, nearest
from procure.topology.fat_tree import FatTree, Shape

PROFILES = {"code": (1, 3, 5), "paper": (2, 4, 6)}
"""Hops between two nodes on one leaf, in one pod, and of different pods. An unordered pair counts once in ``code``,
twice in ``paper``."""


def hop_cost(leaf: np.ndarray, pod: np.ndarray, profile: str = "code") -> float:
    """Return the communication-hop cost of one job by the leaf and the pod of each of its nodes.

    ``paper``: 1000/n times the hops over ordered pairs, 0 for a single node (Lan et al., eq. 1).
    ``code``: the whole number max(⌊1000 · hops / n⌋, 1) over unordered pairs, as the published program
    counts. As hops differ by one and C(n, 2) is fixed by the job's size, ``paper`` is twice the unrounded
    ``code`` plus 1000 (n − 1): an allocation that is best in one is best in the other, but for rounding.

    Raises
    ------
    ArgumentError
        The profile is not known.
    """
    if profile not in PROFILES:
        raise ArgumentError("profile", f"profile {profile!r} is not known; {nearest(profile, PROFILES)}")
    (on_leaf, in_pod, far), n = PROFILES[profile], len(leaf)
    pairs, one_leaf, one_pod = (
        sum(count * (count - 1) // 2 for count in counts)
        for counts in ([n], *(np.unique(where, return_counts=True)[1].tolist() for where in (leaf, pod)))
    )
    total = far * pairs - (far - in_pod) * one_pod - (in_pod - on_leaf) * one_leaf
    return 2000 * total / n if profile == "paper" else max(1000 * total // n, 1)


@dataclass(frozen=True)
class Window:
    """Jobs that are to be placed together, and the idle nodes.

    Attributes
    ----------
    tree
        The fat-tree. Its places are numbered from 0, leaf by leaf.
    idle
        int64[n_idle], the places of the idle nodes, ascending.
    ids
        A name of each job.
    sizes
        int64[n_jobs], the nodes that each job asks for.

    Raises
    ------
    TableError
        A place that is not in the tree or named twice, a job named twice, a size below 1, or more nodes
        asked for than idle.
    """

    tree: FatTree
    idle: np.ndarray
    ids: tuple[str, ...]
    sizes: np.ndarray

    def __post_init__(self) -> None:
        """Bring the idle nodes into order and refuse what cannot be placed."""
        object.__setattr__(self, "idle", np.sort(np.asarray(self.idle, np.int64)))
        object.__setattr__(self, "sizes", np.asarray(self.sizes, np.int64))
        object.__setattr__(self, "ids", tuple(self.ids))
        wrong = self.idle[(self.idle < 0) | (self.idle >= self.tree.size)]
        if len(wrong):
            raise TableError(
                f"window: idle node {wrong[0]} is not in the tree; its places are 0 to {self.tree.size - 1}"
            )
        if len(set(self.idle.tolist())) < len(self.idle) or len(set(self.ids)) < len(self.ids):
            raise TableError("window: an idle node or a job is named twice")
        if len(self.ids) != len(self.sizes) or (self.sizes < 1).any():
            raise TableError("window: each job needs a name and a size of at least 1 node")
        if (asked := int(self.sizes.sum())) > len(self.idle):
            raise TableError(
                f"window: the jobs ask for {counted(asked, 'node')} in all, idle are "
                f"{len(self.idle)}; a window's jobs must fit together"
            )

    def cost(self, places: np.ndarray, profile: str = "code") -> float:
        """Return the cost of one job on these places (`hop_cost`)."""
        leaf = np.asarray(places) // self.tree.nodes
        return hop_cost(leaf, leaf // self.tree.leaves, profile)


@dataclass(frozen=True)
class Allocation:
    """Which places each job of a window gets.

    Attributes
    ----------
    places
        Per job, in the window's order: int64[n], places, in the order in which they were taken.
    seconds
        Wall time of the solver.
    optimal
        Whether it is proved to be the optimum of the static model.
    """

    window: Window
    method: str
    places: tuple[np.ndarray, ...]
    seconds: float
    optimal: bool

    @property
    def cost_code(self) -> int:
        """The sum of the jobs' costs as the published program counts them."""
        return int(sum(self.window.cost(places, "code") for places in self.places))

    @property
    def cost_paper(self) -> float:
        """The sum of the jobs' costs by the paper's formula."""
        return float(sum(self.window.cost(places, "paper") for places in self.places))


compiled = njit(cache=True, nogil=True)
MODULUS = 2_147_483_647
"""Of the random numbers: Lehmer's generator with the factor 48,271 (Park, Miller and Stockmeyer, 1993)."""


class Board(NamedTuple):
    """The window's jobs and idle nodes. Position ``i`` is the ``i``-th idle node along the tree."""

    sizes: np.ndarray  # int64[n_jobs]
    first: np.ndarray  # int64[n_jobs + 1]
    held: np.ndarray  # int64[sum of sizes], job j's positions: held[first[j]:first[j + 1]]
    costs: np.ndarray  # int64[n_jobs], of what each job holds, profile ``code``
    leaf: np.ndarray  # int64[n_idle], leaf of each position
    pod: np.ndarray  # int64[n_idle], pod of each position
    owner: np.ndarray  # int64[n_idle], job that holds a position, −1 = none
    line: np.ndarray  # int64[n_idle], room for the positions that nobody holds
    saved: np.ndarray  # int64[n_idle], room for the saved pairs of each start along the line
    on_leaf: np.ndarray  # int64[n_leaves], room for counts; zero between calls
    in_pod: np.ndarray  # int64[pods], likewise
    rng: np.ndarray  # int64[1], the state of the random numbers


def make_board(shape: Shape, idle: np.ndarray, sizes: np.ndarray, seed: int) -> Board:
    """Lay out a window of which no job holds anything; ``idle`` are places of the tree, ascending."""
    return lay_out(shape, np.ascontiguousarray(idle, np.int64), np.ascontiguousarray(sizes, np.int64), seed)


@compiled
def lay_out(shape, idle, sizes, seed):
    """Do as `make_board` inside a kernel."""
    first = np.zeros(sizes.size + 1, np.int64)
    for job in range(sizes.size):
        first[job + 1] = first[job] + sizes[job]
    leaf = idle // shape.nodes
    rng = np.full(1, 1 + (seed % MODULUS * 69_621 + 1) % (MODULUS - 1), np.int64)
    for _ in range(3):  # neighbouring seeds begin with neighbouring numbers
        draw(rng, 2)
    return Board(
        sizes,
        first,
        np.full(first[-1], -1, np.int64),
        np.zeros(sizes.size, np.int64),
        leaf,
        leaf // shape.leaves,
        np.full(idle.size, -1, np.int64),
        np.empty(idle.size, np.int64),
        np.empty(idle.size, np.int64),
        np.zeros(shape.pods * shape.leaves, np.int64),
        np.zeros(shape.pods, np.int64),
        rng,
    )


@compiled
def code_cost(n, saved):
    """Return the cost of ``n`` nodes as the published program counts them: max(⌊1000 · hops / n⌋, 1).

    ``saved`` are pairs of nodes on one leaf plus pairs in one pod; each saves 2 of the 5 hops of a pair.
    """
    return max(1000 * (5 * (n * (n - 1) // 2) - 2 * saved) // n, 1)


@compiled
def draw(rng, n):
    """Return a random whole number below ``n``."""
    rng[0] = rng[0] * 48_271 % MODULUS
    return rng[0] * n // MODULUS


@compiled
def draw_share(rng):
    """Return a random number between 0 and 1, neither included."""
    rng[0] = rng[0] * 48_271 % MODULUS
    return rng[0] / MODULUS


@compiled
def line_up(board):
    """Write the positions that nobody holds to ``line``, in order; returns how many."""
    n = 0
    for position in range(board.owner.size):
        if board.owner[position] < 0:
            board.line[n] = position
            n += 1
    return n


@compiled
def count(board, position, change):
    """Add a position to the counts by leaf and pod or remove it; returns by how much the saved pairs change."""
    leaf, pod = board.leaf[position], board.pod[position]
    if change < 0:
        board.on_leaf[leaf] -= 1
        board.in_pod[pod] -= 1
        return -board.on_leaf[leaf] - board.in_pod[pod]
    board.on_leaf[leaf] += 1
    board.in_pod[pod] += 1
    return board.on_leaf[leaf] + board.in_pod[pod] - 2


@compiled
def best_start(board, n_line, n):
    """Return the start of ``n`` nodes along the line, cyclic, with most saved pairs (ties: the first).

    ``board.saved`` then holds the saved pairs of every start.
    """
    here = at = 0
    for i in range(n):
        here += count(board, board.line[i], 1)
    board.saved[0] = here
    end = n if n < n_line else 0
    for start in range(1, n_line):
        here += count(board, board.line[start - 1], -1)
        here += count(board, board.line[end], 1)
        end = end + 1 if end + 1 < n_line else 0
        board.saved[start] = here
        if here > board.saved[at]:
            at = start
    _clear(board, n_line, n_line - 1, n)
    return at


@compiled
def _clear(board, n_line, start, n):
    for i in range(n):
        position = board.line[(start + i) % n_line]
        board.on_leaf[board.leaf[position]] = 0
        board.in_pod[board.pod[position]] = 0


@compiled
def put(board, job, n_line, start):
    """Give a job the positions along the line from ``start``, cyclic; returns how many are left in the line."""
    n = board.sizes[job]
    saved = 0
    for i in range(n):
        position = board.line[(start + i) % n_line]
        board.held[board.first[job] + i] = position
        board.owner[position] = job
        saved += count(board, position, 1)
    _clear(board, n_line, start, n)
    board.costs[job] = code_cost(n, saved)
    kept = 0
    for i in range(n_line):
        if board.owner[board.line[i]] < 0:
            board.line[kept] = board.line[i]
            kept += 1
    return kept


@compiled
def lift(board, job):
    """Take from a job what it holds."""
    for i in range(board.first[job], board.first[job + 1]):
        board.owner[board.held[i]] = -1


@compiled
def restore(board, held, costs):
    """Give all jobs what ``held`` and ``costs`` say, copies of the board's own."""
    for i in range(board.held.size):
        board.owner[board.held[i]] = -1
    for job in range(board.sizes.size):
        board.costs[job] = costs[job]
        for i in range(board.first[job], board.first[job + 1]):
            board.held[i] = held[i]
            board.owner[held[i]] = job
