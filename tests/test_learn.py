"""Learnt policies: the kernel, the run times, the search, the file, the judgement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_learn import Twin
from policy_cases import few, job_table, node_table, pool_case, shared_case

from procure.errors import ArgumentError, TableError
from procure.files.archive import Archive, read_archive, write_archive
from procure.learn.days import (
    OnDay,
    day_span,
    known_at,
    lay_out_days,
    mean_wait,
    quick_wait,
    simulate_day,
    thinned,
)
from procure.learn.features import FEATURES
from procure.learn.judge import evaluate, node_utilization, ratio_of_sums, utilization_between
from procure.learn.policy import UNTRAINED, expected_before
from procure.learn.run_times import RunTimes
from procure.learn.scores import PLACES
from procure.learn.search import SJF, Settings, _race, objective_of, search, train_by_search
from procure.learn.store import SCHEMA, TrainedPolicy, read_policy, write_policy
from procure.learn.weeks import FIGURES
from procure.run import prepare, run_prepared, simulate

pytestmark = pytest.mark.plain

FEW = settings(max_examples=few(15), deadline=None, suppress_health_check=list(HealthCheck))
DAY = 86_400


def arrays_of(rng, n_hidden=2):
    return {
        "weights": rng.standard_normal(len(FEATURES)),
        "hidden": rng.standard_normal((n_hidden, len(FEATURES) + 2)),
        "places": rng.standard_normal(len(PLACES)),
        "trust": np.array([rng.choice([0.5, 1.0, 3.0])]),
    }


def on(trained, prior):
    return OnDay.model_validate({"trained": trained, "prior": prior})


@FEW
@given(seed=st.integers(0, 10**6), case=st.sampled_from([pool_case, shared_case]), hidden=st.integers(0, 3))
def test_the_policy_equals_its_slow_twin(seed, case, hidden):
    """Starts and nodes are those of a twin that computes every figure anew, with any weights, linear or not."""
    rng = np.random.default_rng(seed)
    jobs, nodes = case(rng)
    ready = prepare(jobs, nodes)
    prior = np.zeros(len(jobs))
    for shape in np.unique(ready.jobs.shape_of):  # one prior per class
        prior[ready.jobs.shape_of == shape] = rng.integers(1, 20)
    trained = TrainedPolicy("search", arrays_of(rng, hidden))
    quick = run_prepared(ready, on(trained, prior))
    slow = run_prepared(ready, Twin(trained.arrays, prior))
    assert quick.start.tolist() == slow.start.tolist()
    assert quick.node_list.tolist() == slow.node_list.tolist()


@FEW
@given(seed=st.integers(0, 10**6))
def test_ordered_by_the_request_alone_it_is_sjf(seed):
    """With weight on the requested time alone, jobs of one node start when and where sjf starts them."""
    jobs, nodes = shared_case(np.random.default_rng(seed), 25)
    jobs["n_nodes"] = 1
    weights = np.eye(len(FEATURES))[FEATURES.index("requested")]
    trained = TrainedPolicy("search", dict(UNTRAINED.arrays) | {"weights": weights})
    ready = prepare(jobs, nodes)
    assert (run_prepared(ready, on(trained, np.ones(25))).start == run_prepared(ready, "sjf").start).all()


@FEW
@given(seed=st.integers(0, 10**6), moment=st.integers(1, 40))
def test_what_has_not_ended_is_not_known(seed, moment):
    """Jobs that run past a moment may run any longer: nothing that was decided until then changes."""
    rng = np.random.default_rng(seed)
    jobs, nodes = shared_case(rng, 25)
    trained = TrainedPolicy("search", arrays_of(rng))
    prior = np.full(25, 5.0)
    options = {"kill_at_limit": False}
    ready = prepare(jobs, nodes, **options)
    before = run_prepared(ready, on(trained, prior))
    longer = (before.end > moment) | (before.start < 0)
    changed = jobs.copy()
    order = ready.jobs.row
    changed.loc[order[longer], "run_time"] += rng.integers(1, 1000, longer.sum())
    after = run_prepared(prepare(changed, nodes, **options), on(trained, prior))
    early = (before.start >= 0) & (before.start <= moment)
    assert (after.start[early] == before.start[early]).all()


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


def laid_out(**options):
    jobs, nodes = log()
    return jobs, nodes, lay_out_days(jobs, nodes, *day_span(None), "UTC", min_jobs=10, **options)


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
    stepwise = RunTimes(half_life=2.0 * DAY).fit(jobs, start)
    for moment in range(start + DAY, end, DAY):
        stepwise = stepwise.updated(jobs, moment)
    stepwise = stepwise.updated(jobs, end)
    at_once = RunTimes(half_life=2.0 * DAY).fit(jobs, end)
    assert np.allclose(stepwise.predict(jobs), at_once.predict(jobs), rtol=1e-9)
    with pytest.raises(ArgumentError, match="lies before what is known"):
        stepwise.updated(jobs, start)


def test_run_times_lean_on_the_user_then_the_shape_then_all():
    """A user's own past decides where there is enough of it; a new user gets the shape's, a new shape everybody's."""
    n = 400
    user = np.where(np.arange(n) % 2, "slow", "quick")
    run = np.where(user == "slow", 5000, 50)
    jobs = job_table(submit_time=np.arange(n), run_time=run, requested_time=10_000, user=user)
    known = RunTimes().fit(jobs)
    asked = job_table(submit_time=[0] * 3, run_time=0, requested_time=10_000, user=["slow", "quick", "new"])
    slow, quick, new = known.predict(asked)
    assert 4000 < slow < 6000 and 40 < quick < 100 and 1500 < new < 3500
    assert known.predict(asked, 0.9)[0] <= 10_000 and known.predict(asked, 0.25)[2] < 100
    low, high = known.predict(asked, 0.1), known.predict(asked, 0.9)
    assert (low <= high).all()
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        known.predict(asked, 1.5)
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


