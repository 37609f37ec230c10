"""Policy slurm: starts jobs as a centre's Slurm would, by its site folder."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from procure.errors import TableError
from procure.policies.parameters import NO_FILE, Facts, Parameters, PolicyFile
from procure.simulator.drive import CompiledPolicy, kernel_loop
from procure.simulator.kernel import kernel
from procure.simulator.state import WAIT, State
from procure.site.layout import Layout, lay_out
from procure.site.order import charge, decay, enqueue, fair_shares
from procure.site.plan import backfill, main_pass, taken
from procure.site.store import read_site
from procure.site.work import (
    ASKED,
    LAST_BACKFILL,
    LAST_CALC,
    LAST_FULL,
    LAST_SCHEDULE,
    N_LEAVING,
    N_QUEUE,
    N_RUNNING,
    N_SEEN,
    N_STARTS,
    N_SUBMITTED,
    NEVER,
    NEXT_START,
    NOW,
    SEEN_FIRST,
    WORD,
    own_of,
)


@kernel
def _remove(jobs, n, job):
    place = 0
    while jobs[place] != job:
        place += 1
    for i in range(place, n - 1):
        jobs[i] = jobs[i + 1]


@kernel
def _finish(own, job, end):
    """Free what a job held; its nodes are completing for a while."""
    work, jobs, limits = own.work, own.jobs, own.limits
    work.ended[job] = end
    _remove(work.running, work.now[N_RUNNING], job)
    _remove(work.started, work.now[N_RUNNING], job)
    work.now[N_RUNNING] -= 1
    charge(own, job, end)
    for i in range(limits.first[job], limits.first[job + 1]):
        row, amount = limits.row[i], limits.amount[i]
        work.used[0, row] -= amount
        work.used[1, row] -= amount * (work.begun[job] + jobs.limit[job])
    for k in range(own.node_first[job], own.node_first[job] + jobs.n_nodes[job]):
        node = work.on[k]
        for what in range(3):
            work.free[what, node] += taken(own, job, node, what)
        work.n_on[node] -= 1
        if own.rules.job_end:
            work.completing[node] += 1
            work.busy[node // WORD] |= 1 << (node % WORD)
    if jobs.array[job] >= 0:
        work.array_running[jobs.array[job]] -= 1
    if own.rules.job_end:
        n = work.now[N_LEAVING]
        work.leaving[n, 0], work.leaving[n, 1] = end + own.rules.job_end, job
        work.now[N_LEAVING] = n + 1
    else:
        work.now[ASKED] = 1


@kernel
def _leave(own):
    """Let jobs leave their nodes at last; says whether any did."""
    work, now = own.work, own.work.now[NOW]
    kept, n = 0, work.now[N_LEAVING]
    for i in range(n):
        if work.leaving[i, 0] > now:
            work.leaving[kept, 0], work.leaving[kept, 1] = work.leaving[i, 0], work.leaving[i, 1]
            kept += 1
            continue
        job = work.leaving[i, 1]
        for k in range(own.node_first[job], own.node_first[job] + own.jobs.n_nodes[job]):
            node = work.on[k]
            work.completing[node] -= 1
            if work.completing[node] == 0:
                work.busy[node // WORD] &= ~(1 << (node % WORD))
    work.now[N_LEAVING] = kept
    return kept < n


@kernel
def _see_ended(state, own):
    work = own.work
    while work.now[N_SEEN] < state.n_ended[0]:
        job = state.ended[work.now[N_SEEN]]
        work.now[N_SEEN] += 1
        _finish(own, job, state.now[0])


@kernel
def _schedule(own, epilog):
    """Run the main scheduler and backfill, if they are due."""
    work, rules = own.work, own.rules
    now = work.now[NOW]
    if now - work.now[LAST_FULL] >= rules.sched_interval:
        work.now[LAST_FULL] = work.now[LAST_SCHEDULE] = now
        work.now[ASKED] = 0
        main_pass(own, 1)
    elif work.now[ASKED] and now - work.now[LAST_SCHEDULE] >= rules.batch_delay:
        work.now[LAST_SCHEDULE] = now
        work.now[ASKED] = 0
        main_pass(own, 0)
    elif epilog and not rules.defer:
        main_pass(own, 0)
    elif epilog:
        work.now[ASKED] = 1
    if rules.backfill and now - work.now[LAST_BACKFILL] >= rules.bf_interval and work.now[N_QUEUE] > 0:
        backfill(own)


@kernel
def _new_moment(state, own):
    """Take in what has ended, left and been submitted, and decide what starts at this moment."""
    work, rules = own.work, own.rules
    now = state.now[0]
    work.now[NOW], work.now[N_SEEN] = now, 0
    work.now[N_STARTS] = work.now[NEXT_START] = 0
    _see_ended(state, own)
    epilog = _leave(own)
    for change in own.tables.changes:
        if change == now:
            work.now[ASKED] = 1
    while now - work.now[LAST_CALC] >= rules.calc_period:
        decay(own, work.now[LAST_CALC] + rules.calc_period)
    while work.now[N_SUBMITTED] < state.n_submitted[0]:
        job = work.now[N_SUBMITTED]
        work.now[N_SUBMITTED] += 1
        work.now[ASKED] = 1
        if not own.rejected[job]:
            enqueue(own, job)
    _schedule(own, epilog)


@kernel
def _next_wake(own):
    """Return the next moment at which something is due that is neither a submission nor an end."""
    work, rules = own.work, own.rules
    now = work.now[NOW]
    at = work.now[LAST_CALC] + rules.calc_period
    for i in range(work.now[N_LEAVING]):
        at = min(at, work.leaving[i, 0])
    if work.now[N_QUEUE] > 0:
        for change in own.tables.changes:
            if change > now:
                at = min(at, change)
                break
        at = min(at, work.now[LAST_FULL] + rules.sched_interval)
        if work.now[ASKED]:
            at = min(at, work.now[LAST_SCHEDULE] + rules.batch_delay)
        if rules.backfill:
            at = min(at, work.now[LAST_BACKFILL] + rules.bf_interval)
    elif work.now[N_RUNNING] == 0 and work.now[N_LEAVING] == 0:
        return NEVER
    return max(at, now + 1)


@kernel
def decide(state, own):
    """Start what this centre's Slurm would start: its order, limits, two schedulers and choice of nodes.

    The order is that of multifactor priority with Fair Tree; limits of QOS, partition QOS and associations hold jobs
    back; the main scheduler runs when Slurm's would, backfill every bf_interval; nodes are chosen as by cons_tres.
    """
    work = own.work
    if work.now[NOW] != state.now[0] or work.now[SEEN_FIRST] == 0:
        if work.now[SEEN_FIRST] == 0:
            work.now[SEEN_FIRST] = 1
            fair_shares(own)
        _new_moment(state, own)
    _see_ended(state, own)
    i = work.now[NEXT_START]
    if i < work.now[N_STARTS]:
        work.now[NEXT_START] = i + 1
        job = work.starts[i]
        for k in range(state.n_nodes[job]):
            state.chosen[k] = work.on[own.node_first[job] + k]
        return job
    state.wake[0] = _next_wake(own)
    return WAIT


@kernel
def slurm_loop(world, state, own):
    """The compiled loop of `decide`."""
    return kernel_loop(world, state, decide, own)


class Slurm(Parameters):
    """Parameters of `decide`."""

    rule: ClassVar = decide

    site: PolicyFile = Field(NO_FILE, description="the site folder, as `procure site read` writes it")

    def files(self) -> tuple[str, ...]:
        """Return the names of the site's files."""
        return () if self.site == NO_FILE else (f"{self.site}/site.toml", f"{self.site}/nodes.csv")

    def layout(self, facts: Facts) -> Layout:
        """Lay the site out for the jobs and nodes of a run."""
        if self.site == NO_FILE:
            raise TableError("policy slurm needs a site folder: slurm:site=FOLDER, or --site FOLDER")
        if facts.jobs is None or facts.nodes is None:
            raise TableError("policy slurm needs the job table and the node table of the run")
        return lay_out(read_site(self.site).rules, facts.nodes, facts.jobs)

    def make_with(self, state: State, facts: Facts) -> CompiledPolicy:
        """Make the policy of one run."""
        layout = self.layout(facts)
        own = own_of(read_site(self.site).rules, layout, facts.began or 0)
        return CompiledPolicy(decide, slurm_loop, own)


__all__ = ["Slurm", "decide", "slurm_loop"]
