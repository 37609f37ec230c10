"""`procure topology`: what it prints, its exit codes, and that a bad file writes nothing."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from policy_cases import job_table
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.comparison.isolation import crossing
from procure.errors import TableError

pytestmark = pytest.mark.plain

CONF = "SwitchName=s[0] Nodes=n[1-2]\nSwitchName=s1 Nodes=n[3-4]\nSwitchName=p Switches=s[0-1]\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["topology", *arguments])


def test_made_and_read_trees_agree(folder):
    """A made tree is shown as it was asked for; what Slurm says of the same nodes gives the same columns."""
    assert run("make", "--tree", "1x2x2", "--out", "tree.csv").exit_code == 0
    shown = json.loads(run("make", "tree.csv", "--format", "json").stdout)
    assert (shown["n_pods"], shown["n_leaves"], shown["n_nodes"]) == (1, 2, 4)
    (folder / "topology.conf").write_text(CONF)
    bare = pd.read_csv("tree.csv").drop(columns=["leaf", "pod"])
    bare.to_csv("nodes.csv", index=False)
    assert run("make", "nodes.csv", "--from", "topology.conf", "--out", "placed.csv").exit_code == 0
    made, placed = pd.read_csv("tree.csv"), pd.read_csv("placed.csv")
    assert placed[["node_id", "leaf", "pod"]].equals(made[["node_id", "leaf", "pod"]])
    assert (
        json.loads(run("make", "--from", "topology.conf", "--format", "json").stdout)["leaves"][1]["leaf_switch"]
        == "s1"
    )


def test_bad_input_writes_nothing(folder):
    """A host list that does not parse, a table without a tree and a size of 0 are one error each."""
    (folder / "bad.conf").write_text("SwitchName=a Nodes=n[1-2\n")
    (folder / "nodes.csv").write_text("node_id,cpus,mem_mb\nn1,1,100\n")
    for arguments, message in (
        (("make", "nodes.csv", "--from", "bad.conf", "--out", "out.csv"), "line 1: host list 'n[1-2'"),
        (("make", "nodes.csv", "--from", "nodes.csv", "--out", "out.csv"), "no line that begins with SwitchName="),
        (("make", "nodes.csv"), "row 1, column leaf: the value is missing"),
    ):
        failed = run(*arguments)
        assert isinstance(failed.exception, TableError) and message in str(failed.exception)
    refused = run("make", "--tree", "0x1x1", "--out", "out.csv")
    assert refused.exit_code == 2 and "--tree" in refused.stderr
    assert not (folder / "out.csv").exists()


def test_check_and_hops(folder):
    """Two jobs on the same two leaves share links: exit code 1 and both named; hops are counted by size."""
    run("make", "--tree", "1x2x2", "--out", "tree.csv")
    times = {"submit_time": [0, 0], "run_time": 10, "start_time": 0, "end_time": 10}
    schedule = job_table(job_id=["a", "b"], n_nodes=2, node_ids=["n1,n3", "n2,n4"], **times)
    schedule.to_csv("shared.csv", index=False)
    found = run("check", "shared.csv", "--nodes", "tree.csv", "--format", "json")
    verdict = json.loads(found.stdout)
    assert found.exit_code == 1 and verdict["n_shared_links"] == 4 and verdict["n_allocations"] == 2
    assert verdict["first_conflicts"][0]["jobs"] == ["a", "b"]
    schedule.assign(node_ids=["n1,n2", "n3,n4"]).to_csv("apart.csv", index=False)
    assert run("check", "apart.csv", "--nodes", "tree.csv").exit_code == 0
    nodes = pd.read_csv("tree.csv")
    hops = procure.count_hops(schedule, nodes)
    assert hops["aph"].tolist() == [2, 2] and hops["ideal_aph"].tolist() == [0, 0]
    assert procure.count_hops(schedule.assign(start_time=None, end_time=None, node_ids=""), nodes).empty


@pytest.mark.parametrize(
    "text",
    [
        'job_id,start_time,end_time,node_ids\na,0,10,"n[1,3]"\nb,0,10,"n[2,4-4]"\nc,,,\n',
        "JobID|Start|End|NodeList\na|2024-01-01T00:00:00|2024-01-01T01:00:00|n[1,3]\nb|1704067200|Unknown|n[2,4]\n"
        "b.batch|1704067200|Unknown|n2\nc|Unknown|Unknown|None assigned\n",
    ],
)
def test_check_reads_host_lists_and_sacct(folder, text):
    """Four columns are enough, in our words or in those of sacct; who shared links is said without a simulation."""
    run("make", "--tree", "1x2x2", "--out", "tree.csv")
    (folder / "month.psv").write_text(text)
    found = run("check", "month.psv", "--nodes", "tree.csv", "--format", "json")
    assert found.exit_code == 1, found.exception
    verdict = json.loads(found.stdout)
    assert (verdict["n_allocations"], verdict["n_over_links"], verdict["n_sharing"]) == (2, 2, 2)
    assert verdict["n_shared_links"] == 4 and verdict["shared_time"] == 1
    (folder / "bad.psv").write_text(text.replace("n[1,3]", "n[1,9]"))
    assert "job a ran on node n9" in str(run("check", "bad.psv", "--nodes", "tree.csv").exception)


def test_worth_finds_the_share(folder):
    """Three jobs of two leaves run together on four leaves; isolated the third waits, which half the run time pays."""
    run("make", "--tree", "1x4x4", "--out", "tree.csv")
    jobs = {"job_id": ["a", "b", "c"], "submit_time": 0, "run_time": 100, "requested_time": 100, "n_nodes": 5}
    pd.DataFrame(jobs | {"cpus_per_node": 1}).to_csv("jobs.csv", index=False)
    of = ("worth", "--jobs", "jobs.csv", "--nodes", "tree.csv", "--saved")
    found = json.loads(run(*of, "0%,20%,60%", "--format", "json").stdout)
    of_tiers = [row["makespan"] for row in found["rows"] if row["policy"] in ("compact", "tiers")]
    assert of_tiers == [100, 200, 160, 80]
    assert found["break_even"]["tiers"]["makespan"] == pytest.approx(50)
    said = run(*of, "0%,20%,60%").stdout.splitlines()
    assert "by the makespan, tiers is worth it if sharing costs jobs more than 50.0 %" in said
    bad = run(*of, "half")
    assert bad.exit_code == 2 and "known: 10%, v1, v2" in bad.stderr.replace("│\n│ ", "")


def test_break_even():
    """The share from which on nothing is worse, linear between the points; none where all are worse."""
    for worse, expected in (
        ([10, 5, -5], 15),
        ([-1, -2, -3], 0),
        ([3, 2, 1], None),
        ([4, -4, 2], None),
        ([2, 0, -1], 10),
    ):
        assert crossing([0, 10, 20], worse) == expected
