"""When will a job start? Features known at submission, models of the wait, and how good they are.

`features.site_features` → `training.train` → `predict.forecast`; beside it `evaluation.evaluate`, `trend`
and `drift`.
"""

from procure.page.names import add_names

add_names(
    {
        "mse_log10": "mean squared error of log10", "within_2x": "within factor 2",
        "within_3x": "within factor 3", "pinball": "pinball loss", "deadline_label": "deadline",
        "deadline_accuracy": "accuracy", "majority_accuracy": "accuracy of always the same",
        "coverage_90": "inside 90 % interval", "coverage_90_by_burst": "inside 90 % interval, by burst",
        "n_over_a_day": "waited over a day", "mae_over_a_day": "MAE of waits over a day",
        "coverage_over_a_day": "waits over a day inside 90 % interval", "mean_over_a_day": "mean of waits over a day",
        "stated_mean_over_a_day": "stated mean of waits over a day", "brier_base": "Brier score of the base rate",
        "n_test": "judged",
        "accuracy_as_published": "share of calls “falls”", "seasonal_naive": "same hour a week before",
    },
    seconds=("pinball", "mae_over_a_day", "mean_over_a_day", "stated_mean_over_a_day"),
    shares=(
        "within_2x", "within_3x", "deadline_accuracy", "majority_accuracy", "coverage_90", "accuracy_as_published",
        "balanced_accuracy", "coverage_90_by_burst", "coverage_over_a_day",
    ),
)  # fmt: skip
