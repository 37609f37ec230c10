"""Is the difference between two policies more than chance? Paired tests over parts of a workload."""

from __future__ import annotations

import numpy as np
import pandas as pd

N_RESAMPLES = 10_000
FEWEST_PAIRS = 6
"""Of fewer pairs Wilcoxon's test cannot reach 5 %, and a bootstrap interval covers far less than it says."""


def paired_tests(values: pd.DataFrame, baseline: str, n_resamples: int = N_RESAMPLES) -> pd.DataFrame:
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
            means = difference[rng.integers(0, n, (n_resamples, n))].mean(axis=1)
            row["low"], row["high"] = np.quantile(means, [0.025, 0.975])
            if np.any(difference != 0):
                row["p_wilcoxon"] = stats.wilcoxon(difference).pvalue
                if np.ptp(difference) > 0:
                    row["p_t"] = stats.ttest_1samp(difference, 0.0).pvalue
        rows.append(row)
    return pd.DataFrame(rows)
