"""benchmarks/queue_time_published.py: ready-made features, one point, and the chances of given deadlines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import queue_time_published
from hypothesis import given
from hypothesis import strategies as st
from queue_time_direct import Direct, agree
from queue_time_published import evaluate_ready, read_ready

from procure.errors import TableError
from procure.queue_time.metrics import LEVELS, Forecast
from procure.queue_time.model import Settings
from procure.queue_time.splits import Split, random_split

DEADLINES = (600.0, 3600.0, 7200.0)
QUICK = Settings(rounds=5, max_pairs=2000, leaves=8, n_groups=3)


def rows(n: int = 900) -> tuple[pd.DataFrame, np.ndarray]:
    """Waits that a threshold in one feature decides, with noise on either side of it."""
    rng = np.random.default_rng(0)
    features = pd.DataFrame({"depth": rng.uniform(0, 1, n), "cpus": rng.integers(1, 9, n)})
    return features, np.where(features["depth"] > 0.6, 5000.0, 100.0) * rng.uniform(0.5, 1.5, n)


def direct(power: float = 0.25, members: int = 2) -> Direct:
    return Direct(power, True, 20, members, {"max_depth": 3, "min_child_weight": 1, "eta": 0.3})


def forecast(how: Direct, wait: np.ndarray, split: Split, seed: int = 0) -> Forecast:
    quantiles = np.tile([1.0, 50.0, 300.0, 4000.0, 9000.0], (len(split.test), 1))
    return how.forecast(rows()[0], wait, split, DEADLINES, quantiles, seed)


@given(st.integers(0, 2**32 - 1))
def test_quantiles_lie_on_the_side_of_a_deadline_that_its_chance_says(seed: int) -> None:
    """After agreeing, a level is at most a chance just when its quantile keeps the deadline; order stays."""
    rng = np.random.default_rng(seed)
    quantiles = np.sort(rng.uniform(0, 10_000, (20, 5)), axis=1)
    chances = dict(zip(DEADLINES, np.sort(rng.uniform(0, 1, (3, 20)), axis=0), strict=True))
    moved = agree(quantiles, LEVELS, chances)
    assert (np.diff(moved, axis=1) >= 0).all()
    for deadline, chance in chances.items():
        assert ((moved <= deadline) == (chance[:, None] >= LEVELS)).all()


@pytest.mark.parametrize("power", [0.0, 0.25])
def test_point_intervals_and_chances_say_the_same(power: float) -> None:
    """A point keeps a deadline just when the chance is at least a half; chances never fall with a deadline."""
    _, wait = rows()
    said = forecast(direct(power), wait, random_split(len(wait), 0))
    assert said.chances is not None and said.quantiles is not None
    assert (np.diff(np.array(list(said.chances.values())), axis=0) >= 0).all()
    for deadline, chance in said.chances.items():
        assert ((said.point <= deadline) == (chance >= 0.5)).all()
        assert ((said.quantiles[:, 2] <= deadline) == (chance >= 0.5)).all()


def test_it_learns_the_training_rows_and_nothing_of_the_test_rows() -> None:
    """The threshold is found; other waits of the test rows change no answer; the seed decides it all."""
    _, wait = rows()
    split = random_split(len(wait), 0)
    said = forecast(direct(), wait, split)
    assert ((said.point <= 600) == (wait[split.test] <= 600)).mean() > 0.97
    assert np.abs(said.point / wait[split.test] - 1).mean() < 0.5
    changed = wait.copy()
    changed[split.test] = 1e6
    other = forecast(direct(), changed, split)
    assert said.chances is not None and other.chances is not None
    assert (said.point == other.point).all() and (said.chances[600.0] == other.chances[600.0]).all()
    assert (forecast(direct(), wait, split, seed=9).point != said.point).any()


def test_members_are_averaged() -> None:
    """Two members' chance is the mean of that of each alone."""
    _, wait = rows()
    split = random_split(len(wait), 0)
    one, other, both = (
        forecast(direct(members=count), wait, split, seed).chances for count, seed in ((1, 0), (1, 1), (2, 0))
    )
    assert one is not None and other is not None and both is not None
    assert both[600.0] == pytest.approx((one[600.0] + other[600.0]) / 2)


