"""Which jobs will come? Jobs that recur, how surely they come again, and a scheduler that reserves for them."""

from procure.forecast.evaluation import evaluate
from procure.forecast.forecaster import Forecaster
from procure.forecast.periods import Patterns, PatternSettings, find_patterns

__all__ = ["Forecaster", "PatternSettings", "Patterns", "evaluate", "find_patterns"]
