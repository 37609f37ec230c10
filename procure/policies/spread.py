"""How many tasks of a job go on which node, and the margin by which fits choose."""

from __future__ import annotations

import numpy as np

from procure.policies.names import BEST, FIRST
from procure.simulator.kernel import part
from procure.simulator.tasks import POOL_BITS, amounts, fill, units_in, units_on
from procure.simulator.usable import EVERY, lay_candidates

LAST = -1
"""Beside `procure.policies.names.FITS`: of nodes that take as much the last, as reservations do."""
OF_NODE = -2
"""Likewise best fit by the resources that the node has."""


@part
def margin(state, job, node, of_node):
    """Return the mean share of a node's resources that one unit of a job would leave (`margin_of`)."""
    return margin_of(state, state.tasks, job, node, 1, of_node)


@part
def margin_of(state, tasks, job, node, units, of_node):
    """Return the mean share of a node's resources that so many units of a job leave, over the counted resources.

    Counted are the resources that the job asks for (>0), or with ``of_node`` those that the node
    has. The order of the terms is fixed, so that every implementation agrees to the last bit.
    """
    cpus, mem, gpus = amounts(state, tasks, job, units)
    total = 0.0
    counted = 0
    if state.total_mem[node] > 0 if of_node else mem > 0:
        total += (state.free_mem[node] - mem) / state.total_mem[node]
        counted += 1
    if state.total_cpus[node] > 0 if of_node else cpus > 0:
        total += (state.free_cpus[node] - cpus) / state.total_cpus[node]
        counted += 1
    if state.total_gpus[node] > 0 if of_node else gpus > 0:
        if state.guards is None:
            total += (state.free_gpus[node] - gpus) / state.total_gpus[node]
        else:
            total += _pool_left(gpus, state.free_gpus[node] - gpus, state.total_gpus[node])
        counted += 1
    return total / counted if counted else 0.0


@part
def _pool_left(asked, left, all_of):
    """Return the share of the job's pool that it would leave free; without GPUs, of all pools of the node."""
    while asked >= 1 << POOL_BITS:
        asked, left, all_of = asked >> POOL_BITS, left >> POOL_BITS, all_of >> POOL_BITS
    mask = (1 << POOL_BITS) - 1
    n, of = left & mask, all_of & mask
    if asked == 0:
        for _ in range(3):
            left, all_of = left >> POOL_BITS, all_of >> POOL_BITS
            n, of = n + (left & mask), of + (all_of & mask)
    return n / of


@part
def units_sought(state, place, job, spared):
    """Say for how many units nodes are looked at: where idle nodes of a kind are not alike, for any."""
    return EVERY if spared or place.masked or not place.alike else state.n_nodes[job]


@part
def lay_out_units(state, tasks, place, job, spared, all_of_them):
    """Lay the nodes that hold any unit of a job into ``chosen``, with how many; returns how many nodes, and units.

    With ``spared``, what they hold beside a reservation, too. Unless ``all_of_them``, enough will do.
    """
    shape, wanted = state.shape[job], state.n_nodes[job]
    enough = not all_of_them and not tasks.binds[shape]
    found, total = 0, 0
    rows = state.usable.rows
    for i in range(lay_candidates(state, tasks, shape, units_sought(state, place, job, spared))):
        node = rows[i]
        if place.masked and not place.open[node]:
            continue
        n = units_on(state, tasks, shape, node)
        if spared and n > 0:
            cpus, mem, gpus = place.spare_cpus[node], place.spare_mem[node], place.spare_gpus[node]
            n = min(n, units_in(state, tasks, shape, node, cpus, mem, gpus))
        if n > 0:
            state.chosen[found], tasks.units[node] = node, n
            found += 1
            total += n
            if enough and total >= wanted:
                break
    return found, total


@part
def spread(state, tasks, job, n, rule, margins):
    """Spread a job's tasks over the ``n`` nodes in ``chosen``, each of which holds ``tasks.units`` of it.

    First fit fills the nodes in their order, if they are no more than may be. The other rules, and that one then:
    `most_first`. The nodes are left in front in ``chosen``, ascending, their number in ``tasks.n_chosen``; 0 if
    there is no room.
    """
    used = 0
    if rule == FIRST:
        used = fill(tasks, state.shape[job], state.chosen, n, state.n_nodes[job])
    if used == 0:
        used = most_first(state, tasks, job, (state.chosen, n, state.free_cpus.size), rule, margins)[0]
    lay_answer(state, tasks, used, margins)


