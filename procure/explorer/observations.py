"""What a search knows: packages, their mean waits, and how they are named."""

from __future__ import annotations

import numpy as np

from procure.packages.prices import order_cents
from procure.packages.space import Space


class Known:
    """Packages whose answer is in, in the order in which they came: grows, never forgets.

    Attributes
    ----------
    counts
        int64 (packages, types).
    wait
        Mean wait, s; NaN where the simulation failed.
    left_out
        Jobs that do not run, int64.
    cents
        Price, int64.
    """

    def __init__(self, space: Space) -> None:
        """Begin with nothing known."""
        self._space = space
        self._rows: set[bytes] = set()
        self.counts = np.empty((0, space.legal.n_types), dtype=np.int64)
        self.wait = np.empty(0)
        self.left_out = np.empty(0, dtype=np.int64)
        self.cents = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        """Return how many packages are known."""
        return len(self.wait)

    def add(self, counts: np.ndarray, wait: np.ndarray, left_out: np.ndarray) -> None:
        """Learn of packages that were not known."""
        self.counts = np.concatenate([self.counts, counts])
        self.wait = np.concatenate([self.wait, wait])
        self.left_out = np.concatenate([self.left_out, left_out])
        cents = order_cents(counts, self._space.quotes, self._space.rules)
        self.cents = np.concatenate([self.cents, cents])
        self._rows.update(row.tobytes() for row in counts)

    def has(self, counts: np.ndarray) -> np.ndarray:
        """Tell which packages are known."""
        return np.fromiter((row.tobytes() in self._rows for row in counts), dtype=bool, count=len(counts))

    def order(self) -> np.ndarray:
        """Return the rows that were answered, best first: fewest jobs left out, wait, price, first known."""
        ran = np.flatnonzero(~np.isnan(self.wait))
        return ran[np.lexsort((self.cents[ran], self.wait[ran], self.left_out[ran]))]
