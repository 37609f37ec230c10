"""`procure workload` as a user and a script see it."""

from __future__ import annotations

from functools import partial

import pytest

from procure.schemas import JOB
from procure.tables import read
from procure.workload.generate import MOST_JOBS

LOG = "JobName,ReqMem,ReqCPUs,ReqGPUs,ReqDuration,ActualDuration,Submit\njob1,1,1,0,9,5,1620129600\n"


@pytest.fixture
def procure(procure, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return partial(procure, "workload")


def test_import_writes_the_table_and_prints_rows_kept_and_dropped(procure, tmp_path):
    (tmp_path / "log.csv").write_text(LOG + "job2,1,1,0,9,-5,1620129600\n")
    arguments = ("import", "log.csv", "--log-format", "csv", "--preset", "beocat", "--out", "jobs.parquet")
    code, out, _ = procure(*arguments)
    assert code == 0
    assert "2 rows read, 1 job kept" in out
    assert "dropped 1: negative run time" in out
    assert len(read("jobs.parquet", JOB)) == 1
    (tmp_path / "jobs.parquet").unlink()
    code, out, err = procure(*arguments, "--set", "strict=true")
    assert (code, out) == (1, "")
    assert "strict" in err
    assert not (tmp_path / "jobs.parquet").exists()


def test_the_sacct_command_needs_no_log(procure):
    code, out, _ = procure("import", "--print-sacct-command")
    assert code == 0
    assert out.startswith("SLURM_TIME_FORMAT=%s sacct ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("import",), 2, "LOG"),
        (("import", "none.csv", "--log-format", "csv"), 1, "none.csv: no such file"),
        (("import", "log.csv", "--preset", "beocat", "--out", "no/jobs.parquet"), 1, "cannot be written"),
        (("describe", "log.csv"), 1, "column job_id is missing"),
    ],
)
def test_mistakes_are_one_clear_error(procure, tmp_path, arguments, code, message):
    (tmp_path / "log.csv").write_text(LOG)
    found, out, err = procure(*arguments)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


def test_as_many_jobs_as_the_library_makes_can_be_asked_for(procure):
    """The option's bound was once left behind when that of the library rose."""
    code, _, err = procure("generate", "--out", "jobs.parquet", "--n-jobs", str(MOST_JOBS + 1))
    assert code == 2
    assert f"{MOST_JOBS:,}" in err
