"""Conditions on jobs, such as ``cpus <= 4 and job_name ~ vasp``, and a centre's own classes of jobs by them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives.constraints import OBJECTIVES, Constraint, Quantity, contradictions, parse, quantities_of_class
from procure.schemas import CLASSES, JOB, as_logged, group_column
from procure.text import nearest, short

_AND = re.compile(r"\s+and\s+")
_TEXT_TERM = re.compile(r"\s*([A-Za-z_]\w*)\s*(==|!=|=(?!=)|~)\s*([^=<>!~].*?)?\s*")
SHAPE = (
    "write conditions joined by 'and', e.g. 'cpus <= 4 and nodes == 1', 'group == chem|physics and mem_per_cpu > 8GB' "
    "or 'job_name ~ vasp'"
)
"""How conditions are written."""

_AMOUNTS: dict[str, tuple[str, Callable[[pd.DataFrame], pd.Series]]] = {
    "nodes": ("nodes", lambda jobs: jobs["n_nodes"]),
    "cpus": ("CPUs", lambda jobs: _cpus(jobs) * jobs["n_nodes"]),
    "cpus_per_node": ("CPUs", lambda jobs: _cpus(jobs)),
    "gpus": ("GPUs", lambda jobs: jobs["gpus_per_node"] * jobs["n_nodes"]),
    "gpus_per_node": ("GPUs", lambda jobs: jobs["gpus_per_node"]),
    "mem": ("GB", lambda jobs: jobs["mem_mb_per_node"] * jobs["n_nodes"] / 1000),
    "mem_per_node": ("GB", lambda jobs: jobs["mem_mb_per_node"] / 1000),
    "mem_per_cpu": ("GB", lambda jobs: jobs["mem_mb_per_node"] / _cpus(jobs) / 1000),
    "requested_time": ("s", lambda jobs: jobs["requested_time"].where(jobs["requested_time"] > 0, np.inf)),
}
"""What a job asks for: its unit, and each job's amount, of all nodes unless the name says otherwise; no limit is 0."""
NUMBERS = tuple(_AMOUNTS)

TEXTS = ("user", "group", "account", "partition", "qos", "gpu_type", "job_name")
"""What is compared as text; ``group`` is the account or, where the log has none, the user."""


def _cpus(jobs: pd.DataFrame) -> pd.Series:
    return jobs["cpus_per_node"].clip(lower=1)


@dataclass(frozen=True)
class Term:
    """One condition: a bound on one of `NUMBERS`, or texts.

    ``partition == gpu*|debug`` holds of a cell that is one of these, in any case; with ``!=`` of one that is none of
    them, with ``~`` of one that contains one.
    """

    text: str
    name: str
    op: str
    texts: tuple[str, ...] = ()
    bound: Constraint | None = None

    def holds(self, jobs: pd.DataFrame) -> np.ndarray:
        """Say of which jobs it holds, bool[n_jobs]; that the jobs do not have its column is an error."""
        if self.bound is not None:
            return self.bound.holds(_AMOUNTS[self.name][1](as_logged(jobs)).to_numpy(dtype="float64"))
        values = self.values(jobs)
        return values.map({one: self._is_met(one) for one in values.unique()}).to_numpy(dtype=bool)

    def column_in(self, jobs: pd.DataFrame) -> str:
        """Return the column that is meant."""
        return group_column(jobs) if self.name == "group" and "group" not in jobs else self.name

    def values(self, jobs: pd.DataFrame) -> pd.Series:
        """Return the texts that are compared."""
        column = self.column_in(jobs)
        if column not in jobs:
            raise TableError(f"{self.text}: the jobs have no column {column}")
        return jobs[column].astype("object").fillna("").astype(str).str.strip()

    def _is_met(self, value: str) -> bool:
        # A job may name several GPU models that will do.
        parts = value.casefold().split("|") if self.name == "gpu_type" else [value.casefold()]
        pairs = [(part, one.casefold()) for part in parts for one in self.texts]
        found = any(one in part if self.op == "~" else fnmatch.fnmatchcase(part, one) for part, one in pairs)
        return found != (self.op == "!=")


class Known(NamedTuple):
    """Of which jobs conditions hold, and of which that is not known, both bool[n_jobs]."""

    holds: np.ndarray
    unknown: np.ndarray


