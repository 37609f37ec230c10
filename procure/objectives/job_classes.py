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