def test_a_thinned_day_is_the_day_of_the_jobs_kept():
    """Leaving jobs out of the arrays is leaving them out of the table."""
    jobs, nodes, days = laid_out()
    day = days[0]
    keep = np.random.default_rng(0).random(day.n_jobs) < 0.7
    part = jobs[jobs["submit_time"] < jobs["submit_time"].min() + DAY].reset_index(drop=True)
    part = part.iloc[: day.n_jobs][keep]
    assert quick_wait(thinned(day, keep), SJF) == mean_wait(*_run(part, nodes))
    assert quick_wait(day, SJF) == day.reference


def _run(jobs, nodes):
    ready = prepare(jobs, nodes)
    return ready, run_prepared(ready, "sjf")


@pytest.mark.slow
def test_the_search_finds_what_sjf_cannot_know():
    """Where long requests run short, a search beats sjf; the same seed gives the same numbers; its curve only falls."""
    _, _, days = laid_out()
    quick = Settings(generations=10, population=8, days=6, processes=1, seed=3, inside="skip")
    found, again = search(days, quick), search(days, quick)
    assert found.objective < -0.1
    for name, array in found.arrays.items():
        assert (array == again.arrays[name]).all(), name
    assert found.curve == again.curve and found.n_simulations == again.n_simulations
    ratios = [
        mean_wait(day.ready, simulate_day(day, TrainedPolicy("search", found.arrays))) / day.reference for day in days
    ]
    assert np.isclose(objective_of(np.array(ratios) * 1e9, np.full(len(days), 1e9)), found.objective, atol=0.02)


@pytest.mark.slow
def test_two_processes_find_what_one_finds():
    """The number of processes changes nothing."""
    _, _, days = laid_out()
    one = search(days, Settings(generations=2, population=8, days=6, processes=1))
    two = search(days, Settings(generations=2, population=8, days=6, processes=2))
    assert all((one.arrays[name] == two.arrays[name]).all() for name in one.arrays)


def test_candidates_that_end_early_rank_behind():
    """After each block the worst quarter ends; their ranks lie behind all that went on; fewer days are simulated."""
    quality = np.arange(8)[::-1]

    def figures_under(candidates, parts):
        waits = [[600.0 + (0 if c is None else 60.0 * c["q"]) for _ in parts] for c in candidates]
        return np.repeat(np.array(waits)[:, :, None], len(FIGURES), axis=2)

    candidates, parts = [{"q": q} for q in quality], [(i, 0) for i in range(6)]
    values, simulated = _race(candidates, parts, figures_under, Settings(inside="skip"))
    assert np.argsort(values).tolist() == np.argsort(quality).tolist()
    assert simulated == 2 * (9 + 7 + 5)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("generations", 0),
        ("minutes", 0.0),
        ("population", 2),
        ("processes", 0),
        ("days", 1),
        ("without", ("luck",)),
        ("inside", "conservative"),
        ("objective", "luck"),
    ],
)
def test_settings_that_cannot_be_are_refused(setting, value):
    """Each is one error that names it."""
    with pytest.raises(ArgumentError, match=setting):
        search([], replace(Settings(), **{setting: value}))


@pytest.fixture(scope="module")
def trained():
    jobs, nodes, days = laid_out()
    return train_by_search(jobs, nodes, days, "UTC", Settings(generations=1, population=4, days=3, processes=1))


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
    direct = run_prepared(ready, on(trained, expected_before(ready.jobs, trained.history)))
    assert (by_name["start_time"] - jobs["submit_time"].min()).tolist() == direct.start.tolist()


def spoilt(path, change):
    archive = read_archive(path, SCHEMA)
    head, arrays = dict(archive.head), dict(archive.arrays)
    change(head, arrays)
    write_archive(path, Archive(head, arrays))


