"""A log whose format its name tells, and one that follows another."""

from __future__ import annotations

import pandas as pd
import pytest
from test_workload_swf import HEADER as SWF_HEADER
from test_workload_swf import row

from procure.schemas import JOB
from procure.tables import check, write
from procure.workload import import_log, read_log

JOBS = check(pd.DataFrame({"job_id": ["a", "b"], "submit_time": [5, 9], "run_time": 3, "cpus_per_node": 2}), JOB)


@pytest.mark.parametrize("name", ["jobs.parquet", "jobs.csv", "jobs.csv.gz"])
def test_a_job_table_is_read_as_it_is(tmp_path, name):
    write(JOBS, tmp_path / name)
    log = read_log(tmp_path / name)
    pd.testing.assert_frame_equal(log.jobs, JOBS)
    assert (log.n_read, log.dropped, log.notes, log.origin) == (2, {}, [], 0)


@pytest.mark.parametrize(("name", "format"), [("a.swf", None), ("a.swf.txt", None), ("a.log", "swf")])
def test_an_swf_log_is_known_by_its_name_and_knows_its_origin(tmp_path, name, format):
    """The Unix second at which its own clock shows 0, from the header."""
    (tmp_path / name).write_text(f"{SWF_HEADER}{row()}\n")
    log = import_log(tmp_path / name, format)
    assert log.origin == 1000 and log.jobs["submit_time"].tolist() == [1010]
    again = import_log(tmp_path / name, "swf", clock="log")
    assert again.origin == 0 and again.jobs["submit_time"].tolist() == [10]
