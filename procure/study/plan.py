"""What a study asks for: its packages, its workloads, and the runs between them."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from procure.errors import TableError, within
from procure.files import code_digest, existing_file
from procure.packages import expand_packages, package_nodes
from procure.packages.enumerate import TooManyPackages
from procure.packages.nodes import RunTimes, WorkloadDemand, work_of
from procure.packages.quotes import price_notes
from procure.packages.rules import PackageRules, with_whole_orders
from procure.policies import catalog
from procure.policies.catalog import refuse_multi_node, refuse_on_packages
from procure.progress import silent
from procure.schemas import CLASSES, JOB, QUOTE, RESULT
from procure.simulator.metrics import metric_names
from procure.study.applications import Applications, mapper
from procure.study.rules import check_gpu_models, check_gpu_pools, class_notes, gpu_models, sample_of
from procure.study.sections import Workload, table_digest
from procure.study.study import Study
from procure.tables import check, with_clock_of
from procure.text import listed
from procure.workload import generate, merge, read_log, slice_day
from procure.workload.describe import class_of, multi_node_notes
from procure.workload.parts import begin_as_logged, check_warm_up, counted_jobs
from procure.workload.shapes import shape_jobs
from procure.workload.speed import Speed
from procure.workload.speedups import run_times_on

OF_CLASS = "class "
"""Begins the names in a plan's fingerprint of the classes that a study defines."""
OF_POLICY = "policy "
"""Begins the names in a plan's fingerprint of what single policies depend on."""
_OF_WORKLOAD = re.compile(r"(careful: |)workload (\S+): (.*)")
_SIMULATION = ("procure.run", "procure.packages.nodes")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Plan:
    """A study with everything that it names read in; equal only to itself."""

    study: Study
    quotes: pd.DataFrame
    packages: pd.DataFrame
    workloads: dict[str, pd.DataFrame]
    existing: pd.DataFrame | None
    notes: tuple[str, ...] = ()
    """What the user should know of how the inputs were read."""
    n_swept: int | None = None
    """So many of the packages are the study's own, which a sweep samples; None = all. Smaller ones stand behind."""
    searched: bool = False
    """Whether the packages are only those that searches have simulated, as all are too many to list."""
    logs: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """The workloads as logged, before GPU models and applications were mapped."""

    def _workload(self, name: str) -> Workload:
        return next(one for one in self.study.scenarios if one.name == name)

    @property
    def types(self) -> list[str]:
        """The quoted types, in quote-file order: the count columns of the package table."""
        return self.quotes["name"].to_list()

    @cached_property
    def sampled_rows(self) -> np.ndarray:
        """Rows of the package table that the study simulates: every n-th distinct one."""
        distinct = np.flatnonzero(self.packages["distinct"].to_numpy()[: self.n_swept])
        return distinct[:: sample_of(self.study, len(distinct))]

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
        return self.study.logged_speed(self._workload(workload), self.quotes)

    @cached_property
    def work(self) -> dict[str, WorkloadDemand]:
        """The workloads as costs see them: which jobs a package runs, and for how long."""
        return works_of(self.study, self.quotes, self.existing, self.workloads)

    def warm_up(self, workload: str) -> int:
        """Seconds from a workload's first submission in which what is submitted is not counted."""
        one = self._workload(workload)
        return 1 if one.begin == "as-logged" else one.warm_up

    def n_counted(self, workload: str) -> int:
        """Jobs of a workload that are not of its warm-up."""
        return len(counted_jobs(self.workloads[workload], self.warm_up(workload)))

    def class_jobs(self, workload: str) -> dict[str, int]:
        """Jobs of a workload, without its warm-up, of each of `procure.schemas.CLASSES` and of the study's own."""
        jobs = counted_jobs(self.workloads[workload], self.warm_up(workload))
        found = dict(zip(CLASSES, np.bincount(class_of(jobs), minlength=len(CLASSES)).tolist(), strict=True))
        return found | {one.name: int(one.members(jobs).sum()) for one in self.study.job_classes}

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics of each run: those of all studies, then those of the study's own classes."""
        return metric_names([one.name for one in self.study.job_classes])

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """What results depend on: two sweeps may share a folder only if none of it differs."""
        watts = [] if self.existing is None else list(self.existing.filter(regex="^(idle_)?power_w$"))
        policies = [catalog.spec(policy).parameters for policy in self.study.simulate.policies]
        digests: dict[str, Any] = {}
        for name in (name for policy in policies for name in policy.files()):
            held = existing_file(name).read_bytes()
            digests[f"{OF_POLICY}file {name}"] = hashlib.sha256(held).hexdigest()[:16]
        for module in sorted({type(policy).__module__ for policy in policies}):
            digests[f"{OF_POLICY}code {module}"] = code_digest(module)
        digests |= {
            "quotes": table_digest(self.quotes),
            "packages": table_digest(self.packages.iloc[: self.n_swept]),
            "existing nodes": "none" if self.existing is None else table_digest(self.existing.drop(columns=watts)),
            "kill_at_limit": self.study.simulate.kill_at_limit,
            "result schema": RESULT.version,
            "simulation code": code_digest(*_SIMULATION),
        }
        for name, jobs in self.workloads.items():
            after = f" after {self.warm_up(name)} s" if self.warm_up(name) else ""
            digests[f"workload {name}"] = (
                f"{table_digest(jobs)} at speed {self.logged_speed(name) or 'ratio 1.0'}{after}"
            )
        return digests | {f"{OF_CLASS}{name}": text for name, text in self.study.classes.items()}


