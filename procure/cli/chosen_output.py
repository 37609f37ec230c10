"""What is said and printed of a list or a front by what the user wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from procure.cli import cases, common
from procure.cli.chosen import Chosen
from procure.recommender.results import StudyResults, workloads_of
from procure.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from procure.models import Predicted
    from procure.objectives import Quantity


def sentences(
    loaded: StudyResults, done: Chosen, asked: int, rule: cases.Rule, confirmed: bool, verified: bool
) -> list[str]:
    """Say what the order stands on, how many packages each constraint leaves, and what is predicted."""
    from procure.packages.costs import cost_notes

    figures, wanted = done.figures, done.wanted
    able, n = int(figures.whole.runs_all.sum()), len(figures.packages)
    now = int(figures.simulated.sum()) - done.n_before
    lines = [
        f"{counted(n, 'distinct package')}: {able:,} run every job, {n - able:,} leave jobs out and "
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
        lines.append(
            "every package shown is simulated; a better one may be among those that were not, and the jobs of "
            "another day may order them differently"
        )
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
        text = f"{one.text}: satisfied by {int(ok.sum()):,} of {counted(int(able.sum()), 'package')}"
        if one.of.source == "result" and not known[able].all():
            text += f", {int((ok & known).sum()):,} of these as simulated, the others as predicted"
        lines.append(text)
    return lines


def _models(done: Chosen) -> list[str]:
    from procure.text import said

    if not done.models:
        return []
    if len(done.models) > 3:
        off = [one.predicted.relative_rmse for one in done.models]
        return [
            f"{len(off)} models predict what was not simulated: out of fold, their error (RMSE) is "
            f"{min(off):.0%} to {max(off):.0%} of that of always answering the mean"
            + no_better_than_mean([one.predicted for one in done.models])
        ]
    return [
        f"out of fold, a prediction of {one.what} is off by {said(one.predicted.rmse_seconds, one.unit)} "
        f"(RMSE; always answering the mean: {said(one.predicted.constant_rmse_seconds, one.unit)})"
        + no_better_than_mean([one.predicted])
        for one in done.models
    ]


def no_better_than_mean(models: Sequence[Predicted]) -> str:
    """Remark on models that know no more than the mean does; empty if there are none."""
    bad = [one for one in models if one.rmse_seconds >= one.constant_rmse_seconds > 0]
    if not bad:
        return ""
    which = "the model is" if len(models) == 1 else f"{len(bad)} of them {'is' if len(bad) == 1 else 'are'}"
    return f": {which} no better than that, so do not trust what is predicted; simulate more packages (sweep.sample)"


def print_list(loaded: StudyResults, done: Chosen, output: common.Format) -> None:
    """Print the first k with the objective's and the constraints' figures."""
    from procure.recommender.summary import records

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
            if bound.of.name not in (of.name, "price_usd", "mean_wait_time", "jobs_left_out"):
                shown[_heading(bound.of)] = _rounded(top[bound.of.name])
        if top["jobs_left_out"].any():
            shown["left_out"] = top["jobs_left_out"]
        where = f"{loaded.plan.study.name}, {workloads_of(done.figures.whole)}"
        common.print_table(shown, output, f"{where}: {first_of(found.k)}, by {_heading(of)}")


def print_front(loaded: StudyResults, done: Chosen, output: common.Format) -> None:
    """Print the front, the knee marked."""
    from procure.recommender.summary import counts_of

    front, axes = done.the_front, done.wanted.axes
    table = front.drop(columns="row")
    if output is common.Format.CSV:
        common.print_table(table, output)
    elif output is common.Format.JSON:
        counts = counts_of(done.figures.packages.iloc[front["row"].to_numpy()], loaded.plan.quotes)
        rows = [
            one | {"counts": held} for one, held in zip(table.to_dict(orient="records"), counts, strict=True)
        ]
        common.print_json({"axes": [{"name": a.name, "unit": a.unit} for a in axes], "front": rows})
    else:
        names = {axis.name: _heading(axis) for axis in axes}
        table = table.assign(**{axis.name: _rounded(table[axis.name]) for axis in axes})
        table = table.assign(knee=["knee" if one else "" for one in table["knee"]]).rename(columns=names)
        what = f"{counted(len(table), 'package')} that no other beats in all of {', '.join(names)}"
        common.print_table(
            table, output, f"{loaded.plan.study.name}, {workloads_of(done.figures.whole)}: {what}"
        )


def first_of(k: int) -> str:
    """Say whose figures a title stands over."""
    return "the first" if k == 1 else f"the first {k}"


def _rounded(values: pd.Series) -> pd.Series:
    return values.round(1) if values.abs().max() >= 100 else values.round(4)


def _heading(of: Quantity) -> str:
    return f"{of.name}, {of.unit}" if of.unit else of.name
