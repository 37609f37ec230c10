"""Parts of a workload to repeat a comparison on, and tests of whether policies differ over them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.text import nearest

SLICES = {"day": 86_400, "week": 604_800, "month": 2_592_000}
"""Length of a slice, s; a month is 30 days. Slices begin with the first submission."""
FEWEST_JOBS = 10
"""A slice with fewer jobs says nothing and is left out."""
N_RESAMPLES = 10_000
FEWEST_PAIRS = 6
"""Of fewer pairs Wilcoxon's test cannot reach 5 %, and a bootstrap interval covers far less than it says."""


def check_length(length: str) -> None:
    """Raise if the length is not one of `SLICES`."""
    if length not in SLICES:
        raise TableError(f"slices of {length!r} are not known; {nearest(length, SLICES)}")


def slices(jobs: pd.DataFrame, length: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Cut a workload by submission time into one of `SLICES`; each slice will start from an empty system."""
    check_length(length)
    number = (jobs["submit_time"] - jobs["submit_time"].min()) // SLICES[length]
    for place, part in jobs.groupby(number, sort=True):
        if len(part) >= FEWEST_JOBS:
            yield f"{length} {int(place) + 1}", part.reset_index(drop=True)


def paired_tests(values: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Compare every policy with a baseline over the same parts of a workload.

    ``values`` are of one metric: a row per part, a column per policy; rows with a gap are left out. Per other policy:
    ``n``, the mean difference policy − baseline, its 95 % bootstrap interval ``low`` to ``high`` (pairs are resampled),
    the p-values of the paired t-test and of Wilcoxon's signed-rank test; NaN where undefined (fewer than `FEWEST_PAIRS`
    parts, or no difference).
    """
    from scipy import stats

    complete = values.dropna()
    rng = np.random.default_rng(0)
    rows = []
    for policy in complete.columns.drop(baseline):
        difference = (complete[policy] - complete[baseline]).to_numpy()
        n = len(difference)
        row = {"policy": policy, "baseline": baseline, "n": n, "difference": np.nan, "low": np.nan}
        row |= {"high": np.nan, "p_t": np.nan, "p_wilcoxon": np.nan}
        if n:
            row["difference"] = difference.mean()
        if n >= FEWEST_PAIRS:
            means = difference[rng.integers(0, n, (N_RESAMPLES, n))].mean(axis=1)
            row["low"], row["high"] = np.quantile(means, [0.025, 0.975])
            if np.any(difference != 0):
                row["p_wilcoxon"] = stats.wilcoxon(difference).pvalue
                if np.ptp(difference) > 0:
                    row["p_t"] = stats.ttest_1samp(difference, 0.0).pvalue
        rows.append(row)
    return pd.DataFrame(rows)
