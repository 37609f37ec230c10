"""Recommending where little or everything is simulated, where runs fail, and what the user is told of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.models import Case, Surrogate
from procure.recommender import learning
from procure.recommender.confirm import confirm_list
from procure.recommender.criteria import Criteria
from procure.recommender.notes import about_results
from procure.recommender.rank import rank, ranking_table
from procure.recommender.values import PackageValues
from procure.sweep import trial
from procure.sweep.results import StudyResults, load_results
from procure.tables import write
from procure.workload import generate

OFFERS = """name,category,cpus,mem_gb,gpus,price_usd,spec_rate
Small,compute,8,32,0,5000,10
Mid,compute,24,128,0,9000,
Big,bigmem,16,512,0,9000,12
Gpu,gpu,16,64.5,4,15000,12
Gpu2,gpu,64,900,4,25000,12
"""
STUDY = """name = "{name}"
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


def make_study(folder: Path, sample: int, jobs: str = DAY, rules: str = "", sweep: bool = True) -> Path:
    (folder / "quotes.csv").write_text(OFFERS)
    path = folder / "study.toml"
    path.write_text(STUDY.format(name="s", sample=sample, jobs=jobs, rules=rules))
    if sweep:
        run("sweep", path, "--farm", "serial")
    return path


def run(*arguments: object, code: int = 0) -> tuple[str, str]:
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout, done.stderr


def ask(*arguments: object) -> tuple[list[dict[str, object]], str]:
    out, err = run(*arguments, "--format", "json")
    return json.loads(out), err


def all_four(path: Path) -> tuple[list[dict[str, object]], str]:
    """Run every command that reads a swept study; give what recommend prints."""
    run("train", path)
    rows, _ = ask("evaluate", path)
    assert {"random", "cheapest-per-cpu"} <= {row["model"] for row in rows}
    run("report", path)
    return ask("recommend", path)


FEW = "fixed_cost_usd = 22_000\ntypes = { Small = { max_count = 0 } }"


@pytest.mark.slow
def test_a_handful_of_packages_all_simulated_need_no_model(tmp_path):
    """Every package is simulated, fewer than ten of them: all four commands work, by simulated waits."""
    path = make_study(tmp_path, 1, rules=FEW)
    rows, err = all_four(path)
    assert all(row["simulated"] for row in rows)
    assert "needs no model" in err and "all are simulated" in err and "--method model" not in err
    text = (tmp_path / "results/s/report.html").read_text()
    assert "There is no model here: " in text and "so there is none" in text


@pytest.mark.slow
def test_too_few_to_learn_from_are_simulated_instead(tmp_path):
    """One package in nine was swept: the others are simulated, and the list equals the exhaustive one."""
    path = make_study(tmp_path, 9)
    rows, _ = all_four(path)
    assert all(row["simulated"] for row in rows)
    (tmp_path / "all").mkdir()
    whole, _ = ask("recommend", make_study(tmp_path / "all", 1))
    assert [r["package_id"] for r in rows] == [r["package_id"] for r in whole]
    done = CliRunner().invoke(app, ["recommend", str(path), "--no-verify"])
    assert isinstance(done.exception, TableError) and "sweep.sample" in str(done.exception)


@pytest.mark.slow
def test_where_no_package_runs_every_job_all_are_ranked_and_it_is_said(tmp_path):
    """One job asks for more memory than any server has: fewest jobs left out first, and the job is named."""
    jobs = generate(3, 200)
    jobs.loc[0, "mem_mb_per_node"] = 5_000_000
    write(jobs, tmp_path / "jobs.parquet")
    path = make_study(tmp_path, 2, jobs='jobs = "jobs.parquet"')
    rows, err = all_four(path)
    assert "no package runs every job; every package leaves out 1 of 200 jobs" in err
    assert "5,000.0 GB" in err
    order = [(row["jobs_left_out"], row["mean_wait_time"], row["price_usd"]) for row in rows]
    assert order == sorted(order) and order[0][0] >= 1
    assert "No package runs every job" in (tmp_path / "results/s/report.html").read_text()


@pytest.mark.slow
def test_a_failed_confirming_run_stays_predicted_and_is_counted(tmp_path, monkeypatch):
    """The run of the favourite fails: no abort, the package is marked, the reason is told."""
    path = make_study(tmp_path, 2)
    true_run = trial.simulate_batch

    def break_first(bench, ids, counts):
        rows, seconds = true_run(bench, ids, counts)
        rows.loc[rows.index[0], ["status", "reason", "mean_wait_time"]] = ["failed", "out of luck", np.nan]
        return rows, seconds

    monkeypatch.setattr(trial, "simulate_batch", break_first)
    rows, err = ask("recommend", path, "-k", "500")
    assert sum(not row["simulated"] for row in rows) >= 1
    assert "1 confirming run failed" in err and "out of luck" in err
    assert "they could not be confirmed" in err and "--no-verify" not in err


