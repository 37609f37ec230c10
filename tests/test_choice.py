"""Ranking by any objective under constraints, and the front: learnt, confirmed, explained."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from small_study import offered
from typer.testing import CliRunner, Result

import procure
from procure.cli.main import app
from procure.errors import TableError
from procure.models import WorkloadWaits
from procure.objectives import OBJECTIVES
from procure.objectives.aggregate import front
from procure.objectives.constraints import parse, quantities
from procure.recommender.rank import confirm_list, find_front, ranking_table, values_of
from procure.recommender.recommendation import records
from procure.recommender.values import Criteria, PackageValues
from procure.sweep.results import load_results
from procure.tables import write
from procure.workload import generate

NAN = np.nan
KNOWN = quantities(["A"])


def values_with(
    waits: list[list[float]], left_out: list[int] | None = None, **columns: list[list[float]]
) -> PackageValues:
    """One package per column of ``waits``, one workload per row; the last workload weighs double."""
    n = len(waits[0])
    table = pd.DataFrame({"package_id": [f"p{i}" for i in range(n)], "A": range(n)})
    table["price_usd"] = [100.0 - i for i in range(n)]
    out = np.array(left_out or [0] * n)
    cases = [
        WorkloadWaits(f"day{i}", table, out, np.array(row), 10, weight=2.0 if i == len(waits) - 1 else 1.0)
        for i, row in enumerate(waits)
    ]
    results = {"mean_wait_time": waits} | columns
    return PackageValues(cases, {name: np.array(rows, dtype=float) for name, rows in results.items()})


def truth_of(**columns: list[list[float]]):
    """Simulate by looking up; keep what was asked for."""
    asked: list[list[int]] = []

    def simulate(rows: np.ndarray) -> dict[str, np.ndarray]:
        asked.append(rows.tolist())
        return {name: np.array(values, dtype=float)[:, rows] for name, values in columns.items()}

    return simulate, asked


def choose(values, objective, constraints=(), k=50, simulate=None, rule="runs-all"):
    """Confirm a list and return its table, and what confirmed it."""
    criteria, values.simulate = Criteria(objective, tuple(constraints)), simulate
    confirm_list(values, criteria, k, rule)
    return ranking_table(values, criteria, rule), values


def names(found) -> list[str]:
    return found[0]["package_id"].tolist()


WAITS = [[10.0, 50, 30, 90], [60.0, 50, 10, 0]]


@pytest.mark.parametrize(
    ("objective", "first", "value"),
    [
        ("mean-wait", ["p2", "p3", "p0", "p1"], 50 / 3),
        ("worst-day", ["p2", "p1", "p0", "p3"], 30),
        ("cvar", ["p2", "p1", "p0", "p3"], 30),
        ("regret-max", ["p2", "p1", "p0", "p3"], 20 / 60),
        ("price", ["p3", "p2", "p1", "p0"], 97),
    ],
)
def test_each_objective_has_its_own_order(objective, first, value):
    """Two days, the second weighing double; ties go to the lower price."""
    found = choose(values_with(WAITS), OBJECTIVES[objective])
    shown = found[0]["objective_value" if objective != "mean-wait" else "mean_wait_time"].iloc[0]
    assert (names(found), shown) == (first, pytest.approx(value)) and found[0]["simulated"].all()


def test_packages_that_leave_jobs_out_stand_last_unless_the_published_rule_is_asked_for():
    figures = values_with(WAITS, [0, 0, 1, 0])
    assert names(choose(figures, OBJECTIVES["worst-day"])) == ["p1", "p0", "p3", "p2"]
    assert names(choose(figures, OBJECTIVES["worst-day"], rule="published"))[0] == "p2"


def test_a_prediction_that_breaks_a_constraint_when_simulated_leaves_the_list(monkeypatch):
    """And one that just missed it by prediction is tried, and enters."""
    monkeypatch.setattr("procure.recommender.rank.FEWEST_CONFIRMED", 1)
    figures = values_with([[NAN] * 4], p95_wait_time=[[NAN] * 4])
    guess = {"mean_wait_time mean": [10, 20, 30, 40], "p95_wait_time mean": [90, 95, 105, 300]}
    figures._predicted = {name: np.array(values, dtype=float) for name, values in guess.items()}
    simulate, asked = truth_of(mean_wait_time=[[11, 21, 31, 41]], p95_wait_time=[[120, 110, 99, 400]])
    found = choose(figures, OBJECTIVES["mean-wait"], [parse("p95_wait<=100", KNOWN)], 2, simulate)
    assert asked == [[0, 1], [2]]
    assert names(found) == ["p2", "p1", "p0", "p3"]
    assert found[0]["satisfies"].tolist() == [True, False, False, False]
    assert found[0]["p95_wait_time"].tolist() == [99, 110, 120, 300]


def test_a_day_whose_wait_is_predicted_counts_with_those_that_are_simulated():
    """The best of a day, for its regret, is a simulated one: a lucky prediction sets no mark."""
    figures = values_with([[100.0, NAN, NAN], [60.0, 60.0, 60.0]])
    figures._by_workload = {"mean_wait_time": np.array([[7.0, 150.0, 1.0], [7.0, 7.0, 7.0]])}
    values, known = figures.value(OBJECTIVES["regret-max"])
    assert values.tolist() == pytest.approx([0, 0.5, 0]) and known.tolist() == [True, False, False]
    assert figures.value(OBJECTIVES["worst-day"])[0].tolist() == [100, 150, 60]


def test_learning_asks_for_one_model_or_for_one_per_workload():
    """By what the objective turns on; the case says which column and workload it holds."""
    figures, asked = values_with([[1.0, NAN], [3.0, NAN]], max_wait_time=[[5.0, NAN], [9.0, NAN]]), []

    def learn(case: WorkloadWaits) -> tuple[None, np.ndarray]:
        asked.append((case.name, case.column, case.wait[0]))
        return None, np.array([0.0, 8.0])

    for name in ("max-wait", "cvar"):
        assert figures.learn(OBJECTIVES[name], learn)
    both = "day0 + day1"
    assert asked == [(both, "max_wait_time max", 9), ("day0", "mean_wait_time", 1), ("day1", "mean_wait_time", 3)]
    assert figures.value(OBJECTIVES["max-wait"])[0].tolist() == [9, 8]
    assert not values_with([[1.0, NAN]]).learn(OBJECTIVES["cvar"], lambda case: None)


def test_a_front_is_found_again_after_its_predictions_were_simulated(monkeypatch):
    """Lucky predictions leave it, what they hid comes up, and constraints hold."""
    monkeypatch.setattr("procure.recommender.rank.FEWEST_CONFIRMED", 1)
    figures = values_with([[NAN, 50.0, NAN, NAN, 9.0]])
    figures._predicted = {"mean_wait_time mean": np.array([1.0, 50, 20, 30, 9])}
    simulate, asked = truth_of(mean_wait_time=[[70, 50, 25, 31, 9]])
    bound = [parse("A<=3", KNOWN)]
    axes = (OBJECTIVES["mean-wait"], OBJECTIVES["price"])
    figures.simulate = simulate
    found = find_front(figures, Criteria(constraints=tuple(bound), axes=axes))
    assert asked == [[0, 2, 3]]
    assert found["package_id"].tolist() == ["p2", "p3"]
    assert found["mean-wait"].tolist() == [25, 31] and found["price"].tolist() == [98, 97]
    assert found["simulated"].all() and found["knee"].sum() == 1


def test_the_best_by_an_axis_are_simulated_though_no_layer_of_the_front_holds_them(monkeypatch):
    """So a front begins with a package as good as the first of the list by that axis."""
    monkeypatch.setattr("procure.recommender.rank.FEWEST_CONFIRMED", 2)
    figures = values_with([[NAN, NAN, NAN, 9.0, 50.0]])
    figures._predicted = {"mean_wait_time mean": np.array([30.0, 30, 10, 9, 50])}
    simulate, asked = truth_of(mean_wait_time=[[70, 70, 5, 9, 50]])
    axes = (OBJECTIVES["mean-wait"], OBJECTIVES["price"])
    figures.simulate = simulate
    found = find_front(figures, Criteria(axes=axes))
    assert asked == [[2]]
    assert found["package_id"].tolist() == ["p2", "p3", "p4"]


def test_what_is_not_known_of_a_package_cannot_be_an_objective():
    figures = values_with(WAITS)
    figures.costs = pd.DataFrame({"energy_kwh_per_year": [1.0, NAN, NAN, 4]})
    with pytest.raises(TableError, match="energy: energy_kwh_per_year is not known for 2 of 4 packages; the quotes"):
        choose(figures, OBJECTIVES["energy"])


STUDY = """name = "small"
quotes = "quotes.csv"
[packages]
rules = "published"
budget_usd = 60_000
[costs]
usd_per_kwh = 0.1
[[workloads]]
name = "one"
generate = {{ seed = 3, n_jobs = {n} }}
[[workloads]]
name = "two"
generate = {{ seed = 4, n_jobs = {n} }}
[sweep]
sample = {sample}
[model]
folds = 2
[recommend]
k = 3
"""


def made(folder: Path, n: int = 150, sample: int = 2, more: str = "", budget: int = 60_000) -> Path:
    """A small study, swept."""
    return offered(folder, STUDY.format(n=n, sample=sample).replace("60_000", f"{budget}") + more)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("objectives"))


def ask(path: Path, *arguments: str) -> Result:
    words = ["recommend", str(path), "--resamples", "0", *arguments]
    return CliRunner().invoke(app, words, env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> PackageValues:
    """All packages of the same study."""
    return everything(made(tmp_path_factory.mktemp("truth"), sample=1))


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PackageValues]:
    """A study with enough packages to learn from, and what is true of all of them."""
    whole = made(tmp_path_factory.mktemp("whole"), sample=1, budget=120_000)
    return made(tmp_path_factory.mktemp("larger"), budget=120_000), everything(whole)


def everything(path: Path) -> PackageValues:
    loaded = load_results(path)
    columns = set(loaded.results.columns[loaded.results.notna().any()])
    held = [name for name, one in OBJECTIVES.items() if one.column in columns]
    every = [one for one in OBJECTIVES.values() if one.source == "result" and one.name in held]
    return values_of(loaded, Criteria(axes=(*every, OBJECTIVES["energy"])))


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["p95-wait", "slowdown", "max-wait", "regret-max", "cost-per-job", "energy"])
def test_the_command_finds_the_best_by_any_objective(swept, truth, objective):
    """Half of the packages are simulated before; the first of the list is the best of all."""
    answer = ask(swept, "--objective", objective, "--format", "json")
    assert answer.exit_code == 0, answer.output
    rows = json.loads(answer.stdout)
    values, _ = truth.value(OBJECTIVES[objective])
    best = values[truth.whole.runs_all].min()
    assert rows[0]["objective"] == objective and rows[0]["simulated"]
    assert rows[0]["objective_value"] == pytest.approx(best) and len(rows) == 3
    assert f"{objective}" in answer.stderr and "simulated before" in answer.stderr


def test_the_study_may_hold_objective_and_constraints(tmp_path):
    """They count without an option."""
    path = made(tmp_path, 60, 1, 'objective = "price"\nconstraints = ["Gpu2>=2"]\n')
    answer = ask(path, "--format", "json")
    assert json.loads(answer.stdout)[0]["counts"]["Gpu2"] >= 2
    assert json.loads(answer.stdout)[0]["objective"] == "price"


@pytest.mark.parametrize(
    "objective",
    [
        "worst-day",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("mean-wait", "p95-wait", "cvar", "regret-max")),
    ],
)
def test_predictions_keep_their_range_under_any_objective_and_constraint(larger, objective):
    """90 % ranges of the objective, the mean wait and what is constrained; they hold most of the truths."""
    path, truth = larger
    done = procure.recommend(path, objective=objective, constraints=["slowdown<=100000"], verify=False, resamples=0)
    table = done.ranking
    predicted = table[~table["simulated"] & (table["jobs_left_out"] == 0)]
    assert len(predicted) > 9
    for name, low, high in (
        ("mean_wait_time", "low_wait_time", "high_wait_time"),
        ("objective_value", "objective_low", "objective_high"),
        ("slowdown", "slowdown_low", "slowdown_high"),
    ):
        assert (predicted[low] <= predicted[name] + 1e-9).mean() > 0.7 and predicted[high].notna().all(), name
        assert table.loc[table["simulated"], [low, high]].isna().all(axis=None)
    real = truth.value(OBJECTIVES[objective])[0][predicted["row"].to_numpy()]
    held = (predicted["objective_low"] <= real) & (real <= predicted["objective_high"])
    assert held.mean() > 0.6
    # Packages that leave jobs out have a model of their own, and no range.
    rest = table[~table["simulated"] & (table["jobs_left_out"] > 0)]
    assert len(rest) == 0 or rest["low_wait_time"].isna().all()
    rows = records(done)
    assert all("objective_low" in one and "slowdown" in one["constrained_intervals"] for one in rows)


@pytest.mark.slow
def test_packages_that_leave_jobs_out_keep_their_model_under_a_constraint(tmp_path):
    """None of their mean waits is unknown where enough of them were simulated, as in the plain list."""
    jobs = generate(3, 150)
    jobs.loc[::30, "mem_mb_per_node"] = 600_000  # only Gpu2 has that much
    write(jobs, tmp_path / "jobs.parquet")
    text = STUDY.format(n=150, sample=2).replace("60_000", "120_000")
    path = offered(tmp_path, text.replace("generate = { seed = 3, n_jobs = 150 }", 'jobs = "jobs.parquet"'))
    plain = procure.recommend(path, resamples=0, verify=False).ranking.set_index("package_id")
    bound = procure.recommend(path, constraints=["price_usd>=1"], resamples=0, verify=False).ranking
    assert plain["jobs_left_out"].gt(0).sum() > 20 and plain["mean_wait_time"].notna().all()
    same = plain.loc[bound["package_id"]].reset_index()
    for name in ("mean_wait_time", "low_wait_time", "high_wait_time"):
        assert same[name].equals(bound[name])
    assert not same["low_wait_time"].isna().all()


@pytest.mark.slow
def test_the_command_prints_the_front_and_its_knee(swept, truth):
    """Equal to the front of all packages simulated; as a table, JSON or CSV."""
    answer = ask(swept, "--pareto", "wait,cost,energy", "--format", "json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    able = np.flatnonzero(truth.whole.runs_all)
    axes = [OBJECTIVES[name] for name in ("mean-wait", "tco", "energy")]
    points = np.column_stack([truth.value(axis)[0][able] for axis in axes])
    best = truth.packages["package_id"].to_numpy()[able[front(points)]]
    assert sorted(one["package_id"] for one in found["front"]) == sorted(best)
    assert [axis["unit"] for axis in found["axes"]] == ["s", "US$", "kWh/year"]
    assert sum(one["knee"] for one in found["front"]) == 1
    out = swept.with_name("front.csv")
    csv = ask(swept, "--pareto", "wait,cost", "--format", "csv", "--out", str(out)).stdout.splitlines()
    assert out.read_text().splitlines()[0] == csv[0]
    assert csv[0] == "package_id,mean-wait,tco,price_usd,simulated,knee"
    assert "knee" in ask(swept, "--pareto", "wait,cost").stdout


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workload that never waits, and existing nodes that run all of it."""
    folder = tmp_path_factory.mktemp("calm")
    nodes = "node_id,kind,cpus,mem_mb,gpus\n" + "".join(f"n{i},old,64,2000000,8\n" for i in range(60))
    (folder / "nodes.csv").write_text(nodes)
    text = STUDY.replace("budget_usd = 60_000", 'budget_usd = 60_000\nexisting_nodes = "nodes.csv"')
    return offered(folder, text.format(n=20, sample=1))