def works_of(
    study: Study, quotes: pd.DataFrame, existing: pd.DataFrame | None, workloads: Mapping[str, pd.DataFrame]
) -> dict[str, WorkloadDemand]:
    """Lay workloads out with run times as a simulation has them on a node of each type, under ``kill_at_limit``."""
    speeds = {one.name: study.logged_speed(one, quotes) for one in study.scenarios}
    return {
        name: work_of(jobs, quotes, existing, _run_times(jobs, speeds[name], study.simulate.kill_at_limit))
        for name, jobs in workloads.items()
    }


def _run_times(jobs: pd.DataFrame, logged: Speed, kill_at_limit: bool) -> RunTimes:
    limit = jobs["requested_time"].to_numpy(dtype="int64")
    limit = np.where((limit > 0) & kill_at_limit, limit, np.iinfo(np.int64).max)

    def on_node(speed: Any, model: str, kind: str) -> np.ndarray:
        return np.minimum(run_times_on(jobs, logged, speed, model, kind), limit)

    return on_node


def load_plan(study: Study) -> Plan:
    """Read a study's quotes, packages, workloads and existing nodes.

    Raises
    ------
    TableError
        As `read_inputs`; or no package is feasible, or they are too many to list.

    Examples
    --------
    >>> import procure
    >>> plan = procure.load_plan(procure.load_study("study.toml"))
    >>> plan.n_runs == len(plan.sampled_rows)
    True
    """
    plan = read_inputs(study, study.simulate.policies)
    return replace(plan, packages=list_packages(study, plan.quotes))


def list_packages(study: Study, quotes: pd.DataFrame) -> pd.DataFrame:
    """List the packages that a study's rules allow of its quotes; none, or too many to list, are an error."""
    try:
        return expand_packages(quotes, study.packages, study.sweep.max_packages)
    except TooManyPackages as error:
        error.args = (f"{study.path}: {error}{error.hint('sweep.max_packages')}",)
        raise


