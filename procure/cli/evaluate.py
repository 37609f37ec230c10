"""``procure evaluate``: how often the model's favourites are truly among the best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import cases, common
from procure.recommender.backtest import evaluate as evaluate_study


def evaluate(
    study: cases.StudyArgument,
    truth: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY_OR_PARQUET",
            help="A study or result table that simulated more packages: hits and regret are taken from it.",
        ),
    ] = None,
    feature_set: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="composition or totals; repeat; default: both; with a threshold the study's."
        ),
    ] = None,
    policy: cases.PolicyOption = None,
    rule: cases.RuleOption = "runs-all",
    hit_threshold: Annotated[
        list[int] | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Judge the study's workloads together: a hit is among the best on more than N of them; repeat; "
            "default: the study's evaluate.hit_threshold.",
        ),
    ] = None,
    train_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORKLOAD",
            help="With a threshold: also judge a model of this one workload; repeat; default: the first.",
        ),
    ] = None,
    apart: Annotated[
        bool, typer.Option("--apart", help="Judge each workload by itself, though the study has a threshold.")
    ] = False,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge the study's model against what was simulated, beside a random and a naive choice.

    A hit is a package whose mean wait (seconds) is among the lowest 5 % of the packages that run
    every job. Simulated packages are predicted by the folds that did not see them. The published
    rule, which counts only the jobs that ran, is shown beside. Regret is how much longer jobs wait on the
    best of the first k than on the best of all, as a share of the latter, or of 60 s if that is more.

    With --hit-threshold N a hit is a package that is among the best hit_share of all packages on more
    than N of the workloads; on each only packages that run all its jobs can be (published rule: all
    can). Then precision@50 at every threshold, and what robust choices over the days would buy.

    [bold]Examples[/bold]

    \b
    procure evaluate pipelines/example.toml
    procure evaluate pipelines/example.toml --feature-set composition --format json
    procure evaluate pipelines/example.toml --rule published
    procure evaluate sampled.toml --truth exhaustive.toml
    procure evaluate pipelines/year.toml --hit-threshold 6 --hit-threshold 16
    """
    evaluation = evaluate_study(
        study,
        truth=truth,
        feature_set=feature_set,
        policy=policy,
        rule=rule,
        hit_threshold=hit_threshold,
        train_on=train_on,
        apart=apart,
        note=common.note,
    )
    for line in evaluation.notes:
        common.note(line)
    if output is common.Format.JSON:
        common.print_json(evaluation.to_dict())
    elif output is common.Format.CSV:
        common.print_table(evaluation.hits, output)
    else:
        for title, table in evaluation.shown().items():
            common.print_table(table, output, title)
