"""``procure recommend``: the packages worth buying, confirmed by simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from procure.cli import common, study_options
from procure.errors import TableError
from procure.recommender.award import AwardMatrix, award_of
from procure.recommender.objections import objections
from procure.recommender.recommendation import budget_by_category, front_records, records, servers_by_type
from procure.recommender.recommender import Recommendation
from procure.recommender.recommender import recommend as recommend_packages
from procure.settings import MOST_COUNTED
from procure.tables import write
from procure.text import counted


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
    pareto: Annotated[
        str | None,
        typer.Option(
            metavar="AXES",
            help="Print the packages that no other beats in all of these, and the knee, instead of a list: "
            "wait,cost,energy or any objectives, separated by commas; 'wait' is mean-wait, 'cost' is tco.",
        ),
    ] = None,
    out: Annotated[Path | None, common.table_option("Also write the ranking of every package")] = None,
    resamples: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MOST_COUNTED,
            help="How often the jobs' bursts are resampled and the list's head simulated anew, to say which "
            "packages cannot be told apart; default: 20 under best-fit, else 0. From 5 workloads on, days are "
            "resampled instead.",
        ),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Rank every package by its mean wait in seconds, or another objective; those that run every job first.

    What was not simulated is predicted, and the head of the list is simulated to confirm it. What `procure search`
    has simulated is used, too. Where the study has \\[award], offers are scored by it (in JSON: `award` of the first).

    Examples:
    procure recommend pipelines/example.toml -k 10
    procure recommend pipelines/example.toml -k 50 --format json
    procure recommend pipelines/example.toml --rule published -k 5
    procure recommend pipelines/example.toml --no-verify --out ranking.parquet
    procure recommend pipelines/example.toml --objective p95-wait --constraint 'price_usd<=$995,000'
    procure recommend pipelines/example.toml --pareto wait,cost --format csv
    procure recommend pipelines/example.toml --set recommend.cvar_share=0.1 --objective cvar
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
    if out is not None:
        table = done.ranking if done.front is None else done.front
        write(table.drop(columns="row"), out)
        what = "ranked package" if done.front is None else "package of the front"
        common.note(f"wrote {counted(len(table), what, what.replace('package', 'packages'))} to {out}")
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
    for line in scored.notes:
        common.note(line)
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
    bought, quotes = (
        done.case.packages.iloc[done.ranking["row"].to_numpy()[: done.k]],
        done.results.plan.quotes,
    )
    types = servers_by_type(bought, quotes)
    types = types[types["servers"] > 0].drop(columns="mean_count")
    many = done.k > 1
    common.print_table(
        types, common.Format.TABLE, "Servers by type" + (f", summed over these {done.k}" if many else "")
    )
    title = "Budget by category" + (", mean over these" if many else "")
    common.print_table(budget_by_category(bought, quotes), common.Format.TABLE, title)
    if scored is not None:
        common.print_table(scored.shown(), common.Format.TABLE, scored.title)
        for line in scored.sentences():
            common.echo(line)