def test_a_failed_run_is_tried_once_and_falls_to_the_end_without_a_prediction():
    """No prediction, no run: its wait is unknown and stands last."""
    table = pd.DataFrame({"package_id": ["a", "b"], "price_usd": 1.0})
    case = Case("day", table, np.array([0, 0]), np.array([np.nan, 5.0]), 9)
    asked: list[list[int]] = []

    def simulate(rows: np.ndarray) -> dict[str, np.ndarray]:
        asked.append(rows.tolist())
        return {"mean_wait_time": np.full((1, len(rows)), np.nan)}

    values = PackageValues([case], {"mean_wait_time": case.wait[None, :]}, simulate=simulate)
    confirm_list(values, Criteria(), 2)
    assert asked == [[0]]
    assert ranking_table(values, Criteria())["package_id"].tolist() == ["b", "a"]
    assert (values.failed.tolist(), values.now.any()) == ([True, False], False)


def test_the_published_rule_ranks_by_the_jobs_that_ran():
    """A package that leaves jobs out leads by a shorter wait; by default it does not."""
    table = pd.DataFrame({"package_id": ["a", "b"], "price_usd": 1.0})
    case = Case("day", table, np.array([0, 3]), np.array([9.0, 5.0]), 9)
    values = PackageValues([case], {"mean_wait_time": case.wait[None, :]})
    assert rank(values, Criteria()).tolist() == [0, 1]
    assert rank(values, Criteria(), "published").tolist() == [1, 0]


@pytest.mark.slow
def test_evaluate_by_the_published_rule_ranks_all_simulated_packages(tmp_path):
    """The ranked set grows to what was simulated, and the figures equal those shown beside."""
    path = make_study(tmp_path, 1)
    ours, _ = ask("evaluate", path)
    rows, _ = ask("evaluate", path, "--rule", "published")
    assert rows[0]["n_ranked"] >= ours[0]["n_ranked"]
    assert all(row["precision"] == row["published_precision"] for row in rows)
    listed, err = ask("recommend", path, "--rule", "published", "-k", "9")
    waits = [row["mean_wait_time"] for row in listed]
    assert waits == sorted(waits) and "favours packages that leave jobs out" in err


def test_days_of_two_months_each_name_their_month():
    """An axis from March to April names the month of every day, not the last one for all."""
    from matplotlib.figure import Figure

    from procure.reports import charts

    axes = Figure().subplots()
    first = 1_709_800_000  # 7 March 2024
    axes.plot(charts._dates(axes, first + 86_400 * np.arange(26), None), np.arange(26))
    axes.figure.canvas.draw()
    said = [label.get_text() for label in axes.get_xticklabels()]
    assert said[0] == "09 Mar" and said[-1] == "01 Apr" and all(one[-3:] in ("Mar", "Apr") for one in said)


def test_a_log_clock_is_drawn_in_hours():
    """A log that counts from its own start has no dates."""
    from procure.reports import charts

    jobs = pd.DataFrame({"submit_time": [5, 4000, 9000]})
    drawn = []
    original = charts.inline
    charts.inline = lambda made, *rest: drawn.append(made.axes[0]) or original(made, *rest)
    try:
        charts.jobs_over_time(jobs, "day", None, True)
        charts.jobs_over_time(jobs, "day", "US/Central")
    finally:
        charts.inline = original
    assert [axes.get_xlabel() for axes in drawn] == [
        "hours since the first submission",
        "submitted (US/Central)",
    ]
    assert drawn[0].get_xlim()[0] == 0


def test_failed_runs_of_the_sweep_are_counted_with_a_reason(tmp_path):
    """The count comes from the folder, the reason from the first failed row."""
    loaded = load_results(make_study(tmp_path, 4))
    rows = loaded.results.copy()
    rows.loc[0, ["status", "reason"]] = ["failed", "out of luck"]
    counts = {"n_missing": 0, "n_runs_planned": 9, "n_failed": 1, "n_beyond_plan": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("procure.recommender.notes.study_status", lambda plan: counts)
        (line,) = about_results(StudyResults(loaded.plan, loaded.policy, rows, loaded.cases))
    assert line.startswith("1 run of the sweep failed") and line.endswith(": out of luck")


def test_the_studys_model_predicts_what_leaves_jobs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the leaders need no model, packages that leave jobs out are still predicted by the study's `[model]`."""
    n = 60
    packages = pd.DataFrame({"package_id": [str(i) for i in range(n)]})
    wait = np.where(np.arange(n) < 50, 10.0, np.nan)
    case = SimpleNamespace(
        packages=packages, wait=wait, simulated=~np.isnan(wait), runs_all=np.arange(n) < 2,
        left_out=(np.arange(n) > 1) * 1, name="day", column="mean_wait_time",
    )  # fmt: skip
    model = SimpleNamespace(seed=7, feature_set="totals")
    plan = SimpleNamespace(study=SimpleNamespace(model=model), quotes=None)
    results = SimpleNamespace(plan=plan, kept=None, features=np.arange(2.0 * n).reshape(n, 2))
    monkeypatch.setattr(learning, "feature_inputs", lambda packages, quotes: [])
    used: list[tuple[str, int]] = []
    monkeypatch.setattr(learning, "Surrogate", lambda seed: used.append(seed) or Surrogate(seed))
    predicted, guess = learning.learner(results)(case)
    assert predicted is None and used == [7] and not np.isnan(guess[50:]).any()
