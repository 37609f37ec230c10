"""What surrounds a study file: the text to begin with, and the check that says all that is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from pydantic import ValidationError

from procure.errors import TableError
from procure.files import is_file
from procure.files.gpu_pools import named_pools
from procure.packages import count_packages, read_quotes
from procure.packages.cost_notes import budget_notes
from procure.packages.costs import check_prices
from procure.packages.enumerate import TooManyPackages
from procure.packages.expiry import validity_notes
from procure.packages.quote_file import OfferReading
from procure.packages.quotes import price_notes
from procure.policies.catalog import refuse_multi_node, refuse_on_packages
from procure.schemas import group_column
from procure.settings import complaint, problems, validate
from procure.study.applications import Applications
from procure.study.award import check_points
from procure.study.classes import class_notes
from procure.study.plan import read_scenarios, read_workload, verify_policies
from procure.study.rules import (
    check_folds,
    check_gpu_models,
    check_gpu_pools,
    check_sample,
    check_threshold,
    objective_of,
    offered,
    own_constraints,
    runs_of,
    search_budget,
    unlisted,
)
from procure.study.study import Study, load_study, read_values
from procure.study.workloads import Workload
from procure.text import counted, listed, nearest
from procure.workload.gpu_models import asked_gpu_models, gpu_types, offered_gpu_models
from procure.workload.gpu_table import propose_mapping

Result = TypeVar("Result")


def plan_size(study: Study) -> dict[str, Any]:
    """Count what a sweep of the study comes to: ``n_packages n_distinct n_sampled n_runs``.

    Where packages are too many for a sweep and only a search will do, ``about_packages`` alone: there are more than
    this; None where no number is known.
    """
    quotes = study.read_quotes()
    try:
        size = count_packages(quotes, study.packages, most=study.sweep.max_packages)
    except TooManyPackages as error:
        return {"about_packages": int(error.more_than) or None}
    n_sampled = check_sample(study, int(size["n_distinct"]))
    n_runs = runs_of(study, n_sampled)
    return {
        "n_packages": int(size["n_packages"]),
        "n_distinct": int(size["n_distinct"]),
        "n_sampled": n_sampled,
        "n_runs": n_runs,
    }


def say_size(study: Study, size: Mapping[str, Any] | None = None) -> str:
    """Say how many packages a study allows, and whether a sweep simulates them or a search; ``size``: `plan_size`."""
    size = plan_size(study) if size is None else size
    if "n_packages" in size:
        n, sampled = size["n_distinct"], size["n_sampled"]
        which = "all of them" if n == sampled else f"{sampled:,} of them"
        return f"{counted(n, 'distinct package')} within the budget: procure sweep simulates {which}"
    more = size["about_packages"]
    runs, share = search_budget(study, more or 0)
    most = f"{share:.1%} of them" if runs is None else f"at most {counted(runs, 'run')}"
    return f"{unlisted(study, more)}: procure sweep searches among them, {most}"


def check_study(path: str | Path, settings: Sequence[str] = ()) -> tuple[Study, dict[str, Any]]:
    """Check a study file and all that it names: quotes, nodes, workloads, and what later stages ask of them.

    ``settings`` are as in `procure.study.load_study`.

    Returns the study and what `plan_size` says of it; the error names everything that is wrong, one line each.
    """
    path = Path(path)
    values = read_values(path, settings)
    lines: list[str] = []
    try:
        validate(Study, values, path.parent)
    except ValidationError as error:
        lines += problems(error)
        quotes = path.parent / str(values.get("quotes"))
        with suppress(ValidationError):  # which is among the problems already
            reading = validate(OfferReading, values.get("offers", {}), path.parent)
            if is_file(quotes):
                _try(lines, lambda: read_quotes(quotes, reading))
        raise TableError(complaint(str(path), lines)) from None
    study = load_study(path, settings)
    table = _try(lines, study.read_quotes)
    _try(lines, study.read_existing_nodes)
    for policy in study.simulate.policies:
        _try(lines, partial(refuse_on_packages, policy))
    seen: set[str] = set()
    for workload in study.workloads:
        same = workload.model_dump_json(exclude={"name", "weight"})
        if same not in seen:
            _try(lines, partial(_check_workload, study, workload, table))
        seen.add(same)
    if study.futures is not None and not lines:
        _try(lines, partial(read_scenarios, study))
    if study.site is not None and not lines:
        _try(lines, partial(site_notes, study))
    if study.evaluate.hit_threshold is not None:
        _try(
            lines,
            partial(check_threshold, study.evaluate.hit_threshold, [one.name for one in study.scenarios]),
        )
    size: dict[str, Any] | None = None
    if table is not None:
        _try(lines, lambda: own_constraints(study, table))
        if study.classes and not lines:
            _try(lines, partial(own_class_notes, study))
        if study.applications and not lines:
            _try(lines, partial(application_table, study))
        if study.gpu_models:
            _try(lines, lambda: check_gpu_models(study, _offered(study)))
        if not lines:
            _try(lines, partial(_check_pools, study))
        _try(lines, partial(check_points, study.award, table["vendor"]))
        _try(lines, lambda: objective_of(study.recommend.objective, table, study.classes))
        _try(lines, lambda: check_prices(table[offered(study, table)], study.costs))
        size = _try(lines, lambda: plan_size(study))
        if size is not None and "n_sampled" in size:
            _try(lines, partial(check_folds, study, size["n_sampled"], size["n_distinct"]))
    if size is None or lines:
        raise TableError(complaint(str(path), [one.removeprefix(f"{study.path}: ") for one in lines]))
    return study, size


def _check_workload(study: Study, workload: Workload, quotes: pd.DataFrame | None) -> None:
    if quotes is not None:
        study.logged_speed(workload, quotes)
    if workload.generate is not None and workload.day is None and not workload.warm_up:
        return  # made-up jobs ask for one node, and what makes them was checked with the settings
    jobs = read_workload(workload)
    for policy in study.simulate.policies:
        refuse_multi_node(jobs, policy)


def _check_pools(study: Study) -> None:
    nodes = _nodes_of(study)
    if nodes["gpu_type"].str.contains("+", regex=False).any() and not _unmapped(study):
        for workload in study.workloads:
            check_gpu_pools(study, nodes, read_workload(workload))


def _points_notes(study: Study, quotes: pd.DataFrame) -> list[str]:
    """Name the vendors that a panel gave no points: `procure award` refuses offers with them."""
    points = study.award.points if study.award is not None else {}
    lacking = {
        name: [one for one in quotes["vendor"].astype(str).unique() if one and one not in given]
        for name, given in points.items()
        if not any("=" in known for known in given)
    }
    return [f"careful: award.points.{name}: {listed(ones)} without points" for name, ones in lacking.items() if ones]


def _unmapped(study: Study) -> bool:
    """Tell whether the logs name GPU models that nobody offers and no mapping knows: they are to be filled in first."""
    return any(not models for models in gpu_models(study)["runs_on"])


def application_table(study: Study) -> pd.DataFrame:
    """Check a study's applications, and count what of the load each covers.

    Returns
    -------
    pandas.DataFrame
        As `procure.study.applications.Applications.coverage`, over all workloads; no row without applications.
    """
    applications = Applications(study, study.read_quotes(), study.read_existing_nodes())
    if not study.applications:
        return applications.coverage({})
    workloads = {one.name: read_workload(one) for one in study.workloads}
    applications.check(workloads)
    for one in study.workloads:
        applications.map(workloads[one.name], one)
    return applications.coverage(workloads)


def application_notes(study: Study) -> list[str]:
    """Say what of the load the study's applications cover, and where the SPEC number serves."""
    if not study.applications:
        return []
    applications = Applications(study, study.read_quotes(), study.read_existing_nodes())
    return applications.notes({one.name: read_workload(one) for one in study.workloads})


