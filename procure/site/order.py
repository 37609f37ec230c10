"""Who is next under policy slurm: fair share, priority and the order of the queue, as kernels."""

from __future__ import annotations

import math

from procure.simulator.kernel import part
from procure.site.limits import ALONE, DIFFERENT, LICENSE, MINUTES, RUN_MINUTES, USED
from procure.site.needs import counted
from procure.site.work import LAST_CALC, N_QUEUE, N_RUNNING, NEVER, NOW, OVER, SAME_UNTIL, SORTED

ROUNDING = 1e-6
"""min; sums of products of fractions are a little less than they should be."""


@part
def eligible(own, job):
    """Say whether a job's begin time has come, its reservation is not over and what it depends on has happened."""
    work, jobs = own.work, own.jobs
    now, reservation = work.now[NOW], jobs.reservation[job]
    if work.eligible[job] > now or (reservation >= 0 and own.tables.reservation_end[reservation] <= now):
        return False
    met, either = True, 0
    for i in range(jobs.on_first[job], jobs.on_first[job + 1]):
        if jobs.on_either[i] != either:
            if met:
                return True
            met, either = True, jobs.on_either[i]
        other = jobs.on[i]
        if met and not own.refused[other]:
            as_row = work.as_row[other]
            if jobs.on_start[i]:
                met = work.begun[as_row] >= 0
            else:
                met = work.ended[as_row] >= 0 and work.until[as_row] < 0
    return met


@part
def has_begun(own, job):
    """Say whether a job has begun, in this partition or in another that it names."""
    return own.work.begun[own.work.as_row[own.tables.job[job]]] >= 0


@part
def charge(own, job, until):
    """Add a running job's use since the last time to its user and the accounts above, decayed."""
    work, jobs, limits = own.work, own.jobs, own.limits
    delta = until - max(work.begun[job], work.charged[job])
    work.charged[job] = until
    if delta <= 0:
        return
    left = own.tables.power[min(delta, own.tables.power.size - 1)]
    amount = delta * left * work.billed[job]
    row = jobs.association[job]
    while row >= 0:
        work.usage[row] += amount
        row = own.tree.parent[row]
    for i in range(limits.first[job], limits.first[job + 1]):
        row = limits.row[i]
        work.used[2, row] += delta * (1.0 if limits.lasting[row] else left) * work.amount[i] / 60
        if work.bound[job]:
            work.used[1, row] -= delta * work.amount[i]


@part
def _levels(own):
    """Set each row's Level FS: its share among its siblings over its part of their use."""
    work, tree = own.work, own.tree
    n = work.level.size
    for row in range(n + 1):
        work.below[row] = 0.0
    for row in range(n):
        above = tree.parent[row]
        work.below[n if above < 0 else above] += work.usage[row]
    for row in range(n):
        above = tree.parent[row]
        total = work.below[n] if above < 0 else work.usage[above]
        used = work.usage[row] / total if total > 0 else 0.0
        if tree.share[row] < 0:
            work.level[row] = math.inf
        elif tree.share[row] == 0:
            work.level[row] = 0.0
        else:
            work.level[row] = tree.share[row] / used if used > 0 else math.inf


@part
def _compared(own, a, b):
    """Compare two users by their paths: 1 if the first is served before the second, −1 after, 0 equal."""
    path, level = own.tree.path, own.work.level
    for depth in range(path.shape[1]):
        x = level[path[a, depth]] if path[a, depth] >= 0 else math.inf
        y = level[path[b, depth]] if path[b, depth] >= 0 else math.inf
        if x > y:
            return 1
        if x < y:
            return -1
    return 0


@part
def note_use(own, users):
    """Set the part of all use of each account, or user, in ``level``."""
    work, tree, total = own.work, own.tree, 0.0
    for row in range(work.usage.size):
        total += work.usage[row] if tree.parent[row] < 0 else 0.0
    for row in range(work.usage.size):
        if (tree.user_of[row] >= 0) == users:
            work.level[row] = work.usage[row] / total if total > 0 else 0.0


@part
def _classic_shares(own):
    """Give each user 2 to the minus effective use over normal shares (Slurm's page *Classic Fairshare Algorithm*)."""
    work, tree = own.work, own.tree
    for user in range(tree.path.shape[0]):
        use, shares = 0.0, 1.0
        for depth in range(tree.path.shape[1]):
            row = tree.path[user, depth]
            if row >= 0 and tree.share[row] >= 0:
                above = use if depth > 0 else work.level[row]
                use = work.level[row] + (above - work.level[row]) * tree.share[row]
                shares *= tree.share[row]
        work.fair_share[user] = 2.0 ** (-use / shares / own.rules.damping) if shares > 0 else 0.0


