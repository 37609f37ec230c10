"""Which package to simulate next? A model proposes, the simulator answers, in spaces of any size.

`candidates` keeps the packages that run every job, `propose` chooses the next ones (`gaussian`: one of its two
models), `engine` goes round by round over the `observations`, which are compared by the study's criteria, `oracle`
simulates and keeps, and `run` searches a whole study.
"""

from procure.explorer.run import SearchResult, search

__all__ = ["SearchResult", "search"]