@part
def lay_answer(state, tasks, used, margins):
    """Keep the first nodes in ``chosen`` as the answer, ascending."""
    if tasks is not None:
        for i in range(used):
            margins[i] = 0.0
        sort_by(margins, state.chosen, used)
        tasks.n_chosen[0] = used


@part
def most_first(state, tasks, job, candidates, rule, margins):
    """Take again and again the node that takes the most of the tasks that are left, and the fewest nodes so.

    Ties go to the node with the least margin then (best fit) or the most (worst fit), then to the lower row (of
    reservations, the higher). So a job that one node holds whole is placed as the published rule places a job of one
    node that asks for all of it; and one of which each node takes one task as a job of nodes. A node takes at most what
    leaves one task for each node that is still needed.

    ``candidates`` are rows of nodes, of which the first ``n`` hold ``tasks.units`` each; ``n``; and what no row
    reaches. Returns how many nodes are used, now in front of the rows, with what each takes in ``tasks.units``, 0 if
    that is no room; and their mean margin.
    """
    rows, n, n_rows = candidates
    shape, left = state.shape[job], state.n_nodes[job]
    units, needed, used, total, bound = tasks.units, tasks.min_nodes[shape] - 1, 0, 0.0, np.int64(1) << 60
    if n <= needed:
        return 0, np.inf
    # A heap of the candidates that are left: rows[:size]; those taken stand behind it.
    size = n
    while left > 0:
        if size == 0 or used == tasks.max_nodes[shape]:
            return 0, np.inf
        if units[rows[0]] > left - needed or used == 0:
            bound = left - needed
            for i in range(size):
                node = rows[i]
                units[node] = min(units[node], bound)
                margins[i] = _key(state, tasks, job, node, rule, n_rows)
            for begin in range(size // 2 - 1, -1, -1):
                _sink(units, margins, rows, begin, size)
        node, key = rows[0], margins[0]
        size -= 1
        rows[0], margins[0] = rows[size], margins[size]
        rows[size] = node
        _sink(units, margins, rows, 0, size)
        left -= units[node]
        total += key
        needed = max(needed - 1, 0)
        used += 1
    for i in range(min(used, n - used)):
        rows[i], rows[n - 1 - i] = rows[n - 1 - i], rows[i]
    return used, total / used


@part
def _key(state, tasks, job, node, rule, n_rows):
    """Return by what ties between nodes that take as much go: the least."""
    if rule == FIRST:
        return 0.0
    if rule == LAST:
        return float(n_rows - node)
    left = margin_of(state, tasks, job, node, tasks.units[node], rule == OF_NODE)
    return left if rule in (BEST, OF_NODE) else -left


@part
def _sink(units, keys, rows, i, n):
    """Let the entry at ``i`` of a heap of ``n``, the first to be taken on top, sink to its place."""
    key, node = keys[i], rows[i]
    child = 2 * i + 1
    while child < n:
        if child + 1 < n and _before(units, keys[child + 1], rows[child + 1], keys[child], rows[child]):
            child += 1
        if not _before(units, keys[child], rows[child], key, node):
            break
        keys[i], rows[i] = keys[child], rows[child]
        i, child = child, 2 * child + 1
    keys[i], rows[i] = key, node


@part
def _before(units, key, node, other_key, other):
    if units[node] != units[other]:
        return units[node] > units[other]
    return key < other_key or (key == other_key and node < other)


@part
def sort_by(margins, nodes, n):
    """Sort the first ``n`` nodes (or anything that is numbered) by (margin, node), in place: Shell's sort."""
    gap = 1
    while 3 * gap < n:
        gap = 3 * gap + 1  # Knuth's gaps
    while gap > 0:
        for i in range(gap, n):
            least, node = margins[i], nodes[i]
            while i >= gap and (margins[i - gap] > least or (margins[i - gap] == least and nodes[i - gap] > node)):
                margins[i], nodes[i] = margins[i - gap], nodes[i - gap]
                i -= gap
            margins[i], nodes[i] = least, node
        gap //= 3
