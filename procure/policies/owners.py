"""The hold-back `owners`: nodes that groups have paid for are theirs first, and others' while they are idle.

Without preemption: a guest that runs on a group's node stays to its end. While a job of the group waits, no guest
starts on a node of it; nodes that nobody owns are everybody's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field, PrivateAttr, field_validator, model_validator

from procure.errors import TableError
from procure.policies.parameters import Facts, Parameters
from procure.schemas import group_column
from procure.simulator.kernel import part
from procure.simulator.seams import hold as seam
from procure.simulator.state import State
from procure.simulator.tasks import binds, lay_units, spreads, units_on

NOBODY = -1
"""The owner of a node that is everybody's, and the group of a job of none that owns any."""


@seam
class OwnersFirst(NamedTuple):
    """Whose each node and each job is."""

    owner: np.ndarray  # int64[n_nodes], a group or NOBODY
    group: np.ndarray  # int64[n_jobs], likewise
    waiting: np.ndarray  # bool[n_groups], a job of the group waits
    open: np.ndarray  # bool[n_nodes], the nodes that an admitted job may take

    def follow(self, state):
        """See which groups have a job that waits."""
        self.waiting[:] = False
        last = state.submit.size
        job = state.next_waiting[last]
        while job != last:
            if self.group[job] >= 0:
                self.waiting[self.group[job]] = True
            job = state.next_waiting[job]

    def apart(self, state):
        """Jobs of one request and group are refused alike."""
        return (self.group, state.shape)

    def admits(self, state, job, reserved):
        """Open a job's own nodes, everybody's, and those of groups of which nobody waits; say whether these do."""
        return open_to(state, self, job)


@part
def open_to(state, own, job):
    """Open the nodes that a job may take; say whether enough of them hold it now, or all nodes together do not."""
    for node in range(own.open.size):
        owner = own.owner[node]
        own.open[node] = owner < 0 or owner == own.group[job] or not own.waiting[owner]
    return _enough(state, state.tasks, own, job, True) or not _enough(state, state.tasks, own, job, False)


@part
def _enough(state, tasks, own, job, only_open):
    """Say whether the nodes, or the open ones, hold a job now."""
    shape, left, found = state.shape[job], state.n_nodes[job], 0
    for node in range(own.open.size):
        n = units_on(state, tasks, shape, node)
        if n > 0 and (own.open[node] or not only_open):
            left -= n
            found = lay_units(tasks, found, n)
    return left <= 0 and (not binds(tasks, shape) or spreads(tasks, shape, found, state.n_nodes[job]))


class Owners(Parameters):
    """Nodes belong to groups that have paid for them: owner first, others while idle, without preemption.

    Of the nodes of each kind a group owns its share, by the largest remainder. A job's group is its account, or its
    user where the log has no accounts.
    """

    owners: str = Field("", description="who owns which share of the nodes: GROUP@SHARE+GROUP@SHARE …")
    _jobs: pd.DataFrame | None = PrivateAttr(None)

    @field_validator("owners")
    @classmethod
    def _can_be_read(cls, owners: str) -> str:
        read_owners(owners)
        return owners

    @model_validator(mode="after")
    def _without_reservations(self) -> Owners:
        if not self.owners:
            raise ValueError("hold=owners needs owners=GROUP@SHARE, such as owners=physics@0.3")
        if hasattr(self, "depth") or not hasattr(self, "hold"):
            raise ValueError("hold=owners goes with fcfs and first-fit; a reservation would take nodes of others")
        return self

    def make_with(self, state: State, facts: Facts) -> Any:
        """Make the policy of one run; groups are those of the job table."""
        known = self.model_copy()
        known._jobs = facts.jobs
        return known.make(state)

    def make_hold(self, state: State) -> OwnersFirst:
        """Make the hold-back of one run."""
        shares = read_owners(self.owners)
        if self._jobs is None:
            raise TableError("hold=owners needs the job table, whose accounts or users are the groups")
        kind = list(zip(state.total_cpus, state.total_mem, state.total_gpus, state.node_types, strict=True))
        n = len(state.free_cpus)
        return OwnersFirst(
            owners_of_nodes(kind, list(shares.values())),
            groups_of_jobs(self._jobs, list(shares)),
            np.zeros(len(shares), np.bool_),
            np.ones(n, np.bool_),
        )


def read_owners(text: str) -> dict[str, float]:
    """Read ``physics@0.3+chem@0.2``.

    Raises
    ------
    ValueError
        It cannot be read, a share is not above 0, or all together exceed 1.
    """
    found: dict[str, float] = {}
    for one in text.split("+") if text else []:
        name, _, share = one.rpartition("@")
        try:
            value = float(share)
        except ValueError:
            value = math.nan
        if not name or name in found or not 0 < value <= 1:
            raise ValueError(f"owners: {one!r} cannot be read; write GROUP@SHARE, such as physics@0.3, each group once")
        found[name] = value
    if sum(found.values()) > 1 + 1e-9:
        raise ValueError(f"owners: the shares of {text} are {sum(found.values()):g} together; at most 1")
    return found


def owners_of_nodes(kinds: list[Any], shares: list[float]) -> np.ndarray:
    """Return whose each node is, a place in the shares or `NOBODY`, int64[n_nodes].

    Of the nodes of a kind each group gets its share, rounded down, and what is left of the groups' shares goes to the
    largest remainders, the earlier first; the first nodes are the first group's.
    """
    found = np.full(len(kinds), NOBODY, np.int64)
    for kind in dict.fromkeys(kinds):
        nodes = [i for i, one in enumerate(kinds) if one == kind]
        exact = [share * len(nodes) for share in shares]
        whole = [math.floor(one + 1e-9) for one in exact]
        more = math.floor(sum(exact) + 1e-9) - sum(whole)
        for place in sorted(range(len(shares)), key=lambda i: (whole[i] - exact[i], i))[:more]:
            whole[place] += 1
        at = 0
        for group, n in enumerate(whole):
            found[nodes[at : at + n]] = group
            at += n
    return found


def written(shares: Mapping[str, float]) -> str:
    """Write shares as `read_owners` reads them."""
    return "+".join(f"{name}@{float(share)!r}" for name, share in shares.items())


def groups_of_jobs(jobs: pd.DataFrame, groups: list[str]) -> np.ndarray:
    """Return whose each job is, a place in the groups or `NOBODY`, int64[n_jobs]."""
    place = {name: i for i, name in enumerate(groups)}
    return jobs[group_column(jobs)].map(place).fillna(NOBODY).to_numpy(np.int64)
