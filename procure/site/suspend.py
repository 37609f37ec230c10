"""Who is suspended for whom, as kernels: jobs of a higher partition take CPUs that those of lower ones hold.

Slurm's page *Preemption*, section *Preemption Design and Operation*: the select plugin lets a job take such CPUs, and
the gang scheduler then suspends whoever holds one of them, and lets it go on when no higher job does. What a suspended
job holds stays taken for all others: memory, GPUs, and its CPUs for jobs of its own partition and those below.
"""

from __future__ import annotations

from procure.simulator.kernel import part
from procure.simulator.preempt import pausing
from procure.site.names import SUSPEND
from procure.site.place import choose, choose_of
from procure.site.room import join, part_from
from procure.site.work import N_RUNNING, N_STARTS, NOW, SPARED, WORD

STAYS, GONE, ENDING = range(3)
"""What `Work.away` says of a running job: GONE = taken away for one test, ENDING = it gives way at this moment."""
NOBODY = -2
"""In place of the last partition that is spared: no job's CPUs are taken."""


@part
def _bars(own, job, other, spared):
    """Say whether a job must leave a running one its CPUs."""
    jobs, rank = own.jobs, own.jobs.rank[other]
    if jobs.whole[other]:
        return True
    if own.work.away[other] == GONE:
        return False
    suspends = jobs.preempts[jobs.rank[job], rank] == SUSPEND
    return spared == NOBODY or not suspends or own.tables.rank_place[rank] <= spared


@part
def _see_cores(own, job, spared):
    """Set in ``core_mask`` the CPUs that a job must leave to others, those of partitions up to a place included."""
    work = own.work
    for node in range(work.core_mask.shape[0]):
        for word in range(work.core_mask.shape[1]):
            work.core_mask[node, word] = 0
    for i in range(work.now[N_RUNNING]):
        other = work.by_start[i]
        if _bars(own, job, other, spared):
            for k in range(own.node_first[other], own.node_first[other] + own.jobs.n_nodes[other]):
                for word in range(work.core_mask.shape[1]):
                    work.core_mask[work.on[k], word] |= work.cores[k, word]


@part
def _choice(own, job, closed, free, n_on, group):
    if group < 0:
        return choose(own, job, closed, free, n_on)
    return choose_of(own, job, closed, free, n_on, group)


@part
def _choose_sparing(own, job, closed, free, n_on, group, spared):
    """Find nodes with CPUs that a job need not leave to others."""
    _see_cores(own, job, spared)
    for node in range(free.shape[1]):
        left = own.nodes.cpus[node]
        for word in range(own.work.core_mask.shape[1]):
            bits = own.work.core_mask[node, word]
            while bits:
                bits &= bits - 1
                left -= 1
        free[0, node] = left
    own.work.now[SPARED] = spared
    return _choice(own, job, closed, free, n_on, group)


@part
def find(own, job, closed, free, n_on, group):
    """Find nodes: with idle CPUs, else with those of lower partitions, of which as many of the higher are spared.

    Who is ``GONE`` holds no CPUs. With ``group`` < 0 nodes of all groups of the job's constraint.

    Returns
    -------
    int
        How many nodes stand in ``chosen``; 0 = there are none.
    """
    if not own.rules.suspends:
        return _choice(own, job, closed, free, n_on, group)
    n = _choose_sparing(own, job, closed, free, n_on, group, NOBODY)
    if n > 0 or own.jobs.whole[job]:
        return n
    spared = -1
    n = _choose_sparing(own, job, closed, free, n_on, group, spared)
    while n > 0:
        spared += 1
        if _choose_sparing(own, job, closed, free, n_on, group, spared) == 0:
            return _choose_sparing(own, job, closed, free, n_on, group, spared - 1)
    return n


@part
def find_now(own, job, closed, group):
    """Find nodes while all that runs is there."""
    work = own.work
    if own.rules.suspends:
        for i in range(work.now[N_RUNNING]):
            if work.away[work.by_start[i]] == GONE:
                work.away[work.by_start[i]] = STAYS
    return find(own, job, closed, work.free, work.n_on, group)


