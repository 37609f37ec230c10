"""Deciding over futures: what a recommendation says of how often its first is the best, and when it saturates."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from test_futures import log, study_file
from test_replay import queue
from test_replay import study_file as replay_file

from procure import recommend
from procure.objectives import OBJECTIVES
from procure.recommender import learning
from procure.recommender.chances import draw_periods
from procure.recommender.criteria import MEAN_WAIT
from procure.recommender.filling import filled_waits
from procure.recommender.outlook import best_and_near, chances_of, outlook
from procure.recommender.summary import records
from procure.study import load_plan, load_study
from procure.sweep import run_sweep
from procure.tables import write

KEYS = [
    "expected_wait_time",
    "saturation_chance",
    "best_chance",
    "near_chance",
    "outlook_low",
    "outlook_high",
]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A swept study of five futures of a log that keeps 70,000 US$ busy."""
    folder = tmp_path_factory.mktemp("outlook")
    path = study_file(folder, 'draws = 5\nlength = "7d"\nyears = 3\ngrowth = 1.5', n=700)
    text = path.read_text().replace("sample = 40", "sample = 8").replace('["fcfs"]', '["best-fit"]')
    path.write_text(f'{text}past = false\n[recommend]\nobjective = "mean-wait"\n')
    write(log(n=700).assign(n_nodes=1), folder / "jobs.parquet")
    run_sweep(load_plan(load_study(path)), "serial")
    return path


@pytest.fixture(autouse=True)
def _not_all(monkeypatch):
    """Leave packages out, as a longer list does."""
    monkeypatch.setattr(learning, "MOST_RUN_WHOLE", 0)


def guessed(values, wait, able):
    """Return the least wait of each future that scikit-learn's Gaussian process expects of what was not simulated."""
    packages = values.packages
    n_nodes = packages.filter(regex="Node").sum(axis=1)
    x = np.log1p(np.column_stack([n_nodes, packages[["total_cpus", "total_mem_gb", "total_gpus"]]]))
    x = x[values.whole.runs_all]
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)
    here = able[values.whole.runs_all]
    log = np.log(np.maximum(wait[:, able], 60.0)).T
    model = GaussianProcessRegressor(RBF(3.0, "fixed"), alpha=0.03, optimizer=None)
    model.fit(x[here], log - log.mean(axis=0))
    return np.exp(log.mean(axis=0) + model.predict(x[~here])).min(axis=0)


@pytest.mark.slow
def test_chances_are_counted_over_the_same_futures(swept):
    """Each figure as the waits give it, future by future; what was not simulated may be the best as well."""
    done = recommend(swept, k=4)
    values = done.package_values
    wait = values.results[MEAN_WAIT.column]
    able = values.whole.runs_all & ~np.isnan(wait).any(axis=0)
    rows = done.ranking["row"].to_numpy()[:4]
    table = outlook(values, rows)
    assert table["expected_wait_time"].tolist() == done.ranking["mean_wait_time"].tolist()[:4]
    told = [line for line in done.notes if "futures jobs on the first package wait" in line]
    assert len(told) == 1 and ("saturates in none" in told[0] or "times their mean load" in told[0])
    assert any("resamples of the 5 futures" in line for line in done.notes), done.notes
    every = values.whole.runs_all.sum()
    assert able.sum() < every and f"of all {every} packages it is the best by mean-wait with a chance of" in told[0]
    assert f"({able.sum()} simulated, the others as a model of these has them)" in told[0]
    # The range of the wait in another such time is said once, with the share that backtests give it.
    assert [line for line in done.notes if "mean wait lies between" in line] == []
    assert "(90 % by backtests)" in told[0] and done.confidence.another_day is None
    # The best are hidden, so that a model has something to expect of packages that were not simulated.
    by_wait = np.flatnonzero(able)[np.argsort(wait[:, able].mean(axis=0))]
    wait[:, by_wait[:60]] = np.nan
    able[by_wait[:60]] = False
    rows = by_wait[60:64]
    table = outlook(values, rows)
    alone = wait[:, able].min(axis=1)
    best = np.minimum(alone, guessed(values, wait, able))
    assert (best < alone).any()
    for place, row in enumerate(rows):
        mine = np.maximum(wait[:, row], 60)
        assert table["best_chance"][place] == sum(mine <= np.maximum(best, 60)) / 5
        assert table["near_chance"][place] == sum(mine <= 1.05 * np.maximum(best, 60)) / 5
        assert table["saturation_chance"][place] == values.results["saturated"][:, row].mean()
        assert wait[:, row].min() <= table["outlook_low"][place] <= table["outlook_high"][place]
        assert table["outlook_high"][place] <= wait[:, row].max()


