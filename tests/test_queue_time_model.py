"""Models of the wait, their intervals, their files, and how they are judged."""

import pickle
import time
import zipfile
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from procure.errors import TableError
from procure.queue_time import evaluation, store, trend
from procure.queue_time.booster import fit_published
from procure.queue_time.evaluation import Forecast, beats, evaluate
from procure.queue_time.features import site_features
from procure.queue_time.log import UNKNOWN, bursts, chronological, left_out, queue_jobs, random_split, wait_times
from procure.queue_time.model import QueueTimeModel, Settings
from procure.queue_time.predict import Request, situation
from procure.queue_time.store import continue_training, train
from procure.schemas import JOB
from procure.tables import check

NAIVE = ("zero", "mean", "median", "last_like", "partition_5", "recent")
QUICK = Settings(rounds=15, max_pairs=5000, holdout=0.2)


def busy_site(n: int = 1500, seed: int = 0) -> pd.DataFrame:
    """One queue, first come first served on 64 CPUs, over about six weeks."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 45 * 86400, n)) + 1_600_000_000
    cpus = rng.choice([1, 2, 4, 8, 16, 32], n)
    run = rng.lognormal(8.6, 1.0, n).astype(int) + 1
    free_at = np.full(64, 0)
    start = np.empty(n, np.int64)
    for i in range(n):
        free_at.sort()
        start[i] = max(submit[i], free_at[cpus[i] - 1], start[i - 1] if i else 0)
        free_at[: cpus[i]] = start[i] + run[i]
    return check(
        pd.DataFrame(
            {
                "job_id": [str(i) for i in range(n)],
                "user": rng.choice(list("abcdef"), n),
                "submit_time": submit,
                "requested_time": run * 2,
                "run_time": run,
                "cpus_per_node": cpus,
                "partition": rng.choice(["batch", "long"], n),
                "start_time": start,
                "end_time": start + run,
            }
        ),
        JOB,
    )


@cache
def _trained() -> bytes:
    return pickle.dumps(train(busy_site(900), settings=QUICK))


def busy_model() -> store.SiteModel:
    """Return a quickly trained model of 900 jobs of a busy site, a new one each time."""
    return pickle.loads(_trained())


@pytest.fixture(scope="module")
def jobs() -> pd.DataFrame:
    return busy_site()


@pytest.fixture(scope="module")
def site(jobs: pd.DataFrame) -> store.SiteModel:
    return train(jobs, settings=QUICK)


def test_of_a_large_log_the_last_jobs_are_learnt_from(monkeypatch) -> None:
    """Features of 10^7 jobs took more than 24 GB; the boosters learn from the last 100,000 anyway."""
    log = busy_site(900)
    log.loc[7, "end_time"] = log["submit_time"].iloc[-1]  # it runs all the time
    monkeypatch.setattr(store, "MOST_JOBS", 300)
    cut = store.last_jobs(log)
    assert cut["job_id"].to_list() == ["7", *log["job_id"].iloc[-300:]] == ["7", *map(str, range(600, 900))]
    assert train(log, settings=QUICK).about["n_rows"] == cut["start_time"].notna().sum()


def test_the_published_confusion_matrix() -> None:
    """Recall is TP/(TP+FN), and the published counts give the published figures."""
    wait = np.repeat([0.0, 2.0, 0.0, 2.0], [107208, 1490, 3366, 33594])
    said = np.repeat([0.0, 0.0, 2.0, 2.0], [107208, 1490, 3366, 33594])
    found = evaluation.confusion(wait, said, 1.0)
    shown = [round(100 * found[name], 2) for name in ("accuracy", "precision", "recall", "f1")]
    assert shown == [96.67, 98.63, 96.96, 97.79]


def test_splits_keep_their_promises(jobs: pd.DataFrame) -> None:
    """Bursts stay whole; a chronological model trains on what had started."""
    wait, submit = wait_times(jobs), jobs["submit_time"].to_numpy()
    number = bursts(jobs)
    by_burst = random_split(len(jobs), 0, number)
    assert not set(number[by_burst.train]) & set(number[by_burst.test])
    assert set(by_burst.train) | set(by_burst.test) == set(range(len(jobs)))
    one = chronological(submit, wait)
    assert (submit[one.train] + wait[one.train] < submit[one.test].min()).all()
    assert len(one.test) == len(jobs) - int(0.8 * len(jobs))


@pytest.mark.slow
def test_a_seed_gives_the_same_file_at_any_time(
    jobs: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trained and saved again an hour later, a model file has the same bytes; another seed has others."""
    paths = [tmp_path / name for name in ("one", "other", "seed")]
    jobs = jobs[:600]
    store.save(train(jobs, settings=QUICK), paths[0])
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    store.save(train(jobs, settings=QUICK), paths[1])
    store.save(train(jobs, settings=replace(QUICK, seed=1)), paths[2])
    one, other, seed = (path.read_bytes() for path in paths)
    assert one == other
    assert one != seed


