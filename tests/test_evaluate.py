"""Precision, recall, F1 and regret on lists small enough to work out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from procure.evaluation.ranking import at_k, evaluate, evaluate_case, find_hits, random_at_k
from procure.models import WorkloadWaits


def test_hits_are_the_floor_of_the_share_and_ties_are_hits():
    """⌊5 % of 20⌋ is exactly 1, and a package tied with the last hit is one too."""
    wait = np.arange(20.0)
    assert find_hits(wait, 0.05).n_hits == 1
    assert find_hits(np.arange(39.0), 0.05).n_hits == 1
    assert find_hits(np.arange(40.0), 0.05).n_hits == 2
    wait[1] = 0
    assert (find_hits(wait, 0.05).n_hits, find_hits(wait, 0.05).n_real) == (1, 2)


def test_figures_by_hand():
    """Ten packages, two hits by share 0.2, one of them among the first three."""
    wait = np.array([100.0, 110, 200, 300, 400, 500, 600, 700, 800, 900])
    predicted = np.array([50.0, 900, 20, 10, 60, 70, 80, 90, 95, 99])
    table = evaluate(predicted, wait, np.ones(10), ks=(3,), hit_share=0.2, workload="w").set_index("k")
    assert table.loc[3, ["precision", "recall", "f1"]].tolist() == pytest.approx([1 / 3, 1 / 2, 2 / 5])
    assert table.loc[3, ["regret_seconds", "regret_share"]].tolist() == [0, 0]
    assert table.loc[2, ["regret_seconds", "regret_share"]].tolist() == pytest.approx([100, 1.0])
    assert list(table.index) == [2, 3]
    assert table["workload"].tolist() == ["w", "w"]


def test_regret_of_short_waits_is_a_share_of_a_minute():
    """A best wait of 10 s and one of 40 s differ by 30/60, not by 30/10."""
    found = at_k(np.array([1]), np.array([10.0, 40.0]), find_hits(np.array([10.0, 40.0]), 0.5), 1)
    assert (found["regret_seconds"], found["regret_share"]) == (30, 0.5)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_random_baseline_is_the_mean_over_all_orders(k):
    """Its expectation equals the average over every possible draw."""
    wait = np.array([120.0, 70, 70, 300, 500])
    hits = find_hits(wait, 0.4)
    draws = [at_k(np.array(draw), wait, hits, k) for draw in itertools.combinations(range(5), k)]
    found = random_at_k(wait, hits, k)
    for name in ("precision", "recall", "f1", "regret_seconds", "regret_share"):
        assert found[name] == pytest.approx(np.mean([draw[name] for draw in draws]))


def make_case(n: int = 200) -> WorkloadWaits:
    table = pd.DataFrame({"price_usd": np.ones(n), "total_cpus": np.arange(n) + 1})
    left_out = np.where(np.arange(n) % 2 == 0, 0, 3)
    wait = np.where(left_out == 0, np.arange(n) + 100.0, np.arange(n) * 0.1)
    return WorkloadWaits("day", table, left_out, wait, 50)


def test_only_packages_that_run_every_job_are_ranked_and_the_published_rule_stands_beside():
    """Short waits of packages that leave jobs out are hits by the published rule alone."""
    case = make_case()
    table = evaluate_case(case, {("composition", "xgboost"): (case.wait, case.wait)}, ks=(5,))
    mine = table[(table["model"] == "xgboost") & (table["k"] == 5)].iloc[0]
    assert (mine["n_ranked"], mine["n_hits"], mine["precision"]) == (100, 5, 1)
    assert (mine["published_n_hits"], mine["published_precision"]) == (10, 1)
    naive = table[(table["model"] == "cheapest-per-cpu") & (table["k"] == 5)].iloc[0]
    assert naive["precision"] == 0
    assert set(table["model"]) == {"xgboost", "cheapest-per-cpu", "random"}


def test_a_wider_truth_decides_hits_and_what_could_be_bought():
    """Regret with the sample: the best simulated package counts beside the first k."""
    case = make_case()
    truth, wait = case.wait, np.where(np.arange(200) < 20, case.wait, np.nan)
    worst_first = -truth
    known = WorkloadWaits(case.name, case.packages, case.left_out, wait, case.n_jobs)
    table = evaluate_case(known, {("totals", "gbt"): (worst_first, worst_first)}, truth, ks=(5,))
    row = table[(table["model"] == "gbt") & (table["k"] == 5)].iloc[0]
    assert row["n_ranked"] == 100
    assert row["bought_regret_share"] == 0
    assert row["regret_seconds"] == 190
