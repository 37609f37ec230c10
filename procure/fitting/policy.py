"""Policy ``rules``: EASY, held back as a log was."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from procure.account.held import held_cpus
from procure.account.rules import pauses_of
from procure.errors import TableError
from procure.fitting.away import Changes, changes_of, make_away
from procure.fitting.hold import Inferred, limits_of
from procure.policies.easy import Easy, EasyOwn, easy
from procure.policies.lines import make_lines
from procure.policies.parameters import NOTHING, Facts, PolicyFile
from procure.policies.scheduler import held_apart
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.state import State
from procure.site.model import Rule, Site
from procure.site.store import read_site


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
        """Return the CPUs per node that jobs held in the log, where it tells (`procure.account.held.held_cpus`)."""
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
        held = make_hold(state, jobs, site.rules, changes_of(site.events, nodes, jobs))
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
        return compiled(easy, own, self.columns(state, place))


def make_hold(state: State, jobs: pd.DataFrame, rules: tuple[Rule, ...], changes: Changes) -> Inferred:
    """Make the hold-back of one run."""
    n = len(state.submit)
    return Inferred(
        release=np.asarray(state.submit, np.int64) + pauses_of(rules, jobs),
        cpus=np.asarray(state.cpus * state.n_nodes, np.int64),
        limits=limits_of(rules, jobs),
        has_ended=np.zeros(n, bool),
        notes=np.zeros(1, np.int64),
        changes=changes,
        lines=None,
        queue=None,
    )