def lower_rules(rules: PackageRules, most_usd: float) -> PackageRules | None:
    """Return the rules of packages that cost up to so many US$; None where the budget allows no more than that."""
    if rules.order is not None:  # the bound is on the servers, the budget still on the whole order
        servers = math.floor(round(most_usd * 100, 6)) / 100
        return with_whole_orders(rules, rules.order, servers) if 0 < servers < rules.budget_usd else None
    budget = round(rules.fixed_cost_usd + math.floor(round(most_usd * 100, 6)) / 100, 2)
    if budget <= rules.fixed_cost_usd or budget >= rules.budget_usd:
        return None
    return rules.model_copy(update={"budget_usd": budget})


def with_smaller_packages(plan: Plan, most_usd: float) -> Plan:
    """Return a plan with the packages that so many US$ buy, too, where that is less than the budget; none is an error.

    Those of the study's list spend its budget, so hardly one is cheaper. A sweep does not simulate these.
    """
    rules = lower_rules(plan.study.packages, most_usd)
    if rules is None:
        return plan
    with within(f"no package costs US$ {most_usd:,.2f} or less"):
        found = list_packages(plan.study.model_copy(update={"packages": rules}), plan.quotes)
    new = found[(plan.row_of.index.get_indexer(found["package_id"]) < 0) & found["distinct"]]
    n = len(plan.packages) if plan.n_swept is None else plan.n_swept
    return replace(plan, packages=pd.concat([plan.packages, new], ignore_index=True), n_swept=n)


def read_inputs(study: Study, policies: Iterable[str]) -> Plan:
    """Read a study's quotes, workloads and existing nodes, to be simulated under some policies; no packages."""
    plan = collect_inputs(study, list(policies), None)
    assert plan is not None
    return plan


def attempt(problems: list[str] | None, call: Callable[..., Result], *arguments: Any) -> Result | None:
    """Make a call, and add what is wrong to ``problems``; None raises it."""
    try:
        return call(*arguments)
    except TableError as error:
        if problems is None:
            raise
        problems.append(str(error))
        return None


def collect_inputs(study: Study, policies: Sequence[str], problems: list[str] | None) -> Plan | None:
    """Do as `read_inputs` does, but add errors to ``problems`` and return None where there are any."""
    ask = partial(attempt, problems)
    for policy in policies:
        ask(refuse_on_packages, policy)
    notes, of_nodes = list[str](), list[str]()
    quotes = ask(lambda: check(study.read_quotes(), QUOTE, str(study.quotes)))
    existing = ask(study.read_existing_nodes, of_nodes.append)
    for one in study.workloads if quotes is not None else ():
        ask(study.logged_speed, one, quotes)
    logs = {one.name: ask(read_scenario, study, one, notes.append) for one in study.scenarios}
    notes = _of_all(notes)
    for jobs in logs.values():
        for policy in policies if jobs is not None else ():
            ask(refuse_multi_node, jobs, policy)
    if quotes is not None:
        ask(check_gpu_models, study, quotes, existing)
    if problems:
        return None
    assert quotes is not None
    notes += [*study.quote_notes(), *price_notes(quotes), *of_nodes]
    # A log whose models nobody offers is to be mapped first, and `study check` proposes how.
    if problems is None or gpu_models(study, quotes, existing, logs.values())["runs_on"].map(bool).all():
        for jobs in logs.values():
            ask(check_gpu_pools, study, [quotes, existing], jobs)
    applications = Applications(study, quotes, existing)
    ask(applications.check, logs)
    workloads = {one.name: ask(applications.map, logs[one.name], one) for one in study.scenarios}
    if problems:
        return None
    notes += applications.notes(workloads)
    notes += ask(verify_policies, study, quotes, existing, workloads, policies) or []
    notes += [*study.speed_notes(quotes, existing), *multi_node_notes(workloads)]
    notes += ask(class_notes, study, workloads) or []
    return None if problems else Plan(study, quotes, pd.DataFrame(), workloads, existing, tuple(notes), logs=logs)


