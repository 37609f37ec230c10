"""One pass over a log's starts, ends and submissions: to which cause each stretch of each wait falls.

Between two events nothing changes, so each waiting job's stretch falls to one cause, the first that applies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.simulator.kernel import insert, kernel, part, remove

CAUSES = (
    *("not_eligible", "above_limit", "full", "fragmentation", "memory", "gpus"),
    *("reserved", "outage", "pause", "unexplained"),
)
"""In the order in which they are tried."""
ELIGIBLE, LIMIT, FULL, FRAGMENTED, MEMORY, GPUS, RESERVED, OUTAGE, PAUSE, UNEXPLAINED = range(len(CAUSES))
FAR = 1 << 60
"""A moment, an amount or a limit that is never reached."""
ENDED, ELIGIBLE_NOW, SUBMITTED, STARTED, LEFT, BACK = range(6)
"""Kinds of events; those of one moment are taken in this order, but for LEFT and BACK, which may come at any place."""
N_JOBS, N_ACTIVE, N_RUNNING, N_SPELLS = range(4)
"""What the counters count."""


class Log(NamedTuple):
    """The jobs that started, by submission; times in s after the first submission."""

    submit: np.ndarray  # int64[n]
    eligible: np.ndarray  # int64[n]
    start: np.ndarray  # int64[n]
    end: np.ndarray  # int64[n]
    limit: np.ndarray  # int64[n], s that it may run; FAR = no limit
    cpus: np.ndarray  # int64[n], on all its nodes
    owner: np.ndarray  # int32[n_kinds, n], its user, account … (`OWNERS`): one numbering, −1 = unknown
    kinds: np.ndarray  # int64[], rows of it in which some owner is known
    group: np.ndarray  # int64[n], jobs of one group ask for the same and may use the same nodes
    node_first: np.ndarray  # int64[n + 1]
    node_list: np.ndarray  # int64[], on which nodes each ran; −1 = unknown, then where most is free
    event_at: np.ndarray  # int64[m], ascending
    event: np.ndarray  # int8[m], one of the kinds
    about: np.ndarray  # int32[m], a job, or a row of the outages


class Groups(NamedTuple):
    """What the jobs of a group ask of each node, int64[n_groups], and the nodes that they may use."""

    n_nodes: np.ndarray
    cpus: np.ndarray
    mem: np.ndarray
    gpus: np.ndarray
    pool: np.ndarray  # partition: a reservation in one keeps nobody out of another
    may_use: np.ndarray  # bool[n_groups, n_nodes]
    whole: np.ndarray  # bool[n_groups], takes its nodes whole; ``cpus`` are then those of the smallest that it may use


class Centre(NamedTuple):
    """Nodes, and the rules that hold jobs back."""

    cpus: np.ndarray  # int64[n_nodes]
    mem: np.ndarray  # int64[n_nodes]
    gpus: np.ndarray  # int64[n_nodes]
    outage_node: np.ndarray  # int64[n_outages]
    outage_cpus: np.ndarray  # int64[n_outages], CPUs that are not there
    max_jobs: np.ndarray  # int64[n_owners], that run at once
    max_cpus: np.ndarray  # int64[n_owners]
    peak_jobs: np.ndarray  # int64[n_owners], the most that ran at once
    peak_cpus: np.ndarray  # int64[n_owners]
    pause: np.ndarray  # int64[n_jobs], s


class Work(NamedTuple):
    """Room for a pass, and what it gives."""

    free: np.ndarray  # int64[4, n_nodes]: CPUs, MB, GPUs, CPUs that are not there
    following: np.ndarray  # int64[n + 1], waiting jobs as a list
    previous: np.ndarray  # int64[n + 1]
    running: np.ndarray  # int64[n], by expected end
    node_list: np.ndarray  # int64[], as that of the log, those unknown filled in as jobs start
    active: np.ndarray  # int64[n_groups], groups of which some wait
    place: np.ndarray  # int64[n_groups]
    n_waiting: np.ndarray  # int64[n_groups]
    unused: np.ndarray  # int64[n_groups, 3]: CPUs, MB, GPUs free on nodes that the group may use
    fitting: np.ndarray  # int64[n_groups, 4]: nodes that hold it by CPUs; and memory; and GPUs; and are there
    jobs_of: np.ndarray  # int64[n_owners], running
    cpus_of: np.ndarray  # int64[n_owners], running
    stretch: np.ndarray  # int64[n], s, how long there has been room for a job
    counters: np.ndarray  # int64[4]
    seconds: np.ndarray  # int64[n, n_causes], the result
    lower: np.ndarray  # int64[n_causes], s for which no other cause would do
    upper: np.ndarray  # int64[n_causes], s for which it would do
    seen: np.ndarray  # int64[n_owners], the stretch in which an owner's next job was looked at
    beside: np.ndarray  # int64[3, n_owners], s with room for the next job: all; at the most jobs; at the most CPUs
    kept: np.ndarray  # int64[n_kinds, n, 2], s that a job waited so: at the most of its user, …; or [n_kinds, 0, 2]
    spells: np.ndarray  # int64[2 n, 2], jobs, and how long in one go no cause applied to them, s: the first N_SPELLS


class Stretch(NamedTuple):
    """From one event to the next: nothing changes in it."""

    now: int  # s
    dt: int  # s, how long it is
    number: int
    limited: bool  # some owner has a limit


@part
def _room(work, node):
    """Return the CPUs, MB and GPUs that a node has free, and its CPUs that are not there."""
    return work.free[0, node], work.free[1, node], work.free[2, node], work.free[3, node]


@part
def _holds(groups, centre, node, group, room):
    """Return by how many of CPUs, memory, GPUs and what is there a node with so much room holds a group's request."""
    need = centre.cpus[node] if groups.whole[group] else groups.cpus[group]
    if room[0] < need:
        return 0
    if room[1] < groups.mem[group]:
        return 1
    if room[2] < groups.gpus[group]:
        return 2
    return 4 if room[0] - room[3] >= need else 3