@pytest.mark.parametrize("objective", ["mean-wait", "p95-wait"])
def test_without_any_waiting_the_cheapest_package_stands_first(calm, objective):
    answer = ask(calm, "--objective", objective, "--format", "json")
    assert answer.exit_code == 0, answer.output
    rows = json.loads(answer.stdout)
    assert [one["mean_wait_time"] for one in rows] == [0, 0, 0]
    assert [one["price_usd"] for one in rows] == sorted(one["price_usd"] for one in rows)
    assert "no job waits" in answer.stderr


@pytest.mark.parametrize("rmse", [10.0, 9.6])
def test_a_model_no_better_than_a_constant_predicts_nothing(rmse):
    """Neither the mean wait of all workloads nor a single one's: there the mean of the known stands in."""
    values = values_with([[1.0, 2, NAN], [3.0, 5, NAN]])
    found = SimpleNamespace(wait=np.full(3, 4.0), errors=None, rmse_seconds=rmse, beats_constant=rmse <= 9.5)
    assert values.learn(OBJECTIVES["mean-wait"], lambda case: (found, np.full(3, 4.0)))
    assert np.isnan(values.value(OBJECTIVES["mean-wait"])[0][2])
    values.learn(OBJECTIVES["worst-day"], lambda case: (found, np.full(3, 4.0)))
    assert values.filled("mean_wait_time")[:, 2].tolist() == [1.5, 4.0]
