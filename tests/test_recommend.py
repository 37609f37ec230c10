"""The ranking, its confirmation by simulation, and the commands and report built on it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import offered, run

import procure
from procure.errors import ArgumentError
from procure.models import Predicted, Surrogate, WorkloadWaits
from procure.models.crossfit import ConformalErrors
from procure.recommender.rank import confirm_list, ranking_table
from procure.recommender.recommendation import budget_by_category, counts_of, servers_by_type
from procure.recommender.values import MEAN_WAIT, Criteria, PackageValues
from procure.sweep import trial

QUOTES = pd.DataFrame(
    {
        "name": ["A", "G"],
        "category": ["compute", "gpu"],
        "cpus": [8, 4],
        "mem_gb": [32.0, 64.0],
        "gpus": [0, 2],
        "price_usd": [100.0, 300.0],
    }
)


def make_case(wait: list[float], left_out: list[int] | None = None, price: list[float] | None = None) -> WorkloadWaits:
    n = len(wait)
    table = pd.DataFrame({"package_id": [f"p{i}" for i in range(n)], "A": range(n), "G": 1})
    table["price_usd"] = price or [100.0] * n
    table["total_cpus"], table["total_mem_gb"], table["total_gpus"] = 8, 64.0, 2
    return WorkloadWaits("day", table, np.array(left_out or [0] * n), np.array(wait, dtype=float), 10)


def confirmed(case: WorkloadWaits, guess: list[float], k: int, simulate=None):
    """Rank one workload's packages by waits, simulated or guessed, and confirm the first k."""
    values = PackageValues([case], {"mean_wait_time": case.wait[None, :]})
    errors = np.array([0.5, 1.0, 2.0])
    model = Predicted(
        np.array(guess, dtype=float), Surrogate(), pd.DataFrame(), 3.0, 9.0, ConformalErrors(np.zeros(3), errors)
    )
    assert values.learn(MEAN_WAIT, lambda case: (model, model.wait))
    looked_up = None if simulate is None else lambda rows: {"mean_wait_time": simulate(rows)[None, :]}
    values.simulate = looked_up
    confirm_list(values, Criteria(), k)
    return ranking_table(values, Criteria()), values


def test_the_head_is_simulated_until_nothing_predicted_is_left_in_it(monkeypatch):
    """A prediction that proves too low falls back, and what moves up is simulated in turn."""
    monkeypatch.setattr("procure.recommender.rank.FEWEST_CONFIRMED", 1)
    case = make_case([np.nan, 50, np.nan, np.nan, np.nan])
    truth, asked = np.array([500.0, 0, 20, 400, 90]), []

    def simulate(rows: np.ndarray) -> np.ndarray:
        asked.append(rows.tolist())
        return truth[rows]

    table, _ = confirmed(case, [10, 0, 30, 40, 99], 2, simulate)
    assert asked == [[0, 2], [3]]
    assert table["package_id"].tolist() == ["p2", "p1", "p4", "p3", "p0"]
    assert table["simulated"].tolist() == [True, True, False, True, True]
    assert table["mean_wait_time"].iloc[0] == 20


def test_a_short_list_is_the_head_of_a_long_one():
    """k = 1 confirms as many as k = 50 would, so the first choice does not depend on k."""
    rng = np.random.default_rng(1)
    truth, guess = rng.random(200), rng.random(200).tolist()
    one, fifty = (confirmed(make_case([np.nan] * 200), guess, k, lambda rows: truth[rows])[0] for k in (1, 50))
    assert one["package_id"].tolist() == fifty["package_id"].tolist()


def test_without_verification_predictions_carry_a_range():
    """The range comes from out-of-fold errors; a simulated package needs none."""
    table, _ = confirmed(make_case([np.nan, 50]), [9, 0], 5)
    assert table["package_id"].tolist() == ["p0", "p1"] and table["simulated"].tolist() == [False, True]
    assert 0 < table["low_wait_time"].iloc[0] < 9 < table["high_wait_time"].iloc[0]
    assert np.isnan(table["low_wait_time"].iloc[1]) and np.isnan(table["high_wait_time"].iloc[1])


def test_summaries_by_type_and_category():
    """Servers are summed over the packages; the budget is a mean per package."""
    table = pd.DataFrame({"A": [2, 4], "G": [1, 0]})
    types = servers_by_type(table, QUOTES).set_index("name")
    assert types["servers"].to_dict() == {"A": 6, "G": 1}
    assert types["packages"].to_dict() == {"A": 2, "G": 1}
    spent = budget_by_category(table, QUOTES).set_index("category")
    assert spent["price_usd"].to_dict() == {"compute": 300.0, "gpu": 150.0}
    assert spent["share"].tolist() == pytest.approx([2 / 3, 1 / 3])
    assert counts_of(table, QUOTES) == [{"A": 2, "G": 1}, {"A": 4}]


def test_what_is_spent_is_the_price_after_discounts():
    """A discount is shared among the categories by their list prices, so that they sum to the price."""
    table = pd.DataFrame({"A": [2], "G": [1], "price_usd": 250.0})
    spent = budget_by_category(table, QUOTES)
    assert spent["price_usd"].tolist() == pytest.approx([100.0, 150.0])