@part
def _change(groups, centre, work, node, group, sign, missing):
    """Take a share of a group from a node (−1) or give it back (1); ``missing`` CPUs go or come."""
    before = _room(work, node)
    if group >= 0:
        work.free[0, node] += sign * (centre.cpus[node] if groups.whole[group] else groups.cpus[group])
        work.free[1, node] += sign * groups.mem[group]
        work.free[2, node] += sign * groups.gpus[group]
    work.free[3, node] += missing
    if centre.cpus.size == 1:  # counted when it is asked for
        return
    after = _room(work, node)
    cpus, mem, gpus = (
        max(0, after[0]) - max(0, before[0]),
        max(0, after[1]) - max(0, before[1]),
        max(0, after[2]) - max(0, before[2]),
    )
    for i in range(work.counters[N_ACTIVE]):
        each = work.active[i]
        if groups.may_use[each, node]:
            work.unused[each, 0] += cpus
            work.unused[each, 1] += mem
            work.unused[each, 2] += gpus
            now, then = _holds(groups, centre, node, each, after), _holds(groups, centre, node, each, before)
            for what in range(min(now, then), max(now, then)):
                work.fitting[each, what] += 1 if now > then else -1


@part
def _count_free(groups, centre, work, group):
    """Count what is free for a group, node by node."""
    work.unused[group] = 0
    work.fitting[group] = 0
    for node in range(centre.cpus.size):
        if groups.may_use[group, node]:
            room = _room(work, node)
            for what in range(3):
                work.unused[group, what] += max(0, room[what])
            for what in range(_holds(groups, centre, node, group, room)):
                work.fitting[group, what] += 1


@part
def _join(log, groups, centre, work, job):
    n, group = log.submit.size, log.group[job]
    last = work.previous[n]
    work.following[last], work.previous[job] = job, last
    work.following[job], work.previous[n] = n, job
    work.n_waiting[group] += 1
    if work.n_waiting[group] == 1:
        work.active[work.counters[N_ACTIVE]] = group
        work.place[group] = work.counters[N_ACTIVE]
        work.counters[N_ACTIVE] += 1
        _count_free(groups, centre, work, group)


@part
def _quit(log, work, job):
    group = log.group[job]
    work.following[work.previous[job]] = work.following[job]
    work.previous[work.following[job]] = work.previous[job]
    work.n_waiting[group] -= 1
    if work.n_waiting[group] == 0:
        work.counters[N_ACTIVE] -= 1
        last = work.active[work.counters[N_ACTIVE]]
        work.active[work.place[group]] = last
        work.place[last] = work.place[group]


@part
def _expected_end(log, job):
    return min(log.start[job] + log.limit[job], FAR)


@part
def _first_behind(log, work, end):
    """Return the place of the first running job that is expected to end at some moment or later."""
    low, high = 0, work.counters[N_RUNNING]
    while low < high:
        middle = (low + high) // 2
        if _expected_end(log, work.running[middle]) < end:
            low = middle + 1
        else:
            high = middle
    return low


