"""The applications of a study: how fast each is on which quoted type, and what of the load they cover."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import pandas as pd

from procure.errors import TableError
from procure.objectives.conditions import NUMBERS, Term
from procure.schemas import JOB
from procure.study.sections import Workload
from procure.study.study import Study
from procure.text import listed, nearest
from procure.workload.load import cpu_seconds
from procure.workload.speed import exact_speed, plain_processor
from procure.workload.speedups import KINDS, assign, map_applications, map_gpu_models


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
                found.setdefault(plain_processor(str(processor)), []).append(str(name))
        kinds = [] if self.existing is None or "kind" not in self.existing else self.existing["kind"].unique()
        for kind in kinds:
            if kind not in set(self.quotes["name"]):
                found.setdefault(plain_processor(str(kind)), []).append(str(kind))
        return found

    def factors(self, application: str, workload: Workload) -> dict[str, Fraction]:
        """Return how many times faster than in a log an application is, by type or kind; see `Application`."""
        one, base = self.study.applications[application], Fraction(1)
        speeds = {plain_processor(name): Fraction(str(speed)) for name, speed in one.speed.items()}
        if len(speeds) < len(one.speed):
            raise TableError(f"{self._key(application)}.speed: two names mean one processor")
        if one.relative_to is not None:
            to, logged = plain_processor(one.relative_to), plain_processor(self.study.logged_processor(workload) or "")
            speeds.setdefault(to, Fraction(1))
            if logged and logged in speeds:  # what is as fast as the log needs no SPEC number between
                base = 1 / speeds[logged]
            else:
                there = exact_speed(self.study.logged_speed(workload, self.quotes), "logged speed")
                here = self._rate(to, f"{application}.relative_to", one.relative_to)
                base = (Fraction(1) if there is None or here is None else here / there) / speeds[to]
        logs = {plain_processor(self.study.logged_processor(each) or "") for each in self.study.scenarios}
        given, found = {plain_processor(name): name for name in one.speed}, dict[str, Fraction]()
        for name, speed in speeds.items():
            if name in self.processors or not (one.relative_to is not None and name in logs):
                kinds = self._kinds(name, f"{application}.speed", given.get(name, name))
                found |= dict.fromkeys(kinds, base * speed)
        return found

    def _kinds(self, processor: str, key: str, given: str) -> list[str]:
        """Return the types with a processor; that there is none is an error."""
        if processor not in self.processors:
            names = [*self.quotes["processor"].fillna("").unique(), *(kinds[0] for kinds in self.processors.values())]
            raise TableError(
                f"{self._key(key)}: no quote has the processor {given!r}, no existing node is of that kind; "
                f"{nearest(given, filter(None, dict.fromkeys(map(str, names))))}"
            )
        return self.processors[processor]

    def _rate(self, processor: str, key: str, given: str) -> Fraction | None:
        """Return the SPEC number of one core of a quoted processor, or of an existing kind; None where not known."""
        kinds = self._kinds(processor, key, given)
        rates = self.quotes.loc[self.quotes["name"].isin(kinds), "spec_rate"] if "spec_rate" in self.quotes else []
        found = {exact_speed(rate, f"spec_rate of {given}") for rate in rates}
        if self.existing is not None and "speed" in self.existing and not len(list(rates)):
            found = {exact_speed(one) for one in self.existing.loc[self.existing["kind"].isin(kinds), "speed"]}
        if len(found) > 1:
            raise TableError(f"{self._key(key)}: types with {given} have several values of spec_rate")
        return next(iter(found), None)

    def map(self, jobs: pd.DataFrame, workload: Workload) -> pd.DataFrame:
        """Return a workload's jobs with ``kind_speeds``; what `map_gpu_models` does is done, too."""
        jobs = map_gpu_models(jobs, self.study.gpu_models)
        if not self.study.applications:
            return jobs
        if KINDS in jobs and (jobs[KINDS].fillna("") != "").any():
            raise TableError(
                f"workload {workload.name} has speeds of its own (column {KINDS}); leave [applications] out"
            )
        factors = [self.factors(name, workload) for name in self.study.applications]
        try:
            return map_applications(jobs, self.study.applications, factors)
        except TableError as error:
            raise TableError(f"{self.study.path}: {error} (workload {workload.name})") from None

    def check(self, workloads: Mapping[str, pd.DataFrame]) -> None:
        """Refuse shares above 1 in all, processors that nobody offers, and columns that no workload has."""
        total = sum((Fraction(str(one.share)) for one in self.study.applications.values() if one.share), Fraction(0))
        if total > 1:
            raise TableError(f"{self._key('*.share')}: the shares add up to {float(total)!r}; at most 1 is allowed")
        for name, one in self.study.applications.items():
            for kind in [kind for workload in self.study.scenarios for kind in self.factors(name, workload)]:
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
        apps, rows, whole = self.study.applications, [], 0.0
        for jobs in workloads.values():
            found, load = assign(jobs, apps), cpu_seconds(jobs) / 3600
            whole += float(load.sum())
            for i, (name, one) in enumerate(apps.items()):
                mine, open_ = found.taken == i, found.unknown[i]
                assumed = float(load[open_].sum()) * (one.share or 0.0)
                rows.append((name, int(mine.sum()), float(load[mine].sum()), assumed))
        table = pd.DataFrame(rows, columns=["application", "n_jobs", "core_hours", "assumed_share"])
        table = table.groupby("application", sort=False, as_index=False).sum()
        table.insert(3, "load_share", (table["core_hours"] / (whole or 1.0)).round(4))
        assumed_share = (table["assumed_share"] / (whole or 1.0)).round(4)
        return table.assign(core_hours=table["core_hours"].round(1), assumed_share=assumed_share)

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
        for name in self.study.applications:
            fast = {kind for workload in self.study.scenarios for kind in self.factors(name, workload)}
            named = zip(self.quotes["name"], self.quotes["processor"].fillna(""), strict=True)
            without = dict.fromkeys(str(processor or kind) for kind, processor in named if kind not in fast)
            if without:
                notes.append(f"applications.{name}: no speed on {listed(list(without))}; there the SPEC number serves")
        return notes

    def _key(self, key: str) -> str:
        return f"{self.study.path}: applications.{key}"


def mapper(study: Study) -> Callable[[pd.DataFrame, Workload], pd.DataFrame]:
    """Return what gives the jobs of a workload their speeds on GPU models and, by application, on kinds of node."""
    quotes, existing = (
        (study.read_quotes(), study.read_existing_nodes()) if study.applications else (pd.DataFrame(), None)
    )
    return Applications(study, quotes, existing).map
