"""The policy `coschedule`, by its parameters."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, model_validator

from procure.coschedule.learner import MODES, N_METRICS, TRUST, make_learner
from procure.coschedule.sharing import ABSENT, FIXED, FORMS, IDLE, IDLE_PRIORITY, Contention, Sharing, share
from procure.policies.parameters import Facts, OneOf, Parameters
from procure.settings import LARGEST, LAST_SEED
from procure.simulator.arrays import filled
from procure.simulator.drive import CompiledPolicy, compiled
from procure.simulator.state import PACE_ONE, State, share_cpus

Learning = Annotated[str, OneOf((*MODES, "idle"))]
Form = Annotated[str, OneOf(FORMS)]
Progress = Annotated[str, OneOf(("reported", "limit"))]


class Coschedule(Parameters):
    """Parameters of co-scheduling. With ``exclusive`` nothing is shared."""

    rule: ClassVar = share
    learner: Learning = Field(
        "idle", description="how the quota is chosen; idle = none, the guest gets what the donor leaves over"
    )
    share: float = Field(0.0, ge=0, lt=1, description="a fixed quota instead; 0 = as learner says")
    interval: int = Field(60, ge=1, le=LARGEST, description="s between choices")
    step: float = Field(0.25, ge=0.01, le=0.5, description="between the quotas that can be chosen")
    tolerance: float = Field(0.1, ge=0, description="how much longer a job may run, below its limit")
    admit: float = Field(
        0.02,
        ge=0,
        le=1,
        description="idle, ucb: the expected loss up to which a guest is let in; its limit is taken that much lower",
    )
    progress: Progress = Field(
        "reported",
        description="what is known of a job's progress: its own reports, or only its limit",
    )
    contention: Form = Field("share", description="the form of the contention model")
    overhead: float = Field(0.02, ge=0, description="by how much longer all takes while two share")
    severity: float = Field(
        1.0, ge=0, description="slowdown where both draw all of the memory bandwidth; form bandwidth"
    )
    worse: float = Field(1.0, ge=0, description="how many times worse contention is than believed")
    seed: int = Field(0, ge=0, le=LAST_SEED, description="of the learner's random numbers")

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Coschedule:
        if self.share and self.learner != "idle":
            raise ValueError(f"share={self.share} fixes the quota, learner={self.learner} chooses it")
        return self

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of a run of whose jobs no profile is known: nothing is shared."""
        n_jobs, n_nodes = len(state.submit), len(state.free_cpus)
        unknown = np.full((3, n_jobs), np.nan)
        return self.make_with(state, Facts(unknown, np.zeros((1, n_jobs), np.int64), np.zeros(n_nodes, np.uint32)))

    def make_with(self, state: State, facts: Facts) -> CompiledPolicy:
        """Make the policy of one run."""
        n_jobs = len(state.submit)
        if not self.exclusive:
            share_cpus(state, 2)
        bandwidth = int(self.contention == "bandwidth")
        idle = self.learner == "idle" and not self.share
        learner = make_learner(
            "ucb" if self.learner == "idle" else self.learner, self.seed, step=self.step, trust=TRUST
        )
        one_quota = [0.0, IDLE if idle else self.share]
        quotas = np.array(one_quota) if idle or self.share else learner.experts.quotas
        work = facts.work
        if self.progress != "reported":
            work = np.where(state.requested > 0, state.requested, work).astype(np.int64)
        own = Sharing(
            learner=learner,
            fixed=FIXED if self.share else IDLE_PRIORITY if idle else 0,
            quotas=quotas,
            contention=Contention(bandwidth, self.overhead * self.worse, self.severity * self.worse),
            believed=Contention(bandwidth, self.overhead, self.severity),
            interval=self.interval,
            tolerance=self.tolerance,
            admit=self.admit,
            profiles=np.ascontiguousarray(facts.profiles / 100.0),
            work_at=np.ascontiguousarray(work),
            speed_of_node=facts.speed_of_node,
            **filled(
                n_jobs, work=0, done=0, since=0, pace=PACE_ONE, donor=ABSENT, level=0, owners=0, began=-1, shared=0
            ),
            **filled(len(state.node_list), guest_at=-1),
            context=np.zeros((n_jobs, N_METRICS + 1), np.int64),
            expected=np.zeros(n_jobs),
            free=state.total_cpus.copy(),
            loss=np.zeros(1),
            predicted=np.zeros(len(quotas)),
            losses=np.zeros(len(quotas)),
            here=np.zeros(N_METRICS + 1, np.int64),
            notes=np.array([-1, 0, 0, -1, 0, 0, 0, 0]),
        )

        def columns() -> dict[str, list]:
            return {"began_as_guest": (own.began >= 0).tolist(), "guest_time": own.shared.tolist()}

        return compiled(share, own, columns)
