"""Who is as good as the first package and surer is put beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_study import swept

from procure import recommend
from procure.recommender.criteria import MEAN_WAIT
from procure.recommender.surer import find_surer
from procure.recommender.waiting import about_waiting


@pytest.fixture(scope="module")
def listed():
    """A list over five days, the first three of which wait as the tests say."""
    return recommend(swept(5), k=3)


def with_(done, waits, share, alike=(True, True, True)):
    """The list with other waits on each day, s, [days, first three], and other shares of the resamples."""
    values = done.package_values
    rows = done.ranking["row"].to_numpy()[:3]
    held = {name: table.copy() for name, table in values.results.items()}
    held[MEAN_WAIT.column][:, rows] = waits
    kept = replace(values, results=held)
    table = done.confidence.table.copy()
    table.loc[:2, "share_first"], table.loc[:2, "alike"] = share, list(alike)
    return replace(done, package_values=kept, confidence=replace(done.confidence, table=table))


@pytest.mark.slow
def test_rank_two_is_named_where_it_is_best_more_often_and_no_further_behind_at_worst(listed):
    """By hand: rank 2 is 25 % behind at worst, rank 1 100 %; the best of each day is that of all packages."""
    best = np.nan_to_num(listed.package_values.best)
    waits = np.maximum(best, 60.0)[:, None] * np.tile([[1.0, 1.25, 3.0]], (5, 1))
    waits[4] = max(best[4], 60.0) * np.array([2.0, 1.0, 3.0])
    done = with_(listed, waits, [0.2, 0.5, 0.9])
    found = find_surer(done)
    assert found is not None and found.rank == 2 and found.share_first == (0.5, 0.2)
    assert found.regret[0] < found.regret[1]
    price = done.ranking["price_usd"].to_numpy()
    assert found.more_usd == price[1] - price[0]
    first = about_waiting(done)[0]
    assert first.startswith("on the first package jobs wait") and "; rank 2 (" in first and "50% of the" in first
    assert recommend(swept(5), k=3).notes[0].startswith("on the first package jobs wait")


def test_nobody_is_named_who_is_no_surer_or_can_be_told_apart(listed):
    waits = np.tile([[600.0, 500.0, 900.0]], (5, 1))
    assert find_surer(with_(listed, waits, [0.4, 0.45, 0.1])) is None
    assert find_surer(with_(listed, waits, [0.2, 0.5, 0.1], (True, False, True))) is None
    assert find_surer(with_(listed, waits[:, ::-1], [0.2, 0.5, 0.1])) is not None
    further = np.tile([[500.0, 600.0, 900.0]], (5, 1))
    assert find_surer(with_(listed, further, [0.2, 0.5, 0.1])) is None
    assert find_surer(replace(listed, confidence=None)) is None
