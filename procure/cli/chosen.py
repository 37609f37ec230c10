"""Rank or front by what the user wants: gather what is known, learn what is not, confirm, say how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from procure.cli import cases, common
from procure.cli.choices import Wish

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from procure.choice import Simulate
    from procure.figures import Figures
    from procure.models import Case, Predicted
    from procure.objectives import Quantity
    from procure.recommend import Recommendation


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


def chosen(loaded: cases.Loaded, wanted: Wish, k: int, verify: bool, rule: cases.Rule) -> Chosen:
    """Rank by an objective under constraints, confirmed by simulation where asked."""
    from procure.choice import choose

    known, simulate = _known(loaded, wanted, verify, rule)
    found = choose(known.figures, wanted.objective, wanted.constraints, k, simulate, rule)
    return replace(known, found=found)


def fronted(loaded: cases.Loaded, wanted: Wish, verify: bool, also: np.ndarray | None = None) -> Chosen:
    """Find the Pareto front, confirmed by simulation where asked.

    Parameters
    ----------
    also
        Rows of packages that are simulated in any case.
    """
    from procure.choice import pareto

    known, simulate = _known(loaded, wanted, verify, cases.Rule.RUNS_ALL)
    if simulate is not None and also is not None and len(also):
        known.figures.add(also, simulate(known.figures.packages["package_id"].to_numpy()[also].tolist()))
    return replace(known, front=pareto(known.figures, wanted.axes, wanted.constraints, simulate))


def _known(
    loaded: cases.Loaded, wanted: Wish, verify: bool, rule: cases.Rule
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


def figures_of(loaded: cases.Loaded, wanted: Wish) -> Figures:
    """Gather what the results and the costs say of every package.

    Raises
    ------
    TableError
        The results lack a column that is needed; the objectives that are there are listed.
    """
    import numpy as np
    import pandas as pd

    from procure.choice import result_columns
    from procure.costs import COST_UNITS
    from procure.figures import Figures
    from procure.models.case import simulated_values
    from procure.objectives import OBJECTIVES, objective

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


def costs_of(loaded: cases.Loaded) -> pd.DataFrame:
    """Return what every distinct package costs by the study's ``[costs]``, and its watts with all nodes busy."""
    import numpy as np

    from procure.costs import total_costs
    from procure.runnable import count_matrix

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


def learn(loaded: cases.Loaded, figures: Figures, wanted: Wish, rule: cases.Rule) -> list[Learnt] | None:
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


def simulator(loaded: cases.Loaded, columns: Sequence[str], reasons: list[str]) -> Simulate:
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


def sentences(
    loaded: cases.Loaded, done: Chosen, asked: int, rule: cases.Rule, confirmed: bool, verified: bool
) -> list[str]:
    """Say what the order stands on, how many packages each constraint leaves, and what is predicted."""
    from procure.costs import cost_notes

    figures, wanted = done.figures, done.wanted
    able, n = int(figures.whole.runs_all.sum()), len(figures.packages)
    now = int(figures.simulated.sum()) - done.n_before
    lines = [
        f"{n:,} distinct packages: {able:,} run every job, {n - able:,} leave jobs out and "
        + ("stand after them" if rule is cases.Rule.RUNS_ALL else "are ranked among them (published rule)")
        + f"; {done.n_before:,} were simulated before, {now:,} to confirm"
    ]
    lines += [_objective(done, one) for one in (wanted.axes or (wanted.objective,))]
    lines += _bounds(done) + _models(done)
    if len(figures.costs.columns):
        lines += cost_notes(loaded.plan.quotes, loaded.plan.study.costs, loaded.plan.existing)
    if done.found is not None and done.found.k < asked:
        what = "satisfy the constraints" if wanted.constraints else "are there"
        lines.append(f"{asked:,} packages were asked for; only {done.found.k:,} {what}")
    if confirmed:
        lines.append("every package shown is simulated; the jobs of another day may order them differently")
    elif done.models or any(one.source == "result" for one in wanted.quantities):
        way = "they could not be confirmed" if verified else "without --no-verify they are simulated"
        lines.append(f"predictions are shown: the best of them are more likely too low than too high; {way}")
    return lines


def _objective(done: Chosen, of: Quantity) -> str:
    text = f"{of.name}" + (f" ({of.unit})" if of.unit else "") + f": {of.meaning}"
    if of.how == "cvar":
        text += f", here {done.figures.cvar_share:.0%} of them by weight"
    if of.how == "regret-max":
        text += "; the best is that of the packages simulated so far"
    if of.per_workload and len(done.figures.cases) == 1:
        text += "; with one workload that is the order by mean wait"
    if of.source != "result" and done.wanted.axes == ():
        text += "; known for every package without simulation"
        if not any(one.of.source == "result" for one in done.wanted.constraints):
            text += ". A package that is good by it may let jobs wait long: bound that with --constraint 'mean_wait<=…'"
    return text


