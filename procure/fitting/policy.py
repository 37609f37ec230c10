"""Policy ``rules``: EASY, held back as a log was, by limits, pauses, and nodes that are away."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from procure.account.inferred import bounds_of, pauses_of
from procure.account.layout import owners_of
from procure.account.nodes import held_cpus
from procure.errors import TableError
from procure.policies.easy import HEAD, Easy, EasyOwn, easy
from procure.policies.lines import DECISION, N_FILLED, make_lines
from procure.policies.parameters import NOTHING, Facts, PolicyFile
from procure.policies.place import NUMBER, Nodes, shadow_on_nodes
from procure.policies.scheduler import held_apart
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.kernel import part
from procure.simulator.seams import hold
from procure.simulator.seams import place as seam
from procure.simulator.state import State
from procure.simulator.tasks import units_on
from procure.site.model import NodeEvent, Site
from procure.site.store import node_list, read_site

N_SEEN, N_AWAY = range(2)


class Changes(NamedTuple):
    """When nodes go away and come back, in order."""

    when: np.ndarray  # int64[n_changes], s
    node: np.ndarray  # int64[n_changes], row
    by: np.ndarray  # int64[n_changes], 1 = goes away, −1 = comes back
    counts: np.ndarray  # int64[2], changes so far, and nodes that are away


@seam
class Away(NamedTuple):
    """Places on nodes of which some are away: what runs there runs on, nothing starts, no reservation counts on them.

    When a node comes back is not foreseen. A job that needs such nodes holds no reservation until then.
    """

    nodes: Nodes  # whose ``open`` says which nodes are there
    changes: Changes
    of_node: np.ndarray  # int64[n_nodes], events that keep it away
    easy: np.ndarray  # the notes of `procure.policies.easy.EasyOwn`

    def pick(self, state, job, n):
        """Keep the nodes that the job gets."""
        self.nodes.pick(state, job, n)

    def follow(self, state):
        """Let nodes go and come up to now; a reservation that was made before is made again."""
        self.nodes.follow(state)
        changes, counts = self.changes, self.changes.counts
        while counts[N_SEEN] < changes.when.size and changes.when[counts[N_SEEN]] <= state.now[0]:
            node, by = changes.node[counts[N_SEEN]], changes.by[counts[N_SEEN]]
            was = self.of_node[node] > 0
            self.of_node[node] += by
            counts[N_AWAY] += np.int64(self.of_node[node] > 0) - np.int64(was)
            self.nodes.open[node] = self.of_node[node] == 0
            counts[N_SEEN] += 1
            self.easy[HEAD] = -1

    def started(self, state, job):
        """Take note of a start."""
        self.nodes.started(state, job)

    def fits(self, state, lines, line):
        """Say whether the jobs of a line fit now; what is reserved aside."""
        if not self.nodes.fits(state, lines, line):
            return False
        return self.changes.counts[N_AWAY] == 0 or _is_room(state, self.nodes.open, lines.shape[line])

    def room(self, state, lines, line, which):
        """Say whether the jobs of a line, which fit, have room in what they may take."""
        return self.nodes.room(state, lines, line, which)

    def reserve(self, state, job):
        """Reserve the earliest place as running jobs end on nodes that are there; returns when it begins, s."""
        if self.changes.counts[N_AWAY] == 0:
            return self.nodes.reserve(state, job)
        self.nodes.notes[NUMBER] += 1
        return shadow_on_nodes(state, self.nodes, job)

    def choose(self, state, job, which):
        """Lay the nodes of a job into ``chosen``; beside a reservation they are taken from what that leaves."""
        return self.nodes.choose(state, job, which)


@part
def _is_room(state, there, shape):
    """Say whether enough nodes that are there hold a shape."""
    n = 0
    for node in range(there.size):
        if there[node]:
            n += units_on(state, state.tasks, shape, node)
    return n >= state.shapes.n_nodes[shape]


def changes_of(events: tuple[NodeEvent, ...], nodes: pd.DataFrame | None, jobs: pd.DataFrame) -> Changes:
    """Lay out when nodes of a run go away and come back; those that it is not known to have are left out."""
    rows: list[tuple[int, int, int]] = []
    if nodes is None:
        events, nodes = (), pd.DataFrame({"node_id": []})
    row_of, origin = {name: row for row, name in enumerate(nodes["node_id"])}, int(jobs["submit_time"].min())
    for one in events:
        if one.end is None or one.end > max(one.start, origin):
            for name in node_list(one.nodes, nodes):
                if name in row_of:
                    rows.append((max(0, one.start - origin), row_of[name], 1))
                    if one.end is not None:
                        rows.append((one.end - origin, row_of[name], -1))
    when, node, by = np.array(sorted(rows), np.int64).reshape(-1, 3).T.copy()
    return Changes(when, node, by, np.zeros(2, np.int64))


N_SUBMITTED = 0


class Limits(NamedTuple):
    """What may run at once, and what does, of each user, account and partition: one numbering."""

    owner: np.ndarray  # int64[len(OWNERS), n_jobs], −1 = unknown
    most: np.ndarray  # int64[len(RESOURCES), n_owners]
    running: np.ndarray  # likewise


@hold
class Inferred(NamedTuple):
    """Who is held back, and until when."""

    release: np.ndarray  # int64[n_jobs], s before which a job does not start
    cpus: np.ndarray  # int64[n_jobs], on all nodes
    limits: Limits
    has_ended: np.ndarray  # bool[n_jobs], as far as the counts know
    notes: np.ndarray  # int64[1]
    changes: Changes
    lines: Any  # of those who may start
    queue: Any  # of those who may hold the reservation

    def apart(self, state):
        """Hold each job back by itself."""
        return (np.arange(len(state.submit)),)

    def follow(self, state):
        """Bring the counts up to now, and pass over whoever is held."""
        notes = self.notes
        for i in range(state.n_ended[0]):
            job = state.ended[i]
            if not self.has_ended[job]:
                self.has_ended[job] = True
                count(self, job, -1)
        while notes[N_SUBMITTED] < state.n_submitted[0]:
            job = notes[N_SUBMITTED]
            notes[N_SUBMITTED] += 1
            pass_over(self, state, self.lines, job)
            pass_over(self, state, self.queue, job)
        for i in range(self.lines.counters[N_FILLED]):
            pass_over(self, state, self.lines, self.lines.first[self.lines.filled[i]])
        for i in range(self.queue.counters[N_FILLED]):
            pass_over(self, state, self.queue, self.queue.first[self.queue.filled[i]])

    def admits(self, state, job, reserved):
        """Say whether nothing holds a job."""
        return not is_held(self, state, job)

    def started(self, state, job):
        """Take note of a start."""
        count(self, job, 1)

    def waits(self, state):
        """Ask to be called when the next hold ends, or a node goes or comes back."""
        now, end = state.now[0], state.submit.size
        wake, changes = np.int64(-1), self.changes
        if changes.counts[N_SEEN] < changes.when.size:
            wake = changes.when[changes.counts[N_SEEN]]
        job = state.next_waiting[end]
        while job != end:
            at = self.release[job]
            if at > now and (wake < 0 or at < wake):
                wake = at
            job = state.next_waiting[job]
        state.wake[0] = wake


@part
def count(own, job, sign):
    """Count a job in what its owners have running (1), or out of it (−1)."""
    limits = own.limits
    for kind in range(limits.owner.shape[0]):
        owner = limits.owner[kind, job]
        if owner >= 0:
            limits.running[0, owner] += sign
            limits.running[1, owner] += sign * own.cpus[job]


@part
def is_held(own, state, job):
    """Say whether a hold or a limit keeps a job."""
    limits = own.limits
    if own.release[job] > state.now[0]:
        return True
    for kind in range(limits.owner.shape[0]):
        owner = limits.owner[kind, job]
        # A job that is larger than its owner's limit runs alone: the limit was inferred from others.
        if (
            owner >= 0
            and limits.running[0, owner] > 0
            and (
                limits.running[0, owner] >= limits.most[0, owner]
                or limits.running[1, owner] + own.cpus[job] > limits.most[1, owner]
            )
        ):
            return True
    return False


@part
def pass_over(own, state, lines, job):
    """Refuse a job in the decision that is about to begin, if it is held."""
    if is_held(own, state, job):
        lines.refused[lines.line_of[job]] = lines.counters[DECISION] + 1


class Rules(Easy):
    """EASY by the rules that a log shows: limits and the scheduler's pause.

    Nodes are away while events of the site say that they were down or drained.
    """

    rule: ClassVar[Any] = None
    takes_tasks: ClassVar[bool] = False

    site: PolicyFile = Field(NOTHING, description="the site folder, as `procure site fit` writes it")

    def files(self) -> tuple[str, ...]:
        """Return the names of the site's files."""
        return () if self.site == NOTHING else (f"{self.site}/site.toml", f"{self.site}/nodes.csv")

    def occupied(self, jobs: pd.DataFrame, node_cpus: np.ndarray) -> np.ndarray | None:
        """Return the CPUs per node that jobs held in the log, where it tells (`procure.account.nodes.held_cpus`)."""
        site = None if self.site == NOTHING else read_site(self.site).rules
        return held_cpus(jobs, node_cpus, site)

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run of which only the requests are known: users have no names."""
        n = len(state.submit)
        table = {"user": state.user.astype(str), "partition": "", "account": "", "submit_time": state.submit}
        return self._made(state, pd.DataFrame(table, index=range(n)), None)

    def make_with(self, state: State, facts: Facts) -> CompiledPolicy:
        """Make the policy of one run of which the job table is known."""
        return self.make(state) if facts.jobs is None else self._made(state, facts.jobs, facts.nodes)

    def _made(self, state: State, jobs: pd.DataFrame, nodes: pd.DataFrame | None) -> CompiledPolicy:
        site = Site() if self.site == NOTHING else read_site(self.site).rules
        if self.depth > 1 or self.hold != "nobody":
            raise TableError(
                "policy rules holds jobs back by itself and knows one reservation; leave depth and hold out"
            )
        owner, names, kinds = owners_of(jobs, fewest=1)
        most = bounds_of(site.rules, names, kinds)
        held = Inferred(
            release=np.asarray(state.submit, np.int64) + pauses_of(site.rules, jobs),
            cpus=np.asarray(state.cpus * state.n_nodes, np.int64),
            limits=Limits(owner.astype(np.int64), most, np.zeros_like(most)),
            has_ended=np.zeros(len(state.submit), bool),
            notes=np.zeros(1, np.int64),
            changes=changes_of(site.events, nodes, jobs),
            lines=None,
            queue=None,
        )
        orders = [self.make_order(state, name) for name in (self.order, self.queue_order)]
        scheduler = self.make_scheduler(state, self.order)
        apart = held_apart(held, state)
        lines = make_lines(state, orders[0], True, apart)
        queue = make_lines(state, orders[1], False, apart)
        notes = np.full(4, -1, np.int64)
        place = self.make_place(state, len(lines.first))
        if len(held.changes.when) and isinstance(place, Nodes):  # nodes go away, and places are of nodes alone
            of_node = np.zeros(len(place.open), np.int64)
            place = Away(place._replace(masked=True, away=True), held.changes, of_node, notes)
        held = held._replace(lines=lines, queue=queue)
        scheduler = scheduler._replace(lines=lines, hold=held, holds=True, place=place)
        own = EasyOwn(scheduler, queue, self.by_time_only, self.keep, self.queue_depth, notes)
        return compiled(easy, own, self.columns(state, place))
