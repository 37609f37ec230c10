"""Ranges hold what they promise, ranks are said with their doubt, and what cannot be told apart is named."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import offered, run, swept
from test_recommend import STUDY, guessed

import procure
from procure.errors import TableError
from procure.evaluation.ranking import rank_confidence, rank_ranges, resample_rows
from procure.models import WorkloadWaits
from procure.models.case import backlog_waits
from procure.models.surrogate import ConformalErrors, places
from procure.recommender import confidence as assessing
from procure.recommender.confidence import resample_bursts
from procure.recommender.rank import MOST_SWAPPED, TRIED, confirm_list, is_one_swap_away, ranking_table, try_swaps
from procure.recommender.recommendation import records
from procure.recommender.recommender import recommend, with_front
from procure.recommender.values import Criteria, PackageValues
from procure.sweep import trial
from procure.workload import generate
from procure.workload.load import bursts


@pytest.mark.parametrize(("n", "expected"), [(19, (0, 18)), (39, (1, 37)), (99, (4, 94)), (10, (0, 9)), (1, (0, 0))])
def test_the_places_of_a_conformal_range(n: int, expected: tuple[int, int]):
    """90 % of 19 is the whole range, of 39 leaves one out on either side; fewer can only give all they have."""
    assert places(n) == expected


def test_ranges_hold_the_truth_where_predictions_are_short_as_well_as_where_they_are_long():
    """Errors ten times as wide at short waits: in every fifth of the predictions 86 to 94 % are held."""
    rng = np.random.default_rng(1)
    at = rng.lognormal(6, 2, 24_000)
    truth = (at + 1) * np.exp(rng.normal(0, np.where(at < 400, 1.0, 0.1))) - 1
    fitted = ConformalErrors(at[:4000], (truth[:4000] + 1) / (at[:4000] + 1))
    low, high = fitted.interval(at[4000:])
    fifth = np.digitize(at[4000:], np.quantile(at[4000:], [0.2, 0.4, 0.6, 0.8]))
    within = (low <= truth[4000:]) & (truth[4000:] <= high)
    held = [within[fifth == i].mean() for i in range(5)]
    assert min(held) > 0.86 and max(held) < 0.94
    width = (high + 1) / (low + 1)
    assert np.median(width[fifth == 0]) > 5 * np.median(width[fifth == 4])


def test_ranks_chances_and_doubles_by_hand():
    """Four draws of three packages: ties share the better rank; never better and once worse is told apart."""
    drawn = np.array([[1.0, 1.0, 9.0], [2.0, 2.0, 1.0], [3.0, 3.0, 9.0], [4.0, 4.0, 9.0]])
    said = rank_confidence(drawn, edges=np.array([1.0, 1.0, 9.0, 0.0]))
    assert said["rank_low"].tolist() == [1, 1, 1] and said["rank_high"].tolist() == [2, 2, 3]
    assert said["share_first"].tolist() == [0.75, 0.75, 0.25]
    assert said["chance_top"].tolist() == [0.5, 0.5, 0.5]
    # The second is the first's equal throughout, the third is better in one draw of four.
    assert said["alike"].tolist() == [True, True, True]
    worse = rank_confidence(drawn + np.array([0.0, 0.5, 8.0]))
    assert worse["alike"].tolist() == [True, False, False]


def test_bursts_are_resampled_whole_and_their_times_stay():
    """Each burst is in the resampled workload a whole number of times, under names of its own."""
    jobs = generate(1, 400)
    drawn = resample_bursts(jobs, 5)
    assert drawn["job_id"].is_unique and drawn.equals(resample_bursts(jobs, 5))
    of = dict(zip(jobs["job_id"], bursts(jobs), strict=True))
    times = drawn["job_id"].str.split("+").str[0].map(of).value_counts()
    sizes = pd.Series(bursts(jobs)).value_counts()
    assert ((times % sizes.reindex(times.index)) == 0).all()
    assert int((times / sizes.reindex(times.index)).sum()) == sizes.size
    assert set(drawn["submit_time"]) <= set(jobs["submit_time"])


def test_backlog_on_paper():
    """4 CPUs, 4 × 1,200 s of work at 0 and 4 × 600 s at 600 s: it is 1,200 s behind both times; 8 CPUs: 600 and 300."""
    quotes = pd.DataFrame(
        {"name": ["A"], "category": ["c"], "cpus": [4], "mem_gb": [8.0], "gpus": [0], "gpu_type": [""]}
    )
    jobs = pd.DataFrame(
        {"submit_time": [0, 600], "run_time": [1200, 600], "n_nodes": 1, "cpus_per_node": 4,
         "mem_mb_per_node": 0, "gpus_per_node": 0, "gpu_type": ""}
    )  # fmt: skip
    found = backlog_waits(pd.DataFrame({"A": [1, 2]}), quotes, jobs)
    assert found.tolist() == [1200.0, 450.0]


@pytest.mark.slow
def test_packages_that_leave_other_jobs_out_are_not_compared():
    """The mean wait of fewer jobs is no better: beyond the packages that run as many, nothing is said of the order."""
    done = recommend(swept(5), k=4)
    ranking = done.ranking.assign(jobs_left_out=np.where(np.arange(len(done.ranking)) < 2, 0, 7))
    found = assessing.assess(done.results, done.package_values, done.criteria, ranking, 4)
    assert len(found.table) == 2 and found.table["rank_high"].max() <= 2
    assert found.head(4)["alike"].isna().tolist() == [False, False, True, True]
    assert len(found.columns(4)["tied_1st"]) == 4
    assert not any("first 4" in line or "first 50" in line for line in found.sentences())


def test_of_resamples_with_a_failed_run_nothing_is_known_and_it_is_told(monkeypatch: pytest.MonkeyPatch):
    """The recommendation is made all the same."""

    def fails(*arguments: object) -> pd.DataFrame:
        raise TableError("out of memory")

    monkeypatch.setattr(assessing, "simulate_packages", fails)
    done = recommend(swept(), k=3, resamples=1)
    assert done.confidence is not None and done.confidence.unit == "nothing"
    assert any("a run failed: out of memory" in line for line in done.notes)


def ranks(figures: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(figures), figures) + 1


@pytest.mark.parametrize(("n_days", "spread"), [(5, 0.1), (10, 0.4), (25, 0.4)])
def test_ranges_from_few_days_hold_the_true_rank_in_nine_of_ten_cases(n_days, spread):
    """Waits of 300 packages on n days, their level and each package's own noise lognormal: the true order is known."""
    rng = np.random.default_rng(n_days)
    held, alone, placed = [], [], []
    for _ in range(12):
        true = 1000 * np.exp(rng.normal(0, spread, 300))
        level = np.exp(rng.normal(0, 0.8, (n_days, 1)))
        waits = true * level * np.exp(rng.normal(0, 0.1, (n_days, 300)))
        head = np.argsort(waits.mean(axis=0))[:40]
        waits, rank = waits[:, head], ranks(true[head])
        drawn = waits[resample_rows(n_days, 300, 1)].mean(axis=1)
        low, high = rank_ranges(drawn, waits.mean(axis=0))
        least, most = rank_ranges(drawn)
        held.append((low <= rank) & (rank <= high))
        alone.append((least <= rank) & (rank <= most))
        place = np.arange(1, 41)
        placed.append((low <= place) & (place <= high))
    assert np.mean(held) >= 0.9
    assert np.mean(held) > np.mean(alone)
    assert np.all(placed)


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
def few_swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of some hundred packages, a few of which are swept."""
    text = STUDY.replace("budget_usd = 90_000", "budget_usd = 90_000\ntypes_per_category = 2")
    return offered(tmp_path_factory.mktemp("exchanges"), text.replace("sample = 2", "sample = 12"))


def test_recommend_says_what_exchanges_gave_and_keeps_their_runs(few_swept, monkeypatch):
    """One line and one key of the first record; the next time nothing is simulated; without them fewer packages are."""
    done = procure.recommend(few_swept, k=3, resamples=0)
    found = done.exchanged
    assert found is not None and 0 < found["n_packages"] <= MOST_SWAPPED
    assert any(line.startswith("tried ") and str(found["n_packages"]) in line for line in done.notes)
    plain = procure.recommend(few_swept, k=3, resamples=0, exchanges=0)
    assert plain.exchanged is None and plain.n_verified < done.n_verified
    assert done.ranking["mean_wait_time"].iloc[0] <= plain.ranking["mean_wait_time"].iloc[0]

    def refuse(*arguments):
        raise AssertionError("simulated again")

    with monkeypatch.context() as patch:
        patch.setattr(trial, "simulate_packages", refuse)
        assert procure.recommend(few_swept, k=3, resamples=0).exchanged == found
    rows = json.loads(run("recommend", few_swept, "-k", 3, "--resamples", 0, "--format", "json").stdout)
    assert rows[0]["exchanges"] == found and rows[1]["exchanges"] is None
    assert records(plain)[0]["exchanges"] is None


def test_nothing_on_the_front_that_a_report_draws_is_better_than_the_first_of_the_list(few_swept):
    """What that front has simulated is in the list, so that a report simulates nothing for it and names no better."""
    done = procure.recommend(few_swept, k=3, resamples=0, exchanges=0)
    n_simulated = done.package_values.simulated.sum()
    wider = with_front(done)
    assert len(wider.front) > 1 and wider.package_values.simulated.sum() == n_simulated
    assert wider.front["mean-wait"].min() == done.ranking["mean_wait_time"].iloc[0]
