"""A centre's own classes of jobs, such as ``cpus <= 4 and nodes == 1``: read, and found in a job table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives.conditions import Term, parse_terms
from procure.objectives.quantities import OBJECTIVES, quantities_of_class
from procure.schemas import CLASSES
from procure.text import short

MOST_CLASSES, _LONGEST = 50, 500
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


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
    terms: tuple[Term, ...]

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
    try:
        return JobClass(name, text, parse_terms(text))
    except TableError as error:
        raise TableError(f"class {name}: {error}") from None
