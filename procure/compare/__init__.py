"""Schedulers side by side: the same workload under several policies, ranked and tested honestly."""

from procure.compare.ranking import PUBLISHED_WEIGHTS, Ranking, rank, weights_of
from procure.compare.replay import replay
from procure.compare.side_by_side import Comparison, compare

__all__ = ["PUBLISHED_WEIGHTS", "Comparison", "Ranking", "compare", "rank", "replay", "weights_of"]
