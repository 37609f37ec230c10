"""Where a search looks: the packages worth a simulation, all of them or a fresh draw of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pandas as pd

from procure.explorer.observations import Observations
from procure.models import features
from procure.packages.space import Space, rows_in

LeftOut = Callable[[np.ndarray], np.ndarray]
"""From counts, int64 (packages, types), to the jobs that each package cannot run, int64."""

_PROBE = 4096


class Candidates:
    """The packages of a space that leave out as few jobs as can be: those that run every job, if any does.

    ``listed`` are all packages of the ``space``, int64 (packages, types), in table order, None where they are too many;
    ``level`` is how many jobs the candidates leave out.
    """

    def __init__(self, space: Space, left_out: LeftOut, seed: int, listed: np.ndarray | None) -> None:
        """Look over the whole space, or over a few thousand packages drawn from it."""
        self.space, self.listed, self.left_out = space, listed, left_out
        probe = space.sample(_PROBE, np.random.default_rng([seed, 0])) if listed is None else listed
        self._n_left_out = left_out(probe)
        self.level = int(self._n_left_out.min())

    @cached_property
    def all(self) -> np.ndarray | None:
        """Every candidate, or None where they are too many."""
        return None if self.listed is None else self.listed[self._n_left_out == self.level]

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw candidates; fewer than n where most of the space is outside."""
        if self.all is not None:
            return self.all[rng.permutation(len(self.all))[:n]]
        return self.inside(self.space.sample(n, rng))

    def near(self, centres: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return candidates that are one exchange away, about n tries for each."""
        found = self.inside(self.space.neighbours(centres, n, rng))
        if self.all is not None and self.space.constraints.prices is not None:
            # Under discounts, what cannot grow type by type may still lie below another package.
            found = found[rows_in(found, self.all)]
        return found

    def inside(self, counts: np.ndarray) -> np.ndarray:
        """Keep the packages that leave out no more jobs than the best do."""
        return counts[self.left_out(counts) <= self.level] if len(counts) else counts

    def describe(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return features for the trees and for the Gaussian process, shape (packages, features).

        The trees see `procure.models.features`; the process the same without means, as logarithms, and the square root
        of the budget's share of each type.
        """
        quotes = self.space.quotes
        table = features(pd.DataFrame(counts, columns=quotes["name"].tolist()), quotes)
        amounts = [
            name
            for name in table.columns
            if name.startswith(("total_", "nodes_", "category:")) and not name.endswith("_per_node")
        ]
        share = counts * quotes["price_usd"].to_numpy() / self.space.rules.budget_usd
        return table.to_numpy(), np.hstack([np.log1p(table[amounts].to_numpy()), np.sqrt(share)])


def spread(counts: np.ndarray, known: Observations, rng: np.random.Generator) -> np.ndarray:
    """Bring packages into an order in which the combinations of types take turns.

    The combinations that are least known come first; within one, and among equals, chance decides.
    """
    mixed = counts[rng.permutation(len(counts))]
    bought = np.concatenate([known.counts, mixed]) > 0
    _, combination = np.unique(np.packbits(bought, axis=1), axis=0, return_inverse=True)
    combination = combination.ravel()
    # How many rows of its combination stand before each row, known ones included.
    by = np.argsort(combination, kind="stable")
    begins = np.flatnonzero(np.diff(combination[by], prepend=-1))
    turn = np.empty(len(by), dtype=np.int64)
    turn[by] = np.arange(len(by)) - np.repeat(begins, np.diff(np.append(begins, len(by))))
    luck = rng.random(int(combination.max(initial=0)) + 1)
    rows = np.arange(len(known), len(by))
    return mixed[np.lexsort((luck[combination[rows]], turn[rows]))]
