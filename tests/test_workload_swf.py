"""The SWF reader."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.errors import TableError
from procure.schemas import JOB
from procure.tables import check, read, write
from procure.workload import import_log, slice_day
from procure.workload.presets import load_preset, parse_column, preset_names

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
        "job_id": "7",
        "user": "3",
        "submit_time": 1010,
        "requested_time": 120,
        "run_time": 60,
        "n_nodes": 6,
        "cpus_per_node": 1,
        "mem_mb_per_node": 2,
        "gpus_per_node": 0,
        "gpu_type": "",
        "partition": "express",
        "account": "4",
        "state": "COMPLETED",
        "start_time": 1015,
        "end_time": 1075,
    }
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


def test_a_job_that_never_ran_can_be_kept_with_the_moment_it_gave_up(swf):
    job = swf(row(run=-1, status=5), keep_unfinished=True).jobs
    assert job["start_time"].isna().all()
    assert job[["run_time", "end_time", "state"]].to_numpy().tolist() == [[0, 1015, "CANCELLED"]]


def test_an_unknown_wait_or_limit_is_not_invented(swf):
    jobs = swf(row(wait=-1, limit=-1)).jobs
    assert jobs["start_time"].isna().all()
    assert jobs["requested_time"].tolist() == [0]


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


@pytest.mark.parametrize(
    ("name", "preset", "kept", "dropped"),
    [
        ("pwa/KTH-SP2-1996-2.1-cln.swf.xz", None, 27_992, {}),
        ("metacentrum_wagap_2013/wagap-2013_jan-feb.swf.xz", "metacentrum", 8_196, {"negative run time": 2}),
        ("synthetic/lublin_256.swf.xz", None, 10_000, {}),
    ],
)
def test_real_logs_keep_their_rows(shared_data, name, preset, kept, dropped):
    imported = import_log(shared_data(name), "swf", preset)
    assert (len(imported.jobs), imported.dropped) == (kept, dropped)


def test_metacentrum_s_nodes_and_memory_come_from_its_own_fields(shared_data):
    path = shared_data("metacentrum_wagap_2013/wagap-2013_jan-feb.swf.xz")
    jobs = import_log(path, "swf", "metacentrum").jobs
    first = jobs.iloc[0]
    assert (first["n_nodes"], first["cpus_per_node"], first["mem_mb_per_node"]) == (1, 64, 68_720)
    assert (first["node_ids"], first["partition"]) == ("1241", "q_1d")
    assert (jobs["n_nodes"] == 1).mean() > 0.97


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


def test_a_log_without_waits_is_said_at_the_import(swf):
    """Without a wait in any row nobody learns only from a later command that no start is known."""
    assert [text for text in swf(row(wait=-1)).warnings if "no job has a wait time" in text]
    assert not swf(row(), row(job=8, wait=-1)).warnings


def test_jobs_that_got_more_than_they_asked_for_are_said(swf):
    """Many jobs with more processors got than asked for are a warning; the processors asked for are taken."""
    imported = swf(row(procs=64, asked=6), row(procs=6, asked=6))
    assert imported.jobs["n_nodes"].tolist() == [6, 6]
    assert [text for text in imported.warnings if text.startswith("1 job got more processors than")]


def test_headers_and_times_that_nothing_has_are_no_hint(swf):
    """Numbers of thousands of digits in the header name no nodes, and times beyond 2106 are no Unix seconds."""
    header = f"; UnixStartTime: {'9' * 5000}\n; MaxNodes: {'9' * 5000}\n; MaxProcs: {'9' * 5000}\n"
    imported = swf(row(submit=2**39), header=header)
    assert imported.jobs["submit_time"].tolist() == [2**39] and imported.jobs.attrs["clock"] == "log"
    assert not [note for note in imported.notes if "nodes" in note]


def test_processors_got_stand_in_for_those_asked_for(swf):
    assert swf(row(asked=-1)).jobs["n_nodes"].tolist() == [5]


BEOCAT = (
    "JobName,ReqMem,ReqCPUs,ReqGPUs,ReqDuration,ActualDuration,Submit\n"
    "job2,8000000,4,0,86400,16015,1614844251\n"
    "job1,1500001,1,2,3600,0,1614837941\n"
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(BEOCAT)
    return path


def test_the_beocat_preset_reads_decimal_kilobytes_and_keeps_the_file_s_order(log):
    imported = import_log(log, "csv", "beocat")
    columns = ["job_id", "submit_time", "requested_time", "run_time", "n_nodes", "cpus_per_node"]
    columns += ["mem_mb_per_node", "gpus_per_node"]
    assert imported.jobs[columns].to_numpy().tolist() == [
        ["job2", 1614844251, 86400, 16015, 1, 4, 8000, 0],
        ["job1", 1614837941, 3600, 0, 1, 1, 1501, 2],
    ]
    assert (imported.n_read, imported.dropped) == (2, {})


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_a_compressed_log_reads_alike_and_a_truncated_one_is_one_clear_error(log, tmp_path, suffix):
    packed = tmp_path / f"log.csv{suffix}"
    data = (BEOCAT * 1).encode() + b"".join(b"job%d,1,1,0,9,%d,5\n" % (i, i % 7) for i in range(2000))
    if suffix == ".zst":
        with pa.output_stream(str(packed), compression="zstd") as stream:
            stream.write(data)
    else:
        packed.write_bytes({".gz": gzip, ".bz2": bz2, ".xz": lzma}[suffix].compress(data))
    assert len(import_log(packed, "csv", "beocat").jobs) == 2002
    packed.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    with pytest.raises(TableError, match="is it truncated or damaged"):
        import_log(packed, "csv", "beocat")


@given(
    st.lists(
        st.tuples(st.integers(400_000_000, 2**40), st.integers(0, 10**6), st.integers(0, 256), st.integers(0, 10**6)),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=25, deadline=None)
def test_a_job_table_written_as_csv_reads_back_without_a_preset(tmp_path_factory, rows):
    names = ["submit_time", "run_time", "cpus_per_node", "mem_mb_per_node"]
    frame = pd.DataFrame(rows, columns=names).assign(job_id=[f"j{i}" for i in range(len(rows))])
    jobs = check(frame, JOB)
    path = tmp_path_factory.mktemp("csv") / "jobs.csv"
    jobs.to_csv(path, index=False)
    assert import_log(path, "csv").jobs.equals(jobs)


def test_a_mapping_states_units_and_what_an_amount_is_per(tmp_path):
    path = tmp_path / "site.csv"
    path.write_text("id,when,mins,cores,nodes,gib\na,2021-05-04 07:00:00,90,10,4,10\n")
    texts = ["job_id=id", "submit_time=when", "run_time=mins:min", "n_nodes=nodes"]
    texts += ["cpus_per_node=cores::job", "mem_mb_per_node=gib:GiB:job"]
    columns = dict(map(parse_column, texts))
    imported = import_log(path, "csv", columns=columns, tz="America/Chicago")
    job = imported.jobs.iloc[0]
    assert (job["submit_time"], job["run_time"]) == (1620129600, 5400)
    assert (job["n_nodes"], job["cpus_per_node"], job["mem_mb_per_node"]) == (4, 3, 2685)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mem=ReqMem", "unknown field 'mem'"),
        ("mem_mb_per_node=ReqMem:kb", "unknown unit 'kb'; did you mean kB"),
        ("cpus_per_node=c::core", "per node, job or cpu; 'core' was given"),
        ("nonsense", "is not a mapping"),
    ],
)
def test_a_wrong_mapping_is_refused(text, message):
    with pytest.raises(TableError, match=message):
        parse_column(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BEOCAT.replace(",4,", ",four,"), "row 1, column ReqCPUs: 'four' is not a number"),
        (BEOCAT.replace(",4,", ",1e16,"), "row 1, column ReqCPUs: '1e16' is not a number below 2"),
        (BEOCAT.replace("ReqMem", "Mem"), "column 'ReqMem' .+ is missing; did you mean Mem"),
        (BEOCAT.splitlines()[0], "holds no job"),
        ("", "the file is empty"),
        (BEOCAT + "x,1,1,0,1,1,1,1,1\n", "cannot be read as CSV"),
    ],
)
def test_a_bad_log_is_one_clear_error(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(TableError, match=message):
        import_log(path, "csv", "beocat")


def test_bad_rows_can_be_dropped_and_counted_and_strict_still_refuses(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text(BEOCAT.replace(",4,", ",four,"))
    imported = import_log(path, "csv", "beocat", skip_bad_rows=True)
    assert imported.dropped == {"unreadable row": 1}
    assert "'four'" in imported.notes[0]
    with pytest.raises(TableError, match="strict=true allows none"):
        import_log(path, "csv", "beocat", skip_bad_rows=True, strict=True)


def test_negative_amounts_and_missing_times_are_dropped_by_reason(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text(BEOCAT + "a,-1,1,0,1,1,5\nb,1,1,0,1,-1,5\nc,1,1,0,1,1,\nd,1,,0,1,1,5\n,1,1,0,1,1,5\n")
    assert import_log(path, "csv", "beocat").dropped == {
        "negative mem_mb_per_node": 1,
        "no CPUs": 1,
        "negative run time": 1,
        "no submit time": 1,
        "no job id": 1,
    }


def test_presets_are_known_by_name_and_checked(tmp_path, log):
    assert preset_names() == ["beocat", "ccr", "eagle", "metacentrum"]
    assert all(load_preset(name).meaning for name in preset_names())
    with pytest.raises(TableError, match="did you mean beocat"):
        load_preset("beocta")
    with pytest.raises(TableError, match="preset metacentrum is for swf logs"):
        import_log(log, "csv", "metacentrum")
    own = tmp_path / "own.toml"
    own.write_text('[columns]\njob = { column = "JobName" }\n')
    with pytest.raises(TableError, match="unknown field 'job'; did you mean job_id"):
        load_preset(str(own))
    for wrong in (b"[columns\n", "name = 'Füße'".encode("latin-1")):
        own.write_bytes(wrong)
        with pytest.raises(TableError, match="not a TOML file"):
            load_preset(str(own))


def test_a_cancelled_row_without_nodes_never_started(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,submit_time,start_time,end_time,cpus_per_node,node_ids\n"
        'a,10,12,20,1,"c[1-2]"\nb,10,15,15,1,None assigned\nc,10,,,1,\n'
    )
    imported = import_log(path, "csv")
    assert imported.jobs[["job_id", "run_time", "node_ids"]].to_numpy().tolist() == [["a", 8, "c1,c2"]]
    assert imported.dropped == {"never started": 2}
    kept = import_log(path, "csv", keep_unfinished=True).jobs
    assert kept["run_time"].tolist() == [8, 0, 0]
    assert kept["start_time"].isna().tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("name", "preset", "kept", "dropped"),
    [
        ("beocat_2021/all_jobs_202103.csv.xz", "beocat", 68_552, {}),
        ("ccr_sacct_2017/pozidriv_2017.csv.xz", "ccr", 11_285, {"never started": 419}),
        ("nrel_eagle_sample/sample_eagle_data.csv.xz", "eagle", 1_000, {}),
    ],
)
def test_real_csv_logs_keep_their_rows(shared_data, name, preset, kept, dropped):
    imported = import_log(shared_data(name), "csv", preset)
    assert (len(imported.jobs), imported.dropped) == (kept, dropped)