@part
def fair_shares(own):
    """Rank the users; what each gets is the share of users that are not served before it."""
    if own.rules.damping > 0:
        note_use(own, True)
        _classic_shares(own)
        return
    _levels(own)
    order = own.tables.order
    n = order.size
    for i in range(1, n):
        user, j = order[i], i
        while j > 0 and _compared(own, user, order[j - 1]) > 0:
            order[j] = order[j - 1]
            j -= 1
        order[j] = user
    before = 0
    for i in range(n):
        if i > 0 and _compared(own, order[i], order[i - 1]) != 0:
            before = i
        own.work.fair_share[order[i]] = (n - before) / n


@part
def note_eligible(own, job):
    """Let a job that may start gain age: since its begin time or, where it depends on others, since this is seen."""
    work, jobs = own.work, own.jobs
    if work.accrues[job] < 0:
        depends = jobs.on_first[job] < jobs.on_first[job + 1]
        work.accrues[job] = max(work.eligible[job], work.now[NOW] if depends else 0)


@part
def set_priority(own, job):
    """Compute a waiting job's priority."""
    work, jobs, rules = own.work, own.jobs, own.rules
    if rules.basic:
        work.priority[job] = int(jobs.base[job])
        return
    age, now = 0.0, work.now[NOW]
    if eligible(own, job):
        note_eligible(own, job)
    if rules.accrues_always and work.accrues[job] < 0:
        work.accrues[job] = now
    if work.accrues[job] >= 0:
        age = min(max(now - work.accrues[job], 0) / rules.max_age, 1.0)
    share = work.fair_share[own.tree.user_of[jobs.association[job]]]
    value = (
        rules.weight_age * age
        + rules.weight_fair_share * share
        + jobs.base[job]
        + jobs.per_size[job] * max(work.would_get[job] - jobs.size[job], 0.0)
    )
    least = work.priority[job] if rules.only_up else 1
    work.priority[job] = max(int(value), least, 1)


@part
def decay(own, at):
    """Let usage decay up to a moment, add what ran since, and compute all priorities again."""
    work = own.work
    work.now[LAST_CALC] = at
    if own.rules.damping > 0:
        note_use(own, False)  # Slurm reckons what accounts have used before it adds what ran since
    kept = own.tables.power[own.rules.calc_period]
    for row in range(work.usage.size):
        work.usage[row] *= kept
    for row in range(work.used.shape[1]):
        if not own.limits.lasting[row]:
            work.used[2, row] *= kept
    for i in range(work.now[N_RUNNING]):
        if work.begun[work.by_start[i]] < at:
            charge(own, work.by_start[i], at)
    fair_shares(own)
    for i in range(work.now[N_QUEUE]):
        set_priority(own, work.queue[i])
    work.now[SORTED] = 0


@part
def before(own, a, b):
    """Say whether a job stands before another in the queue."""
    jobs, work = own.jobs, own.work
    if (jobs.reservation[a] < 0) != (jobs.reservation[b] < 0):
        return jobs.reservation[a] >= 0
    if jobs.tier[a] != jobs.tier[b]:
        return jobs.tier[a] > jobs.tier[b]
    if work.priority[a] != work.priority[b]:
        return work.priority[a] > work.priority[b]
    return own.tables.turn[a] < own.tables.turn[b]


@part
def sort_queue(own):
    """Bring the queue into order, by merging ever longer parts."""
    work = own.work
    n, queue, other = work.now[N_QUEUE], work.queue, work.other_queue
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            i, j = low, middle
            for k in range(low, high):
                if i < middle and (j >= high or not before(own, queue[j], queue[i])):
                    other[k] = queue[i]
                    i += 1
                else:
                    other[k] = queue[j]
                    j += 1
        for k in range(n):
            queue[k] = other[k]
        width *= 2
    work.now[SORTED] = 1


@part
def enqueue(own, job):
    """Put a job among the waiting ones, once for each partition that it names and that takes it."""
    more = own.tables.more
    if not own.rejected[job]:
        _enqueue_row(own, job)
    for row in range(more[job], more[job + 1]):
        if not own.rejected[row]:
            _enqueue_row(own, row)


@part
def _enqueue_row(own, job):
    work = own.work
    set_priority(own, job)
    n = work.now[N_QUEUE]
    work.now[N_QUEUE] = n + 1
    work.queue[n] = job
    if work.now[SORTED]:
        place = n
        while place > 0 and before(own, job, work.queue[place - 1]):
            work.queue[place] = work.queue[place - 1]
            place -= 1
        work.queue[place] = job


