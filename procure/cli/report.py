"""``procure report``: one HTML file with the recommendation and its evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from procure.cli import cases, common

if TYPE_CHECKING:
    import numpy as np

    from procure.models import Case
    from procure.report import Contents


def report(
    study: cases.StudyArgument,
    k: Annotated[
        int | None, typer.Option("-k", "--k", min=1, help="Packages to recommend; default: the study's.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Simulate the first k where they are predictions.")
    ] = True,
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
    from procure.report import render
    from procure.tables import whole_file

    loaded = cases.load(study, policy, workload)
    path = out or loaded.plan.study.folder / "report.html"
    text = render(_contents(study, loaded, k, verify))
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    if output is common.Format.JSON:
        common.print_json({"report": str(path), "bytes": len(text.encode())})
    else:
        typer.echo(path)


def _contents(study: Path, loaded: cases.Loaded, k: int | None, verify: bool) -> Contents:
    from importlib.metadata import version

    from procure._version import __version__
    from procure.cli.recommend import cautions, ranked
    from procure.evaluate import cheapest_per_cpu, evaluate_case
    from procure.report import Contents

    plan, settings = loaded.plan, loaded.plan.study
    case, predicted, found = ranked(loaded, k, verify)
    rankings = _rankings(loaded, case)
    judged = {(name.split()[1], name.split()[0]): pair for name, pair in rankings.items()}
    evaluation = evaluate_case(case, judged, None, settings.evaluate.k, settings.evaluate.hit_share)
    versions = {name: version(name) for name in ("numpy", "pandas", "numba", "scikit-learn", "xgboost")}
    names = [one.name for one in loaded.cases]
    return Contents(
        study=settings.name,
        quotes=plan.quotes,
        budget_usd=float(settings.packages.budget_usd - settings.packages.fixed_cost_usd),
        n_packages=len(plan.packages),
        workloads={name: plan.workloads[name] for name in names},
        policy=loaded.policy,
        case=case,
        predicted=predicted,
        found=found,
        rankings={name: inner for name, (inner, _) in rankings.items()}
        | {"cheapest per CPU": cheapest_per_cpu(case.packages)},
        evaluation=evaluation,
        cautions=cautions(case, predicted, found),
        hit_share=settings.evaluate.hit_share,
        study_text=study.read_text(encoding="utf-8"),
        study_path=study.name,
        zones={one.name: one.tz for one in settings.workloads},
        inputs={name: str(value) for name, value in plan.fingerprint.items()}
        | {"procure": __version__}
        | versions,
    )


def _rankings(loaded: cases.Loaded, case: Case) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Predict by both feature sets, the study's first: for the ranked set, and by the published rule."""
    import numpy as np

    from procure.models import FEATURE_SETS

    mine = loaded.plan.study.model
    found = {}
    for name in sorted(FEATURE_SETS, key=lambda one: one != mine.feature_set):
        inner = outer = loaded.learn(case, name).wait
        if not case.runs_all.all():
            outer = loaded.learn(case, name, np.ones(len(case.wait), dtype=bool)).wait
        found[f"{mine.kind} {name}"] = (inner, outer)
    return found
