"""``procure recommend``, ``compare-rent``, ``what-if``, ``explain``: which package, and why that one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from procure.cli import common, site_options, study_options
from procure.errors import TableError
from procure.explanation import Explanation
from procure.explanation import explain as explain_packages
from procure.recommender.award import AwardMatrix, award_of
from procure.recommender.objections import objections
from procure.recommender.recommendation import budget_by_category, front_records, records, servers_by_type
from procure.recommender.recommender import Recommendation
from procure.recommender.recommender import recommend as recommend_packages
from procure.recommender.rent import compare_rent as compare_ways
from procure.recommender.what_if import what_if as change_package
from procure.settings import MOST_COUNTED
from procure.text import counted

_SHOWN = 8
"""Types of which one more node is explained."""


def recommend(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    k: study_options.LengthOption = None,
    verify: study_options.VerifyOption = True,
    workload: study_options.WorkloadOption = None,
    policy: study_options.PolicyOption = None,
    rule: study_options.RuleOption = "runs-all",
    objective: study_options.ObjectiveOption = None,
    constraints: study_options.ConstraintOption = None,
    pareto: str | None = typer.Option(
        None,
        metavar="AXES",
        help="Print the packages that no other beats in all of these, and the knee, instead of a list: "
        "wait,cost,energy or any objectives, separated by commas; 'wait' is mean-wait, 'cost' is tco.",
    ),
    out: Annotated[Path | None, common.table_option("Also write the ranking of every package")] = None,
    resamples: int | None = typer.Option(
        None,
        min=0,
        max=MOST_COUNTED,
        help="How often the jobs' bursts are resampled and the list's head simulated anew, to say which "
        "packages cannot be told apart; default: 20 under best-fit, else 0. From 5 workloads on, days are "
        "resampled instead.",
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Rank every package by its mean wait in seconds, or another objective; those that run every job first.

    What was not simulated is predicted, and the head of the list is simulated to confirm it. What `procure search`
    has simulated is used, too. Where the study has \\[award], offers are scored by it (in JSON: `award` of the first).

    Examples:
    procure recommend pipelines/example.toml -k 10
    procure recommend pipelines/example.toml -k 50 --format json
    procure recommend pipelines/example.toml --rule published -k 5
    """
    done = recommend_packages(
        study_options.load(path, settings),
        k=k,
        objective=objective,
        constraints=constraints,
        pareto=pareto,
        verify=verify,
        rule=rule,
        note=common.note,
        policy=policy,
        workload=workload,
        resamples=resamples,
    )
    table, what = (done.ranking, "ranked") if done.front is None else (done.front, "undominated")
    common.write_to(out, table.drop(columns="row"), counted(len(table), f"{what} package"))
    against = [f"objection: {one}" for one in objections(done)]
    scored = _award(done)
    common.tell(
        output, [*against, *done.notes], lambda: _document(done, scored), _csv(done), lambda: _print(done, scored)
    )


def _award(done: Recommendation) -> AwardMatrix | None:
    """Score the offers by the study's award criteria; None where it has none, or nothing can be scored."""
    if done.results.plan.study.award is None or done.front is not None:
        return None
    try:
        scored = award_of(done)
    except TableError as error:  # the list stands without it
        common.note(f"award: {error}")
        return None
    common.note(*scored.notes)
    return scored


def _document(done: Recommendation, scored: AwardMatrix | None) -> Any:
    if done.front is not None:
        return front_records(done)
    rows = records(done)
    return rows if scored is None else [rows[0] | {"award": scored.to_dict()}, *rows[1:]]


def _csv(done: Recommendation) -> pd.DataFrame:
    if done.front is not None:
        return done.front.drop(columns="row")
    top = done.ranking.head(done.k).drop(columns="row")
    if done.confidence is None:
        return top
    return top.reset_index(drop=True).join(done.confidence.table.drop(columns="package_id"))


def _print(done: Recommendation, scored: AwardMatrix | None) -> None:
    common.print_table(done.shown(), common.Format.TABLE, done.title)
    if done.front is not None:
        return
    bought, quotes = done.case.packages.iloc[done.ranking["row"].to_numpy()[: done.k]], done.results.plan.quotes
    types = servers_by_type(bought, quotes)
    types = types[types["servers"] > 0].drop(columns="mean_count")
    of_all, mean = (f", summed over these {done.k}", ", mean over these") if done.k > 1 else ("", "")
    common.print_table(types, common.Format.TABLE, f"Servers by type{of_all}")
    common.print_table(budget_by_category(bought, quotes), common.Format.TABLE, f"Budget by category{mean}")
    if scored is not None:
        common.print_table(scored.shown(), common.Format.TABLE, scored.title)
        common.echo(*scored.sentences())


