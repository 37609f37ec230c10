"""A window laid out for the kernels: the line of idle nodes, and which job holds which part of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.files.kernels import njit
from procure.topology.fat_tree import Shape

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
