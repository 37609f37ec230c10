"""Recommending where little or everything is simulated, where runs fail, and what the user is told of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from small_study import offered, run

from procure.recommender.notes import about_results
from procure.sweep import trial
from procure.sweep.results import StudyResults, load_results
from procure.tables import write
from procure.workload import generate

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


def make_study(folder: Path, sample: int, jobs: str = DAY, rules: str = "") -> Path:
    return offered(folder, STUDY.format(name="s", sample=sample, jobs=jobs, rules=rules))


def ask(*arguments: object) -> tuple[list[dict[str, object]], str]:
    done = run(*arguments, "--format", "json")
    return json.loads(done.stdout), done.stderr


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
    whole, _ = ask("recommend", make_study(tmp_path / "all", 1))
    assert [r["package_id"] for r in rows] == [r["package_id"] for r in whole]
    assert "sweep.sample" in str(run("recommend", path, "--no-verify", code=1).exception)


@pytest.mark.slow
def test_where_no_package_runs_every_job_all_are_ranked_and_it_is_said(tmp_path):
    """One job asks for more memory than any server has: fewest jobs left out first, and the job is named."""
    jobs = generate(3, 200)
    jobs.loc[0, "mem_mb_per_node"] = 5_000_000
    write(jobs, tmp_path / "jobs.parquet")
    path = make_study(tmp_path, 2, jobs='jobs = "jobs.parquet"')
    rows, err = all_four(path)
    assert "no package runs every job; every package leaves out 1 of 200" in err
    assert "5,000.0 GB" in err
    order = [(row["jobs_left_out"], row["mean_wait_time"], row["price_usd"]) for row in rows]
    assert order == sorted(order) and order[0][0] >= 1
    assert "No package runs every job" in (tmp_path / "results/s/report.html").read_text()


@pytest.mark.slow
def test_a_failed_confirming_run_stays_predicted_and_is_counted(tmp_path, monkeypatch):
    """The run of the favourite fails: no abort, the package is marked, the reason is told."""
    path = make_study(tmp_path, 2)
    true_run, broken = trial.simulate_rows, {}

    def break_first(bench, ids, counts):
        made, seconds = true_run(bench, ids, counts)
        if ids[0] != broken.setdefault("id", ids[0]):
            return made, seconds
        rows = made.to_pandas()
        rows.loc[rows.index[0], ["status", "reason", "mean_wait_time"]] = ["failed", "out of luck", np.nan]
        return pa.Table.from_pandas(rows, made.schema, preserve_index=False), seconds

    monkeypatch.setattr(trial, "simulate_rows", break_first)
    rows, err = ask("recommend", path, "-k", "500")
    assert sum(not row["simulated"] for row in rows) >= 1
    assert "1 confirming run failed" in err and "out of luck" in err
    assert "they could not be confirmed" in err and "--no-verify" not in err


def test_failed_runs_of_the_sweep_are_counted_with_a_reason(tmp_path):
    """The count comes from the folder, the reason from the first failed row."""
    loaded = load_results(make_study(tmp_path, 4))
    rows = loaded.results.copy()
    rows.loc[0, ["status", "reason"]] = ["failed", "out of luck"]
    counts = {"n_missing": 0, "n_runs_planned": 9, "n_failed": 1, "n_beyond_plan": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("procure.recommender.notes.verify", lambda plan: (counts, []))
        (line,) = about_results(StudyResults(loaded.plan, loaded.policy, rows, loaded.cases))
    assert line.startswith("1 run of the sweep failed") and line.endswith(": out of luck")
