"""Search by a race: what it spends, what it keeps, and that a recommendation uses it."""

from __future__ import annotations

import json

import pytest
from test_futures import log, study_file

from procure import recommend
from procure.errors import ArgumentError, TableError
from procure.explorer import search
from procure.explorer.racing import KEPT
from procure.study import load_plan, load_study
from procure.sweep.trial import simulate_counts
from procure.tables import write


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("race")
    path = study_file(folder, 'draws = 6\nlength = "7d"', n=500)
    path.write_text(path.read_text().replace('["fcfs"]', '["best-fit"]'))
    write(log(n=500).assign(n_nodes=1), folder / "jobs.parquet")
    return path


def test_a_race_spends_its_runs_where_they_decide(study):
    """Half the runs go to the first future; fifty packages run on all six, and these are listed with their means."""
    found = search(study, runs=400, k=5, seed=2)
    assert found.spent["method"] == "race" and found.spent["n_runs_asked"] <= 400 + KEPT * 5
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
    runs = [simulate_counts(plan, first[plan.types].to_numpy(), name, "best-fit") for name in plan.workloads]
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
def test_a_race_is_by_the_mean_wait(study, more):
    with pytest.raises(ArgumentError, match="by the mean wait"):
        search(study, runs=400, **more)


def test_the_command_races_where_there_are_futures(study, procure):
    code, out, err = procure(
        "search", str(study), "--runs", "400", "--seed", "2", "-k", "3", "--format", "json"
    )
    assert code == 0, err
    document = json.loads(out)
    assert document["spent"]["method"] == "race" and len(document["packages"]) == 3
    assert "race over 6 workloads" in err
