"""Places: which of the nodes that can hold a job it gets, and what a reservation leaves of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from procure.policies import profile, timeline
from procure.policies.lines import holds_line
from procure.policies.names import BEST, FIRST, FITS
from procure.policies.spread import LAST, lay_out_units, margin, most_first, sort_by, spread, units_sought
from procure.simulator.kernel import part
from procure.simulator.seams import place as seam
from procure.simulator.state import FAR
from procure.simulator.tasks import (
    answer_units,
    binds,
    enough_gpus,
    fill,
    lay_units,
    may_spread,
    n_answered,
    n_held,
    shift,
    spreads,
    units_at,
    units_in,
    units_on,
    units_to,
)
from procure.simulator.usable import EVERY, count_units, lay_candidates

FREE, IN_TIME, BESIDE = range(3)
"""What a job may take now: all that is free; that, before a reservation begins; or only what that leaves."""
EXTRA, NUMBER = range(2)
"""What the notes hold: idle nodes that the reservation leaves in a pool, and how many reservations there were."""


@seam
class Fit(NamedTuple):
    """Of the nodes that can hold a job the first ones, or those with the least or the most margin."""

    rule: int  # numbers `procure.policies.names.FITS`
    margins: np.ndarray  # float64[n_nodes]

    def pick(self, state, job, n):
        """Keep the nodes that the job gets."""
        keep_by_margin(state, state.tasks, job, n, self.rule, self.margins)


@seam
class Nodes(NamedTuple):
    """Places on nodes of which only what is free counts: any nodes that hold a job will do, and `which` picks."""

    which: Any  # a named tuple that picks
    first: bool  # the first rows that hold a job will do
    alike: bool  # idle nodes of a kind differ in their row alone
    spare_cpus: np.ndarray  # int64[n_nodes], what a reservation leaves free when it begins
    spare_mem: np.ndarray  # int64[n_nodes], MB
    spare_gpus: np.ndarray  # int64[n_nodes]
    open: np.ndarray  # bool[n_nodes], the nodes that a hold-back leaves to a job
    masked: bool  # there is such a hold-back
    away: bool  # what is not open is not there: no reservation counts on it
    reserved: np.ndarray  # int64[n_nodes], the first entries: on shared or unlike nodes, those of the reservation
    denied: np.ndarray  # int64[n_lines], the reservation beside which the line is known not to fit
    notes: np.ndarray  # int64[2]

    def pick(self, state, job, n):
        """Keep the nodes that the job gets."""
        self.which.pick(state, job, n)

    def follow(self, state):
        """Bring what the place keeps up to now."""
        self.which.follow(state)

    def started(self, state, job):
        """Take note of a start."""
        self.which.started(state, job)

    def fits(self, state, lines, line):
        """Say whether the jobs of a line fit now; what is reserved aside."""
        if state.pool and state.n_idle[0] < state.shapes.n_nodes[lines.shape[line]]:
            return False
        if not state.pool and not holds_line(state, lines, line):
            return False
        return may_spread(state, state.tasks, lines.shape[line], state.free_cpus, state.free_mem, state.free_gpus)

    def room(self, state, lines, line, which):
        """Say whether the jobs of a line, which fit, have room in what they may take."""
        return which != BESIDE or fits_beside(state, state.tasks, self, line, lines.shape[line])

    def reserve(self, state, job):
        """Reserve the earliest place as running jobs end; returns when it begins, s."""
        self.notes[NUMBER] += 1
        if state.pool:
            shadow, self.notes[EXTRA] = shadow_in_pool(state, state.n_nodes[job])
            return shadow
        return shadow_on_nodes(state, self, job)

    def choose(self, state, job, which):
        """Lay the nodes of a job into ``chosen``; beside a reservation they are taken from what that leaves."""
        found = choose(state, state.tasks, job, self, which == BESIDE and not state.pool)
        if which == BESIDE:
            take_beside(state, state.tasks, self, job)
        return found


class Reservation(NamedTuple):
    """The first waiting job's reservation, as a hold-back sees it."""

    job: np.ndarray  # int64[1], −1 = there is none
    start: np.ndarray  # int64[1], s; FAR = never
    nodes: np.ndarray  # int64[n_nodes], on shared or unlike nodes the first ``n_nodes[job]`` are reserved


