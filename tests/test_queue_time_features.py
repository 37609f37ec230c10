"""Features of a job use only what was known when it was submitted."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.queue_time import features
from procure.queue_time import log as log_module
from procure.queue_time.features import BACKLOG, FEATURES, Feature, features_of, site_features
from procure.queue_time.log import NEVER, read_jobs
from procure.queue_time.model import QueueTimeModel, Settings
from procure.queue_time.store import train
from procure.queue_time.view import Events, Queue
from procure.schemas import JOB
from procure.tables import check


def random_jobs(seed: int, n: int = 60, span: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, span, n)) + 1_500_000_000
    wait = rng.integers(0, 600, n) * rng.integers(0, 2, n)
    run = rng.integers(1, 900, n)
    start = pd.array(submit + wait, dtype="Int64")
    end = pd.array(submit + wait + run, dtype="Int64")
    start[rng.random(n) < 0.05] = pd.NA
    return check(
        pd.DataFrame(
            {
                "job_id": [str(i) for i in range(n)],
                "user": rng.choice(["a", "b", "c"], n),
                "submit_time": submit,
                "requested_time": rng.integers(60, 2000, n),
                "run_time": run,
                "cpus_per_node": rng.integers(1, 32, n),
                "mem_mb_per_node": rng.integers(0, 64000, n),
                "gpus_per_node": rng.integers(0, 2, n),
                "partition": rng.choice(["long", "short"], n),
                "start_time": start,
                "end_time": end,
            }
        ),
        JOB,
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), at=st.integers(5, 55))
def test_nothing_after_a_submission_changes_a_feature(seed: int, at: int) -> None:
    """Later rows, and starts and ends from the submission on, may be anything."""
    jobs = random_jobs(seed)
    before = site_features(jobs).iloc[: at + 1]
    now = int(jobs["submit_time"].iloc[at])
    rng = np.random.default_rng(seed + 1)
    changed = jobs.copy()
    for name in ("start_time", "end_time"):
        later = (changed[name] >= now).fillna(False).to_numpy(dtype=bool)
        moved = pd.array(now + rng.integers(0, 5000, len(jobs)), dtype="Int64")
        changed.loc[later, name] = moved[later]
    changed["end_time"] = changed[["start_time", "end_time"]].max(axis=1)
    keep = changed.iloc[: at + 1]
    new = random_jobs(seed + 2, 20)
    new["submit_time"] += now - int(new["submit_time"].min()) + 1
    for name in ("start_time", "end_time"):
        new[name] = new["submit_time"] + rng.integers(0, 99, len(new))
    new["partition"] = "new"
    after = site_features(pd.concat([keep, new], ignore_index=True)).iloc[: at + 1]
    same_second = (jobs["submit_time"].iloc[: at + 1] <= now).to_numpy()
    row = after.iloc[[at]][before.columns]
    assert same_second.all()
    differs = ~np.isclose(row.to_numpy(), before.iloc[[at]].to_numpy(), rtol=1e-5, atol=1e-3, equal_nan=True)
    assert not differs.any(), list(before.columns[differs[0]])
    np.testing.assert_allclose(row.to_numpy(), before.iloc[[at]].to_numpy(), rtol=1e-5, atol=1e-3)


def test_counts_agree_with_a_slow_twin() -> None:
    """CPUs in use, queue depth, queued work and a user's last wait equal what a loop over all jobs finds."""
    jobs = random_jobs(3)
    found = site_features(jobs)
    start = jobs["start_time"].astype("Float64").to_numpy(dtype=float, na_value=np.inf)
    end = jobs["end_time"].to_numpy(dtype=float)
    left = np.minimum(start, end)
    submit, cpus = jobs["submit_time"].to_numpy(), jobs["cpus_per_node"].to_numpy()
    for i in range(len(jobs)):
        running = (start < submit[i]) & (end >= submit[i])
        waits = (np.arange(len(jobs)) < i) & (left >= submit[i])
        mine = (jobs["user"] == jobs["user"].iloc[i]).to_numpy()
        assert found["cpus_in_use"].iloc[i] == cpus[running].sum()
        assert found["queue_depth"].iloc[i] == waits.sum()
        assert found["user_depth"].iloc[i] == (waits & mine).sum()
        work = (cpus * jobs["requested_time"].to_numpy())[waits].sum()
        assert found["queued_cpu_seconds"].iloc[i] == pytest.approx(work, rel=1e-6)
        ages = submit[i] - submit[waits]
        assert found["queue_oldest_age"].iloc[i] == (ages.max() if len(ages) else 0)
        begun = np.flatnonzero(mine & (start < submit[i]))
        if len(begun):
            latest = begun[np.lexsort((begun, start[begun]))[-1]]
            expected = np.log1p(start[latest] - submit[latest])
            assert found["user_log_wait_1"].iloc[i] == pytest.approx(expected, abs=1e-4)
        else:
            assert np.isnan(found["user_log_wait_1"].iloc[i])


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), data=st.data())
def test_a_few_jobs_asked_about_have_the_features_that_they_have_among_all(seed: int, data: st.DataObject) -> None:
    """Asking about some rows only is a shortcut: it gives exactly those rows of the whole."""
    jobs = random_jobs(seed).sample(frac=1, random_state=seed)
    asked = np.array(data.draw(st.lists(st.integers(0, len(jobs) - 1), min_size=1, max_size=5)))
    most = {"cpus": float(seed % 400), "mem": 0.0, "gpus": 0.0}
    whole = site_features(jobs, most)
    pd.testing.assert_frame_equal(site_features(jobs, most, asked), whole.iloc[asked], check_exact=True)


