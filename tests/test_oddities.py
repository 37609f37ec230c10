"""Nonsense is refused, or counted where it may be meant, and what is easily taken wrong is said."""

from __future__ import annotations

import pandas as pd
import pytest
from sweep_lab import make_study

from procure.errors import TableError
from procure.schemas import JOB
from procure.study import load_study
from procure.study.plan import read_workload
from procure.study.workloads import write_workloads
from procure.tables import check, write
from procure.workload import generate, import_log, read_log
from procure.workload.speed import exact_speed


@pytest.mark.parametrize("speed", ["1e-300", "1e300", 1e-7, 10**10, float("inf")])
def test_a_speed_of_no_measure_is_refused(speed):
    with pytest.raises(TableError, match=r"from .* to 1,000,000,000"):
        exact_speed(speed)
    assert exact_speed("5.13") == exact_speed(5.13)


def odd_jobs() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "job_id": ["a", "b", "a", "a"], "submit_time": [-5, 0, 1, 2], "requested_time": [60, 0, 60, 60],
            "run_time": 10, "cpus_per_node": 1, "mem_mb_per_node": 1,
        }
    )  # fmt: skip


WARNINGS = [
    "2 rows repeat the job_id of an earlier row, the first is row 3 ('a'); each counts as a job of its own",
    "1 job of 4 has a requested_time of 0: no limit",
    "1 job is submitted before second 0 of the clock, the first in row 1 (-5 s)",
]


def test_a_job_table_that_looks_wrong_is_counted(tmp_path, procure):
    """Ids that repeat, limits of 0 and negative submissions are counted wherever a job table is read."""
    path = write(odd_jobs(), tmp_path / "jobs.csv")
    assert read_log(path).warnings == WARNINGS
    assert import_log(path, "csv", clock="log").warnings == WARNINGS
    nodes = write(pd.DataFrame({"node_id": ["n"], "cpus": 4, "mem_mb": 1000}), tmp_path / "nodes.csv")
    code, _, err = procure("simulate", "--jobs", path, "--nodes", nodes, "--policy", "fcfs")
    assert code == 0
    assert [line.removeprefix("careful: jobs.csv: ") for line in err.splitlines()][:3] == WARNINGS
    study = make_study(tmp_path)
    study.write_text(study.read_text().replace("generate = { seed = 3, n_jobs = 150 }", 'jobs = "jobs.csv"'))
    notes: list[str] = []
    read_workload(load_study(study).workloads[0], notes.append)
    assert notes == [f"careful: workload day: {text}" for text in WARNINGS]


def test_a_sound_job_table_is_not_warned_of(tmp_path):
    """Nor is one without limits at all: there 0 is what the log knows."""
    jobs = odd_jobs().iloc[1:3].assign(requested_time=0)
    assert read_log(write(jobs, tmp_path / "jobs.parquet")).warnings == []


def test_longest_names_of_jobs(tmp_path):
    """Text of a job table is bounded, too; a node list is as long as the job is wide."""
    jobs = odd_jobs().iloc[1:3].assign(node_ids=",".join(f"n{i}" for i in range(2000)))
    assert len(check(jobs, JOB)) == 2
    with pytest.raises(TableError, match=r"row 1, column user: .*1000 characters are allowed"):
        check(jobs.assign(user="u" * 1001), JOB)


def test_what_an_import_most_often_gets_wrong_is_warned_of(tmp_path):
    """An end time taken for a run time, and a log whose memory nobody named: both simulate, and mislead."""
    log = tmp_path / "log.csv"
    log.write_text("id,sub,took,end,cpus\n1,1000,60,170000000,4\n2,1010,70,170000100,4\n")
    columns = {"job_id": "id", "submit_time": "sub", "run_time": "took", "cpus_per_node": "cpus"}
    (memory,) = import_log(log, "csv", columns=columns).warnings
    assert "no job asks for memory" in memory
    years, _ = import_log(log, "csv", columns=columns | {"run_time": "end"}).warnings
    assert "2 jobs of 2 ran for more than a year, the first in row 1" in years


SACCT = "JobID|State|Submit|Start|End|ReqCPUS|ElapsedRaw|NNodes\n"


def test_an_import_counts_times_out_of_order(tmp_path):
    """Two jobs start before their submission and one ends before its start; all are kept, and counted."""
    rows = ["1|COMPLETED|100|90|200|1|110|1", "2|COMPLETED|100|99|98|1|5|1", "3|COMPLETED|100|100|200|1|100|1"]
    (tmp_path / "a.psv").write_text(SACCT + "\n".join(rows) + "\n")
    notes = import_log(tmp_path / "a.psv", "sacct").account()
    assert any("2 jobs that start before they were submitted" in text for text in notes)
    assert any("1 job that end" in text for text in notes)
    (tmp_path / "b.psv").write_text(SACCT + rows[2] + "\n")
    assert not any("clock" in text for text in import_log(tmp_path / "b.psv", "sacct").account())


def test_chosen_days_keep_their_zone(tmp_path):
    """The study that takes them knows the zone in which they are days, and dates them in it."""
    days = {"2021-05-04": generate(1, 20)}
    write_workloads(days, pd.DataFrame({"day": ["2021-05-04"], "weight": [3]}), tmp_path, tz="America/Chicago")
    (tmp_path / "q.csv").write_text("name,category,cpus,mem_gb,gpus,price_usd\nx,c,32,128,0,6960\n")
    (tmp_path / "s.toml").write_text(
        'quotes = "q.csv"\nworkloads = "workloads.toml"\npackages = { budget_usd = 20_000, min_gpu_nodes = 0 }\n'
    )
    (workload,) = load_study(tmp_path / "s.toml").workloads
    assert (workload.tz, workload.weight) == ("America/Chicago", 3)
