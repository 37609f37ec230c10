"""Patterns and their confidence: what recurs, how surely, with what was known at the time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_forecast import bursts_of, hazard_of

from procure.errors import ArgumentError, TableError
from procure.forecast import Forecaster, Patterns, PatternSettings, boosted, find_patterns
from procure.forecast.calibration import recalibrated
from procure.forecast.confidence import MODES, by_length, hazard, make_forecasts
from procure.forecast.evaluation import auc, auc_within, evaluate, judge, shuffle_days, worst_tenth
from procure.forecast.forecaster import confidence_of
from procure.forecast.known import NEVER
from procure.forecast.lags import lagged
from procure.forecast.load import hourly_load, judge_load
from procure.forecast.recurring import recurring_shares
from procure.schemas import JOB
from procure.tables import check

DAY, HOUR = 86_400, 3600
MONDAY = 1_767_571_200  # 2026-01-05 00:00 UTC


def job_table(submit, user="a", cpus=1, run=600, limit=3600):
    n = len(submit)
    frame = {"job_id": [f"j{i}" for i in range(n)], "user": user, "submit_time": submit, "run_time": run}
    return check(pd.DataFrame(frame | {"cpus_per_node": cpus, "requested_time": limit}), JOB)


def habits(seed=0, days=40, n_users=12):
    """Users of whom each comes every day about one time, with a chance of his own, in bursts of one to three jobs."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(n_users):
        often, hour = rng.choice([0.15, 0.9]), rng.uniform(0, 24)
        for day in range(days):
            if rng.random() < often:
                begin = MONDAY + day * DAY + hour * HOUR + rng.normal(0, 1500)
                rows += [(int(begin) + 60 * k, f"u{user}") for k in range(rng.integers(1, 4))]
    rows.sort()
    return job_table([row[0] for row in rows], user=[row[1] for row in rows])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 45 * 24)), max_size=60),
    gap=st.sampled_from([1, HOUR, 5 * HOUR]),
    cut=st.integers(0, 60),
)
def test_pass_equals_its_twin_and_can_be_continued(rows, gap, cut):
    """One pass finds what looking at all pairs finds, in one piece or in two."""
    rows = sorted((hour * HOUR, key) for key, hour in rows)
    jobs = job_table([MONDAY + t for t, _ in rows], user=[f"u{key}" for _, key in rows]) if rows else None
    if jobs is None:
        return
    chosen = PatternSettings(gap=gap)
    expected, of_job = bursts_of([(f"u{k}", MONDAY + t) for t, k in rows], gap, chosen.tolerance.tolist())
    patterns = Patterns(chosen)
    parts = [jobs.iloc[:cut], jobs.iloc[cut:]]
    found = np.concatenate([patterns.extend(part) for part in parts if len(part)])
    assert found.tolist() == of_job
    b = patterns.bursts
    assert [patterns.keys["user"][key] for key in b.key] == [burst["key"] for burst in expected]
    for name in ("start", "last", "n_jobs"):
        assert getattr(b, name).tolist() == [burst[name] for burst in expected]
    for name in ("before", "length", "root", "again"):
        assert getattr(b, name).T.tolist() == [burst[name] for burst in expected]


def test_hazard_equals_its_twin():
    """The counted hazard is what a count over all earlier forecasts gives."""
    patterns = find_patterns(habits(days=12))
    f = make_forecasts(patterns, "day")
    rows = [
        dict(zip(("issued", "known", "came", "length", "user"), row, strict=True))
        for row in zip(f.issued, f.known, f.came, f.length, f.user, strict=True)
    ]
    assert hazard(f) == pytest.approx([hazard_of(rows, n) for n in range(len(rows))])


