"""What policy slurm keeps during a run, as named tuples of numbers and arrays."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from procure.simulator.tasks import enough
from procure.site.arrays import WHOLE, Layout
from procure.site.closed import DOWN
from procure.site.fair_share import STARTED, decay_table
from procure.site.model import Site

WORD = 62
"""Nodes per word of a set of nodes."""
NEVER = 1 << 60
STAYS, GONE, ENDING = range(3)
"""What `Work.away` says of a running job: GONE = taken away for one test, ENDING = it gives way at this moment."""
KEPT_SEARCHES = 1 << 12
"""Searches of backfill for one node of which it is kept what they found."""
N_MARKS = 32
"""Parts of the running jobs, at most, of which it is kept which nodes they hold."""
N_SPANS = 96
"""Equal parts of backfill's window of which it is kept what is promised in them."""
MOST_KEPT = 1 << 22
"""Requests times nodes of which it is kept when they get room."""
BEFORE = 0.27
"""s; so much sooner backfill's periodic work begins than that of the main scheduler."""
BEYOND = 82
"""ms by which a job is over later than its run time after the moment of its start: Slurm begins and ends a sleep."""
MAIN_SLOW, BACKFILL_SLOW = 3_700, 1_200
"""Microseconds that main scheduler and backfill come later each second, by five controllers' logs (docs/claims)."""
_GOLDEN = (math.sqrt(5) - 1) / 2


class Rules(NamedTuple):
    """The site's numbers."""

    backfill: int
    main_at: int  # ms within a second at which priorities are computed and the main scheduler comes
    backfill_at: int  # the same of backfill
    queue_depth: int
    partition_depth: int
    sched_interval: int
    batch_delay: int
    limit_stops: int
    bf_interval: int
    bf_window: int
    bf_resolution: int
    bf_max_test: int
    bf_max_start: int
    bf_max_user: int
    bf_max_partition: int
    bf_max_association: int
    bf_max_user_partition: int
    bf_max_array: int
    bf_min_age: int
    bf_min_priority: int
    bf_partition_reserves: int
    basic: int
    weight_age: float
    weight_fair_share: float
    max_age: int
    calc_period: int
    min_interval: int  # s from one pass of the main scheduler to one that the end of a job brings
    tree: int  # leaf switches; 0 = no topology, or one alone
    preempts: int  # 1 = some job may end another
    youngest_first: int
    strict_order: int
    reorder_count: int
    patience: int
    requeue_delay: int
    clock: int  # s after the first submission when Slurm began to look for jobs that outlast their limits
    began: int  # Unix s of the first submission, modulo a day: rounding is to the clock's own minutes
    damping: float  # of the classic fair share; 0 = Fair Tree
    accrues_always: int  # 1 = age counts from the submission
    only_up: int  # 1 = a priority never falls
    linear: int  # 1 = nodes are taken as by select/linear
    uneven: int  # 1 = a job of nodes takes other CPUs of a node than it is counted for, as nodes differ or by CR_CPU
    cores_count: int  # 0 = no two jobs share a core, but limits, priorities, usage and memory count CPUs (CR_CPU)