@part
def take_cores(own, job, n):
    """Give a job that starts the first CPUs of its nodes that it need not leave to others."""
    work = own.work
    _see_cores(own, job, work.now[SPARED])
    for i in range(n):
        node, slot = work.chosen[i], own.node_first[job] + i
        left = own.nodes.cpus[node] if own.jobs.whole[job] else own.jobs.cpus[job]
        for word in range(work.core_mask.shape[1]):
            work.cores[slot, word] = 0
        for core in range(own.nodes.cpus[node]):
            word, bit = core // WORD, 1 << (core % WORD)
            if left > 0 and not work.core_mask[node, word] & bit:
                work.cores[slot, word] |= bit
                left -= 1


@part
def _shares(own, job):
    """Say whether a job has a CPU that a job of a higher partition runs on."""
    work = own.work
    for k in range(own.node_first[job], own.node_first[job] + own.jobs.n_nodes[job]):
        for word in range(work.core_mask.shape[1]):
            if work.core_mask[work.on[k], word] & work.cores[k, word]:
                return True
    return False


@part
def _say(own, answer, place):
    """Note an answer to the simulator before those from a place on."""
    work, n = own.work, own.work.now[N_STARTS]
    if n < work.starts.size:  # else a start finds its nodes too busy, and the run says so
        for i in range(n, place, -1):
            work.starts[i] = work.starts[i - 1]
        work.starts[place] = answer
        work.now[N_STARTS] = n + 1


@part
def _next_tier(own, below):
    """Return the highest tier of a running job below another; that itself = there is none."""
    found = own.tables.no_tier
    for i in range(own.work.now[N_RUNNING]):
        tier = own.jobs.tier[own.work.by_start[i]]
        if found < tier < below:
            found = tier
    return found


@part
def take_turns(own):
    """Suspend, then resume: a job runs if none of a higher partition runs on one of its CPUs."""
    work, place = own.work, own.work.now[N_STARTS]
    for node in range(work.core_mask.shape[0]):
        for word in range(work.core_mask.shape[1]):
            work.core_mask[node, word] = 0
    tier = _next_tier(own, 1 << 60)
    while tier > own.tables.no_tier:
        for i in range(work.now[N_RUNNING]):
            job = work.by_start[i]
            if own.jobs.tier[job] == tier and work.ended[job] < 0:
                _take_turn(own, job, place)
        for i in range(work.now[N_RUNNING]):
            job = work.by_start[i]
            if own.jobs.tier[job] == tier and work.ended[job] < 0 and work.paused_at[job] < 0:
                for k in range(own.node_first[job], own.node_first[job] + own.jobs.n_nodes[job]):
                    for word in range(work.core_mask.shape[1]):
                        work.core_mask[work.on[k], word] |= work.cores[k, word]
        tier = _next_tier(own, tier)


@part
def _take_turn(own, job, place):
    work, now = own.work, own.work.now[NOW]
    if _shares(own, job):
        if work.paused_at[job] < 0:
            work.paused_at[job] = now
            _say(own, pausing(job, 1), place)
    elif work.paused_at[job] >= 0:
        passed = now - work.paused_at[job]
        work.paused_at[job] = -1
        work.suspended[job] += passed
        move_limit(own, job, work.until[job] + passed)
        _say(own, pausing(job, 0), work.now[N_STARTS])


@part
def move_limit(own, job, until):
    """Let a running job's limit end at another moment."""
    work, n = own.work, own.work.now[N_RUNNING]
    for k in range(own.node_first[job], own.node_first[job] + own.jobs.n_nodes[job]):
        part_from(own, k, work.on[k])
    place = 0
    while work.running[place] != job:
        place += 1
    node = work.run_node[place]
    for i in range(place, n - 1):
        work.running[i], work.run_end[i] = work.running[i + 1], work.run_end[i + 1]
        work.run_node[i] = work.run_node[i + 1]
    note_limit(own, job, until, node, n - 1)
    for k in range(own.node_first[job], own.node_first[job] + own.jobs.n_nodes[job]):
        join(own, k, work.on[k])


@part
def note_limit(own, job, until, node, n):
    """Put a job among so many running ones, by the ends of their limits; ``node`` = −1 where it has several."""
    work, place = own.work, n
    work.until[job] = until
    while place > 0:
        other, ends = work.running[place - 1], work.run_end[place - 1]
        if ends < until or (ends == until and other < job):
            break
        work.running[place], work.run_end[place] = other, ends
        work.run_node[place] = work.run_node[place - 1]
        place -= 1
    work.running[place], work.run_end[place], work.run_node[place] = job, until, node