@part
def array_full(own, job):
    """Say whether as many tasks of a job's array run as may (sbatch --array=…%k)."""
    array = own.jobs.array[job]
    return array >= 0 and 0 < own.jobs.array_limit[array] <= own.work.array_running[array]


@part
def barred(own, job):
    """Say whether a limit keeps a job that Slurm compares before it looks for nodes: of jobs, of use so far.

    ``OVER`` is then that limit.
    """
    limits = own.limits
    for i in range(limits.first[job], limits.first[job + 1]):
        row = limits.row[i]
        early = limits.binds[i] and not limits.late[row] and limits.kind[row] != LICENSE
        if early and _exceeds(own, job, row, limits.asked[i]):
            own.work.now[OVER] = row
            return True
    return False


@part
def known_as_barred(own, job):
    """Say whether such a limit was the reason for which a job waits when it was last tried, or a task of its array."""
    return own.work.barred[_record(own, job)] == 1


@part
def note_barred(own, job):
    """Say whether such a limit keeps a job, and note it as the reason for which it waits."""
    own.work.barred[_record(own, job)] = found = int(barred(own, job))
    return found == 1


@part
def _record(own, job):
    """Return the number of Slurm's record of a waiting job; the tasks of an array share one."""
    array = own.jobs.array[job]
    return own.work.begun.size + array if array >= 0 else own.tables.job[job]


@part
def unlicensed(own, job):
    """Say whether too few licences are free for a job."""
    limits = own.limits
    for i in range(limits.first[job], limits.first[job + 1]):
        row = limits.row[i]
        if limits.kind[row] == LICENSE and _exceeds(own, job, row, limits.asked[i]):
            return True
    return False


@part
def _exceeds(own, job, row, amount):
    """Say whether so much more of a job would exceed a limit.

    Minutes count whole, and those that running jobs have left as when priorities were last computed: Slurm's own
    reckoning.
    """
    work, jobs, limits = own.work, own.jobs, own.limits
    used = 0.0 if limits.kind[row] == ALONE else work.used[0, row]
    value = used + amount
    if limits.kind[row] == USED:
        return math.floor(work.used[2, row]) >= limits.bound[row]
    if limits.kind[row] == RUN_MINUTES or limits.kind[row] == MINUTES:
        value = math.floor(work.used[1, row] / 60 + ROUNDING) + amount * jobs.limit[job] / 60
        if limits.kind[row] == MINUTES:
            value += math.floor(work.used[2, row])
    return value > limits.bound[row]


@part
def over_chosen(own, job, n):
    """Say whether a job would exceed a limit on TRES with the nodes in ``chosen``: Slurm looks once it chose.

    Where there are none (n = 0), or for a later start, it counts the CPUs that the job would have got when it was last
    tried, and all its nodes as new.
    ``OVER`` is then the first limit that it would exceed.
    """
    work, jobs, limits = own.work, own.jobs, own.limits
    for i in range(limits.first[job], limits.first[job + 1]):
        row, different = limits.row[i], 0
        work.now[OVER] = row
        if limits.kind[row] == DIFFERENT:
            if n == 0:
                different = jobs.least[job]
            for k in range(n):
                different += work.jobs_on[limits.place[row], work.chosen[k]] == 0
            if limits.binds[i] and work.used[0, row] + different > limits.bound[row]:
                return True
        elif limits.late[row]:
            amount = limits.asked[i]
            if amount != limits.amount[i]:  # CPUs of whole nodes, or of whole cores
                if n > 0:
                    work.now[SAME_UNTIL] = -NEVER
                    amount = 0
                    for k in range(n):
                        amount += counted(own, job, work.chosen[k], work.chosen_units[k] if jobs.flexible[job] else 1)
                    work.amount[i] = amount
                elif work.would_get[job] > 0:
                    amount = work.would_get[job]
            if limits.binds[i] and _exceeds(own, job, row, amount):
                return True
    return False


@part
def count_nodes(own, job, row, by):
    """Let a limit on different nodes count those of a job (1), or count them no longer (−1)."""
    work, place = own.work, own.limits.place[row]
    for k in range(own.node_first[job], own.node_first[job] + work.n_held[job]):
        before = work.jobs_on[place, work.on[k]]
        work.jobs_on[place, work.on[k]] += by
        work.used[0, row] += int(before + by > 0) - int(before > 0)