class Work(NamedTuple):
    """What changes during a run; sets of nodes are words of `WORD` bits."""

    free: np.ndarray  # int64[3 + n_caps, n_nodes], as `Nodes.totals`
    future: np.ndarray  # int64[3 + n_caps, n_nodes], the same with running jobs taken away, for one test
    n_on: np.ndarray  # int64[n_nodes], jobs on each node
    future_on: np.ndarray  # int64[n_nodes]
    leaving: np.ndarray  # int64[n_jobs], jobs that have ended and still hold their nodes, in order
    closed: np.ndarray  # int64[n_words], scratch
    blocked: np.ndarray  # int64[n_words], scratch: nodes of blocked partitions
    queue: np.ndarray  # int64[n_jobs], waiting jobs in order
    other_queue: np.ndarray  # int64[n_jobs], scratch of the sort and of a pass
    running: np.ndarray  # int64[n_jobs], by the end of their limits
    run_node: np.ndarray  # int64[n_jobs], node of each of `running`; −1 = several
    run_end: np.ndarray  # int64[n_jobs], s, when the limit of each of `running` ends
    by_start: np.ndarray  # int64[n_jobs], running jobs in the order of their starts
    starts: np.ndarray  # int64[n_jobs], jobs that are to start at this moment
    priority: np.ndarray  # int64[n_jobs]
    would_get: np.ndarray  # int64[n_jobs], CPUs that a job that `grows` would get by its last test; 0 = none yet
    accrues: np.ndarray  # int64[n_jobs], s from which age counts; −1 = not yet
    begun: np.ndarray  # int64[n_jobs], s; −1 = not yet
    ended: np.ndarray  # int64[n_jobs], s; −1 = not yet
    begun_at: np.ndarray  # int64[n_jobs], ms within the second of its start at which a job began
    bound: np.ndarray  # int64[n_jobs], 1 = limits count the job
    charged: np.ndarray  # int64[n_jobs], s until which usage was added
    billed: np.ndarray  # float64[n_jobs], usage of each second
    on: np.ndarray  # int64[sum of n_nodes], nodes of each job
    used: np.ndarray  # float64[3, n_rows], of each limit: sum, sum times seconds left, minutes so far
    amount: np.ndarray  # float64[…], as `LimitRows.amount`; of CPUs of whole nodes those that were chosen
    jobs_on: np.ndarray  # int64[n_limits, n_nodes], jobs on each node that each limit on different nodes counts
    weight: np.ndarray  # int64[n_nodes], what nodes weigh for the job whose nodes are picked
    usage: np.ndarray  # float64[n_tree]
    level: np.ndarray  # float64[n_tree], Level FS; of the classic fair share the part of all use
    below: np.ndarray  # float64[n_tree + 1], usage of the children; the last is the root's
    fair_share: np.ndarray  # float64[n_users]
    array_running: np.ndarray  # int64[n_arrays]
    array_reserved: np.ndarray  # int64[n_arrays]
    partition_blocked: np.ndarray  # int64[n_partitions]
    reservation_blocked: np.ndarray  # int64[n_reservations + 1]
    partition_count: np.ndarray  # int64[n_partitions]
    partition_reserved: np.ndarray  # int64[n_partitions]
    user_count: np.ndarray  # int64[n_users]
    association_count: np.ndarray  # int64[n_tree]
    user_partition_count: np.ndarray  # int64[n_users, n_partitions]
    slice_begin: np.ndarray  # int64[n_slices + 1], of backfill's table, in order; behind the last its end
    slice_row: np.ndarray  # int64[n_slices], row in `promised` and so on of each slice
    loses: np.ndarray  # int64[n_slices], 1 + the first word of which the next slice promises less; 0 = none
    promised: np.ndarray  # int64[n_slices, n_words]
    version: np.ndarray  # int64[n_slices], number of the last change of what a row promises
    united: np.ndarray  # int64[N_SPANS, n_words], nodes promised at any time in each of the spans
    n_left: np.ndarray  # int64[n_slices, n_kinds], nodes of each kind of request that a row does not promise
    left_at: np.ndarray  # int64[n_slices, n_kinds], `version` of the row when they were counted
    idle_then: np.ndarray  # int64[n_slices, n_words], nodes that are idle when the slice ends, were nothing promised
    idle_at: np.ndarray  # int64[n_slices], s, end of the slice for which `idle_then` is; −1 = none yet
    n_slices: np.ndarray  # int64[1]
    sure_from: np.ndarray  # int64[n_shapes], s before which this pass has found no start for `sure_job`
    sure_job: np.ndarray  # int64[n_shapes]
    sure_place: np.ndarray  # int64[n_shapes], place of each shape in them
    n_sure: np.ndarray  # int64[1]
    tried: np.ndarray  # int64[n_jobs], of the jobs of the last pass of backfill: number, held, may be overtaken
    choice_word: np.ndarray  # int64[n_nodes], scratch: the chosen nodes as words
    choice_bits: np.ndarray  # int64[n_nodes]
    usable: np.ndarray  # int64[n_nodes], scratch of a choice
    run_first: np.ndarray  # int64[n_nodes + 1]
    run_done: np.ndarray  # int64[n_nodes], or the CPUs left of each run
    run_left: np.ndarray  # int64[n_nodes], CPUs left of each usable node
    run_heap: np.ndarray  # int64[n_nodes + 1], runs in the order in which they are taken where none is enough
    chosen: np.ndarray  # int64[n_nodes]
    in_choice: np.ndarray  # int64[n_words]
    of_groups: np.ndarray  # int64[n_words], scratch: nodes of all groups that a constraint counts
    shut: np.ndarray  # int64[n_words], scratch: nodes that a job may not use
    mine: np.ndarray  # int64[n_words], scratch: nodes of a job's partition that are up and not set aside for others
    first_on: np.ndarray  # int64[n_nodes], place in `on` of what leaves first of those on each node; −1 = none
    idle: np.ndarray  # int64[n_words], nodes on which nothing runs
    part_word: np.ndarray  # int64[sum of n_nodes], word of each part of the set of nodes of each job
    part_bits: np.ndarray  # int64[sum of n_nodes], the nodes of the part
    n_parts: np.ndarray  # int64[n_jobs], parts of the nodes of each running job
    held_by: np.ndarray  # int64[N_MARKS, n_words], nodes of each of equal parts of `running`
    marked: np.ndarray  # int64[N_MARKS + 1, n_words], idle nodes before each of them is gone
    open_words: np.ndarray  # int64[n_words], scratch
    next_on: np.ndarray  # int64[sum of n_nodes], place in `on` of what leaves next of the same node; −1 = none
    changed: np.ndarray  # int64[n_nodes], number of the last start or end on each node
    row_of: np.ndarray  # int64[n_rows], request of each row of `room_from`; −1 = none yet
    room_from: np.ndarray  # int64[n_rows, n_nodes], with whose turn to leave each node gets room for a request
    settled: np.ndarray  # int64[n_rows, n_nodes], `changed` of the node when that was so
    searched: np.ndarray  # int64[KEPT_SEARCHES, 5 + n_words], searches for one node: what, when, and what was found
    eligible: np.ndarray  # int64[n_jobs], s; `Requests.eligible` until a job is ended and waits again
    away: np.ndarray  # int64[n_jobs], of running jobs: `STAYS`, `GONE` or `ENDING`
    prey: np.ndarray  # int64[n_jobs], running jobs that the tested job may end, in order
    prey_nodes: np.ndarray  # int64[n_jobs], how many of their nodes the tested job would get; scratch
    rank_head: np.ndarray  # int64[n_ranks], scratch
    n_of_rank: np.ndarray  # int64[n_ranks], running jobs
    victims: np.ndarray  # int64[n_jobs], running jobs that are to be ended at this moment
    cut_short: np.ndarray  # int64[n_jobs], 1 = ended for another, 2 = by a node that went down; and over
    preempted_at: np.ndarray  # int64[n_jobs], s when a waiting job had others ended; −1 = not since it last ran
    restarts: np.ndarray  # int64[n_jobs], how often a job was ended and waited again
    lost: np.ndarray  # int64[n_jobs], s that such runs took
    until: np.ndarray  # int64[n_jobs], s when the limit of each running job ends; −1 = it is over, its nodes are free
    grace_end: np.ndarray  # int64[n_jobs], s when a running job that gives way has had its grace time; −1 = none
    units: np.ndarray  # int64[sum of n_nodes], tasks on each place of `on`; 1 of a job of nodes
    n_held: np.ndarray  # int64[n_jobs], places of `on` that each running job has
    chosen_units: np.ndarray  # int64[n_nodes], tasks on each node in `chosen`
    as_row: np.ndarray  # int64[n_jobs], row as which each job runs or ran; its own before
    barred: np.ndarray  # int64[n_jobs + n_arrays], 1 = a limit that is compared before nodes is why a job waits
    qos_until: np.ndarray  # int64[n_qos], s before which backfill starts no job of a QOS in this pass
    now: np.ndarray  # int64[41], see the constants