@pytest.mark.slow
def test_a_model_file_comes_back_small_and_whole(site: store.SiteModel, jobs: pd.DataFrame, tmp_path: Path) -> None:
    """A saved model predicts the same, and holds no pickle."""
    path = tmp_path / "site.model"
    store.save(site, path)
    again = store.load(path)
    assert isinstance(again.model, QueueTimeModel)
    assert isinstance(site.model, QueueTimeModel)
    assert set(again.model.boosters) == {"seconds", "chance", "again"}
    features = site_features(jobs)
    np.testing.assert_array_equal(again.model.curve(features), site.model.curve(features))
    request = Request(16, 7200, user="a")
    one, other = (
        each.model.distribution(situation(each, [request]).features).summary(3600.0) for each in (again, site)
    )
    assert one == other
    assert path.stat().st_size < 20e6
    with zipfile.ZipFile(path) as archive:
        assert {name.rsplit(".", 1)[1] for name in archive.namelist()} == {"json", "npz"}


@pytest.mark.slow
def test_an_update_learns_what_became_of_jobs_that_waited(jobs: pd.DataFrame) -> None:
    """Jobs pending when the model was trained are followed; the mixture after an update knows what became of them."""
    submit, start = jobs["submit_time"].to_numpy(), jobs["start_time"].to_numpy(dtype=float)
    pending = [int((start[:row] >= submit[row]).sum()) for row in range(600, 1000)]
    row = 600 + int(np.argmax(pending))
    now, seen = int(submit[row]), jobs.iloc[:row].copy()
    for name in ("start_time", "end_time"):
        seen[name] = seen[name].astype("Int64").mask(seen[name] >= now)
    seen["state"] = np.where(seen["start_time"].isna(), "PENDING", "COMPLETED")
    site = train(seen, settings=QUICK)
    followed = site.model.mixture.jobs  # type: ignore[union-attr]
    waiting = set(followed.name[followed.left == UNKNOWN])
    assert waiting
    usual = np.zeros(1, bool)
    mixture = site.model.mixture
    before = mixture.weights(usual, mixture.until)
    later = continue_training(site, jobs.iloc[row - 100 :])
    mixed = later.model.mixture  # type: ignore[union-attr]
    assert not waiting & set(mixed.jobs.name[mixed.jobs.left == UNKNOWN])
    assert not np.allclose(mixed.weights(usual, mixed.until), before)
    assert mixed.until > now


@pytest.mark.slow
def test_update_continues_and_refuses_old_rows(jobs: pd.DataFrame) -> None:
    """Newer rows join the history, each once however often the log has it; a log without any is refused."""
    site = train(jobs.iloc[:1000], settings=QUICK)
    told: list[str] = []
    later = continue_training(site, pd.concat([jobs.iloc[900:], jobs.iloc[1450:]]), note=told.append)
    assert told[-1] == "500 newer jobs"
    assert later.about["last"] == jobs["submit_time"].max()
    again = continue_training(later, jobs.iloc[1200:], note=told.append)
    assert told[-1] == "0 newer jobs" and again.about["last"] == later.about["last"]
    assert again.about["trained_until"] == site.about["end"] < again.about["end"]
    assert (site.grown, later.grown) == (0, pytest.approx(500 / site.about["trained_rows"]))
    with pytest.raises(TableError, match="ends before"):
        continue_training(later, jobs.iloc[:500])