STUDY = """name = "small"
quotes = "quotes.csv"
[packages]
rules = "published"
budget_usd = 90_000
[[workloads]]
name = "day"
generate = { seed = 3, n_jobs = 200 }
[sweep]
sample = 2
[model]
folds = 2
[evaluate]
k = [5, 5000]
[recommend]
k = 3
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study, swept."""
    return offered(tmp_path_factory.mktemp("study"), STUDY)


@pytest.mark.slow
def test_nothing_is_confirmed_twice(swept, tmp_path, monkeypatch):
    """What one command has simulated to confirm its list, the next one reads: the same list, without a run."""
    study = tmp_path / "study"
    shutil.copytree(swept.parent, study)
    asked = {"k": 4, "resamples": 0}
    fresh = procure.recommend(study / "study.toml", **asked)
    kept = list((study / "results" / "small" / "models").glob("confirmed.*"))
    assert len(kept) == 1 and fresh.n_verified > 0

    def refuse(*arguments):
        raise AssertionError("simulated again")

    with monkeypatch.context() as patch:
        patch.setattr(trial, "simulate_packages", refuse)
        again = procure.recommend(study / "study.toml", **asked)
    pd.testing.assert_frame_equal(again.ranking, fresh.ranking)
    assert again.about == fresh.about
    kept[0].write_bytes(kept[0].read_bytes()[:-40])  # what cannot be read is simulated again
    pd.testing.assert_frame_equal(procure.recommend(study / "study.toml", **asked).ranking, fresh.ranking)


@pytest.mark.slow
def test_evaluate_against_a_wider_truth(swept):
    """An exhaustive study of the same workload gives hits and regret over all packages that run every job."""
    whole = swept.with_name("whole.toml")
    whole.write_text(STUDY.replace('"small"', '"whole"').replace("sample = 2", "sample = 1"))
    run("sweep", whole, "--farm", "serial")
    rows = json.loads(run("evaluate", swept, "--truth", whole, "--format", "json").stdout)
    sampled = json.loads(run("evaluate", swept, "--format", "json").stdout)
    assert rows[0]["n_ranked"] > sampled[0]["n_ranked"]
    assert all(row["bought_regret_share"] <= row["regret_share"] for row in rows if row["model"] == "xgboost")
    table = swept.parent / "results" / "whole" / "results.parquet"
    assert json.loads(run("evaluate", swept, "--truth", table, "--format", "json").stdout) == rows


@pytest.mark.slow
def test_recommend_is_a_function_of_the_library(swept):
    """From a path, a study or its results: the same list as the command's, which says itself as text and HTML."""
    r = procure.recommend(swept, k=3)
    rows = json.loads(run("recommend", swept, "--format", "json").stdout)
    assert r.ranking["package_id"].tolist()[:3] == [row["package_id"] for row in rows]
    assert len(r.ranking) > 50 and r.confirmed and r.front is None and r.k == 3
    assert r.models[0].what == "mean-wait" and r.confidence.unit == "bursts of jobs"
    text = r.summary()
    assert all(row["package_id"] in text for row in rows) and all(line in text for line in r.notes)
    assert "<table" in r._repr_html_() and rows[0]["package_id"] in r._repr_html_()
    results = procure.load_results(procure.load_study(swept))
    notes: list[str] = []
    same = procure.recommend(results, k=3, resamples=0, note=notes.append)
    assert same.ranking.equals(r.ranking) and same.confidence.unit == "nothing"
    front = procure.recommend(results, pareto=["wait", "price"])
    assert front.front["knee"].sum() == 1 and front.confidence is None and "no other beats" in front.summary()
    assert front.ranking["objective_value"].head(3).tolist() == r.ranking["mean_wait_time"].head(3).tolist()


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("k", {"k": 0}),
        ("rule", {"rule": "best"}),
        ("objective", {"objective": "p59-wait"}),
        ("constraints", {"constraints": ["mean_wait<=1h", "mean_wait>=2h"]}),
        ("pareto", {"pareto": "wait"}),
        ("rule", {"pareto": "wait,cost", "rule": "published"}),
        ("policy", {"policy": "fcfs"}),
        ("workload", {"workload": "night"}),
        ("resamples", {"resamples": -1}),
    ],
)
def test_a_wrong_argument_of_recommend_names_itself(swept, argument, given):
    with pytest.raises(ArgumentError) as raised:
        procure.recommend(swept, **given)
    assert raised.value.argument == argument


def test_a_study_without_results_says_what_to_run(tmp_path):
    assert "procure sweep" in str(run("recommend", offered(tmp_path, STUDY, sweep=False), code=1).exception)


@pytest.mark.slow
def test_results_in_a_folder_that_cannot_be_written_to_are_used(swept, monkeypatch):
    """Models are then computed and not kept: recommend and evaluate say what they would have said."""
    told: list[str] = []
    before = procure.recommend(swept, k=3, verify=False, constraints="price_usd<=1000000")
    judged = procure.evaluate(swept, note=told.append)
    assert "satisfies" in before.ranking and told and judged.notes[0] in judged._repr_html_()
    shutil.rmtree(swept.parent / "results" / "small" / "models")

    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, "mkdir", refuse)
    after = procure.recommend(swept, k=3, verify=False, constraints=["price_usd<=1000000"])
    assert after.ranking.equals(before.ranking)
    assert procure.evaluate(swept).hits.equals(judged.hits)
