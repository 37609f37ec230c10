"""Comparing schedulers: tests, classes, parts, replay, charts and the command's JSON."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from policy_cases import job_table, node_table, pool_case
from scipy import stats
from typer.testing import CliRunner

from procure.cli.main import app
from procure.comparison import compare, replay
from procure.comparison.report import mean_waits
from procure.comparison.side_by_side import in_slices, paired_tests
from procure.comparison.waits import metrics_by, resource_usage, size_class, user_class
from procure.errors import TableError
from procure.run import simulate
from procure.simulator.metrics import METRIC_NAMES, utilization_nodes


def workload(n: int = 80) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pool_case(np.random.default_rng(3), n)


def test_paired_tests_are_scipys_and_the_interval_covers_the_mean():
    """Difference, p of t and Wilcoxon as SciPy has them for pairs; the bootstrap repeats with its seed."""
    rng = np.random.default_rng(0)
    base = rng.normal(100, 30, 20)
    values = pd.DataFrame({"a": base, "b": base - 5 + rng.normal(0, 4, 20)})
    found = paired_tests(values, "a").iloc[0]
    assert found["difference"] == pytest.approx((values["b"] - values["a"]).mean())
    assert found["p_t"] == pytest.approx(stats.ttest_rel(values["b"], values["a"]).pvalue)
    assert found["p_wilcoxon"] == pytest.approx(stats.wilcoxon(values["b"], values["a"]).pvalue)
    assert found["low"] < found["difference"] < found["high"] < 0
    assert paired_tests(values, "a").equals(paired_tests(values, "a"))


def test_no_significance_of_few_parts_and_none_without_a_difference():
    """Equal policies, and a single part, give NaN instead of an error."""
    values = pd.DataFrame({"a": [10.0, 20, 30, 40, 50, 60], "b": [9.0, 18, 28, 37, 46, 55]})
    same = paired_tests(values.assign(b=values["a"]), "a").iloc[0]
    assert same["difference"] == 0 and same[["p_t", "p_wilcoxon"]].isna().all()
    assert np.isnan(paired_tests(values.iloc[:1], "a").iloc[0]["low"])
    few, enough = paired_tests(values.iloc[:5], "a").iloc[0], paired_tests(values, "a").iloc[0]
    assert few["difference"] == -2.4 and few[["low", "high", "p_t", "p_wilcoxon"]].isna().all()
    assert enough["p_wilcoxon"] < 0.05 and enough["high"] < 0


def test_size_and_user_classes():
    """Sizes by CPUs over all nodes; users by their part of all CPU-seconds."""
    jobs = job_table(submit_time=[0] * 5, run_time=[100, 60, 40, 9, 1], n_nodes=[1, 4, 5, 64, 300], user=list("abcde"))
    assert size_class(jobs).tolist() == ["1", "2-4", "5-16", "17-64", ">256"]
    same_size = jobs.assign(n_nodes=1, run_time=[50, 30, 12, 6, 2])
    assert user_class(same_size).tolist() == ["heavy", "medium", "medium", "light", "light"]


def test_resource_usage_counts_only_wanted_cpus():
    """Two CPUs, one busy for 10 s: nobody wanted the other, so usage is 1 while utilization is 1/2."""
    for submit, n_nodes, usage in (([0, 20], 1, 1.0), ([0, 0], [1, 2], 30 / 40)):
        run = simulate(job_table(submit_time=submit, run_time=[10, 10], n_nodes=n_nodes), node_table(2), "fcfs")
        assert resource_usage(run.schedule, 2) == pytest.approx(usage)


def test_a_class_of_which_no_job_runs_is_a_column_without_a_wait():
    """Jobs that no node can hold have no wait under any policy; the table of classes says so."""
    jobs = job_table(submit_time=[0, 0], run_time=10, cpus_per_node=[1, 30], user="a")
    found = mean_waits(compare(jobs, node_table(2), ["fcfs"]).by_size)
    assert found.columns.tolist() == ["policy", "1", "17-64"]
    assert found.loc[0, "1"] == 0 and np.isnan(found.loc[0, "17-64"])


def test_slices():
    jobs = job_table(submit_time=np.arange(100) * 20_000, run_time=[1] * 100)
    weeks = list(in_slices(jobs, "week"))
    assert [len(week) for _, week in weeks] == [31, 30, 30]  # the fourth has too few jobs
    with pytest.raises(TableError, match="did you mean week"):
        list(in_slices(jobs, "weeks"))


def test_replay_of_a_simulated_log_is_perfect():
    """Where the log was made by the same rule, simulated and logged waits agree."""
    jobs, nodes = workload()
    run = simulate(jobs, nodes, "easy")
    fidelity = replay(run.schedule, simulate(run.schedule, nodes, "easy")).set_index("cpus")
    assert fidelity.loc["all", "mean_error"] == 0
    assert fidelity.loc["all", "share_within"] == 1
    with pytest.raises(TableError, match="no start_time"):
        replay(jobs, run)


def test_comparison_holds_each_policys_own_run():
    """The table repeats `simulate`; oracle sjf is sjf on requests that are run times; ranks start at 1."""
    jobs, nodes = workload()
    found = compare(jobs, nodes, ["fcfs", "sjf", "sjf@oracle"], slices="month")
    table = found.table.set_index("policy")
    assert table.loc["sjf", "mean_wait_time"] == simulate(jobs, nodes, "sjf").metrics["mean_wait_time"]
    oracle = simulate(jobs.assign(requested_time=jobs["run_time"].clip(lower=1)), nodes, "sjf")
    assert table.loc["sjf@oracle", "mean_wait_time"] == oracle.metrics["mean_wait_time"]
    assert table["rank"].min() == 1
    assert len(found.parts) == 3 and set(found.tests["policy"]) == {"sjf", "sjf@oracle"}


def test_classes_repeat_the_runs_own_metrics():
    """One class of all jobs has the run's metrics; classes add up to the run where sums are meant."""
    jobs, nodes = workload()
    jobs.loc[3, "cpus_per_node"] = 10_000
    jobs.loc[5:9, "requested_time"] = 1
    run = simulate(jobs, nodes, "easy")
    assert run.metrics["n_unrunnable"] > 0 and run.metrics["n_killed"] > 0
    whole = metrics_by(run, nodes, pd.Series(pd.Categorical(["all"] * len(jobs)))).iloc[0]
    for name in METRIC_NAMES:
        value = run.metrics[name]
        assert whole[name] == pytest.approx(value, nan_ok=True) if value is not None else pd.isna(whole[name])
    classes = metrics_by(run, nodes, size_class(jobs))
    for name in ("n_jobs", "n_completed", "n_unrunnable", "n_killed", "utilization_cpu"):
        assert classes[name].sum() == pytest.approx(run.metrics[name])