def test_published_confidence_on_paper():
    """Three patterns of lengths 1, 2 and 3 have ended: a pattern that would get length 2 is surest."""
    ends = {"a": 1, "b": 2, "c": 3, "d": 1}
    submit = [(MONDAY + day * DAY, user) for user, n in ends.items() for day in range(n) if user != "d"]
    submit.append((MONDAY + 20 * DAY, "d"))
    submit.sort()
    patterns = find_patterns(job_table([s for s, _ in submit], user=[u for _, u in submit]))
    f = make_forecasts(patterns, "day")
    assert by_length(f, survival=False)[-1] == pytest.approx(1.0)  # 1 + 1 is the mean
    assert by_length(f, survival=True)[-1] == pytest.approx(0.7299, abs=1e-4)  # P(L >= 1.5), sigma = sqrt(2/3)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_only_what_was_known_counts(mode, monkeypatch):
    """Cutting the log at a moment changes no confidence of a forecast made until then, recalibrated ones too."""
    n_moved = []

    def watched(chance, *known):
        found = recalibrated(chance, *known)
        n_moved.append((found != chance).sum())
        return found

    monkeypatch.setattr(boosted, "recalibrated", watched)
    jobs = habits(n_users=24)
    cut = MONDAY + 27 * DAY + 5 * HOUR
    whole, part = find_patterns(jobs), find_patterns(jobs[jobs["submit_time"] <= cut])
    for name in ("day", "week"):
        all_of_it = confidence_of(whole, make_forecasts(whole, name), mode)
        until = confidence_of(part, make_forecasts(part, name), mode)
        assert (all_of_it[: len(until)] == until).all()
        assert ((all_of_it >= 0) & (all_of_it <= 1)).all()
    assert mode != "boosted" or sum(n_moved) > 200


@pytest.mark.slow
def test_months_use_only_what_was_known():
    """Cutting the log changes no boosted confidence of a month that was stated until then, nor of a shorter lag."""
    jobs = habits(days=66, n_users=12)
    cut = MONDAY + 52 * DAY + 5 * HOUR
    whole, part = find_patterns(jobs), find_patterns(jobs[jobs["submit_time"] <= cut])
    found = []
    for patterns in (whole, part):
        f = make_forecasts(patterns, "month")
        rows = lagged(patterns, f)
        stated = boosted.raw_chances(patterns, f, rows).reshape(rows.n_lags, -1)
        found.append((stated, confidence_of(patterns, f, "boosted"), hazard(f)))
    n = found[1][0].shape[1]
    assert (found[0][0][:, :n] == found[1][0]).all() and (found[0][1][:n] == found[1][1]).all()
    assert (found[1][0][-1] != found[1][2]).mean() > 0.3  # a model spoke, before any month was over


@settings(max_examples=40, deadline=None)
@given(hours=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 45 * 24)), min_size=1, max_size=40))
def test_lags_equal_their_twin(hours):
    """A lag came true if a like burst begins within the tolerance of it; it is known when that time is over."""
    hours = sorted(hours, key=lambda row: row[1])
    patterns = Patterns()
    patterns.extend(job_table([MONDAY + h * HOUR for _, h in hours], user=[f"u{key}" for key, _ in hours]))
    start, key, last = patterns.bursts.start, patterns.bursts.key, patterns.last
    for name, lags, tolerance in (
        ("day", [1], 2 * HOUR),
        ("week", [2, 4, 6, 7], 6 * HOUR),
        ("month", [8, 15, 23, 30], DAY),
    ):
        found = lagged(patterns, make_forecasts(patterns, name))
        rows = [(b, days) for days in lags for b in range(len(start))]
        assert list(zip(found.burst.tolist(), found.days.tolist(), strict=True)) == rows
        for (b, days), came, known in zip(rows, found.came, found.known, strict=True):
            away = np.abs(start[key == key[b]] - start[b] - days * DAY)
            assert came == (away <= tolerance).any()
            over = start[b] + days * DAY + tolerance + 1
            assert known == (over if over <= last else NEVER)


@pytest.mark.parametrize(
    ("changed", "name", "lags"),
    [({"week_tolerance": 2 * DAY}, "week", [6, 7]), ({"month_tolerance": 10 * DAY}, "month", [23, 30])],
)
def test_no_burst_is_its_own_recurrence(changed, name, lags):
    """A part of the period within twice the tolerance is no lag: a single burst would come true there."""
    patterns = Patterns(PatternSettings(**changed))
    patterns.extend(job_table([MONDAY, MONDAY + 60 * DAY]))
    found = lagged(patterns, make_forecasts(patterns, name))
    assert sorted(set(found.days.tolist())) == lags and not found.came.any()


