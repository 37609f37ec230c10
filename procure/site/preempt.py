"""Which running jobs give way to one that finds no nodes, as kernels; section *Preemption Design and Operation*."""

from __future__ import annotations

from procure.simulator.kernel import part
from procure.site.needs import taken
from procure.site.place import find
from procure.site.room import move_limit
from procure.site.work import ENDING, GONE, N_IN_GRACE, N_PREY, N_RUNNING, N_VICTIMS, NOW, STAYS, WORD

AHEAD = 1 << 40
"""More nodes than there are: the job that was ended last in a try comes first in the next."""


@part
def take_away(own, job):
    """Free in ``future`` what a running job holds."""
    for k in range(own.node_first[job], own.node_first[job] + own.work.n_held[job]):
        node = own.work.on[k]
        for what in range(own.work.free.shape[0]):
            own.work.future[what, node] += taken(own, job, node, what, own.work.units[k])
        own.work.future_on[node] -= 1


@part
def look_ahead(own):
    """Begin a look ahead: what is free now."""
    work = own.work
    for what in range(work.free.shape[0]):
        for node in range(work.n_on.size):
            work.future[what, node] = work.free[what, node]
    for node in range(work.n_on.size):
        work.future_on[node] = work.n_on[node]


@part
def n_in(own, job, nodes):
    """Count the nodes of a running job that are in a set."""
    n = 0
    for k in range(own.node_first[job], own.node_first[job] + own.work.n_held[job]):
        node = own.work.on[k]
        n += nodes[node // WORD] >> (node % WORD) & 1
    return n


@part
def _ends(own, job, other):
    """Say whether a waiting job may end a running one."""
    work, jobs, now = own.work, own.jobs, own.work.now[NOW]
    return (
        jobs.preempts[jobs.rank[job], jobs.rank[other]] != 0
        and work.away[other] != ENDING
        and work.ended[other] < 0
        and now >= work.begun[other] + max(jobs.exempt[other], 1)
        and n_in(own, other, own.tables.partition_words[jobs.partition[job]]) > 0
    )


@part
def _yields_before(own, a, b):
    """Say whether a running job is ended before another, which began earlier or stands behind it in the table."""
    work, jobs = own.work, own.jobs
    if own.rules.youngest_first:
        x, y = -work.begun[a], -work.begun[b]
    elif jobs.yields[a] != jobs.yields[b]:
        x, y = jobs.yields[a], jobs.yields[b]
    else:
        x, y = work.n_held[a], work.n_held[b]
    return x < y or (x == y and a < b)


@part
def list_prey(own, job):
    """List the running jobs that a waiting one may end, in their order; returns how many."""
    work = own.work
    for i in range(work.now[N_PREY]):
        if work.away[work.prey[i]] == GONE:
            work.away[work.prey[i]] = STAYS
    n = 0
    for i in range(work.now[N_RUNNING]):
        other = work.by_start[i]
        if not _ends(own, job, other):
            continue
        place = n
        while place > 0 and _yields_before(own, other, work.prey[place - 1]):
            work.prey[place] = work.prey[place - 1]
            place -= 1
        work.prey[place] = other
        n += 1
    work.now[N_PREY] = n
    return n


@part
def take_prey_away(own, job):
    """Begin a look ahead in which all jobs that a waiting one may end are gone; returns how many."""
    work = own.work
    look_ahead(own)
    n = list_prey(own, job)
    for i in range(n):
        work.away[work.prey[i]] = GONE
        take_away(own, work.prey[i])
    return n


@part
def _reorder(own, last):
    """Put the job that was ended last first, behind it those before it by their nodes among the chosen ones."""
    work, strict = own.work, own.rules.strict_order
    for i in range(work.now[N_PREY]):
        job = work.prey[i]
        if i == last:
            counts = AHEAD
        else:
            counts = 0 if strict or i > last else n_in(own, job, work.in_choice)
        place = i
        while place > 0 and work.prey_nodes[place - 1] < counts:
            work.prey[place], work.prey_nodes[place] = work.prey[place - 1], work.prey_nodes[place - 1]
            place -= 1
        work.prey[place], work.prey_nodes[place] = job, counts


@part
def preempt(own, job, closed):
    """Choose the jobs that end for one that finds no nodes: one after the other until it fits, and tried again anew.

    Each try begins with the job that was the last to be needed, so that fewer are; those of the last try that hold a
    node that the job then gets are ended at this moment. The job itself starts when they have left.
    """
    work, rules, now = own.work, own.rules, own.work.now[NOW]
    n_prey = list_prey(own, job)
    if n_prey == 0 or (work.preempted_at[job] >= 0 and now - work.preempted_at[job] < rules.patience):
        return
    gone = 0
    for count in range(rules.reorder_count + 2):
        if count >= n_prey:
            break
        if count > 0:
            _reorder(own, gone - 1)
        look_ahead(own)
        n = gone = 0
        for i in range(n_prey):
            work.away[work.prey[i]] = STAYS
        while n == 0 and gone < n_prey:
            work.away[work.prey[gone]] = GONE
            take_away(own, work.prey[gone])
            n = find(own, job, closed, work.future, work.future_on, -1)
            gone += 1
        if n == 0:
            return
    work.preempted_at[job] = now
    for i in range(n_prey):
        other = work.prey[i]
        work.away[other] = STAYS
        if i < gone and n_in(own, other, work.in_choice) > 0 and _grace_is_over(own, other):
            end_at_once(own, other)


@part
def _grace_is_over(own, job):
    """Say whether a job that gives way is ended now; at first it gets its grace time, or what is left of its limit."""
    work, now = own.work, own.work.now[NOW]
    if work.grace_end[job] < 0 and own.jobs.grace[job] > 0:
        work.grace_end[job] = min(work.until[job], now + own.jobs.grace[job])
        work.now[N_IN_GRACE] += 1
        move_limit(own, job, work.grace_end[job])
    return work.grace_end[job] <= now


@part
def end_at_once(own, job):
    """Let a running job be ended at this moment."""
    work = own.work
    work.away[job] = ENDING
    work.victims[work.now[N_VICTIMS]] = job
    work.now[N_VICTIMS] += 1


@part
def preemptors_first(own, n):
    """Reorder the first jobs of a pass: each comes after all of those that may end jobs like it."""
    work, jobs, queue = own.work, own.jobs, own.work.other_queue
    n_ranks = jobs.preempts.shape[0]
    for rank in range(n_ranks):
        work.rank_head[rank] = -1
        _next_of_rank(own, rank, n)
    if _none_ends_another(own, n):
        return
    for place in range(n):
        first = best = n
        for rank in range(n_ranks):
            head = work.rank_head[rank]
            first = min(first, head)
            if head < best and _nobody_ends(own, rank, n):
                best = head
        best = first if best == n else best  # QOS that end each other
        work.prey_nodes[place] = queue[best]
        _next_of_rank(own, jobs.rank[queue[best]], n)
    for place in range(n):
        queue[place] = work.prey_nodes[place]


@part
def _none_ends_another(own, n):
    """Say whether none of the jobs of a pass may end jobs like another of them."""
    for rank in range(own.jobs.preempts.shape[0]):
        if own.work.rank_head[rank] < n and not _nobody_ends(own, rank, n):
            return False
    return True


@part
def _nobody_ends(own, rank, n):
    for other in range(own.jobs.preempts.shape[0]):
        if own.jobs.preempts[other, rank] != 0 and own.work.rank_head[other] < n:
            return False
    return True


@part
def _next_of_rank(own, rank, n):
    head = own.work.rank_head[rank] + 1
    while head < n and own.jobs.rank[own.work.other_queue[head]] != rank:
        head += 1
    own.work.rank_head[rank] = head
