"""What a study must satisfy beyond its settings' types: asked by `study check` and by the stage that needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from procure.errors import TableError, within
from procure.objectives import OBJECTIVES, Quantity, objective, objectives_of
from procure.objectives.conditions import JobClass
from procure.objectives.constraints import Constraint, parse, parse_all, quantities
from procure.simulator.arrays import gpu_fields
from procure.study.study import Study
from procure.text import counted
from procure.workload.speedups import asked_gpu_models, map_gpu_models, offered_gpu_models

MOST_WITHOUT_MODEL = 200
"""So many packages that a sweep left out are simulated outright where no model can be learnt."""

MOST_RUN_WHOLE = 2_000
"""So many runs, minutes on two cores, and every package is simulated unless the study says otherwise."""

MOST_SEARCHED = 2_000
"""So many packages at most a search simulates where neither a call nor the study says how many."""

_USUAL_SAMPLE = 10


def own_constraints(study: Study, quotes: pd.DataFrame) -> list[Constraint]:
    """Read the study's own constraints; what does not exist, and a contradiction, are errors."""
    return parse_all(study.recommend.constraints, quantities(quotes["name"], study.classes))


def objective_of(name: str, quotes: pd.DataFrame, classes: Iterable[str] = ()) -> Quantity:
    """Look up an objective of packages of these quotes, or of the study's ``classes``; an unknown one is an error."""
    every = objectives_of(classes)
    columns = {one.column for one in every.values()}
    if "power_w" not in quotes or quotes["power_w"].isna().all():
        columns -= {OBJECTIVES["energy"].column}
    # Energy that no quote states is left out of the names that are proposed, and named where it is asked for.
    return every[name] if name in every else objective(name, columns, classes)


def check_threshold(threshold: int, workloads: Sequence[str]) -> None:
    """Refuse a number of workloads that no package can be a hit on more than."""
    n = len(workloads)
    if n < 2:
        raise TableError(f"the study has one workload, {workloads[0]}; hits over days need several")
    if threshold > n:
        raise TableError(
            f"hit_threshold = {threshold}: a hit is a package among the best on more workloads than that, "
            f"and the study has {n}; at most {n - 1} leaves any"
        )


def can_learn(n_simulated: int, folds: int) -> bool:
    """Tell whether ``n_simulated`` packages are enough for the cross-validation of a model."""
    return n_simulated >= 2 * folds


def runs_of(study: Study, n_packages: int) -> int:
    """Return how many runs it takes to simulate packages on each workload under each policy of a study."""
    return n_packages * len(study.scenarios) * len(study.simulate.policies)


def sample_of(study: Study, n_distinct: int) -> int:
    """Return of how many distinct packages one is simulated: what the study says, or 1 where all take minutes."""
    if study.sweep.sample is not None:
        return study.sweep.sample
    return 1 if runs_of(study, n_distinct) <= MOST_RUN_WHOLE else _USUAL_SAMPLE


def n_sampled(study: Study, n_distinct: int) -> int:
    """Return how many of ``n_distinct`` packages a sweep simulates."""
    return -(-n_distinct // sample_of(study, n_distinct))


def search_budget(study: Study, n_packages: int | None) -> tuple[int | None, float | None]:
    """Return the runs, or the share of ``n_packages`` (None = too many), that a search may spend by default."""
    runs, share = study.search.runs, study.search.share
    if runs is not None:
        return runs, None
    if "share" in study.search.model_fields_set or (n_packages is not None and share * n_packages <= MOST_SEARCHED):
        return None, share
    return MOST_SEARCHED * len(study.scenarios), None


def unlisted(study: Study) -> str:
    """Say how many packages a study without a list of them allows."""
    return f"more than {study.sweep.max_packages:,} packages, too many to list"


def check_folds(study: Study, n_sampled: int, n_distinct: int) -> None:
    """Refuse more folds than the sample allows, where too many packages are left out to simulate them outright."""
    folds = study.model.folds
    if not can_learn(n_sampled, folds) and n_distinct - n_sampled > MOST_WITHOUT_MODEL:
        raise TableError(
            f"model.folds = {folds:,}: cross-validation needs {2 * folds:,} simulated packages, and sweep.sample = "
            f"{sample_of(study, n_distinct)} simulates {n_sampled:,} of {counted(n_distinct, 'distinct package')}"
        )


def offered(study: Study, quotes: pd.DataFrame) -> np.ndarray:
    """Mark the types that some package may hold: one node is within the budget, and they may be bought at all."""
    most = quotes["max_count"].fillna(1) if "max_count" in quotes else pd.Series(1, index=quotes.index)
    return ((quotes["price_usd"] <= study.packages.budget_usd) & (most > 0)).to_numpy(dtype=bool)


def check_gpu_models(study: Study, quotes: pd.DataFrame, existing: pd.DataFrame | None) -> None:
    """Refuse a mapping to, or a speed on, a GPU model that is not offered."""
    models = offered_gpu_models(quotes, existing) if study.gpu_models else []
    there = {one.casefold() for one in models}
    for name, model in study.gpu_models.items():
        for key, named in (("runs_on", model.runs_on), ("speed", tuple(model.speed))):
            unknown = [one for one in named if one.casefold() not in there | {name.casefold()}]
            if unknown:
                raise TableError(
                    f"{study.path}: gpu_models.{name}.{key}: no quote and no existing node has GPUs of model "
                    f"{unknown[0]!r}; offered: {', '.join(filter(None, models)) or 'none'}"
                )


def check_gpu_pools(study: Study, offers: Sequence[pd.DataFrame | None], jobs: pd.DataFrame) -> None:
    """Refuse jobs that could take either of two GPU models which stand in one node."""
    nodes = pd.concat([table[["gpus", "gpu_type"]] for table in offers if table is not None])
    with within(str(study.path)):
        gpu_fields(map_gpu_models(jobs, study.gpu_models), nodes)


def gpu_models(
    study: Study, quotes: pd.DataFrame, existing: pd.DataFrame | None, logs: Iterable[pd.DataFrame]
) -> pd.DataFrame:
    """Count the jobs of each GPU model that a study's logs ask for and no quote has: as `asked_gpu_models`."""
    offered, quoted = offered_gpu_models(quotes, existing), offered_gpu_models(quotes, None)
    if "" in offered:  # of nodes that state no model, on which every job runs
        quoted = offered
    jobs = pd.concat([one[["gpu_type", "gpus_per_node", "n_nodes", "run_time"]] for one in logs])
    return asked_gpu_models(jobs, quoted, study.gpu_models, [one for one in offered if one not in quoted])


def class_notes(study: Study, workloads: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say which of a study's own classes of jobs overlap, and which have no job.

    A class of the objective or of a constraint without a job in any workload, and one that goes by a column that a
    workload does not have, are errors.
    """
    classes, found, asked = study.job_classes, list[str](), _asked_for(study)
    tables = list(workloads.values())
    with within(f"{study.path}: classes"):
        members = [np.concatenate([one.members(jobs) for jobs in tables]) for one in classes]
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
            names = [name or "none" for name in held.index[:5]]
            return f"; {term.name} is {', '.join(names)}{' …' if len(held) > 5 else ''} there"
    return ""