def test_no_forecasts_have_no_worst_tenth():
    """Where nothing was stated there is nothing that it could be wrong by."""
    assert np.isnan(worst_tenth(np.zeros(0), np.zeros(0, bool)))


def test_recalibration_on_paper():
    """Stated 0.8 of which half came becomes the middle, in the logit, of 0.8 and nearly a half; few change nothing."""
    stated, came, age = np.full(3000, 0.8), np.tile([1.0, 0.0], 1500), np.zeros(3000)
    line = (0.5 * 3000 + 0.8 * 30) / 3030
    odds = (0.8 / 0.2 * line / (1 - line)) ** 0.5
    assert recalibrated(np.array([0.8]), stated, came, age) == pytest.approx([odds / (1 + odds)])
    assert recalibrated(np.array([0.8]), stated[:199], came[:199], age[:199]) == [0.8]


def test_recalibration_forgets():
    """What came eight periods ago counts half: none of 1,500 then and all of 1,500 now make two thirds."""
    stated, came, age = np.full(3000, 0.5), np.tile([0.0, 1.0], 1500), np.tile([8.0, 0.0], 1500)
    line = (1500 + 0.5 * 30) / (2250 + 30)
    odds = (line / (1 - line)) ** 0.5
    assert recalibrated(np.array([0.5]), stated, came, age) == pytest.approx([odds / (1 + odds)])
    recent = recalibrated(np.array([0.5]), stated[1::2], came[1::2], age[1::2])
    assert recalibrated(np.array([0.5]), stated, came, age * 1e6) == pytest.approx(recent)


def test_what_shares_a_fate_is_one_piece_of_evidence():
    """Three hundred outcomes of one user's day move a chance less than if each were another's; alone, hardly any."""
    stated, came = np.repeat([0.2, 0.9], 300), np.repeat([0.0, 1.0], 300)
    age, own = np.zeros(600), np.arange(600)
    one = np.where(stated > 0.5, 600, own)
    free, apart, alike = (recalibrated(np.array([0.9]), stated, came, age, piece)[0] for piece in (None, own, one))
    assert apart == pytest.approx(0.5 + (free - 0.5) * 300 / 305)
    assert alike == pytest.approx(0.5 + (free - 0.5) * 1 / 6)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    power=st.sampled_from([0.5, 1.0, 2.0]),
    n=st.integers(0, 6000),
    age=st.floats(0, 8),
)
def test_recalibration_keeps_order_and_comes_nearer(seed, power, n, age):
    """Order stays; where what comes is a power of what is stated, chances move towards it."""
    rng = np.random.default_rng(seed)
    earlier = rng.uniform(0, 1, n)
    came = (rng.uniform(0, 1, n) < earlier**power).astype(float)
    chance = np.linspace(0, 1, 101)
    found = recalibrated(chance, earlier, came, np.linspace(age, 0, n))
    assert (np.diff(found) >= 0).all() and ((found >= 0) & (found <= 1)).all()
    if n >= 3000 and power != 1:
        assert np.abs(found - chance**power).mean() < np.abs(chance - chance**power).mean()


def test_rank_within_groups_on_paper():
    """Of the pairs within a group one is right and one is tied; the pairs across groups do not count."""
    sure, came = np.array([0.9, 0.1, 0.5, 0.5, 0.99]), np.array([True, False, True, False, False])
    assert auc_within(sure, came, np.array([4, 4, 7, 7, 1])) == 0.75
    assert np.isnan(auc_within(sure, came, np.arange(5)))


