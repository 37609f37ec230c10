"""Learnt policies: the run times, the search, the file, the judgement, and the order in composed schedulers."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_learn import Twin
from policy_cases import few, job_table, pool_case, shared_case

from procure.errors import ArgumentError, TableError
from procure.learn.features import AGE, FEATURES, REQUESTED, RunTimes, expected_before, known_at
from procure.learn.judge import LEARNED, UNTRAINED, evaluate_policy, ratio_of_sums, utilization_between
from procure.learn.order import at_hand
from procure.learn.search import Settings, learn_policy, search, weekly_objective
from procure.learn.store import UNTRAINED as SHORTEST_FIRST
from procure.learn.store import TrainedPolicy, read_policy, write_policy
from procure.learn.weeks import FIGURES, P95, REFERENCE, SLOWDOWN, WEEK, DayFilter, Period, figures_of, lay_out
from procure.policies import catalog
from procure.policies.catalog import with_seams
from procure.policies.scheduler import Skipping
from procure.run import prepare, run_prepared, simulate
from procure.tables import write

pytestmark = pytest.mark.plain

DAY = 86_400


def log(n_days=6, per_day=60, seed=0):
    """Days on which a third of the jobs ask for a day and run a minute, and others ask for less and run it out."""
    rng = np.random.default_rng(seed)
    rows = []
    for day in range(n_days):
        for k in range(per_day):
            kind = int(rng.integers(0, 3))
            rows.append(
                {
                    "job_id": f"{day}-{k}",
                    "submit_time": 1_620_000_000 + day * DAY + int(rng.integers(0, 7200)),
                    "requested_time": (DAY, 7200, 3600)[kind],
                    "run_time": int((60, 7000, 3500)[kind] * rng.uniform(0.8, 1.0)),
                    "n_nodes": 1,
                    "cpus_per_node": (2, 1, 2)[kind],
                    "mem_mb_per_node": (100, 400, 200)[kind],
                }
            )
    nodes = pd.DataFrame({"node_id": ["a", "b"], "cpus": [4, 4], "mem_mb": [1000, 2000], "gpus": 0})
    return pd.DataFrame(rows).sort_values("submit_time", ignore_index=True), nodes


BUSY = DayFilter(min_jobs=10, min_wait=0)


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


def test_run_times_learn_only_from_jobs_that_had_ended():
    """Whatever ends later changes no prediction; what had ended does."""
    jobs, _ = log()
    moment = int(jobs["submit_time"].iloc[200])
    known = RunTimes().fit(jobs, moment)
    changed = jobs.copy()
    later = jobs["submit_time"] + jobs["run_time"] > moment
    changed.loc[later, "run_time"] = jobs.loc[later, "requested_time"]
    changed.loc[later & (changed["submit_time"] + changed["run_time"] <= moment), "run_time"] = 10 * DAY
    again = RunTimes().fit(changed, moment)
    assert (known.predict(jobs) == again.predict(jobs)).all()
    assert (known.predict(jobs) != RunTimes().fit(jobs, moment + DAY).predict(jobs)).any()


def test_run_times_by_steps_are_those_at_once():
    """Updating at each midnight gives what one fit at the end gives, fading included."""
    jobs, _ = log()
    start, end = int(jobs["submit_time"].min()), int(jobs["submit_time"].max()) + 2 * DAY
    stepwise = RunTimes().fit(jobs, start)
    for moment in range(start + DAY, end, DAY):
        stepwise = stepwise.updated(jobs, moment)
    stepwise = stepwise.updated(jobs, end)
    at_once = RunTimes().fit(jobs, end)
    assert np.allclose(stepwise.predict(jobs), at_once.predict(jobs), rtol=1e-9)
    with pytest.raises(ArgumentError, match="lies before what is known"):
        stepwise.updated(jobs, start)


def test_run_times_lean_on_the_shape_then_all():
    """A shape's own past decides where there is enough of it; a new shape gets everybody's."""
    n = 400
    nodes = 1 + np.arange(n) % 2
    jobs = job_table(submit_time=np.arange(n), run_time=np.where(nodes == 2, 5000, 50), requested_time=10_000)
    jobs["n_nodes"] = nodes
    known = RunTimes().fit(jobs)
    asked = job_table(submit_time=[0] * 3, run_time=0, requested_time=10_000).assign(n_nodes=[2, 1, 3])
    slow, quick, new = known.predict(asked)
    assert 4000 < slow < 6000 and 40 < quick < 100 and 1500 < new < 3500
    with pytest.raises(TableError, match="learnt nothing"):
        RunTimes().predict(asked)


def test_a_history_is_used_only_on_later_days():
    """A day before the history's end gets what was known then, not what the history learnt since."""
    jobs, _ = log()
    first = int(jobs["submit_time"].min())
    history = known_at(jobs, first + 5 * DAY)
    assert known_at(jobs, first + 2 * DAY, history).as_of == first + 2 * DAY
    late = known_at(jobs, first + 6 * DAY, history)
    assert np.allclose(late.predict(jobs), known_at(jobs, first + 6 * DAY).predict(jobs))