@part
def _emptiest(groups, work, group, first, until):
    """Return the node with the most CPUs free of those that a group may use and that its job does not have yet."""
    best = -1
    for node in range(groups.may_use.shape[1]):
        if groups.may_use[group, node] and (best < 0 or work.free[0, node] > work.free[0, best]):
            taken = False
            for k in range(first, until):
                taken = taken or work.node_list[k] == node
            if not taken:
                best = node
    return max(best, 0)


@part
def _run(log, groups, centre, work, job, sign):
    """Let a job take its nodes (−1) or give them back (1)."""
    group = log.group[job]
    for k in range(log.node_first[job], log.node_first[job + 1]):
        if work.node_list[k] < 0:
            work.node_list[k] = _emptiest(groups, work, group, log.node_first[job], k)
        _change(groups, centre, work, work.node_list[k], group, sign, 0)
    for k in range(log.kinds.size):
        kind = log.kinds[k]
        owner = log.owner[kind, job]
        if owner >= 0:
            work.jobs_of[owner] -= sign
            work.cpus_of[owner] -= sign * log.cpus[job]
    n, end = work.counters[N_RUNNING], _expected_end(log, job)
    if sign < 0:
        place = _first_behind(log, work, end + 1)
        insert(work.running, n, place, job)
        work.counters[N_RUNNING] = n + 1
        return
    place = _first_behind(log, work, end)
    while work.running[place] != job:
        place += 1
    remove(work.running, n, place)
    work.counters[N_RUNNING] = n - 1


@part
def _of_one(groups, centre, work, group):
    """Return the cause that keeps a job off the one node that there is, 0 = none."""
    room = _room(work, 0)
    if not groups.may_use[group, 0] or room[0] < groups.cpus[group] or room[2] < groups.gpus[group]:
        return 1 << FULL
    if room[1] < groups.mem[group]:
        return 1 << MEMORY
    return 0 if room[0] - room[3] >= groups.cpus[group] else 1 << OUTAGE


@part
def _causes(log, groups, centre, work, job, stretch):
    """Return the causes that keep a job waiting now, a bit each; reservations and the pause are not among them."""
    found, group = 0, log.group[job]
    if stretch.now < log.eligible[job]:
        found |= 1 << ELIGIBLE
    for k in range(log.kinds.size if stretch.limited else 0):
        kind = log.kinds[k]
        owner = log.owner[kind, job]
        if owner >= 0 and (
            work.jobs_of[owner] >= centre.max_jobs[owner]
            # A job that is larger than its owner's limit by itself ran at last: it is held by what else runs only.
            or (work.jobs_of[owner] > 0 and work.cpus_of[owner] + log.cpus[job] > centre.max_cpus[owner])
        ):
            found |= 1 << LIMIT
    if centre.cpus.size == 1:
        return found | _of_one(groups, centre, work, group)
    n = groups.n_nodes[group]
    if work.unused[group, 0] < n * groups.cpus[group] or work.unused[group, 2] < n * groups.gpus[group]:
        found |= 1 << FULL
    elif work.fitting[group, 0] < n:
        found |= 1 << FRAGMENTED
    elif work.fitting[group, 1] < n:
        found |= 1 << MEMORY
    elif work.fitting[group, 2] < n:
        found |= 1 << GPUS
    elif work.fitting[group, 3] < n:
        found |= 1 << OUTAGE
    return found


NO_ROOM = (1 << FULL) | (1 << FRAGMENTED) | (1 << MEMORY) | (1 << GPUS)
INFERRED = (1 << LIMIT) | (1 << RESERVED) | (1 << OUTAGE)
"""Causes that are inferred, or that a scheduler of another kind would not know."""


@part
def _shadow(log, groups, work, head):
    """Return when, by the limits of what runs, there are CPUs for a job, and how many are then left over."""
    group = log.group[head]
    need, pool = log.cpus[head], groups.pool[group]
    free = work.unused[group, 0] if groups.may_use.shape[1] > 1 else work.free[0, 0]
    for i in range(work.counters[N_RUNNING]):
        job = work.running[i]
        if groups.pool[log.group[job]] == pool:
            free += log.cpus[job]
            if free >= need:
                return _expected_end(log, job), free - need
    return FAR, 0


