"""Policies ``rules`` and ``as-logged``: EASY, held back as a log was."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from procure.account.held import held_cpus
from procure.account.rules import pauses_of
from procure.comparison.site_check import BEYOND
from procure.errors import TableError
from procure.fitting.away import changes_of, make_away, no_changes
from procure.fitting.hold import Inferred
from procure.fitting.model import Rest, limits_of, no_rest
from procure.fitting.store import read_rest
from procure.fitting.trees import no_trees
from procure.fitting.watch import FEATURES, N_STATIC, THURSDAY, WEEK, Watch
from procure.policies.easy import Easy, EasyOwn, easy
from procure.policies.lines import make_lines
from procure.policies.parameters import NOTHING, Facts, PolicyFile
from procure.policies.scheduler import held_apart
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.state import State
from procure.site.model import Site
from procure.site.store import read_site


class Rules(Easy):
    """EASY by the rules that a log shows: limits and the scheduler's pause.

    Nodes are away while events of the site say that they were down or drained.
    """

    rule: ClassVar[Any] = None
    with_rest: ClassVar[bool] = False

    site: PolicyFile = Field(NOTHING, description="the site folder, as `procure site fit` writes it")

    def files(self) -> tuple[str, ...]:
        """Return the names of the site's files."""
        names = ("site.toml", "nodes.csv", *(("rest.npz",) if self.with_rest else ()))
        return () if self.site == NOTHING else tuple(f"{self.site}/{name}" for name in names)

    def occupied(self, jobs: pd.DataFrame, node_cpus: np.ndarray) -> np.ndarray | None:
        """Return the CPUs per node that jobs held in the log, where it tells (`procure.account.held.held_cpus`)."""
        site = None if self.site == NOTHING else read_site(self.site).rules
        return held_cpus(jobs, node_cpus, site)

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run of which only the requests are known: users have no names."""
        n = len(state.submit)
        table = pd.DataFrame({"user": state.user.astype(str), "partition": "", "account": ""}, index=range(n))
        return self._made(state, table, None)

    def make_with(self, state: State, facts: Facts) -> CompiledPolicy:
        """Make the policy of one run of which the job table is known."""
        if facts.jobs is None:
            return self.make(state)
        return self._made(state, facts.jobs, facts)

    def found(self) -> tuple[Site, Rest]:
        """Return the site's rules, and the learned rest."""
        if self.site == NOTHING:
            return Site(), no_rest()
        site = read_site(self.site).rules
        return site, read_rest(self.site) if self.with_rest else no_rest()

    def _made(self, state: State, jobs: pd.DataFrame, facts: Facts | None) -> CompiledPolicy:
        site, rest = self.found()
        if self.depth > 1 or self.hold != "nobody":
            raise TableError(
                f"policy {self.name_of} holds jobs back by itself and knows one reservation; leave depth and hold out"
            )
        held = make_hold(state, jobs, site, rest)
        if facts is not None and facts.nodes is not None:
            held = held._replace(changes=changes_of(site.events, facts.nodes, int(jobs["submit_time"].min())))
        orders = [self.make_order(state, name) for name in (self.order, self.queue_order)]
        scheduler = self.make_scheduler(state, self.order)
        apart = held_apart(held, state)
        lines = make_lines(state, orders[0], True, apart)
        queue = make_lines(state, orders[1], False, apart)
        notes = np.full(4, -1, np.int64)
        place = make_away(self.make_place(state, len(lines.first)), held.changes, notes)
        held = held._replace(lines=lines, queue=queue)
        scheduler = scheduler._replace(lines=lines, hold=held, holds=True, place=place)
        own = EasyOwn(scheduler, queue, self.by_time_only, self.keep, self.queue_depth, notes)
        if not len(rest.trees.root):
            return compiled(easy, own, self.columns(state, place))
        return compiled(easy, own, lambda: {BEYOND: held.beyond.tolist()})

    @property
    def name_of(self) -> str:
        """The policy's name."""
        return "as-logged" if self.with_rest else "rules"


class AsLogged(Rules):
    """`rules`, and a hold that boosted trees predict of each job as it is submitted, learnt from the log's own waits.

    They see the request, the user's habits and what runs and waits as a share of capacity. Beyond the range that they
    have seen they answer as at its edge; the schedule's column ``beyond_learnt`` says of which jobs that was so.
    """

    with_rest: ClassVar[bool] = True


def make_watch(jobs: Any, means: np.ndarray, capacity: float, origin: int) -> Watch:
    """Lay out the counts of a run or a log in which nothing has happened.

    Parameters
    ----------
    jobs
        With ``user submit requested n_nodes cpus mem``, as `State` or `procure.fitting.learn.LogArrays` have them.
    means
        float64[n_jobs, 3], as `Rest.means_of`.
    capacity
        CPUs of the centre.
    origin
        Unix s of the first submission; the hours that are seen are UTC's.
    """
    n_users = int(jobs.user.max()) + 1
    cpus = jobs.cpus * jobs.n_nodes
    requested = np.where(jobs.requested > 0, jobs.requested, 30 * 86_400).astype(np.float64)
    static = np.stack(
        [
            np.log1p(requested),
            np.log1p(cpus),
            cpus / capacity,
            np.log1p(requested * cpus),
            np.log1p(jobs.mem / np.maximum(jobs.cpus, 1)),
        ],
        axis=1,
    )
    assert static.shape[1] == N_STATIC
    n = len(cpus)
    return Watch(
        user=np.asarray(jobs.user, np.int64),
        cpus=np.asarray(cpus, np.int64),
        submit=np.asarray(jobs.submit, np.int64),
        static=static,
        means=means,
        counts=np.zeros((4, n_users + 1), np.int64),
        last_wait=np.zeros(n_users),
        last_start=np.full(n_users, -WEEK, np.int64),
        last_submit=np.full(n_users, -WEEK, np.int64),
        recent=np.zeros(1),
        oldest=np.full(n_users, -1, np.int64),
        following=np.full(n, -1, np.int64),
        previous=np.full(n, -1, np.int64),
        newest=np.full(n_users, -1, np.int64),
        capacity=float(capacity),
        monday=(origin + THURSDAY) % WEEK,
    )


def make_hold(state: State, jobs: pd.DataFrame, site: Site, rest: Rest) -> Inferred:
    """Make the hold-back of one run."""
    capacity = float(max(state.total_cpus.sum(), 1))
    origin = int(jobs["submit_time"].min()) if "submit_time" in jobs else 0
    n = len(state.submit)
    learnt = bool(len(rest.trees.root))
    # The trees have learnt the pauses, too.
    pause = np.zeros(n, np.int64) if learnt else pauses_of(site.rules, jobs)
    low, high = np.full(len(FEATURES), -np.inf), np.full(len(FEATURES), np.inf)
    if learnt:
        low, high = rest.low, rest.high
    watch = make_watch(state, rest.means_of(jobs), capacity, origin)
    return Inferred(
        watch=watch._replace(recent=np.full(1, rest.recent)),
        trees=rest.trees if learnt else no_trees(),
        scale=float(rest.scale),
        longest=float(rest.longest),
        pause=pause,
        limits=limits_of(site.rules, jobs),
        low=low,
        high=high,
        release=np.full(n, -1, np.int64),
        row=np.zeros(len(FEATURES)),
        has_ended=np.zeros(n, bool),
        beyond=np.zeros(n, bool),
        notes=np.zeros(1, np.int64),
        changes=no_changes(),
        lines=None,
        queue=None,
    )
