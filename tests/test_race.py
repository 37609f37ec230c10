"""Races over futures: the budget, who is out, and that nothing is lost by it where runs suffice."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.objectives.aggregate import class_shares
from procure.recommender.race import (
    FEWEST_KEPT,
    MOST_LEARNT,
    NOISE,
    REACH,
    Exchanges,
    _learnt_from,
    as_it_is,
    by_class_rank,
    by_rank,
    features_of,
    predict_waits,
    race,
)


def field(n: int = 300, n_futures: int = 20, seed: int = 1, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Waits of packages that are too small here and too large there, with noise of their own; and their features."""
    rng = np.random.default_rng(seed)
    features, hardness = rng.normal(size=(n, 4)), rng.lognormal(6, 1, (n_futures, 1))
    off = ((features - rng.normal(0, 0.3, (n_futures, 1, 4))) ** 2).sum(axis=2)
    return hardness * np.exp(off / 3) * rng.lognormal(0, noise, (n_futures, n)), features


def run(wait: np.ndarray, features: np.ndarray, runs: int, score=as_it_is, kept: int = FEWEST_KEPT):
    asked = []

    def simulate(future: int, rows: np.ndarray) -> np.ndarray:
        asked.append((future, rows))
        return wait[future, rows]

    return race(simulate, features, np.arange(len(wait)), runs, kept, score), asked


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 120), st.integers(1, 12), st.integers(1, 900), st.integers(0, 30), st.integers(0, 99))
def test_a_race_keeps_to_its_budget_and_runs_nothing_twice(n, n_futures, runs, kept, seed):
    """What ran is what the simulator said, once; as many as asked for ran on all futures where the budget allows."""
    wait, features = field(n, n_futures, seed)
    found, asked = run(wait, features, runs, kept=kept)
    pairs = [(future, row) for future, rows in asked for row in rows]
    known = ~np.isnan(found.wait)
    assert len(pairs) == len(set(pairs)) == found.n_runs == known.sum()
    assert (found.wait[known] == wait[known]).all() and (found.filled[known] == wait[known]).all()
    assert found.n_runs <= max(runs, 2 * n_futures) and not np.isnan(found.filled).any()
    assert sorted(found.order) == list(range(n))
    finished = found.finished
    assert len(finished) >= min(kept, n, runs // n_futures)
    assert (np.diff(wait[:, finished].mean(axis=0)) >= 0).all()


def test_with_runs_for_all_the_choice_is_the_best_by_the_mean_over_all_futures():
    for seed in range(10):
        wait, features = field(n=60, seed=seed)
        found, _ = run(wait, features, wait.size)
        assert found.order[0] == wait.mean(axis=0).argmin()
        assert found.n_runs < wait.size  # those that are out did not run on


@pytest.mark.slow
@pytest.mark.parametrize(("score", "worst"), [(as_it_is, 1.1), (by_rank, 2.1)])
def test_a_tenth_of_the_runs_finds_the_choice_of_all(score, worst):
    """Over 20 fields of 500 packages: in most the very same, elsewhere nearly as good a one (by squares)."""
    lost = []
    for seed in range(20):
        wait, features = field(n=500, seed=seed, noise=0.05)
        found, _ = run(wait, features, wait.size // 10, score)
        figure = score(wait).mean(axis=0)
        lost.append(figure[found.order[0]] / figure.min())
    assert np.median(lost) == 1 and max(lost) < worst


def test_a_package_that_is_worse_on_every_future_is_out():
    """A field of which the model can know nothing: the bad half of what is tried later runs on five futures only."""
    rng = np.random.default_rng(1)
    bad = rng.random(60) < 0.5
    wait = np.where(bad, 150.0, 100.0) * rng.lognormal(0, 0.05, (12, 60)) * np.arange(1, 13)[:, None]
    found, _ = run(wait, rng.normal(size=(60, 4)), wait.size)
    n_ran, later = (~np.isnan(found.wait)).sum(axis=0), np.arange(60) >= 20
    assert (n_ran[~later] == 12).all() and (n_ran[later & bad] == 5).all()
    assert (n_ran[later & ~bad] == 12).mean() > 0.5


def test_packages_are_compared_by_their_score():
    """Package 0 is first on nineteen of twenty futures; by its mean wait it is the last."""
    wait = np.tile([100.0, 200.0, 300.0], (20, 1))
    wait[5, 0] = 10**6
    found = [run(wait, np.zeros((3, 4)), 60, score, 3)[0] for score in (as_it_is, by_rank)]
    assert [one.order.tolist() for one in found] == [[1, 2, 0], [0, 1, 2]]


def test_features_are_standardised_logarithms_of_nodes_and_totals():
    """A package twice another in everything is as far from it as that from one half its size; what is constant is 0."""
    counts = np.array([[127, 0], [255, 0], [511, 0]])
    found = features_of(counts, np.column_stack([counts[:, 0], counts[:, 0], np.zeros(3)]))
    assert found[:, 0] == pytest.approx(np.array([-1, 0, 1]) * np.sqrt(1.5)) and (found[:, 3] == 0).all()


@pytest.mark.parametrize("score", [as_it_is, by_rank])
def test_a_run_that_failed_does_not_blind_the_race(score):
    """One run of the first packages failed: the choice is that of a race in which none did."""
    wait, features = field(n=400, n_futures=8, seed=3, noise=0.05)
    failed = wait.copy()
    failed[2, 5] = np.inf
    found, _ = run(failed, features, 800, score)
    ran = ~np.isnan(found.wait).any(axis=0)
    assert ran.sum() > 40 and not np.isnan(found.filled).any()
    later = np.setdiff1d(np.flatnonzero(ran), np.arange(33))
    assert np.median(later) > 100  # those run that a model expects to lead, and not the first ones
    assert found.order[0] == run(wait, features, 800, score)[0].order[0]
    assert found.finished[-1] == 5 or score is by_rank


@pytest.mark.parametrize("score", [as_it_is, by_rank])
def test_a_race_of_failures_spends_its_budget_and_ends(score):
    found, _ = run(np.full((6, 50), np.inf), np.zeros((50, 4)), 120, score)
    assert found.n_runs == 120 and sorted(found.order) == list(range(50))


def test_predictions_are_those_of_the_formula_written_out():
    """In chunks or at once, the same; a package of which the model learnt little is pulled toward the mean."""
    wait, features = field(n=5000, n_futures=3)
    known = np.arange(0, 5000, 100)
    log = np.log(np.maximum(wait[:, known], 60)).T
    kernel = np.exp(-((features[:, None] - features[None, known]) ** 2).sum(axis=2) / (2 * REACH**2))
    weights = np.linalg.solve(kernel[known] + NOISE * np.eye(50), log - log.mean(axis=0))
    slow = np.exp(log.mean(axis=0) + kernel @ weights).T
    assert predict_waits(features, known, wait[:, known]) == pytest.approx(slow)


def test_the_model_of_a_large_race_stays_small():
    """It learns from 500 packages at most, the first and the best others; 20,000 are predicted in under 100 MB."""
    rng = np.random.default_rng(1)
    whole, own = np.arange(0, 20_000, 16), rng.random(1250)
    finite = np.arange(1250) != 3
    known = _learnt_from(whole, own, finite, 640)
    assert len(known) == MOST_LEARNT and (known[:39] == np.delete(whole[:40], 3)).all()
    best = whole[40:][np.argsort(own[40:])[: MOST_LEARNT - 39]]
    assert sorted(known[39:]) == sorted(best)
    wait, features = field(n=20_000, n_futures=5)
    tracemalloc.start()
    predict_waits(features, known, wait[:, known])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def test_a_large_budget_takes_no_more_rounds_than_a_small_one():
    """2,000 packages may all run: the batches grow, so that the model is made anew some twenty times only."""
    wait, features = field(n=2000, n_futures=3)  # three futures: nobody is out before the end
    _, asked = run(wait, features, wait.size)
    assert len(asked) // 3 <= 22


def test_a_race_by_class_weighs_futures_and_classes_as_the_objective_does():
    """Its figure is the weighted mean of `class_shares` of all packages; the best by it has run everywhere."""
    all_jobs, features = field(60, 6)
    by_class = np.stack([all_jobs, all_jobs * np.exp(features[:, 0]), np.full_like(all_jobs, np.nan)], axis=1)
    weights = np.array([3.0, 1, 1, 1, 1, 1])
    found = race(
        lambda future, rows: by_class[future][:, rows], features, np.arange(6), 180, score=by_class_rank,
        weights=weights,
    )  # fmt: skip
    assert found.n_runs <= 180 and found.wait.shape == all_jobs.shape
    ran = ~np.isnan(found.wait)
    assert (found.wait[ran] == all_jobs[ran]).all() and ran[:, found.order[0]].all()
    everything = race(
        lambda future, rows: by_class[future][:, rows], features, np.arange(6), 360, score=by_class_rank,
        weights=weights, kept=60,
    )  # fmt: skip
    assert not np.isnan(everything.wait).any()
    expected = np.average(class_shares(by_class), axis=0, weights=weights)
    assert everything.figure == pytest.approx(expected)
    guarded = race(
        lambda future, rows: by_class[future][:, rows], features, np.arange(6), 360, score=by_class_rank,
        weights=weights, kept=60, past=2,
    )  # fmt: skip
    behind = all_jobs[2] > 1.5 * all_jobs[2].min()
    assert behind.any() and guarded.figure == pytest.approx(expected + behind)


@pytest.mark.parametrize("score", [as_it_is, by_rank])
def test_exchanges_end_a_race_where_no_neighbour_of_the_leader_is_better(score):
    """A bowl of 200 × 200 packages, few of them drawn; by hand: each way from the leader, one more of this or that."""
    rng = np.random.default_rng(4)
    tilt, counts = rng.uniform(0.97, 1.03, 6), rng.integers(0, 200, (60, 2))

    def waits(future: int, some: np.ndarray) -> np.ndarray:
        return tilt[future] * (100 + (some[:, 0] - 97) ** 2 + (some[:, 1] - 31) ** 2)

    def simulate(future: int, rows: np.ndarray) -> np.ndarray:
        return waits(future, counts[rows])

    def near(leader: int) -> tuple[np.ndarray, np.ndarray]:
        nonlocal counts
        around = counts[leader] + np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [8, 0], [-8, 0], [0, 8], [0, -8]])
        new = np.array([one for one in around.tolist() if one not in counts.tolist()], np.int64).reshape(-1, 2)
        counts = np.concatenate([counts, new])
        rows = [counts.tolist().index(one) for one in around.tolist()]
        return features_of(counts, counts), np.array(rows)

    plain = race(simulate, features_of(counts, counts), np.arange(6), 300, score=score)
    assert waits(0, counts[plain.order[:1]])[0] > tilt[0] * 101  # the draw does not hold the best
    drawn = len(counts)
    found = race(
        simulate, features_of(counts, counts), np.arange(6), 3000, score=score, exchanges=Exchanges(near, 2700)
    )
    first = found.order[0]
    assert found.n_runs <= 3000 and len(counts) > drawn and first in found.finished
    assert counts[first].tolist() == [97, 31]
    assert len(found.figure) == found.wait.shape[1] == len(counts)


def test_exchanges_keep_to_their_runs():
    """With runs for two neighbours, two run; with none, the race is the one without."""
    wait = np.random.default_rng(1).uniform(100, 1000, (3, 40))
    features = np.random.default_rng(2).normal(size=(40, 4))

    def around(leader: int) -> tuple[np.ndarray, np.ndarray]:
        return features, np.arange(30, 40)

    def simulate(future: int, rows: np.ndarray) -> np.ndarray:
        return wait[future, rows]

    plain = race(simulate, features[:30], np.arange(3), 30)
    assert race(simulate, features[:30], np.arange(3), 30, exchanges=Exchanges(around, 0)).n_runs == plain.n_runs
    found = race(simulate, features[:30], np.arange(3), 36, exchanges=Exchanges(around, 6))
    assert found.n_runs == 36 and (~np.isnan(found.wait[:, 30:]).any(axis=0)).sum() == 2
