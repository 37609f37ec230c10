"""``procure evaluate``: how often the model's favourites are truly among the best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, study_options
from procure.recommender.evaluate import evaluate as evaluate_study
from procure.recommender.forward import N_PACKAGES, forward
from procure.settings import LAST_SEED, MOST_COUNTED

_OF_SWEEP = ("truth", "feature_set", "rule", "hit_threshold", "train_on", "apart")
_OF_FORWARD = ("cut", "horizon", "packages", "seed")


def evaluate(
    context: typer.Context,
    study: study_options.StudyArgument,
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
    policy: study_options.PolicyOption = None,
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
    horizon: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="--forward: how long after a cut is judged; default: 28d.",
        ),
    ] = None,
    packages: Annotated[
        int,
        typer.Option(
            min=1, max=MOST_COUNTED, help="--forward: packages drawn at random from those that run every job."
        ),
    ] = N_PACKAGES,
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="--forward: of the packages drawn.")] = 1,
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
    procure evaluate pipelines/example.toml --feature-set composition --format json
    procure evaluate pipelines/example.toml --rule published
    procure evaluate sampled.toml --truth exhaustive.toml
    procure evaluate pipelines/year.toml --hit-threshold 6 --hit-threshold 16
    procure evaluate spring.toml --forward --cut 2021-05-05 --format json
    """
    if ahead:
        common.refuse_given(context, "--forward does not use it", *_OF_SWEEP)
        span = common.seconds_of(horizon, "--horizon") or None
        with common.named(n_packages="--packages"):
            done = forward(study, cut, horizon=span, n_packages=packages, seed=seed, policy=policy, note=common.note)
        common.show(done, output)
        return
    common.refuse_given(context, "it belongs to --forward", *_OF_FORWARD)
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

    def show() -> None:
        for line in evaluation.verdict():
            common.echo(line)
        for title, table in evaluation.shown().items():
            common.print_table(table, output, title)

    common.tell(output, evaluation.notes, evaluation.to_dict, evaluation.hits, show)