(
    NOW, N_QUEUE, N_RUNNING, N_STARTS, NEXT_START, N_LEAVING, N_SEEN, N_SUBMITTED, ASKED, LAST_SCHEDULE, LAST_FULL,
    LAST_CALC, LAST_BACKFILL, SORTED, SEEN_FIRST, N_PREY, N_VICTIMS, NEXT_VICTIM, DUE, BY_PREEMPTION, N_CHANGES,
    NEXT_FAILURE, UNASKED, LAST_PASS, REPORTED, N_IN_GRACE, N_ARRIVED, MOMENT, ASKED_FROM, USEFUL_UNTIL, N_VERSIONS,
    SAME_UNTIL, SEEN_CHANGES, N_TRIED, LAST_SLICE, SPAN, IN_BACKFILL, OVER, LATER,
    ALL_MINE, MARKED_CHANGES,
) = range(41)  # fmt: skip


class Tables(NamedTuple):
    """The layout with sets of nodes as words."""

    group_words: np.ndarray  # int64[n_groups, n_words]
    partition_words: np.ndarray  # int64[n_partitions, n_words]
    reservation_end: np.ndarray  # int64[n_reservations + 1], s
    changes: np.ndarray  # int64[n_changes], s at which nodes are drained, go down or come back, in order
    resv_ends: np.ndarray  # int64[n_ends], s at which reservations end, in order
    reach: np.ndarray  # int64[n_groups, n_words], `Places.reach`
    failures: np.ndarray  # int64[n_failures, 2], s and node that goes down, in order
    shape: np.ndarray  # int64[n_jobs], jobs of one shape are alike to backfill
    request: np.ndarray  # int64[n_jobs], number of what each job asks of a node
    search: np.ndarray  # int64[n_jobs], number of what each job asks of nodes, but for how many and how long
    job_of: np.ndarray  # int64[sum of n_nodes], job of each place in `Work.on`
    holding: np.ndarray  # int64[n_kinds, n_words], nodes that hold a job of the kind when they are empty
    kind: np.ndarray  # int64[n_jobs]
    alone: np.ndarray  # bool[n_shapes], it takes its nodes whole, and so does every job that may come onto one of them
    planned: np.ndarray  # int64[n_jobs], `Work.would_get` of a job once it is tried, −1 = it depends on its nodes
    plain: np.ndarray  # int64[n_shapes], 1 = all its nodes are of one group
    power: np.ndarray  # float64[calc_period + 1], what is left of usage after so many seconds
    order: np.ndarray  # int64[n_users], users in the last order of fair share
    leaf_of: np.ndarray  # int64[n_nodes], leaf switches in their order, from 0
    late: int  # ms from when limits count an ended job no longer until its nodes can be used again
    reports: np.ndarray  # bool[n_jobs], the end of each job brings a pass of the main scheduler at once
    job: np.ndarray  # int64[n_rows], job of each row: behind the jobs stand those for further partitions that they name
    more: np.ndarray  # int64[n_jobs + 1], further rows of job j: more[j] … more[j + 1]
    turn: np.ndarray  # int64[n_rows], place among rows of the same priority