def _bounds(done: Chosen) -> list[str]:
    able = done.figures.whole.runs_all
    able = able if able.any() else able | True
    lines = []
    for one in done.wanted.constraints:
        values, known = done.figures.value(one.of)
        ok = one.holds(values) & able
        text = f"{one.text}: satisfied by {int(ok.sum()):,} of {int(able.sum()):,} packages"
        if one.of.source == "result" and not known[able].all():
            text += f", {int((ok & known).sum()):,} of these as simulated, the others as predicted"
        lines.append(text)
    return lines


def _models(done: Chosen) -> list[str]:
    from procure.objectives import said

    if not done.models:
        return []
    if len(done.models) > 3:
        off = [one.predicted.relative_rmse for one in done.models]
        return [
            f"{len(off)} models predict what was not simulated: out of fold, their error (RMSE) is "
            f"{min(off):.0%} to {max(off):.0%} of that of always answering the mean"
        ]
    return [
        f"out of fold, a prediction of {one.what} is off by {said(one.predicted.rmse_seconds, one.unit)} "
        f"(RMSE; always answering the mean: {said(one.predicted.constant_rmse_seconds, one.unit)})"
        for one in done.models
    ]


def print_list(loaded: cases.Loaded, done: Chosen, output: common.Format) -> None:
    """Print the first k with the objective's and the constraints' figures."""
    from procure.recommend import records

    found, of = done.ranked_list, done.wanted.objective
    top = found.ranking.head(found.k)
    names = list(dict.fromkeys(one.of.name for one in done.wanted.constraints))
    if output is common.Format.CSV:
        common.print_table(top.drop(columns="row"), output)
    elif output is common.Format.JSON:
        rows = records(found, done.figures.whole, loaded.plan.quotes)
        for one, (_, line) in zip(rows, top.iterrows(), strict=True):
            one |= {
                "objective": of.name,
                "objective_value": line["objective_value"],
                "objective_unit": of.unit,
            }
            one["constrained"] = {name: line[name] for name in names}
        common.print_json(rows)
    else:
        shown = top[["rank", "package_id"]].assign(price_usd=top["price_usd"].round().astype("int64"))
        shown[_heading(of)] = _rounded(top["objective_value"])
        shown["wait_s"] = top["mean_wait_time"].round(1)
        shown["wait_is"] = ["simulated" if known else "predicted" for known in top["simulated"]]
        for bound in done.wanted.constraints:
            if bound.of.column not in (of.column, "price_usd", "mean_wait_time", "jobs_left_out"):
                shown[_heading(bound.of)] = _rounded(top[bound.of.name])
        if top["jobs_left_out"].any():
            shown["left_out"] = top["jobs_left_out"]
        title = f"{loaded.plan.study.name}, {done.figures.whole.name}: the first {found.k}, by {_heading(of)}"
        common.print_table(shown, output, title)


def print_front(loaded: cases.Loaded, done: Chosen, output: common.Format) -> None:
    """Print the front, the knee marked."""
    from procure.recommend import counts_of

    assert done.front is not None
    table, axes = done.front.drop(columns="row"), done.wanted.axes
    if output is common.Format.CSV:
        common.print_table(table, output)
    elif output is common.Format.JSON:
        counts = counts_of(done.figures.packages.iloc[done.front["row"].to_numpy()], loaded.plan.quotes)
        rows = [
            one | {"counts": held} for one, held in zip(table.to_dict(orient="records"), counts, strict=True)
        ]
        common.print_json({"axes": [{"name": a.name, "unit": a.unit} for a in axes], "front": rows})
    else:
        names = {axis.name: _heading(axis) for axis in axes}
        table = table.assign(**{axis.name: _rounded(table[axis.name]) for axis in axes})
        table = table.assign(knee=["knee" if one else "" for one in table["knee"]]).rename(columns=names)
        what = f"the {len(table)} packages that no other beats in all of {', '.join(names)}"
        common.print_table(table, output, f"{loaded.plan.study.name}, {done.figures.whole.name}: {what}")


def _rounded(values: pd.Series) -> pd.Series:
    return values.round(1) if values.abs().max() >= 100 else values.round(4)


def _heading(of: Quantity) -> str:
    return f"{of.name}, {of.unit}" if of.unit else of.name