@pytest.mark.parametrize(
    ("setting", "value"), [("generations", 0), ("minutes", 0.0), ("population", 2), ("processes", 0), ("weeks", 1)]
)
def test_settings_that_cannot_be_are_refused(setting, value):
    with pytest.raises(ArgumentError, match=setting):
        search([], replace(Settings(), **{setting: value}))


def test_two_weeks_at_once_find_what_one_finds():
    """The number of weeks that are simulated at once changes nothing; the seed does."""
    jobs, nodes = log(21, 20)
    weeks = lay_out(jobs, nodes.iloc[:1], BUSY)
    how = {"generations": 2, "population": 8, "weeks": 3}
    one, two, other = (search(weeks, Settings(processes=n, seed=s, **how)) for n, s in ((1, 1), (2, 1), (1, 2)))
    assert any((one.arrays[name] != other.arrays[name]).any() for name in one.arrays)
    assert all((one.arrays[name] == two.arrays[name]).all() for name in one.arrays) and one.trained == two.trained


def test_a_file_holds_the_policy(trained, tmp_path):
    """Read back, it decides alike and knows the same run times; equal policies are equal bytes."""
    path, again = tmp_path / "a.policy", tmp_path / "b.policy"
    write_policy(path, trained)
    write_policy(again, trained)
    assert path.read_bytes() == again.read_bytes()
    found = read_policy(path)
    jobs, nodes = log(seed=5)
    assert (found.history.predict(jobs) == trained.history.predict(jobs)).all()
    assert found.trained == trained.trained
    by_name = simulate(jobs, nodes, f"learned:file={path}").schedule
    ready = prepare(jobs, nodes)
    direct = run_prepared(ready, at_hand(trained, Period("", ready, expected_before(ready.jobs, trained.history))))
    assert (by_name["start_time"] - jobs["submit_time"].min()).tolist() == direct.start.tolist()


def test_over_one_span_every_schedule_that_ends_in_it_uses_as_much():
    """Between the first submission and the last end of all, fcfs and sjf use the same; till the last submission not."""
    day = lay_out(*log(), BUSY, daily=True)[0]
    found = [run_prepared(day.ready, name) for name in ("fcfs", "sjf")]
    begin, end = int(day.ready.jobs.submit.min()), max(int(each.end.max()) for each in found)
    one, other = (utilization_between(day.ready, each, begin, end) for each in found)
    assert one == other > 0
    last = int(day.ready.jobs.submit.max())
    busy = [utilization_between(day.ready, each, begin, last) for each in found]
    assert busy[0] != busy[1] and max(busy) <= 1.0
    assert ratio_of_sums(np.ones(4), np.full(4, 2.0), np.zeros((3, 4), int)) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("text", "span"),
    [(None, ("0001-01", "9999-12-31")), ("2021-05", ("2021-05", "2021-05-31")), ("2021-05-04", ("2021-05-04",) * 2),
     ("2021-05-01..2021-06-03", ("2021-05-01", "2021-06-03")), ("2021-05..", ("2021-05", "9999-12-31")),
     ("..2021-05-04", ("0001-01", "2021-05-04"))],
)  # fmt: skip
def test_spans_of_days(text, span):
    assert DayFilter(text).span == span
    for bad in ("2021", "may", "2021-06..2021-05", "2021-05-01,2021-05-02"):
        with pytest.raises(ArgumentError, match="was given"):
            _ = DayFilter(bad).span


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


