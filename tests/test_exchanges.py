"""Exchanges around the first package of a list: which packages they are, what is simulated, what comes of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import offered, run
from test_recommend import STUDY, guessed

import procure
from procure.models import WorkloadWaits
from procure.recommender.rank import MOST_SWAPPED, TRIED, confirm_list, is_one_swap_away, ranking_table, try_swaps
from procure.recommender.recommendation import records
from procure.recommender.recommender import with_front
from procure.recommender.values import Criteria, PackageValues
from procure.sweep import trial


def plainly_near(one: np.ndarray, other: np.ndarray) -> bool:
    """The definition, node type by node type."""
    fewer = more = 0
    for mine, theirs in zip(one.tolist(), other.tolist(), strict=True):
        fewer, more = fewer + (theirs < mine), more + (theirs > mine)
    return (fewer == 1 and more >= 1) or (more == 1 and fewer >= 1)


def test_packages_one_exchange_away_are_those_of_the_definition():
    """As counted type by type; of packages of which none holds another, which share a budget."""
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, (300, 4))
    counts = np.unique(counts[counts.sum(axis=1) == 6], axis=0)
    assert len(counts) > 20
    for row in range(len(counts)):
        assert is_one_swap_away(counts, row).tolist() == [plainly_near(counts[row], other) for other in counts]


def values_of(truth: np.ndarray, guess: np.ndarray, counts: np.ndarray, known: np.ndarray) -> PackageValues:
    """Packages of which some are simulated, and the others predicted."""
    table = pd.DataFrame(counts, columns=list("ABC"))
    table.insert(0, "package_id", [f"p{i}" for i in range(len(truth))])
    table["price_usd"] = 100.0
    table["total_cpus"], table["total_mem_gb"] = counts @ [8, 4, 2], counts @ [16.0, 64.0, 256.0]
    table["total_gpus"] = 0
    case = WorkloadWaits("day", table, np.zeros(len(truth), dtype=int), np.where(known, truth, np.nan), 10)
    values = guessed(case, guess)
    values.simulate = lambda rows: {"mean_wait_time": truth[None, rows]}
    return values


@pytest.fixture
def field() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All ways to buy 40 nodes of three types: a bowl of waits, and a model that sees its floor elsewhere."""
    counts = np.array([(a, b, 40 - a - b) for a in range(41) for b in range(41 - a)])
    truth = 1_000 + 20.0 * ((counts[:, 0] - 12) ** 2 + (counts[:, 1] - 20) ** 2)
    guess = 1_000 + 20.0 * ((counts[:, 0] - 30) ** 2 + (counts[:, 1] - 6) ** 2)
    known = np.zeros(len(counts), dtype=bool)
    known[np.flatnonzero(counts[:, 0] >= 20)[::10]] = True
    return truth, guess, counts, known


def test_exchanges_find_what_the_model_does_not_expect(field):
    """The list that the model confirms misses the floor of the bowl; exchanges go there, and the list says so."""
    truth, guess, counts, known = field
    values = values_of(truth, guess, counts, known)
    confirm_list(values, Criteria(), 5)
    before = ranking_table(values, Criteria()).iloc[0]
    simulated = values.simulated.sum()
    done = try_swaps(values, Criteria(), counts, 5)
    after = ranking_table(values, Criteria()).iloc[0]
    assert before["mean_wait_time"] > 2 * truth.min() and after["mean_wait_time"] < 1.3 * truth.min()
    assert done["n_packages"] == done["n_runs"] <= MOST_SWAPPED and done["n_better"] > 0
    assert values.simulated.sum() >= simulated + done["n_packages"]
    assert (done["instead_of"], done["before"]) == (before["package_id"], before["mean_wait_time"])
    assert done["value"] == after["mean_wait_time"] and after["simulated_now"]
    again = values_of(truth, guess, counts, known)
    confirm_list(again, Criteria(), 5)
    assert try_swaps(again, Criteria(), counts, 5) == done


def test_no_more_are_simulated_than_allowed_and_only_neighbours_of_a_leader(field):
    """Batches end at what is allowed; with few, all of them are around the first package, which may stay."""
    truth, _, counts, known = field
    values = values_of(truth, truth, counts, known)  # the model is right
    confirm_list(values, Criteria(), 5)
    first = int(ranking_table(values, Criteria())["row"].iloc[0])
    was = values.simulated.copy()
    done = try_swaps(values, Criteria(), counts, 5, most=TRIED + 3)
    new = values.simulated & ~was
    assert done["n_packages"] == new.sum() == TRIED + 3 and is_one_swap_away(counts, first)[new].all()
    assert done["instead_of"] is None and done["before"] == done["value"]


def test_nothing_is_tried_where_nothing_is_left_or_wanted(field):
    """All is simulated; predictions are not to be confirmed; none is allowed."""
    truth, guess, counts, known = field
    every = values_of(truth, guess, counts, np.ones(len(truth), dtype=bool))
    assert try_swaps(every, Criteria(), counts, 5) is None
    values = values_of(truth, guess, counts, known)
    assert try_swaps(values, Criteria(), counts, 5, most=0) is None
    values.simulate = None
    assert try_swaps(values, Criteria(), counts, 5) is None


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of some hundred packages, a few of which are swept."""
    text = STUDY.replace("budget_usd = 90_000", "budget_usd = 90_000\ntypes_per_category = 2")
    return offered(tmp_path_factory.mktemp("exchanges"), text.replace("sample = 2", "sample = 12"))


def test_recommend_says_what_exchanges_gave_and_keeps_their_runs(swept, monkeypatch):
    """One line and one key of the first record; the next time nothing is simulated; without them fewer packages are."""
    done = procure.recommend(swept, k=3, resamples=0)
    found = done.exchanged
    assert found is not None and 0 < found["n_packages"] <= MOST_SWAPPED
    assert any(line.startswith("tried ") and str(found["n_packages"]) in line for line in done.notes)
    plain = procure.recommend(swept, k=3, resamples=0, exchanges=0)
    assert plain.exchanged is None and plain.n_verified < done.n_verified
    assert done.ranking["mean_wait_time"].iloc[0] <= plain.ranking["mean_wait_time"].iloc[0]

    def refuse(*arguments):
        raise AssertionError("simulated again")

    with monkeypatch.context() as patch:
        patch.setattr(trial, "simulate_packages", refuse)
        assert procure.recommend(swept, k=3, resamples=0).exchanged == found
    rows = json.loads(run("recommend", swept, "-k", 3, "--resamples", 0, "--format", "json").stdout)
    assert rows[0]["exchanges"] == found and rows[1]["exchanges"] is None
    assert records(plain)[0]["exchanges"] is None


def test_nothing_on_the_front_that_a_report_draws_is_better_than_the_first_of_the_list(swept):
    """What that front has simulated is in the list, so that a report simulates nothing for it and names no better."""
    done = procure.recommend(swept, k=3, resamples=0, exchanges=0)
    n_simulated = done.package_values.simulated.sum()
    wider = with_front(done)
    assert len(wider.front) > 1 and wider.package_values.simulated.sum() == n_simulated
    assert wider.front["mean-wait"].min() == done.ranking["mean_wait_time"].iloc[0]
