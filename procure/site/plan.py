"""The main scheduler's pass and backfill of policy slurm, as kernels."""

from __future__ import annotations

from procure.simulator.kernel import part
from procure.site.arrays import ALL_MEMORY, WHOLE
from procure.site.earliest import (
    add_closed,
    closed_from,
    earliest,
    is_counted,
    not_before,
    note_not_before,
    shut_others,
)
from procure.site.limits import DIFFERENT
from procure.site.needs import counted, taken
from procure.site.order import (
    array_full,
    barred,
    count_nodes,
    eligible,
    has_begun,
    known_as_barred,
    note_barred,
    note_eligible,
    over_chosen,
    sort_queue,
    unlicensed,
)
from procure.site.place import find, find_now
from procure.site.preempt import preempt, preemptors_first
from procure.site.room import join, note_limit, note_parts, when_room
from procure.site.sets import count
from procure.site.slices import clash, clear_slices, promise, rounded
from procure.site.work import (
    BY_PREEMPTION,
    LAST_BACKFILL,
    LATER,
    MOMENT,
    N_CHANGES,
    N_QUEUE,
    N_RUNNING,
    N_STARTS,
    N_TRIED,
    NEVER,
    NOW,
    OVER,
    SAME_UNTIL,
    SEEN_CHANGES,
    SORTED,
    USEFUL_UNTIL,
    WORD,
)


@part
def begin(own, job, n):
    """Start a job on the nodes that stand in ``chosen``."""
    work, jobs, limits = own.work, own.jobs, own.limits
    now = work.now[NOW]
    work.as_row[own.tables.job[job]] = job
    work.begun[job] = work.charged[job] = now
    work.bound[job] = 1
    work.begun_at[job] = work.now[MOMENT]
    work.preempted_at[job] = -1
    work.until[job] = now + jobs.limit[job]
    first = own.node_first[job]
    work.n_held[job], work.billed[job] = n, jobs.billing[job]
    for i in range(n):
        node = work.chosen[i]
        units = work.chosen_units[i] if jobs.flexible[job] else 1
        work.on[first + i], work.units[first + i] = node, units
        for what in range(work.free.shape[0]):
            work.free[what, node] -= taken(own, job, node, what, units)
        cpus, mem = counted(own, job, node, units), units * jobs.mem[job] + jobs.node_mem[job]
        if jobs.whole[job] == ALL_MEMORY:
            cpus, mem = jobs.cpus[job], own.nodes.mem[node]
        elif jobs.whole[job]:
            mem += (cpus - units * jobs.cpus[job]) * jobs.mem_per_cpu[job]
        work.billed[job] += cpus * jobs.per_cpu[job] + mem * jobs.per_mb[job]
        work.n_on[node] += 1
        join(own, first + i, node)
    note_parts(own, job)
    for i in range(limits.first[job], limits.first[job + 1]):
        row, amount = limits.row[i], work.amount[i]
        if limits.kind[row] == DIFFERENT:
            count_nodes(own, job, row, 1)
            continue
        work.used[0, row] += amount
        work.used[1, row] += amount * jobs.limit[job]
    if jobs.array[job] >= 0:
        work.array_running[jobs.array[job]] += 1
    work.n_of_rank[jobs.rank[job]] += 1
    n_running = work.now[N_RUNNING]
    note_limit(own, job, work.until[job], work.on[first] if n == 1 else -1, n_running)
    work.by_start[n_running] = job
    work.now[N_RUNNING] = n_running + 1
    work.starts[work.now[N_STARTS]] = job
    work.now[N_STARTS] += 1


@part
def _drop_begun(own):
    work = own.work
    kept = 0
    for i in range(work.now[N_QUEUE]):
        if not has_begun(own, work.queue[i]):
            work.queue[kept] = work.queue[i]
            kept += 1
    work.now[N_QUEUE] = kept