@pytest.mark.slow
def test_growth_is_of_the_waits_that_the_boosters_learnt_from(jobs: pd.DataFrame) -> None:
    """They learn from the last `max_rows` at most; a job counts once its start is known, then or by a later log."""
    waiting = jobs.copy()
    waiting.loc[waiting.index[[*range(990, 1000), *range(1290, 1300)]], ["start_time", "end_time"]] = pd.NA
    waiting["state"] = np.where(waiting["start_time"].isna(), "PENDING", "")
    site = train(waiting.iloc[:1000], settings=replace(QUICK, max_rows=400))
    assert site.about["n_rows"] == 990 and site.about["trained_rows"] == 400
    assert continue_training(deepcopy(site), waiting.iloc[:1000]).grown == 0
    assert continue_training(deepcopy(site), jobs.iloc[900:1300]).grown == 310 / 400
    later = continue_training(site, waiting.iloc[900:1300])
    assert later.grown == 290 / 400
    assert continue_training(deepcopy(later), waiting.iloc[1200:1300]).grown == 290 / 400
    assert continue_training(later, jobs.iloc[900:1400]).grown == 410 / 400


@pytest.mark.slow
def test_a_log_that_only_tells_the_end_of_a_waiting_job_is_welcome(jobs: pd.DataFrame) -> None:
    """It may end before the model's own log does; one that tells of nothing that waited or ran is refused."""
    seen = jobs.iloc[:1000].copy()
    seen.loc[seen.index[[-5, -1]], ["start_time", "end_time"]] = pd.NA
    site = train(seen.assign(state=np.where(seen["start_time"].isna(), "PENDING", "")), settings=QUICK)
    with pytest.raises(TableError, match="nothing to continue with"):
        continue_training(site, jobs.iloc[985:995])
    later = continue_training(site, jobs.iloc[990:998])
    assert later.history["start_time"].isna().tolist() == [*[False] * 999, True]
    followed = later.model.mixture.jobs  # type: ignore[union-attr]
    assert (followed.left == UNKNOWN).sum() == 1


def test_few_bursts_make_no_winner() -> None:
    """Between two forecasts of equal bursts neither is better; one that is better in each burst is so in every draw."""
    wait, burst = np.full(40, 100.0), np.repeat(np.arange(8), 5)
    near, far = Forecast(np.full(40, 90.0)), Forecast(np.full(40, 10.0))
    assert beats(wait, near, far, burst) == 1 and beats(wait, far, near, burst) == 0
    mixed = Forecast(np.where(burst % 2 == 0, 100.0, -0.0))
    assert 0.1 < beats(wait, mixed, Forecast(np.full(40, 55.0)), burst) < 0.9


def test_a_job_joins_the_queue_when_it_may_start(jobs: pd.DataFrame) -> None:
    """Held time is no wait; a job never eligible, or that starts before its submission, is left out and said so."""
    jobs = jobs.iloc[:300].reset_index(drop=True)
    eligible = jobs["submit_time"].astype("Int64")
    eligible[5] += (jobs["start_time"][5] - jobs["submit_time"][5]) // 2
    held = jobs.assign(eligible_time=eligible, state="")
    held.loc[7, ["start_time", "end_time", "eligible_time"]] = pd.NA
    held.loc[7, "state"] = "PENDING"
    held.loc[9, "start_time"] = held.loc[9, "submit_time"] - 30
    found = queue_jobs(held).set_index("job_id")
    assert set(jobs["job_id"]) - set(found.index) == {jobs["job_id"][7], jobs["job_id"][9]}
    assert found.loc[jobs["job_id"][5], "submit_time"] == eligible[5]
    said = " ".join(left_out(held))
    assert "1 job left out: the start is before" in said and "1 job left out: held" in said
    assert left_out(jobs) == []
    without = queue_jobs(jobs.drop(columns="end_time"))
    assert (without["end_time"] == without["start_time"] + without["run_time"]).all()