def find(terms: Sequence[Term], jobs: pd.DataFrame) -> Known:
    """Say of which jobs all conditions hold; a cell that is empty or a column that is not there says nothing."""
    holds, unknown, never = (np.full(len(jobs), start) for start in (True, False, False))
    for term in terms:
        if term.texts and term.column_in(jobs) not in jobs:
            holds, unknown = holds & False, unknown | True
            continue
        empty = (term.values(jobs) == "").to_numpy(dtype=bool) if term.texts else np.zeros(len(jobs), dtype=bool)
        met = term.holds(jobs)
        holds, unknown, never = holds & met & ~empty, unknown | empty, never | (~met & ~empty)
    return Known(holds, unknown & ~never)


def parse_terms(text: str, any_column: bool = False) -> tuple[Term, ...]:
    """Read conditions such as ``cpus <= 4 and partition == gpu*|debug``; what cannot be, is an error.

    `NUMBERS` are compared by ``<= < >= > ==``, text by ``==`` (or ``=``), ``!=`` and ``~`` (contains), several texts
    with ``|`` between, where ``*`` stands for anything. With ``any_column`` a column of text may be one that only the
    log has; else it is one of `TEXTS`, or of the job table.
    """
    if not text.strip():
        raise TableError(f"{text!r} has no condition; {SHAPE}")
    terms = tuple(_term(one.strip(), any_column) for one in _AND.split(f" {text.strip()} "))
    if lines := contradictions([one.bound for one in terms if one.bound is not None]):
        raise TableError(f"no job can be in it: {'; '.join(lines)}")
    return terms


def _term(text: str, any_column: bool) -> Term:
    name = re.match(r"\s*(\w*)", text)[1]  # type: ignore[index]
    match = _TEXT_TERM.fullmatch(text)
    known = (*TEXTS, *(column.name for column in JOB.columns if column.dtype == "str"))
    if match is not None and name not in NUMBERS and (any_column or name in known):
        texts = tuple(one.strip() for one in (match[3] or "").split("|"))
        if not all(texts):
            raise TableError(f"{short(text)}: a name is missing; {SHAPE}")
        return Term(text, name, match[2], texts)
    if name in known:
        raise TableError(f"{short(text)}: {name} is text; compare it by ==, != or ~, e.g. '{name} == a|b*'; {SHAPE}")
    if name and name not in NUMBERS:
        raise TableError(f"{short(text)}: {name!r} is unknown; {nearest(name, (*NUMBERS, *TEXTS))}; {SHAPE}")
    try:
        numbers = {one: Quantity(one, one, "job", unit, "") for one, (unit, _) in _AMOUNTS.items()}
        bound = parse(re.sub(r"(?<![<>=!])=(?!=)", "==", text), numbers)
    except TableError as error:
        raise TableError(str(error).removeprefix("constraint ").split("; write NAME")[0] + f"; {SHAPE}") from None
    return Term(text, name, bound.op, bound=bound)


MOST_CLASSES, _LONGEST = 50, 500
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True)
class JobClass:
    """A class of jobs by its name, its conditions as written, and as read: those of which all hold."""

    name: str
    text: str
    terms: tuple[Term, ...]

    def members(self, jobs: pd.DataFrame) -> np.ndarray:
        """Say which jobs of a checked job table are of the class, bool[n_jobs]; a column that lacks is an error."""
        try:
            return np.logical_and.reduce([one.holds(jobs) for one in self.terms])
        except TableError as error:
            raise TableError(f"class {self.name}: {error}") from None


def parse_classes(given: Mapping[str, str]) -> tuple[JobClass, ...]:
    """Read a study's own classes; a name that is taken or none, and conditions that cannot be, are errors."""
    if len(given) > MOST_CLASSES:
        raise TableError(f"{len(given)} classes are defined; at most {MOST_CLASSES} may be")
    taken, found = {one.replace("-", "_") for one in OBJECTIVES}, []
    for name, text in given.items():
        try:
            if not _NAME.fullmatch(name):
                raise TableError("a name has a letter, then letters, digits and _, in lower case, at most 40")
            own = {one.name.replace("-", "_") for one in quantities_of_class(name)}
            if name in ("all", *CLASSES) or own & taken:
                raise TableError("the name is taken; choose another")
            if len(text) > _LONGEST:
                raise TableError(f"at most {_LONGEST} characters are allowed")
            found.append(JobClass(name, text, parse_terms(text)))
        except TableError as error:
            raise TableError(f"class {name if _NAME.fullmatch(name) else short(name)}: {error}") from None
    return tuple(found)
