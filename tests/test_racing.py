"""Search by a race: what it spends, what it keeps, and that a recommendation uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from test_futures import log, study_file

from procure import recommend
from procure.errors import ArgumentError, TableError
from procure.explorer import racing, search
from procure.explorer.racing import KEPT
from procure.objectives import aggregate
from procure.recommender.race import as_it_is, by_rank
from procure.study import load_plan, load_study
from procure.sweep.runner import simulate_rows
from procure.sweep.trial import simulate_packages
from procure.tables import write


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("race")
    path = study_file(folder, 'draws = 6\nlength = "7d"', n=500)
    text = path.read_text().replace('["fcfs"]', '["best-fit"]')
    path.write_text(f'{text}past = false\n[recommend]\nobjective = "mean-wait"\n')
    write(log(n=500).assign(n_nodes=1), folder / "jobs.parquet")
    return path


@pytest.mark.slow
def test_a_race_spends_its_runs_where_they_decide(study):
    """Of a field of 200 most are only predicted; fifty run on all six futures and are listed with their means."""
    found = search(study, runs=400, k=5, seed=2)
    assert found.spent["method"] == "race" and found.spent["n_runs_asked"] <= 400
    asked, on_every = found.spent["n_packages_asked"], found.spent["n_packages_on_every_future"]
    assert found.spent["n_packages_in_field"] == 200
    assert on_every <= asked <= (400 - 6 * on_every) // 5 + on_every  # none is out before five futures
    kept = pd.concat([pd.read_parquet(part) for part in Path(found.spent["folder"]).glob("parts/*.parquet")])
    assert kept["package_id"].nunique() == asked and len(kept) == found.spent["n_runs_asked"]
    assert found.spent["n_runs_computed"] == found.spent["n_runs_asked"]
    assert found.spent["n_packages_on_every_future"] >= KEPT and len(found.ranking) >= KEPT
    assert found.spent["n_runs_asked"] < found.spent["n_runs_without_a_race"]
    assert found.ranking["mean_wait_time"].is_monotonic_increasing
    again = search(study, runs=400, k=5, seed=2)
    assert again.spent["n_runs_computed"] == 0
    assert again.ranking.equals(found.ranking)
    # The waits are those of runs made by themselves.
    plan = load_plan(load_study(study))
    first = found.ranking.head(1)
    runs = [simulate_packages(plan, first[plan.types].to_numpy(), name, "best-fit") for name in plan.workloads]
    jobs = [one["n_completed"].iloc[0] for one in runs]
    waits = [one["mean_wait_time"].iloc[0] for one in runs]
    mean = sum(w * n for w, n in zip(waits, jobs, strict=True)) / sum(jobs)
    assert first["mean_wait_time"].iloc[0] == pytest.approx(mean)


@pytest.mark.slow
def test_a_recommendation_knows_what_raced(study):
    found = search(study, runs=400, seed=2)
    done = recommend(study, k=3, verify=False)
    known = done.package_values.simulated
    ids = done.package_values.packages["package_id"].to_numpy()[known]
    assert set(ids) == set(found.ranking["package_id"])


def test_too_few_runs_are_refused_with_what_is_needed(study):
    with pytest.raises(TableError, match="give runs 300 or more"):
        search(study, runs=60)


@pytest.mark.parametrize(
    "more", [{"objective": "p95-wait"}, {"constraints": ["mean_wait<=1h"]}], ids=["objective", "constraint"]
)
def test_a_race_by_anything_else_is_refused(study, more):
    with pytest.raises(ArgumentError, match="by the objective mean-wait or rank or rank-by-class, without constraints"):
        search(study, runs=400, **more)


@pytest.mark.slow
def test_a_race_by_class_lists_by_the_figure_that_the_recommendation_has(study):
    """Two thirds of the rank by all jobs, one by classes, over the past, its parts and the futures by their weights."""
    path = study.with_name("by-class.toml")
    path.write_text(study.read_text().replace("past = false", "").replace("mean-wait", "rank-by-class"))
    found = search(path, runs=600, seed=2)
    listed = found.ranking["objective_value"]
    assert listed.is_monotonic_increasing and listed.between(0, 2**0.5).all()  # above 1: behind on the past
    done = recommend(path, k=3, verify=False)
    assert done.criteria.objective.name == "rank-by-class"
    assert done.ranking["objective_value"].head(3).is_monotonic_increasing


@pytest.mark.slow
def test_a_race_is_by_rank_where_the_study_or_the_caller_asks_for_it(study, monkeypatch):
    """What is raced by is what is listed by, whoever asks; the study's own objective does not count beside another."""
    by, given, race = [], [], racing.race

    def watched(*asked, **more):
        by.append(asked[5])
        given.append(race(*asked, **more))
        return given[-1]

    monkeypatch.setattr(racing, "race", watched)
    plain = load_study(study)
    ranks = plain.model_copy(update={"recommend": plain.recommend.model_copy(update={"objective": "rank"})})
    found = [
        search(plain, runs=400, seed=2, objective="rank"),
        search(ranks, runs=400, seed=2),
        search(ranks, runs=400, seed=2, objective="mean-wait"),
    ]
    assert by == [by_rank, by_rank, as_it_is]
    assert found[0].ranking.equals(found[1].ranking) and "by rank" in found[0].title
    assert found[0].ranking["objective_value"].is_monotonic_increasing
    assert found[2].ranking["mean_wait_time"].is_monotonic_increasing
    # The figure listed is the objective's own in the whole field; those that ran to the end are not all of it.
    field, listed = given[1], found[1].ranking["objective_value"].to_numpy()
    assert listed == pytest.approx(aggregate(field.filled, "rank")[field.finished])
    assert len(listed) < field.filled.shape[1]


@pytest.mark.slow
def test_a_race_of_runs_that_all_fail_ends_with_an_error(study, monkeypatch):
    def fail(bench, ids, counts):
        table, seconds = simulate_rows(bench, ids, counts)
        column = table.column_names.index("mean_wait_time")
        nothing = pa.nulls(len(table), table.schema.field(column).type)
        return table.set_column(column, table.schema.field(column), nothing), seconds

    monkeypatch.setattr(racing, "simulate_rows", fail)
    with pytest.raises(TableError, match=r"packages failed; .* says why"):
        search(load_study(study).model_copy(update={"name": "failing"}), runs=400, seed=2)


@pytest.mark.slow
def test_the_command_races_where_there_are_futures(study, procure):
    code, out, err = procure("search", str(study), "--runs", "400", "--seed", "2", "-k", "3", "--format", "json")
    assert code == 0, err
    document = json.loads(out)
    assert document["spent"]["method"] == "race" and len(document["packages"]) == 3
    assert "race over 6 workloads, in a field of 200 packages" in err and "nan" not in err