@part
def _beside(log, centre, work, job, stretch):
    """Note at what levels of its owners a job waits with room, and once per owner how long that lasts."""
    dt = stretch.dt
    for k in range(log.kinds.size):
        kind = log.kinds[k]
        owner = log.owner[kind, job]
        if owner < 0:
            continue
        at_jobs = work.jobs_of[owner] >= centre.peak_jobs[owner]
        at_cpus = work.jobs_of[owner] > 0 and work.cpus_of[owner] + log.cpus[job] > centre.peak_cpus[owner]
        if at_jobs:  # memory that is not written takes no room
            work.kept[kind, job, 0] += dt
        if at_cpus:
            work.kept[kind, job, 1] += dt
        if work.seen[owner] != stretch.number:
            work.seen[owner] = stretch.number
            work.beside[0, owner] += dt
            work.beside[1, owner] += dt if at_jobs else 0
            work.beside[2, owner] += dt if at_cpus else 0


@part
def _end_spell(centre, work, job):
    """Book how long no cause applied to a job, up to now, to the pause and the unexplained."""
    lasted = work.stretch[job]
    if lasted > 0:
        n = work.counters[N_SPELLS]
        if n < work.spells.shape[0]:
            work.spells[n, 0], work.spells[n, 1] = job, lasted
        work.counters[N_SPELLS] = n + 1
        work.stretch[job] = 0
        paused = min(lasted, centre.pause[job])
        work.seconds[job, PAUSE] += paused
        work.seconds[job, UNEXPLAINED] += lasted - paused
        work.upper[PAUSE] += paused
        work.upper[UNEXPLAINED] += lasted
        work.lower[UNEXPLAINED] += lasted - paused


@part
def _book(centre, work, job, found, dt):
    """Book a stretch of a job's wait to the first of the causes found."""
    for cause in range(PAUSE):
        if (found >> cause) & 1:
            work.upper[cause] += dt
    first = 0
    while not (found >> first) & 1:
        first += 1
    work.seconds[job, first] += dt
    if found == 1 << first:
        work.lower[first] += dt
    if (found & ~INFERRED) == 0:
        work.upper[UNEXPLAINED] += dt
    _end_spell(centre, work, job)


@part
def _account(log, groups, centre, work, stretch):
    """Book a stretch, of each waiting job."""
    n, now, dt = log.submit.size, stretch.now, stretch.dt
    job, head, shadow, extra = work.following[n], -1, -1, 0
    while job != n:
        found = _causes(log, groups, centre, work, job, stretch)
        group = log.group[job]
        if head >= 0 and (found & NO_ROOM) == 0 and groups.pool[group] == groups.pool[log.group[head]]:
            if shadow < 0:
                shadow, extra = _shadow(log, groups, work, head)
            if now + log.limit[job] > shadow and log.cpus[job] > extra:
                found |= 1 << RESERVED
        if head < 0 and (found & NO_ROOM) != 0 and (found & ((1 << ELIGIBLE) | (1 << LIMIT))) == 0:
            head = job
        held = found & (NO_ROOM | (1 << ELIGIBLE) | (1 << LIMIT) | (1 << RESERVED) | (1 << OUTAGE))
        if held == 0 and work.kept.shape[1] > 0:
            _beside(log, centre, work, job, stretch)
        if found != 0:
            _book(centre, work, job, found, dt)
        else:
            work.stretch[job] += dt
        job = work.following[job]


@kernel
def sweep(log, groups, centre, work):
    """Book every wait of a log; ``work`` is modified."""
    n_events = log.event_at.size
    limited = False
    for owner in range(centre.max_jobs.size):
        limited = limited or min(centre.max_jobs[owner], centre.max_cpus[owner]) < FAR
    for i in range(n_events):
        now, event, about = log.event_at[i], log.event[i], np.int64(log.about[i])
        if event == ENDED:
            _run(log, groups, centre, work, about, 1)
        elif event == SUBMITTED:
            _join(log, groups, centre, work, about)
        elif event == STARTED:
            _quit(log, work, about)
            _end_spell(centre, work, about)
            if log.end[about] > log.start[about]:
                _run(log, groups, centre, work, about, -1)
        elif event == LEFT:
            _change(groups, centre, work, centre.outage_node[about], -1, 0, centre.outage_cpus[about])
        elif event == BACK:
            _change(groups, centre, work, centre.outage_node[about], -1, 0, -centre.outage_cpus[about])
        if i + 1 < n_events and log.event_at[i + 1] > now:
            _account(log, groups, centre, work, Stretch(now, log.event_at[i + 1] - now, i, limited))
