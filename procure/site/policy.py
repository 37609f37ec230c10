"""Policy slurm: starts jobs as a centre's Slurm would, by its site folder."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from procure.errors import TableError
from procure.policies.parameters import NOTHING, Facts, Parameters, PolicyFile
from procure.simulator.drive import CompiledPolicy
from procure.simulator.kernel import kernel, part
from procure.simulator.preempt import ending, preempting_loop
from procure.simulator.state import WAIT, State
from procure.site.bought import idle_kinds, read_joins, say_idle, with_bought
from procure.site.change import changed, split_changes
from procure.site.layout import NO_NODES, Layout, lay_out
from procure.site.limits import DIFFERENT
from procure.site.model import Partition, Priority, Site
from procure.site.order import charge, count_nodes, decay, eligible, enqueue, fair_shares
from procure.site.place import taken
from procure.site.plan import backfill, main_pass
from procure.site.preempt import end_at_once, n_in
from procure.site.room import part_from
from procure.site.store import read_site
from procure.site.work import (
    ASKED,
    ASKED_FROM,
    BEYOND,
    DUE,
    ENDING,
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
    SEEN_FIRST,
    STAYS,
    UNASKED,
    WORD,
    Work,
    own_of,
)
from procure.text import counted

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
    for i in range(place, n - 1):
        jobs[i] = jobs[i + 1]
    return place


@part
def _unbind(own, job):
    """Let limits count a job no longer."""
    work, limits = own.work, own.limits
    work.bound[job] = 0
    for i in range(limits.first[job], limits.first[job + 1]):
        row, amount = limits.row[i], limits.amount[i]
        if limits.kind[row] == DIFFERENT:
            count_nodes(own, job, row, -1)
            continue
        work.used[0, row] -= amount
        work.used[1, row] -= amount * (work.begun[job] + own.jobs.limit[job])


@part
def _finish(own, job, until):
    """Free what a job held; it used that up to a second."""
    work, jobs = own.work, own.jobs
    place = _remove(work.running, work.now[N_RUNNING], job)
    for i in range(place, work.now[N_RUNNING] - 1):
        work.run_end[i], work.run_node[i] = work.run_end[i + 1], work.run_node[i + 1]
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
def _see_ended(state, own):
    """Note what has ended: Slurm hears of an end late."""
    work, now = own.work, state.now[0]
    n = work.now[N_LEAVING]
    while work.now[N_SEEN] < state.n_ended[0]:
        job = state.ended[work.now[N_SEEN]]
        work.now[N_SEEN] += 1
        if work.away[job] == ENDING:  # `_clear_away` frees what it held
            continue
        work.ended[job] = now
        work.leaving[n] = job
        n += 1
    work.now[N_LEAVING] = n


@part
def _backfill_is_due(own):
    """Say whether ``bf_interval`` has passed since backfill ran."""
    return own.rules.backfill and own.work.now[NOW] - own.work.now[LAST_BACKFILL] >= own.rules.bf_interval


@part
def _over_at(own, job):
    """Return when a job that has ended is over, ms: limits count it no longer."""
    return own.work.ended[job] * 1000 + BEYOND + own.work.begun_at[job]


@part
def _free_at(own, job):
    """Return when the nodes of a job that has ended are free, ms."""
    return _over_at(own, job) + own.tables.late


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
    may_see = now + int(at > now * 1000 + own.rules.main_at)
    for i in range(work.now[N_LEAVING]):
        job = work.leaving[i]
        if work.bound[job] and _over_at(own, job) <= at:
            _unbind(own, job)
            if not own.tables.reports[job]:
                _ask(own, may_see)
        if _free_at(own, job) <= at:
            _finish(own, job, _over_at(own, job) // 1000)
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
        if not own.rejected[job]:
            enqueue(own, job)


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
def _waits_again(own, job):
    """Say whether a job that is ended at this moment waits again."""
    return own.jobs.requeue[job] if own.work.cut_short[job] == BY_FAILURE else own.jobs.again[job]


@part
def _backfill_if_due(own):
    """Run backfill every ``bf_interval``, also while nothing waits."""
    work = own.work
    if _backfill_is_due(own):
        if work.now[N_QUEUE] > 0:
            backfill(own)
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
                at = min(at, _free_at(own, work.leaving[i]))
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
def _schedule(own):
    """Run the main scheduler and backfill, if they are due, each at its moment, with what is known by then."""
    work, now = own.work, own.work.now[NOW]
    main, back = own.rules.main_at, own.rules.backfill_at
    if main <= back:
        _main_at(own, main)
    if work.now[N_VICTIMS] == 0:
        _backfill_at(own, back)
    if main > back and work.now[N_VICTIMS] == 0:
        _main_at(own, main)
    if work.now[N_VICTIMS] == 0:
        _passes_at_once(own, now * 1000 + 999)
    if work.now[N_VICTIMS] == 0:
        work.now[MOMENT] = 999
        _pass_at_once(own)


@part
def _clear_away(own):
    """Free what the jobs held that were ended, let those wait that wait again, and ask for a pass.

    If they were ended for others it comes at once; after a node's failure or a grace time as after any end.
    """
    work, now = own.work, own.work.now[NOW]
    for i in range(work.now[N_VICTIMS]):
        job = work.victims[i]
        work.ended[job], work.away[job] = now, STAYS
        _finish(own, job, now)
        if _waits_again(own, job):
            work.cut_short[job] = 0
            work.restarts[job] += 1
            work.lost[job] += now - work.begun[job]
            work.begun[job] = work.ended[job] = work.accrues[job] = work.charged[job] = -1
            work.eligible[job] = now + own.rules.requeue_delay + 1
            enqueue(own, job)
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
        asked = full
        if work.now[ASKED]:
            asked = max(work.now[LAST_SCHEDULE] + rules.batch_delay, work.now[ASKED_FROM])
        if min(full, asked) >= now:
            break
        work.now[LAST_SCHEDULE] = work.now[LAST_PASS] = min(full, asked)
        if full <= asked:
            work.now[LAST_FULL] = full
        work.now[ASKED] = work.now[REPORTED] = 0
    back = work.now[LAST_BACKFILL] + rules.bf_interval
    if back < now:
        work.now[LAST_BACKFILL] = back


@part
def _new_moment(state, own):
    """Take in what has ended, left and been submitted."""
    work = own.work
    now = state.now[0]
    work.now[NOW], work.now[N_SEEN] = now, 0
    _catch_up(own)
    work.now[N_STARTS] = work.now[NEXT_START] = work.now[N_VICTIMS] = work.now[NEXT_VICTIM] = 0
    _see_ended(state, own)
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
def _next_wake(own):
    """Return the next moment at which something is due that is neither a submission nor an end."""
    work, rules = own.work, own.rules
    now = work.now[NOW]
    at = work.now[LAST_CALC] + rules.calc_period
    for i in range(work.now[N_LEAVING]):
        job = work.leaving[i]
        at = min(at, (_over_at(own, job) if work.bound[job] else _free_at(own, job)) // 1000)
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


@part
def _tell_units(tasks, work, first, n, left):
    """Tell how many tasks stand on each node of an answer, where any job has tasks."""
    if tasks is not None:
        tasks.n_chosen[0] = n
        for k in range(first, first + n):
            units = min(work.units[k], left - (first + n - 1 - k))
            tasks.units[work.on[k]] = units
            left -= units


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
    i, victim = work.now[NEXT_START], work.now[NEXT_VICTIM]
    while work.now[DUE] or (i == work.now[N_STARTS] and 0 < work.now[N_VICTIMS] == victim):
        if work.now[DUE] == 0:
            _clear_away(own)
        work.now[DUE] = victim = 0
        _schedule(own)
    if i < work.now[N_STARTS]:
        work.now[NEXT_START] = i + 1
        job = work.starts[i]
        for k in range(work.n_held[job]):
            state.chosen[k] = work.on[own.node_first[job] + k]
        _tell_units(state.tasks, work, own.node_first[job], work.n_held[job], own.jobs.units[job])
        return job
    if victim < work.now[N_VICTIMS]:
        work.now[NEXT_VICTIM] = victim + 1
        return ending(work.victims[victim], _waits_again(own, work.victims[victim]))
    state.wake[0] = _next_wake(own)
    return WAIT


@kernel
def slurm_loop(world, state, own):
    """The compiled loop of `decide`."""
    return preempting_loop(world, state, decide, own)


@functools.lru_cache(maxsize=8)
def _rules_in(folder: str, written: tuple[int, ...]) -> Site:
    """Read a site's rules once; ``written`` is when its files were, so that a changed one is read again."""
    return read_site(folder).rules


