"""The ranking, its confirmation by simulation, and the commands and report built on it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from small_study import offered, quote_table, run

import procure
from procure.errors import ArgumentError
from procure.models import Predicted, Surrogate, WorkloadWaits
from procure.models.surrogate import ConformalErrors
from procure.recommender.rank import confirm_list, ranking_table
from procure.recommender.recommendation import budget_by_category, counts_of, servers_by_type
from procure.recommender.values import MEAN_WAIT, Criteria, PackageValues
from procure.sweep import trial
from procure.tables import write
from procure.workload import generate

QUOTES = quote_table(name=["A", "G"], category=["compute", "gpu"], price_usd=[100.0, 300.0])


def make_case(wait: list[float], left_out: list[int] | None = None, price: list[float] | None = None) -> WorkloadWaits:
    n = len(wait)
    table = pd.DataFrame({"package_id": [f"p{i}" for i in range(n)], "A": range(n), "G": 1})
    table["price_usd"] = price or [100.0] * n
    table["total_cpus"], table["total_mem_gb"], table["total_gpus"] = 8, 64.0, 2
    return WorkloadWaits("day", table, np.array(left_out or [0] * n), np.array(wait, dtype=float), 10)


def guessed(case: WorkloadWaits, guess) -> PackageValues:
    """What is known of one workload's packages: simulated waits, and a model's guesses."""
    values = PackageValues([case], {"mean_wait_time": case.wait[None, :]})
    errors = ConformalErrors(np.zeros(3), np.array([0.5, 1.0, 2.0]))
    model = Predicted(np.array(guess, dtype=float), Surrogate(), pd.DataFrame(), 3.0, 9.0, errors)
    assert values.learn(MEAN_WAIT, lambda case: (model, model.wait))
    return values


def confirmed(case: WorkloadWaits, guess: list[float], k: int, simulate=None):
    """Rank one workload's packages by waits, simulated or guessed, and confirm the first k."""
    values = guessed(case, guess)
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
    assert types[["servers", "packages"]].to_numpy().tolist() == [[6, 2], [1, 1]]
    spent = budget_by_category(table, QUOTES).set_index("category")
    assert spent["price_usd"].to_dict() == {"compute": 300.0, "gpu": 150.0}
    assert spent["share"].tolist() == pytest.approx([2 / 3, 1 / 3])
    assert counts_of(table, QUOTES) == [{"A": 2, "G": 1}, {"A": 4}]
    # A discount is shared among the categories by their list prices.
    spent = budget_by_category(table.head(1).assign(price_usd=250.0), QUOTES)
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


@pytest.mark.parametrize(
    ("function", "argument", "given"),
    [
        ("recommend", "k", {"k": 0}),
        ("recommend", "rule", {"rule": "best"}),
        ("recommend", "objective", {"objective": "p59-wait"}),
        ("recommend", "constraints", {"constraints": ["mean_wait<=1h", "mean_wait>=2h"]}),
        ("recommend", "pareto", {"pareto": "wait"}),
        ("recommend", "rule", {"pareto": "wait,cost", "rule": "published"}),
        ("recommend", "policy", {"policy": "fcfs"}),
        ("recommend", "workload", {"workload": "night"}),
        ("recommend", "resamples", {"resamples": -1}),
        ("report", "policy", {"policy": "bestfit"}),
        ("evaluate", "feature_set", {"feature_set": "total"}),
        ("evaluate", "rule", {"rule": "best"}),
        ("train", "feature_set", {"feature_set": "total"}),
        ("what_if", "growth", {"growth": -1.0}),
        ("what_if", "growth", {"growth": 2000.0}),
        ("what_if", "gpu_share", {"gpu_share": "2"}),
        ("what_if", "growth", {}),
        ("what_if", "package", {"package": "X=1", "growth": 2.0}),
    ],
)
def test_a_wrong_argument_names_itself(swept, function, argument, given):
    if function == "what_if":
        given = {"package": procure.load_plan(procure.load_study(swept)).packages["package_id"].iloc[0]} | given
    with pytest.raises(ArgumentError) as raised:
        getattr(procure, function)(swept, **given)
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


