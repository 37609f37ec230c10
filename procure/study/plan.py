"""What a study asks for: its packages, its workloads, and the runs between them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.packages import expand_packages
from procure.packages.expiry import validity_notes
from procure.packages.space import too_many
from procure.policies import catalog
from procure.policies.catalog import refuse_multi_node
from procure.schemas import JOB, QUOTE, RESULT
from procure.study.existing import coverage_notes
from procure.study.rules import check_sample
from procure.study.study import Study
from procure.study.workloads import Workload
from procure.tables import check, read
from procure.workload import generate, import_log, slice_day
from procure.workload.describe import multi_node_notes
from procure.workload.presets import load_preset


@dataclass(frozen=True)
class Plan:
    """A study with everything that it names read in."""

    study: Study
    quotes: pd.DataFrame
    packages: pd.DataFrame
    workloads: dict[str, pd.DataFrame]
    existing: pd.DataFrame | None
    notes: tuple[str, ...] = ()
    """What the user should know of how the inputs were read."""

    @property
    def types(self) -> list[str]:
        """The quoted types, in quote-file order: the count columns of the package table."""
        return self.quotes["name"].to_list()

    @cached_property
    def sampled_rows(self) -> np.ndarray:
        """Rows of the package table that the study simulates: every n-th distinct one."""
        distinct = np.flatnonzero(self.packages["distinct"].to_numpy())
        return distinct[self.study.sweep.offset :: self.study.sweep.sample]

    @cached_property
    def row_of(self) -> pd.Series:
        """Row of the package table by package id, distinct packages only."""
        distinct = np.flatnonzero(self.packages["distinct"].to_numpy())
        return pd.Series(distinct, index=self.packages["package_id"].to_numpy()[distinct])

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every workload with every policy, in study order."""
        return [(workload, policy) for workload in self.workloads for policy in self.study.simulate.policies]

    @property
    def n_runs(self) -> int:
        """How many runs the study asks for."""
        return len(self.pairs) * len(self.sampled_rows)

    def logged_speed(self, workload: str) -> str | None:
        """The speed of the system that a workload was logged on, as decimal text; None = ratio 1.0."""
        named = next(w for w in self.study.workloads if w.name == workload)
        return self.study.logged_speed(named, self.quotes)

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """What results depend on: two sweeps may share a folder only if none of it differs."""
        watts = [] if self.existing is None else list(self.existing.filter(regex="^(idle_)?power_w$"))
        return {
            "quotes": _digest(self.quotes),
            "packages": _digest(self.packages),
            "existing nodes": "none" if self.existing is None else _digest(self.existing.drop(columns=watts)),
            "kill_at_limit": self.study.simulate.kill_at_limit,
            "result schema": RESULT.version,
        } | {
            f"workload {name}": f"{_digest(jobs)} at speed {self.logged_speed(name) or 'ratio 1.0'}"
            for name, jobs in self.workloads.items()
        }


def load_plan(study: Study) -> Plan:
    """Read a study's quotes, packages, workloads and existing nodes.

    Raises
    ------
    TableError
        As `read_inputs`; or no package is feasible, or they are too many to list.
    """
    quotes, workloads, existing, notes = read_inputs(study, study.simulate.policies)
    about = too_many(quotes, study.packages)
    if about is not None:
        raise TableError(
            f"{study.path}: about {about:.1e} packages are too many to list; `procure search {study.path}` "
            "searches them without a list"
        )
    packages = expand_packages(quotes, study.packages)
    plan = Plan(study, quotes, packages, workloads, existing, notes)
    check_sample(study, int(packages["distinct"].sum()))
    return plan


class Inputs(NamedTuple):
    """What a study names, but for the list of its packages, and what is to be said of it."""

    quotes: pd.DataFrame
    workloads: dict[str, pd.DataFrame]
    existing: pd.DataFrame | None
    notes: tuple[str, ...]


def read_inputs(study: Study, policies: Iterable[str]) -> Inputs:
    """Read a study's quotes, workloads and existing nodes, to be simulated under some policies.

    Raises
    ------
    TableError
        Anything that the study names is missing or wrong, or a workload asks for what a policy
        cannot place.
    """
    for policy in policies:
        catalog.spec(policy)
    quotes = check(study.read_quotes(), QUOTE, str(study.quotes))
    notes: list[str] = []
    workloads = {workload.name: read_workload(workload, notes.append) for workload in study.workloads}
    for jobs in workloads.values():
        for policy in policies:
            refuse_multi_node(jobs, policy)
    notes += validity_notes(quotes, study.packages)
    system = study.read_existing_system()
    existing = None
    if system is not None:
        notes += system.notes
        if len(system.nodes):
            existing = system.nodes
            notes += coverage_notes(workloads, existing, quotes)
    notes += [*study.speed_notes(quotes, existing), *multi_node_notes(workloads)]
    return Inputs(quotes, workloads, existing, tuple(notes))


def read_workload(workload: Workload, note: Callable[[str], None] = lambda text: None) -> pd.DataFrame:
    """Read or generate one workload of a study, as a checked job table; say what became of a log's rows."""
    if workload.generate is not None:
        jobs = generate(workload.generate.seed, workload.generate.n_jobs)
    else:
        assert workload.jobs is not None
        if workload.format is None and workload.preset is None:
            jobs = read(workload.jobs, JOB)
        else:
            imported = import_log(
                workload.jobs,
                workload.format or load_preset(workload.preset or "").format,
                workload.preset,
                strict=workload.strict,
                tz=workload.log_tz or workload.tz,
                cpus_per_node=workload.cpus_per_node,
                mem_unit=workload.mem_unit,
                columns=workload.columns,
                clock=workload.clock,
                skip_bad_rows=workload.skip_bad_rows,
            )
            jobs = imported.jobs
            for text in imported.account():
                note(f"workload {workload.name}: {text}")
    if workload.day is not None:
        jobs = slice_day(jobs, workload.day.isoformat(), workload.tz or "UTC")
    return check(jobs, JOB, f"workload {workload.name}")


def _digest(table: pd.DataFrame) -> str:
    rows = pd.util.hash_pandas_object(table, index=False).to_numpy().astype("<u8")
    names = ",".join(map(str, table.columns)).encode()
    return hashlib.sha256(names + rows.tobytes()).hexdigest()[:16]