class Slurm(Parameters):
    """Parameters of `decide`."""

    rule: ClassVar = decide
    takes_tasks: ClassVar[bool] = True

    site: PolicyFile = Field(NOTHING, description="the site folder, as `procure site read` writes it")
    new: str = Field(
        NOTHING,
        description="partitions that nodes which no partition lists join: KIND@PARTITION+PARTITION;…, by the "
        "beginning of their kind",
    )
    features: str = Field(NOTHING, description="features that such nodes get, written likewise")
    change: str = Field(NOTHING, description="rules that are other: bf_max_job_user=50;qos long GrpTRES=cpu=20%")

    @field_validator("new", "features")
    @classmethod
    def _joins(cls, text: str) -> str:
        read_joins(_unless_nothing(text))
        return text or NOTHING

    @field_validator("change")
    @classmethod
    def _changes(cls, text: str) -> str:
        split_changes(_unless_nothing(text))
        return text or NOTHING

    def files(self) -> tuple[str, ...]:
        """Return the names of the site's files."""
        return () if self.site == NOTHING else (f"{self.site}/site.toml", f"{self.site}/nodes.csv")

    def consumes_memory(self, jobs: pd.DataFrame) -> bool:
        """Say whether SelectTypeParameters counts memory."""
        return self._site(jobs).select.memory

    def rules(self, jobs: pd.DataFrame, nodes: pd.DataFrame) -> Site:
        """Return the site's rules; without a site, Slurm's defaults: each partition holds every node, no limits."""
        site = with_bought(self._site(jobs), _unless_nothing(self.new), _unless_nothing(self.features))
        return changed(site, _unless_nothing(self.change), nodes)

    def _site(self, jobs: pd.DataFrame) -> Site:
        if self.site != NOTHING:
            return _rules_in(self.site, tuple(Path(name).stat().st_mtime_ns for name in self._existing()))
        names = (
            dict.fromkeys(["batch", *filter(None, jobs["partition"].unique())]) if "partition" in jobs else ["batch"]
        )
        partitions = tuple(Partition(name=n, nodes="ALL", default=n == "batch") for n in names)
        return Site(partitions=partitions, priority=Priority(type="basic"))

    def _existing(self) -> list[str]:
        return [name for name in self.files() if Path(name).is_file()]

    def verify(self, jobs: pd.DataFrame, nodes: pd.DataFrame) -> list[str]:
        """Read the site and change its rules; says which nodes would stand idle and which jobs no package starts."""
        site = self.rules(jobs, nodes)
        ordered = jobs.sort_values("submit_time", kind="stable", ignore_index=True)
        refused = {why: rows for why, rows in lay_out(site, nodes, ordered).reasons.items() if why != NO_NODES}
        lines = [
            f"careful: {counted(len(rows), 'job')} of a workload never start{'s' * (len(rows) == 1)} under the site's "
            f"rules, whatever is bought: {why}"
            for why, rows in refused.items()
        ]
        return say_idle(idle_kinds(site, nodes)) + lines

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run of which only the requests are known."""
        return self._made(state, *_tables_of(state), 0)

    def make_with(self, state: State, facts: Facts) -> CompiledPolicy:
        """Make the policy of one run of which the whole tables are known."""
        if facts.jobs is None or facts.nodes is None:
            return self.make(state)
        return self._made(state, facts.jobs, facts.nodes, facts.began or 0)

    def _made(self, state: State, jobs: pd.DataFrame, nodes: pd.DataFrame, began: int) -> CompiledPolicy:
        site = self.rules(jobs, nodes)
        layout = lay_out(site, nodes, jobs.assign(exclusive="1") if self.exclusive else jobs)
        own = own_of(site, layout, began)
        columns = functools.partial(_columns, own.work) if own.rules.preempts or len(own.tables.failures) else None
        return CompiledPolicy(decide, slurm_loop, own, columns, rejected=layout.rejected, may_strand=True)


def _columns(work: Work) -> dict[str, list]:
    """Say of each job how often it was ended and waited again, how long those runs took, and what ended it."""
    ended_by = [("", "preempted", "node_fail")[cut] for cut in work.cut_short.tolist()]
    return {"restarts": work.restarts.tolist(), "lost_time": work.lost.tolist(), "ended_by": ended_by}


def _unless_nothing(text: str) -> str:
    return "" if text == NOTHING else text


def _tables_of(state: State) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a job table and a node table of what a state tells."""
    if state.guards is not None:
        raise TableError("nodes with several GPU models: policy slurm needs the job table and the node table")
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


