"""Buying as of a day in the past: what each rule may know, and how its choice is judged."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from example_folder import study_of_weeks
from test_futures import CHICAGO, DAY, log

from procure.errors import ArgumentError
from procure.recommender import forward as rules
from procure.recommender.forward import RULES, forward
from procure.tables import write
from procure.workload.clock import day_bounds

CUT = "2021-03-29"  # four weeks after the log begins
AT = day_bounds(CUT, CHICAGO)[0]
KEYS = ["cut", "rule", "package_id", "mean_wait_time", "best_package_id", "best_mean_wait_time", "ratio", "n_runs"]


@pytest.fixture
def study(tmp_path):
    return study_of_weeks(tmp_path)


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
    path = study.parent / "weeks.parquet"
    jobs = pd.read_parquet(path)
    later = jobs["submit_time"] >= AT
    write(jobs.assign(run_time=jobs["run_time"].where(~later, 20_000 - jobs["run_time"])), path)
    after = forward(study, [CUT], n_packages=30).table
    assert before["package_id"].tolist() == after["package_id"].tolist()
    assert before["mean_wait_time"].tolist() != after["mean_wait_time"].tolist()


@pytest.mark.slow
def test_without_cuts_every_first_of_a_month_with_enough_on_both_sides_counts(study):
    """The log ends on April 11: too early for a cut on April 1. A week more, and there is one."""
    with pytest.raises(ArgumentError, match="no first of a month"):
        forward(study)
    write(log(weeks=7, n=300).assign(n_nodes=1), study.parent / "weeks.parquet")
    assert forward(study, n_packages=5).table["cut"].unique().tolist() == ["2021-04-01"]


@pytest.mark.parametrize("cut", ["2021-03-10", "2022-01-01", "soon"])
def test_a_cut_outside_the_log_is_refused(study, cut):
    with pytest.raises(ArgumentError) as error:
        forward(study, [cut])
    assert error.value.argument == "cut"
    assert ("three weeks" in str(error.value)) != (cut == "soon")


@pytest.mark.parametrize("more", [["--cut", CUT], ["--forward", "--truth", "t"], ["--forward", "--rule", "published"]])
def test_options_that_do_not_go_together_are_refused(study, procure, more):
    code, _, err = procure("evaluate", str(study), *more)
    assert code == 2 and more[-2] in err and ("does not use it" if "--forward" in more else "belongs to") in err


@pytest.mark.parametrize(("waits", "expected"), [([30.0, 60.0, 240.0, 960.0], 64**0.25), ([1.0, 59.0, 0.0, 20.0], 1)])
def test_what_a_random_choice_would_give_is_the_geometric_mean_of_all_ratios(waits, expected):
    """Waits up to a minute are level; where all are, every choice is as good."""
    came = pd.DataFrame({"mean_wait_time": waits, "saturated": False})
    bench = SimpleNamespace(judge=lambda jobs, warm_up: came, ids=np.array(list("abcd")))
    jobs = pd.DataFrame({"submit_time": np.arange(3) * DAY})
    table = rules._judge(CUT, {"past": (np.array([3.0, 2, 1, 4]), 4)}, bench, jobs, DAY).set_index("rule")
    assert table.loc["random", "ratio"] == pytest.approx(expected)
