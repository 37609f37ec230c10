"""The classes of jobs that a study defines, against its workloads: which overlap, and which nobody is in."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives import objective
from procure.objectives.conditions import JobClass
from procure.objectives.constraints import parse, quantities
from procure.study.study import Study

_NAMED = 5


def class_notes(study: Study, workloads: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say which of a study's own classes overlap, and which have no job; one that is promised something must have one.

    Raises
    ------
    TableError
        A class of the objective or of a constraint has no job in any workload, or a class goes by a
        column that a workload does not have.
    """
    classes, found, asked = study.job_classes, list[str](), _asked_for(study)
    tables = list(workloads.values())
    try:
        members = [np.concatenate([one.members(jobs) for jobs in tables]) for one in classes]
    except TableError as error:
        raise TableError(f"{study.path}: classes: {error}") from None
    for one, mine in zip(classes, members, strict=True):
        if not mine.any():
            text = f"class {one.name}: no job of the workloads falls into it ({one.text}){_who_is_there(one, tables)}"
            if one.name in asked:
                raise TableError(f"{study.path}: classes: {text}")
            found.append(f"careful: {text}")
    for (one, mine), (other, theirs) in combinations(zip(classes, members, strict=True), 2):
        n = int((mine & theirs).sum())
        if n:
            found.append(
                f"classes {one.name} and {other.name} overlap: {n / int(mine.sum()):.1%} of the jobs of {one.name} and "
                f"{n / int(theirs.sum()):.1%} of those of {other.name} count in both"
            )
    return found


def _asked_for(study: Study) -> set[str | None]:
    """Return the classes that a study's objective and constraints name."""
    known = quantities((), study.classes)
    named = [parse(text).of.name for text in study.recommend.constraints]
    bounded = [known.get(name) or known.get(name.replace("-", "_")) for name in named]
    return {
        objective(study.recommend.objective, classes=study.classes).job_class,
        *(one.job_class for one in bounded if one is not None),
    }


def _who_is_there(one: JobClass, tables: list[pd.DataFrame]) -> str:
    """Name what the jobs hold where a class asks for a text that is not there."""
    for term in one.terms:
        if term.texts and not any(term.holds(jobs).any() for jobs in tables):
            held = pd.concat([term.values(jobs) for jobs in tables]).value_counts()
            names = [name or "none" for name in held.index[:_NAMED]]
            return f"; {term.name} is {', '.join(names)}{' …' if len(held) > _NAMED else ''} there"
    return ""