def test_a_queue_on_numbers_small_enough_to_check_by_hand() -> None:
    """Sums, the oldest age and earlier rows, of all jobs and of one group's."""
    submit, left, rows = np.array([0, 5, 9, 9]), np.array([9, 6, 99, NEVER]), np.arange(4)
    group, none, gone = np.array([0, 1, 0, 0]), np.zeros(4, int), Events.of(left)
    parted = (submit, left, group, gone.grouped(group, 3))
    everyone, by_group = Queue(submit, left, none, gone, submit, rows, none), Queue(*parted, submit, rows, group)
    amount = np.array([1.0, 2, 4, 8])
    assert everyone.total(everyone.piled(amount)).tolist() == [0, 1, 1, 5]
    assert by_group.total(by_group.piled(amount)).tolist() == [0, 0, 1, 5]
    assert everyone.oldest_age().tolist() == [0, 5, 9, 9]
    assert by_group.oldest_age().tolist() == [0, 0, 9, 9]
    assert by_group.earlier(1).tolist() == [-1, -1, 0, 2]
    assert by_group.earlier(2).tolist() == [-1, -1, -1, 0]
    assert by_group.earlier(9).tolist() == [-1, -1, -1, -1]
    later = Queue(*parted, np.array([50, 50, 50]), np.array([4, 4, 4]), np.array([0, 1, 2]))
    assert later.total(later.piled(amount)).tolist() == [12, 0, 0] and later.oldest_age().tolist() == [41, 0, 0]
    assert later.earlier(1).tolist() == [3, 1, -1]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 400), stretch=st.sampled_from([1, 3000, 100_000]))
