"""Buying as of a day in the past: what each rule may know, and how its choice is judged."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from small_study import QUOTES
from test_futures import CHICAGO, DAY, WEEK, log

from procure.errors import ArgumentError
from procure.recommender import forward as rules
from procure.recommender.forward import RULES, forward
from procure.tables import write
from procure.workload.clock import day_bounds

CUT = "2021-03-29"  # four weeks after the log begins
AT = day_bounds(CUT, CHICAGO)[0]
KEYS = [
    "cut",
    "rule",
    "package_id",
    "mean_wait_time",
    "best_package_id",
    "best_mean_wait_time",
    "ratio",
    "n_runs",
]


@pytest.fixture
def study(tmp_path):
    jobs = log(weeks=6, n=500).assign(n_nodes=1)
    write(jobs, tmp_path / "jobs.parquet")
    pd.DataFrame({"node_id": ["old"], "cpus": [8], "mem_mb": [64_000], "gpus": [0]}).to_csv(
        tmp_path / "nodes.csv", index=False
    )
    path = tmp_path / "study.toml"
    path.write_text(
        f'quotes = "{QUOTES}"\n[packages]\nrules = "published"\nbudget_usd = 60_000\nexisting_nodes = "nodes.csv"\n'
        f'[[workloads]]\nname = "log"\njobs = "jobs.parquet"\ntz = "{CHICAGO}"\nwarm_up = "1d"\n'
        f'[futures]\ndraws = 4\nlength = "14d"\ntz = "{CHICAGO}"\n'
    )
    return path


def test_each_rule_chooses_and_is_judged_against_hindsight(study):
    """Every rule has a row; its ratio is its wait over the least of all, both at least a minute."""
    table = forward(study, [CUT], n_packages=40).table
    assert table["rule"].tolist() == list(RULES) and (table["cut"] == CUT).all()
    assert list(table.columns[:8]) == KEYS
    assert (table["ratio"] >= 1).all() and (table["n_judged"] == 40).all()
    real = table[table["rule"] != "random"]
    expected = real["mean_wait_time"].clip(lower=60) / real["best_mean_wait_time"].clip(lower=60)
    assert real["ratio"].to_numpy() == pytest.approx(expected.to_numpy())
    by_rule = table.set_index("rule")
    assert by_rule.loc["hindsight", "ratio"] == 1 and by_rule["n_runs"].tolist()[2:] == [0, 0, 0]
    assert by_rule.loc["past", "n_runs"] == 40 and by_rule.loc["mean-day", "n_runs"] % 40 == 0


@pytest.mark.slow
def test_no_rule_sees_what_comes_after_the_cut(study):
    """With other run times after the cut the choices are the same, and only the judgement differs."""
    before = forward(study, [CUT], n_packages=30).table
    path = study.parent / "jobs.parquet"
    jobs = pd.read_parquet(path)
    later = jobs["submit_time"] >= AT
    write(jobs.assign(run_time=jobs["run_time"].where(~later, 20_000 - jobs["run_time"])), path)
    after = forward(study, [CUT], n_packages=30).table
    assert before["package_id"].tolist() == after["package_id"].tolist()
    assert before["mean_wait_time"].tolist() != after["mean_wait_time"].tolist()


@pytest.mark.slow
def test_what_is_judged_is_what_was_submitted_within_the_horizon(study, monkeypatch):
    """The judge replays from a warm-up before the cut to the end of the horizon."""
    seen = {}
    judge = rules._judge

    def spy(day, chosen, bench, jobs, warm_up):
        seen[day] = jobs["submit_time"]
        return judge(day, chosen, bench, jobs, warm_up)

    monkeypatch.setattr(rules, "_judge", spy)
    forward(study, [CUT], horizon=WEEK, n_packages=5)
    assert seen[CUT].min() >= AT - DAY and AT + WEEK - DAY < seen[CUT].max() < AT + WEEK


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows(study):
    one, other = (forward(study, [CUT], n_packages=12, seed=3).table for _ in range(2))
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.slow
def test_without_cuts_every_first_of_a_month_with_enough_on_both_sides_counts(study):
    """The log ends on April 11: too early for a cut on April 1. A week more, and there is one."""
    with pytest.raises(ArgumentError, match="no first of a month"):
        forward(study)
    write(log(weeks=7, n=300).assign(n_nodes=1), study.parent / "jobs.parquet")
    assert forward(study, n_packages=5).table["cut"].unique().tolist() == ["2021-04-01"]


@pytest.mark.parametrize("cut", ["2021-03-10", "2022-01-01", "soon"])
def test_a_cut_outside_the_log_is_refused(study, cut):
    with pytest.raises(ArgumentError) as error:
        forward(study, [cut])
    assert error.value.argument == "cut"
    assert ("three weeks" in str(error.value)) != (cut == "soon")


@pytest.mark.slow
def test_the_command_prints_the_rows_that_scripts_rely_on(study, procure):
    arguments = ["evaluate", str(study), "--forward", "--cut", "2021-04-05"]
    code, out, err = procure(*arguments, "--format", "json")
    assert code == 0, err
    rows = json.loads(out)
    assert [row["rule"] for row in rows] == list(RULES)
    assert all(set(KEYS) <= set(row) for row in rows)
    code, out, err = procure(*arguments)
    assert code == 0 and "hindsight" in out and "rank correlation" in err


@pytest.mark.parametrize("more", [["--cut", CUT]])
def test_options_of_the_backtest_need_it(study, procure, more):
    code, _, err = procure("evaluate", str(study), *more)
    assert code == 2 and "belongs to --forward" in err


@pytest.mark.parametrize("more", [["--truth", "t.toml"], ["--rule", "published"]])
def test_what_the_backtest_does_not_use_is_refused(study, procure, more):
    code, _, err = procure("evaluate", str(study), "--forward", *more)
    assert code == 2 and more[0] in err and "does not use it" in err


@pytest.mark.parametrize(("waits", "expected"), [([30.0, 60.0, 240.0, 960.0], 64**0.25), ([1.0, 59.0, 0.0, 20.0], 1)])
def test_what_a_random_choice_would_give_is_the_geometric_mean_of_all_ratios(waits, expected):
    """Waits up to a minute are level; where all are, every choice is as good."""
    came = pd.DataFrame({"mean_wait_time": waits, "saturated": False})
    bench = SimpleNamespace(judge=lambda jobs, warm_up: came, ids=np.array(list("abcd")))
    jobs = pd.DataFrame({"submit_time": np.arange(3) * DAY})
    table = rules._judge(CUT, {"past": (np.array([3.0, 2, 1, 4]), 4)}, bench, jobs, DAY).set_index("rule")
    assert table.loc["random", "ratio"] == pytest.approx(expected)


@pytest.mark.parametrize("option", ["--runs", "--earlier-cuts", "--plot"])
def test_options_that_went_say_what_to_do(study, procure, option):
    code, _, err = procure("evaluate", str(study), "--forward", option, "5")
    assert code == 2 and option in err and "removed" in err