def make_nodes(state, which: Any, n_lines: int = 0) -> Nodes:
    """Lay out places on nodes for a run of ``n_lines`` lines; ``which`` picks, a named tuple of a class of places."""
    n_nodes = state.free_cpus.size
    alike = isinstance(which, Fit)
    return Nodes(  # type: ignore[call-arg]
        which,
        alike and which.rule == FIRST,
        alike,
        *np.zeros((3, n_nodes), np.int64),
        np.ones(n_nodes, np.bool_),
        False,
        False,
        np.zeros(n_nodes, np.int64),
        np.full(n_lines, -1, np.int64),
        np.zeros(2, np.int64),
    )


def make_fit(state, name: str) -> Fit:
    """Make one of the fits for a run."""
    return Fit(FITS.index(name), np.zeros(state.free_cpus.size))


@part
def choose(state, tasks, job, place, spared):
    """Choose the nodes for a job and lay their rows into ``chosen``; says whether it can start.

    With ``spared``, only nodes that hold the job beside a reservation (`Nodes.spare_cpus` and so on).
    """
    wanted = state.n_nodes[job]
    if tasks is not None:
        found, total = lay_out_units(state, tasks, place, job, spared, not place.first)
        if total < wanted:
            return False
        place.pick(state, job, found)
        return tasks.n_chosen[0] > 0
    cpus, mem, gpus, types = state.cpus[job], state.mem[job], state.gpus[job], state.types[job]
    if state.pool and state.n_idle[0] < wanted:
        return False
    free_cpus, free_mem, free_gpus, node_types = (
        state.free_cpus,
        state.free_mem,
        state.free_gpus,
        state.node_types,
    )
    spare_cpus, spare_mem, spare_gpus = place.spare_cpus, place.spare_mem, place.spare_gpus
    chosen, first, masked, opened, guards = state.chosen, place.first, place.masked, place.open, state.guards
    found, rows = 0, state.usable.rows
    for i in range(lay_candidates(state, tasks, state.shape[job], units_sought(state, place, job, spared))):
        node = rows[i]
        if free_cpus[node] < cpus or free_mem[node] < mem or (node_types[node] & types) == 0:
            continue
        if not enough_gpus(free_gpus[node], gpus, guards):
            continue
        if spared and (spare_cpus[node] < cpus or spare_mem[node] < mem):
            continue
        if spared and not enough_gpus(spare_gpus[node], gpus, guards):
            continue
        if masked and not opened[node]:
            continue
        chosen[found] = node
        found += 1
        if first and found == wanted:
            return True
    if found < wanted or first:
        return False
    place.pick(state, job, found)
    return True


@part
def keep_by_margin(state, tasks, job, n, rule, margins):
    """Keep the nodes with the least (best fit) or the most margin (worst fit); ties go to the lower row."""
    if tasks is not None:
        spread(state, tasks, job, n, rule, margins)
        return
    if rule == FIRST:
        return
    for i in range(n):
        left = margin(state, job, state.chosen[i], False)
        margins[i] = left if rule == BEST else -left
    keep_least(state.chosen, margins, n, state.n_nodes[job])


@part
def keep_least(chosen, margins, found, wanted):
    """Keep the ``wanted`` of ``found`` nodes with the least margins, ascending; returns their mean margin."""
    if wanted == 1:
        least = 0
        for i in range(1, found):
            if margins[i] < margins[least]:
                least = i
        chosen[0] = chosen[least]
        return margins[least]
    sort_by(margins, chosen, found)
    total = 0.0
    for i in range(wanted):
        total += margins[i]
        margins[i] = 0.0
    sort_by(margins, chosen, wanted)
    return total / wanted


@part
def fits_beside(state, tasks, place, line, shape):
    """Say whether the jobs of a line and shape fit now and beside the reservation, however long they run."""
    left, found, notes, denied = state.shapes.n_nodes[shape], 0, place.notes, place.denied
    if state.pool:
        return left <= notes[EXTRA]
    if denied[line] == notes[NUMBER]:
        return False
    spare_cpus, spare_mem, spare_gpus, rows = place.spare_cpus, place.spare_mem, place.spare_gpus, state.usable.rows
    for i in range(lay_candidates(state, tasks, shape, EVERY)):
        node = rows[i]
        n = units_in(state, tasks, shape, node, spare_cpus[node], spare_mem[node], spare_gpus[node])
        if n > 0:
            n = min(n, units_on(state, tasks, shape, node))
        if n > 0:
            left -= n
            if left <= 0 and not binds(tasks, shape):
                return True
            found = lay_units(tasks, found, n)
    if left <= 0 and spreads(tasks, shape, found, state.shapes.n_nodes[shape]):
        return True
    denied[line] = notes[NUMBER]
    return False


