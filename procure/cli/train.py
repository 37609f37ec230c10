"""``procure train``: learn from the simulated packages, and say how well."""

from __future__ import annotations

from procure.cli import common, study_options
from procure.page.names import head
from procure.recommender.learning import train as train_model


def train(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Cross-validate the study's model on the packages that were simulated, and keep it.

    Every simulated package is predicted by the folds that did not see it. RMSE is in seconds, and
    relative to always answering the mean (below 1 is better). Models go to RESULTS/NAME/models/.

    Examples:
    procure train pipelines/example.toml
    procure train pipelines/example.toml --set model.feature_set=totals --format json
    """
    done = train_model(study_options.load(path, settings), note=common.note)

    def show() -> None:
        for row in done.table.to_dict(orient="records"):
            common.print_record(row, output, f"{done.study}, {row['workload']}: out-of-fold error")
            pearson = done.correlations[row["workload"]].rename_axis("").reset_index()
            pearson[""] = [head(name)[0] for name in pearson[""]]
            plain = dict.fromkeys(pearson.columns, "")
            common.print_table(pearson, output, "Pearson correlation over the simulated packages", plain)

    common.tell(output, done.notes, done.records, done.table, show)
