"""Rank or front by what the user wants: gather what is known, learn what is not, confirm, say how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from procure.cli import cases, common
from procure.cli.choices import Wish
from procure.recommender.results import StudyResults

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from procure.models import Case, Predicted
    from procure.recommender.rank import Simulate
    from procure.recommender.recommender import Recommendation
    from procure.recommender.values import Figures


@dataclass(frozen=True)
class Learnt:
    """One model that stands behind predicted figures."""

    what: str
    unit: str
    predicted: Predicted


@dataclass(frozen=True)
class Chosen:
    """A list or a front by what was wanted, and what is behind it."""

    wanted: Wish
    figures: Figures
    models: list[Learnt]
    n_before: int
    reasons: list[str]
    found: Recommendation | None = None
    front: pd.DataFrame | None = None

    @property
    def ranked_list(self) -> Recommendation:
        """The list; there is none where a front was asked for."""
        assert self.found is not None
        return self.found

    @property
    def the_front(self) -> pd.DataFrame:
        """The front; there is none where a list was asked for."""
        assert self.front is not None
        return self.front


def chosen(loaded: StudyResults, wanted: Wish, k: int, verify: bool, rule: cases.Rule) -> Chosen:
    """Rank by an objective under constraints, confirmed by simulation where asked."""
    from procure.recommender.rank import choose

    known, simulate = _known(loaded, wanted, verify, rule)
    found = choose(known.figures, wanted.objective, wanted.constraints, k, simulate, rule)
    return replace(known, found=found)


def fronted(loaded: StudyResults, wanted: Wish, verify: bool, also: np.ndarray | None = None) -> Chosen:
    """Find the Pareto front, confirmed by simulation where asked.

    Parameters
    ----------
    also
        Rows of packages that are simulated in any case.
    """
    from procure.recommender.rank import pareto

    known, simulate = _known(loaded, wanted, verify, cases.Rule.RUNS_ALL)
    if simulate is not None and also is not None and len(also):
        known.figures.add(also, simulate(known.figures.packages["package_id"].to_numpy()[also].tolist()))
    return replace(known, front=pareto(known.figures, wanted.axes, wanted.constraints, simulate))


def _known(
    loaded: StudyResults, wanted: Wish, verify: bool, rule: cases.Rule
) -> tuple[Chosen, Simulate | None]:
    """Gather and learn; where too little was simulated to learn from, simulate what is missing if it is little."""
    import numpy as np

    from procure.cli.cautions import few_simulated
    from procure.cli.recommend import MOST_WITHOUT_MODEL
    from procure.errors import TableError

    reasons: list[str] = []
    figures = figures_of(loaded, wanted)
    case, simulated = figures.whole, figures.simulated
    simulate = simulator(loaded, list(figures.results), reasons) if verify else None
    able = case.runs_all if case.runs_all.any() and rule is cases.Rule.RUNS_ALL else case.left_out >= 0
    missing = np.flatnonzero(able & ~simulated)
    models: list[Learnt] = []
    if len(missing) and any(one.source == "result" for one in wanted.quantities):
        learnt = learn(loaded, figures, wanted, rule)
        if learnt is None and (simulate is None or len(missing) > MOST_WITHOUT_MODEL):
            folds = loaded.plan.study.model.folds
            raise TableError(few_simulated(case, folds) + "; simulate more (sweep.sample)")
        if learnt is None and simulate is not None:
            figures.add(missing, simulate(case.packages["package_id"].to_numpy()[missing].tolist()))
        models = learnt or []
    return Chosen(wanted, figures, models, int(simulated.sum()), reasons), simulate


def figures_of(loaded: StudyResults, wanted: Wish) -> Figures:
    """Gather what the results and the costs say of every package.

    Raises
    ------
    TableError
        The results lack a column that is needed; the objectives that are there are listed.
    """
    import numpy as np
    import pandas as pd

    from procure.models.case import simulated_values
    from procure.objectives import OBJECTIVES, objective
    from procure.recommender.rank import result_columns
    from procure.recommender.values import Figures
    from procure.schemas import COST_UNITS

    results, study = loaded.results, loaded.plan.study
    there = {"price_usd", *COST_UNITS, *results.columns[results.notna().any()]}
    for one in wanted.quantities:
        if one.name in OBJECTIVES:
            objective(one.name, there)
    costs = costs_of(loaded) if any(one.source == "cost" for one in wanted.quantities) else pd.DataFrame()
    values = {
        column: np.array(
            [simulated_values(c.packages, results, c.name, loaded.policy, column) for c in loaded.cases]
        )
        for column in result_columns(wanted.quantities)
    }
    return Figures(loaded.cases, values, costs, study.recommend.cvar_share)


def costs_of(loaded: StudyResults) -> pd.DataFrame:
    """Return what every distinct package costs by the study's ``[costs]``, and its watts with all nodes busy."""
    import numpy as np

    from procure.packages.costs import total_costs
    from procure.packages.runnable import count_matrix

    plan, study = loaded.plan, loaded.plan.study
    jobs = {case.name: plan.workloads[case.name] for case in loaded.cases}
    weights = {case.name: case.weight for case in loaded.cases}
    packages, quotes = loaded.cases[0].packages, plan.quotes
    costs = total_costs(packages, quotes, study.costs, jobs, study.packages, plan.existing, weights)
    watts = (
        quotes["power_w"].to_numpy(dtype="float64") if "power_w" in quotes else np.full(len(quotes), np.nan)
    )
    counts, unstated = count_matrix(packages, quotes), np.isnan(watts)
    known = counts @ np.nan_to_num(watts)
    return costs.assign(power_w=np.where(counts[:, unstated].any(axis=1), np.nan, known))


