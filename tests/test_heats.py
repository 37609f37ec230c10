"""Two heats: who runs on futures, and what the choice is by."""

from __future__ import annotations

import numpy as np
import pytest

from procure.objectives.aggregate import class_shares
from procure.recommender.heats import two_heats
from procure.schemas import CLASSES
from procure.workload.past import N_PARTS, part_bounds, scenario_weights, waits_by_part

PARTS = 1 + len(CLASSES)


def test_with_all_in_the_second_heat_the_choice_is_the_objective_itself():
    """A third by the past, a third by its parts, a third by the futures, each among all packages."""
    rng = np.random.default_rng(3)
    past, futures = rng.lognormal(7, 1, (1 + N_PARTS, PARTS, 30)), rng.lognormal(7, 1, (4, PARTS, 30))
    found = two_heats(past, np.array(scenario_weights(1)), lambda rows: futures[:, :, rows], 30)
    shares = class_shares(past)
    expected = (shares[0] + shares[1:].mean(axis=0) + class_shares(futures).mean(axis=0)) / 3
    expected += past[0, 0] > 1.5 * past[0, 0].min()
    assert found.rows.tolist() == np.argsort(expected, kind="stable").tolist()
    assert found.figure == pytest.approx(np.sqrt(expected[found.rows]))
    assert found.wait.shape == (1 + N_PARTS + 4, 30)


def test_the_best_on_the_past_and_a_random_third_run_on_futures():
    """Of 40 packages, 9 may run on futures: the first three as they stand, and the six best others."""
    past = np.tile(np.arange(40)[::-1] * 100.0 + 100, (1 + N_PARTS, PARTS, 1))
    asked = []

    def futures(rows: np.ndarray) -> np.ndarray:
        asked.append(rows)
        return np.full((2, PARTS, len(rows)), 500.0)

    found = two_heats(past, np.array(scenario_weights(1)), futures, 9)
    assert sorted(asked[0]) == [0, 1, 2, 34, 35, 36, 37, 38, 39] and len(asked) == 1
    assert found.rows[0] == 39


def test_waits_by_part_are_those_of_the_jobs_of_each_part():
    """By hand: after a warm-up of 10 s four parts of 10 s; a job that never ran does not count."""
    submit = np.array([5, 12, 21, 22, 35, 49])
    wait, job_class = np.array([900, 4, 8, -1, 2, 6]), np.array([0, 3, 0, 0, 3, 3])
    bounds = part_bounds(submit - 5, 5)
    assert bounds == [(5, 45), (5, 15), (15, 25), (25, 35), (35, 45)]
    found = waits_by_part(submit - 5, wait, job_class, bounds)
    assert found[:, 0].tolist() == pytest.approx([5, 4, 8, 2, 6])
    assert found[0, 1] == 8 and found[0, 4] == 4 and np.isnan(found[1, 1])
