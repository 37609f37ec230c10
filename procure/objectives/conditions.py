"""Conditions on jobs, such as ``cpus <= 4 and job_name ~ vasp``: one grammar for classes and for applications."""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives.constraints import Constraint, contradictions, parse
from procure.objectives.quantities import Quantity
from procure.schemas import JOB, group_column
from procure.text import listed, nearest, short

_AND = re.compile(r"\s+and\s+")
_TEXT_TERM = re.compile(r"\s*([A-Za-z_]\w*)\s*(==|!=|=(?!=)|~)\s*([^=<>!~].*?)?\s*")
_NAME = re.compile(r"\s*(\w*)")
_WILD = re.compile(r"[*?\[]")
SHAPE = (
    "write conditions joined by 'and', e.g. 'cpus <= 4 and nodes == 1', 'group == chem|physics and mem_per_cpu > 8GB' "
    "or 'job_name ~ vasp'"
)
"""How conditions are written."""

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

TEXTS = ("user", "group", "account", "partition", "qos", "gpu_type", "job_name")
"""What is compared as text; ``group`` is the account or, where the log has none, the user."""


@dataclass(frozen=True)
class TextTerm:
    """``partition == gpu*|debug``: in any case one of these, with ``!=`` none of them, with ``~`` containing one."""

    text: str
    name: str
    op: str
    texts: tuple[str, ...]

    def holds(self, jobs: pd.DataFrame) -> np.ndarray:
        """Say of which jobs it holds, bool[n_jobs]."""
        values = self.values(jobs)
        match = {one: self.is_met(one) for one in values.unique()}
        return values.map(match).to_numpy(dtype=bool)

    def column_in(self, jobs: pd.DataFrame) -> str:
        """Return the column that is meant."""
        return group_column(jobs) if self.name == "group" and "group" not in jobs else self.name

    def values(self, jobs: pd.DataFrame) -> pd.Series:
        """Return what is compared; that the jobs do not have it is an error."""
        column = self.column_in(jobs)
        if column not in jobs:
            raise TableError(f"{self.text}: the jobs have no column {column}")
        return jobs[column].astype("object").fillna("").astype(str).str.strip()

    def is_met(self, value: str) -> bool:
        """Tell whether a cell meets it."""
        # A job may name several GPU models that will do.
        parts = value.casefold().split("|") if self.name == "gpu_type" else [value.casefold()]
        found = any(self._matches(part, one.casefold()) for part in parts for one in self.texts)
        return found != (self.op == "!=")

    def _matches(self, value: str, text: str) -> bool:
        return text in value if self.op == "~" else fnmatch.fnmatchcase(value, text)


@dataclass(frozen=True)
class NumberTerm:
    """``cpus <= 4``: a bound on what a job asks for."""

    text: str
    bound: Constraint

    def holds(self, jobs: pd.DataFrame) -> np.ndarray:
        """Say of which jobs it holds, bool[n_jobs]."""
        return self.bound.holds(NUMBERS[self.bound.of.name][1](jobs))


Term = TextTerm | NumberTerm


class Known(NamedTuple):
    """Of which jobs conditions hold, and of which that is not known, both bool[n_jobs]."""

    holds: np.ndarray
    unknown: np.ndarray


def find(terms: Sequence[Term], jobs: pd.DataFrame) -> Known:
    """Say of which jobs all conditions hold; a cell that is empty or a column that is not there says nothing."""
    holds, unknown, never = (np.full(len(jobs), start) for start in (True, False, False))
    for term in terms:
        silent = np.zeros(len(jobs), dtype=bool)
        if isinstance(term, TextTerm):
            if term.column_in(jobs) not in jobs:
                holds, unknown = holds & False, unknown | True
                continue
            silent = (term.values(jobs) == "").to_numpy(dtype=bool)
        met = term.holds(jobs)
        holds, unknown, never = holds & met & ~silent, unknown | silent, never | (~met & ~silent)
    return Known(holds, unknown & ~never)


def parse_terms(text: str, any_column: bool = False) -> tuple[Term, ...]:
    """Read conditions.

    Parameters
    ----------
    text
        ``cpus <= 4 and partition == gpu*|debug``: amounts of `NUMBERS` with ``<= < >= > ==``, text with ``==`` (or
        ``=``), ``!=`` and ``~`` (contains), several texts with ``|`` between, where ``*`` stands for anything.
    any_column
        Whether a column of text may be one that only the log has; else it is one of `TEXTS`, or of the job table.

    Raises
    ------
    TableError
        They cannot be read, name what is unknown, or exclude each other.

    Examples
    --------
    >>> from procure.objectives.conditions import parse_terms
    >>> [one.text for one in parse_terms("cpus <= 4 and job_name ~ vasp|cp2k")]
    ['cpus <= 4', 'job_name ~ vasp|cp2k']
    """
    if not text.strip():
        raise TableError(f"{text!r} has no condition; {SHAPE}")
    terms = tuple(_term(one.strip(), any_column) for one in _AND.split(f" {text.strip()} "))
    lines = contradictions([one.bound for one in terms if isinstance(one, NumberTerm)])
    lines += _contradicting_texts([one for one in terms if isinstance(one, TextTerm)])
    if lines:
        raise TableError(f"no job can be in it: {'; '.join(lines)}")
    return terms


def _term(text: str, any_column: bool) -> Term:
    name = _NAME.match(text)[1]  # type: ignore[index]
    match = _TEXT_TERM.fullmatch(text)
    known = (*TEXTS, *(column.name for column in JOB.columns if column.dtype == "str"))
    if match is not None and name not in NUMBERS and (any_column or name in known):
        texts = tuple(one.strip() for one in (match[3] or "").split("|"))
        if not all(texts):
            raise TableError(f"{short(text)}: a name is missing; {SHAPE}")
        return TextTerm(text, name, "==" if match[2] == "=" else match[2], texts)
    if name in known:
        raise TableError(f"{short(text)}: {name} is text; compare it by ==, != or ~, e.g. '{name} == a|b*'; {SHAPE}")
    if name and name not in NUMBERS:
        raise TableError(f"{short(text)}: {name!r} is unknown; {nearest(name, (*NUMBERS, *TEXTS))}; {SHAPE}")
    numbers = {one: Quantity(one, one, "job", unit, "") for one, (unit, _) in NUMBERS.items()}
    try:
        bound = parse(re.sub(r"(?<![<>=!])=(?!=)", "==", text), numbers)
    except TableError as error:
        raise TableError(str(error).removeprefix("constraint ").split("; write NAME")[0] + f"; {SHAPE}") from None
    return NumberTerm(text, bound)


def _contradicting_texts(terms: Sequence[TextTerm]) -> list[str]:
    """Name conditions on one column that no text meets, as far as that is plain; a job may have several GPU models."""
    lines = []
    for name in dict.fromkeys(one.name for one in terms if one.name != "gpu_type"):
        mine = [one for one in terms if one.name == name]
        exact = [one for one in mine if one.op == "==" and not any(_WILD.search(text) for text in one.texts)]
        if any(not any(all(each.is_met(text) for each in mine) for text in one.texts) for one in exact):
            lines.append(f"{listed([repr(one.text) for one in mine])} contradict each other")
            continue
        for one, other in itertools.permutations(mine, 2):
            same = {text.casefold() for text in one.texts} <= {text.casefold() for text in other.texts}
            if same and other.op == "!=" and one.op == "==":
                lines.append(f"{one.text!r} and {other.text!r} contradict each other")
    return lines
