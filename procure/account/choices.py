"""Whom each start of a log crowded out: the waiting jobs that had room, that nothing known held, and then had none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.account.layout import Laid, make_work
from procure.account.sweep import choose
from procure.account.usage import Usage, make_usage

MOST_SETS = 20_000
"""Starts of a log that are looked at; of more, evenly many are left out."""
MOST_OTHERS = 30
"""Jobs beside the one that started that a set keeps; of more, so many evenly along the queue."""


class Choices(NamedTuple):
    """Sets of jobs of which one was started; it stands first in its set."""

    first: np.ndarray  # int64[n_sets + 1], rows of set s: first[s] to first[s + 1]
    at: np.ndarray  # int64[n_sets], s after the first submission
    job: np.ndarray  # int64[n_rows]
    use: np.ndarray  # float64[n_rows], the recent use of its user, a share of all CPUs


class ChoiceWork(NamedTuple):
    """Room for `procure.account.sweep.choose`, and what it gives."""

    every: int  # of so many starts one is looked at
    offset: np.ndarray  # float64[n], in [0, 1): where in the queue a set too large begins
    first: np.ndarray
    at: np.ndarray
    job: np.ndarray
    use: np.ndarray
    usage: Usage
    listed: np.ndarray  # int64[n]
    most: int
    counters: np.ndarray  # int64[2]: sets, starts


def choice_sets(laid: Laid, random: np.random.Generator) -> Choices:
    """Return the choice sets of a log that is laid out with the rules that are known.

    A job is in the set of a start if it waited, nothing of the account held it, its room went with that start, and it
    did not start at the same moment. Who kept room and still did not start is held by something else than an order.
    """
    n = len(laid.log.submit)
    every = max(1, -(-n // MOST_SETS))
    n_sets = -(-n // every)
    sets = ChoiceWork(
        every=every,
        offset=random.random(n),
        first=np.zeros(n_sets + 1, np.int64),
        at=np.zeros(n_sets, np.int64),
        job=np.zeros(n_sets * (MOST_OTHERS + 1), np.int64),
        use=np.zeros(n_sets * (MOST_OTHERS + 1)),
        usage=make_usage(len(laid.names), max(laid.total_cpus, 1)),
        listed=np.zeros(n, np.int64),
        most=MOST_OTHERS,
        counters=np.zeros(2, np.int64),
    )
    choose(laid.log, laid.groups, laid.centre, make_work(laid), sets)
    n_found = int(sets.counters[0])
    rows = int(sets.first[n_found])
    return Choices(sets.first[: n_found + 1], sets.at[:n_found], sets.job[:rows], sets.use[:rows])
