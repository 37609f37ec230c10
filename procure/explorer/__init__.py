"""Which package to simulate next? A model proposes, the simulator answers, in spaces of any size."""

from procure.explorer.run import SearchResult, search

__all__ = ["SearchResult", "search"]
