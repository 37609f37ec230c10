"""The applications of a study: how fast each is on which quoted type, and what of the load they cover."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives.conditions import NUMBERS, Term
from procure.schemas import JOB
from procure.study.study import Study
from procure.study.workloads import Workload
from procure.text import listed, nearest
from procure.workload.applications import COLUMN, assign, core_seconds, map_applications
from procure.workload.gpu_models import map_gpu_models
from procure.workload.speed import exact_speed, plain_processor

_FAR = 1.5
_WORDS = re.compile(r"\d+[a-z]*|[a-z]+")


@dataclass(frozen=True)
class Applications:
    """The applications of a study beside its quotes and existing nodes."""

    study: Study
    quotes: pd.DataFrame
    existing: pd.DataFrame | None

    @cached_property
    def processors(self) -> dict[str, list[str]]:
        """The types by quoted processor, in quote order; existing nodes of no quoted type by their kind."""
        found: dict[str, list[str]] = {}
        for name, processor in zip(self.quotes["name"], self.quotes["processor"].fillna(""), strict=True):
            if processor:
                found.setdefault(str(processor), []).append(str(name))
        kinds = [] if self.existing is None or "kind" not in self.existing else self.existing["kind"].unique()
        for kind in kinds:
            if kind not in set(self.quotes["name"]):
                found.setdefault(str(kind), []).append(str(kind))
        return found

    def find(self, name: str, key: str) -> str:
        """Return the quoted processor (or existing kind) that a name means, ``EPYC9654`` of ``AMD EPYC 9654``.

        That none is meant, or several, is an error.
        """
        plain = plain_processor(name)
        like = [one for one in self.processors if plain_processor(one) == plain]
        words = set(_WORDS.findall(plain))
        like = like or [one for one in self.processors if words and words <= set(_WORDS.findall(plain_processor(one)))]
        if len(like) > 1:
            raise TableError(f"{self._key(key)}: {name!r} may be {' or '.join(like)}; write the processor's whole name")
        if not like:
            raise TableError(
                f"{self._key(key)}: no quote has the processor {name!r}, no existing node is of that kind; "
                f"{nearest(name, self.processors)}"
            )
        return like[0]

    def named(self, application: str) -> dict[str, str]:
        """Return the names in an application's ``speed`` by what they mean; the log's own processor is left out."""
        one, found = self.study.applications[application], dict[str, str]()
        for name in one.speed:
            if one.relative_to == name and self._only_logged(name):
                continue
            processor = self.find(name, f"{application}.speed")
            if processor in found:
                raise TableError(
                    f"{self._key(application)}.speed: {found[processor]!r} and {name!r} both mean {processor}"
                )
            found[processor] = name
        return found

    def factors(self, application: str, workload: Workload) -> dict[str, Fraction]:
        """Return how many times faster than in a log an application is, by type or kind; see `Application`."""
        one, base = self.study.applications[application], Fraction(1)
        if one.relative_to is not None:
            base = self._base(application, one.relative_to, workload)
        named = self.named(application)
        found = {
            kind: base * _exact(one.speed[name])
            for processor, name in named.items()
            for kind in self.processors[processor]
        }
        reference = self._reference(application)
        if reference is not None and reference not in named:  # its own speed is 1
            found |= dict.fromkeys(self.processors[reference], base)
        return found

    def map(self, jobs: pd.DataFrame, workload: Workload) -> pd.DataFrame:
        """Return a workload's jobs with ``kind_speeds``; what `map_gpu_models` does is done, too."""
        jobs = map_gpu_models(jobs, self.study.gpu_models)
        if not self.study.applications:
            return jobs
        if COLUMN in jobs and (jobs[COLUMN].fillna("") != "").any():
            raise TableError(
                f"workload {workload.name} has speeds of its own (column {COLUMN}); leave [applications] out"
            )
        factors = [self.factors(name, workload) for name in self.study.applications]
        try:
            return map_applications(jobs, self.study.applications, factors)
        except TableError as error:
            raise TableError(f"{self.study.path}: {error} (workload {workload.name})") from None

    def check(self, workloads: Mapping[str, pd.DataFrame]) -> None:
        """Refuse shares above 1 in all, processors that nobody offers, and columns that no workload has."""
        total = sum((_exact(one.share) for one in self.study.applications.values() if one.share), Fraction(0))
        if total > 1:
            raise TableError(f"{self._key('*.share')}: the shares add up to {float(total)!r}; at most 1 is allowed")
        for name, one in self.study.applications.items():
            for workload in self.study.scenarios:
                self.factors(name, workload)
            for processor in self.named(name):
                for kind in self.processors[processor]:
                    if set(kind) & set("|="):
                        raise TableError(f"{self._key(name)}.speed: type {kind!r} holds | or =; name it without")
            for term in one.terms:
                if term.texts:
                    self._check_column(name, term, workloads)

    def _check_column(self, name: str, term: Term, workloads: Mapping[str, pd.DataFrame]) -> None:
        """Refuse a column that no workload has, unless a share says what is taken to be the application's."""
        if any(term.column_in(jobs) in jobs for jobs in workloads.values()):
            return
        held = list(dict.fromkeys(column for jobs in workloads.values() for column in jobs.columns))
        if term.column_in(pd.DataFrame()) not in JOB.by_name:
            legal = nearest(term.name, dict.fromkeys([*held, *JOB.names, *NUMBERS, "group"]))
            raise TableError(f"{self._key(name)}.by: unknown column {term.name!r}; {legal}")
        if self.study.applications[name].share is None:
            raise TableError(
                f"{self._key(name)}.by: no workload has the column {term.name!r}; give share, the part of "
                f"the core hours that is taken to be {name}, or a column of {', '.join(held)}"
            )

    def coverage(self, workloads: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """Count what is covered, over all workloads: ``application n_jobs core_hours load_share assumed_share``.

        These are the jobs that it takes, their core hours, their share of all core hours, and the share that is taken
        to be its by ``share``.
        """
        names = list(self.study.applications)
        n_jobs, hours, assumed = np.zeros(len(names), np.int64), np.zeros(len(names)), np.zeros(len(names))
        whole = 0.0
        for jobs in workloads.values():
            found, load = assign(jobs, self.study.applications), core_seconds(jobs) / 3600
            whole += float(load.sum())
            for i, one in enumerate(self.study.applications.values()):
                n_jobs[i] += int((found.taken == i).sum())
                hours[i] += float(load[found.taken == i].sum())
                assumed[i] += float(load[found.unknown[i]].sum()) * (one.share or 0.0)
        whole = whole or 1.0
        return pd.DataFrame(
            {
                "application": names,
                "n_jobs": n_jobs,
                "core_hours": hours.round(1),
                "load_share": (hours / whole).round(4),
                "assumed_share": (assumed / whole).round(4),
            }
        )

    def notes(self, workloads: Mapping[str, pd.DataFrame]) -> list[str]:
        """Say what the applications cover, which processors they have no speed for, and what is odd."""
        if not self.study.applications:
            return []
        table = self.coverage(workloads)
        said = [
            f"{row.application} {row.load_share:.1%} ({row.n_jobs:,} jobs)"
            + (f" and {row.assumed_share:.1%} by its share" if row.assumed_share else "")
            for row in table.itertuples()
        ]
        rest = max(0.0, 1 - float(table["load_share"].sum()) - float(table["assumed_share"].sum()))
        notes = [f"applications: of the core hours {', '.join(said)}; the other {rest:.1%} scale by the SPEC number"]
        for row in table.itertuples():
            by = self.study.applications[str(row.application)].by
            if by is not None and not row.n_jobs:
                notes.append(f"careful: applications.{row.application}: no job is meant by {by!r}")
        guessed: dict[str, str] = {}
        for name in self.study.applications:
            named = self.named(name)
            guessed |= {given: of for of, given in named.items() if plain_processor(of) != plain_processor(given)}
            known = {*named, self._reference(name)}
            without = [one for one in self.processors if one not in known] + self._nameless()
            if without:
                notes.append(f"applications.{name}: no speed on {listed(without)}; there the SPEC number serves")
            notes += self._odd(name)
        if guessed:
            notes.append("applications: taken " + ", ".join(f"{name} for {of}" for name, of in guessed.items()))
        return notes

    def _reference(self, application: str) -> str | None:
        """Return the quoted processor that an application's speeds are relative to, None where they are to the log."""
        name = self.study.applications[application].relative_to
        return None if name is None or self._only_logged(name) else self.find(name, f"{application}.relative_to")

    def _nameless(self) -> list[str]:
        return [str(name) for name in self.quotes.loc[self.quotes["processor"].fillna("") == "", "name"]]

    def _key(self, key: str) -> str:
        return f"{self.study.path}: applications.{key}"

    def _only_logged(self, name: str) -> bool:
        """Tell whether a processor is that of a log, and nobody quotes it."""
        plain = plain_processor(name)
        logged = {plain_processor(self.study.logged_processor(one) or "") for one in self.study.scenarios} - {""}
        return plain in logged and plain not in {plain_processor(one) for one in self.processors}

    def _base(self, application: str, name: str, workload: Workload) -> Fraction:
        """Return by what speeds that are relative to a processor are multiplied to be relative to a workload's log."""
        speed, named = self.study.applications[application].speed, self.named(application)
        plain = plain_processor(self.study.logged_processor(workload) or "")
        if plain and plain_processor(name) == plain:
            return 1 / _exact(speed.get(name, 1.0))
        for processor, given in named.items():  # what is as fast as the log needs no SPEC number between
            if plain and plain_processor(processor) == plain:
                return 1 / _exact(speed[given])
        processor = self.find(name, f"{application}.relative_to")
        own = _exact(speed[named[processor]]) if processor in named else Fraction(1)
        if plain and plain_processor(processor) == plain:
            return 1 / own
        there = exact_speed(self.study.logged_speed(workload, self.quotes), "logged speed")
        here = self._rate(processor, application)
        return (Fraction(1) if there is None or here is None else here / there) / own

    def _rate(self, processor: str, application: str) -> Fraction | None:
        """Return the SPEC number of one core of a quoted processor, or of an existing kind; None where not known."""
        kinds = self.processors[processor]
        rates = self.quotes.loc[self.quotes["name"].isin(kinds), "spec_rate"] if "spec_rate" in self.quotes else []
        found = {exact_speed(rate, f"spec_rate of {processor}") for rate in rates}
        if self.existing is not None and "speed" in self.existing and not len(list(rates)):
            found = {exact_speed(one) for one in self.existing.loc[self.existing["kind"].isin(kinds), "speed"]}
        if len(found) > 1:
            raise TableError(
                f"{self._key(application)}.relative_to: types with {processor} have several values of spec_rate"
            )
        return next(iter(found), None)

    def _odd(self, name: str) -> list[str]:
        """Warn where all speeds are far from the SPEC number's: were they relative to something else?"""
        if self.study.applications[name].relative_to is not None or "spec_rate" not in self.quotes:
            return []
        rates = self.quotes.set_index("name")["spec_rate"]
        off = []
        for workload in self.study.scenarios:
            logged = exact_speed(self.study.logged_speed(workload, self.quotes))
            if logged is not None:
                off += [
                    float(factor * logged) / float(rates[kind])
                    for kind, factor in self.factors(name, workload).items()
                    if kind in rates and rates[kind] > 0
                ]
        if not off or not (max(off) < 1 / _FAR or min(off) > _FAR):
            return []
        return [
            f"careful: applications.{name}: on every processor with a speed {min(off):.2g} to {max(off):.2g} times as "
            "fast as by the SPEC number; speed is times faster than in the log; "
            "if it is relative to a processor, say relative_to"
        ]


def _exact(value: float | None) -> Fraction:
    return Fraction(str(value))


def mapper(study: Study) -> Callable[[pd.DataFrame, Workload], pd.DataFrame]:
    """Return what gives the jobs of a workload their speeds on GPU models and, by application, on kinds of node."""
    quotes, existing = (
        (study.read_quotes(), study.read_existing_nodes()) if study.applications else (pd.DataFrame(), None)
    )
    return Applications(study, quotes, existing).map
