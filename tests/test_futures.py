"""Futures: weeks and bursts of a log drawn anew, and a study that asks for them."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import write_study

from procure import recommend
from procure.errors import TableError
from procure.recommender.recommendation import records
from procure.schemas import JOB
from procure.study import load_plan, load_study
from procure.study.check import study_text
from procure.study.sections import StudyFutures
from procure.sweep import run_sweep
from procure.sweep.trial import simulate_packages
from procure.tables import check, read, write
from procure.workload.load import CLASSES, Futures, bursts, class_of, cpu_seconds, draw_futures, local_seconds

DAY, WEEK = 86_400, 7 * 86_400
CHICAGO = "America/Chicago"
MONDAY = 1_614_578_400  # 2021-03-01 00:00 in Chicago; the clocks go forward on the 14th
ASKED = ["user", "requested_time", "run_time", "n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node"]


def log(weeks: int = 5, seed: int = 1, n: int = 400, users: int = 6) -> pd.DataFrame:
    """A log of whole weeks whose jobs come in bursts by day, of all classes."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 5, n)
    begin = rng.integers(0, weeks * 7, n) * DAY + rng.integers(6, 20, n) * 3600
    begin[:2] = 60, weeks * WEEK - 60  # the first and the last day are whole
    submit = np.repeat(begin, size) + rng.integers(0, 60, size.sum())
    frame = pd.DataFrame(
        {
            "user": np.repeat([f"u{i}" for i in rng.integers(0, users, n)], size),
            "submit_time": submit + MONDAY,
            "requested_time": 20_000,
            "run_time": rng.integers(1, 20_000, size.sum()),
            "n_nodes": np.repeat(rng.choice([1, 1, 1, 2], n), size),
            "cpus_per_node": np.repeat(rng.integers(1, 9, n), size),
            "mem_mb_per_node": np.repeat(rng.choice([1000, 4000, 90_000], n), size),
            "gpus_per_node": np.repeat(rng.choice([0, 0, 0, 1], n), size),
        }
    ).sort_values("submit_time", kind="stable", ignore_index=True)
    frame.insert(0, "job_id", [f"j{i}" for i in range(len(frame))])
    return check(frame, JOB)


def drawn(jobs: pd.DataFrame, **settings_) -> list[pd.DataFrame]:
    return list(draw_futures(jobs, Futures(tz=CHICAGO, **settings_)))


def original(future: pd.DataFrame) -> pd.Series:
    return future["job_id"].str.split("+").str[0]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99), st.floats(0.5, 2.0))
