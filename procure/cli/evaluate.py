"""``procure evaluate``: how often the model's favourites are truly among the best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from procure.cli import cases, common

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
        typer.Option(metavar="NAME", help="composition or totals; repeat; default: both."),
    ] = None,
    policy: cases.PolicyOption = None,
    rule: cases.RuleOption = cases.Rule.RUNS_ALL,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge the study's model against what was simulated, beside a random and a naive choice.

    A hit is a package whose mean wait (seconds) is among the lowest 5 % of the packages that run
    every job. Simulated packages are predicted by the folds that did not see them. The published
    rule, which counts only the jobs that ran, stands beside. Regret is what the best of the first k
    waits longer than the best of all, as a share of the latter, or of 60 s if that is more.

    [bold]Examples[/bold]

    \b
    procure evaluate pipelines/example.toml
    procure evaluate pipelines/example.toml --feature-set composition --format json
    procure evaluate pipelines/example.toml --rule published
    procure evaluate sampled.toml --truth exhaustive.toml
    """
    import pandas as pd

    from procure.cli.cautions import about_results, few_simulated
    from procure.cli.sure import coverage_lines
    from procure.evaluate import evaluate_case
    from procure.models import FEATURE_SETS

    loaded = cases.load(study, policy)
    settings = loaded.plan.study
    tables = []
    for case in loaded.cases:
        predictions: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}
        for name in feature_set or sorted(FEATURE_SETS, key=lambda f: f != settings.model.feature_set):
            both = loaded.learn_both(case, name)
            if both is not None:
                predictions[name, settings.model.kind] = (both[0].wait, both[1].wait)
        if not predictions:
            common.note(few_simulated(case, settings.model.folds))
        known = _true_waits(truth, case, loaded.policy) if truth else None
        for line in coverage_lines(case, loaded.learn_if_possible(case), known):
            common.note(line)
        share, ks = settings.evaluate.hit_share, settings.evaluate.k
        tables.append(evaluate_case(case, predictions, known, ks, share, rule))
    table = pd.concat(tables, ignore_index=True)
    for line in about_results(loaded):
        common.note(line)
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


def _true_waits(path: Path, case: Case, policy: str) -> np.ndarray:
    """Return the true mean wait of each of the case's packages, NaN where the truth does not have it."""
    from procure.errors import TableError
    from procure.study import load_study
    from procure.sweep import read_results
    from procure.tables import RESULT, read

    rows = read_results(load_study(path)) if path.suffix == ".toml" else read(path, RESULT)
    rows = rows[(rows["status"] == "ok") & (rows["policy"] == policy)]
    mine = rows[rows["workload"] == case.name]
    if mine.empty:
        names = ", ".join(rows["workload"].unique()) or "none"
        raise TableError(
            f"{path}: holds no run of workload {case.name} under {policy}; its workloads: {names}"
        )
    waits = mine.drop_duplicates("package_id").set_index("package_id")["mean_wait_time"]
    return waits.reindex(case.packages["package_id"]).to_numpy(dtype="float64")