def test_a_question_has_the_features_of_a_job_that_comes_then(seed: int, n: int, stretch: int) -> None:
    """Questions of one moment have the features of jobs submitted then, each alone, though much is left out."""
    jobs = random_jobs(seed, n, 40 * n)
    first = jobs["submit_time"].min()
    jobs["submit_time"] = first + (jobs["submit_time"] - first) * stretch
    wait = jobs["start_time"] - first - (jobs["submit_time"] - first) // stretch
    jobs["start_time"], jobs["end_time"] = (jobs["submit_time"] + wait, jobs["submit_time"] + wait + jobs["run_time"])
    most = {"cpus": 1e5, "mem": 1e9, "gpus": 1e4}
    log = read_jobs(jobs)
    last = jobs.sort_values("submit_time", kind="stable").iloc[[-1, n // 2]]
    now = int(jobs["submit_time"].max()) + 1
    asked = [
        {
            "cpus": int(one.n_nodes * one.cpus_per_node),
            "mem": int(one.n_nodes * one.mem_mb_per_node),
            "gpus": int(one.n_nodes * one.gpus_per_node),
            "nodes": int(one.n_nodes),
            "limit": int(one.requested_time),
            "user": one.user,
            "partition": one.partition,
            "model": "",
        }
        for one in last.itertuples()
    ]
    found = features_of(log, log.asking(now, asked), most)
    for place in range(2):
        one = last.iloc[[place]].assign(submit_time=now, start_time=pd.NA, end_time=pd.NA)
        whole = site_features(pd.concat([jobs, one.astype(jobs.dtypes)], ignore_index=True), most)
        pd.testing.assert_frame_equal(
            found.iloc[[place]].reset_index(drop=True),
            whole.iloc[[n]].reset_index(drop=True),
            rtol=1e-4,
            atol=1e-2,
            check_exact=False,
        )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_log_asked_again_or_with_jobs_left_out_tells_what_one_read_anew_tells(seed: int) -> None:
    """What is kept of a log for all who ask is nobody's; a question like no job has no past, whoever is left out."""
    jobs, rng = random_jobs(seed), np.random.default_rng(seed)
    now, gone = int(jobs["submit_time"].max()) + 1, (rng.random(len(jobs)) < 0.5) & (np.arange(len(jobs)) > 0)
    keys = ("cpus", "mem", "gpus", "nodes", "limit", "user", "partition", "model")
    draws = zip(
        *(rng.choice(one, 6) for one in ([1, 8, 31], [0, 64], [0, 1], [1], [60, 1999], ["a", "d"])), strict=True
    )
    asked = [dict(zip(keys, (*map(int, one[:5]), str(one[5]), "long", ""), strict=True)) for one in draws]
    log = read_jobs(jobs)
    for some, anew in ((log, jobs), (log.without(gone[log.order]), jobs[~gone])):
        for part in (asked[:2], asked[2:]):
            fresh = read_jobs(anew.reset_index(drop=True))
            pd.testing.assert_frame_equal(
                features_of(some, some.asking(now, part)), features_of(fresh, fresh.asking(now, part))
            )


@pytest.mark.parametrize(("n", "seconds"), [(100, 1000), (10, 5000)])
def test_the_last_jobs_tell_what_a_whole_log_tells(monkeypatch: pytest.MonkeyPatch, n: int, seconds: int) -> None:
    """Of the jobs at its end, the tail of a log that a model keeps gives every feature, windows apart, to the bit."""
    monkeypatch.setattr(log_module, "LOOK_BACK", n)
    monkeypatch.setattr(log_module, "LOOK_SPAN", seconds)
    jobs = random_jobs(5, 600, 30_000)
    jobs["user"] = np.where(np.arange(600) % 180 == 10, "seldom", jobs["user"])
    most = {"cpus": 1e5, "mem": 1e9, "gpus": 1e4}
    whole, tail = site_features(jobs, most), site_features(jobs.tail(350).reset_index(drop=True), most)
    own = [name for name in whole.columns if not name.startswith("recent_") and name != BACKLOG]
    own = [name for name in own if not name.endswith(("6h", "24h", "1d", "7d"))]
    first, last = (one[own].tail(100).reset_index(drop=True) for one in (whole, tail))
    pd.testing.assert_frame_equal(first, last, check_exact=True)
    assert last["like_before_1_ago"].max() <= max(seconds, n * 90) and last["user_before_1_ago"].isna().any()


def test_recent_quantiles_agree_with_a_slow_twin() -> None:
    """The median of a partition's day and of a user's month is that of the last fifty at most, evenly thinned."""
    jobs = random_jobs(7, 200, 200_000)
    found = site_features(jobs)
    submit, start = jobs["submit_time"].to_numpy(), jobs["start_time"].to_numpy(dtype=float, na_value=np.inf)
    for kind, group, seconds in (("day", "partition", 86_400), ("user", "user", 30 * 86_400)):
        for row in range(0, 200, 7):
            known = (start < submit[row]) & (start >= submit[row] - seconds)
            known &= (jobs[group] == jobs[group].iloc[row]).to_numpy()
            waits = (start - submit)[known][np.argsort(start[known], kind="stable")]
            n = min(len(waits), 50)
            kept = np.log1p(np.sort([waits[len(waits) - 1 - i * len(waits) // n] for i in range(n)]))
            expected = np.interp(0.5 * (n + 1) - 1, range(n), kept) if n else np.nan
            np.testing.assert_allclose(found[f"recent_{kind}_50"].iloc[row], expected, rtol=1e-5, atol=1e-6)


def test_the_backlog_is_the_work_ahead_over_the_cpus_in_use() -> None:
    """Own waiting jobs at the share of limits that the user uses, all others at everyone's; 0 where the job fits."""
    head = ["job_id", "user", "submit_time", "requested_time", "run_time", "cpus_per_node", "start_time", "end_time"]
    jobs = check(
        pd.DataFrame(
            [
                ("1", "a", 0, 100, 50, 1, 0, 50), ("2", "b", 0, 100, 100, 1, 0, 100),
                ("3", "b", 0, 1000, 1000, 4, 100, 1100), ("4", "a", 200, 200, 100, 2, 1100, 1200),
                ("5", "a", 200, 200, 100, 2, 1100, 1200), ("6", "b", 300, 100, 100, 4, 1200, 1300),
                ("7", "a", 600, 60, 60, 2, 1300, 1360), ("8", "a", 9000, 60, 60, 2, 9000, 9060),
            ],
            columns=head,
        ),
        JOB,
    )  # fmt: skip
    found = site_features(jobs)["expected_backlog"]
    others, own, running = 4 * 100 * 0.75, 2 * 2 * 200 * 0.5, 4 * 500 * 0.75
    assert found[6] == pytest.approx((others + own + running) / 4)
    assert found[7] == 0


def test_a_partition_that_uses_no_cpu_has_a_backlog_that_is_a_number() -> None:
    """Jobs that ask for GPUs alone wait behind each other; nothing is divided by their CPUs."""
    frame = {"job_id": list("1234"), "submit_time": [0, 10, 20, 30], "start_time": [100, 200, 300, 400], "run_time": 5}
    jobs = check(pd.DataFrame(frame | {"requested_time": 100, "cpus_per_node": 0, "gpus_per_node": 1}), JOB)
    assert np.isfinite(site_features(jobs)[BACKLOG]).all()


def test_a_feature_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "FEATURES", [*FEATURES, Feature("lucky", lambda v: 7 * v.ask.cpus)])
    site = train(random_jobs(3, 150, 40_000), settings=Settings(rounds=3, holdout=0.0))
    assert isinstance(site.model, QueueTimeModel) and "lucky" in site.model.names
