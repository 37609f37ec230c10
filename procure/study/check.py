"""`study init` and `study check`: a file to begin with; all that is wrong with one, and what its user should know."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from procure.errors import TableError
from procure.files import is_file
from procure.files.gpu_pools import models_of, named_pools
from procure.offers import OfferReading
from procure.packages import count_packages, read_quotes
from procure.packages.costs import budget_notes, check_prices
from procure.packages.enumerate import TooManyPackages
from procure.settings import complaint, problems, validate
from procure.study import rules
from procure.study.applications import Applications
from procure.study.plan import Plan, attempt, collect_inputs
from procure.study.sections import check_points
from procure.study.study import Study, load_study, read_values, study_name
from procure.text import counted, listed, nearest, toml
from procure.workload.speedups import offered_gpu_models, propose_mapping


def plan_size(study: Study) -> dict[str, Any]:
    """Count a sweep: ``n_packages n_distinct n_sampled n_runs``, or ``about_packages`` where only a search will do."""
    try:
        size = count_packages(study.read_quotes(), study.packages, most=study.sweep.max_packages)
    except TooManyPackages:
        return {"about_packages": study.sweep.max_packages}
    n_sampled = rules.n_sampled(study, int(size["n_distinct"]))
    found = {name: int(size[name]) for name in ("n_packages", "n_distinct")}
    return found | {"n_sampled": n_sampled, "n_runs": rules.runs_of(study, n_sampled)}


def say_size(study: Study, size: Mapping[str, Any] | None = None) -> str:
    """Say how many packages a study allows, and whether a sweep simulates them or a search; ``size``: `plan_size`."""
    size = plan_size(study) if size is None else size
    if "n_packages" in size:
        n, sampled = size["n_distinct"], size["n_sampled"]
        which = "all of them" if n == sampled else f"{sampled:,} of them"
        return f"{counted(n, 'distinct package')} within the budget: procure sweep simulates {which}"
    runs, share = rules.search_budget(study, None)
    most = f"{share:.1%} of them" if runs is None else f"at most {counted(runs, 'run')}"
    return f"{rules.unlisted(study)}: procure sweep searches among them, {most}"


def check_study(path: str | Path, settings: Sequence[str] = ()) -> tuple[Plan, dict[str, Any]]:
    """Check a study file and all that it names; ``settings`` as in `procure.study.load_study`.

    Returns what was read, without packages, and what `plan_size` says; the error has all that is wrong, a line each.
    """
    path = Path(path)
    values = read_values(path, settings)
    lines: list[str] = []
    ask = partial(attempt, lines)
    try:
        validate(Study, values, path.parent)
    except ValidationError as error:
        lines += problems(error)
        quotes = path.parent / str(values.get("quotes"))
        with suppress(ValidationError):  # which is among the problems already
            reading = validate(OfferReading, values.get("offers", {}), path.parent)
            if is_file(quotes):
                ask(read_quotes, quotes, reading)
        raise TableError(complaint(str(path), lines)) from None
    study = load_study(path, settings)
    plan = collect_inputs(study, study.simulate.policies, lines)
    if study.evaluate.hit_threshold is not None:
        ask(rules.check_threshold, study.evaluate.hit_threshold, [one.name for one in study.scenarios])
    size: dict[str, Any] | None = None
    table = study.read_quotes() if plan is not None else attempt([], study.read_quotes)
    if table is not None:
        ask(rules.own_constraints, study, table)
        ask(check_points, study.award, table["vendor"])
        ask(rules.objective_of, study.recommend.objective, table, study.classes)
        ask(lambda: check_prices(table[rules.offered(study, table)], study.costs))
        size = ask(plan_size, study)
        if size is not None and "n_sampled" in size:
            ask(rules.check_folds, study, size["n_sampled"], size["n_distinct"])
    if plan is None or size is None or lines:
        lines = [one.removeprefix(f"{path}: ") for one in dict.fromkeys(lines)]
        raise TableError(complaint(str(path), lines))
    return plan, size


def study_notes(plan: Plan) -> list[str]:
    """Say what a study leaves out, how it scales run times, what comes on top of its budget, and what looks odd."""
    study = plan.study
    points = study.award.points if study.award is not None else {}
    notes = [*plan.notes, *budget_notes(study.costs)]
    for name, given in points.items():  # the award matrix refuses offers of a vendor without points
        lacking = [one for one in plan.quotes["vendor"].astype(str).unique() if one and one not in given]
        if lacking and not any("=" in known for known in given):
            notes.append(f"careful: award.points.{name}: {listed(lacking)} without points")
    return notes


def application_table(plan: Plan) -> pd.DataFrame:
    """Count what of the load each application covers, as `Applications.coverage`; no row without applications."""
    found = Applications(plan.study, plan.quotes, plan.existing)
    return found.coverage(plan.workloads if plan.study.applications else {})


_MIG_SLICE = re.compile(r"\d+g[._]\d+gb", re.IGNORECASE)


def gpu_models(plan: Plan) -> pd.DataFrame:
    """Count the jobs of each GPU model that the logs ask for and no quote has: `procure.study.rules.gpu_models`."""
    return rules.gpu_models(plan.study, plan.quotes, plan.existing, plan.logs.values())


def gpu_notes(plan: Plan, missing: pd.DataFrame) -> list[str]:
    """Say which GPU models of the logs nobody offers, and what to write where no mapping lets their jobs run."""
    offered = [one for one in offered_gpu_models(plan.quotes, plan.existing) if one]
    quoted = {one.casefold() for one in offered_gpu_models(plan.quotes, None)}
    lost = [not models for models in missing["runs_on"]]
    stuck = [bool(models) and quoted.isdisjoint(map(str.casefold, models)) for models in missing["runs_on"]]
    slices = [name for name in dict.fromkeys([*missing["model"], *offered]) if _MIG_SLICE.search(name)]
    notes = []
    if slices:
        notes.append(
            f"careful: {listed(slices)}: MIG slices are simulated as GPUs of their own and their split as fixed; a GPU "
            "that is split anew from job to job is not modelled"
        )
    own = "may run, and how many times faster than in the log; what follows is a proposal, measure your own:"
    for which, offers, said in (
        (
            stuck,
            [one for one in offered if one.casefold() in quoted],
            "careful: only nodes that stay have the GPU models of these jobs, so nothing that is bought runs them",
        ),
        (lost, offered, "nobody offers the GPU models that these jobs ask for, so no package runs them"),
    ):
        models = missing[np.array(which, dtype=bool)]
        if not models.empty:
            asked = (
                f"{one.model} ({counted(one.n_jobs, 'job')}, {one.gpu_hours:,.0f} GPU hours)"
                for one in models.itertuples()
            )
            notes.append(f"{said}: {', '.join(asked)}; say in the study where they {own}")
            notes += [line for model in models["model"] for line in propose_mapping(model, offers, _beside(plan))]
    return [*notes, *_unasked_notes(plan)]


def _unasked_notes(plan: Plan) -> list[str]:
    """Name the mappings of GPU models that no job asks for, as a mistyped one is."""
    texts = {text for jobs in plan.logs.values() for text in jobs["gpu_type"].unique()}
    asked = sorted({model for text in texts for model in models_of(text)})
    return [
        f"careful: gpu_models.{name}: no job asks for this model; {nearest(name.casefold(), asked)}"
        for name in plan.study.gpu_models
        if name != "any" and name.casefold() not in asked
    ]


def _beside(plan: Plan) -> dict[str, str]:
    """Return the models that stand second in a node, each with the first one there."""
    tables = [one for one in (plan.quotes, plan.existing) if one is not None]
    texts = pd.concat([one.loc[one["gpus"] > 0, "gpu_type"] for one in tables]).unique()
    pools = [named_pools(str(text)) for text in texts]
    return {model: each[0][0] for each in pools for model, _ in each[1:]}


TEMPLATE = Path(__file__).parent / "study_template.toml"


def study_text(
    path: Path,
    quotes: Path,
    budget_usd: float,
    jobs: Path | None = None,
    tz: str | None = None,
    offers: Mapping[str, Any] | None = None,
) -> str:
    """Return a study file's text, every setting shown with its default.

    ``quotes`` and ``jobs`` (None = made-up ones), whose days are of the zone ``tz``, are relative to its folder.
    """
    words = {
        "file": path.name,
        "name": study_name(path),
        "quotes": toml(quotes.as_posix()),
        "budget": f"{budget_usd:_.2f}".removesuffix(".00"),
        "offers": "\n".join(["[offers]", *(f"{key} = {toml(value)}" for key, value in offers.items())])
        if offers
        else "# [offers]",
        "generate": "generate = { seed = 1 }" if jobs is None else "# generate = { seed = 1 }",
        "jobs": '# jobs = "jobs.parquet"' if jobs is None else f"jobs = {toml(jobs.as_posix())}",
        "tz": '# tz = "America/Chicago"' if tz is None else f"tz = {toml(tz)}",
    }
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(words)