@pytest.mark.slow
def test_chances_over_futures_are_those_of_periods_drawn_from_them(swept):
    """By the objective asked for; packages that were not simulated are among those that may be better."""
    values = recommend(swept, k=4).package_values
    able = np.flatnonzero(values.whole.runs_all)
    filled = filled_waits(values.results[MEAN_WAIT.column], values.packages, values.whole.runs_all)
    look = draw_periods(filled, None, able)
    best, near = look.best_and_near(able)
    found = outlook(values, able, of_futures=True)
    known = ~np.isnan(values.results[MEAN_WAIT.column][:, able]).any(axis=0)
    assert found["best_chance"][known].tolist() == best[known].tolist() and found["best_chance"][~known].isna().all()
    assert found["near_chance"][known].tolist() == near[known].tolist()
    assert chances_of(OBJECTIVES["gpu-p95-wait"]).name == "gpu-p95-wait"
    assert chances_of(OBJECTIVES["rank-by-class"]) == chances_of(OBJECTIVES["price"]) == MEAN_WAIT
    done = recommend(swept, k=4, objective="share-over-1h", resamples=0)
    assert records(done)[0]["chance_of"] == "share-over-1h"
    assert any("it is the best by share-over-1h with a chance" in line for line in done.notes)
    assert records(recommend(swept, k=4, resamples=0))[0]["chance_of"] == "mean-wait"


@pytest.mark.parametrize("level", [0.0, 90.0])
def test_packages_that_wait_alike_stay_tied(level):
    """Who waits as long as the best on most futures is the best there, whatever the others do to him."""
    rng = np.random.default_rng(0)
    wait = np.full((20, 30), level)
    wait[17:] = rng.lognormal(8, 1, (3, 30))
    best, near = best_and_near(wait, np.arange(30))
    assert best[:17].all() and near[:17].all() and best[17:].sum(axis=1).tolist() == [1, 1, 1]


def test_near_is_more_than_best():
    """A package 3 % behind on each future is never the best, always near; one 8 % behind is neither."""
    wait = np.array([[1000.0], [5000.0], [300.0]]) * [1.0, 1.03, 1.08, np.nan]
    best, near = best_and_near(wait, np.arange(4))
    assert best.all(axis=0).tolist() == [True, False, False, False] == best.any(axis=0).tolist()
    assert near.all(axis=0).tolist() == [True, True, False, False] == near.any(axis=0).tolist()


@pytest.mark.slow
def test_the_command_prints_them(swept, procure):
    code, out, err = procure("recommend", str(swept), "-k", "2", "--format", "json")
    assert code == 0, err
    for row in json.loads(out):
        assert set(KEYS) <= set(row)
        assert row["expected_wait_time"] == row["mean_wait_time"]
        assert 0 <= row["saturation_chance"] <= 1 and 0 <= row["best_chance"] <= 1


@pytest.mark.slow
def test_a_first_package_that_saturates_is_named(tmp_path):
    """A log of weeks that no package of the budget can do: the list says that its mean wait means nothing."""
    path = tmp_path / "study.toml"
    replay_file(tmp_path, 'warm_up = "12h"')
    path.write_text(path.read_text().replace("sample = 40", "sample = 8"))
    jobs = queue(1.0, 1, n=6000).assign(cpus_per_node=16)
    jobs["run_time"] *= 60
    write(jobs, tmp_path / "jobs.parquet")
    run_sweep(load_plan(load_study(path)), "serial")
    done = recommend(path, k=1, resamples=0)
    assert any("saturates on all" in line for line in done.notes)


@pytest.mark.slow
def test_what_was_simulated_is_not_overruled_by_a_prediction(swept):
    """A package that ran on some futures only counts there by its runs, elsewhere by what a model expects."""
    values = recommend(swept, k=4).package_values
    wait = values.results[MEAN_WAIT.column]
    row = int(np.flatnonzero(values.whole.runs_all & np.isnan(wait).all(axis=0))[0])
    before = outlook(values, np.array([row]))
    wait[:4, row] = 0.5
    assert np.isnan(before["best_chance"][0])
    first = int(np.flatnonzero(values.whole.runs_all & ~np.isnan(wait).any(axis=0))[0])
    assert outlook(values, np.array([first]))["best_chance"][0] <= 0.2
    wait[:, row] = np.nan
