"""What happens around the passes of policy slurm: ends, submissions, failures, and when each pass comes: kernels."""

from __future__ import annotations

from procure.simulator.kernel import part, remove
from procure.site.clocks import at_backfill, at_main, free_at, over_at
from procure.site.limits import DIFFERENT
from procure.site.needs import taken
from procure.site.order import charge, count_nodes, decay, eligible, enqueue
from procure.site.plan import backfill, main_pass, try_submitted
from procure.site.preempt import end_at_once, n_in
from procure.site.room import part_from
from procure.site.work import (
    ASKED,
    ASKED_FROM,
    DUE,
    ENDING,
    IN_BACKFILL,
    LAST_BACKFILL,
    LAST_CALC,
    LAST_FULL,
    LAST_PASS,
    LAST_SCHEDULE,
    MOMENT,
    N_ARRIVED,
    N_IN_GRACE,
    N_LEAVING,
    N_QUEUE,
    N_RUNNING,
    N_SEEN,
    N_STARTS,
    N_SUBMITTED,
    N_VICTIMS,
    NEVER,
    NEXT_FAILURE,
    NEXT_START,
    NEXT_VICTIM,
    NOW,
    REPORTED,
    STAYS,
    UNASKED,
    WORD,
)

BY_FAILURE = 2
"""What `Work.cut_short` says of a job whose node went down."""
LIMIT_CHECK = 30
"""s; so often Slurm looks for jobs whose limit or grace time is over (its PERIODIC_TIMEOUT)."""


@part
def _remove(jobs, n, job):
    """Take a job out of a list; returns where it stood."""
    place = 0
    while jobs[place] != job:
        place += 1
    remove(jobs, n, place)
    return place


@part
def _unbind(own, job):
    """Let limits count a job no longer."""
    work, limits = own.work, own.limits
    work.bound[job] = 0
    for i in range(limits.first[job], limits.first[job + 1]):
        row, amount = limits.row[i], work.amount[i]
        if limits.kind[row] == DIFFERENT:
            count_nodes(own, job, row, -1)
            continue
        work.used[0, row] -= amount
        work.used[1, row] -= amount * (own.jobs.limit[job] - (work.charged[job] - work.begun[job]))


@part
def _finish(own, job, until):
    """Free what a job held; it used that up to a second."""
    work, jobs = own.work, own.jobs
    place = _remove(work.running, work.now[N_RUNNING], job)
    remove(work.run_end, work.now[N_RUNNING], place)
    remove(work.run_node, work.now[N_RUNNING], place)
    _remove(work.by_start, work.now[N_RUNNING], job)
    work.now[N_RUNNING] -= 1
    charge(own, job, until)
    if work.bound[job]:
        _unbind(own, job)
    for k in range(own.node_first[job], own.node_first[job] + work.n_held[job]):
        node = work.on[k]
        for what in range(work.free.shape[0]):
            work.free[what, node] += taken(own, job, node, what, work.units[k])
        work.n_on[node] -= 1
        part_from(own, k, node)
    if jobs.array[job] >= 0:
        work.array_running[jobs.array[job]] -= 1
    work.n_of_rank[jobs.rank[job]] -= 1
    work.until[job] = -1
    work.now[N_IN_GRACE] -= work.grace_end[job] >= 0
    work.grace_end[job] = -1


@part
def see_ended(state, own):
    """Note what has ended: Slurm hears of an end late."""
    work, now = own.work, state.now[0]
    n = work.now[N_LEAVING]
    while work.now[N_SEEN] < state.n_ended[0]:
        job = work.as_row[state.ended[work.now[N_SEEN]]]
        work.now[N_SEEN] += 1
        if work.away[job] == ENDING:  # `clear_away` frees what it held
            continue
        work.ended[job] = now
        work.leaving[n] = job
        n += 1
    work.now[N_LEAVING] = n


@part
def _ask(own, second):
    """Ask for a pass of the main scheduler, which may see it from a second on."""
    now = own.work.now
    if now[ASKED] == 0:
        now[ASKED], now[ASKED_FROM] = 1, second


