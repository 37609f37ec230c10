"""The SWF reader; and a job table, which is read as it is."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.errors import TableError
from procure.schemas import JOB
from procure.tables import check, read, write
from procure.workload import import_log, read_log, slice_day

HEADER = "; Version: 2.2\n; UnixStartTime: 1000\n; Queue:  2 express  \n"
NAMES = "job submit wait run procs cpu_time used asked limit mem status user group exe queue part prev think"


def row(**changes):
    fields = dict.fromkeys(NAMES.split(), -1) | {"job": 7, "submit": 10, "wait": 5, "run": 60, "procs": 5}
    fields |= {"asked": 6, "limit": 120, "mem": 1500, "status": 1, "user": 3, "group": 4, "queue": 2}
    return " ".join(str(value) for value in (fields | changes).values())


@pytest.fixture
def swf(tmp_path):
    def load(*rows, header=HEADER, **options):
        path = tmp_path / "log.swf"
        path.write_text(header + "\n".join(rows) + "\n")
        return import_log(path, "swf", **{"shape": "as-logged"} | options)

    return load


def test_a_job_is_read_on_the_header_s_clock_with_a_node_per_processor(swf):
    imported = swf(row())
    assert imported.jobs.iloc[0].to_dict() == {
        "job_id": "7", "user": "3", "submit_time": 1010, "requested_time": 120, "run_time": 60, "n_nodes": 6,
        "cpus_per_node": 1, "mem_mb_per_node": 2, "gpus_per_node": 0, "gpu_type": "", "partition": "express",
        "account": "4", "state": "COMPLETED", "start_time": 1015, "end_time": 1075,
    }  # fmt: skip
    assert imported.jobs.attrs["clock"] == "unix"


@given(processors=st.integers(1, 500), per_node=st.integers(1, 64), kb=st.integers(0, 10**7))
@settings(max_examples=30, deadline=None)
def test_nodes_hold_all_processors_evenly_and_memory_follows_them(tmp_path_factory, processors, per_node, kb):
    path = tmp_path_factory.mktemp("swf") / "log.swf"
    path.write_text(HEADER + row(asked=processors, mem=kb))
    job = import_log(path, "swf", cpus_per_node=per_node, asks="nodes").jobs.iloc[0]
    assert job["n_nodes"] == -(-processors // per_node)
    assert job["cpus_per_node"] == -(-processors // job["n_nodes"]) <= per_node
    assert job["mem_mb_per_node"] == -(-kb * job["cpus_per_node"] // 1000)
    tasks = import_log(path, "swf", cpus_per_node=per_node).jobs.iloc[0]
    assert (tasks["n_tasks"], tasks["cpus_per_task"], tasks["mem_mb_per_task"]) == (processors, 1, -(-kb // 1000))
    assert tasks["mem_mb_per_node"] == 0 and tasks["n_nodes"] == job["n_nodes"]


def test_missing_values_drop_a_row_by_reason(swf):
    imported = swf(row(), row(run=-1), row(run=-9), row(asked=0, procs=-1), row(submit=-1), row(status=3))
    assert len(imported.jobs) == 1
    assert imported.dropped == {
        "part of a job that has its own row": 1,
        "no submit time": 1,
        "negative run time": 1,
        "no run time": 1,
        "no processors": 1,
    }


def test_a_job_that_never_ran_is_kept_on_request_and_an_unknown_wait_or_limit_not_invented(swf):
    job = swf(row(run=-1, status=5), keep_unfinished=True).jobs
    assert job["start_time"].isna().all()
    assert job[["run_time", "end_time", "state"]].to_numpy().tolist() == [[0, 1015, "CANCELLED"]]
    jobs = swf(row(wait=-1, limit=-1))
    assert jobs.jobs["start_time"].isna().all() and jobs.jobs["requested_time"].tolist() == [0]
    assert [text for text in jobs.warnings if "no job has a wait time" in text]
    assert not swf(row(), row(job=8, wait=-1)).warnings


def test_without_unix_start_time_days_are_refused_even_after_parquet(swf, tmp_path):
    imported = swf(row(), header="; Version: 2.2\n")
    assert imported.jobs["submit_time"].tolist() == [10]
    assert "own clock" in imported.notes[0]
    stored = read(write(imported.jobs, tmp_path / "jobs.parquet"), JOB)
    with pytest.raises(TableError, match="a day needs Unix times"):
        slice_day(stored, "2021-05-04")


def test_the_memory_s_unit_is_an_option(swf):
    assert swf(row(mem=4_000_000), mem_unit="B:job", asks="nodes").jobs["mem_mb_per_node"].tolist() == [1]
    tasks = swf(row(mem=12_000_000), mem_unit="B:job", shape="tasks").jobs
    assert tasks[["n_tasks", "mem_mb_per_task", "mem_mb_per_node"]].to_numpy().tolist() == [[6, 2, 0]]
    assert swf(row(mem=7), mem_unit="MB:node", shape="tasks").jobs["mem_mb_per_node"].tolist() == [7]
    with pytest.raises(TableError, match="unknown memory unit 'Kb'"):
        swf(row(), mem_unit="Kb:cpu")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (row(run="soon"), r"line 5, column 4 \(run time\): 'soon' is not a number"),
        ("1 2 3", "line 5: 3 fields where SWF has 18"),
    ],
)
def test_an_unreadable_line_is_an_error_with_its_number_or_a_counted_drop(swf, line, message):
    with pytest.raises(TableError, match=message):
        swf(row(), line)
    assert swf(row(), line, skip_bad_rows=True).dropped == {"unreadable row": 1}


@pytest.mark.parametrize("header", ["", "; UnixStartTime: 0\n", "; UnixStartTime: 1668693697\n"])
def test_times_that_are_unix_seconds_already_stay(swf, header):
    """A log whose first job comes decades after its own start counts in Unix seconds, whatever its header says."""
    imported = swf(row(submit=1_668_693_697), row(submit=1_668_693_700), header=header)
    assert imported.jobs["submit_time"].tolist() == [1_668_693_697, 1_668_693_700]
    assert imported.jobs.attrs["clock"] == "unix"
    assert [note for note in imported.notes if "Unix seconds already, from 2022-11-17" in note]


def test_nodes_of_the_header_are_named(swf):
    """Where the header counts several processors a node, the import says which option makes such nodes."""
    header = HEADER + "; MaxNodes: 24\n; MaxProcs: 1728\n"
    assert [note for note in swf(row(), header=header).notes if "cpus_per_node=72" in note]
    assert not [note for note in swf(row(), header=header, cpus_per_node=72).notes if "cpus_per_node" in note]


def test_jobs_that_got_more_than_they_asked_for_are_said(swf):
    """Many jobs with more processors got than asked for are a warning; the processors asked for are taken if known."""
    imported = swf(row(procs=64, asked=6), row(procs=6, asked=6))
    assert imported.jobs["n_nodes"].tolist() == [6, 6]
    assert [text for text in imported.warnings if text.startswith("1 job got more processors than")]
    assert swf(row(asked=-1)).jobs["n_nodes"].tolist() == [5]


def test_headers_and_times_that_nothing_has_are_no_hint(swf):
    """Numbers of thousands of digits in the header name no nodes, and times beyond 2106 are no Unix seconds."""
    header = f"; UnixStartTime: {'9' * 5000}\n; MaxNodes: {'9' * 5000}\n; MaxProcs: {'9' * 5000}\n"
    imported = swf(row(submit=2**39), header=header)
    assert imported.jobs["submit_time"].tolist() == [2**39] and imported.jobs.attrs["clock"] == "log"
    assert not [note for note in imported.notes if "nodes" in note]


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
    (tmp_path / name).write_text(f"{HEADER}{row()}\n")
    log = import_log(tmp_path / name, format)
    assert log.origin == 1000 and log.jobs["submit_time"].tolist() == [1010]
    again = import_log(tmp_path / name, "swf", clock="log")
    assert again.origin == 0 and again.jobs["submit_time"].tolist() == [10]
