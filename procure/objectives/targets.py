"""What a centre promises those who wait, such as ``p95 wait <= 4h in 9 of 10 workloads``, by class of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from procure.errors import TableError
from procure.objectives.constraints import Constraint, parse
from procure.objectives.quantities import Quantity
from procure.schemas import CLASSES
from procure.text import nearest

ALL = "all"
TARGET_CLASSES = (ALL, *CLASSES)
FIGURES = {
    "mean wait": ("mean_wait_time", "s"),
    "p95 wait": ("p95_wait_time", "s"),
    "share over 1h": ("share_over_1h", "share"),
}
_TARGET = re.compile(r"\s*([a-z0-9 ]+?)\s*<=\s*(.+?)\s*(?:\bin\s+(\d+)\s+of\s+(\d+)(?:\s+workloads)?)?\s*")
_SHAPE = (
    "write 'FIGURE <= BOUND' or 'FIGURE <= BOUND in N of M workloads', e.g. 'p95 wait <= 4h in 9 of 10 workloads'; "
    "FIGURE is mean wait, p95 wait or share over 1h"
)


@dataclass(frozen=True)
class Target:
    """One promise to one class of jobs.

    Attributes
    ----------
    job_class
        ``all``, one of `procure.schemas.CLASSES`, or one of the study's own.
    text
        As the user wrote it.
    bound
        What is to be kept: the figure over all workloads, or its quantile over them.
    """

    job_class: str
    text: str
    bound: Constraint


def parse_target(job_class: str, text: str, classes: Iterable[str] = ()) -> Target:
    """Read one target; ``classes`` are the study's own.

    Raises
    ------
    TableError
        The class or the figure is unknown, or the text cannot be read.
    """
    known = (*TARGET_CLASSES, *classes)
    if job_class not in known:
        raise TableError(
            f"target {job_class} = {text!r}: no such class of jobs; {nearest(job_class, known)}; "
            "a study's own stand in [classes]"
        )
    if re.search(r"\bof\s+\d+\s+futures\b", text):
        raise TableError(
            f"target {job_class} = {text!r}: packages are compared on workloads now; write 'in N of M workloads'"
        )
    match = _TARGET.fullmatch(text)
    if match is None or " ".join(match[1].split()) not in FIGURES:
        raise TableError(f"target {job_class} = {text!r} cannot be read; {_SHAPE}")
    figure, bound, n, m = match.groups()
    column, unit = FIGURES[" ".join(figure.split())]
    if n is not None and not 1 <= int(n) <= int(m):
        raise TableError(f"target {job_class} = {text!r}: {n} of {m} was given; from 1 to all are possible")
    of = Quantity(
        f"{job_class} {' '.join(figure.split())}" + (f" in {n} of {m}" if n else ""),
        column if job_class == ALL else f"{job_class}_{column}",
        "result",
        unit,
        f"{figure} of {'all jobs' if job_class == ALL else f'the class {job_class}'}",
        "mean" if n is None else "quantile",
        None if n is None else int(n) / int(m),
    )
    return Target(job_class, text, parse(f"{of.name} <= {bound}", {of.name: of}))


def parse_targets(given: Mapping[str, str], classes: Iterable[str] = ()) -> tuple[Target, ...]:
    """Read the targets of a study; ``classes`` are its own."""
    classes = tuple(classes)
    return tuple(parse_target(name, text, classes) for name, text in given.items())