def verify_policies(
    study: Study,
    quotes: pd.DataFrame,
    existing: pd.DataFrame | None,
    workloads: Mapping[str, pd.DataFrame],
    policies: Iterable[str],
) -> list[str]:
    """Check what policies go by against the workloads and all nodes that packages may hold; say what is odd."""
    if study.site is not None:
        with within(str(study.path)):
            study.site.check_types(quotes["name"].tolist())
    nodes = package_nodes(dict.fromkeys(quotes["name"], 1), quotes, existing)
    given = [catalog.spec(policy).parameters for policy in policies]
    return list(dict.fromkeys(text for one in given for jobs in workloads.values() for text in one.verify(jobs, nodes)))


def read_scenario(study: Study, scenario: Workload, note: Callable[[str], None] = silent) -> pd.DataFrame:
    """Read one of a study's scenarios as its policies take it: a workload, or all as one past with [futures]."""
    if study.futures is None:
        jobs = read_workload(scenario, note)
    else:
        jobs = read_past_jobs(study, note)
        with within(f"workload {scenario.name}, warm_up"):
            check_warm_up(jobs, scenario.warm_up)
    for policy in study.simulate.policies:
        jobs, said = catalog.spec(policy).parameters.as_submitted(jobs)
        if said:
            note(f"workload {scenario.name}: {said}")
    return jobs


def read_scenarios(study: Study, note: Callable[[str], None] = silent) -> dict[str, pd.DataFrame]:
    """Read a study's scenarios by name, with the speeds of its GPU models and applications."""
    with_speeds = mapper(study)
    return {one.name: with_speeds(read_scenario(study, one, note), one) for one in study.scenarios}


def read_past_jobs(study: Study, note: Callable[[str], None] = silent) -> pd.DataFrame:
    """Return the jobs of all of a study's workloads as one log, each wholly, in order of submission, as logged.

    Logs of different speeds or clocks are an error.
    """
    speeds = {(one.logged_processor, one.logged_speed) for one in study.workloads}
    if len(speeds) > 1:
        raise TableError("[futures] need workloads that were logged at one speed, for they are taken as one past")
    whole = [one.model_copy(update={"begin": "empty", "warm_up": 0}) for one in study.workloads]
    past = merge([read_workload(one, note) for one in whole], drop_repeated=True)
    return with_clock_of(past, past.sort_values("submit_time", kind="stable", ignore_index=True))


def _of_all(notes: list[str]) -> list[str]:
    """Say once what is said alike of several workloads."""
    names: dict[tuple[str, str], list[str]] = {}
    for text in notes:
        found = _OF_WORKLOAD.fullmatch(text)
        careful, name, said = found.groups() if found else ("", "", text)
        names.setdefault((careful, said), []).append(name)
    return [f"{careful}workload {listed(of)}: {said}" if of[0] else said for (careful, said), of in names.items()]


def read_workload(workload: Workload, note: Callable[[str], None] = silent) -> pd.DataFrame:
    """Read or generate one workload of a study, as a checked job table; say what became of a log's rows."""
    if workload.generate is not None:
        made = workload.generate
        jobs = generate(made.seed, made.n_jobs, made.recipe)
    else:
        assert workload.jobs is not None
        imported = read_log(workload.jobs, workload, shape="tasks")
        jobs = imported.jobs
        if workload.said() or imported.dropped:
            for text in imported.account():
                note(f"workload {workload.name}: {text}")
        else:
            for text in imported.warnings:
                note(f"careful: workload {workload.name}: {text}")
    if workload.day is not None:
        jobs = slice_day(jobs, workload.day.isoformat(), workload.tz or "UTC")
    jobs = check(jobs, JOB, f"workload {workload.name}")
    with within(f"workload {workload.name}, shape_rules"):
        jobs = shape_jobs(jobs, workload.shape, workload.shape_rules, node_cpus=workload.cpus_per_node)
    with within(f"workload {workload.name}, warm_up"):
        check_warm_up(jobs, workload.warm_up)
    if workload.begin == "empty":
        return jobs
    with within(f"workload {workload.name}, begin"):
        return begin_as_logged(jobs, int(jobs["submit_time"].min()) + workload.warm_up)
