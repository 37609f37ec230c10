"""``procure evaluate``: how often the model's favourites are truly among the best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from procure.cli import cases, common
from procure.recommender.results import StudyResults, load_results
from procure.text import listed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from procure.models import Case


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
            metavar="NAME",
            callback=cases.feature_set_name,
            help="composition or totals; repeat; default: both; with a threshold the study's.",
        ),
    ] = None,
    policy: cases.PolicyOption = None,
    rule: cases.RuleOption = cases.Rule.RUNS_ALL,
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
    rule, which counts only the jobs that ran, stands beside. Regret is what the best of the first k
    waits longer than the best of all, as a share of the latter, or of 60 s if that is more.

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

    from procure.models import FEATURE_SETS

    loaded = load_results(study, policy)
    mine, settings = loaded.plan.study.model.feature_set, loaded.plan.study.evaluate
    known = _true_waits(truth, loaded) if truth else None
    if hit_threshold is None and settings.hit_threshold is not None:
        hit_threshold = [settings.hit_threshold]
    if hit_threshold and not apart:
        _together(loaded, feature_set or [mine], rule, known, hit_threshold, train_on, output)
    elif train_on:
        raise typer.BadParameter("it needs --hit-threshold", param_hint="--train-on")
    else:
        names = feature_set or sorted(FEATURE_SETS, key=lambda name: name != mine)
        _apart(loaded, names, rule, known, output)


def _together(
    loaded: StudyResults,
    feature_sets: list[str],
    rule: cases.Rule,
    known: list[np.ndarray] | None,
    thresholds: list[int],
    train_on: list[str] | None,
    output: common.Format,
) -> None:
    import numpy as np

    from procure.cli.all_days import evaluate_days, judge
    from procure.recommender.notes import about_results
    from procure.text import nearest

    names = [case.name for case in loaded.cases]
    if len(names) < 2:
        raise typer.BadParameter(
            f"the study has one workload, {names[0]}; hits over days need several",
            param_hint="--hit-threshold",
        )
    for name in train_on or []:
        if name not in names:
            raise typer.BadParameter(
                f"{name!r} is not in the study; {nearest(name, names)}", param_hint="--train-on"
            )
    for line in about_results(loaded):
        common.note(str(line))
    truth = None if known is None else np.array(known)
    judged = judge(loaded, feature_sets, rule, truth, train_on or names[:1])
    evaluate_days(loaded, judged, sorted(set(thresholds)), loaded.plan.study.recommend.k, output)


def _apart(
    loaded: StudyResults,
    feature_sets: list[str],
    rule: cases.Rule,
    known: list[np.ndarray] | None,
    output: common.Format,
) -> None:
    import pandas as pd

    from procure.evaluation.ranking import evaluate_case
    from procure.recommender.backtest import coverage_lines, day_lines
    from procure.recommender.notes import about_results
    from procure.recommender.results import few_simulated

    settings = loaded.plan.study
    tables = []
    for i, case in enumerate(loaded.cases):
        predictions: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}
        for name in feature_sets:
            both = loaded.learn_both(case, name)
            if both is not None:
                predictions[name, settings.model.kind] = (both[0].wait, both[1].wait)
        if not predictions:
            common.note(few_simulated(case, settings.model.folds))
        waits = None if known is None else known[i]
        for line in coverage_lines(case, loaded.learn_if_possible(case), waits):
            common.note(line)
        share, ks = settings.evaluate.hit_share, settings.evaluate.k
        tables.append(evaluate_case(case, predictions, waits, ks, share, rule))
    table = pd.concat(tables, ignore_index=True)
    for fact in [*day_lines(loaded), *about_results(loaded)]:
        common.note(str(fact))
    _explain(table, loaded.cases)
    if output is common.Format.TABLE:
        for case in loaded.cases:
            title = f"{settings.name}, {case.name}: hits are the best {settings.evaluate.hit_share:.0%}"
            common.print_table(_shown(table[table["workload"] == case.name]), output, title)
    else:
        common.print_table(table, output)


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    who = table["model"].where(table["feature_set"] == "none", table["model"] + " " + table["feature_set"])
    shown = {
        "ranked by": who,
        "k": table["k"],
        "precision": table["precision"].round(3),
        "recall": table["recall"].round(3),
        "F1": table["f1"].round(3),
        "regret s": table["regret_seconds"].round(1),
        "regret": table["regret_share"].round(3),
        "P published": table["published_precision"].round(3),
    }
    if "bought_regret_share" in table:
        shown["regret with sample"] = table["bought_regret_share"].round(3)
    return pd.DataFrame(shown)


def _explain(table: pd.DataFrame, found: list[Case]) -> None:
    for case in found:
        rows = table[table["workload"] == case.name]
        first = rows.iloc[0]
        who = first["model"] if first["feature_set"] == "none" else first["feature_set"]
        common.note(
            f"{case.name}: {first['n_ranked']:,} ranked packages, {first['n_hits']:,} hits by the share, "
            f"{first['n_hits_real']:,} with ties; rank correlation {first['spearman']:.4f} "
            f"({who}); {(~case.runs_all).mean():.0%} of all packages leave jobs out"
        )
        if not case.runs_all.any():
            common.note(f"{case.name}: no package runs every job; --rule published ranks them all the same")
        short = rows.loc[rows["k"] > rows["k_used"], "k"].unique()
        if len(short):
            common.note(
                f"{case.name}: k = {', '.join(map(str, short))} exceeds the list; divided by its length, "
                f"{first['n_ranked']:,}"
            )
        if not first["n_hits"]:
            common.note(
                f"{case.name}: too few ranked packages for a single hit; precision and recall mean nothing"
            )


def _true_waits(path: Path, loaded: StudyResults) -> list[np.ndarray]:
    """Return per case the true mean wait of each package, NaN where the truth does not have it."""
    from procure.errors import TableError
    from procure.schemas import RESULT
    from procure.study import load_study
    from procure.sweep import read_results
    from procure.tables import read

    rows = read_results(load_study(path)) if path.suffix == ".toml" else read(path, RESULT)
    rows = rows[(rows["status"] == "ok") & (rows["policy"] == loaded.policy)]
    by_name = dict(tuple(rows.groupby("workload", sort=False)))
    found = []
    for case in loaded.cases:
        if case.name not in by_name:
            raise TableError(
                f"{path}: holds no run of workload {case.name} under {loaded.policy}; its workloads: "
                f"{listed(list(by_name)) or 'none'}"
            )
        mine = by_name[case.name].drop_duplicates("package_id").set_index("package_id")
        found.append(mine["mean_wait_time"].reindex(case.packages["package_id"]).to_numpy(dtype="float64"))
    return found
