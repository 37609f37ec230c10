"""``procure report``: one HTML file with the recommendation and its evidence."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from markupsafe import Markup

from procure.cli import cases, common
from procure.recommender.criteria import Criteria
from procure.recommender.results import StudyResults, load_results

if TYPE_CHECKING:
    import numpy as np

    from procure.models import Case
    from procure.recommender.recommender import Recommendation
    from procure.reports import Contents


def report(
    study: cases.StudyArgument,
    k: cases.LengthOption = None,
    verify: cases.VerifyOption = True,
    workload: cases.WorkloadOption = None,
    policy: cases.PolicyOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write; default: RESULTS/NAME/report.html.")
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Write the report and print its path. It refers to nothing outside itself, and prints well.

    [bold]Examples[/bold]

    \b
    procure report pipelines/example.toml
    procure report pipelines/example.toml -k 20 --out purchase.html
    """
    from procure.files import whole_file
    from procure.reports import render

    loaded = load_results(study, policy, workload, search=True)
    path = out or loaded.plan.study.folder / "report.html"
    text = render(_contents(study, loaded, k, verify, _options(policy, workload)))
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    if output is common.Format.JSON:
        common.print_json({"report": str(path), "bytes": len(text.encode())})
    else:
        common.echo(str(path))


def _options(policy: str | None, workload: str | None) -> dict[str, str]:
    """Return the options that repeat a choice of policy and workload; not every command has both."""
    given = f" --policy {shlex.quote(policy)}" if policy else ""
    chosen = f" --workload {shlex.quote(workload)}" if workload else ""
    return {"policy": given, "both": given + chosen}


def _contents(
    study: Path, loaded: StudyResults, k: int | None, verify: bool, options: dict[str, str]
) -> Contents:
    from importlib.metadata import version

    from procure._version import __version__
    from procure.cli.report_why import sections
    from procure.evaluation.ranking import cheapest_per_cpu, evaluate_case
    from procure.recommender.recommender import recommend
    from procure.reports import Contents

    plan, settings = loaded.plan, loaded.plan.study
    done = recommend(loaded, k=k, verify=verify)
    case = done.case
    rankings = _rankings(loaded, case)
    judged = {(name.split()[1], name.split()[0]): pair for name, pair in rankings.items()}
    evaluation = evaluate_case(case, judged, None, settings.evaluate.k, settings.evaluate.hit_share)
    versions = {name: version(name) for name in ("numpy", "pandas", "numba", "scikit-learn", "xgboost")}
    names = [one.name for one in loaded.cases]
    predicted = done.predicted or loaded.learn_if_possible(case)
    page, why = sections(loaded, done, predicted)
    return Contents(
        study=settings.name,
        quotes=plan.quotes,
        budget_usd=float(settings.packages.budget_usd - settings.packages.fixed_cost_usd),
        n_packages=len(plan.packages),
        workloads={name: plan.workloads[name] for name in names},
        policy=loaded.policy,
        case=case,
        predicted=predicted,
        found=done,
        rankings={name: inner for name, (inner, _) in rankings.items()}
        | {"cheapest per CPU": cheapest_per_cpu(case.packages)},
        evaluation=evaluation,
        cautions=[str(fact) for fact in done.facts],
        hit_share=settings.evaluate.hit_share,
        study_text=study.read_text(encoding="utf-8"),
        study_path=shlex.quote(str(study)),
        options=options,
        verify=verify,
        zones={one.name: one.tz for one in settings.workloads},
        inputs={name: str(value) for name, value in plan.fingerprint.items()}
        | {"procure": __version__}
        | versions,
        sections=[*why, _days(loaded), _pareto(loaded, done)],
        answers=page,
        **_ranked_by(done),
    )


def _ranked_by(done: Recommendation) -> dict[str, str]:
    """Say what the list is in the order of, where that is not the plain mean wait."""
    criteria = done.criteria
    if criteria == Criteria():
        return {}
    bounds = ", ".join(one.text for one in criteria.constraints)
    text = f"{criteria.objective.name} ({criteria.objective.meaning})"
    return {"ranked_by": text + (f", of those that satisfy {bounds}" if bounds else "")}


def _pareto(loaded: StudyResults, done: Recommendation) -> Markup:
    """Return the section on wait against cost (and energy, where the quotes state watts)."""
    import numpy as np

    from procure.objectives import OBJECTIVES
    from procure.packages.costs import Costs
    from procure.recommender.rank import eligible
    from procure.recommender.recommender import with_front
    from procure.reports import pareto

    objective = done.criteria.objective
    by_wait = objective.source == "result" and objective.unit == "s"
    names = [objective.name if by_wait else "mean-wait"]
    names += ["price" if loaded.plan.study.costs == Costs() else "tco"]
    if not loaded.costs()["energy_kwh_per_year"].isna().any():
        names.append("energy")
    wider = with_front(done, [OBJECTIVES[name] for name in names])
    values, axes = wider.package_values, wider.criteria.axes
    rows = np.flatnonzero(eligible(values, wider.criteria))
    first = np.flatnonzero(rows == done.ranking["row"].iloc[0])
    if not len(first) or wider.front is None:
        return Markup()
    points = np.column_stack([values.value(axis)[0][rows] for axis in axes])
    return pareto.section(wider.front, axes, points, values.simulated[rows], int(first[0]))


def _days(loaded: StudyResults) -> Markup:
    """Return the section on days; empty for a study of one workload."""
    from procure.cli.all_days import judge
    from procure.reports import days

    if len(loaded.cases) < 2:
        return Markup()
    settings = loaded.plan.study
    asked, first = settings.evaluate.hit_threshold, loaded.cases[0].name
    judged = judge(loaded, [settings.model.feature_set], train_on=[first])
    packages, threshold = loaded.cases[0].packages, len(loaded.cases) // 4 if asked is None else asked
    return days.section(
        judged.days, judged.counted, judged.scores, packages, settings.evaluate.hit_share, threshold
    )


def _rankings(loaded: StudyResults, case: Case) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Predict by both feature sets, the study's first: for the ranked set, and by the published rule."""
    from procure.models import FEATURE_SETS

    mine, found = loaded.plan.study.model, {}
    for name in sorted(FEATURE_SETS, key=lambda one: one != mine.feature_set):
        both = loaded.learn_both(case, name)
        if both is not None:
            found[f"{mine.kind} {name}"] = (both[0].wait, both[1].wait)
    return found
