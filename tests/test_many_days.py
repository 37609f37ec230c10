"""Hits and regret by hand, of a day and over days; models of all days that see nothing of their fold; the commands."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from example_folder import study_of_weeks
from small_study import swept
from test_futures import CHICAGO, log

from procure.errors import ArgumentError
from procure.evaluation import many_days
from procure.evaluation.many_days import Days, day_hits, days_of, hit_days, normalised_wait, predict_all_days
from procure.evaluation.ranking import at_k, evaluate, evaluate_case, find_hits, random_at_k
from procure.models import WorkloadWaits, pool_workloads
from procure.models.surrogate import fold_of
from procure.recommender.forward import RULES, forward
from procure.tables import write
from procure.workload.clock import day_bounds

NAN = np.nan


def days(wait, able=None, weight=None, n_jobs=None):
    wait = np.asarray(wait, dtype="float64")
    able = np.ones(wait.shape, bool) if able is None else np.asarray(able, dtype=bool)
    weight = np.ones(len(wait)) if weight is None else np.asarray(weight, dtype="float64")
    n_jobs = np.full(wait.shape, 10.0) if n_jobs is None else np.asarray(n_jobs, dtype="float64")
    return Days(tuple(f"d{i}" for i in range(len(wait))), wait, able, weight, n_jobs)


def packages(n):
    return pd.DataFrame({"package_id": [f"p{i}" for i in range(n)], "price_usd": np.arange(n) + 1.0, "total_cpus": 10})


def test_hits_of_a_day_by_hand():
    """The best fifth of ten is two; ties at the edge count; only able packages can be; fewer are all hits.

    Over days a package without one day's wait is not judged, and does not take a place from the others.
    """
    wait = np.array([[5.0, 1, 2, 2, 9, 9, 9, 9, 9, 9]] * 3)
    able = np.array([[True] * 10, [True, False] + [True] * 8, [False] * 4 + [True] + [False] * 5])
    hits = day_hits(wait, able, 0.2)
    assert [np.flatnonzero(row).tolist() for row in hits] == [[1, 2, 3], [2, 3], [4]]
    assert not day_hits(wait, able, 0.05).any()
    assert hit_days(days([[1, 2, NAN, 4], [3, 1, 0, 4]]), 0.4).tolist() == [1, 1, -1, 0]


def test_normalised_waits_by_hand():
    """Each day from its least to its most, jobs left out count as 1, days by weight, equal waits as 0."""
    held = days([[10, 20, 30], [5, 1, 9]], able=[[1, 1, 1], [1, 1, 0]], weight=[1, 3])
    assert normalised_wait(held).tolist() == pytest.approx([(0 + 3 * 1) / 4, 0.5 / 4, (1 + 3) / 4])
    assert normalised_wait(days([[7, 7, 7]])).tolist() == [0, 0, 0]
    beyond = normalised_wait(days([[10, 20, 30, 0]]), np.array([True, True, False, False]))
    assert beyond.tolist() == [0, 1, 2, 0]
    assert np.isnan(normalised_wait(days([[1, NAN], [1, 2]]))[1])


def test_a_hit_threshold_table_by_hand():
    """Of five packages two are hits on more than one day; the score's first two hold one of them."""
    counted = np.array([2, 0, 3, 1, -1])
    table = many_days.threshold_table(
        {("composition", "m"): np.array([1.0, 2, 4, NAN, 0])}, counted, packages(5), [1], (2, 4, 9)
    )
    mine = table[table["model"] == "m"].set_index("k")
    assert mine["n_hits"].tolist() == [2, 2]
    assert mine["n_ranked"].tolist() == [4, 4]
    assert mine.loc[2, ["precision", "recall", "f1"]].tolist() == [0.5, 0.5, 0.5]
    assert mine.loc[4, ["precision", "recall", "f1"]].tolist() == pytest.approx([0.5, 1, 2 / 3])
    chance = table[table["model"] == "random"].set_index("k")
    assert chance.loc[2, ["precision", "recall"]].tolist() == [0.5, 0.5]


@pytest.fixture(scope="module")
def known():
    """Sixty packages of two features on three days; the wait falls with the first."""
    rng = np.random.default_rng(1)
    x = rng.random((60, 2))
    wait = 1_000 * (1.2 - x[:, 0]) * rng.uniform(0.9, 1.1, (3, 60)) + 50
    return x, wait


@pytest.mark.parametrize("learns", ["normalised", "hit-days"])
def test_nothing_of_a_fold_reaches_its_own_predictions(known, learns):
    """The best package becomes the worst on every day: the predictions of its fold stay as they were."""
    x, wait = known
    row = int(wait.sum(axis=0).argmin())
    fold = fold_of(60, 3, 1)
    other = wait.copy()
    other[:, row] = 1e6
    before, after = (predict_all_days(days(w), x, learns, 0.1, folds=3) for w in (wait, other))
    mine = fold == fold[row]
    assert before[mine].tolist() == after[mine].tolist()
    assert before[~mine].tolist() != after[~mine].tolist()


