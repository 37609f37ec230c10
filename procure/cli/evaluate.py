"""``procure evaluate``: how often the model's favourites are truly among the best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, study_options
from procure.recommender.evaluate import evaluate as evaluate_study
from procure.recommender.forward import forward
from procure.settings import MOST_COUNTED

_OF_SWEEP, _OF_FORWARD = ("truth", "rule", "hit_threshold"), ("cut",)


def evaluate(
    context: typer.Context,
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    truth: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY_OR_PARQUET",
            help="A study or result table that simulated more packages: hits and regret are taken from it.",
        ),
    ] = None,
    rule: study_options.RuleOption = "runs-all",
    hit_threshold: Annotated[
        list[int] | None,
        typer.Option(
            min=0,
            metavar="N",
            max=MOST_COUNTED,
            help="Judge the study's workloads together: a hit is among the best on more than N of them; repeat; "
            "default: the study's evaluate.hit_threshold.",
        ),
    ] = None,
    ahead: Annotated[
        bool,
        typer.Option(
            "--forward",
            help="Backtest: choose on the jobs before each cut, judge on those after. Needs no sweep.",
        ),
    ] = False,
    cut: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DAY",
            help="--forward: buy as of this local day or moment; repeat; default: every first of a month.",
        ),
    ] = None,
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

    With --forward: what the rule of `recommend` (past), the mean day, the cheapest per CPU and a random choice would
    have bought as of each cut, and how long jobs waited on that afterwards, against the best in hindsight (ratio).

    Examples:
    procure evaluate pipelines/example.toml
    procure evaluate pipelines/example.toml --set evaluate.hit_share=0.01 --format json
    procure evaluate pipelines/example.toml --rule published
    procure evaluate sampled.toml --truth exhaustive.toml
    procure evaluate pipelines/year.toml --hit-threshold 6 --hit-threshold 16
    procure evaluate spring.toml --forward --cut 2021-05-05 --format json
    """
    study = study_options.load(path, settings)
    if ahead:
        common.refuse_given(context, "--forward does not use it", *_OF_SWEEP)
        done = forward(study, cut, note=common.note)
        common.show(done, output)
        return
    common.refuse_given(context, "it belongs to --forward", *_OF_FORWARD)
    evaluation = evaluate_study(
        study,
        truth=truth,
        rule=rule,
        hit_threshold=hit_threshold,
        note=common.note,
    )

    def show() -> None:
        for line in evaluation.verdict():
            common.echo(line)
        for title, table in evaluation.shown().items():
            common.print_table(table, output, title)

    common.tell(output, evaluation.notes, evaluation.to_dict, evaluation.hits, show)