class Own(NamedTuple):
    """All that policy slurm has."""

    rules: Rules
    nodes: tuple
    jobs: Any
    places: tuple
    limits: tuple
    tree: tuple
    closed: np.ndarray
    rejected: np.ndarray
    refused: np.ndarray
    node_first: np.ndarray
    tables: Tables
    work: Work


def words(masks: np.ndarray) -> np.ndarray:
    """Pack bool[n, n_nodes] into int64[n, n_words]."""
    n, n_nodes = masks.shape
    packed = np.zeros((n, -(-n_nodes // WORD)), np.int64)
    for node in range(n_nodes):
        packed[:, node // WORD] |= masks[:, node].astype(np.int64) << (node % WORD)
    return packed


def rules_of(site: Site, layout: Layout, began: int) -> Rules:
    """Return the site's numbers."""
    s, p, e, clock = site.scheduler, site.priority, site.preemption, site.latency.clock
    n_leaves, n_threads = (len(np.unique(each)) for each in (layout.nodes.leaf, layout.nodes.core))
    return Rules(
        int(s.backfill), math.floor(clock % 1 * 1000), math.floor((clock - BEFORE) % 1 * 1000),
        s.default_queue_depth, s.partition_job_depth, s.sched_interval, s.batch_sched_delay,
        int(s.assoc_limit_stop), s.bf_interval, s.bf_window, s.bf_resolution, s.bf_max_job_test,
        s.bf_max_job_start, s.bf_max_job_user, s.bf_max_job_part, s.bf_max_job_assoc, s.bf_max_job_user_part,
        s.bf_max_job_array_resv, s.bf_min_age_reserve, s.bf_min_prio_reserve, s.bf_job_part_count_reserve,
        int(p.type == "basic"), float(p.weight_age), float(p.weight_fair_share),
        p.max_age, p.calc_period,
        math.ceil(s.sched_min_interval - 1e-3), n_leaves if n_leaves > 1 else 0, int(layout.jobs.preempts.any()),
        int(e.youngest_first), int(e.strict_order), e.reorder_count, e.patience,
        e.requeue_delay, math.floor(clock), began % 86_400,
        float(p.damping) if "no_fair_tree" in p.flags else 0.0, int("accrue_always" in p.flags),
        int("incr_only" in p.flags), int(site.select.consume == "node"),
        int(n_threads > 1 or (site.select.consume == "cpu" and layout.nodes.core.max() > 1)),
        int(site.select.consume != "cpu"),
    )  # fmt: skip


def _holding(layout: Layout, of_shape: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which empty nodes hold a job of each shape, bool[n_shapes, n_nodes], and which shapes are of one group."""
    jobs, nodes, places = layout.jobs, layout.nodes, layout.places
    group = places.first[jobs.place[of_shape]]
    single = places.first[jobs.place[of_shape] + 1] - group == 1
    holding = places.nodes[group] & (nodes.totals[jobs.cap[of_shape]] >= jobs.cpus[of_shape][:, None])
    holding &= nodes.mem >= (jobs.mem + jobs.node_mem)[of_shape][:, None]
    holding &= enough(nodes.gpus, jobs.gpus[of_shape][:, None], nodes.guards)
    return holding, (single & (places.wanted[group] == 0) & (jobs.flexible[of_shape] == 0)).astype(np.int64)


def _alone(holding: np.ndarray, whole: np.ndarray, layout: Layout, of_shape: np.ndarray) -> np.ndarray:
    """Say of which shapes no node ever has two jobs: `Tables.alone`."""
    places = layout.places
    first, end = (places.first[layout.jobs.place[of_shape] + i] for i in (0, 1))
    shared = np.zeros(holding.shape[1], bool)
    for a, b in {(int(a), int(b)) for a, b in zip(first[~whole], end[~whole], strict=True)}:
        shared |= places.nodes[a:b].any(axis=0)
    return whole & ~(holding & shared).any(axis=1)


def _planned(layout: Layout, holding: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Return how many CPUs a job would get once it is tried: `Tables.planned`."""
    jobs, cpus = layout.jobs, layout.nodes.cpus
    most = np.where(holding, cpus, 0).max(axis=1)[shape]
    least = np.where(holding, cpus, np.iinfo(np.int64).max).min(axis=1)[shape]
    known = (jobs.whole == WHOLE) & (jobs.flexible == 0) & (most == least)
    return np.where(known, jobs.n_nodes * most, -1).astype(np.int64)


def _failures(layout: Layout) -> np.ndarray:
    """Return when which nodes go down, in order."""
    found = layout.closed[layout.closed[:, 3] == DOWN][:, [0, 2]]
    return np.ascontiguousarray(found[np.argsort(found[:, 0], kind="stable")])


def clocked(site: Site, began: int) -> Site:
    """Return a site with the clock of its last boot, by periods; ``began`` = first submission, Unix s, 0 = no dates."""
    booted = site.latency.booted
    if booted is None or not began:
        return site
    period = math.lcm(site.priority.calc_period, site.scheduler.bf_interval, site.scheduler.sched_interval)
    clock = -((began - booted - STARTED) % period)
    return site.model_copy(update={"latency": site.latency.model_copy(update={"clock": clock})})


def _reports(site: Site, n_jobs: int) -> np.ndarray:
    """Return which ends bring a pass, bool[n_jobs].

    A node answers the message that ends a job, and the next periodic pass sees the end; or it has still work to do, as
    with an epilog always, and reports the end itself: the main scheduler then runs at once, unless ``defer`` is set.
    Which nodes are late is chance: multiples of the golden ratio spread them evenly over the jobs.
    """
    share = 0.0 if site.scheduler.defer else site.latency.pass_at_end
    return np.arange(1, n_jobs + 1) * _GOLDEN % 1 < share


def _turns(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Return `Tables.more` and `Tables.turn`: tasks of an array are all tried in one partition, then in the next."""
    job, array, n = layout.job, layout.jobs.array, len(layout.refused)
    more = n + np.concatenate([[0], np.cumsum(np.bincount(job[n:], minlength=n))])
    nth = np.arange(len(job)) - np.where(np.arange(len(job)) < n, np.arange(len(job)), more[job] - 1)
    several = np.isin(array, array[n:]) & (array >= 0)
    first = np.full(len(layout.jobs.array_limit) + 1, n)
    np.minimum.at(first, array, job)
    head = np.where(several, first[array], job)
    return more, np.argsort(np.lexsort((job, nth, head)))


def own_of(site: Site, layout: Layout, began: int) -> Own:
    """Lay out what a run of policy slurm needs."""
    site = clocked(site, began)
    n_jobs, n_nodes = len(layout.jobs.submit), len(layout.nodes.cpus)
    n_words, n_rows, n_tree = -(-n_nodes // WORD), len(layout.limits.bound), len(layout.tree.parent)
    n_partitions, n_arrays = len(layout.partition_nodes), len(layout.jobs.array_limit)
    n_users = int(layout.jobs.user.max()) + 1
    n_promises = min(site.scheduler.bf_max_job_test, n_jobs)
    n_slices = 2 * n_promises + 4
    jobs = layout.jobs
    preempts = int(jobs.preempts.any())
    alike = [
        jobs.limit, jobs.n_nodes, jobs.cpus, jobs.mem, jobs.gpus, jobs.whole, jobs.lln, jobs.place, jobs.reservation,
        jobs.flexible, jobs.units, jobs.least, jobs.want, jobs.most, jobs.even, jobs.node_mem, jobs.node_gpus,
        jobs.own_cores, jobs.in_order, layout.limits.nodes_of,
    ]  # fmt: skip
    alike += [jobs.rank, jobs.partition] if preempts else []
    _, of_shape, shape = np.unique(np.stack(alike), axis=1, return_index=True, return_inverse=True)
    shape = shape.reshape(-1).astype(np.int64)
    rules = rules_of(site, layout, began)
    of_node = [jobs.cpus, jobs.mem, jobs.gpus, jobs.whole, jobs.cap]
    of_node += [jobs.own_cores, jobs.step, jobs.mem_per_cpu] if rules.uneven else []
    _, request = np.unique(np.stack(of_node), axis=1, return_inverse=True)
    request = request.reshape(-1).astype(np.int64)
    asked = np.stack([request, jobs.lln, jobs.place, jobs.mem_per_cpu, jobs.in_order, layout.limits.nodes_of])
    search = np.unique(asked, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)
    n_kept = min(int(request.max()) + 1, max(MOST_KEPT // n_nodes, 1))
    n_places = int(jobs.n_nodes.sum())
    holding, plain = _holding(layout, of_shape)
    _, of_kind, kind = np.unique(np.packbits(holding, axis=1), axis=0, return_index=True, return_inverse=True)
    n_kinds, n_shapes = len(of_kind), len(of_shape)

    def ints(*size: int) -> np.ndarray:
        return np.zeros(size, np.int64)

    def none(*size: int) -> np.ndarray:
        return np.full(size, -1, np.int64)

    totals = layout.nodes.totals
    now = ints(MARKED_CHANGES + 1)
    now[MARKED_CHANGES] = -1
    latency = site.latency
    now[ASKED] = 1  # the nodes have just registered
    now[[NOW, LAST_PASS, LAST_SCHEDULE, LAST_FULL, LAST_CALC, ASKED_FROM]] = math.floor(latency.clock)
    now[LAST_BACKFILL] = math.floor(latency.clock - BEFORE)
    tree = layout.tree
    work = Work(
        totals.copy(), totals.copy(), ints(n_nodes), ints(n_nodes), ints(n_jobs), ints(n_words), ints(n_words),
        ints(n_jobs), ints(n_jobs), ints(n_jobs), ints(n_jobs), ints(n_jobs),
        ints(n_jobs), ints(n_jobs), ints(n_jobs), ints(n_jobs),
        none(n_jobs), none(n_jobs), none(n_jobs), ints(n_jobs), ints(n_jobs), ints(n_jobs), np.zeros(n_jobs),
        ints(n_places),
        np.zeros((3, n_rows)), layout.limits.amount.copy(), ints(int((layout.limits.place >= 0).sum()), n_nodes),
        layout.nodes.weight.copy(),
        tree.usage.copy(), np.zeros(n_tree), np.zeros(n_tree + 1), np.ones(len(tree.path)),
        ints(n_arrays), ints(n_arrays), ints(n_partitions), ints(int(jobs.reservation.max()) + 2), ints(n_partitions),
        ints(n_partitions), ints(n_users), ints(n_tree), ints(n_users, n_partitions),
        ints(n_slices + 1), ints(n_slices), ints(n_slices), ints(n_slices, n_words), ints(n_slices),
        ints(N_SPANS, n_words), ints(n_slices, n_kinds), none(n_slices, n_kinds),
        ints(n_slices, n_words), none(n_slices), ints(1), ints(n_shapes), ints(n_shapes), ints(n_shapes), ints(1),
        ints(n_jobs), ints(n_nodes), ints(n_nodes),
        ints(n_nodes), ints(n_nodes + 1), ints(n_nodes), ints(n_nodes + 1),
        ints(n_nodes), ints(n_nodes), ints(n_words), ints(n_words), ints(n_words), ints(n_words), none(n_nodes),
        words(np.ones((1, n_nodes), bool))[0], ints(n_places), ints(n_places), ints(n_jobs),
        ints(N_MARKS, n_words), ints(N_MARKS + 1, n_words), ints(n_words),
        none(n_places), ints(n_nodes),
        none(n_kept), ints(n_kept, n_nodes), ints(n_kept, n_nodes), none(KEPT_SEARCHES, 5 + n_words),
        jobs.eligible.copy(), ints(n_jobs), ints(n_jobs), ints(n_jobs), ints(len(jobs.preempts)),
        ints(len(jobs.preempts)),
        ints(n_jobs), ints(n_jobs), none(n_jobs), ints(n_jobs), ints(n_jobs), ints(n_jobs), none(n_jobs),
        ints(n_places), ints(n_jobs), ints(n_nodes), np.arange(len(layout.refused)),
        ints(n_jobs + n_arrays), ints(int(layout.limits.of_qos.max(initial=-1)) + 1), now,
    )  # fmt: skip
    leaf_of = np.unique(layout.nodes.leaf, return_inverse=True)[1]
    changes = np.unique(layout.closed[layout.closed[:, 3] < 0, :2])
    resv_ends = np.unique(layout.closed[layout.closed[:, 3] >= 0, 1])
    tables = Tables(
        words(layout.places.nodes), words(layout.partition_nodes), layout.reservation_end, changes,
        resv_ends, words(layout.places.reach),
        _failures(layout), shape, request, search, np.repeat(np.arange(len(shape)), jobs.n_nodes),
        words(holding[of_kind]), kind.reshape(-1).astype(np.int64)[shape],
        _alone(holding, jobs.whole[of_shape] != 0, layout, of_shape), _planned(layout, holding, shape), plain,
        decay_table(site), np.arange(len(tree.path)), leaf_of.astype(np.int64), round(latency.job_end * 1000),
        _reports(site, n_jobs), layout.job, *_turns(layout),
    )  # fmt: skip
    return Own(
        rules,
        layout.nodes,
        jobs,
        layout.places,
        layout.limits,
        tree,
        layout.closed,
        layout.rejected,
        layout.refused,
        np.concatenate([[0], np.cumsum(jobs.n_nodes)]).astype(np.int64),
        tables,
        work,
    )
