"""When will a job start? Features known at submission, models of the wait, and how good they are.

`features.site_features` → `training.train` → `answer.predict_queue`; beside it `evaluation.evaluate` and `trend`.
"""

from procure.page.names import add_names

add_names(
    {
        "mse_log10": "mean squared error of log10", "within_2x": "within factor 2",
        "within_3x": "within factor 3", "pinball": "pinball loss", "deadline_label": "deadline",
        "deadline_accuracy": "accuracy", "majority_accuracy": "accuracy of always the same",
        "coverage_90": "inside 90 % interval", "coverage_90_by_burst": "inside 90 % interval, by burst",
        "brier_base": "Brier score of the base rate",
        "n_test": "judged",
        "accuracy_as_published": "share of calls “falls”", "seasonal_naive": "same hour a week before",
    },
    seconds=("pinball",),
    shares=(
        "within_2x", "within_3x", "deadline_accuracy", "majority_accuracy", "coverage_90", "accuracy_as_published",
        "balanced_accuracy", "coverage_90_by_burst",
    ),
)  # fmt: skip