_MIG_SLICE = re.compile(r"\d+g[._]\d+gb", re.IGNORECASE)


def _offered(study: Study) -> list[str]:
    return offered_gpu_models(study.read_quotes(), study.read_existing_nodes())


def gpu_models(study: Study) -> pd.DataFrame:
    """Count the jobs of each GPU model that the study's logs ask for and no quote has.

    Returns
    -------
    pandas.DataFrame
        As `procure.workload.gpu_models.asked_gpu_models`, over all workloads.
    """
    offered, quoted = _offered(study), offered_gpu_models(study.read_quotes(), None)
    if "" in offered:  # of nodes that state no model, on which every job runs
        quoted = offered
    jobs = [read_workload(one) for one in study.workloads]
    columns = ["gpu_type", "gpus_per_node", "n_nodes", "run_time"]
    stay = [one for one in offered if one not in quoted]
    return asked_gpu_models(pd.concat([one[columns] for one in jobs]), quoted, study.gpu_models, stay)


def gpu_notes(study: Study, missing: pd.DataFrame) -> list[str]:
    """Say which GPU models of the logs nobody offers, and what to write where no mapping lets their jobs run."""
    lost = missing[np.array([not models for models in missing["runs_on"]], dtype=bool)]
    offered = [one for one in _offered(study) if one]
    slices = [name for name in dict.fromkeys([*missing["model"], *offered]) if _MIG_SLICE.search(name)]
    fixed = [
        f"careful: {listed(slices)}: MIG slices are simulated as GPUs of their own and their split as fixed; a GPU "
        "that is split anew from job to job is not modelled"
    ]
    careful = [*(fixed if slices else []), *_stay_notes(study, missing), *_unasked_notes(study)]
    if lost.empty:
        return careful
    return [
        *careful,
        f"nobody offers the GPU models that these jobs ask for, so no package runs them: {_asked(lost)}; say in the "
        "study where they may run, and how many times faster than in the log; what follows is a proposal, measure your "
        "own:",
        *(line for model in lost["model"] for line in propose_mapping(model, offered, _beside(study))),
        *_any_mapping(study, offered),
    ]