@pytest.mark.slow
def test_habits_are_forecast_and_shuffled_ones_are_not():
    """Where users differ in how often they come, the model knows; against shuffled outcomes it knows nothing."""
    found = evaluate(habits(days=60, n_users=20), modes=("hazard", "boosted"))
    by_mode = {row["confidence"]: row for row in found.rows if row["period"] == "day"}
    for row in by_mode.values():
        assert row["auc"] > 0.7
        assert row["auc_days_shuffled"] > 0.55  # who comes often still does
        assert abs(row["auc_within_days_shuffled"] - 0.5) < 0.1
        assert row["brier"] < row["brier_constant"]
        assert abs(row["auc_outcomes_shuffled"] - 0.5) < 0.1
    assert {"n_forecasts", "n_hits", "base_rate", "worst_tenth"} <= by_mode["boosted"].keys()


def test_measures_on_paper():
    """AUC counts ties half; Brier and its constant are those of the definition."""
    sure, came = np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False])
    assert auc(sure, came) == pytest.approx(3.5 / 4)
    found = judge(sure, came)
    assert found["brier"] == pytest.approx((0.01 + 0.25 + 0.25 + 0.01) / 4)
    assert found["brier_constant"] == 0.25


def test_daily_pattern_follows_the_local_clock():
    """At nine local time before and after clocks change is one pattern at that second, not one an hour off."""
    days = pd.date_range("2026-03-20 09:00", periods=16, freq="D", tz="Europe/Berlin")
    jobs = job_table([int(day.timestamp()) for day in days])
    local = find_patterns(jobs, PatternSettings(day_tolerance=60, tz="Europe/Berlin"))
    assert local.table()["length"].max() == 16
    assert find_patterns(jobs, PatternSettings(day_tolerance=60)).table()["length"].max() < 16
    f = make_forecasts(local, "day")
    assert f.expected[:-1].tolist() == f.issued[1:].tolist()


def test_table_says_what_recurs():
    """A weekday habit is five patterns of days in a row and one of weeks that holds them."""
    submit = [MONDAY + week * 7 * DAY + day * DAY + 14 * HOUR for week in range(4) for day in range(5)]
    table = find_patterns(job_table(submit)).table()
    daily, weekly = table[table["every"] == "day"], table[table["every"] == "week"]
    assert daily["length"].tolist() == [5] * 4
    assert weekly[["length", "n_bursts", "n_within"]].to_numpy().tolist() == [[4, 20, 4]]
    assert set(table["at"]) == {"14:00"}


def test_forecast_is_a_job_table():
    """A burst of two jobs every day at ten is expected on each of the next three days, ever less surely."""
    submit = sorted(MONDAY + day * DAY + 10 * HOUR + s for day in range(20) for s in (0, 60))
    at = MONDAY + 19 * DAY + 12 * HOUR
    jobs = job_table(submit, run=[500 + i for i in range(40)])
    found = Forecaster("hazard").fit(jobs, at).predict(3)
    assert list(found["submit_time"]) == [MONDAY + day * DAY + 10 * HOUR for day in (20, 20, 21, 21, 22, 22)]
    sure = found["confidence"].to_numpy()
    assert (np.diff(sure) <= 0).all() and sure[0] > 0.5
    assert found["run_time"].between(505, 535).all()
    assert (found["run_time_10"] <= found["run_time"]).all() and (found["run_time"] <= found["run_time_90"]).all()
    check(found, JOB)


def test_nobody_came_since_is_known():
    """A pattern that was missed after its last submission is no longer expected."""
    jobs = job_table([MONDAY + day * DAY for day in range(8)])
    assert len(Forecaster("hazard").fit(jobs, MONDAY + 7 * DAY + HOUR).predict(0.99)) > 0
    late = Forecaster("hazard").fit(jobs, MONDAY + 8 * DAY + 3 * HOUR).predict(0.5)
    assert "day" not in set(late["every"])


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (job_table([0, DAY]), "two periods, at least 2 days"),
        (job_table([MONDAY], user=""), "two periods"),
    ],
)
def test_short_log_is_one_error(jobs, message):
    """A log of less than two days is refused with what is needed."""
    with pytest.raises(TableError, match=message):
        find_patterns(jobs)


