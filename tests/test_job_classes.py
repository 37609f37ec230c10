"""A study's own classes of jobs: read, refused where they make no sense, and measured as a slow twin does."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_lab import make_study

from procure import recommend
from procure.errors import TableError
from procure.objectives.conditions import parse_classes
from procure.packages import package_nodes
from procure.run import simulate
from procure.schemas import CLASS_FIGURES
from procure.schemas import CLASSES as JOB_CLASSES
from procure.simulator.metrics import INDEX, METRIC_NAMES, Groups, measure_groups
from procure.study import load_plan, load_study
from procure.study.check import check_study, study_notes
from procure.sweep import run_sweep
from procure.sweep.trial import find_package, simulate_packages
from procure.tables import JOB, check

CLASSES = '[classes]\nsmall = "cpus <= 4 and nodes == 1"\nbig_mem = "mem_per_cpu > 1GB"\n'


def jobs_of(**columns) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    plain = {
        "job_id": [str(i) for i in range(n)],
        "submit_time": [0] * n,
        "run_time": [10] * n,
        "cpus_per_node": [1] * n,
    }
    return check(pd.DataFrame(plain | columns), JOB)


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("cpus <= 4", [1, 1, 0, 1]),
        ("cpus<=4 and nodes==1", [1, 0, 0, 1]),
        ("cpus_per_node == 2 and nodes > 1", [0, 1, 0, 0]),
        ("mem_per_cpu > 8GB", [0, 0, 1, 0]),
        ("mem >= 0.4TB", [0, 0, 1, 0]),
        ("gpus >= 1", [0, 0, 1, 0]),
        ("requested_time <= 1h", [1, 0, 0, 0]),
        ("group == chem|physics", [1, 1, 1, 0]),
        ("group != chem", [0, 1, 0, 1]),
        ("account == chem", [1, 0, 1, 0]),
        ("partition != gpu*", [1, 1, 0, 0]),
        ("partition == gpu* and user == ann", [0, 0, 1, 0]),
        ("gpu_type == A100", [0, 0, 1, 0]),
        ("user ~ NN or", [0, 0, 0, 0]),
        ("user ~ nn|ev", [0, 0, 1, 1]),
        ("job_name ~ vasp and nodes = 1", [0, 0, 0, 1]),
    ],
)
def test_a_class_is_what_its_conditions_say(text, members):
    """Amounts are of all nodes; memory in GB of 1,000 MB; no limit is a long one; patterns for text."""
    jobs = jobs_of(
        user=["bob", "bob", "ann", "eve"],
        account=["chem", "physics", "chem", ""],
        n_nodes=[1, 2, 1, 1],
        cpus_per_node=[4, 2, 40, 1],
        mem_mb_per_node=[4000, 4000, 400_000, 8000],
        gpus_per_node=[0, 0, 2, 0],
        gpu_type=["", "", "v100|a100", ""],
        partition=["batch", "batch", "gpu-long", "gpu"],
        job_name=["", "VASP6", "x", "my-vasp"],
        requested_time=[3600, 7200, 90_000, 0],
    )
    assert parse_classes({"mine": text})[0].members(jobs).astype(int).tolist() == members


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("small", "cpu <= 4", r"'cpu' is unknown; did you mean cpus"),
        ("small", "cpus <= 4 or nodes == 1", "write conditions joined by 'and'"),
        ("small", "", "has no condition"),
        ("small", "cpus", "write conditions joined by 'and'"),
        ("small", "mem <= 4 parsec", "'parsec' is not a unit of mem; allowed: GB, TB"),
        ("small", "cpus <= 4 and cpus > 8", "no job can be in it: 'cpus <= 4' and 'cpus > 8' contradict"),
        ("small", "group <= 4", "group is text; compare it by ==, != or ~"),
        ("small", "nodes ~ 4", "write conditions joined by 'and'"),
        ("small", "group == a||b", "a name is missing"),
        ("gpu", "gpus > 0", "the name is taken"),
        ("max", "gpus > 0", "the name is taken"),
        ("user_fair", "gpus > 0", "the name is taken"),
        ("Small Jobs", "cpus <= 4", "in lower case"),
        ("small", "__import__('os') == 1", "is unknown"),
    ],
)
def test_what_is_no_class_is_refused_in_one_line(name, text, says):
    with pytest.raises(TableError, match=says) as caught:
        parse_classes({name: text})
    assert "\n" not in str(caught.value)


def test_figures_of_own_classes_are_those_of_a_slow_twin(tmp_path):
    """The sweep's kernel, and the schedule of each package, looked at job by job; who is in both counts in both."""
    path = make_study(tmp_path, budget="40_000")
    path.write_text(path.read_text() + CLASSES)
    plan = load_plan(load_study(path))
    assert any("classes small and big_mem overlap" in note for note in plan.notes)
    run_sweep(plan, "serial")
    rows = pd.read_parquet(plan.study.folder / "results.parquet")
    jobs = plan.workloads["day"]
    small = (jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"] <= 4) & (jobs["n_nodes"] == 1)
    big = jobs["mem_mb_per_node"] / jobs["cpus_per_node"].clip(lower=1) > 1000
    assert 0 < (small & big).sum() < min(small.sum(), big.sum())
    few = rows.iloc[:: max(1, len(rows) // 4)]
    counts = np.array([find_package(plan, one) for one in few["package_id"]])
    by_loop = simulate_packages(plan, counts, "day", "fcfs")  # not by the kernel for many packages
    for policy, found in (("best-fit", few), ("fcfs", by_loop)):
        for row, bought in zip(found.itertuples(), counts, strict=True):
            nodes = package_nodes(dict(zip(plan.types, bought.tolist(), strict=True)), plan.quotes)
            schedule = simulate(jobs, nodes, policy, kill_at_limit=False, logged_speed="5").schedule
            wait = (schedule["start_time"] - schedule["submit_time"]).astype("float64")
            for name, mine in (("small", small), ("big_mem", big)):
                held = wait[mine.to_numpy() & wait.notna().to_numpy()].to_numpy()
                expected = [held.mean(), np.quantile(held, 0.95), (held > 3600).mean()]
                got = [getattr(row, f"{name}_{one}") for one in CLASS_FIGURES]
                assert got == pytest.approx(expected)


def test_own_classes_are_ranked_by_bounded_and_promised(tmp_path, procure):
    path = make_study(tmp_path, budget="40_000")
    text = path.read_text() + CLASSES
    path.write_text(text)
    run_sweep(load_plan(load_study(path)), "serial")
    by = recommend(path, k=3, objective="big_mem-p95-wait", resamples=0).ranking
    rows = pd.read_parquet(tmp_path / "results" / "small" / "results.parquet").set_index("package_id")
    assert rows.loc[by["package_id"].iloc[0], "big_mem_p95_wait_time"] == rows["big_mem_p95_wait_time"].min()
    bound = rows["small_mean_wait_time"].quantile(0.3)
    kept = recommend(path, k=3, constraints=f"small_wait<={bound:.3f}", resamples=0).ranking
    holds = rows.loc[kept["package_id"], "small_mean_wait_time"].to_numpy() <= bound + 0.001
    assert (kept["satisfies"].to_numpy(dtype=bool) == holds).all() and 0 < holds.sum() < len(holds)
    code, out, err = procure("recommend", str(path), "-k", "2", "--resamples", "0", "--format", "json")
    assert code == 0, err
    first = json.loads(out)[0]
    found = {one["class"]: one for one in first["by_class"]}
    assert found["small"]["mean_wait_time"] == pytest.approx(rows.loc[first["package_id"], "small_mean_wait_time"])
    built_in = [one for name, one in found.items() if name in JOB_CLASSES]
    total = sum(one["n_jobs"] * one["mean_wait_time"] for one in built_in)
    assert total / sum(one["n_jobs"] for one in built_in) == pytest.approx(first["mean_wait_time"])
    assert 0 < first["concentration"]["share_of_waiting"] <= 1
    code, _, err = procure("recommend", str(path), "--objective", "tiny-wait")
    assert code == 2 and "'tiny-wait' is unknown" in err


def test_a_class_that_is_defined_later_asks_for_its_runs(tmp_path, procure):
    """Results from before do not hold it: one line says so, a sweep repeats them; a class that goes takes nothing."""
    path = make_study(tmp_path, budget="20_000")
    text = path.read_text()
    run_sweep(load_plan(load_study(path)), "serial")
    path.write_text(text + CLASSES)
    code, _, err = procure("recommend", str(path), "--resamples", "0")
    assert code == 1 and "of a class that was defined later" in err and "procure sweep" in err
    assert procure("sweep", str(path), "--farm", "serial")[0] == 0
    assert procure("recommend", str(path), "--resamples", "0", "--objective", "small-wait")[0] == 0
    path.write_text(text)
    assert procure("recommend", str(path), "--resamples", "0")[0] == 0
    path.write_text(text + '[classes]\nsmall = "cpus <= 2"\n')
    assert procure("recommend", str(path), "--resamples", "0")[0] == 1


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[classes]\nnone = "gpus > 900"\n', None),
        (
            '[classes]\nnone = "gpus > 900"\n[recommend]\nconstraints = ["none_wait<=1h"]\n',
            "no job of the workloads falls into it",
        ),
        ('[classes]\nchem = "user == chem"\n[recommend]\nobjective = "chem-wait"\n', "; user is "),
        ('[classes]\nchem = "user == chem"\n[recommend]\nconstraints = ["chem_wait<=1h"]\n', "falls into it"),
        (
            '[classes]\nchem = "account == chem"\n',
            r"toml: classes: class chem: account == chem: the jobs have no column account",
        ),
        ('[targets]\ngpu = "p95 wait <= 4h"\n', "targets: unknown key; it was removed: bound what is promised"),
        ('[classes]\nchem = "mem < 1"\n[recommend]\nobjective = "chen-wait"\n', "'chen-wait' is unknown"),
    ],
)
def test_a_class_without_a_job_is_warned_of_and_may_be_promised_nothing(tmp_path, more, says):
    path = make_study(tmp_path, budget="20_000")
    path.write_text(path.read_text() + more)
    if says is None:
        said = "class none: no job of the workloads falls into it"
        assert any(said in one for one in load_plan(load_study(path)).notes)
        assert any(said in one for one in study_notes(check_study(path)[0]))
        return
    with pytest.raises(TableError, match=says):
        load_plan(load_study(path))
    with pytest.raises(TableError, match=says):
        check_study(path)


ROW = st.tuples(st.integers(0, 400), st.integers(-1, 9000), st.integers(0, 3), st.integers(0, 2))


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=30), st.integers(0, 300))
def test_waits_by_class_and_user_are_those_of_a_slow_twin(rows, counts_from):
    """Mean, 95th percentile and share over an hour of what ran of each class; the mean over users of their means."""
    rows = sorted(rows)
    submit, wait, job_class, user = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    start = np.where(wait < 0, -1, submit + wait)
    out = np.full(len(METRIC_NAMES), np.nan)
    measure_groups(submit, start, Groups(job_class, user), counts_from, out)
    counts = (wait >= 0) & (submit >= counts_from)
    found = dict(zip(METRIC_NAMES, out, strict=True))
    for i, name in enumerate(JOB_CLASSES):
        mine = wait[counts & (job_class == i)]
        expected = [mine.mean(), np.quantile(mine, 0.95), (mine > 3600).mean()] if len(mine) else [np.nan] * 3
        got = [found[f"{name}_{one}"] for one in ("mean_wait_time", "p95_wait_time", "share_over_1h")]
        assert got == pytest.approx(expected, nan_ok=True)
    means = [wait[counts & (user == one)].mean() for one in np.unique(user[counts])]
    expected = np.mean(means) if means else np.nan
    assert out[INDEX.user_fair_wait_time] == pytest.approx(expected, nan_ok=True)
    share = (wait[counts] > 3600).mean() if counts.any() else np.nan
    assert out[INDEX.share_over_1h] == pytest.approx(share, nan_ok=True)
