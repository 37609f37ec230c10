"""The search itself: rounds of proposals and answers until the budget is spent or the list is stable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from procure.explorer.candidates import Candidates
from procure.explorer.observations import Observations
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

    Attributes
    ----------
    n_packages
        Packages to simulate at most.
    k
        Length of the list that must be stable; a list shorter than `SHORTEST` is judged by that many.
    batch
        Least size of a round.
    stable_rounds
        The search ends after this many rounds in a row that did not change the first k of the list;
        0 = only when the budget is spent.
    """

    n_packages: int
    k: int = 50
    batch: int = 24
    stable_rounds: int = 5


@dataclass
class Progress:
    """What a search has done: the rounds, as counts, and why it ended (``budget``, ``stable``, ``exhausted``)."""

    rounds: list[np.ndarray] = field(default_factory=list)
    n_asked: int = 0
    n_unchanged: int = 0
    ended: str = ""


def run_rounds(
    known: Observations,
    candidates: Candidates,
    proposer: Proposer,
    answer: Answer,
    rules: Rules,
    before: list[np.ndarray] | None = None,
    on_round: Callable[[Progress], None] = silent,
    on_proposal: Callable[[list[np.ndarray]], None] = silent,
) -> Progress:
    """Propose and simulate packages round by round.

    Parameters
    ----------
    known
        What is known at the beginning; modified.
    candidates
        The packages that may be simulated.
    proposer, answer
        What proposes packages and what simulates them.
    rules
        When to end.
    before
        Rounds that were on_proposal by an earlier call with the same settings: they are
        replayed before new ones are made. A round that the budget cuts is kept whole, so that a larger budget
        continues where this one ended.
    on_round
        Called after each round.
    on_proposal
        Called with all rounds before a new one is simulated, so that an interruption loses nothing.

    Returns
    -------
    Progress
        What was done. The list is stable if, for ``rules.stable_rounds`` rounds in a row that were
        simulated whole, no package of the round came among the first k of all known packages.
    """
    done = Progress(rounds=list(before or []))
    number, k = 0, max(rules.k, SHORTEST)
    while True:
        if done.n_asked >= rules.n_packages:
            done.ended = "budget"
        elif rules.stable_rounds and done.n_unchanged >= rules.stable_rounds:
            done.ended = "stable"
        if done.ended:
            return done
        if number == len(done.rounds):
            size = max(rules.batch, FIRST if number == 0 else done.n_asked // GROWTH)
            new = proposer.propose(known, number, size)
            if not len(new):
                done.ended = "exhausted"
                return done
            done.rounds.append(new)
            on_proposal(done.rounds)
        else:
            proposer.replay(known, number)
        counts = done.rounds[number][: rules.n_packages - done.n_asked]
        done.n_asked += len(counts)
        counts = counts[~known.has(counts)]
        first = set(known.order()[:k].tolist())
        if len(counts):
            known.add(counts, answer(counts), candidates.left_out(counts))
        same = first == set(known.order()[:k].tolist())
        done.n_unchanged = done.n_unchanged + 1 if same and len(first) == k else 0
        number += 1
        on_round(done)