@pytest.mark.parametrize("seed", range(20))
def test_busy_nodes_are_those_that_run_a_job_second_by_second(seed):
    """Jobs that share a node count it once, jobs that never ran not at all; nothing ran: unknown."""
    rng = np.random.default_rng(seed)
    start = np.where(rng.random(12) < 0.2, -1, rng.integers(0, 30, 12))
    end = np.where(start < 0, -1, start + rng.integers(0, 9, 12))
    wanted = np.where(start < 0, 0, rng.integers(1, 4, 12))
    nodes = [rng.permutation(5)[:n] for n in wanted]
    first = np.concatenate([[0], np.cumsum(wanted)])
    found = utilization_nodes(start, end, np.concatenate(nodes).astype(np.int32), first, 5)
    busy = np.zeros((5, 40), bool)
    for own, low, high in zip(nodes, start, end, strict=True):
        busy[own, max(low, 0) : max(high, 0)] = True
    assert found == pytest.approx(busy.sum() / (5 * end.max()))
    never = np.full(2, -1)
    assert utilization_nodes(never, never, np.zeros(2, np.int32), np.arange(3), 5) is None


def test_compare_shows_busy_nodes_in_a_network():
    """Where nodes stand in a tree, the table that people read holds the share of nodes that are busy."""
    jobs = job_table(submit_time=[0, 0], run_time=[60, 30]).assign(user="")
    nodes = node_table(3)
    assert "utilization_nodes" not in compare(jobs, nodes, ["fcfs"]).shown()
    shown = compare(jobs, nodes.assign(leaf=0, pod=0), ["fcfs"]).shown()
    assert shown["utilization_nodes"].tolist() == [pytest.approx(90 / 180)]


@pytest.fixture
def files(tmp_path):
    jobs, nodes = workload(40)
    jobs.to_csv(tmp_path / "jobs.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    return tmp_path, ["--jobs", str(tmp_path / "jobs.csv"), "--nodes", str(tmp_path / "nodes.csv")]


def test_simulate_gantt_and_policies_commands(files):
    """A schedule is written, drawn as a figure and as text; policies are listed and described."""
    folder, tables = files
    schedule = folder / "schedule.parquet"
    runner = CliRunner()
    options = ["--policy", "easy:order=sjf,fit=best", "--out", str(schedule)]
    for name in ("g.svg", "again.svg", "g.txt"):
        assert runner.invoke(app, ["simulate", *tables, *options, "--gantt", str(folder / name)]).exit_code == 0
    drawn = (folder / "g.svg").read_text()
    assert "<svg" in drawn and (folder / "again.svg").read_text() == drawn
    text = (folder / "g.txt").read_text()
    assert "n0 |" in text and max(map(len, text.splitlines())) <= 120
    names = [row["name"] for row in json.loads(runner.invoke(app, ["policies", "--format", "json"]).stdout)]
    assert {"fcfs", "easy", "conservative", "tabu"} <= set(names)
    assert "shadow" in runner.invoke(app, ["policies", "easy"]).stdout
    words = ["compare", *tables, "--policies", "fcfs,easy", "--slices", "month", "--report", str(folder / "c.html")]
    records = json.loads(runner.invoke(app, [*words, "--format", "json"]).stdout)
    assert [record["policy"] for record in records] == ["fcfs", "easy"] and "<svg" in (folder / "c.html").read_text()


def test_cut_from_the_whole_run_every_job_counts_once(monkeypatch):
    """With continuous slices the parts hold every job of the run of the whole, and their mean wait is its mean wait."""
    jobs, nodes = workload(60)
    jobs["submit_time"] = np.arange(60) * 20_000
    jobs["run_time"] = jobs["requested_time"] = 50_000
    found = compare(jobs, nodes, ["fcfs", "sjf"], slices="week", continuous=True)
    part = found.parts[found.parts["policy"] == "fcfs"]
    assert part["n_jobs"].sum() == 60
    whole = float(found.table.set_index("policy").loc["fcfs", "mean_wait_time"])
    ran = part["n_completed"].astype(float)
    assert np.isclose((part["mean_wait_time"].astype(float) * ran).sum() / ran.sum(), whole)
    assert found.table["widest_wait_time"].notna().all()
    monkeypatch.setattr("procure.comparison.side_by_side.run_policy", None)  # refused before anything is simulated
    with pytest.raises(TableError, match="continuous needs slices"):
        compare(jobs, nodes, ["fcfs"], continuous=True)
