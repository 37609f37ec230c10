"""A centre's own classes of jobs, such as ``cpus <= 4 and nodes == 1``: read, and found in a job table."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives.constraints import Constraint, contradictions, parse
from procure.objectives.quantities import OBJECTIVES, Quantity, quantities_of_class
from procure.schemas import CLASSES, group_column
from procure.text import nearest, short

MOST_CLASSES, _LONGEST = 50, 500
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_AND = re.compile(r"\s+and\s+")
_TEXT_TERM = re.compile(r"\s*(\w+)\s*(==|!=)\s*([^=<>!]*?)\s*")
_SHAPE = (
    "write conditions joined by 'and', e.g. 'cpus <= 4 and nodes == 1' or 'group == chem|physics and mem_per_cpu > 8GB'"
)

Column = Callable[[pd.DataFrame], np.ndarray]


def _total(name: str) -> Column:
    return lambda jobs: (jobs[name] * jobs["n_nodes"]).to_numpy(dtype="float64")


def _limit(jobs: pd.DataFrame) -> np.ndarray:
    asked = jobs["requested_time"].to_numpy(dtype="float64")
    return np.where(asked > 0, asked, np.inf)  # 0 = no limit


def _cpus(jobs: pd.DataFrame) -> np.ndarray:
    return np.maximum(jobs["cpus_per_node"].to_numpy(dtype="float64"), 1)


NUMBERS: dict[str, tuple[str, Column]] = {
    "nodes": ("nodes", lambda jobs: jobs["n_nodes"].to_numpy(dtype="float64")),
    "cpus": ("CPUs", lambda jobs: _cpus(jobs) * jobs["n_nodes"].to_numpy(dtype="float64")),
    "cpus_per_node": ("CPUs", _cpus),
    "gpus": ("GPUs", _total("gpus_per_node")),
    "gpus_per_node": ("GPUs", lambda jobs: jobs["gpus_per_node"].to_numpy(dtype="float64")),
    "mem": ("GB", lambda jobs: _total("mem_mb_per_node")(jobs) / 1000),
    "mem_per_node": ("GB", lambda jobs: jobs["mem_mb_per_node"].to_numpy(dtype="float64") / 1000),
    "mem_per_cpu": ("GB", lambda jobs: jobs["mem_mb_per_node"].to_numpy(dtype="float64") / _cpus(jobs) / 1000),
    "requested_time": ("s", _limit),
}
"""What a job asks for, by name: its unit and values; amounts are of all nodes unless the name says otherwise."""

TEXTS = ("user", "group", "account", "partition", "qos", "gpu_type")
"""What is compared as text; ``group`` is the account or, where the log has none, the user."""


@dataclass(frozen=True)
class TextTerm:
    """``partition == gpu*|debug``: one of these patterns, or with ``!=`` none of them."""

    text: str
    name: str
    patterns: tuple[str, ...]
    negated: bool

    def holds(self, jobs: pd.DataFrame) -> np.ndarray:
        """Say of which jobs it holds, bool[n_jobs]."""
        values = self.values(jobs)
        match = {one: any(self._matches(part) for part in self._parts(one)) for one in values.unique()}
        return values.map(match).to_numpy(dtype=bool) != self.negated

    def values(self, jobs: pd.DataFrame) -> pd.Series:
        """Return what is compared; that the jobs do not have it is an error."""
        column = group_column(jobs) if self.name == "group" else self.name
        if column not in jobs:
            raise TableError(f"{self.text}: the jobs have no column {column}")
        return jobs[column].astype("object").fillna("").astype(str)

    def _parts(self, value: str) -> list[str]:
        # A job may name several GPU models that will do.
        return value.casefold().split("|") if self.name == "gpu_type" else [value]

    def _matches(self, value: str) -> bool:
        patterns = [one.casefold() for one in self.patterns] if self.name == "gpu_type" else self.patterns
        return any(fnmatch.fnmatchcase(value, one) for one in patterns)


@dataclass(frozen=True)
class NumberTerm:
    """``cpus <= 4``: a bound on what a job asks for."""

    text: str
    bound: Constraint

    def holds(self, jobs: pd.DataFrame) -> np.ndarray:
        """Say of which jobs it holds, bool[n_jobs]."""
        return self.bound.holds(NUMBERS[self.bound.of.name][1](jobs))


@dataclass(frozen=True)
class JobClass:
    """A class of jobs: those of which all conditions hold.

    Attributes
    ----------
    name
        As in ``[targets]`` and in ``NAME-p95-wait``.
    text
        The conditions as the user wrote them.
    terms
        The same, read.
    """

    name: str
    text: str
    terms: tuple[TextTerm | NumberTerm, ...]

    def members(self, jobs: pd.DataFrame) -> np.ndarray:
        """Say which jobs of a checked job table are of the class, bool[n_jobs].

        Raises
        ------
        TableError
            It goes by a column that the table does not have.
        """
        try:
            held = [one.holds(jobs) for one in self.terms]
        except TableError as error:
            raise TableError(f"class {self.name}: {error}") from None
        return np.logical_and.reduce(held)


def parse_classes(given: Mapping[str, str]) -> tuple[JobClass, ...]:
    """Read a study's own classes.

    Raises
    ------
    TableError
        A name is taken or no name, or conditions cannot be read, name what is unknown or exclude each other.

    Examples
    --------
    >>> import pandas as pd
    >>> from procure.objectives.job_classes import parse_classes
    >>> from procure.workload import generate
    >>> small, = parse_classes({"small": "cpus <= 4 and nodes == 1"})
    >>> jobs = generate(seed=1, n_jobs=50)
    >>> int(small.members(jobs).sum()) == int((jobs["cpus_per_node"] <= 4).sum())
    True
    """
    if len(given) > MOST_CLASSES:
        raise TableError(f"{len(given)} classes are defined; at most {MOST_CLASSES} may be")
    return tuple(parse_class(name, text) for name, text in given.items())


def parse_class(name: str, text: str) -> JobClass:
    """Read one class, as `parse_classes` does."""
    if not _NAME.fullmatch(name):
        raise TableError(
            f"class {short(name)}: a name has a letter, then letters, digits and _, in lower case, at most 40"
        )
    taken = {one.replace("-", "_") for one in OBJECTIVES}
    if name in ("all", *CLASSES) or any(one.name.replace("-", "_") in taken for one in quantities_of_class(name)):
        raise TableError(f"class {name}: the name is taken; choose another")
    if len(text) > _LONGEST:
        raise TableError(f"class {name}: at most {_LONGEST} characters are allowed")
    if not text.strip():
        raise TableError(f"class {name} has no condition; {_SHAPE}")
    try:
        terms = tuple(_term(one) for one in _AND.split(text.strip()))
    except TableError as error:
        raise TableError(f"class {name} = {text!r}: {error}") from None
    lines = contradictions([one.bound for one in terms if isinstance(one, NumberTerm)])
    if lines:
        raise TableError(f"class {name}: no job can be in it: {'; '.join(lines)}")
    return JobClass(name, text, terms)


def _term(text: str) -> TextTerm | NumberTerm:
    match = _TEXT_TERM.fullmatch(text)
    if match is not None and match[1] in TEXTS:
        patterns = tuple(one.strip() for one in match[3].split("|"))
        if not all(patterns):
            raise TableError(f"{text!r}: a name is missing; {_SHAPE}")
        return TextTerm(text.strip(), match[1], patterns, match[2] == "!=")
    name = re.match(r"\s*(\w*)", text)[1]  # type: ignore[index]
    if name in TEXTS:
        raise TableError(f"{text!r}: {name} is text; compare it by == or !=, e.g. '{name} == a|b*'")
    if name and name not in NUMBERS:
        raise TableError(f"{text!r}: {name!r} is unknown; {nearest(name, (*NUMBERS, *TEXTS))}")
    known = {one: Quantity(one, one, "job", unit, "") for one, (unit, _) in NUMBERS.items()}
    try:
        bound = parse(text, known)
    except TableError as error:
        raise TableError(str(error).removeprefix("constraint ").split("; write NAME")[0] + f"; {_SHAPE}") from None
    return NumberTerm(text.strip(), bound)
