"""Objections: what an expert would say is raised on a study that is wrong in one way, and not on a sound one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import procure
from procure.recommender.confidence import Confidence, loads_record
from procure.recommender.objections import COSTLY, NOTHING, ROWS, TURNS, objections
from procure.recommender.recommendation import records
from procure.recommender.rule_costs import RuleCost
from procure.tables import write

QUOTES = """name,category,cpus,mem_gb,gpus,price_usd
Small,compute,16,64,0,4000
Big,compute,64,512,0,15000
Gpu,gpu,32,128,4,30000
"""
NODES = "node_id,cpus,mem_mb,gpus\nold-1,64,512000,0\nold-2,64,512000,0\nold-3,64,512000,4\n"


def sound_jobs() -> pd.DataFrame:
    """Return two days of jobs that load the packages, and that waited long in the log."""
    rng, n = np.random.default_rng(5), 1_200
    jobs = procure.generate(seed=1, n_jobs=n)
    submit = 1_600_000_000 + np.sort(rng.integers(0, 2 * 86_400, n))
    run = rng.integers(1_800, 5_400, n)
    return jobs.assign(
        submit_time=submit, run_time=run, requested_time=2 * run, start_time=submit + 20 * 3600,
        end_time=submit + 20 * 3600 + run, n_nodes=1, cpus_per_node=rng.choice([4, 8, 12], n), gpus_per_node=0,
        gpu_type="", mem_mb_per_node=rng.choice([4_000, 16_000], n), user=[f"u{i % 20}" for i in range(n)],
    )  # fmt: skip


def recommended(folder: Path, jobs: pd.DataFrame | None = None, more: str = "", budget: int = 50_000, **how):
    """Sweep a study of these jobs, and return its recommendation."""
    (folder / "quotes.csv").write_text(QUOTES)
    (folder / "nodes.csv").write_text(NODES)
    write(sound_jobs() if jobs is None else jobs, folder / "jobs.parquet")
    text = f'quotes = "quotes.csv"\n[packages]\nbudget_usd = {budget}\n{{}}\n[[workloads]]\nname = "log"\n'
    source = 'jobs = "jobs.parquet"\n' if "[[workloads]]" not in more else ""
    packages, _, rest = more.partition("|")
    path = folder / "study.toml"
    path.write_text(text.format(packages) + (rest or source))
    procure.run_sweep(path, "serial")
    return procure.recommend(path, **{"k": 5} | how)


def raised(done) -> set[str]:
    """Return the names of what is objected to."""
    return {one.name for one in objections(done)}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory):
    """The recommendation of a study against which little can be said."""
    return recommended(tmp_path_factory.mktemp("sound"))


def test_a_sound_study_is_not_objected_to(sound) -> None:
    """But that its first packages are alike; every row has a sentence that ends without a stop, and advice."""
    assert raised(sound) <= {"not-told-apart", "turns-with-load"}
    for one in objections(sound):
        assert not one.sentence.endswith(".") and str(one).endswith(".") and one.name in ROWS


def test_jobs_of_tasks_are_read_as_they_ask(sound, tmp_path: Path) -> None:
    """Who makes the waiting, which memory is asked for, and what would be chosen for the nodes on which they ran."""
    jobs = sound_jobs()
    few = np.arange(len(jobs)) < 6
    jobs = jobs.assign(
        n_tasks=np.where(few, 60, 0), cpus_per_task=1, mem_mb_per_task=np.where(few, 1_000, 0), gpus_per_task=0,
        n_nodes=np.where(few, 15, 1), cpus_per_node=np.where(few, 4, 1), run_time=np.where(few, 80_000, 60),
        mem_mb_per_node=np.where(few, 0, 4_000), submit_time=jobs["submit_time"].min() + np.arange(len(jobs)) * 60,
    )  # fmt: skip
    done = recommended(tmp_path, jobs, budget=60_000)
    said = next(one.sentence for one in objections(done) if one.name == "few-jobs")
    assert "60 tasks with 1 CPU and 1.0 GB each" in said
    asked = records(done)[0]["concentration"]["few"]["request"]
    assert (asked["n_tasks"], asked["mem_mb_per_task"]) == (60, 1_000)
    # 15 nodes of four CPUs are what only the smallest servers can be.
    shape = records(done)[0]["shape"]
    assert shape["package_id"] == "Small=15" and shape["jobs_left_out"] == 0 and sound.shape is None
    assert shape["stays"] == (done.ranking["package_id"].iloc[0] == "Small=15")
    assert any("old nodes" in one for one in done.notes)


def test_a_first_package_that_was_confirmed_is_compared_by_what_it_waits(tmp_path: Path) -> None:
    done = recommended(tmp_path, budget=150_000, more='|jobs = "jobs.parquet"\n[sweep]\nsample = 40\n')
    row = int(done.ranking["row"].iloc[0])
    assert done.ranking["simulated_now"].iloc[0] and np.isnan(done.package_values.whole.wait[row])
    assert done.package_values.mean_wait[row] == done.ranking["mean_wait_time"].iloc[0]
    assert all("–" not in one.sentence for one in objections(done))
    assert not any("no job waits" in one for one in done.notes)


WRONG = {
    "made-up-jobs": ({"more": "|generate = { seed = 1, n_jobs = 300 }\n"}, lambda jobs: jobs),
    "jobs-left-out": ({}, lambda jobs: jobs.assign(  # however long it is, no queue grows by it
        cpus_per_node=[500, *jobs["cpus_per_node"].tolist()[1:]], run_time=[10**8, *jobs["run_time"].tolist()[1:]])),
    "longer-than-logged": ({}, lambda jobs: jobs.assign(start_time=jobs["submit_time"])),
    "few-jobs": ({"budget": 60_000}, lambda jobs: jobs.assign(
        cpus_per_node=[63] * 6 + [1] * (len(jobs) - 6), run_time=[80_000] * 6 + [60] * (len(jobs) - 6),
        submit_time=jobs["submit_time"].min() + np.arange(len(jobs)) * 60)),
    "costly-rule": ({"more": "min_gpu_nodes = 1|"}, lambda jobs: jobs),
    "below-demand": ({}, lambda jobs: jobs.assign(run_time=jobs["run_time"] * 10)),
    "far-above-demand": ({}, lambda jobs: jobs.assign(run_time=60)),
    "unknown-requests": ({}, lambda jobs: jobs.assign(mem_mb_per_node=0)),
    "replay-far-from-log": ({"more": 'existing_nodes = "nodes.csv"|'}, lambda jobs: jobs),
}  # fmt: skip
"""By objection: how the study is asked, and what its jobs are."""


@pytest.mark.parametrize("name", list(WRONG))
def test_what_is_wrong_is_raised(name: str, sound, tmp_path: Path) -> None:
    """On a study that is wrong in one way; the sound one does not raise it."""
    how, change = WRONG[name]
    done = recommended(tmp_path, change(sound_jobs()), **how)
    assert name in raised(done) and name not in raised(sound)
    if name == "jobs-left-out":
        assert "-hours, can never run" in objections(done)[0].sentence and "below-demand" not in raised(done)
    assert any(letter.isdigit() for letter in next(one.sentence for one in objections(done) if one.name == name))


def test_money_beyond_the_demand_is_said_where_cheaper_packages_wait_longer(tmp_path: Path) -> None:
    """Jobs come 95 at once, every three hours: without GPU nodes all start, with some a fifth waits 20 minutes."""
    jobs = sound_jobs()
    bunch = np.arange(len(jobs)) // 95 * 10_800
    jobs = jobs.assign(submit_time=1_600_000_000 + bunch, run_time=1_200, cpus_per_node=4, mem_mb_per_node=4_000)
    done = recommended(tmp_path, jobs, budget=100_000)
    said = next(one.sentence for one in objections(done) if one.name == "far-above-demand")
    assert "less money may do" in said


@given(before=st.floats(1, 1e6), share=st.floats(0, 1.2), more=st.integers(0, 3), found=st.booleans())
def test_a_rule_is_objected_to_where_it_costs_a_tenth(
    sound, before: float, share: float, more: int, found: bool
) -> None:
    """Of the wait and at least a minute, or where jobs can run without it; not where nothing better was found."""
    value = before * share
    one = RuleCost("min_gpu_nodes = 1", 9, "Small=1" if found else None, "mean-wait", "s", value, before, 0, more)
    costly = found and (more > 0 or (before - value > COSTLY * before and before - value >= NOTHING))
    assert ("costly-rule" in raised(replace(sound, rule_costs=(one,)))) == costly


@given(simulated=st.lists(st.booleans(), min_size=1, max_size=3))
def test_a_prediction_that_leads_is_said(sound, simulated: list[bool]) -> None:
    ranking = sound.ranking.head(len(simulated)).assign(simulated=simulated)
    assert ("predicted-leads" in raised(replace(sound, ranking=ranking, confidence=None))) == (not simulated[0])


def test_a_bound_that_costs_the_wait_is_named(sound, tmp_path: Path) -> None:
    """With the wait of the best package that was simulated and keeps the others."""
    done = recommended(tmp_path, constraints=["total_gpus>=4"])
    found = next(one for one in objections(done) if one.name == "costly-rule")
    assert "total_gpus>=4" in found.sentence and "costly-rule" not in raised(sound)


@given(wait=st.lists(st.floats(0, 1e5), min_size=2, max_size=5), load=st.sampled_from([1.2, 1.5]))
def test_the_choice_turns_where_another_is_better_under_more_load(sound, wait: list[float], load: float) -> None:
    """By a hundredth of the wait, and under 1.2 times the load."""
    loads = pd.DataFrame([wait, wait], index=[1.0, load], columns=[f"Small={i}" for i in range(len(wait))])
    other = loads_record(loads, np.empty((0, 1)), np.empty((0, 1)), np.empty((0, 1)))
    turns = load == 1.2 and wait[0] - min(wait) > TURNS * wait[0]
    assert ("turns-with-load" in raised(replace(sound, other_loads=other))) == turns


@given(alike=st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4))
def test_packages_that_cannot_be_told_apart_are_counted(sound, alike: list[bool | None]) -> None:
    """Where the jobs were resampled, and another package is as good."""
    ids = sound.ranking["package_id"].iloc[: len(alike) + 1]
    table = pd.DataFrame({"package_id": ids, "alike": pd.array([True, *alike], dtype="boolean")})
    done = replace(sound, confidence=Confidence(table, "days", 10, 10))
    found = [one for one in objections(done) if one.name == "not-told-apart"]
    assert bool(found) == (None not in alike and any(alike))
    n, of = sum(map(bool, alike)) if found else 0, len(alike)
    others = "the other" if of == 1 else f"any of the {of} others" if n == of else f"{n} of the {of} others"
    assert not found or f"told apart from {others} that" in found[0].sentence