def test_nothing_is_invented(seed, growth):
    """Every job of a future is one of the log, but for when it comes."""
    jobs = log(seed=seed)
    known = jobs.set_index("job_id")[ASKED]
    for future in drawn(jobs, draws=2, growth=growth, seed=seed):
        pd.testing.assert_frame_equal(future[ASKED], known.loc[original(future)].reset_index(drop=True))
        assert future["job_id"].is_unique and future["submit_time"].is_monotonic_increasing


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 99))
def test_the_local_clock_and_the_day_of_the_week_are_kept(seed):
    """A job comes on its day of the week, and within an hour of its local time."""
    jobs = log(seed=seed)
    jobs["_local"] = local_seconds(jobs, CHICAGO)
    burst_first = jobs.groupby(bursts(jobs))["_local"].transform("min")
    then = pd.DataFrame({"at": jobs["_local"].to_numpy(), "begin": burst_first.to_numpy()}, index=jobs["job_id"])
    for future in drawn(jobs.drop(columns="_local"), draws=2, growth=1.3, seed=seed):
        now = local_seconds(future, CHICAGO)
        before = then.loc[original(future)]
        moved = now - before["at"].to_numpy()
        off = (moved + WEEK // 2) % WEEK - WEEK // 2
        assert (np.abs(off) < 3600).all()
        first = ~future["job_id"].duplicated() & (off == 0)
        assert first.mean() > 0.3


def test_the_same_seed_gives_the_same_jobs():
    jobs = log()
    same = [drawn(jobs, draws=3, seed=7) for _ in range(2)]
    for one, other in zip(*same, strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert not drawn(jobs, draws=1, seed=8)[0].equals(same[0][0])


@pytest.mark.slow
def test_growth_1_keeps_the_expected_load():
    """Over 600 futures the CPU-hours of all, and of each class, are those of the log within 4 standard errors."""
    jobs = log(weeks=4, n=250)
    futures = drawn(jobs, draws=600, years=0)
    for number in [None, *range(len(CLASSES))]:
        past = cpu_seconds(jobs)[slice(None) if number is None else class_of(jobs) == number].sum()
        found = np.array(
            [cpu_seconds(one)[slice(None) if number is None else class_of(one) == number].sum() for one in futures]
        )
        assert abs(found.mean() - past) < 4 * found.std() / np.sqrt(len(found))
        assert found.std() / np.sqrt(len(found)) < 0.03 * past  # so the test can fail


def test_load_grows_over_the_years_and_by_class():
    """Bursts of the GPU class are expected 1.3 times as often a year, all others 1.1 times."""
    loads = Futures(draws=4, growth=1.1, mix={"gpu": 1.3}, years=2).loads()
    ahead = [0.25, 0.75, 1.25, 1.75]
    assert loads[:, CLASSES.index("gpu")] == pytest.approx([1.3**t for t in ahead])
    assert loads[:, CLASSES.index("cpu")] == pytest.approx([1.1**t for t in ahead])
    jobs = log(weeks=4, n=400)
    future = drawn(jobs, draws=40, mix={"gpu": 2.0}, years=2)
    gpu = [cpu_seconds(one)[class_of(one) == 0].sum() / cpu_seconds(jobs)[class_of(jobs) == 0].sum() for one in future]
    late, early = np.mean(gpu[20:]), np.mean(gpu[:20])
    assert late / early == pytest.approx(2.0, rel=0.2)


@pytest.mark.parametrize("seed", range(8))
def test_no_future_of_a_month_is_almost_empty(seed):
    """One user's bursts are not all left out at once: with seed 3 a month's future once had a single job."""
    jobs = log(weeks=5, n=60, users=1)
    assert min(map(len, drawn(jobs, draws=20, seed=seed))) > len(jobs) / 10


def test_a_log_of_more_than_a_year_keeps_its_season():
    """Of 60 weeks, a future is drawn from weeks at most four weeks from its own place in the year."""
    jobs = log(weeks=60, n=1500)
    begin = dict(zip(jobs["job_id"], jobs["submit_time"], strict=True))
    for future in drawn(jobs, draws=3, years=1):
        first = ~future["job_id"].str.contains("+", regex=False)
        was = np.array([begin[name] for name in original(future)])
        off = (future["submit_time"].to_numpy() - was) % (365.25 * DAY)
        # Copies move by up to the future's length, and a week may begin up to four weeks away.
        assert (np.minimum(off, 365.25 * DAY - off)[first] <= 35 * DAY).mean() > 0.99
    short = drawn(log(weeks=20, n=600), draws=3, years=1)
    assert len({name for one in short for name in original(one)}) > 300


def test_due_dates_move_with_their_jobs():
    jobs = log(weeks=3).assign(due_time=lambda frame: frame["submit_time"] + 500)
    future = drawn(jobs, draws=1)[0]
    assert (future["due_time"] - future["submit_time"] == 500).all()


@pytest.mark.parametrize("weeks", [0, 1, 2])
def test_less_than_three_weeks_are_refused_with_what_is_possible(weeks):
    jobs = log(weeks=max(weeks, 1)) if weeks else log().iloc[:0]
    with pytest.raises(TableError, match=r"3 whole local weeks.*what is possible: replay"):
        drawn(jobs)


def study_file(folder, futures: str = "draws = 3", workload: str = "", n: int = 150):
    write(log(n=n), folder / "jobs.parquet")
    more = f'[sweep]\nsample = 40\n[simulate]\npolicies = ["fcfs"]\n[futures]\n{futures}'
    return write_study(folder / "study.toml", f'jobs = "jobs.parquet"\n{workload}', more)


def test_the_template_shows_every_setting_of_futures():
    """The commented table of the template is legal, and names every key."""
    text = study_text(Path("x.toml"), Path("q.csv"), 1e6)
    block = re.sub("(?m)^# ", "", text[text.index("# [futures]") : text.index("[simulate]")])
    given = tomllib.loads(block)["futures"]
    assert set(given) == set(StudyFutures.model_fields)
    StudyFutures.model_validate(given)


def test_packages_are_compared_on_the_past_as_it_was(tmp_path):
    """The workload is the log, with its warm-up; drawn weeks are tried on the first packages alone."""
    path = study_file(tmp_path, "draws = 3\ngrowth = 1.5", 'warm_up = "1d"')
    path.write_text(path.read_text().replace("fcfs", "best-fit").replace("sample = 40", "sample = 4"))
    study = load_study(path)
    plan = load_plan(study)
    jobs = read(study.workloads[0].jobs, JOB)
    assert list(plan.workloads) == ["past"] and plan.n_counted("past") < len(jobs) == len(plan.workloads["past"])
    run_sweep(plan, "serial")
    done = recommend(path, k=4, resamples=0)
    waits = done.ranking.loc[done.ranking["simulated"] & (done.ranking["jobs_left_out"] == 0), "mean_wait_time"]
    assert waits.iloc[0] == waits.min()
    first = done.results.counts[done.ranking["row"].iloc[0]][None]
    runs = [simulate_packages(plan, first, "past", "best-fit", one) for one in draw_futures(jobs, study.futures)]
    said, mean = records(done)[0]["other_loads"], done.ranking["mean_wait_time"].iloc[0]
    assert said["weeks"]["mean_wait_time"] == pytest.approx(np.mean([run["mean_wait_time"].iloc[0] for run in runs]))
    assert [one["load"] for one in said["loads"]] == [1.2, 1.5] and said["weeks"]["n"] == 3
    assert said["days"]["low_wait_time"] <= mean <= said["days"]["high_wait_time"]
    path.write_text(path.read_text() + "past = false\n")
    with pytest.raises(TableError, match=r"past: .*removed"):
        load_study(path)
