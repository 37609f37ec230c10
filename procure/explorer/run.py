"""One search of a study from beginning to end, as ``procure search`` runs it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.explorer.candidates import Field
from procure.explorer.engine import Progress, Rules, search
from procure.explorer.observations import Known
from procure.explorer.oracle import FOLDER, RoundLog, Simulator, held_farm, left_out_of, load_inputs
from procure.explorer.propose import METHODS, make_proposer
from procure.packages.space import Space, package_table
from procure.study import Study
from procure.sweep import FarmOptions
from procure.text import nearest


@dataclass(frozen=True)
class Asked:
    """How a study is searched; ``runs``, where given, instead of ``share``; ``policy`` None is the study's first."""

    method: str = "model"
    runs: int | None = None
    share: float = 0.01
    seed: int = 1
    batch: int = 24
    k: int = 50
    stable_rounds: int = 5
    policy: str | None = None
    farm: str = "serial"


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes
    ----------
    ranking
        The packages that it knows, best first: the package table with ``rank``, ``mean_wait_time`` and
        ``jobs_left_out``; all are simulated.
    spent
        What it cost, by name.
    elsewhere
        A better package that another search of this study has simulated, and its mean wait; or None.
    """

    ranking: pd.DataFrame
    spent: dict[str, object]
    elsewhere: tuple[str, float] | None


def run_search(
    study: Study,
    asked: Asked,
    *,
    options: FarmOptions | None = None,
    note: Callable[[str], None] = lambda text: None,
    told: Callable[[int, int, float], None] = lambda done, total, best: None,
) -> Found:
    """Search a study's packages, or go on with a search.

    Parameters
    ----------
    note
        Called with what the user should know.
    told
        Called after each round with the runs asked for, those allowed, and the least mean wait, s.

    Raises
    ------
    TableError
        An unknown method, a bad study, no budget for one package, or the folder is not to be used.
    """
    if asked.method not in METHODS:
        raise TableError(f"method {asked.method!r} is unknown; {nearest(asked.method, METHODS)}")
    began = time.perf_counter()
    policy = asked.policy or study.simulate.policies[0]
    plan, space = load_inputs(study, policy)
    for text in plan.notes:
        note(text)
    listed = space.listed()
    n_known = float(len(listed)) if listed is not None else space.size()
    n_workloads = len(plan.workloads)
    runs = asked.runs or round(asked.share * n_known) * n_workloads
    if runs < n_workloads:
        raise TableError(
            f"{runs} runs do not simulate one package on each of {n_workloads} workloads; give --runs "
            f"{n_workloads} or more"
        )
    # The baselines spend what they are given.
    stable_rounds = asked.stable_rounds if asked.method == "model" else 0
    rules = Rules(runs // n_workloads, asked.k, asked.batch, stable_rounds)
    where = Field(space, left_out_of(plan), asked.seed, listed)
    if where.level:
        note(
            f"no package found runs every job; the best leave out {where.level:,}, and only such are simulated"
        )
    log = _log(study, policy, asked, rules, plan.types)
    options = options or FarmOptions()
    with held_farm(asked.farm, options, note) as farm:
        simulator = Simulator(plan, policy, space, farm, options, note)
        known = Known(space)
        if asked.method == "model" and len(simulator.swept):
            swept = simulator.counts_of(simulator.swept)
            known.add(swept.counts, swept.wait, swept.left_out)
            note(f"learning from {len(swept.wait):,} packages that the study's sweep has simulated")
        n_swept, before, n_rounds = len(known), log.read(), 0

        def report(progress: Progress) -> None:
            nonlocal n_rounds
            n_rounds += 1
            order = known.order()
            told(
                progress.n_asked * n_workloads, rules.n_packages * n_workloads,
                float(known.wait[order[0]]) if len(order) else float("nan"),
            )  # fmt: skip

        proposer = make_proposer(asked.method, where, asked.seed, rules.n_packages)
        progress = search(known, where, proposer, simulator, rules, before, report, log.write)
    if not len(known.order()):
        raise TableError(f"all {len(known)} packages failed; {simulator.folder} says why")
    spent: dict[str, object] = {
        "method": asked.method,
        "seed": asked.seed,
        "ended": progress.ended,
        "n_rounds": n_rounds,
        "n_rounds_of_earlier_calls": min(n_rounds, len(before)),
        "n_packages_asked": progress.n_asked,
        "n_runs_asked": progress.n_asked * n_workloads,
        "n_runs_computed": simulator.n_computed,
        "n_failed": simulator.n_failed,
        "n_from_sweep": n_swept,
        "n_packages_in_space": len(listed) if listed is not None else None,
        "about_in_space": n_known,
        "seconds": round(time.perf_counter() - began, 1),
        "kernel_seconds": round(simulator.kernel_seconds, 1),
        "folder": str(simulator.folder),
    }
    return Found(_ranking(known, space), spent, _elsewhere(known, simulator, plan.types))


def _log(study: Study, policy: str, asked: Asked, rules: Rules, names: list[str]) -> RoundLog:
    settings: dict[str, object] = {
        "method": asked.method, "seed": asked.seed, "batch": asked.batch, "policy": policy,
        "packages": study.packages.model_dump(mode="json", exclude={"existing_nodes"}),
    }  # fmt: skip
    weights = {workload.name: workload.weight for workload in study.workloads}
    if any(weight != 1 for weight in weights.values()):
        settings["weights"] = weights
    name = f"{asked.method}.seed{asked.seed}.batch{asked.batch}.{policy}"
    if asked.method == "every-tenth":
        # The published rule depends on how much may be spent.
        settings["n_packages"] = rules.n_packages
        name += f".{rules.n_packages}"
    return RoundLog(study.folder / FOLDER / f"{name}.json", settings, names)


def _ranking(known: Known, space: Space) -> pd.DataFrame:
    order = known.order()
    table = package_table(known.counts[order], space).drop(columns="distinct")
    table.insert(0, "rank", np.arange(1, len(order) + 1))
    table.insert(3, "mean_wait_time", known.wait[order])
    table.insert(4, "jobs_left_out", known.left_out[order])
    return table


def _elsewhere(known: Known, simulator: Simulator, names: list[str]) -> tuple[str, float] | None:
    first = known.order()[0]
    stored = simulator.stored.dropna(subset=["wait"])
    better = stored[(stored["left_out"] <= known.left_out[first]) & (stored["wait"] < known.wait[first])]
    if better.empty:
        return None
    name = better["wait"].idxmin()
    return str(name), float(better.loc[name, "wait"])
