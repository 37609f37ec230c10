"""Which jobs will come? Jobs that recur, how surely they come again, and a scheduler that reserves for them."""

from procure.forecast.evaluation import evaluate
from procure.forecast.forecaster import Forecaster
from procure.forecast.periods import Patterns, PatternSettings, find_patterns
from procure.page.names import add_names

__all__ = ["Forecaster", "PatternSettings", "Patterns", "evaluate", "find_patterns"]

add_names(
    {
        "brier_constant": "Brier score of the base rate",
        "auc_days_shuffled": "AUC, days shuffled",
        "auc_outcomes_shuffled": "AUC, outcomes shuffled",
        "n_forecasts": "forecasts",
        "n_within": "patterns within",
        "jobs_per_burst": "jobs per burst",
    },
    shares=("base_rate", "worst_tenth"),
)