def rejections(policy: Slurm, schedule: pd.DataFrame, nodes: pd.DataFrame) -> dict[str, list[str]]:
    """Return the jobs of a schedule that never started, by reason: their ids.

    The site refused them, or they still wait when all others have ended, as they would under Slurm.

    Parameters
    ----------
    policy
        With its site.
    schedule
        What it gave, with empty starts.
    nodes
        A checked table.
    """
    ordered = schedule.sort_values("submit_time", kind="stable", ignore_index=True)
    layout = lay_out(policy.rules(ordered, nodes), nodes, ordered)
    found = {why: rows.tolist() for why, rows in layout.reasons.items()}
    for row in np.flatnonzero(ordered["start_time"].isna().to_numpy() & ~layout.rejected):
        found.setdefault(_why_stranded(layout, ordered, int(row)), []).append(int(row))
    return {why: ordered["job_id"].iloc[rows].tolist() for why, rows in found.items()}


def _why_stranded(layout: Layout, ordered: pd.DataFrame, row: int) -> str:
    jobs = layout.jobs
    if jobs.reservation[row] >= 0:
        return f"reservation {ordered['reservation'].iloc[row]} was over before they could start"
    if jobs.on_first[row] < jobs.on_first[row + 1]:
        return "what they depend on never started"
    return "limits on minutes were used up, or a job before them in the queue never starts"