def test_robust_choices_by_hand():
    """The mean takes the first, the worst day the second, and the one that leaves jobs out is not chosen."""
    held = days([[100, 400, 1], [1_000, 500, 1]], n_jobs=[[10, 10, 9], [1, 1, 1]])
    found = many_days.robust_choices(held, packages(3), np.array([1, 1, 0])).set_index("choice")
    assert found["package_id"].to_dict() == {"mean": "p0", "worst": "p1", "cvar": "p1", "regret-max": "p0"}
    assert found.loc["mean", "mean"] == pytest.approx((10 * 100 + 1_000) / 11)
    assert found.loc["regret-max", "regret_max"] == 1.0
    assert found.loc["regret-max", "regret_day"] == "d1"
    assert many_days.robust_choices(days([[NAN, NAN]]), packages(2), np.array([-1, -1])).empty


def case(name, wait, left_out, n_jobs, weight):
    return WorkloadWaits(name, packages(2), np.array(left_out), np.array(wait), n_jobs, weight=weight)


def test_workloads_are_taken_together_by_weight():
    """A day of weight 3 counts like three such days; by the published rule all packages can be hits."""
    cases = [case("a", [10.0, 20.0], [0, 2], 10, 3.0), case("b", [50.0, 60.0], [0, 0], 30, 1.0)]
    thrice = pool_workloads([replace(cases[0], weight=1.0)] * 3 + cases[1:])
    assert pool_workloads(cases).wait.tolist() == pytest.approx(thrice.wait.tolist())
    assert pool_workloads(cases).wait[0] == pytest.approx((3 * 10 * 10 + 30 * 50) / 60)
    held = days_of(cases)
    assert held.able.tolist() == [[True, False], [True, True]]
    assert held.weight.tolist() == [3, 1]
    assert days_of(cases, "published").able.all()


@pytest.mark.slow
def test_evaluate_judges_the_days_together(procure):
    """One JSON document; what was learnt is kept and taken up again."""
    study = swept(2)
    code, out, err = procure("evaluate", study, "--hit-threshold", "1", "--format", "json")
    document = json.loads(out)
    assert code == 0, err
    assert {row["threshold"] for row in document["hits"]} == {1}
    assert {row["model"] for row in document["hits"]} >= {"normalised", "hit-days", "day day-1", "random"}
    assert [row["choice"] for row in document["choices"]] == ["mean", "worst", "cvar", "regret-max"]
    kept = sorted((study.parent / "results/small/models").glob("all-days.*.zip"))
    times = [path.stat().st_mtime_ns for path in kept]
    code, out, err = procure("evaluate", study, "--hit-threshold", "0", "--hit-threshold", "2", "--format", "csv")
    assert (code, {line.split(",")[0] for line in out.splitlines()[1:]}) == (0, {"0", "2"})
    assert "so there are no hits at > 2" in err
    assert kept
    assert [path.stat().st_mtime_ns for path in kept] == times


def test_hits_are_the_floor_of_the_share_and_ties_are_hits():
    """⌊5 % of 20⌋ is exactly 1, and a package tied with the last hit is one too."""
    wait = np.arange(20.0)
    assert find_hits(wait, 0.05).n_hits == 1
    assert find_hits(np.arange(39.0), 0.05).n_hits == 1
    assert find_hits(np.arange(40.0), 0.05).n_hits == 2
    wait[1] = 0
    assert (find_hits(wait, 0.05).n_hits, find_hits(wait, 0.05).n_real) == (1, 2)


def test_figures_by_hand():
    """Ten packages, two hits by share 0.2, one of them among the first three; a best wait of 10 s counts as 60 s."""
    wait = np.array([100.0, 110, 200, 300, 400, 500, 600, 700, 800, 900])
    predicted = np.array([50.0, 900, 20, 10, 60, 70, 80, 90, 95, 99])
    table = evaluate(predicted, wait, np.ones(10), ks=(3,), hit_share=0.2, workload="w").set_index("k")
    assert table.loc[3, ["precision", "recall", "f1"]].tolist() == pytest.approx([1 / 3, 1 / 2, 2 / 5])
    assert table.loc[3, ["regret_seconds", "regret_share"]].tolist() == [0, 0]
    assert table.loc[2, ["regret_seconds", "regret_share"]].tolist() == pytest.approx([100, 1.0])
    assert list(table.index) == [2, 3]
    assert table["workload"].tolist() == ["w", "w"]
    short = at_k(np.array([1]), np.array([10.0, 40.0]), find_hits(np.array([10.0, 40.0]), 0.5), 1)
    assert (short["regret_seconds"], short["regret_share"]) == (30, 0.5)


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
