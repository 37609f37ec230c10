"""Schedulers side by side: the same workload under several policies, ranked and tested honestly."""

from procure.comparison.side_by_side import PUBLISHED_WEIGHTS, Comparison, Ranking, compare, rank
from procure.comparison.waits import replay

__all__ = ["PUBLISHED_WEIGHTS", "Comparison", "Ranking", "compare", "rank", "replay"]
