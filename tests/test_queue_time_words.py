"""What `queue predict` and `watch` say in words: why, with what caution, and what each feature means."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.queue_time import answer as answers
from procure.queue_time import predict as room
from procure.queue_time import store
from procure.queue_time.distribution import GRID, LEAST_LEFT, USUAL, Distribution
from procure.queue_time.features import site_features
from procure.queue_time.predict import Request, situation, widened
from tests.test_queue_time_model import busy_model


@pytest.fixture(scope="module")
def site() -> store.SiteModel:
    """A quickly trained model of a busy site."""
    return busy_model()


def queue_of(site: store.SiteModel, n: int = 3) -> pd.DataFrame:
    """A state: 60 CPUs run, and n jobs wait in batch, the first of alice."""
    now = int(site.about["end"]) + 600
    rows = [
        {
            "job_id": f"w{i}", "user": "alice" if i < 2 else "bob", "partition": "batch", "submit_time": now - 500 + i,
            "requested_time": 7200, "run_time": 0, "n_nodes": 1, "cpus_per_node": 60 if i == 0 else 8,
            "mem_mb_per_node": 0, "gpus_per_node": 0, "start_time": now - 400 if i == 0 else pd.NA, "end_time": pd.NA,
        }
        for i in range(n + 1)
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    return frame.astype({"start_time": "Int64", "end_time": "Int64"})


def forecast(site: store.SiteModel, features: pd.DataFrame, deadline: float | None = None, doubt: float = 0.0) -> dict:
    said = widened(site.model.distribution(features), doubt).summary(deadline)
    return {name: values if values is None else values[0] for name, values in said.items()}


def test_a_job_of_the_history_that_waits_is_told_by_the_queue(site) -> None:  # type: ignore[no-untyped-def]
    """Of jobs that had not ended, the state of the queue alone tells; one that it does not list has gone."""
    state = queue_of(site)
    again = site.history.iloc[[-5]].assign(start_time=pd.NA, end_time=pd.NA)  # a job of the history that waits
    state = pd.concat([state, again.astype(state.dtypes)], ignore_index=True)
    ended = int(site.history["end_time"].notna().sum())
    assert len(room._known(site, site.history.iloc[:0])) == ended
    assert len(room._known(site, state)) == ended - 1 + len(state)


def test_doubt_makes_the_interval_wider(site) -> None:  # type: ignore[no-untyped-def]
    """With the median where it was, and intervals and chances of one distribution."""
    here = situation(site, [Request(32, 7200, user="a")], queue_of(site))
    sure, unsure = (forecast(site, here.features, 3600.0, doubt=doubt) for doubt in (0.0, 0.6))
    assert unsure["median"] == pytest.approx(sure["median"])
    assert unsure["lower_90"] <= sure["lower_90"] and unsure["upper_90"] > sure["upper_90"]
    said = widened(site.model.distribution(here.features), 0.6)
    assert said.chance(said.quantile(0.9))[0] == pytest.approx(0.9, abs=1e-6)
    unknown = replace(Request(32, 60), user="zed")
    wide = answers.predict_queue(site, unknown, queue_of(site))
    assert any("interval is wider" in text for text in wide["caution"])
    narrow = forecast(site, situation(site, [unknown], queue_of(site)).features)
    assert wide["upper_90"] > narrow["upper_90"]


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 400_000), st.sampled_from("aabz")), min_size=3, max_size=8))
def test_a_like_job_behind_another_is_never_stated_to_start_sooner(site, queued) -> None:  # type: ignore[no-untyped-def]
    """Of jobs of one request, each stated quantile is in order of submission, in the list and asked for one by one."""
    now = int(site.about["end"]) + 600
    one = queue_of(site, 1).iloc[[1]]
    state = pd.concat(
        [one.assign(job_id=f"q{i}", submit_time=now - age, user=user) for i, (age, user) in enumerate(queued)],
        ignore_index=True,
    )
    for user in set(state["user"]):
        found = room.pending_waits(site, state, user, now)
        for name in ("lower_90", "lower_50", "median", "upper_50", "upper_90"):
            assert (found[name].diff().dropna() >= -1e-6).all(), name
        one_alone = room.pending_waits(site, state, user, now, job_id=found["job_id"].iloc[0])
        assert one_alone["median"].tolist() == pytest.approx(found["median"].tolist()[:1])


def test_a_pending_jobs_wait_counts(site) -> None:  # type: ignore[no-untyped-def]
    """What remains is the mean of three views: given the wait so far, in its place now, and as said at submission."""
    state = queue_of(site)
    for later in (600, 86400, 30 * 86400, 3000 * 86400):
        now = int(state["submit_time"].max()) + later
        job = room.pending_waits(site, state, "alice", now).iloc[0]
        assert job["waited"] == now - int(state["submit_time"].iloc[1])
        assert 0 <= job["lower_90"] <= job["median"] <= job["upper_90"] < np.inf
    # Beyond everything seen only the time waited is left to go by.
    assert job["median"] == pytest.approx(job["waited"], rel=0.05)
    table = pd.concat([site.history[site.history["end_time"].notna()], state], ignore_index=True)
    features = site_features(table, site.about["most"], asked=np.flatnonzero(table["job_id"] == "w1"))
    now = int(state["submit_time"].iloc[1]) + 600
    found = room.pending_waits(site, state, "alice", now).iloc[0]
    place = table[~table["job_id"].isin(["w1", "w2", "w3"])]  # nobody behind it counts
    again = pd.concat([place, state[state["job_id"] == "w1"].assign(submit_time=now)], ignore_index=True)
    fresh = site_features(again, site.about["most"], asked=np.array([len(again) - 1]))
    own = site.model.distribution(features)
    views = [own.after(600, site.model.usual), site.model.distribution(fresh), own]
    mean = Distribution(np.expm1(np.mean([np.log1p(one.curve) for one in views], axis=0)))
    assert found["median"] == pytest.approx(mean.quantile(0.5)[0], rel=1e-4)
    assert [found["lower_90"], found["upper_90"]] == pytest.approx(mean.interval()[0], rel=1e-4, abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 1e7))
def test_what_remains_is_the_rest_of_both_curves(seed: int, waited: float) -> None:
    """The quantile p of what remains is where the pooled chance has come p of the way from now to certainty."""
    rng = np.random.default_rng(seed)
    own, usual = (np.sort(np.expm1(rng.uniform(0, 14, len(GRID)))) for _ in range(2))
    left = Distribution(own[None]).after(waited, usual)
    assert (np.diff(left.curve[0]) >= -1e-6).all() and left.curve[0, 0] >= -1e-6

    def pooled(at: float) -> float:
        chances = (float(Distribution(curve[None]).chance(at)[0]) for curve in (own, usual))
        first, second = chances
        return (1 - USUAL) * first + USUAL * second

    gone = pooled(waited)
    if gone < 1 - LEAST_LEFT:
        for place, level in enumerate(GRID[1:-1], 1):
            assert pooled(waited + left.curve[0, place]) == pytest.approx(gone + (1 - gone) * level, abs=0.01)


def test_ways_stay_within_what_jobs_of_the_partition_asked_for(site) -> None:  # type: ignore[no-untyped-def]
    """No way but the one asked for has a longer limit than any job of its partition had."""
    jobs = site.history
    for limit in (3600, int(0.9 * jobs["requested_time"].max())):
        rows = answers.what_if(site, Request(16, limit, partition="batch"), queue_of(site))
        for way in rows[~rows["as_asked"]].itertuples():
            assert way.requested_time <= jobs.loc[jobs["partition"] == way.partition, "requested_time"].max()
        assert len(rows) > 1


def test_what_if_repeats_the_answer_for_the_job_as_asked(site) -> None:  # type: ignore[no-untyped-def]
    """The row of the job as it was asked for has the intervals and the chance that the answer has, doubt included."""
    state = queue_of(site)
    asked = Request(3, 777, partition="batch", user="nobody-yet")
    said = answers.predict_queue(site, asked, state, deadline=600.0)
    assert len(said["caution"]) >= 2
    rows = answers.what_if(site, asked, state, 600.0)
    one = rows[rows["as_asked"]].iloc[0]
    for name in ("median", "lower_50", "upper_50", "lower_90", "upper_90", "p_before_deadline"):
        assert one[name] == pytest.approx(said[name], rel=1e-6, abs=1e-6), name


def test_a_question_imports_no_booster_library() -> None:
    """What takes most of a second to import is left alone by `queue predict` and `watch`."""
    code = "import sys, procure.cli.queue; print([m for m in sys.argv[1:] if m in sys.modules])"
    heavy = ["xgboost", "sklearn", "scipy", "vl_convert", "numba"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("n", "every", "kept"), [(500, 60, 500), (50_000, 60, 30_000), (60_000, 20, 34_561), (150_000, 1, 100_000)]
)
def test_a_model_file_keeps_what_the_features_need(n: int, every: int, kept: int) -> None:
    """The last 30,000 jobs; of a busier site those of the last eight days, up to 100,000."""
    assert len(store.recent(pd.DataFrame({"submit_time": np.arange(n) * every}))) == kept
