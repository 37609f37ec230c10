"""What a policy can be told: a small frozen model per policy, which makes the policy of a run."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from procure.policies.entries import SEAMS, offered
from procure.policies.names import FITS, NOBODY, ORDERS
from procure.settings import Settings
from procure.simulator.drive import Policy
from procure.simulator.state import Options, State
from procure.text import nearest


@dataclass(frozen=True)
class OneOf:
    """A text that must be one of some names; the error gives the nearest."""

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check a value after pydantic has."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, value: str) -> str:
        if value not in self.names:
            raise ValueError(f"{value!r} is not known; {nearest(value, self.names)}")
        return value


@dataclass(frozen=True)
class Seam(OneOf):
    """A text that chooses an order, a hold-back or a place: one of ours, or one that an installed package offers."""

    kind: str

    def _check(self, value: str) -> str:
        prefix = f"{self.kind}."
        names = [*self.names, *(name[len(prefix) :] for name in offered(SEAMS) if name.startswith(prefix))]
        return OneOf(tuple(names))._check(value)


NOTHING = "none"
"""In place of a file's name or of a list."""


def in_folder(file: str, info: ValidationInfo) -> str:
    """Take a file's name from the folder of the study that names it, wherever a command then runs."""
    folder = (info.context or {}).get("folder")
    if folder is None or file == NOTHING:
        return file
    return Path(os.path.normpath(Path.cwd() / folder / file)).as_posix()


PolicyFile = Annotated[str, AfterValidator(in_folder)]
"""The name of a file that a policy reads; in a study it is relative to the study file."""
OrderName = Annotated[str, Seam(ORDERS, "order")]
PlaceName = Annotated[str, Seam(FITS, "place")]
HoldName = Annotated[str, Seam((NOBODY,), "hold")]
Natural = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Facts(NamedTuple):
    """What is known beyond the requests: how jobs use what they get, what they report of themselves, and dates."""

    profiles: np.ndarray  # float64[3, n_jobs], % of its CPUs, memory and memory bandwidth; NaN = unknown
    work: np.ndarray  # int64[n_speeds, n_jobs], s: the whole of which a job reports the part that is done
    speed_of_node: np.ndarray  # uint32[n_nodes], row of work
    began: int | None = None  # Unix s of the first submission; None = the log has no dates
    jobs: pd.DataFrame | None = None  # the job table in queue order
    nodes: pd.DataFrame | None = None  # the node table


class Parameters(Settings):
    """What every policy takes. A policy's own parameters are the fields of a subclass, with defaults.

    `make` is the factory: it is called once per run, before anything is submitted.
    """

    rule: ClassVar[Callable | None] = None
    """The function that decides, whose docstring states the rule; without, this docstring of the class."""
    needs_tree: ClassVar[bool] = False
    """Whether nodes need a leaf and a pod."""

    takes_tasks: ClassVar[bool] = False
    """Whether it places jobs that ask for tasks, or take their nodes whole, beside jobs of nodes."""

    plans: ClassVar[bool] = True
    """Whether nodes may be kept for jobs that wait, where `State.node_first` says; no class says no for its subclasses.

    Without, the nodes of tasks are listed as jobs start: a tenth of the room.
    """

    exclusive: bool = Field(False, description="a job takes its nodes whole")
    last_two: bool = Field(False, description="estimate a job by its user's last two run times")

    @classmethod
    def rule_text(cls) -> str:
        """Return the rule as it is documented, and what is chosen for its seams."""
        chosen = [inspect.getdoc(base) or "" for base in cls.__bases__[:-1]]
        return "\n\n".join([inspect.getdoc(getattr(cls.rule, "py_func", cls.rule) or cls) or "", *chosen])

    def options(self) -> Options:
        """Return what the simulator does differently under these parameters."""
        return Options(int(self.exclusive), int(self.last_two), plans=int(vars(type(self)).get("plans", True)))

    def files(self) -> tuple[str, ...]:
        """Return the names of the files on which what the policy decides depends."""
        return ()

    def as_submitted(self, jobs: pd.DataFrame) -> tuple[pd.DataFrame, str]:
        """Return a log's jobs without what was done to them and the policy does itself, and a sentence on that."""
        return jobs, ""

    def verify(self, jobs: pd.DataFrame, nodes: pd.DataFrame) -> list[str]:
        """Check, before anything is simulated, what the policy goes by against a workload and all kinds of nodes.

        Returns what the user should know; what is wrong is a `procure.errors.TableError`.
        """
        return []

    def consumes_memory(self, jobs: pd.DataFrame) -> bool:
        """Say whether jobs take memory away from others, as Slurm's do under ``CR_…_Memory`` only."""
        return True

    def occupied(self, jobs: pd.DataFrame, node_cpus: np.ndarray) -> np.ndarray | None:
        """Return the CPUs per node that the policy lets jobs take, where that is not what they ask for; None = it is.

        ``jobs`` stand in queue order, ``node_cpus`` is int64[n_nodes]; the answer int64[n_jobs]. A job that no node
        then holds keeps what it asks for.
        """
        return None

    def make(self, state: State) -> Policy:
        """Make the policy of one run.

        Parameters
        ----------
        state
            Of the run, with everything known but nothing submitted: it tells how much room is needed.

        Returns
        -------
        callable
            ``policy(state) -> (job, nodes)``, or a `procure.simulator.drive.CompiledPolicy`.
        """
        raise NotImplementedError(f"{type(self).__name__} makes no policy; define make(self, state)")

    def make_with(self, state: State, facts: Facts) -> Policy:
        """Make the policy of one run that knows `Facts` too; most need not, and define only `make`."""
        return self.make(state)