def test_stated_fallbacks():
    """A log without users is told apart by what it knows, an unsorted one is sorted, and both is said or equal."""
    jobs = habits(days=10)
    mixed = jobs.sample(frac=1, random_state=1)
    assert find_patterns(mixed).table().equals(find_patterns(jobs).table())
    nobody = find_patterns(jobs.assign(user=""))
    assert nobody.notes == ["the log knows no user; jobs are distinguished by cpus, limit"]
    with pytest.raises(TableError, match="knows nothing of partition"):
        find_patterns(jobs, PatternSettings(by=("partition",)))
    with pytest.raises(TableError, match="before the last one seen"):
        patterns = find_patterns(jobs)
        patterns.extend(jobs.iloc[:1])
    with pytest.raises(ArgumentError, match="0 was given; the horizon must be above 0 days"):
        Forecaster("hazard").fit(jobs).predict(0)
    with pytest.raises(ArgumentError, match="'pfd' is not known; did you mean"):
        Forecaster("pfd")


def test_shuffled_days_keep_time_of_day():
    """Shuffling moves a user's day as a whole."""
    jobs = habits(days=10)
    moved = shuffle_days(jobs, 3)
    assert sorted(moved["submit_time"] % DAY) == sorted(jobs["submit_time"] % DAY)
    assert moved["submit_time"].is_monotonic_increasing
    assert (moved["submit_time"].to_numpy() != jobs["submit_time"].to_numpy()).any()


def test_unresolved_is_not_known():
    """A forecast whose window the log does not cover is never known."""
    patterns = find_patterns(habits(days=10))
    f = make_forecasts(patterns, "day")
    assert (f.known[f.expected > patterns.last] == NEVER).all()


def test_recurring_share_on_paper():
    """Of ten CPU-hours, those of the four daily jobs recur and those of the single one do not."""
    submit = [MONDAY + day * DAY for day in range(4)] + [MONDAY + 2 * DAY + 9 * HOUR]
    jobs = job_table(submit, user=["a"] * 4 + ["b"], run=[HOUR] * 4 + [6 * HOUR])
    assert recurring_shares(jobs) == {"recurring_cpu_hours_day": 0.4}


def test_hourly_load_on_paper():
    """Four CPUs for ninety minutes are four in the first hour and two on average in the second."""
    jobs = job_table([MONDAY, MONDAY + 3 * HOUR], cpus=[4, 1], run=[5400, 60])
    first, load = hourly_load(jobs)
    assert first == MONDAY
    assert load.tolist() == [4.0, 2.0, 0.0]


def test_load_with_a_rhythm_is_forecast():
    """Where office hours alone make the load, the forecast is far nearer than no change."""
    rng = np.random.default_rng(0)
    hours = [h for h in range(7 * 24 * 7) if 8 <= h % 24 < 18 for _ in range(rng.poisson(25))]
    jobs = job_table([MONDAY + h * HOUR for h in hours], user=[f"u{i % 9}" for i in range(len(hours))], run=HOUR)
    errors = judge_load(jobs).errors.set_index("horizon")
    assert errors.loc[12, "forecast"] < 0.5 * errors.loc[12, "no_change"]
    assert (errors["covered"] > 0.7).all()
    with pytest.raises(TableError, match="the load needs 28"):
        judge_load(jobs[jobs["submit_time"] < MONDAY + 20 * DAY])


def test_forecasts_that_all_failed_are_judged_without_a_ranking():
    """Where no forecast came true, base rate and Brier score are there, the AUC is not, and a note says why."""
    jobs = job_table([MONDAY + DAY * day for day in range(10)], user=[f"u{day}" for day in range(10)])
    found = evaluate(jobs)
    rows = found.table[found.table["period"] == "day"]
    assert rows["confidence"].tolist() == list(MODES) and (rows["n_forecasts"] > 0).all()
    assert (rows["base_rate"] == 0.0).all() and rows["auc"].isna().all() and rows["brier"].notna().all()
    assert any("there is nothing to rank" in note for note in found.notes)