BAD_FILES = {
    "another version": (lambda head, arrays: head.update(schema="procure-learned-policy/0"), "schema"),
    "another method": (lambda head, arrays: head.update(method="luck"), "method is 'luck'"),
    "other features": (lambda head, arrays: head.update(features=["shoe_size"]), "features shoe_size"),
    "wrong shape": (
        lambda head, arrays: arrays.update({"policy/weights": np.zeros(3)}),
        "weights has the shape",
    ),
    "an array less": (lambda head, arrays: arrays.pop("policy/trust"), "trust has the shape None"),
    "not a number": (lambda head, arrays: arrays["policy/places"].fill(np.nan), "not finite"),
    "half a history": (lambda head, arrays: arrays.pop("history/1/counts"), "history"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_file_that_cannot_be_used_is_one_error(trained, tmp_path, kind):
    """The error names the file and what is wrong, by every way in."""
    change, message = BAD_FILES[kind]
    path = tmp_path / "bad.policy"
    write_policy(path, trained)
    spoilt(path, change)
    with pytest.raises(TableError, match=message):
        read_policy(path)
    jobs, nodes = log(1)
    with pytest.raises(TableError, match=message):
        simulate(jobs, nodes, f"learned:file={path}")


def test_a_system_without_what_a_policy_weighs_is_refused():
    """A policy that weighs memory against CPUs needs nodes with memory."""
    jobs, nodes = job_table(submit_time=[0], run_time=[1]), node_table(1, mem_mb=0)
    trained = TrainedPolicy("search", dict(UNTRAINED.arrays) | {"places": np.array([0.0, 0.0, 1.0, 0.0])})
    with pytest.raises(TableError, match="no memory"):
        run_prepared(prepare(jobs, nodes), on(trained, np.ones(1)))


def test_the_judgement_is_of_these_figures():
    """Ratios of sums, shares and the worst day are those of the table; an interval encloses the ratio."""
    _, _, days = laid_out(with_exact=True)
    found = evaluate(UNTRAINED, days)
    table, figures = found.days, found.figures
    assert len(table) == len(days)
    assert np.isclose(figures["mean_ratio_to_sjf"], table["learned"].sum() / table["sjf"].sum())
    low, high = figures["interval"]
    assert low <= figures["mean_ratio_to_sjf"] <= high < 1.0
    assert figures["share_of_days_better"] == (table["learned"] < table["sjf"]).mean()
    assert figures["worst_ratio"] == table["ratio_to_sjf"].max()
    assert table.loc[table["ratio_to_sjf"].idxmax(), "day"] == figures["worst_day"]
    assert (table["sjf@oracle"] < table["sjf"]).all() and 0 < figures["bridged"] <= 1.1
    assert set(found.utilization_of_nodes) == set(found.utilization) == set(found.utilization_of_submissions)
    assert ratio_of_sums(np.ones(4), np.full(4, 2.0), np.zeros((3, 4), int)) == (0.5, [0.5, 0.5])


def test_the_utilization_of_nodes_by_hand():
    """Two nodes for 10 s: half the CPUs and all the memory of one for 5 s is (½ + 1) / 3 / 2 / 2 of the whole."""
    jobs = job_table(submit_time=[0, 5], run_time=[5, 5], cpus_per_node=[2, 0], mem_mb_per_node=[1000, 0])
    ready = prepare(jobs, node_table(2, cpus=4, mem_mb=1000))
    assert node_utilization(ready, run_prepared(ready, "fcfs")) == pytest.approx(1.5 / 3 / 2 / 2)


def test_over_one_span_every_schedule_that_ends_in_it_uses_as_much():
    """Between the first submission and the last end of all, fcfs and sjf use the same; till the last submission not."""
    day = laid_out()[2][0]
    found = [run_prepared(day.ready, name) for name in ("fcfs", "sjf")]
    begin, end = int(day.ready.jobs.submit.min()), max(int(each.end.max()) for each in found)
    one, other = (utilization_between(day.ready, each, begin, end) for each in found)
    assert one == other > 0
    last = int(day.ready.jobs.submit.max())
    busy = [utilization_between(day.ready, each, begin, last) for each in found]
    assert busy[0] != busy[1] and max(busy) <= 1.0


@pytest.mark.parametrize(
    ("text", "span"),
    [(None, ("0000", "9999")), ("2021-05", ("2021-05", "2021-05-31")), ("2021-05-04", ("2021-05-04",) * 2),
     ("2021-05-01..2021-06-03", ("2021-05-01", "2021-06-03"))],
)  # fmt: skip
def test_spans_of_days(text, span):
    """A day, a month, two ends or nothing."""
    assert day_span(text) == span
    for bad in ("2021", "may", "2021-06..2021-05", "2021-05-01,2021-05-02"):
        with pytest.raises(ArgumentError, match="was given"):
            day_span(bad)
