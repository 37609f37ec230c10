"""The search itself: rounds of proposals and answers until the budget is spent or the list is stable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from procure.explorer.candidates import Candidates, Observations
from procure.explorer.propose import FIRST, Proposer
from procure.progress import silent

Answer = Callable[[np.ndarray], np.ndarray]
"""From counts, int64 (packages, types), to values, float64 (packages,) or (values, packages); NaN = it failed."""

SHORTEST = 50
"""A list of three is soon stable by chance: at least this many first packages must be."""

GROWTH = 6
"""A round is a sixth of the packages so far, but at least the batch."""


@dataclass(frozen=True)
class Rules:
    """When a search ends, and how large its rounds are.

    At most ``n_packages`` are simulated, in rounds of at least ``batch``; it ends after ``stable_rounds`` rounds in a
    row that did not change the first ``k`` of the list, 0 = only when the budget is spent.
    """

    n_packages: int
    k: int = 50
    batch: int = 24
    stable_rounds: int = 5


@dataclass
class Progress:
    """What a search has done, and why it ended (``budget``, ``stable``, ``exhausted``)."""

    n_rounds: int = 0
    n_asked: int = 0
    n_unchanged: int = 0
    ended: str = ""


def run_rounds(
    known: Observations,
    candidates: Candidates,
    proposer: Proposer,
    answer: Answer,
    rules: Rules,
    on_round: Callable[[Progress], None] = silent,
) -> Progress:
    """Propose and simulate packages round by round; ``known`` at the beginning is modified.

    The list is stable if, for ``rules.stable_rounds`` rounds in a row, no package of the round came among the first k
    of all. Rounds turn on the seed and on what is known alone: begun again with answers that are kept, a search comes
    to the same end, and a larger budget goes on where a smaller one ended.
    """
    done, k = Progress(), max(rules.k, SHORTEST)
    while True:
        if done.n_asked >= rules.n_packages:
            done.ended = "budget"
        elif rules.stable_rounds and done.n_unchanged >= rules.stable_rounds:
            done.ended = "stable"
        if done.ended:
            return done
        size = max(rules.batch, FIRST if done.n_rounds == 0 else done.n_asked // GROWTH)
        new = proposer.propose(known, done.n_rounds, size)
        if not len(new):
            done.ended = "exhausted"
            return done
        counts = new[: rules.n_packages - done.n_asked]
        done.n_asked += len(counts)
        counts = counts[~known.has(counts)]
        first = set(known.order()[:k].tolist())
        if len(counts):
            known.add(counts, answer(counts), candidates.left_out(counts))
        same = first == set(known.order()[:k].tolist())
        done.n_unchanged = done.n_unchanged + 1 if same and len(first) == k else 0
        done.n_rounds += 1
        on_round(done)
