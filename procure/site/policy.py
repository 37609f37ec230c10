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
from procure.simulator.running import ending, preempting_loop
from procure.simulator.state import WAIT, State
from procure.site.arrays import Layout
from procure.site.bought import idle_kinds, read_joins, say_idle, texts, with_bought
from procure.site.change import changed, split_changes
from procure.site.events import clear_away, new_moment, next_wake, run_passes, see_ended, waits_again
from procure.site.layout import NO_NODES, lay_out
from procure.site.model import Partition, Priority, Site
from procure.site.order import fair_shares, note_use
from procure.site.partitions import in_each_partition
from procure.site.past import as_never_ended
from procure.site.store import read_site
from procure.site.work import DUE, N_STARTS, N_VICTIMS, NEXT_START, NEXT_VICTIM, NOW, SEEN_FIRST, Own, own_of
from procure.text import counted


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

    The order is that of multifactor priority with Fair Tree or the classic fair share; limits of QOS, partition QOS and
    associations hold jobs back; the main scheduler runs when Slurm's would, backfill every bf_interval; nodes are
    chosen as by cons_tres.
    """
    work = own.work
    if work.now[NOW] != state.now[0] or work.now[SEEN_FIRST] == 0:
        if work.now[SEEN_FIRST] == 0:
            work.now[SEEN_FIRST] = 1
            note_use(own, False)
            fair_shares(own)
        new_moment(state, own)
    see_ended(state, own)
    i, victim = work.now[NEXT_START], work.now[NEXT_VICTIM]
    while work.now[DUE] or (i == work.now[N_STARTS] and 0 < work.now[N_VICTIMS] == victim):
        if work.now[DUE] == 0:
            clear_away(own)
        work.now[DUE] = victim = 0
        run_passes(own)
    if i < work.now[N_STARTS]:
        work.now[NEXT_START] = i + 1
        job = work.starts[i]
        for k in range(work.n_held[job]):
            state.chosen[k] = work.on[own.node_first[job] + k]
        _tell_units(state.tasks, work, own.node_first[job], work.n_held[job], own.jobs.units[job])
        return own.tables.job[job]
    if victim < work.now[N_VICTIMS]:
        work.now[NEXT_VICTIM] = victim + 1
        return ending(own.tables.job[work.victims[victim]], waits_again(own, work.victims[victim]))
    state.wake[0] = next_wake(own)
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
            there = [path for path in map(Path, self.files()) if path.is_file()]
            return _rules_in(self.site, tuple(path.stat().st_mtime_ns for path in there))
        given = ",".join(["batch", *texts(in_each_partition(jobs)[0], "partition")])
        names = dict.fromkeys(filter(None, given.split(",")))
        partitions = tuple(Partition(name=n, nodes="ALL", default=n == "batch") for n in names)
        return Site(partitions=partitions, priority=Priority(type="basic"))

    def as_submitted(self, jobs: pd.DataFrame) -> tuple[pd.DataFrame, str]:
        """Return the jobs as if none had been ended for another or with its node, where the site's rules do so."""
        return as_never_ended(jobs, self._site(jobs))

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
        columns = functools.partial(_columns, own, [each.name for each in site.partitions])
        return CompiledPolicy(decide, slurm_loop, own, columns, rejected=layout.refused, may_strand=True)


def _columns(own: Own, partitions: list[str]) -> dict[str, list]:
    """Return what the schedule tells beside starts: ``partition`` where some job names several.

    Where jobs may be ended early, ``restarts``, ``lost_time`` (s, of the runs that were cut short) and ``ended_by``.
    """
    found: dict[str, list] = {}
    as_row, n = own.work.as_row, len(own.work.as_row)
    if n < len(own.jobs.submit):
        found["partition"] = [partitions[number] for number in own.jobs.partition[as_row]]
    if own.rules.preempts or len(own.tables.failures):
        ended_by = [("", "preempted", "node_fail")[cut] for cut in own.work.cut_short[as_row].tolist()]
        found |= {"restarts": own.work.restarts[:n].tolist(), "lost_time": own.work.lost[:n].tolist()}
        found["ended_by"] = ended_by
    return found


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
    for row in np.flatnonzero(ordered["start_time"].isna().to_numpy() & ~layout.refused):
        found.setdefault(_why_stranded(layout, ordered, int(row)), []).append(int(row))
    return {why: ordered["job_id"].iloc[rows].tolist() for why, rows in found.items()}


def _why_stranded(layout: Layout, ordered: pd.DataFrame, row: int) -> str:
    jobs = layout.jobs
    if jobs.reservation[row] >= 0:
        return f"reservation {ordered['reservation'].iloc[row]} was over before they could start"
    if jobs.on_first[row] < jobs.on_first[row + 1]:
        return "what they depend on never started"
    if layout.jobs.whole[row]:
        return "limits leave no room for the whole nodes that they take, or a job before them in the queue never starts"
    return "limits on minutes were used up, or a job before them in the queue never starts"