@part
def _may_overtake(own, job):
    """Say whether others may overtake a job: it is too young, or its priority too low, to reserve anything."""
    rules, work = own.rules, own.work
    return work.now[NOW] - work.eligible[job] < rules.bf_min_age or work.priority[job] < rules.bf_min_priority


@part
def _list_eligible(own):
    """List the jobs that may start as a pass begins, in order; what starts during it frees none for this pass."""
    work = own.work
    if not work.now[SORTED]:
        sort_queue(own)
    n = 0
    for i in range(work.now[N_QUEUE]):
        if eligible(own, work.queue[i]):
            note_eligible(own, work.queue[i])
            work.other_queue[n] = work.queue[i]
            n += 1
    if own.rules.preempts:
        preemptors_first(own, n)
    return n


@part
def _block_what_is_down(own):
    """Begin a pass of the main scheduler: nobody may use nodes that are drained or down; says whether some are."""
    work, spans, now, found = own.work, own.closed, own.work.now[NOW], False
    for word in range(work.blocked.size):
        work.blocked[word] = 0
    for i in range(spans.shape[0]):
        if spans[i, 3] < 0 and spans[i, 0] <= now < spans[i, 1]:
            work.blocked[spans[i, 2] // WORD] |= 1 << (spans[i, 2] % WORD)
            found = True
    return found


@part
def _block(own, partition):
    """Let no job start in a partition, or on its nodes, in this pass any more."""
    work = own.work
    work.partition_blocked[partition] = 1
    for word in range(work.blocked.size):
        work.blocked[word] |= own.tables.partition_words[partition, word]


@part
def _n_open(own, partition):
    """Count the nodes of a partition that jobs may use in this pass."""
    found = 0
    for word in range(own.work.blocked.size):
        found += count(own.tables.partition_words[partition, word] & ~own.work.blocked[word])
    return found


@part
def main_pass(own, full):
    """In order, start each job that finds nodes; the first of a partition that finds none blocks the partition.

    So does, under assoc_limit_stop, one above a limit; of limits that are compared before nodes only once, until it is
    known that they keep it.
    """
    work, jobs, rules = own.work, own.jobs, own.rules
    for i in range(work.partition_blocked.size):
        work.partition_blocked[i] = work.partition_count[i] = 0
    for i in range(work.reservation_blocked.size):
        work.reservation_blocked[i] = 0
    shut = _block_what_is_down(own)
    rejected_array, rejected_part, depth, n_begun = -1, -1, 0, work.now[N_STARTS]
    for i in range(_list_eligible(own)):
        job = work.other_queue[i]
        array, partition, reservation = jobs.array[job], jobs.partition[job], jobs.reservation[job]
        if (array >= 0 and array == rejected_array and partition == rejected_part) or has_begun(own, job):
            continue
        rejected_array, rejected_part = array, partition
        if array_full(own, job):
            continue
        if rules.partition_depth:
            work.partition_count[partition] += 1
            if work.partition_count[partition] > rules.partition_depth:
                continue
        depth += 1
        if not full and depth > rules.queue_depth + 1:
            break
        if reservation >= 0:
            if work.reservation_blocked[reservation]:
                continue
        elif work.partition_blocked[partition]:
            continue
        if known_as_barred(own, job) and note_barred(own, job):
            continue
        if shut and _n_open(own, partition) < jobs.least[job]:
            _block(own, partition)
            continue
        if unlicensed(own, job):
            continue
        n, over = 0, note_barred(own, job)
        if not over:
            for word in range(work.closed.size):
                work.closed[word] = work.blocked[word]
            add_closed(own, job, work.now[NOW], work.closed)
            n = find_now(own, job, work.closed, -1)
            over = over_chosen(own, job, n)
        if n > 0 and not over:
            begin(own, job, n)
            rejected_array = -1
            continue
        _note_tried(own, job, n)
        if over and not rules.limit_stops:
            continue
        if n == 0 and not over and (shut or own.closed.shape[0] > 0) and not _waits_for_others(own, job):
            continue
        if rules.preempts and not over:
            preempt(own, job, work.closed)
        if reservation >= 0:
            work.reservation_blocked[reservation] = 1
        elif not _may_overtake(own, job):
            _block(own, partition)
            shut = True
    if work.now[N_STARTS] > n_begun:
        _drop_begun(own)


@part
def _over_limits(own, job):
    """Count a job against backfill's limits; says whether one is reached."""
    work, rules, jobs = own.work, own.rules, own.jobs
    user, partition, row = jobs.user[job], jobs.partition[job], jobs.association[job]
    if (
        (rules.bf_max_user_partition and work.user_partition_count[user, partition] >= rules.bf_max_user_partition)
        or (rules.bf_max_partition and work.partition_count[partition] >= rules.bf_max_partition)
        or (rules.bf_max_association and work.association_count[row] >= rules.bf_max_association)
        or (rules.bf_max_user and work.user_count[user] >= rules.bf_max_user)
    ):
        return True
    work.user_partition_count[user, partition] += 1
    work.partition_count[partition] += 1
    work.association_count[row] += 1
    work.user_count[user] += 1
    return False


@part
def _sees_the_same(own, n):
    """Say whether a pass would promise what the last one promised, which started nothing; keeps what it looks at.

    That is so while nothing has started or ended, the same jobs are in the same order under the same limits, no
    running job's limit is over, and no time that the last pass compared with the moment has been reached.
    """
    work, same = own.work, own.work.now[SEEN_CHANGES] == own.work.now[N_CHANGES] and own.work.now[N_TRIED] == n
    for i in range(n):
        job = work.other_queue[i]
        is_barred = barred(own, job) if own.rules.limit_stops else note_barred(own, job)
        what = 8 * int(over_chosen(own, job, 0)) + 4 * int(is_barred) + 2 * int(unlicensed(own, job))
        what += 32 * job + 16 * int(array_full(own, job)) + int(_may_overtake(own, job))
        same = same and work.tried[i] == what
        work.tried[i] = what
    work.now[N_TRIED], work.now[SEEN_CHANGES] = n, work.now[N_CHANGES]
    return same and work.now[NOW] < work.now[SAME_UNTIL]


@part
def _note_pass(own, n_begun):
    """Note up to when the next pass would do as this one."""
    work = own.work
    work.now[SAME_UNTIL] = min(work.now[SAME_UNTIL], work.slice_begin[1])
    if work.now[N_RUNNING] > 0:
        work.now[SAME_UNTIL] = min(work.now[SAME_UNTIL], work.run_end[0])
    if n_begun > 0 or own.rules.preempts or own.closed.shape[0] > 0:
        work.now[SAME_UNTIL] = -NEVER


@part
def _clear(own):
    """Begin a pass of backfill: nothing is promised, nothing counted."""
    work = own.work
    work.now[SAME_UNTIL] = NEVER
    clear_slices(own)
    work.n_sure[0] = 0
    for i in range(work.user_count.size):
        work.user_count[i] = 0
        for k in range(work.partition_count.size):
            work.user_partition_count[i, k] = 0
    for k in range(work.partition_count.size):
        work.partition_count[k] = work.partition_reserved[k] = 0
    for i in range(work.association_count.size):
        work.association_count[i] = 0
    for i in range(work.array_reserved.size):
        work.array_reserved[i] = 0
    for i in range(work.qos_until.size):
        work.qos_until[i] = 0


@part
def _note_tried(own, job, n):
    """Keep how many CPUs a job would get of the nodes in ``chosen``; priority and limits count them from then on.

    So does Slurm 22.05 with each job that it tries; until then a job counts as what it asks for.
    """
    work, jobs, cpus = own.work, own.jobs, 0
    if n == 0 or jobs.grows[job] == 0:
        return
    for k in range(n):
        cpus += counted(own, job, work.chosen[k], work.chosen_units[k] if jobs.flexible[job] else 1)
    if cpus != work.would_get[job]:
        work.would_get[job] = cpus
        work.now[SAME_UNTIL] = -NEVER


@part
def try_submitted(own, job):
    """Try a job that is submitted, as Slurm does: a limit that keeps it is known at once, else what it would get.

    That is of nodes on which nothing runs; its first priority does not count it yet.
    """
    if own.rejected[job] or note_barred(own, job) or own.jobs.grows[job] == 0:
        return
    if own.tables.planned[job] >= 0:
        own.work.would_get[job] = own.tables.planned[job]
        return
    for word in range(own.work.closed.size):
        own.work.closed[word] = 0
    _note_tried(own, job, _find_if_empty(own, job))


@part
def _find_if_empty(own, job):
    """Find nodes that are not ``closed`` as if nothing ran."""
    work = own.work
    for node in range(work.n_on.size):
        work.future_on[node] = 0
        for what in range(work.free.shape[0]):
            work.future[what, node] = own.nodes.totals[what, node]
    return find(own, job, work.closed, work.future, work.future_on, -1)


@part
def _waits_for_others(own, job):
    """Say whether a job that found no nodes waits for others to end: else its nodes are ``closed``, and it blocks none.

    Slurm says "nodes busy" where some node that the job may use is taken, for a job that shares nodes by one that does
    not, or where the job would fit if nothing ran; else "node not available".
    """
    work, jobs = own.work, own.jobs
    shut_others(own, job, work.closed, -1)
    for node in range(work.n_on.size):
        if work.n_on[node] == 0 or work.shut[node // WORD] >> (node % WORD) & 1:
            continue
        if jobs.whole[job] == WHOLE or jobs.whole[own.tables.job_of[work.first_on[node]]] == WHOLE:
            return True
    return _find_if_empty(own, job) > 0


@part
def _last_that_matters(own, first, last):
    """Return the place of the last job of a pass, not before a first one, that may start or must be planned.

    Behind it promises decide nothing: they hold for the pass alone, and what is promised on the way leaves less room.

    Returns
    -------
    (int, int)
        The place, and how many idle nodes must be promised before that job may matter no longer.
    """
    spare = 0
    while last >= first and spare == 0:
        spare = _matters(own, own.work.other_queue[last])
        last -= spare == 0
    return last, spare


@part
def _matters(own, job):
    """Say whether a job may start now, by what is promised so far, or grows with the nodes that are planned for it.

    Returns
    -------
    int
        0 = neither; else how many idle nodes must be promised before that may be so.
    """
    work, now = own.work, own.work.now[NOW]
    if own.rules.preempts or not own.tables.plain[own.tables.shape[job]]:
        return NEVER
    if own.jobs.grows[job] and work.would_get[job] != own.tables.planned[job]:
        return NEVER
    if barred(own, job):
        return NEVER if own.rules.limit_stops and not known_as_barred(own, job) else 0
    if array_full(own, job) or unlicensed(own, job):
        return 0
    if is_counted(own, job) and not_before(own, job) > now:
        return 0
    closed_from(own, job, now, now + own.jobs.limit[job])
    if own.tables.alone[own.tables.shape[job]]:
        idle = 0
        for word in range(work.closed.size):
            idle += count(own.tables.holding[own.tables.kind[job], word] & ~work.closed[word] & work.idle[word])
        if idle < own.jobs.n_nodes[job] and is_counted(own, job):
            note_not_before(own, job, now + 1)
        return max(idle - own.jobs.n_nodes[job] + 1, 0)
    shut_others(own, job, work.closed, -1)
    work.now[USEFUL_UNTIL] = NEVER
    return int(when_room(own, job, work.closed, True)[1] > 0)


@part
def _n_lost(own, job, start, n):
    """Count those of the nodes in ``chosen`` on which a job could no longer start now if they are promised."""
    work, found = own.work, 0
    if rounded(own, start) > work.now[NOW] + own.jobs.limit[job]:
        return 0
    if not own.tables.alone[own.tables.shape[job]]:
        return n
    for k in range(n):
        found += work.idle[work.chosen[k] // WORD] >> (work.chosen[k] % WORD) & 1
    return found


@part
def _since(own, job):
    """Return when a job may start at the earliest in this pass, as its QOS allow (assoc_limit_stop)."""
    work, limits, since = own.work, own.limits, own.work.now[NOW]
    for i in range(limits.first[job] if own.rules.limit_stops else limits.first[job + 1], limits.first[job + 1]):
        if limits.of_qos[limits.row[i]] >= 0:
            since = max(since, work.qos_until[limits.of_qos[limits.row[i]]])
    return since


@part
def _when_limits_allow(own, job, n):
    """Return when nodes are promised to a job that only a limit keeps from starting, and how many: assoc_limit_stop.

    Slurm guesses the next moment at which promises change for the better, or 500 s; no job of a QOS whose limit it is
    starts before.
    """
    work, now = own.work, own.work.now[NOW]
    start, qos = work.now[LATER] if work.now[LATER] else now + 500, own.limits.of_qos[work.now[OVER]]
    work.now[SAME_UNTIL] = -NEVER
    if qos >= 0:
        work.qos_until[qos] = max(work.qos_until[qos], start)
    if start > now + own.rules.bf_window:
        return start, 0
    if clash(own, rounded(own, start), rounded(own, start + own.jobs.limit[job]), now, now, n) >= 0:
        return earliest(own, job, False, start)
    return start, n


@part
def backfill(own):
    """In order, give every job the earliest start that breaks no promise to one before it."""
    work, jobs, rules = own.work, own.jobs, own.rules
    now, tried, n_begun, rejected_array, rejected_part = work.now[NOW], 0, 0, -1, -1
    work.now[LAST_BACKFILL] = now
    last = _list_eligible(own) - 1
    if _sees_the_same(own, last + 1):
        return
    _clear(own)
    spare = 0
    for i in range(last + 1):
        if spare <= 0:
            last, spare = _last_that_matters(own, i, last)
        job = work.other_queue[i]
        if tried >= rules.bf_max_test or last < i:
            break
        array, partition = jobs.array[job], jobs.partition[job]
        if array >= 0 and array == rejected_array and partition == rejected_part:
            continue
        if has_begun(own, job) or array_full(own, job) or (not rules.limit_stops and barred(own, job)):
            continue
        if array >= 0 and work.array_reserved[array] >= rules.bf_max_array:
            continue
        rejected_array, rejected_part = array, partition
        if _over_limits(own, job) or unlicensed(own, job):
            continue
        only_now = _may_overtake(own, job)
        tried += 1
        start, n = earliest(own, job, only_now, _since(own, job))
        if n == 0:
            continue
        _note_tried(own, job, n)
        preempts = start <= now and work.now[BY_PREEMPTION] != 0
        over = start <= now and (note_barred(own, job) or over_chosen(own, job, 0 if preempts else n))
        if preempts and over:
            continue
        if over:
            start, n = _when_limits_allow(own, job, n) if rules.limit_stops and not only_now else (start, 0)
            if n == 0:
                continue
        if start <= now and not preempts:
            spare -= n
            begin(own, job, n)
            if jobs.whole[job] == WHOLE:
                promise(own, now, now + jobs.limit[job], n)
            rejected_array = -1
            n_begun += 1
            if 0 < rules.bf_max_start <= n_begun:
                break
            continue
        reserves = not only_now and (rules.limit_stops or not over_chosen(own, job, 0))
        if rules.bf_partition_reserves and reserves:
            reserves = work.partition_reserved[partition] < rules.bf_partition_reserves
            work.partition_reserved[partition] += int(reserves)
        if reserves:
            rejected_array = -1
            if array >= 0:
                work.array_reserved[array] += 1
            spare -= _n_lost(own, work.other_queue[last], start, n)
            promise(own, start, start + jobs.limit[job], n)
        if preempts:
            preempt(own, job, work.closed)
    _note_pass(own, n_begun)
    if n_begun > 0:
        _drop_begun(own)
