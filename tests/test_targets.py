"""Targets: read, judged over workloads, and listed with what keeps them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sweep_lab import make_study

from procure import recommend
from procure.errors import TableError
from procure.objectives.aggregate import kept_by
from procure.objectives.constraints import parse_targets
from procure.study import load_plan, load_study
from procure.sweep import run_sweep


def test_a_target_is_read_with_its_class_its_bound_and_its_chance():
    """Times in any unit, shares in per cent; without a chance it is of all workloads together."""
    given = {"gpu": "p95 wait <= 4h in 9 of 10 workloads", "all": "share over 1h <= 5%"}
    one, other = parse_targets(given)
    assert (one.of.column, one.value, one.of.share) == ("gpu_p95_wait_time", 14_400, 0.9)
    assert (other.of.column, other.value, other.of.how) == ("share_over_1h", 0.05, "mean")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("small", "mean wait <= 1h", "no such class"),
        ("gpu", "longest wait <= 1h", "cannot be read"),
        ("gpu", "mean wait <= 1 parsec", "not a unit"),
        ("gpu", "mean wait <= 1h in 11 of 10", "11 of 10"),
        ("gpu", "mean wait <= 1h in 9 of 10 futures", "workloads"),
    ],
)
def test_what_cannot_be_a_target_is_refused(name, text, says):
    with pytest.raises(TableError, match=says):
        parse_targets({name: text})


def test_a_value_kept_in_9_of_10_is_the_ninth_least():
    """By hand; a workload without weight does not count, and may be unknown."""
    values = np.array([[float(i)] for i in (3, 1, 2, 9, 5, 4, 6, 8, 7, 10)] + [[np.nan]])
    weights = np.array([[1.0]] * 10 + [[0.0]])
    assert kept_by(values, weights, 0.9).tolist() == [9.0]
    assert kept_by(values, weights, 1.0).tolist() == [10.0]
    assert np.isnan(kept_by(values, np.ones_like(weights), 0.9)).all()


def test_targets_are_kept_or_the_nearest_to_them_are_listed(tmp_path, procure):
    """A bound that some keep leaves only these; one that none keeps leaves a list, and says so."""
    path = make_study(tmp_path)
    text = path.read_text()
    run_sweep(load_plan(load_study(path)), "serial")
    plain = recommend(path, k=3, resamples=0)
    wait = plain.ranking["mean_wait_time"].iloc[1]
    path.write_text(f'{text}\n[targets]\nall = "mean wait <= {wait:.3f}"\n')
    kept = recommend(path, k=5, resamples=0)
    assert kept.ranking["satisfies"].head(2).all() and not kept.ranking["satisfies"].iloc[2:].any()
    path.write_text(f'{text}\n[targets]\nall = "mean wait <= 0"\n')
    code, out, err = procure("recommend", str(path), "-k", "3", "--resamples", "0", "--format", "json")
    assert code == 0, err
    rows = json.loads(out)
    assert len(rows) == 3 and rows[0]["mean_wait_time"] <= rows[1]["mean_wait_time"]
    assert rows[0]["targets"][0]["met"] is False and rows[0]["targets"][0]["cost_usd"] is None
    classes = rows[0]["by_class"]
    assert {"class", "n_jobs", "mean_wait_time", "p95_wait_time", "share_over_1h"} == set(classes[0])
    total = sum(one["n_jobs"] * one["mean_wait_time"] for one in classes)
    assert total / sum(one["n_jobs"] for one in classes) == pytest.approx(rows[0]["mean_wait_time"])
    assert 0 < rows[0]["concentration"]["share_of_waiting"] <= 1 and rows[1]["concentration"] is None
    assert "target all, mean wait <= 0: not kept" in err
