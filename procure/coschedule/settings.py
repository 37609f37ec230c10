"""How two commands share an allocation: what runs and measurements of them are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from procure.coschedule.groups import NORMAL_WEIGHT
from procure.errors import ArgumentError
from procure.settings import MOST_COUNTED, Seed
from procure.workload.slurm_text import slurm_memory_limit

QUOTAS = (0.25, 0.5, 0.75)


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """What every run of two commands takes.

    ``driver`` and ``weight`` are as in `procure.coschedule.groups.choose_boxes`; without ``n_cpus`` the allocation
    is all that we may use.
    """

    n_cpus: Annotated[
        int | None,
        Field(
            ge=1, le=MOST_COUNTED, description="CPUs of the allocation, both are pinned to; none = all that we may use."
        ),
    ] = None
    progress: Annotated[
        str | None,
        Field(description="Regular expression in the output that tells progress: (done)/(total), or (percent)."),
    ] = None
    driver: Annotated[
        str,
        Field(description="idle (priority), quota (control groups; v2, v1), duty (stop and continue in turn) or auto."),
    ] = "auto"
    weight: Annotated[
        int,
        Field(
            le=MOST_COUNTED,
            description="Of both among everything else that runs here, 1 to 10000; control groups only.",
        ),
    ] = NORMAL_WEIGHT


@dataclass(frozen=True, kw_only=True)
class Driving(Sharing):
    """How a donor and a guest are run.

    ``learner``, ``step`` and ``seed`` are as in `procure.coschedule.learner.make_learner`; ``full`` needs losses that
    nobody can measure. Where the donor tells no progress (`procure.coschedule.processes.Progress`), only its limit is
    known: it is taken to need all of it. With ``until_donor`` the guest ends with the donor
    instead of having its CPUs.
    """

    limit: Annotated[float, Field(description="Seconds that the donor, the first, may take.")]
    learner: Annotated[str, Field(description="How the quota is chosen: ucb, ips, ix or paper.")] = "ucb"
    share: Annotated[float | None, Field(description="A fixed quota for the guest instead, 0 to 1.")] = None
    interval: Annotated[float, Field(description="Seconds between choices.")] = 1.0
    step: Annotated[float, Field(description="Between the quotas that can be chosen.")] = 0.25
    progress_file: Annotated[Path | None, Field(description="A file that the donor keeps its progress in.")] = None
    seconds: Annotated[float | None, Field(description="End both after this many seconds.")] = None
    until_donor: bool = False
    memory: Annotated[str, Field(description="Memory that the guest may fill, such as 4G; beyond, it is ended.")] = ""
    seed: Annotated[Seed, Field(description="Of the learner's random numbers.")] = 0

    @property
    def wants_quota(self) -> bool:
        """Whether something was asked for that idle priority, which has no quota, cannot do."""
        return self.share is not None or self.learner != "ucb" or self.weight != NORMAL_WEIGHT

    @property
    def memory_mb(self) -> int:
        """Memory that the guest may fill, MB; 0 = no limit."""
        try:
            return slurm_memory_limit(self.memory) if self.memory else 0
        except ValueError as error:
            raise ArgumentError("memory", str(error)) from None


@dataclass(frozen=True, kw_only=True)
class Measuring(Sharing):
    """How two commands are measured; the pattern of progress is read in the output of both.

    ``bandwidth`` is the share of the memory bandwidth that each draws alone, 0 to 1, if known; the severity is fitted
    only then.
    """

    seconds: Annotated[float, Field(description="Seconds of each measurement; there are five.")] = 60.0
    quotas: Sequence[float] = QUOTAS
    bandwidth: tuple[float, float] | None = None