FEW = settings(max_examples=few(25), deadline=None, suppress_health_check=list(HealthCheck))


def written(tmp_path_factory, weights, **arrays):
    """Write a policy; the name of its file."""
    path = tmp_path_factory.mktemp("learned") / "site.policy"
    write_policy(path, TrainedPolicy("search", dict(SHORTEST_FIRST.arrays) | {"weights": weights} | arrays))
    return path.as_posix()


def first_fit(file):
    """Whoever fits, in the order of a policy's file, on the first nodes."""
    given = {"order": "learned", "file": file}
    return with_seams(Skipping, given)(**given)


@FEW
@given(seed=st.integers(0, 10**6))
def test_on_the_first_node_it_equals_its_slow_twin(seed, tmp_path_factory):
    """Jobs of one node start when and where the order's twin starts them, with any weights."""
    rng = np.random.default_rng(seed)
    jobs, nodes = shared_case(rng, 25)
    jobs["n_nodes"] = 1
    weights = rng.standard_normal(len(FEATURES))
    weights[AGE] = -abs(weights[AGE])
    file = written(tmp_path_factory, weights, trust=np.array([2.0]))
    ready = prepare(jobs, nodes)
    composed = run_prepared(ready, first_fit(file))
    prior = expected_before(ready.jobs, None)
    arrays = dict(SHORTEST_FIRST.arrays) | {"weights": weights, "trust": np.array([2.0])}
    twin = run_prepared(ready, Twin(arrays, prior))
    assert composed.start.tolist() == twin.start.tolist()
    assert composed.node_list.tolist() == twin.node_list.tolist()


@FEW
@given(seed=st.integers(0, 10**6), case=st.sampled_from([pool_case, shared_case]))
@pytest.mark.parametrize("composed", ["easy:order=ORDER", "easy:order=ORDER,queue_order=ORDER,place=best"])
def test_ordered_by_the_request_alone_easy_backfills_as_by_sjf(composed, seed, case, tmp_path_factory):
    """With weight on the requested time alone, EASY starts every job when and where it does in SJF's order."""
    jobs, nodes = case(np.random.default_rng(seed))
    file = written(tmp_path_factory, np.eye(len(FEATURES))[REQUESTED])
    ready = prepare(jobs, nodes)
    learned = run_prepared(ready, f"{composed.replace('ORDER', 'learned')},file={file}")
    sjf = run_prepared(ready, composed.replace("ORDER", "sjf"))
    assert learned.start.tolist() == sjf.start.tolist()
    assert learned.node_list.tolist() == sjf.node_list.tolist()


def test_a_long_wait_never_counts_against_a_job(tmp_path_factory):
    """With weight on the age alone, of either sign, nobody is served behind a job that was submitted later."""
    jobs, nodes = pool_case(np.random.default_rng(3), 25)
    jobs["n_nodes"] = 1
    ready = prepare(jobs, nodes)
    fcfs = run_prepared(ready, "first-fit").start.tolist()
    for weight in (1.0, -1.0):
        file = written(tmp_path_factory, weight * np.eye(len(FEATURES))[AGE])
        assert run_prepared(ready, first_fit(file)).start.tolist() == fcfs


def test_the_file_is_a_parameter_of_the_order(tmp_path_factory):
    """It is part of the label, is one of the files that the decisions depend on, and belongs to this order only."""
    file = written(tmp_path_factory, np.ones(len(FEATURES)))
    spec = catalog.spec(f"easy:order=learned,file={file}")
    assert spec.label == f"easy:order=learned,file={file}"
    assert spec.parameters.files() == (file,)
    assert catalog.spec(f"easy:order=learned,file={file},estimates=none").parameters.files() == (file,)
    with pytest.raises(TableError, match="no parameter 'file'"):
        catalog.spec(f"easy:order=sjf,file={file}")


