"""``procure train``: learn from the simulated packages, and say how well."""

from __future__ import annotations

from typing import Annotated

import typer

from procure.cli import cases, common
from procure.recommender.results import load_results


def train(
    study: cases.StudyArgument,
    feature_set: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=cases.feature_set_name,
            help="composition or totals; default: the study's.",
        ),
    ] = None,
    policy: cases.PolicyOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Cross-validate the study's model on the packages that were simulated, and keep it.

    Every simulated package is predicted by the folds that did not see it. RMSE is in seconds, and
    relative to always answering the mean (below 1 is better). Models go to RESULTS/NAME/models/.

    [bold]Examples[/bold]

    \b
    procure train pipelines/example.toml
    procure train pipelines/example.toml --feature-set totals --format json
    """
    import numpy as np
    import pandas as pd

    from procure.models.crossfit import correlations
    from procure.recommender.results import few_simulated

    loaded = load_results(study, policy)
    rows, pearson = [], {}
    for case in loaded.cases:
        found = loaded.learn_if_possible(case, feature_set)
        pearson[case.name] = correlations(case.packages, case.wait)
        if found is None:
            common.note(few_simulated(case, loaded.plan.study.model.folds))
            continue
        learnt = ~np.isnan(found.wait)
        rows.append(
            {
                "workload": case.name,
                "policy": loaded.policy,
                "model": found.model.kind,
                "feature_set": feature_set or loaded.plan.study.model.feature_set,
                "n_simulated": int((case.simulated & learnt).sum()),
                "n_packages": int(learnt.sum()),
                "folds": len(found.folds),
                "rmse_seconds": found.rmse_seconds,
                "constant_rmse_seconds": found.constant_rmse_seconds,
                "relative_rmse": found.relative_rmse,
                "fold_rmse_seconds": found.folds["rmse_seconds"].round(3).tolist(),
                "trees": found.model.profile_,
            }
        )
    if rows:
        common.note(f"models are kept in {loaded.kept}")
    if output is common.Format.JSON:
        common.print_json([row | {"correlations": pearson[str(row["workload"])].to_dict()} for row in rows])
        return
    if output is common.Format.CSV:
        common.print_table(pd.DataFrame(rows), output)
        return
    for row in rows:
        common.print_record(row, output, f"{loaded.plan.study.name}, {row['workload']}: out-of-fold error")
        title = "Pearson correlation over the simulated packages"
        common.print_table(pearson[str(row["workload"])].rename_axis("").reset_index(), output, title)