def compare_rent(
    path: study_options.StudyArgument,
    prices: Annotated[Path, typer.Option(metavar="FILE", help="A price list of rented nodes, .csv or .parquet.")],
    settings: study_options.SetOption = None,
    package: str | None = typer.Option(
        None, metavar="ID", help="What is bought; default: the first that is recommended."
    ),
    wait_bound: list[str] | None = typer.Option(
        None, metavar="TIME", help="Rent for what would wait longer; default 4h. Repeatable."
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Compare buying with renting on demand, reserved, and with renting only for long waits.

    The same jobs over the study's years; US$, waits in seconds. The price list has the columns name, cpus,
    mem_gb, usd_per_hour, and may have gpus, gpu_type, speed and reserved_usd_per_hour. Nothing is fetched.

    Examples:
    procure compare-rent pipelines/vendor-rules.toml --prices quotes/example-cloud.csv
    procure compare-rent pipelines/vendor-rules.toml --prices quotes/example-cloud.csv --wait-bound 1h --format json
    """
    with common.named(wait_bounds="--wait-bound"):
        found = compare_ways(
            study_options.load(path, settings),
            prices,
            package=package,
            wait_bounds=[common.seconds_of(text, "--wait-bound") for text in wait_bound or ["4h"]],
            note=common.note,
        )
    common.show(found, output)


def what_if(
    path: study_options.StudyArgument,
    package: Annotated[str, typer.Option(metavar="ID", help="A package id, as recommend prints it.")],
    settings: study_options.SetOption = None,
    growth: float | None = typer.Option(
        None, help="Factor on the CPU-seconds submitted: whole bursts of jobs superposed or left out."
    ),
    gpu_share: str | None = typer.Option(None, metavar="2x", help="A factor on the CPU-seconds of GPU jobs."),
    to_policy: str | None = typer.Option(
        None,
        "--policy",
        metavar="NAME[:KEY=VALUE,…]",
        help="Another policy (see `procure policies`), e.g. easy:depth=4.",
    ),
    rule: site_options.RulesOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Simulate a package as it is, under each change alone, and under all together; waits in seconds.

    Examples:
    procure what-if pipelines/example.toml --package ComputeNode3=45,BigMemNode2=18,GPUNode8=17 --growth 1.3
    procure what-if pipelines/example.toml --package ComputeNode3=45,BigMemNode2=18,GPUNode8=17 \\
        --gpu-share 2x --policy easy --format json
    procure what-if mystudy.toml --package ComputeNode3=9 --rule 'qos long GrpTRES=cpu=20%'
    """
    with common.named(rules="--rule"):
        found = change_package(
            study_options.load(path, settings),
            package,
            growth=growth,
            gpu_share=gpu_share,
            policy=to_policy,
            rules=rule or (),
            note=common.note,
        )
    if output is not common.Format.TABLE:
        common.print_table(found.table, output)
        common.note(*found.warnings)
        return
    common.print_table(found.shown(), output, found.title)
    if found.waits is not None:
        site_options.print_waits(found.waits)
    common.echo(*found.notes)


def explain(
    path: study_options.StudyArgument,
    package: Annotated[str, typer.Argument(metavar="ID", help="A package id, as recommend prints it.")],
    settings: study_options.SetOption = None,
    against: str | None = typer.Argument(None, metavar="[ID2]", help="Another package, to see why not that one."),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Explain why jobs wait as long as they do on a package: the model's factors, the bottleneck, one more node.

    The schedule of the workload with the longest wait is replayed: each second that a
    job waits is booked under the resource that the nearest node was short of. A package that was not simulated
    is simulated now.

    Examples:
    procure explain pipelines/example.toml ComputeNode3=45,BigMemNode2=18,GPUNode8=17
    procure explain pipelines/example.toml ComputeNode3=45,BigMemNode2=18,GPUNode8=17 \\
        ComputeNode4=56,BigMemNode2=7,GPUNode8=16
    procure explain pipelines/example.toml ComputeNode3=45,BigMemNode2=18,GPUNode8=17 --format json
    """
    study = study_options.load(path, settings)
    with common.named(package_id="ID", other="ID2"):
        explanation = explain_packages(study, package, against, note=common.note)
    common.show(explanation, output, lambda: _print_explanation(explanation))


def _print_explanation(explanation: Explanation) -> None:
    common.echo(*explanation.lines())
    for one in explanation.packages:
        if len(one.marginal):
            shown = one.marginal.head(_SHOWN)[["type", "usd", "saved_seconds", "saved_per_1000_usd", "more_jobs"]]
            shown = shown.rename(columns={"saved_per_1000_usd": "saved per US$ 1,000"})
            title = f"{one.package_id}, one more node of each type: mean wait saved per job"
            common.print_table(shown, common.Format.TABLE, title, {"saved per US$ 1,000": "s"})
    if len(explanation.packages) == 2:
        common.print_table(explanation.differences, common.Format.TABLE, "The first package against the second")
