"""Policy slurm: starts jobs as a centre's Slurm would, by its site folder."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
from pydantic import Field

from procure.policies.parameters import NO_FILE, Facts, Parameters, PolicyFile
from procure.simulator.drive import CompiledPolicy, kernel_loop
from procure.simulator.kernel import kernel, part
from procure.simulator.state import WAIT, State
from procure.site.layout import lay_out
from procure.site.model import Partition, Priority, Site
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


@part
def _remove(jobs, n, job):
    place = 0
    while jobs[place] != job:
        place += 1
    for i in range(place, n - 1):
        jobs[i] = jobs[i + 1]


@part
def _finish(own, job, end):
    """Free what a job held; its nodes are completing for a while."""
    work, jobs, limits = own.work, own.jobs, own.limits
    work.ended[job] = end
    _remove(work.running, work.now[N_RUNNING], job)
    _remove(work.by_start, work.now[N_RUNNING], job)
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


@part
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


@part
def _see_ended(state, own):
    work = own.work
    while work.now[N_SEEN] < state.n_ended[0]:
        job = state.ended[work.now[N_SEEN]]
        work.now[N_SEEN] += 1
        _finish(own, job, state.now[0])


@part
def _schedule(own, epilog):
    """Run the main scheduler and backfill, if they are due."""
    work, rules = own.work, own.rules
    now = work.now[NOW]
    full = now - work.now[LAST_FULL] >= rules.sched_interval
    asked = work.now[ASKED] != 0 and now - work.now[LAST_SCHEDULE] >= rules.batch_delay
    if full:
        work.now[LAST_FULL] = now
    if full or asked:
        work.now[LAST_SCHEDULE] = now
        work.now[ASKED] = 0
    elif epilog and rules.defer:
        work.now[ASKED] = 1
    if full or asked or (epilog and not rules.defer):
        main_pass(own, full)
    if rules.backfill and now - work.now[LAST_BACKFILL] >= rules.bf_interval and work.now[N_QUEUE] > 0:
        backfill(own)


@part
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


@part
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

    def rules(self, jobs: pd.DataFrame) -> Site:
        """Return the site's rules; without a site, Slurm's defaults: each partition holds every node, no limits."""
        if self.site != NO_FILE:
            return read_site(self.site).rules
        names = (
            dict.fromkeys(["batch", *filter(None, jobs["partition"].unique())])
            if "partition" in jobs
            else ["batch"]
        )
        partitions = tuple(Partition(name=n, nodes="ALL", default=n == "batch") for n in names)
        return Site(partitions=partitions, priority=Priority(type="basic"))

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run of which only the requests are known."""
        return self._made(state, *_tables_of(state), 0)

    def make_with(self, state: State, facts: Facts) -> CompiledPolicy:
        """Make the policy of one run of which the whole tables are known."""
        if facts.jobs is None or facts.nodes is None:
            return self.make(state)
        return self._made(state, facts.jobs, facts.nodes, facts.began or 0)

    def _made(self, state: State, jobs: pd.DataFrame, nodes: pd.DataFrame, began: int) -> CompiledPolicy:
        site = self.rules(jobs)
        layout = lay_out(site, nodes, jobs.assign(exclusive="1") if self.exclusive else jobs)
        return CompiledPolicy(decide, slurm_loop, own_of(site, layout, began), rejected=layout.rejected)


def _tables_of(state: State) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a job table and a node table of what a state tells."""
    jobs = pd.DataFrame(
        {
            "job_id": [str(n) for n in range(len(state.submit))],
            "submit_time": state.submit,
            "requested_time": state.requested,
            "run_time": 0,
            "n_nodes": state.n_nodes,
            "cpus_per_node": state.cpus,
            "mem_mb_per_node": state.mem,
            "gpus_per_node": state.gpus,
        }
    )
    columns = {"cpus": state.total_cpus, "mem_mb": state.total_mem, "gpus": state.total_gpus}
    nodes = pd.DataFrame({"node_id": [f"n{n}" for n in range(len(state.total_cpus))], **columns})
    return jobs, nodes


def rejections(policy: Slurm, jobs: pd.DataFrame, nodes: pd.DataFrame) -> dict[str, list[str]]:
    """Return the jobs that a site's rules never let start, by reason: their ids.

    Parameters
    ----------
    policy
        With its site.
    jobs, nodes
        Checked tables.
    """
    ordered = jobs.sort_values("submit_time", kind="stable", ignore_index=True)
    reasons = lay_out(policy.rules(ordered), nodes, ordered).reasons
    return {why: ordered["job_id"].iloc[rows].tolist() for why, rows in reasons.items()}
