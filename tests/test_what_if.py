"""The same package under more load, more GPU jobs, another policy or budget: a row for each, and all together."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from small_study import swept

import procure
from procure.errors import ArgumentError, TableError
from procure.recommender.confidence import GROWTHS, other_loads
from procure.recommender.learning import values_of
from procure.recommender.values import Criteria
from procure.recommender.what_if import Changes, changed_jobs, read_factor, try_changes
from procure.sweep.results import load_results
from procure.workload import generate


@cache
def _loaded():
    return load_results(swept())


def loaded(jobs=None):
    """The small study's results; with other jobs, these in its workload's place."""
    found = replace(_loaded())
    if jobs is not None:
        found = replace(found, plan=replace(found.plan, workloads={"day-1": jobs}))
    return found


def with_gpu_jobs():
    jobs = loaded().plan.workloads["day-1"].copy()
    jobs.loc[::20, "gpus_per_node"] = 1
    return loaded(jobs)


@pytest.mark.slow
def test_each_change_alone_then_all_together():
    """The baseline is first; growth adds jobs, the GPU share adds GPU jobs only, all together adds both."""
    with pytest.raises(TableError, match="no job of this workload asks for GPUs"):
        try_changes(loaded(), loaded().counts[0], Changes(gpu_jobs=2.0))
    results = with_gpu_jobs()
    counts = results.counts[int(np.flatnonzero(results.cases[0].runs_all)[0])]
    changes = Changes(growth=1.5, gpu_jobs=3.0, policy="fcfs", seed=2)
    table = try_changes(results, counts, changes).set_index("situation")
    assert list(table.index) == ["as it is", "load × 1.5", "GPU jobs × 3", "policy fcfs", "all together"]
    base = table.loc["as it is"]
    assert base["n_jobs"] == 300 and base["wait_difference"] == 0
    assert table.loc["load × 1.5", "n_jobs"] > 300
    more = table.loc["GPU jobs × 3"]
    assert more["gpu_jobs"] > base["gpu_jobs"] and more["n_jobs"] - 300 == more["gpu_jobs"] - base["gpu_jobs"]
    assert table.loc["policy fcfs", "policy"] == table.loc["all together", "policy"] == "fcfs"
    assert table.loc["all together", "n_jobs"] > table.loc["load × 1.5", "n_jobs"]
    again = try_changes(results, counts, changes).set_index("situation")
    assert again.equals(table)


@pytest.mark.slow
def test_the_first_under_other_loads_waits_as_what_if_says():
    results = loaded()
    rows = np.flatnonzero(results.cases[0].runs_all & results.cases[0].simulated)[:3]
    table = other_loads(results, values_of(results, Criteria()), rows, [], seed=2)["loads"]
    assert [one["load"] for one in table] == [*GROWTHS]
    for one in table:
        changes = Changes(growth=one["load"], seed=2)
        waits = [float(try_changes(results, results.counts[row], changes)["mean_wait_time"].iloc[1]) for row in rows]
        assert one["mean_wait_time"] == waits[0] and one["regret_seconds"] == waits[0] - min(waits)
        assert one["rank"] == 1 + sum(wait < waits[0] for wait in waits)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (Changes(growth=0.0), "growth 0 was given; it must be above 0"),
        (Changes(growth=-1.0), "growth -1 was given"),
        (Changes(gpu_jobs=0.0), "gpu-share 0 was given"),
        (Changes(policy="esy"), "'esy' is not known; did you mean easy"),
        (Changes(), "nothing changes"),
    ],
)
def test_what_cannot_be_is_one_clear_error(changes: Changes, message: str):
    with pytest.raises(TableError, match=message):
        changes.check()


def test_gpu_shares_are_read_and_jobs_without_gpus_refused():
    """2x is twice the jobs; a bare number could be a share, and a share of all is gone."""
    assert read_factor("2x") == 2.0 and read_factor(None) is None
    for wrong in ("2", "30%"):
        with pytest.raises(TableError, match="such as 2x"):
            read_factor(wrong)
    jobs = generate(1, 50).assign(gpus_per_node=0)
    results = loaded()
    without = replace(results.plan, workloads=dict.fromkeys(results.plan.workloads, jobs))
    with pytest.raises(TableError, match="no job of this workload asks for GPUs"):
        try_changes(replace(results, plan=without), results.counts[0], Changes(gpu_jobs=2.0))
    every = jobs.assign(gpus_per_node=1)
    assert len(changed_jobs(every, Changes(gpu_jobs=2.0))) == 100


@pytest.mark.slow
def test_what_if_and_train_are_functions_of_the_library():
    """From Python: tables, a summary, a table for a notebook; a wrong argument names itself."""
    name = loaded().cases[0].packages["package_id"].iloc[0]
    found = procure.what_if(swept(), name, growth=1.2)
    assert found.table["situation"].tolist() == ["as it is", "load × 1.2"]
    assert name in found.summary() and "<table" in found._repr_html_()
    for argument, changed in (
        ("growth", {"growth": -1.0}),
        ("growth", {"growth": 2000.0}),
        ("gpu_share", {"gpu_share": "2"}),
        ("growth", {}),
    ):
        with pytest.raises(ArgumentError) as raised:
            procure.what_if(swept(), name, **changed)
        assert raised.value.argument == argument
    with pytest.raises(ArgumentError, match="no quote is named") as raised:
        procure.what_if(swept(), "X=1", growth=2.0)
    assert raised.value.argument == "package"
    done = procure.train(swept(), feature_set="totals")
    assert done.table["feature_set"].tolist() == ["totals"] and done.records()[0]["rmse_seconds"] > 0
    assert "rmse_seconds" in done.summary() and "<table" in done._repr_html_()
    with pytest.raises(ArgumentError, match="'total' is unknown; did you mean totals"):
        procure.train(swept(), feature_set="total")
