"""Waits by class and by user: a slow twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.schemas import CLASSES
from procure.simulator.class_waits import Groups, measure_groups
from procure.simulator.metrics import INDEX, METRIC_NAMES

pytestmark = pytest.mark.plain

ROW = st.tuples(st.integers(0, 400), st.integers(-1, 9000), st.integers(0, 3), st.integers(0, 2))


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=30), st.integers(0, 300))
def test_waits_by_class_and_user_are_those_of_a_slow_twin(rows, counts_from):
    """Mean, 95th percentile and share over an hour of what ran of each class; the mean over users of their means."""
    rows = sorted(rows)
    submit, wait, job_class, user = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    start = np.where(wait < 0, -1, submit + wait)
    out = np.full(len(METRIC_NAMES), np.nan)
    measure_groups(submit, start, Groups(job_class, user), counts_from, out)
    counts = (wait >= 0) & (submit >= counts_from)
    found = dict(zip(METRIC_NAMES, out, strict=True))
    for i, name in enumerate(CLASSES):
        mine = wait[counts & (job_class == i)]
        expected = [mine.mean(), np.quantile(mine, 0.95), (mine > 3600).mean()] if len(mine) else [np.nan] * 3
        got = [found[f"{name}_{one}"] for one in ("mean_wait_time", "p95_wait_time", "share_over_1h")]
        assert got == pytest.approx(expected, nan_ok=True)
    means = [wait[counts & (user == one)].mean() for one in np.unique(user[counts])]
    expected = np.mean(means) if means else np.nan
    assert out[INDEX.user_fair_wait_time] == pytest.approx(expected, nan_ok=True)
    share = (wait[counts] > 3600).mean() if counts.any() else np.nan
    assert out[INDEX.share_over_1h] == pytest.approx(share, nan_ok=True)