@part
def _take_in(own, at):
    """Free what those held whose nodes are free by a moment, ms, and let those wait who are submitted by then."""
    work, kept, now = own.work, 0, own.work.now[NOW]
    may_see = now + int(at > now * 1000 + at_main(own, now))
    for i in range(work.now[N_LEAVING]):
        job = work.leaving[i]
        if work.bound[job] and over_at(own, job) <= at:
            _unbind(own, job)
            if not own.tables.reports[job]:
                _ask(own, may_see)
        if free_at(own, job) <= at:
            _finish(own, job, over_at(own, job) // 1000)
            if own.tables.reports[job]:
                work.now[REPORTED] = 1
            else:
                _ask(own, may_see)
        else:
            work.leaving[kept] = job
            kept += 1
    work.now[N_LEAVING] = kept
    while work.now[N_SUBMITTED] < work.now[N_ARRIVED] and own.jobs.submit[work.now[N_SUBMITTED]] * 1000 <= at:
        job = work.now[N_SUBMITTED]
        work.now[N_SUBMITTED] += 1
        _ask(own, may_see)
        enqueue(own, job)
        try_submitted(own, job)
        for row in range(own.tables.more[job], own.tables.more[job + 1]):
            try_submitted(own, row)


@part
def _see(own, at):
    """Take in what happens up to a moment, ms, and compute priorities anew when that is due."""
    work, rules = own.work, own.rules
    calc = work.now[LAST_CALC] + rules.calc_period
    while calc * 1000 + rules.main_at <= at:
        _take_in(own, calc * 1000 + rules.main_at)
        decay(own, calc)
        calc += rules.calc_period
    _take_in(own, at)


@part
def _fail_nodes(own):
    """Let the jobs on nodes that go down at this moment end (slurm.conf(5), JobRequeue)."""
    work, failures, now = own.work, own.tables.failures, own.work.now[NOW]
    i = work.now[NEXT_FAILURE]
    if i == failures.shape[0] or failures[i, 0] > now:
        return
    for word in range(work.in_choice.size):
        work.in_choice[word] = 0
    while i < failures.shape[0] and failures[i, 0] <= now:
        if failures[i, 0] == now:  # what began before the first submission found nothing running
            node = failures[i, 1]
            work.in_choice[node // WORD] |= 1 << (node % WORD)
        i += 1
    work.now[NEXT_FAILURE] = i
    for k in range(work.now[N_RUNNING]):
        job = work.by_start[k]
        if work.ended[job] < 0 and n_in(own, job, work.in_choice) > 0:
            end_at_once(own, job)
            work.cut_short[job] = BY_FAILURE
            work.now[UNASKED] = 1


@part
def _end_graces(own):
    """End the jobs whose grace time is over, if it is the moment at which Slurm looks at limits."""
    work, now = own.work, own.work.now[NOW]
    if work.now[N_IN_GRACE] == 0 or (now - own.rules.clock) % LIMIT_CHECK:
        return
    for k in range(work.now[N_RUNNING]):
        job = work.by_start[k]
        if 0 <= work.grace_end[job] <= now and work.ended[job] < 0 and work.away[job] != ENDING:
            end_at_once(own, job)
            work.now[UNASKED] = 1


@part
def waits_again(own, job):
    """Say whether a job that is ended at this moment waits again."""
    return own.jobs.requeue[job] if own.work.cut_short[job] == BY_FAILURE else own.jobs.again[job]


@part
def _backfill_if_due(own):
    """Run backfill every ``bf_interval``, also while nothing waits."""
    work = own.work
    if own.rules.backfill and work.now[NOW] - work.now[LAST_BACKFILL] >= own.rules.bf_interval:
        if work.now[N_QUEUE] > 0:
            work.now[IN_BACKFILL] = 1
            backfill(own)
            work.now[IN_BACKFILL] = 0
        else:
            work.now[LAST_BACKFILL] = work.now[NOW]


@part
def _pass_at_once(own):
    """Run the main scheduler because a node has reported the end of a job, unless it ran a moment ago."""
    work, now = own.work, own.work.now[NOW]
    if work.now[REPORTED] and now - work.now[LAST_PASS] >= own.rules.min_interval:
        work.now[LAST_PASS] = now
        work.now[REPORTED] = 0
        main_pass(own, False)


@part
def _passes_at_once(own, until):
    """Take in what happens up to a moment, ms; at each end that a node reports the main scheduler runs."""
    work = own.work
    while work.now[N_VICTIMS] == 0:
        at = until + 1
        for i in range(work.now[N_LEAVING]):
            if own.tables.reports[work.leaving[i]]:
                at = min(at, free_at(own, work.leaving[i]))
        if at > until:
            _see(own, until)
            return
        _see(own, at)
        work.now[MOMENT] = max(at - work.now[NOW] * 1000, 0)
        _pass_at_once(own)


@part
def _main_at(own, moment):
    """Let the main scheduler come at a moment of this second: it runs if that is due."""
    work, rules, now = own.work, own.rules, own.work.now[NOW]
    _passes_at_once(own, now * 1000 + moment)
    if work.now[N_VICTIMS] > 0:
        return
    work.now[MOMENT] = moment
    full = now - work.now[LAST_FULL] >= rules.sched_interval
    if full or (work.now[ASKED] != 0 and now - work.now[LAST_SCHEDULE] >= rules.batch_delay):
        if full:
            work.now[LAST_FULL] = now
        work.now[LAST_SCHEDULE] = work.now[LAST_PASS] = now
        work.now[ASKED] = work.now[REPORTED] = 0
        main_pass(own, full)
    else:
        _pass_at_once(own)


@part
def _backfill_at(own, moment):
    """Let backfill come at a moment of this second: it runs if that is due."""
    _passes_at_once(own, own.work.now[NOW] * 1000 + moment)
    if own.work.now[N_VICTIMS] == 0:
        own.work.now[MOMENT] = moment
        _pass_at_once(own)
    if own.work.now[N_VICTIMS] == 0:
        _backfill_if_due(own)


@part
def run_passes(own):
    """Run the main scheduler and backfill, if they are due, each at its moment, with what is known by then."""
    work, now = own.work, own.work.now[NOW]
    main, back = at_main(own, now), at_backfill(own, now)
    if main <= back and main < 1000:
        _main_at(own, main)
    if back < 1000 and work.now[N_VICTIMS] == 0:
        _backfill_at(own, back)
    if back < main < 1000 and work.now[N_VICTIMS] == 0:
        _main_at(own, main)
    if work.now[N_VICTIMS] == 0:
        _passes_at_once(own, now * 1000 + 999)
    if work.now[N_VICTIMS] == 0:
        work.now[MOMENT] = 999
        _pass_at_once(own)


@part
def _put_off(own, row):
    """Let a job that is requeued wait for the least time, without age."""
    own.work.accrues[row] = -1
    own.work.eligible[row] = own.work.now[NOW] + own.rules.requeue_delay + 1


@part
def clear_away(own):
    """Free what the jobs held that were ended, let those wait that wait again, and ask for a pass.

    If they were ended for others it comes at once; after a node's failure or a grace time as after any end.
    """
    work, now = own.work, own.work.now[NOW]
    for i in range(work.now[N_VICTIMS]):
        job = work.victims[i]
        work.ended[job], work.away[job] = now, STAYS
        _finish(own, job, now)
        if waits_again(own, job):
            first = own.tables.job[job]
            work.cut_short[job] = 0
            work.restarts[first] += 1
            work.lost[first] += now - work.begun[job]
            work.begun[job] = work.ended[job] = work.charged[job] = -1
            work.as_row[first] = first
            _put_off(own, first)
            for row in range(own.tables.more[first], own.tables.more[first + 1]):
                _put_off(own, row)
            enqueue(own, first)
        else:
            work.cut_short[job] = max(work.cut_short[job], 1)
    work.now[N_VICTIMS] = work.now[NEXT_VICTIM] = 0
    work.now[DUE] = 1
    _ask(own, now)
    if work.now[UNASKED] == 0:
        work.now[LAST_SCHEDULE] = now - own.rules.batch_delay
    work.now[UNASKED] = 0


@part
def _catch_up(own):
    """Take it that the passes which were due before this moment have come: nothing waited that they could start.

    So Slurm's passes keep their rhythm through an empty queue: a job that comes two seconds after one waits for the
    next (``batch_sched_delay``, ``bf_interval``).
    """
    work, rules = own.work, own.rules
    now = work.now[NOW]
    while True:
        full = work.now[LAST_FULL] + rules.sched_interval
        full += int(at_main(own, full) >= 1000)
        asked = full
        if work.now[ASKED]:
            asked = max(work.now[LAST_SCHEDULE] + rules.batch_delay, work.now[ASKED_FROM])
            asked += int(at_main(own, asked) >= 1000)
        if min(full, asked) >= now:
            break
        work.now[LAST_SCHEDULE] = work.now[LAST_PASS] = min(full, asked)
        if full <= asked:
            work.now[LAST_FULL] = full
        work.now[ASKED] = work.now[REPORTED] = 0
    back = work.now[LAST_BACKFILL] + rules.bf_interval
    back += int(at_backfill(own, back) >= 1000)
    if back < now:
        work.now[LAST_BACKFILL] = back


@part
def new_moment(state, own):
    """Take in what has ended, left and been submitted."""
    work = own.work
    now = state.now[0]
    work.now[NOW], work.now[N_SEEN] = now, 0
    _catch_up(own)
    work.now[N_STARTS] = work.now[NEXT_START] = work.now[N_VICTIMS] = work.now[NEXT_VICTIM] = 0
    see_ended(state, own)
    _fail_nodes(own)
    _end_graces(own)
    for change in own.tables.changes:
        if change == now:
            _ask(own, now)
    work.now[N_ARRIVED] = state.n_submitted[0]
    work.now[DUE] = int(work.now[N_VICTIMS] == 0)


@part
def _any_may_start(own):
    """Say whether a waiting job is eligible, or will be when its begin time comes."""
    work = own.work
    for i in range(work.now[N_QUEUE]):
        job = work.queue[i]
        if work.eligible[job] > work.now[NOW] or eligible(own, job):
            return True
    return False


@part
def next_wake(own):
    """Return the next moment at which something is due that is neither a submission nor an end."""
    work, rules = own.work, own.rules
    now = work.now[NOW]
    at = work.now[LAST_CALC] + rules.calc_period
    for i in range(work.now[N_LEAVING]):
        job = work.leaving[i]
        at = min(at, (over_at(own, job) if work.bound[job] else free_at(own, job)) // 1000)
    if work.now[N_RUNNING] > 0 and work.now[NEXT_FAILURE] < own.tables.failures.shape[0]:
        at = min(at, own.tables.failures[work.now[NEXT_FAILURE], 0])
    if work.now[N_IN_GRACE] > 0:
        at = min(at, now + LIMIT_CHECK - (now - rules.clock) % LIMIT_CHECK)
    if work.now[N_QUEUE] > 0:
        for change in own.tables.changes:
            if change > now:
                at = min(at, change)
                break
        at = min(at, work.now[LAST_FULL] + rules.sched_interval)
        if work.now[ASKED]:
            at = min(at, max(work.now[LAST_SCHEDULE] + rules.batch_delay, work.now[ASKED_FROM]))
        if work.now[REPORTED]:
            at = min(at, work.now[LAST_PASS] + rules.min_interval)
        if rules.backfill:
            at = min(at, work.now[LAST_BACKFILL] + rules.bf_interval)
    if work.now[N_RUNNING] == 0 and not _any_may_start(own):
        return NEVER
    return max(at, now + 1)
