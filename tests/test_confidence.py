"""Ranges hold what they promise, ranks are said with their doubt, and what cannot be told apart is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from small_study import swept

from procure.evaluation.ranking import rank_confidence, rank_ranges, resample_rows
from procure.models.crossfit import ConformalErrors, places
from procure.models.fluid import backlog_waits
from procure.recommender import confidence as assessing
from procure.recommender.confidence import resample_bursts
from procure.recommender.recommender import recommend
from procure.sweep import trial
from procure.workload import generate
from procure.workload.scale import bursts


@pytest.mark.parametrize(("n", "expected"), [(19, (0, 18)), (39, (1, 37)), (99, (4, 94)), (10, (0, 9)), (1, (0, 0))])
def test_the_places_of_a_conformal_range(n: int, expected: tuple[int, int]):
    """90 % of 19 is the whole range, of 39 leaves one out on either side; fewer can only give all they have."""
    assert places(n) == expected


def test_ranges_hold_the_truth_where_predictions_are_short_as_well_as_where_they_are_long():
    """Errors ten times as wide at short waits: in every fifth of the predictions 86 to 94 % are held."""
    rng = np.random.default_rng(1)
    at = rng.lognormal(6, 2, 24_000)
    truth = (at + 1) * np.exp(rng.normal(0, np.where(at < 400, 1.0, 0.1))) - 1
    fitted = ConformalErrors(at[:4000], (truth[:4000] + 1) / (at[:4000] + 1))
    low, high = fitted.interval(at[4000:])
    fifth = np.digitize(at[4000:], np.quantile(at[4000:], [0.2, 0.4, 0.6, 0.8]))
    within = (low <= truth[4000:]) & (truth[4000:] <= high)
    held = [within[fifth == i].mean() for i in range(5)]
    assert min(held) > 0.86 and max(held) < 0.94
    width = (high + 1) / (low + 1)
    assert np.median(width[fifth == 0]) > 5 * np.median(width[fifth == 4])


def test_ranks_chances_and_doubles_by_hand():
    """Four draws of three packages: ties share the better rank; never better and once worse is told apart."""
    drawn = np.array([[1.0, 1.0, 9.0], [2.0, 2.0, 1.0], [3.0, 3.0, 9.0], [4.0, 4.0, 9.0]])
    said = rank_confidence(drawn, edges=np.array([1.0, 1.0, 9.0, 0.0]))
    assert said["rank_low"].tolist() == [1, 1, 1] and said["rank_high"].tolist() == [2, 2, 3]
    assert said["share_first"].tolist() == [0.75, 0.75, 0.25]
    assert said["chance_top"].tolist() == [0.5, 0.5, 0.5]
    # The second is the first's equal throughout, the third is better in one draw of four.
    assert said["alike"].tolist() == [True, True, True]
    worse = rank_confidence(drawn + np.array([0.0, 0.5, 8.0]))
    assert worse["alike"].tolist() == [True, False, False]


def test_bursts_are_resampled_whole_and_their_times_stay():
    """Each burst is in the resampled workload a whole number of times, under names of its own."""
    jobs = generate(1, 400)
    drawn = resample_bursts(jobs, 5)
    assert drawn["job_id"].is_unique and drawn.equals(resample_bursts(jobs, 5))
    of = dict(zip(jobs["job_id"], bursts(jobs), strict=True))
    times = drawn["job_id"].str.split("+").str[0].map(of).value_counts()
    sizes = pd.Series(bursts(jobs)).value_counts()
    assert ((times % sizes.reindex(times.index)) == 0).all()
    assert int((times / sizes.reindex(times.index)).sum()) == sizes.size
    assert set(drawn["submit_time"]) <= set(jobs["submit_time"])


def test_backlog_on_paper():
    """4 CPUs, 4 × 1,200 s of work at 0 and 4 × 600 s at 600 s: it is 1,200 s behind both times; 8 CPUs: 600 and 300."""
    quotes = pd.DataFrame(
        {"name": ["A"], "category": ["c"], "cpus": [4], "mem_gb": [8.0], "gpus": [0], "gpu_type": [""]}
    )
    jobs = pd.DataFrame(
        {"submit_time": [0, 600], "run_time": [1200, 600], "n_nodes": 1, "cpus_per_node": 4,
         "mem_mb_per_node": 0, "gpus_per_node": 0, "gpu_type": ""}
    )  # fmt: skip
    found = backlog_waits(pd.DataFrame({"A": [1, 2]}), quotes, jobs)
    assert found.tolist() == [1200.0, 450.0]


@pytest.mark.slow
def test_packages_that_leave_other_jobs_out_are_not_compared():
    """The mean wait of fewer jobs is no better: beyond the packages that run as many, nothing is said of the order."""
    done = recommend(swept(5), k=4)
    ranking = done.ranking.assign(jobs_left_out=np.where(np.arange(len(done.ranking)) < 2, 0, 7))
    found = assessing.assess(done.results, done.package_values, done.criteria, ranking, 4)
    assert len(found.table) == 2 and found.table["rank_high"].max() <= 2
    assert found.head(4)["alike"].isna().tolist() == [False, False, True, True]
    assert len(found.columns(4)["tied_1st"]) == 4
    assert not any("first 4" in line or "first 50" in line for line in found.sentences())


@pytest.mark.slow
def test_a_resample_with_a_failed_run_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch):
    """The recommendation is made all the same; of resamples that all fail nothing is known."""
    real, calls = trial.simulate_packages, []

    def fails(*arguments: object) -> pd.DataFrame:
        calls.append(1)
        rows = real(*arguments)
        if len(calls) % 2:
            rows.loc[0, ["status", "reason"]] = ["error", "out of memory"]
        return rows

    monkeypatch.setattr(assessing, "simulate_packages", fails)
    done = recommend(swept(), k=3, resamples=4)
    assert done.confidence is not None and done.confidence.n_draws == 2
    assert any("2 draws are left out, because a run failed" in line for line in done.notes)
    calls.clear()
    done = recommend(swept(), k=3, resamples=1)
    assert done.confidence is not None and done.confidence.unit == "nothing"
    assert any("1 draw is left out" in line and "out of memory" in line for line in done.notes)


def ranks(figures: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(figures), figures) + 1


@pytest.mark.parametrize(("n_days", "spread"), [(5, 0.1), (10, 0.4), (25, 0.4)])
def test_ranges_from_few_days_hold_the_true_rank_in_nine_of_ten_cases(n_days, spread):
    """Waits of 300 packages on n days, their level and each package's own noise lognormal: the true order is known."""
    rng = np.random.default_rng(n_days)
    held, alone, placed = [], [], []
    for _ in range(12):
        true = 1000 * np.exp(rng.normal(0, spread, 300))
        level = np.exp(rng.normal(0, 0.8, (n_days, 1)))
        waits = true * level * np.exp(rng.normal(0, 0.1, (n_days, 300)))
        head = np.argsort(waits.mean(axis=0))[:40]
        waits, rank = waits[:, head], ranks(true[head])
        drawn = waits[resample_rows(n_days, 300, 1)].mean(axis=1)
        low, high = rank_ranges(drawn, waits.mean(axis=0))
        least, most = rank_ranges(drawn)
        held.append((low <= rank) & (rank <= high))
        alone.append((least <= rank) & (rank <= most))
        place = np.arange(1, 41)
        placed.append((low <= place) & (place <= high))
    assert np.mean(held) >= 0.9
    assert np.mean(held) > np.mean(alone)
    assert np.all(placed)


def test_ranges_by_hand():
    """The third place of three that is always best in the resamples has the range 1 to 3."""
    drawn = np.array([[2.0, 3.0, 1.0]] * 10)
    low, high = rank_ranges(drawn)
    assert low.tolist() == [1, 2, 1] and high.tolist() == [2, 3, 3]
    # Differences of 1 with a standard deviation of 0 tell all apart: only the places and the resamples remain.
    low, high = rank_ranges(drawn, np.array([1.0, 2.0, 3.0]))
    assert low.tolist() == [1, 2, 1] and high.tolist() == [2, 3, 3]
    wide = np.array([[1.0, 2.0], [1.0, 9.0]] * 5)
    low, high = rank_ranges(wide, np.array([1.0, 5.0]))
    assert low.tolist() == [1, 1] and high.tolist() == [2, 2]