def _asked(models: pd.DataFrame) -> str:
    """Name GPU models with their jobs and GPU hours."""
    return ", ".join(
        f"{row.model} ({counted(row.n_jobs, 'job')}, {row.gpu_hours:,.0f} GPU hours)" for row in models.itertuples()
    )


def _stay_notes(study: Study, missing: pd.DataFrame) -> list[str]:
    """Say which jobs run on nodes that stay alone, whatever is bought, and propose where else they may run."""
    quoted = {one.casefold() for one in offered_gpu_models(study.read_quotes(), None)}
    only = [bool(models) and quoted.isdisjoint(map(str.casefold, models)) for models in missing["runs_on"]]
    stuck = missing[np.array(only, dtype=bool)]
    if stuck.empty:
        return []
    others = [one for one in _offered(study) if one.casefold() in quoted]
    return [
        f"careful: only nodes that stay have the GPU models that these jobs ask for, so nothing that is bought runs "
        f"them: {_asked(stuck)}; if it may, say so in the study; what follows is a proposal, measure your own:",
        *(line for model in stuck["model"] for line in propose_mapping(model, others, _beside(study))),
    ]


def _unasked_notes(study: Study) -> list[str]:
    """Name the mappings of GPU models that no job asks for, as a mistyped one is."""
    if not set(study.gpu_models) - {"any"}:
        return []
    texts = {text for one in study.workloads for text in read_workload(one)["gpu_type"].unique()}
    asked = sorted({model for text in texts for model in gpu_types(text.casefold())})
    return [
        f"careful: gpu_models.{name}: no job asks for this model; {nearest(name.casefold(), asked)}"
        for name in study.gpu_models
        if name != "any" and name.casefold() not in asked
    ]


def _any_mapping(study: Study, offered: Sequence[str]) -> list[str]:
    """Propose where jobs without a model may run, where they could take either of two models of one node."""
    beside = _beside(study)
    jobs = pd.concat([read_workload(one)[["gpus_per_node", "gpu_type"]] for one in study.workloads]) if beside else None
    if jobs is None or "any" in study.gpu_models:
        return []
    try:
        check_gpu_pools(study, _nodes_of(study), jobs[jobs["gpu_type"].str.strip() == ""])
    except TableError:
        names = ", ".join(json.dumps(one) for one in offered if one not in beside)
        return ["[gpu_models.any]  # jobs that name no model: in one node they take the first", f"runs_on = [{names}]"]
    return []


def _nodes_of(study: Study) -> pd.DataFrame:
    """Return GPUs and their models of all quotes and nodes that stay."""
    tables = [study.read_quotes(), study.read_existing_nodes()]
    return pd.concat([one[["gpus", "gpu_type"]] for one in tables if one is not None])


def _beside(study: Study) -> dict[str, str]:
    """Return the models that stand second in a node, each with the first one there."""
    nodes = _nodes_of(study)
    pools = [named_pools(str(text)) for text in nodes.loc[nodes["gpus"] > 0, "gpu_type"].unique()]
    return {model: each[0][0] for each in pools for model, _ in each[1:]}


def site_notes(study: Study) -> list[str]:
    """Check a study's site against its workloads and quotes, and say what is odd about it."""
    if study.site is None:
        return []
    workloads = {one.name: read_workload(one) for one in study.workloads}
    return verify_policies(study, study.read_quotes(), study.read_existing_nodes(), workloads, study.simulate.policies)


def owner_notes(study: Study) -> list[str]:
    """Name the owners of nodes of whom no workload has a job."""
    if not study.owners:
        return []
    known: set[str] = set()
    for one in study.workloads:
        jobs = read_workload(one)
        known |= set(jobs[group_column(jobs)].fillna("").astype(str)) - {""}
    return [
        f"careful: no job is of {name}, to whom {share:.0%} of the nodes belong; {nearest(name, sorted(known))}"
        for name, share in study.owners.items()
        if name not in known
    ]


def own_class_notes(study: Study) -> list[str]:
    """Check a study's own classes against its workloads, and say which overlap and which have no job."""
    if not study.classes:
        return []
    return class_notes(study, {one.name: read_workload(one) for one in study.workloads})


def study_notes(study: Study) -> list[str]:
    """Say what a study leaves out (expired quotes, existing nodes that go), and how it scales run times."""
    quotes = study.read_quotes()
    notes = [
        *study.quote_notes(),
        *price_notes(quotes),
        *_points_notes(study, quotes),
        *validity_notes(quotes, study.packages),
    ]
    notes += budget_notes(study.packages, study.costs)
    existing = study.read_existing_nodes(notes.append)
    notes += [*application_notes(study), *own_class_notes(study), *owner_notes(study), *site_notes(study)]
    return notes + study.speed_notes(quotes, existing)


def _try(lines: list[str], call: Callable[[], Result]) -> Result | None:
    try:
        return call()
    except TableError as error:
        lines.append(str(error))
        return None