def test_ready_features_are_judged_by_the_direct_answers(tmp_path: Path) -> None:
    """The deadline's accuracy is that of the chance, which the curve of a few rounds alone has not."""
    features, wait = rows()
    features.assign(queue_time_s=wait).to_parquet(tmp_path / "rows.parquet")
    found = pd.DataFrame(evaluate_ready(read_ready(tmp_path / "rows.parquet"), settings=QUICK))
    ours = found[(found["method"] == "procure") & (found["deadline_label"] == "mean")]
    assert len(ours) == 2 and (ours["deadline_accuracy"] > 0.97).all() and (ours["brier"] < 0.03).all()


def test_a_point_that_is_not_to_be_moved_is_the_mean() -> None:
    """Without moving, other deadlines' chances leave the point alone; the quantiles still agree with them."""
    _, wait = rows()
    split = random_split(len(wait), 0)
    how = replace(direct(0.0), moves=False)
    said = forecast(how, wait, split)
    quantiles = np.tile([1.0, 50.0, 300.0, 4000.0, 9000.0], (len(split.test), 1))
    alone = how.forecast(rows()[0], wait, split, DEADLINES[:1], quantiles, 0)
    assert (said.point == alone.point).all()
    assert said.chances is not None and said.quantiles is not None
    assert ((said.quantiles[:, 2] <= 600) == (said.chances[600.0] >= 0.5)).all()


def test_ready_features_leave_out_what_is_known_afterwards(tmp_path: Path) -> None:
    """Columns of the aftermath are never features, and duplicates can be kept on one side."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "req_cpus": rng.integers(1, 4, 400),
            "queue_depth": rng.integers(0, 5, 400),
            "state": "COMPLETED",
            "elapsed_time": rng.integers(0, 9, 400),
            "queue_time_s": rng.integers(0, 4000, 400),
        }
    )
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    ready = read_ready(path)
    assert list(ready.features.columns) == ["req_cpus", "queue_depth"]
    rows = pd.DataFrame(evaluate_ready(ready, settings=QUICK))
    assert set(rows["split"]) == {"random", "random-duplicates-together"}
    with pytest.raises(TableError, match="no times"):
        evaluate_ready(ready, "chronological")


def test_a_poll_gives_each_job_its_place_in_its_accounts_queue(tmp_path: Path) -> None:
    """Places follow submission; jobs of one second share theirs unless their numbers tell them apart."""
    times = pd.to_datetime([50, 10, 10, 40, 5], unit="s")
    frame = pd.DataFrame(
        {
            "submit_time": times, "poll_time": pd.to_datetime([90] * 5, unit="s"), "account_id": [1, 1, 1, 2, 1],
            "req_cpus": [1, 2, 4, 8, 16], "time_limit_sec": 3600, "poll_wait_sec": 60,
        }
    )  # fmt: skip
    path = tmp_path / "poll.parquet"
    frame.to_parquet(path)
    found = read_ready(path).features
    assert found["place_account"].tolist() == [4.0, 2.5, 2.5, 1.0, 1.0]
    assert np.expm1(found["account_hours_before"]).round(3).tolist() == [22.0, 16.0, 16.0, 0.0, 0.0]
    frame.assign(job_unique_id=[9, 3, 2, 7, 1]).to_parquet(path)
    found = read_ready(path).features
    assert found["place_account"].tolist() == [4.0, 3.0, 2.0, 1.0, 1.0]
    assert np.expm1(found["account_hours_before"]).round(3).tolist() == [22.0, 20.0, 16.0, 0.0, 0.0]


def test_the_script_prints_the_rows_that_scripts_rely_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `queue evaluate --format json`: a row per split, seed, method and deadline, the 8 h of the report left out."""
    features, wait = rows(300)
    features.assign(queue_time_s=wait).to_parquet(tmp_path / "rows.parquet")
    words = ["x", str(tmp_path / "rows.parquet"), "--seed", "3", "--deadline", "2h", "--format", "json"]
    monkeypatch.setattr("sys.argv", words)
    monkeypatch.setattr(queue_time_published, "AT_RANDOM", QUICK)
    queue_time_published.main()
    found = json.loads(capsys.readouterr().out)
    assert {"mean", "1h", "4h", "12h"} == {row["deadline_label"] for row in found}
    assert {row["seed"] for row in found} == {3} and found[0]["deadline"] == 7200
    assert found[0].keys() >= {
        "split",
        "method",
        "n_train",
        "mae",
        "deadline_accuracy",
        "coverage_90",
        "brier_base",
    }