def test_a_log_that_begins_long_after_the_model_is_refused(jobs: pd.DataFrame) -> None:
    """Two months between the model's end and a log would pass for an empty queue."""
    site = train(jobs.iloc[:800], QUICK)
    later = jobs.iloc[800:].copy()
    for name in ("submit_time", "start_time", "end_time"):
        later[name] += 60 * 86_400
    with pytest.raises(TableError, match=r"the log begins .* after the model's ends"):
        continue_training(site, later)


def test_sums_in_doubles_are_those_of_the_booster() -> None:
    """The published pipeline adds the leaves itself; XGBoost's single precision says the same to six digits."""
    rng = np.random.default_rng(0)
    rows = rng.random((300, 4)).astype(np.float32)
    one = fit_published(rows, 1000 * rows.sum(axis=1), 20)
    np.testing.assert_allclose(one.predict_in_doubles(rows), one.predict(rows), rtol=1e-6)


def test_each_naive_rule_has_its_own_errors_of_the_time_before(jobs: pd.DataFrame) -> None:
    """A rule that says zero states the quantiles of the training rows' waits; no rule states one number alone."""
    found = evaluate(jobs.iloc[:400], ["chronological"], ["gbt"], k=2)
    split = found.splits["chronological"]
    known = np.expm1(np.quantile(np.log1p(found.wait[split.train]), evaluation.LEVELS))
    losses = {row["method"]: row["pinball"] for row in found.rows}
    for name in NAIVE:
        rows, one = found.forecasts["chronological", name]
        assert one.quantiles is not None and (np.diff(one.quantiles, axis=1) >= 0).all()
        assert losses[name] == pytest.approx(evaluation.pinball(found.wait[rows], one.quantiles).mean())
    zero = found.forecasts["chronological", "zero"][1].quantiles
    assert zero is not None and zero[0] == pytest.approx(known) and zero[-1] == pytest.approx(known)


def test_the_rival_uses_nothing_that_comes_later() -> None:
    """Whatever waits become that are not over at a submission, nothing said by then changes."""
    rng = np.random.default_rng(0)
    said = np.sort(rng.exponential(3000, (300, 4, 5)), axis=2)
    submit, wait = np.sort(rng.integers(0, 50_000, 300)).astype(float), rng.exponential(3000, 300)
    at = 200
    later = np.where(submit + wait >= submit[at], wait + 9000, wait)
    one, other = (evaluation.rival_average(said, submit, each, 0) for each in (wait, later))
    np.testing.assert_array_equal(one[: at + evaluation._RENEWED], other[: at + evaluation._RENEWED])
    assert (one[-evaluation._RENEWED :] != other[-evaluation._RENEWED :]).any() and (np.diff(one, axis=1) >= 0).all()


def test_a_trend_of_noise_is_called_noise() -> None:
    """On waits that do not depend on the past the permutation test finds nothing, and the share of calls shows."""
    jobs = busy_site(800, 7)
    rng = np.random.default_rng(0)
    jobs["start_time"] = jobs["submit_time"] + rng.integers(0, 1000, len(jobs))
    jobs["end_time"] = jobs["start_time"] + jobs["run_time"]
    judged = trend.judge_trend(jobs)
    assert set(judged["method"]) == {"published", "seasonal_naive"}
    line = judged[(judged["method"] == "published") & (judged["split"] == "random")].iloc[0]
    assert line["p_value"] > 0.001
    assert line["accuracy_as_published"] == (line["tp"] + line["fp"]) / line["n_test"]