def test_what_was_not_said_is_as_trained(tmp_path_factory):
    """A policy trained inside EASY also holds the first reservation and chooses the nodes, unless these are given."""
    jobs, nodes = shared_case(np.random.default_rng(4), 40)
    ready = prepare(jobs, nodes)
    path = tmp_path_factory.mktemp("learned") / "site.policy"
    arrays = dict(SHORTEST_FIRST.arrays) | {"weights": np.eye(len(FEATURES))[REQUESTED]}
    write_policy(path, TrainedPolicy("search", arrays, None, {"queue_order": "learned", "place": "best"}))
    short = run_prepared(ready, f"easy:order=learned,file={path}")
    full = run_prepared(ready, "easy:order=sjf,queue_order=sjf,place=best")
    assert short.start.tolist() == full.start.tolist() and short.node_list.tolist() == full.node_list.tolist()
    given = run_prepared(ready, f"easy:order=learned,file={path},queue_order=fcfs,place=first")
    assert given.start.tolist() == run_prepared(ready, "easy:order=sjf").start.tolist()
    assert short.start.tolist() != given.start.tolist()


@FEW
@given(seed=st.integers(0, 10**6), moment=st.integers(1, 40))
def test_what_has_not_ended_is_not_known(seed, moment, tmp_path_factory):
    """Jobs that run past a moment may run any longer: nothing that was decided until then changes."""
    rng = np.random.default_rng(seed)
    jobs, nodes = shared_case(rng, 25)
    policy = f"easy:order=learned,file={written(tmp_path_factory, rng.standard_normal(len(FEATURES)))}"
    ready = prepare(jobs, nodes, kill_at_limit=False)
    before = run_prepared(ready, policy)
    longer = (before.end > moment) | (before.start < 0)
    changed = jobs.copy()
    changed.loc[ready.jobs.row[longer], "run_time"] += rng.integers(1, 1000, longer.sum())
    after = run_prepared(prepare(changed, nodes, kill_at_limit=False), policy)
    early = (before.start >= 0) & (before.start <= moment)
    assert (after.start[early] == before.start[early]).all()


def stream(n=150):
    """Somebody wants all eight nodes, and others want two each, for a minute, faster than these come free."""
    rows = [{"submit_time": 15 * i, "run_time": 60, "n_nodes": 2} for i in range(n)]
    rows.insert(1, {"submit_time": 1, "run_time": 60, "n_nodes": 8})
    jobs = pd.DataFrame(rows).assign(requested_time=60, cpus_per_node=1, mem_mb_per_node=0, gpus_per_node=0)
    jobs["job_id"] = [f"j{i}" for i in range(len(jobs))]
    return jobs, pd.DataFrame({"node_id": [f"n{i}" for i in range(8)], "cpus": 1, "mem_mb": 1, "gpus": 0})


@FEW
@given(seed=st.integers(0, 10**6), case=st.sampled_from(["stream", "pool", "shared"]))
def test_nobody_waits_for_ever_whatever_the_file_says(seed, case, tmp_path_factory):
    """Whoever has waited as long as ``patience`` waits for no more than those before him."""
    rng = np.random.default_rng(seed)
    jobs, nodes = {"stream": stream, "pool": lambda: pool_case(rng, 40), "shared": lambda: shared_case(rng, 40)}[case]()
    jobs["run_time"] = jobs["requested_time"] = jobs["requested_time"].clip(lower=1)
    file = written(tmp_path_factory, 10.0 * rng.standard_normal(len(FEATURES)))
    patience = int(rng.integers(1, 400))
    ready = prepare(jobs, nodes)
    run = run_prepared(ready, f"easy:order=learned,queue_order=learned,file={file},patience={patience}")
    ran = run.start >= 0
    before = np.cumsum(ran)
    latest = ready.jobs.submit + patience + before * int(ready.jobs.requested.max())
    assert (run.start[ran] <= latest[ran]).all()