SPARSE = """name = "{name}"
quotes = "quotes.csv"
[packages]
rules = "published"
budget_usd = 60_000
{rules}
[[workloads]]
name = "day"
{jobs}
[sweep]
sample = {sample}
[recommend]
k = 3
"""
DAY = "generate = { seed = 3, n_jobs = 200 }"


def sparse_study(folder: Path, sample: int, jobs: str = DAY, rules: str = "") -> Path:
    return offered(folder, SPARSE.format(name="s", sample=sample, jobs=jobs, rules=rules))


def told(*arguments: object) -> tuple[list[dict[str, object]], str]:
    done = run(*arguments, "--format", "json")
    return json.loads(done.stdout), done.stderr


def all_four(path: Path) -> tuple[list[dict[str, object]], str]:
    """Run every command that reads a swept study; give what recommend prints."""
    run("train", path)
    rows, _ = told("evaluate", path)
    assert {"random", "cheapest-per-cpu"} <= {row["model"] for row in rows}
    run("report", path)
    return told("recommend", path)


FEW = "fixed_cost_usd = 22_000\ntypes = { Small = { max_count = 0 } }"


@pytest.mark.slow
def test_a_handful_of_packages_all_simulated_need_no_model(tmp_path):
    """Every package is simulated, fewer than ten of them: all four commands work, by simulated waits."""
    path = sparse_study(tmp_path, 1, rules=FEW)
    rows, err = all_four(path)
    assert all(row["simulated"] for row in rows)
    assert "needs no model" in err and "all are simulated" in err and "--method model" not in err
    text = (tmp_path / "results/s/report.html").read_text()
    assert "There is no model here: " in text and "so there is none" in text


@pytest.mark.slow
def test_too_few_to_learn_from_are_simulated_instead(tmp_path):
    """One package in nine was swept: the others are simulated, and the list equals the exhaustive one."""
    path = sparse_study(tmp_path, 9)
    rows, _ = all_four(path)
    assert all(row["simulated"] for row in rows)
    whole, _ = told("recommend", sparse_study(tmp_path / "all", 1))
    assert [r["package_id"] for r in rows] == [r["package_id"] for r in whole]
    assert "sweep.sample" in str(run("recommend", path, "--no-verify", code=1).exception)


@pytest.mark.slow
def test_where_no_package_runs_every_job_all_are_ranked_and_it_is_said(tmp_path):
    """One job asks for more memory than any server has: fewest jobs left out first, and the job is named."""
    jobs = generate(3, 200)
    jobs.loc[0, "mem_mb_per_node"] = 5_000_000
    write(jobs, tmp_path / "jobs.parquet")
    path = sparse_study(tmp_path, 2, jobs='jobs = "jobs.parquet"')
    rows, err = all_four(path)
    assert "no package runs every job; every package leaves out 1 of 200" in err
    assert "5,000.0 GB" in err
    order = [(row["jobs_left_out"], row["mean_wait_time"], row["price_usd"]) for row in rows]
    assert order == sorted(order) and order[0][0] >= 1
    page = (tmp_path / "results/s/report.html").read_text()
    assert "No package runs every job" in page and ">nan<" not in page.lower()


@pytest.mark.slow
def test_a_failed_confirming_run_stays_predicted_and_is_counted(tmp_path, monkeypatch):
    """The run of the favourite fails: no abort, the package is marked, the reason is told."""
    path = sparse_study(tmp_path, 2)
    true_run, broken = trial.simulate_rows, {}

    def break_first(bench, ids, counts):
        made, seconds = true_run(bench, ids, counts)
        if ids[0] != broken.setdefault("id", ids[0]):
            return made, seconds
        rows = made.to_pandas()
        rows.loc[rows.index[0], ["status", "reason", "mean_wait_time"]] = ["failed", "out of luck", np.nan]
        return pa.Table.from_pandas(rows, made.schema, preserve_index=False), seconds

    monkeypatch.setattr(trial, "simulate_rows", break_first)
    rows, err = told("recommend", path, "-k", "500")
    assert sum(not row["simulated"] for row in rows) >= 1
    assert "1 confirming run failed" in err and "out of luck" in err
    assert "they could not be confirmed" in err and "--no-verify" not in err
