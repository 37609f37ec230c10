"""Learning on weeks without a break: the layout, the objective, the judgement."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from test_learn import log

from procure.learn.judge import LEARNED, UNTRAINED, evaluate_policy
from procure.learn.search import Settings, learn_policy, weekly_objective
from procure.learn.store import write_policy
from procure.learn.weeks import FIGURES, P95, REFERENCE, SLOWDOWN, WEEK, DayFilter, figures_of, lay_out
from procure.run import prepare, run_prepared
from procure.tables import write

pytestmark = pytest.mark.plain
RIVALS = ("easy", "easy:order=sjf,queue_order=sjf,place=best")
QUICK = Settings(generations=1, population=4, weeks=3, processes=1)


def weeks_of_log():
    """Three weeks of few jobs on a small system."""
    jobs, nodes = log(n_days=21, per_day=15)
    return jobs, nodes.iloc[:1]


@pytest.fixture(scope="module")
def trained():
    jobs, nodes = weeks_of_log()
    return learn_policy(jobs, nodes, DayFilter("2021-05-03..2021-05-16", min_jobs=10, min_wait=0), QUICK)


def test_a_week_counts_its_own_jobs_and_simulates_those_before():
    """Each week's jobs count once; of the week before they run and wait; nothing that comes later is known."""
    jobs, nodes = weeks_of_log()
    weeks = lay_out(jobs, nodes, DayFilter("2021-05-03..2021-05-30", min_jobs=1, min_wait=0))
    assert [week.name for week in weeks][:2] == ["2021-05-03", "2021-05-10"]
    submit = jobs["submit_time"].to_numpy()
    for week in weeks:
        begin = int(pd.Timestamp(week.name, tz="UTC").timestamp())
        assert week.ready.n_counted == ((submit >= begin) & (submit < begin + WEEK)).sum()
        assert len(week.prior) == ((submit >= begin - WEEK) & (submit < begin + WEEK)).sum()


def test_the_figures_by_hand():
    """Of the jobs that count: mean wait, bounded slowdown, 95th percentile, longest, the widest, the users' mean."""
    jobs = pd.DataFrame(
        {
            "job_id": list("abcd"),
            "submit_time": [0, 0, 100, 100],
            "requested_time": 100,
            "run_time": [100, 5, 100, 20],
            "n_nodes": 1,
            "cpus_per_node": [1, 1, 2, 1],
            "mem_mb_per_node": 1,
            "user": ["x", "x", "x", "y"],
        }
    )
    ready = prepare(jobs, pd.DataFrame({"node_id": ["n"], "cpus": [2], "mem_mb": [10], "gpus": [0]}))
    start, end = np.array([0, 50, 200, 120]), np.array([100, 55, 300, 140])
    found = figures_of(ready, start, end)
    waits = [0, 50, 100, 20]
    slowdowns = [1.0, 5.5, 2.0, 2.0]
    expected = [42.5, np.mean(slowdowns), np.quantile(waits, 0.95), 100.0, 100.0, (50.0 + 20.0) / 2]
    np.testing.assert_allclose(found, expected)
    assert np.isnan(figures_of(ready, start, end, np.zeros(4, bool))).all()


def test_the_objective_is_the_mean_log_ratio_and_what_the_guarded_waits_grow_by():
    """As good as the reference is 0; half the slowdown is log 1/2; a longer 95th percentile adds its log ratio."""
    reference = np.full((3, len(FIGURES)), 1000.0)
    better = reference.copy()
    better[:, SLOWDOWN] /= 2
    assert weekly_objective(reference, reference) == 0.0
    assert np.isclose(weekly_objective(better, reference), np.log(0.5))
    better[:, P95] *= 2
    assert np.isclose(weekly_objective(better, reference), np.log(0.5) + np.log(2060 / 1060))


def test_judged_beside_rivals_on_weeks_without_a_break(trained):
    """Every policy serves the same jobs; the figures are those of a run by name; ratios are to the learned policy."""
    jobs, nodes = weeks_of_log()
    found = evaluate_policy(trained, jobs, nodes, DayFilter("2021-05-10..2021-05-23"), rivals=RIVALS)
    table = found.policies.set_index("policy")
    assert list(table.index) == [*RIVALS, UNTRAINED, LEARNED, f"{REFERENCE}@oracle"]
    assert table.loc[LEARNED, "wait_ratio"] == 1.0 and (found.parts.groupby("policy")["n_jobs"].sum() == 210).all()
    part = jobs[jobs["submit_time"] >= int(pd.Timestamp("2021-05-03", tz="UTC").timestamp())]
    ready = prepare(part[part["submit_time"] < int(pd.Timestamp("2021-05-24", tz="UTC").timestamp())], nodes)
    run = run_prepared(ready, RIVALS[1])
    counts = ready.jobs.submit + int(part["submit_time"].min()) >= int(pd.Timestamp("2021-05-10", tz="UTC").timestamp())
    figures = figures_of(ready, run.start, run.end, counts)
    np.testing.assert_allclose(table.loc[RIVALS[1], list(FIGURES)].astype(float), figures)
    ratio = table.loc[LEARNED, "mean_wait"] / table.loc["easy", "mean_wait"]
    assert np.isclose(table.loc["easy", "wait_ratio"], ratio)


@pytest.mark.parametrize(("first", "seen"), [("2021-05-16", True), ("2021-05-17", False)])
def test_a_week_that_was_trained_on_in_part_is_warned_of(trained, first, seen):
    """The last week of the training, May 10 to 16, makes a judgement of May 16 unfair, and none of May 17."""
    jobs, nodes = weeks_of_log()
    notes = []
    evaluate_policy(trained, jobs, nodes, DayFilter(f"{first}..2021-05-23"), rivals=RIVALS[:1], note=notes.append)
    assert any("2021-05-10: not a fair judgement" in text for text in notes) == seen


@pytest.mark.parametrize("daily", [False, True])
def test_evaluate_as_scripts_rely_on_it(procure, trained, tmp_path, daily):
    """The JSON has a record per policy with the named figures; options of days are refused beside weeks."""
    jobs, nodes = weeks_of_log()
    write(jobs, tmp_path / "jobs.parquet")
    write(nodes, tmp_path / "nodes.csv")
    write_policy(tmp_path / "site.policy", trained)
    given = ("learn", "evaluate", tmp_path / "site.policy", "--jobs", tmp_path / "jobs.parquet", "--nodes")
    given = (*given, tmp_path / "nodes.csv", "--set", "days=2021-05-17..2021-05-23")
    of_days = ("--daily", "--set", "min_jobs=5", "--set", "min_wait=0") if daily else ()
    code, out, _ = procure(*given, *of_days, "--format", "json")
    record = json.loads(out)
    names = {"policy", "mean_wait", "bounded_slowdown", "p95_wait", "max_wait", "widest_wait", "utilization"}
    assert code == 0 and all(names <= set(row) for row in record["policies"])
    policies = {row["policy"] for row in record["policies"]}
    assert {"easy:place=best", "conservative:place=best", UNTRAINED, LEARNED} <= policies
    assert record["best_rival"] in policies and len(record["days" if daily else "weeks"]) >= len(policies)
    code, _, err = procure(*given, "--set", "min_jobs=5")
    assert code == 2 and "min_jobs" in err
