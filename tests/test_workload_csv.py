"""The CSV reader, its presets and mappings."""

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
from procure.tables import check
from procure.workload import import_log
from procure.workload.log_settings import load_preset, parse_column, preset_names

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
