"""`procure window` as a user calls it."""

from __future__ import annotations

import json

import pandas as pd
import pytest

pytestmark = pytest.mark.plain

INSTANCE = {
    "tree": {"pods": 2, "leaves": 2, "nodes": 4},
    "idle": [0, 1, 4, 5, 6, 7, 8, 9, 12],
    "jobs": [{"id": "a", "n_nodes": 2}, {"id": "b", "n_nodes": 4}],
}


@pytest.fixture
def files(tmp_path, procure):
    """Jobs of the study's generator, a tree that they queue on, and an instance."""
    jobs, nodes, instance = tmp_path / "jobs.parquet", tmp_path / "nodes.csv", tmp_path / "instance.json"
    assert procure("window", "generate", "--seed", 1, "--jobs", 60, "--out", jobs)[0] == 0
    assert procure("topology", "make", "--pods", 6, "--leaves", 4, "--nodes", 10, "--out", nodes)[0] == 0
    instance.write_text(json.dumps(INSTANCE))
    return jobs, nodes, instance


def test_generated_jobs_are_the_studys(files, tmp_path, procure):
    """Gaps, run times and nodes lie in the study's ranges, and the same seed gives the same jobs."""
    table = pd.read_parquet(files[0])
    assert table["submit_time"].diff().iloc[1:].between(5, 30).all()
    assert table["run_time"].between(10, 1800).all() and table["n_nodes"].between(1, 40).all()
    assert (table["requested_time"] == table["run_time"]).all()
    again = tmp_path / "again.parquet"
    procure("window", "generate", "--seed", 1, "--jobs", 60, "--out", again)
    assert again.read_bytes() == files[0].read_bytes()


def test_the_released_instance_reads(tmp_path, procure, shared_data):
    """The released file gives its jobs; a part of it can be asked for."""
    out = tmp_path / "epoch.csv"
    source = shared_data("synthetic/data_large_1800_40.txt.xz")
    assert procure("window", "generate", "--from", source, "--skip", 1, "--jobs", 2, "--out", out)[0] == 0
    table = pd.read_csv(out)
    assert table[["job_id", "submit_time", "run_time", "n_nodes"]].to_numpy().tolist() == [
        [2, 39, 450, 4],
        [3, 45, 1091, 25],
    ]


@pytest.mark.parametrize("method", ["exact", "lns", "greedy", "sa", "sa-published", "mip"])
def test_solve(files, procure, method):
    """An instance is solved by every method; on this one b takes the whole leaf and a another one."""
    code, out, _ = procure("window", "solve", files[2], "--method", method, "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert list(found) == ["method", "cost_code", "cost_paper", "seconds", "assignment", "optimal"]
    assert (found["method"], found["cost_code"]) == (method, 500 + 1500)
    assert found["cost_paper"] == 2000 * 1 * 2 / 2 + 2000 * 6 * 2 / 4
    assert found["assignment"]["b"] == [4, 5, 6, 7]
    assert found["optimal"] == (method in ("exact", "mip"))


@pytest.mark.slow
def test_compare_on_the_same_windows(files, procure):
    """On the same windows the search never ends above the optimum of the static model; the wait is one."""
    jobs, nodes, _ = files
    code, out, err = procure(
        "window", "compare", "--jobs", jobs, "--nodes", nodes, "--methods", "seq,sa,exact,lns",
        "--windows", 4, "--steps", 50, "--format", "json",
    )  # fmt: skip
    assert code == 0, err
    rows = {row["method"]: row for row in json.loads(out)}
    assert {"mean_cost_code", "mean_cost_paper", "mean_wait", "p95_seconds"} <= set(rows["seq"])
    costs = [rows[name]["mean_cost_code"] for name in ("lns", "exact", "seq")]
    assert costs == sorted(costs) and costs[0] < costs[2]
    assert len({row["mean_wait"] for row in rows.values()}) == 1


def test_bad_input_is_one_sentence(files, tmp_path, procure):
    """Each kind of bad input: its exit code and what the message names."""
    jobs, nodes, instance = files
    crowded = tmp_path / "crowded.json"
    crowded.write_text(json.dumps(INSTANCE | {"jobs": [{"id": "a", "n_nodes": 10}]}))
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps(INSTANCE | {"jobs": [{"id": "a", "n_nodes": 0}]}))
    bad = tmp_path / "bad.txt"
    bad.write_text("1 2 3 4\n2 x 3 4\n")
    compare = ("window", "compare", "--jobs", jobs, "--nodes", nodes)
    for arguments, code, message in (
        (("window", "solve", crowded), 1, "ask for 10 nodes in all, idle are 9"),
        (("window", "solve", empty), 1, "n_nodes"),
        (("window", "solve", tmp_path / "none.json"), 1, "no such file"),
        (("window", "solve", instance, "--method", "lsn"), 2, "lns"),
        (("window", "solve", instance, "--method", "neural"), 2, "trained network"),
        (("window", "solve", instance, "--method", f"neural:{bad}"), 1, "bad.txt"),
        (("window", "solve", instance, "--time-limit", "0"), 2, "--time-limit"),
        (("window", "generate", "--from", bad, "--out", tmp_path / "o.csv"), 1, "line 2"),
        (("window", "generate", "--jobs", "2000000", "--out", tmp_path / "o.csv"), 2, "1,000,000"),
        ((*compare, "--methods", "seq,seq"), 2, "only once"),
        ((*compare, "--methods", "seq,foo"), 2, "for --methods"),
        ((*compare, "--length", "0"), 1, "length"),
    ):
        found, out, err = procure(*arguments)
        assert (found, out) == (code, ""), (arguments, err)
        # Typer breaks a message of bad usage into lines of a box.
        assert message in " ".join(err.replace("│", " ").split()), (arguments, err)
        assert "Traceback" not in err
    assert not (tmp_path / "o.csv").exists()
