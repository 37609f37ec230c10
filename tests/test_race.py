"""Races over futures: the budget, who is out, and that nothing is lost by it where runs suffice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.objectives.aggregate import rank_shares
from procure.recommender.outlook import chance_to_be_best
from procure.recommender.race import FEWEST_KEPT, as_it_is, race, sizes


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 40), st.integers(1, 200_000))
def test_the_sizes_keep_to_the_budget_and_never_grow(n_packages, n_futures, runs):
    """All packages run on the first future, fewer and fewer on the others, and all takes no more than allowed."""
    plan = sizes(n_packages, n_futures, runs)
    least = n_packages + (n_futures - 1) * min(FEWEST_KEPT, n_packages)
    assert plan[0] == n_packages and (np.diff(plan) <= 0).all() and plan[-1] >= min(FEWEST_KEPT, n_packages)
    assert plan.sum() <= max(runs, least)
    if runs >= n_packages * n_futures:
        assert (plan == n_packages).all()


def field(n: int = 300, n_futures: int = 20, seed: int = 1, noise: float = 0.3) -> np.ndarray:
    """Waits of packages of different quality on futures of different hardness, with noise of their own."""
    rng = np.random.default_rng(seed)
    quality, hardness = rng.uniform(1, 4, n), rng.lognormal(6, 1, (n_futures, 1))
    return hardness * quality * rng.lognormal(0, noise, (n_futures, n))


def run(wait: np.ndarray, runs: int):
    asked = []

    def simulate(future: int, rows: np.ndarray) -> np.ndarray:
        asked.append((future, rows))
        return wait[future, rows]

    return race(simulate, wait.shape[1], np.arange(len(wait)), runs), asked


def test_with_runs_for_all_the_choice_is_the_best_by_the_mean_over_all_futures():
    for seed in range(10):
        wait = field(n=60, seed=seed)
        found, _ = run(wait, wait.size)
        assert found.order[0] == wait.mean(axis=0).argmin()
        assert found.n_runs < wait.size  # those that are out did not run on


def test_a_tenth_of_the_runs_finds_a_choice_as_good_as_all_within_a_few_percent():
    """Over 20 fields the choice's mean is at most 10 % above the best's, in the median not at all."""
    lost = []
    for seed in range(20):
        wait = field(n=500, seed=seed, noise=0.1)
        found, _ = run(wait, wait.size // 10)
        assert found.n_runs <= wait.size // 10
        mean = wait.mean(axis=0)
        lost.append(mean[found.order[0]] / mean.min() - 1)
    assert np.median(lost) == 0 and max(lost) < 0.1


def test_nothing_is_simulated_twice_and_what_was_not_is_unknown():
    wait = field(n=80)
    found, asked = run(wait, 400)
    pairs = [(future, row) for future, rows in asked for row in rows]
    assert len(pairs) == len(set(pairs)) == found.n_runs == (~np.isnan(found.wait)).sum()
    known = ~np.isnan(found.wait)
    assert (found.wait[known] == wait[known]).all()
    finished = found.finished
    assert len(finished) >= FEWEST_KEPT and (np.diff(wait[:, finished].mean(axis=0)) >= 0).all()


def test_a_package_that_is_worse_on_every_future_is_out_after_three():
    """Ten packages lead, all others wait 50 % longer on each future: these run three times, the leaders on all."""
    wait = np.tile(np.linspace(100, 110, 40), (12, 1)) * np.arange(1, 13)[:, None]
    wait[:, 10:] *= 1.5
    found, _ = run(wait, 10**6)
    assert (~np.isnan(found.wait)).sum(axis=0).tolist() == [12] * 10 + [3] * 30
    assert found.order[0] == 0


def test_packages_are_compared_by_their_score():
    """Package 0 is first on eleven of twelve futures; by its mean wait it is out."""
    wait = np.tile(np.arange(100.0, 600.0, 100.0), (12, 1))
    wait[5, 0] = 10**6
    found = [
        race(lambda i, rows: wait[i, rows], 5, np.arange(12), 60, 5, score)
        for score in (as_it_is, rank_shares)
    ]
    assert [one.order[0] for one in found] == [1, 0]


def test_the_chance_to_be_the_best_counts_those_that_did_not_run():
    """All four ran on two futures, where row 0 is best once; the two that ran on all hold the best there once.

    On the two other futures row 0 is the better of those two, which counts half.
    """
    none = np.nan
    wait = np.array([[1.0, 2, 3, 4], [5, 4, 1, 9], [1, 2, none, none], [1, 2, none, none]])
    assert chance_to_be_best(wait, 0) == (1 + 0 + 0.5 + 0.5) / 4
    assert chance_to_be_best(wait, 1) == 0
    assert chance_to_be_best(wait[:, :2], 0) == 3 / 4


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_packages_all_run_to_the_end(n):
    found, _ = run(field(n=n), 1)
    assert len(found.finished) == n
