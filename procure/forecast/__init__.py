"""Which jobs will come? Jobs that recur, how surely they come again, and a scheduler that reserves for them."""

from procure.forecast.forecasts import evaluate
from procure.forecast.periods import Patterns, PatternSettings, find_patterns
from procure.page.names import add_names

__all__ = ["PatternSettings", "Patterns", "evaluate", "find_patterns"]

add_names(
    {
        "brier_constant": "Brier score of the base rate",
        "n_forecasts": "forecasts",
        "jobs_per_burst": "jobs per burst",
    },
    shares=("base_rate", "worst_tenth"),
)
