"""A bound on the price lists the packages that it buys, beside those of the budget."""

from __future__ import annotations

import numpy as np
import pytest
import small_study
from small_study import search

from procure.packages import PackageRules, expand_packages
from procure.recommender import recommend
from procure.study import load_plan, load_study
from procure.study.plan import with_smaller_packages
from procure.sweep.trial import simulate_packages


@pytest.mark.slow
def test_the_best_package_under_a_bound_is_found():
    """It is the best of all that the bound buys, each simulated; none of them is in the study's own list."""
    path = small_study.swept()
    done = recommend(path, k=3, resamples=0, constraints="price_usd<=$60,000")
    plan = load_plan(load_study(path))
    rules = plan.study.packages.model_copy(update={"budget_usd": 60_000.0})
    every = expand_packages(plan.quotes, rules)
    runs = simulate_packages(plan, every[plan.types].to_numpy(np.int64), "day-1", "best-fit")
    wait = runs["mean_wait_time"].where(runs["n_unrunnable"] == 0)
    assert done.ranking["mean_wait_time"].iloc[0] == wait.min()
    assert (done.ranking["price_usd"].head(3) <= 60_000).all()
    assert plan.packages["price_usd"].min() > 60_000
    assert load_plan(load_study(path)).fingerprint == done.results.plan.fingerprint  # the sweep is still its own


def test_a_search_puts_the_packages_that_keep_the_bounds_first(tmp_path):
    """A bound that some keep: those come first, by the objective, and what is bounded stands in the rows."""
    text = small_study.swept().read_text()
    path = tmp_path / "small.toml"
    path.write_text(text)
    wait = search(path, runs=30, stable_rounds=0, objective="p95-wait").ranking["mean_wait_time"].median()
    found = search(path, runs=30, stable_rounds=0, objective="p95-wait", constraints=[f"mean_wait<={wait:.3f}"])
    kept = found.ranking["mean_wait_time"] <= wait
    assert found.ranking["satisfies"].tolist() == kept.tolist() and kept.is_monotonic_decreasing
    assert kept.any() and not kept.all()
    assert found.ranking.loc[kept, "objective_value"].is_monotonic_increasing
    assert found.records()[0]["constrained"] == {"mean_wait_time": found.ranking["mean_wait_time"].iloc[0]}


def test_a_bound_on_the_price_is_of_the_servers_where_the_budget_is_for_the_whole_order(tmp_path):
    """With tax within the budget, packages are listed up to the bound as far as the budget holds their tax, too."""
    tax = "[costs]\ntax_percent = 25\nwithin_budget = true"
    path = small_study.write_study(tmp_path / "s.toml", "generate = { seed = 1, n_jobs = 40 }", tax, budget=60_000)
    plan = load_plan(load_study(path))
    new = with_smaller_packages(plan, 40_000.0).packages.iloc[len(plan.packages) :]
    plain = expand_packages(plan.quotes, PackageRules(rules="published", budget_usd=40_000.0))
    plain = plain[plain["distinct"]]
    keeps = plain[(plain["price_usd"] * 1.25 <= 60_000) & ~plain["package_id"].isin(plan.row_of.index)]
    assert set(new["package_id"]) == set(keeps["package_id"]) and len(new) > 5
    assert new["price_usd"].max() > 40_000 / 1.25