@part
def take_beside(state, tasks, place, job):
    """Take the chosen nodes of a job from what the reservation leaves."""
    place.notes[EXTRA] -= state.n_nodes[job]
    spare = place.spare_cpus, place.spare_mem, place.spare_gpus
    for i in range(0 if state.pool else n_answered(state, tasks, job)):
        shift(state, tasks, job, state.chosen[i], units_to(tasks, state.chosen[i]), -1, spare)


@part
def shadow_in_pool(state, wanted):
    """Say when running jobs, ending as expected, leave so many nodes or units idle, s, and how many more then."""
    running, ends, free, i = state.running, state.expected_end, state.n_idle[0], 0
    while free < wanted:
        free += state.n_nodes[running[i]]
        i += 1
    shadow = ends[running[i - 1]]
    while i < state.n_running[0] and ends[running[i]] == shadow:
        free += state.n_nodes[running[i]]
        i += 1
    return shadow, free - wanted


@part
def shadow_on_nodes(state, place, head):
    """Return when the head can start; fill ``spare_…`` with what is left then beside it.

    The reservation takes the highest rows that fit, since jobs that start now take the lowest. FAR, and nothing is
    reserved, if the head needs nodes that are away, on which nothing is spare.
    """
    tasks, shape = state.tasks, state.shape[head]
    spare_cpus, spare_mem, spare_gpus = place.spare_cpus, place.spare_mem, place.spare_gpus
    fitting = count_units(state, tasks, shape, EVERY)
    for node in range(spare_cpus.size):
        spare_cpus[node] = state.free_cpus[node]
        spare_mem[node] = state.free_mem[node]
        spare_gpus[node] = state.free_gpus[node]
        if place.away and not place.open[node]:
            fitting -= units_on(state, tasks, shape, node)
            spare_cpus[node] = spare_mem[node] = spare_gpus[node] = -1
    i = 0
    shadow = state.now[0]
    while i < state.n_running[0]:
        job = state.running[i]
        if (
            fitting >= state.n_nodes[head]
            and state.expected_end[job] > shadow
            and may_spread(state, tasks, shape, spare_cpus, spare_mem, spare_gpus)
        ):
            break
        shadow = state.expected_end[job]
        i += 1
        first = state.node_first[job]
        for k in range(first, first + n_held(state, tasks, job)):
            node = state.node_list[k]
            if place.away and not place.open[node]:
                continue
            fitting -= units_in(state, tasks, shape, node, spare_cpus[node], spare_mem[node], spare_gpus[node])
            shift(state, tasks, job, node, units_at(tasks, k), 1, (spare_cpus, spare_mem, spare_gpus))
            fitting += units_in(state, tasks, shape, node, spare_cpus[node], spare_mem[node], spare_gpus[node])
    place.notes[EXTRA] = fitting - state.n_nodes[head]  # of a pool of which nodes are away
    if fitting < state.n_nodes[head]:
        return np.int64(FAR)
    reserve_highest(state, tasks, place, head)
    return shadow


@part
def reserve_highest(state, tasks, place, head):
    """Take the highest rows that hold a job from what nodes have spare; they are kept as reserved."""
    shape, reserved, left = state.shape[head], place.reserved, state.n_nodes[head]
    spare_cpus, spare_mem, spare_gpus = place.spare_cpus, place.spare_mem, place.spare_gpus
    found, node = 0, reserved.size
    while left > 0 and node > 0:
        node -= 1
        n = units_in(state, tasks, shape, node, spare_cpus[node], spare_mem[node], spare_gpus[node])
        if n > 0:
            left -= 0 if binds(tasks, shape) else n  # where the number of nodes is limited, all are looked at
            answer_units(tasks, node, n)
            reserved[found] = node
            found += 1
    if tasks is not None:
        used = fill(tasks, shape, reserved, found, state.n_nodes[head])
        if used == 0:
            used = most_first(state, tasks, head, (reserved, found, reserved.size), LAST, tasks.keys)[0]
        found = used
    for i in range(found):
        node = reserved[i]
        shift(state, tasks, head, node, units_to(tasks, node), -1, (spare_cpus, spare_mem, spare_gpus))


@part
def start_planned(state, plan, place, job):
    """Lay the nodes of a job that is planned to start now into ``chosen``; all other plans keep theirs."""
    if state.pool:
        choose(state, state.tasks, job, place, False)
        return
    if not place.first:
        profile.hold_plan(state, plan, job, timeline.GIVE)
        place.pick(state, job, timeline.holding_now(state, state.tasks, plan.line, job))
        profile.plan_nodes(state, plan, job, state.now[0])
    profile.lay_planned(state, state.tasks, plan, job)
