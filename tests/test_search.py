"""The search: what it asks for, when it ends, that it goes on where it was, and its command."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import small_study
from small_study import search
from sweep_lab import make_study, serial_results
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.errors import TableError
from procure.explorer.observations import Observations
from procure.explorer.propose import METHODS, Candidates, GaussianProcess, make_proposer, spread
from procure.explorer.run import Rules, SearchResult, run_rounds
from procure.models import make_case, pool_workloads
from procure.packages import PackageRules, expand_packages
from procure.packages.space import make_space
from procure.recommender import recommend
from procure.schemas import RESULT
from procure.study import load_plan, load_study
from procure.study.plan import with_smaller_packages
from procure.sweep.trial import simulate_packages
from procure.tables import read

runner = CliRunner()
ROOT = Path(__file__).parent.parent


def formula(counts: np.ndarray) -> np.ndarray:
    """Stand in for a simulator: waits with one clear optimum."""
    return np.abs(counts @ np.array([3.0, 7.0, 11.0]) - 60) * 20


class Bench:
    """A small space under a formula, and a record of what was asked."""

    def __init__(self, folder: Path, answer: Callable[[np.ndarray], np.ndarray] = formula) -> None:
        study = load_study(make_study(folder, budget="250_000"))
        self.space = make_space(study.read_quotes(), study.packages)
        self.listed = self.space.listed()
        self.asked: list[bytes] = []
        self._answer = answer

    def answer(self, counts: np.ndarray) -> np.ndarray:
        self.asked += [row.tobytes() for row in counts]
        return self._answer(counts)

    def field(self, listed: bool = True) -> Candidates:
        return Candidates(
            self.space, lambda counts: (counts[:, 2] == 1).astype(np.int64), 1, self.listed if listed else None
        )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("listed", [True, False])
def test_a_method_spends_its_budget_never_asks_twice_and_wastes_nothing(
    tmp_path: Path, method: str, listed: bool
) -> None:
    bench = Bench(tmp_path)
    field = bench.field(listed)
    if method == "every-tenth" and not listed:
        with pytest.raises(TableError, match="too large to list; method model needs no list"):
            make_proposer(method, field, 1, 130)
        return
    known = Observations(bench.space)
    done = run_rounds(known, field, make_proposer(method, field, 1, 130), bench.answer, Rules(130, stable_rounds=0))
    assert done.n_asked == len(known) == len(bench.asked) == len(set(bench.asked)) == 130
    assert done.ended == "budget"
    if method != "every-tenth":
        assert (known.left_out == 0).all()


def test_a_search_ends_when_the_list_is_stable_and_when_everything_is_simulated(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    field = bench.field()
    assert field.all is not None
    known = Observations(bench.space)
    rounds: list[tuple[int, set[int]]] = []
    done = run_rounds(
        known, field, make_proposer("model", field, 1, 10**6), bench.answer, Rules(10**6, stable_rounds=3),
        on_round=lambda progress: rounds.append((progress.n_asked, set(known.order()[:50].tolist()))),
    )  # fmt: skip
    assert done.ended == "stable" and len(known) < len(field.all)
    assert rounds[-1][1] == rounds[-2][1] == rounds[-3][1] == rounds[-4][1] != rounds[-5][1]
    known = Observations(bench.space)
    rules = Rules(10**6, batch=500, stable_rounds=0)
    done = run_rounds(known, field, make_proposer("model", field, 1, 10**6), bench.answer, rules)
    assert done.ended == "exhausted" and len(known) == len(field.all)


@pytest.mark.slow
@pytest.mark.parametrize("listed", [True, False])
def test_an_interrupted_search_goes_on_to_the_same_end(tmp_path: Path, listed: bool) -> None:
    """Interrupted in a round, ended by a small budget, or in one go: the same packages in the same order."""

    kept: dict[bytes, float] = {}

    def go_on(limit: int, answer: Callable[[np.ndarray], np.ndarray] = formula) -> Observations:
        def stored(counts: np.ndarray) -> np.ndarray:
            new = np.array([row.tobytes() not in kept for row in counts])
            if new.any():
                kept.update(zip([row.tobytes() for row in counts[new]], answer(counts[new]), strict=True))
            return np.array([kept[row.tobytes()] for row in counts])

        bench = Bench(tmp_path, stored)
        field, known = bench.field(listed), Observations(bench.space)
        with contextlib.suppress(KeyboardInterrupt):
            proposer = make_proposer("model", field, 1, 150)
            run_rounds(known, field, proposer, bench.answer, Rules(limit, stable_rounds=0))
        return known

    whole, calls = go_on(150), 0

    def failing(counts: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return formula(counts)

    for first in (lambda: go_on(150, failing), lambda: go_on(100)):
        kept.clear()
        first()
        n = len(kept)
        assert 0 < n < 150 and (go_on(150).counts == whole.counts).all() and len(kept) == 150


def test_packages_whose_run_fails_are_not_ranked_and_not_asked_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, lambda counts: np.where(counts[:, 1] % 2 == 0, np.nan, formula(counts)))
    field, known = bench.field(), Observations(bench.space)
    run_rounds(known, field, make_proposer("model", field, 1, 150), bench.answer, Rules(150, stable_rounds=0))
    assert len(set(bench.asked)) == len(bench.asked) == 150
    assert np.isnan(known.value).any() and not np.isnan(known.value[known.order()]).any()


def test_the_first_round_takes_the_combinations_of_types_in_turn(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.listed is not None
    known = Observations(bench.space)
    first = spread(bench.listed, known, np.random.default_rng(1))
    assert len(first) == len(bench.listed)
    n = len(np.unique(bench.listed > 0, axis=0))
    assert len(np.unique(first[:n] > 0, axis=0)) == n
    known.add(first[:1], np.zeros(1), np.zeros(1, np.int64))
    then = spread(first[1:], known, np.random.default_rng(2))
    assert not ((then[: n - 1] > 0) == (first[0] > 0)).all(axis=1).any()


def test_the_gaussian_process_interpolates_and_draws_around_its_mean() -> None:
    x = np.linspace(0, 1, 25)[:, None] @ np.ones((1, 2))
    y = np.sin(6 * x[:, 0])
    process = GaussianProcess().fit(x, y)
    between = x[:-1] + 0.5 / 24
    assert np.abs(process.predict(between) - np.sin(6 * between[:, 0])).max() < 0.05
    drawn = process.draw(between, 400, np.random.default_rng(1))
    assert np.abs(drawn.mean(axis=1) - process.predict(between)).max() < 0.05
    assert np.isfinite(GaussianProcess().fit(x, np.full(25, 3.0)).predict(between)).all()


def found(path: Path, **asked: object) -> SearchResult:
    return search(path, **{"runs": 120, "stable_rounds": 0} | asked)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_search_of_a_study_gives_what_the_sweep_gives_and_computes_nothing_again(tmp_path: Path) -> None:
    path = make_study(tmp_path, budget="250_000", n_jobs="400")
    first = found(path)
    assert first.spent["n_runs_computed"] == first.spent["n_runs_asked"] == 120
    again = found(path)
    assert again.spent["n_runs_computed"] == 0
    pd.testing.assert_frame_equal(first.ranking, again.ranking)
    more = found(path, runs=150)
    assert more.spent["n_runs_computed"] == 30
    fewer = found(path, runs=60)
    assert [one.spent["n_rounds"] for one in (first, again, more, fewer)] == [4, 4, 5, 1]
    truth = serial_results(path).set_index("package_id")["mean_wait_time"]
    waits = more.ranking.set_index("package_id")["mean_wait_time"]
    assert np.allclose(waits, truth[waits.index])
    assert waits.is_monotonic_increasing


@pytest.mark.parametrize("weight", [1.0, 0.004])
def test_several_workloads_count_by_the_mean_over_all_jobs_by_weight(tmp_path: Path, weight: float) -> None:
    path = make_study(tmp_path, n_jobs="60")
    text = path.read_text().replace('name = "day"', f'name = "day"\nweight = {weight}')
    other = f'[[workloads]]\nname = "other"\nweight = {weight**2}\ngenerate = {{ seed = 5, n_jobs = 90 }}\n[simulate]'
    path.write_text(text.replace("[simulate]", other))
    done = found(path, runs=41)
    assert done.spent["n_packages_asked"] == 20 and done.spent["n_runs_computed"] == 40
    results = serial_results(path)
    plan = load_plan(load_study(path))
    case = pool_workloads(
        [
            replace(make_case(plan.packages, plan.quotes, jobs, results, name, "best-fit"), weight=one)
            for (name, jobs), one in zip(plan.workloads.items(), (weight, weight**2), strict=True)
        ]
    )
    truth = pd.Series(case.wait, case.packages["package_id"])
    assert np.allclose(done.ranking["mean_wait_time"], truth[done.ranking["package_id"]])


@pytest.mark.slow
def test_two_workers_give_what_one_process_gives(tmp_path: Path) -> None:
    here, there = (make_study(tmp_path / name, budget="250_000", n_jobs="400") for name in ("a", "b"))
    one, two = found(here, runs=70), found(there, runs=70, farm="local")
    pd.testing.assert_frame_equal(one.ranking, two.ranking)


def test_a_share_of_packages_beyond_number_is_refused(tmp_path: Path, monkeypatch) -> None:
    """Where packages are too many to be listed, a share of them is no number of runs: no search without an end."""
    monkeypatch.setattr("procure.packages.space.Space.listed", lambda space: None)
    with pytest.raises(TableError, match="too many to be listed"):
        search(make_study(tmp_path), share=0.01)


def test_a_bad_study_or_folder_is_one_error(tmp_path: Path, monkeypatch) -> None:
    path = make_study(tmp_path, n_jobs="60")
    path.write_text(path.read_text() + "[search]\nruns = 10\nshare = 1.1\n")
    with pytest.raises(TableError, match=r"search\.share: 1\.1 was given"):
        load_study(path)
    path = make_study(tmp_path, n_jobs="60")
    with pytest.raises(TableError, match="'magic' is unknown"):
        found(path, method="magic")
    found(path, runs=10)
    make_study(tmp_path, n_jobs="61")
    with pytest.raises(TableError, match="holds results of other inputs: workload day changed"):
        found(path, runs=10, seed=2)
    refuse = Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr("procure.explorer.observations.tempfile.TemporaryFile", refuse)
    with pytest.raises(TableError, match="Permission denied; give results a folder"):
        found(path, runs=10, seed=2)


@pytest.mark.slow
def test_a_space_beyond_any_list_can_be_checked_and_searched_but_not_swept(tmp_path: Path) -> None:
    large = ROOT / "pipelines" / "large.toml"
    checked = runner.invoke(app, ["study", "check", str(large), "--format", "json"])
    assert checked.exit_code == 0 and json.loads(checked.stdout)["about_packages"] == 500_000
    with pytest.raises(TableError, match=r"are more than .* packages; .* `procure search"):
        load_plan(load_study(large))
    text = large.read_text().replace("seed = 1 }", "seed = 1, n_jobs = 100 }").replace("../quotes", f"{ROOT}/quotes")
    path = tmp_path / "large.toml"
    path.write_text(text.replace("../results", "results"))
    done = found(path, runs=90)
    assert done.spent["n_runs_computed"] == 90 and done.spent["n_packages_in_space"] is None
    with pytest.raises(TableError, match="method model needs no list"):
        found(path, method="every-tenth")


@pytest.mark.slow
def test_a_search_by_another_objective_under_a_constraint_finds_what_the_sweep_finds(tmp_path: Path) -> None:
    """The least p95 wait of packages with enough GPUs, among all that the sweep simulates."""
    path = make_study(tmp_path, budget="250_000", n_jobs="400")
    bounds = ["total_gpus>=4", "mean_wait<=2d"]
    done = search(path, runs=150, stable_rounds=0, objective="p95-wait", constraints=bounds)
    plan = load_plan(load_study(path))
    table = serial_results(path).set_index("package_id")
    gpus = plan.packages.set_index("package_id")["total_gpus"].reindex(table.index)
    ok = (gpus >= 4) & (table["mean_wait_time"] <= 172_800) & (table["n_unrunnable"] == 0)
    first = done.ranking.iloc[0]
    assert first["satisfies"] and first["objective_value"] == table.loc[ok, "p95_wait_time"].min()
    assert first["total_gpus"] >= 4 and not done.ranking["satisfies"].all()
    assert done.ranking["satisfies"].is_monotonic_decreasing
    assert "by p95-wait, s" in done.summary() and "<table" in done._repr_html_()
    again = search(path, runs=150, stable_rounds=0, objective="p95-wait", constraints=bounds)
    assert again.spent["n_runs_computed"] == 0
    with pytest.raises(TableError, match="price is known for every package without simulation"):
        search(path, objective="price")


@pytest.mark.slow
def test_what_a_sweep_or_a_search_has_simulated_is_known_to_the_other_and_to_recommend(tmp_path: Path) -> None:
    """What is swept costs a search nothing; packages that only the search has simulated count as simulated before."""
    path = make_study(tmp_path, budget="250_000", n_jobs="400", sample="7")
    swept = set(serial_results(path)["package_id"])
    before = procure.recommend(path, k=5, verify=False, resamples=0)
    done = search(path, runs=120, stable_rounds=0)
    own = set(read(load_study(path).folder / "search" / "results.parquet", RESULT)["package_id"])
    assert done.spent["n_from_sweep"] == len(swept) and len(own) == 120 and not swept & own
    assert swept <= set(done.ranking["package_id"])
    after = procure.recommend(path, k=5, verify=False, resamples=0)
    simulated = set(after.ranking.loc[after.ranking["simulated"], "package_id"])
    assert len(simulated) == len(swept) + 120 and swept < simulated
    assert not after.ranking["simulated_now"].any()
    assert any("120 of them by procure search" in line for line in after.notes)
    assert before.predicted.rmse_seconds == after.predicted.rmse_seconds
    best = after.ranking["mean_wait_time"].iloc[0]
    assert best <= before.ranking.loc[before.ranking["simulated"], "mean_wait_time"].min()


@pytest.mark.slow
def test_explain_and_what_if_work_after_a_search_alone(tmp_path: Path) -> None:
    """A package that recommend names can be asked about, though the study was never swept."""
    path = make_study(tmp_path)
    search(path, runs=20, stable_rounds=0)
    name, told = load_plan(load_study(path)).packages["package_id"].iloc[0], []
    found = procure.explain(path, name, marginal=False, note=told.append)
    assert found.packages[0].wait >= 0 and "replaying the package" in told[0]
    assert "<li>too few</li>" in replace(found, notes=["too few"])._repr_html_()
    assert len(procure.what_if(path, name, growth=1.1).table) == 2


@pytest.mark.slow
def test_the_best_package_under_a_bound_is_found():
    """It is the best of all that the bound buys, each simulated; none of them is in the study's own list."""
    path = small_study.swept()
    done = recommend(path, k=3, resamples=0, constraints="price_usd<=$60,000")
    plan = load_plan(load_study(path))
    rules = plan.study.packages.model_copy(update={"budget_usd": 60_000.0})
    every = expand_packages(plan.quotes, rules)
    runs = simulate_packages(plan, every[plan.types].to_numpy(np.int64), "day-1", "best-fit")
    wait = runs["mean_wait_time"].where(runs["n_unrunnable"] == 0)
    assert done.ranking["mean_wait_time"].iloc[0] == wait.min()
    assert (done.ranking["price_usd"].head(3) <= 60_000).all()
    assert plan.packages["price_usd"].min() > 60_000
    assert load_plan(load_study(path)).fingerprint == done.results.plan.fingerprint  # the sweep is still its own


def test_a_bound_on_the_price_is_of_the_servers_where_the_budget_is_for_the_whole_order(tmp_path):
    """With tax within the budget, packages are listed up to the bound as far as the budget holds their tax, too."""
    tax = "[costs]\ntax_percent = 25\nwithin_budget = true"
    path = small_study.write_study(tmp_path / "s.toml", "generate = { seed = 1, n_jobs = 40 }", tax, budget=60_000)
    plan = load_plan(load_study(path))
    new = with_smaller_packages(plan, 40_000.0).packages.iloc[len(plan.packages) :]
    plain = expand_packages(plan.quotes, PackageRules(rules="published", budget_usd=40_000.0))
    plain = plain[plain["distinct"]]
    keeps = plain[(plain["price_usd"] * 1.25 <= 60_000) & ~plain["package_id"].isin(plan.row_of.index)]
    assert set(new["package_id"]) == set(keeps["package_id"]) and len(new) > 5
    assert new["price_usd"].max() > 40_000 / 1.25
