"""Orders of the waiting jobs: each is a score, the lowest served first; ties go to the earlier queued job."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from procure.policies import names
from procure.policies.parameters import Natural, OrderName, Parameters
from procure.policies.spread import sort_by
from procure.simulator.kernel import inlined, kernel, part
from procure.simulator.seams import order as seam
from procure.simulator.state import Options, State
from procure.simulator.steps import usage_now
from procure.simulator.tasks import size_in_nodes

_LOG2 = np.array([0.0] + [math.log2(n) for n in range(1, 257)])  # a third of the time of UNICEF otherwise


@seam
class Order(NamedTuple):
    """Who is served first; the weights and the age are those of the priority order."""

    rule: int  # numbers `procure.policies.names.ORDERS`
    weight_age: float
    weight_fair_share: float
    weight_size: float
    max_age: float  # s

    def score(self, state, job):
        """Return a job's score now: the lowest is served first."""
        return score(state, job, self)

    def alike(self, state: State) -> tuple[np.ndarray, ...] | None:
        """Return None if scores never change, else arrays: jobs that differ in none change alike."""
        unknown = state.options.last_two and self.rule in names.BY_ESTIMATE
        if unknown:  # an estimate is made at the submission, so nobody is known to be like another
            return (np.arange(len(state.submit)),)
        if self.rule == names.PRIORITY:
            return state.user, state.n_nodes if state.tasks is None else state.shape
        if self.rule in (names.WFP3, names.UNICEF):
            return np.maximum(state.cpus, 1) * state.n_nodes, state.estimate
        return None


def is_queue_order(order: Any) -> bool:
    """Say whether an order is that of the queue, for which nothing need be compared."""
    return isinstance(order, Order) and order.rule == names.FCFS


class Ordered(Parameters):
    """Parameters of a policy that serves the waiting jobs in an order."""

    order: OrderName = Field("fcfs", description="which job is served first")
    weight_age: Natural = Field(1.0, description="order priority: weight of the wait so far")
    weight_fair_share: Natural = Field(1.0, description="order priority: weight of the user's fair share")
    weight_size: Natural = Field(0.0, description="order priority: weight of the share of the nodes")
    max_age: float = Field(604_800.0, gt=0, description="order priority: s after which age counts no more")
    half_life: float = Field(names.HALF_LIFE, gt=0, description="order priority: s in which past use halves")

    @property
    def orders(self) -> tuple[str, ...]:
        """Every order that these parameters use."""
        return (self.order,)

    @model_validator(mode="after")
    def _weights_are_of_priority(self):
        if "priority" not in self.orders:
            for key in ("weight_age", "weight_fair_share", "weight_size", "max_age", "half_life"):
                if getattr(self, key) != type(self).model_fields[key].default:
                    raise ValueError(f"{key} counts only in the order priority; {self.orders[0]} was chosen")
        return self

    def make_order(self, state: State, name: str) -> Any:
        """Make an order of a run: a named tuple of a class with a score (`procure.simulator.seams.order`)."""
        weights = self.weight_age, self.weight_fair_share, self.weight_size
        return Order(names.ORDERS.index(name), *weights, self.max_age)

    def options(self) -> Options:
        """Keep past use where it counts."""
        return super().options()._replace(half_life=self.half_life if "priority" in self.orders else 0.0)


@inlined
def fair_share(accounts, half_life, now, user):
    """Return 2^(−use / share): 1 for a user without past use, 1/2 for one who used an equal share.

    Use is the user's part of all decayed CPU-seconds, the share 1 / users, as Slurm's classic fair share
    defines it.
    """
    everybody = accounts.at.size - 1
    total = usage_now(accounts, half_life, now, everybody)
    if total <= 0.0:
        return 1.0
    return 2.0 ** (-usage_now(accounts, half_life, now, user) / total * everybody)


@inlined
def _priority(order, age, size, share):
    age = min(1.0, age / order.max_age)
    return order.weight_age * age + order.weight_fair_share * share + order.weight_size * size


@kernel
def score(state, job, order):
    """Return a job's score now: float64, lower is served first.

    With r the estimated run time (s), n the CPUs of all nodes, s the submission (s after the first,
    at least 1) and w the wait so far (s). UNICEF's logarithm is at least 1, so that one CPU is no
    division by zero.
    """
    rule = order.rule
    if rule == names.FCFS:
        return float(job)
    if rule == names.LCFS:
        return -float(job)
    run = float(state.estimate[job])
    if rule == names.SJF:
        return run
    n_cpus = max(state.cpus[job], 1) * state.n_nodes[job]
    size = float(n_cpus)
    if rule == names.SMALLEST:
        return size
    if rule == names.LARGEST:
        return -size
    if rule == names.EDF:
        return float(state.due[job])
    if rule == names.PRIORITY:
        now = state.now[0]
        share = fair_share(state.accounts, state.options.half_life, now, state.user[job])
        size = size_in_nodes(state, state.tasks, job) / state.free_cpus.size
        return -_priority(order, now - state.submit[job], size, share)
    wait = float(state.now[0] - state.submit[job])
    if rule == names.WFP3:
        ratio = wait / run
        return -(ratio * ratio * ratio) * size
    if rule == names.UNICEF:
        logarithm = _LOG2[n_cpus] if n_cpus < _LOG2.size else math.log2(size)
        return -wait / (max(logarithm, 1.0) * run)
    submitted = math.log10(max(float(state.submit[job]), 1.0))
    if rule == names.F1:
        return math.log10(run) * size + 870.0 * submitted
    if rule == names.F2:
        return math.sqrt(run) * size + 25_600.0 * submitted
    if rule == names.F3:
        return run * size + 6_860_000.0 * submitted
    return run * math.sqrt(size) + 530_000.0 * submitted


@part
def lay_out(state, order, ordered, jobs, scores):
    """Lay the waiting jobs into ``jobs`` in an order; returns how many. ``scores`` float64[n_jobs] is room.

    Without ``ordered`` the order is that of the queue.
    """
    n_jobs = state.submit.size
    n = 0
    job = state.next_waiting[n_jobs]
    while job != n_jobs:
        jobs[n] = job
        n += 1
        job = state.next_waiting[job]
    if ordered:
        for i in range(n):
            scores[i] = order.score(state, jobs[i])
        sort_by(scores, jobs, n)
    return n