def learn(loaded: StudyResults, figures: Figures, wanted: Wish, rule: cases.Rule) -> list[Learnt] | None:
    """Predict what is needed of the packages that were not simulated; None if too few were."""
    models: list[Learnt] = []

    def one_model(case: Case) -> np.ndarray | None:
        found = loaded.learn_if_possible(case, rule=rule)
        if found is None:
            return None
        models.append(Learnt(case.name, "", found))
        return found.wait

    done: set[tuple[str, bool, str]] = set()
    for of in wanted.quantities:
        kind = (of.column, of.per_workload, "" if of.per_workload else of.how)
        if of.source != "result" or kind in done:
            continue
        done.add(kind)
        if of.per_workload and len(figures.cases) > 1:
            common.note(
                f"{of.name}: one model per workload, {len(figures.cases)}; they are kept for next time"
            )
        before = len(models)
        if not figures.learn(of, one_model):
            return None
        name, unit = ("mean-wait", "s") if of.per_workload else (of.name, of.unit)
        models[before:] = [
            Learnt(f"{name}, {m.what}" if of.per_workload else name, unit, m.predicted)
            for m in models[before:]
        ]
    return models


def simulator(loaded: StudyResults, columns: Sequence[str], reasons: list[str]) -> Simulate:
    """Return a function from package ids to result columns, float64[workloads, packages].

    The values of a failed run are NaN, and its reason is added to ``reasons``.
    """
    import numpy as np

    from procure.sweep import run_packages

    def simulate(package_ids: list[str]) -> dict[str, np.ndarray]:
        found = {column: np.full((len(loaded.cases), len(package_ids)), np.nan) for column in columns}
        for row, case in enumerate(loaded.cases):
            runs = run_packages(loaded.plan, package_ids, case.name, loaded.policy)
            bad = (runs["status"] != "ok").to_numpy()
            reasons.extend(f"{run.package_id}: {run.reason}" for run in runs[bad].itertuples())
            for column in columns:
                found[column][row] = np.where(bad, np.nan, runs[column].to_numpy(dtype="float64"))
        return found

    return simulate
