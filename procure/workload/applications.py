"""Applications: which jobs are whose, and how much faster each is on which kind of node."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field, field_validator, model_validator

from procure.errors import TableError
from procure.objectives.conditions import Term, find, parse_terms
from procure.settings import Settings, StrictNumber, named
from procure.text import counted, short
from procure.workload.speed import exact_speed

COLUMN = "kind_speeds"
Factors = Mapping[str, Fraction]
"""By kind of node: how many times faster than in the log an application is there."""


class Application(Settings):
    """Which jobs are an application's, and how fast it is on which processor.

    Parameters
    ----------
    by
        As `procure.objectives.conditions.parse_terms` reads it.
    share
        Of the core hours of jobs that nothing is known of (no such column, an empty cell, or no ``by``), the share
        that is taken to be this application's.
    speed
        By processor (or kind of existing nodes): how many times faster than in the log.
    relative_to
        A processor that speeds are relative to instead; from the log's to this one run times scale by the SPEC number.
    """

    by: str | None = None
    share: Annotated[float, Field(strict=True, gt=0, le=1)] | None = None
    speed: Annotated[dict[str, StrictNumber], Field(min_length=1, max_length=1000), AfterValidator(named)]
    relative_to: str | None = None

    @field_validator("by")
    @classmethod
    def _readable(cls, by: str | None) -> str | None:
        try:
            return by if by is None or parse_terms(by, any_column=True) else None
        except TableError as error:
            raise ValueError(str(error)) from None

    @field_validator("speed")
    @classmethod
    def _above_zero(cls, speed: dict[str, float]) -> dict[str, float]:
        for name, factor in speed.items():
            try:
                if exact_speed(factor, name) is None:
                    raise TableError(f"{name}: {factor} was given; a speed is a number above 0")
            except TableError as error:
                raise ValueError(str(error)) from None
        return speed

    @model_validator(mode="after")
    def _some_jobs(self) -> Application:
        if self.by is None and self.share is None:
            raise ValueError("give by (which jobs are this application's), share (of the core hours), or both")
        return self

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The conditions of ``by``; none without it."""
        return () if self.by is None else parse_terms(self.by, any_column=True)


class Assignment(NamedTuple):
    """Whose each job is."""

    taken: np.ndarray  # int64[n_jobs], the application that takes the job by its condition; -1 = none
    unknown: np.ndarray  # bool[n_applications, n_jobs]: its share counts for the job


def assign(jobs: pd.DataFrame, applications: Mapping[str, Application]) -> Assignment:
    """Say whose each job is.

    Raises
    ------
    TableError
        Two applications take the same job.
    """
    taken, names = np.full(len(jobs), -1, np.int64), list(applications)
    unknown = np.zeros((len(names), len(jobs)), dtype=bool)
    for i, one in enumerate(applications.values()):
        if not one.terms:
            unknown[i] = True
            continue
        meant, unknown[i] = find(one.terms, jobs)
        again = np.flatnonzero(meant & (taken >= 0))
        if again.size:
            row = int(again[0])
            raise TableError(
                f"applications.{names[i]}.by: takes {counted(int(again.size), 'job')} that "
                f"applications.{names[taken[row]]}.by takes, too, such as job {jobs['job_id'].iloc[row]}; "
                "each job is of one application"
            )
        taken[meant] = i
    shared = np.array([one.share is not None for one in applications.values()], dtype=bool)
    return Assignment(taken, unknown & shared[:, None] & (taken < 0))


def core_seconds(jobs: pd.DataFrame) -> np.ndarray:
    """Return nodes × CPUs per node × run time of each job, float64[n_jobs]."""
    columns = (jobs[name].to_numpy(np.float64) for name in ("n_nodes", "cpus_per_node", "run_time"))
    return np.asarray(functools.reduce(np.multiply, columns))


def map_applications(
    jobs: pd.DataFrame, applications: Mapping[str, Application], factors: Sequence[Factors]
) -> pd.DataFrame:
    """Say in a job table how fast jobs are on which kind of node.

    A job that an application takes is as fast as its factors say. A job of which nothing is known is each application's
    by its share: that share of its run time is as fast as the application, the rest scales as without.

    Parameters
    ----------
    jobs
        A job table.
    applications
        By name.
    factors
        Of each application, in the same order.

    Returns
    -------
    pandas.DataFrame
        The table with ``kind_speeds`` such as ``Big=1.4`` or ``Big=1.4:0.3`` (of 0.3 of the run time); the same table
        where nothing changes.
    """
    taken, unknown = assign(jobs, applications)
    settings = list(applications.values())
    # Jobs of one pattern have one text: few patterns, many jobs.
    number, patterns = pd.factorize(pd.MultiIndex.from_arrays([taken, *unknown]))
    texts = []
    for pattern in patterns:
        mine = [(settings[i], factors[i]) for i in range(len(settings)) if i == pattern[0] or pattern[1 + i]]
        whole = pattern[0] >= 0
        texts.append(_text([(Fraction(1) if whole else Fraction(str(one.share)), found) for one, found in mine]))
    if not any(texts):
        return jobs
    return jobs.assign(**{COLUMN: pd.Series(np.array(texts, dtype=object)[number], index=jobs.index, dtype=object)})


def _text(parts: Sequence[tuple[Fraction, Factors]]) -> str:
    cells = []
    for kind in dict.fromkeys(kind for _, found in parts for kind in found):
        known = [(share, found[kind]) for share, found in parts if kind in found]
        share = sum((share for share, _ in known), Fraction(0))
        factor = share / sum((share / factor for share, factor in known), Fraction(0))
        cells.append(f"{kind}={_number(factor)}" + (f":{_number(share)}" if share < 1 else ""))
    return "|".join(cells)


def _number(value: Fraction) -> str:
    """Write a fraction exactly: as a decimal where it is one."""
    decimal = Decimal(value.numerator) / Decimal(value.denominator)
    return f"{decimal:f}" if Fraction(decimal) == value else str(value)


class KindSpeed(NamedTuple):
    """How many times faster a share of a job's run time is; the rest scales as without."""

    factor: Fraction
    share: Fraction

    def ratio(self, otherwise: Fraction) -> Fraction:
        """Return by what the run time is multiplied, where without this it is multiplied by ``otherwise``."""
        return self.share / self.factor + (1 - self.share) * otherwise


@functools.lru_cache(4096)
def kind_speeds(text: str) -> dict[str, KindSpeed]:
    """Read how fast a job is on kinds of node: ``Big=1.4|Small=71/50:0.3``; what is not named scales as without.

    Raises
    ------
    TableError
        A part is no kind with a number above 0, or its share is not above 0 and at most 1.
    """
    found = {}
    for part in filter(None, (one.strip() for one in text.split("|"))):
        kind, is_there, value = part.rpartition("=")
        factor, _, share = value.partition(":")
        try:
            one = KindSpeed(Fraction(factor), Fraction(share or "1"))
        except (ValueError, ZeroDivisionError):
            one = KindSpeed(Fraction(0), Fraction(0))
        if not is_there or not kind.strip() or one.factor <= 0 or not 0 < one.share <= 1:
            raise TableError(
                f"{COLUMN}: {short(part)} was given; write KIND=TIMES or KIND=TIMES:SHARE, e.g. Big=1.4:0.3"
            )
        found[kind.strip()] = one
    return found
