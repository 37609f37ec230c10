"""Bad input gives one error, whatever it is: no reader may end in anything but its table or a `TableError`."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sweep_lab import make_study
from test_log_formats import CONDOR, LONG, LSF, PBS, SGE, SLURMDBD

from procure.errors import TableError
from procure.packages import read_quotes
from procure.queue_time.state import read_state
from procure.schemas import JOB, NODE, QUOTE
from procure.site.understand import read_slurm
from procure.study import load_study
from procure.study.check import check_study
from procure.study.existing import read_existing
from procure.study.plan import read_workload
from procure.study.sections import write_workloads
from procure.tables import check, read, write
from procure.workload import generate, import_log, load_recipe, read_log
from procure.workload.generate import DEFAULT_RECIPE, RECIPES
from procure.workload.log_settings import FOLDER, load_preset
from procure.workload.speed import exact_speed

QUOTES = (
    "name,category,cpus,mem_gb,gpus,price_usd,spec_rate,power_w,min_count,max_count,valid_until,pack_size\n"
    'x,compute,32,128,0,"$6,960",1.5,100,1,5,2023-01-01,2\ny,compute,64,256,0,9960,2,200,,,,\n'
)
JOBS = (
    "job_id,submit_time,run_time,cpus_per_node,user,start_time,end_time,mem_mb_per_node,node_ids\n"
    '1,100,10,4,ann,120,130,100,a\n2,160,20,8,bob,170,190,100,"b[1-2],c"\n'
)
SACCT = (
    "JobID|User|State|Submit|Start|End|TimelimitRaw|ReqCPUS|ReqMem|ReqTRES|NNodes|NodeList|ElapsedRaw\n"
    "1|ann|COMPLETED|2025-01-01T00:00:00|2025-01-01T00:01:00|2025-01-01T01:00:00|60|4|4Gn|cpu=4,mem=4G,node=1|1|c1|3540\n"
    "2_[4-9]|bob|PENDING|1735689700|Unknown|Unknown|UNLIMITED|8|500M|cpu=8,gres/gpu:a100=2|2|c[1-2]|0\n"
)
SWF = "; UnixStartTime: 1000000000\n1 0 10 100 4 -1 -1 4 200 1000 1 1 1 1 1 1 -1 -1\n"
SQUEUE = (
    "JOBID|USER|PARTITION|STATE|SUBMIT_TIME|START_TIME|TIME_LIMIT|NODES|CPUS|MIN_MEMORY|REASON|TRES_PER_NODE\n"
    "1|ann|p|RUNNING|2025-01-01T00:00:00|2025-01-01T00:01:00|1:00:00|1|4|4G|None|gres/gpu:1\n"
    "2_[1-4]|ann|p|PENDING|2025-01-01T00:00:00|N/A|1-00:00:00|1|4|4G|Priority|N/A\n"
)
NODES = (
    "NodeName=n1 CPUTot=4 RealMemory=1000 State=IDLE Gres=gpu:a100:2(S:0-1)\n"
    "NodeName=n2 CPUTot=4 CPUEfctv=3 RealMemory=1000 MemSpecLimit=10 State=DOWN* CfgTRES=cpu=4,gres/gpu=2\n"
)
READERS = {
    "quotes.csv": (QUOTES, read_quotes),
    "jobs.csv": (JOBS, lambda path: read(path, JOB)),
    "log.csv": (JOBS, lambda path: import_log(path, "csv", keep_unfinished=True)),
    "log.psv": (SACCT, lambda path: import_log(path, "sacct", keep_unfinished=True, tz="Europe/Berlin")),
    "log.swf": (SWF, lambda path: import_log(path, "swf")),
    "squeue.txt": (SQUEUE, read_state),
    "nodes.txt": (NODES, lambda path: read_existing(path, ("n1",))),
    "preset.toml": ((FOLDER / "beocat.toml").read_text(), lambda path: load_preset(str(path))),
    "recipe.toml": (DEFAULT_RECIPE.read_text(), load_recipe),
    "campus.toml": (RECIPES["campus"].read_text(), load_recipe),
}
CONFIG = {
    "slurm.conf": "ClusterName=c\nSelectTypeParameters=CR_Core_Memory\nAccountingStorageEnforce=limits,qos\n"
    "NodeName=n[1-4] CPUs=8 RealMemory=8000 Gres=gpu:a:2 \\\n  Feature=x\nNodeSet=s Feature=x\n"
    "DownNodes=n4 State=DOWN\n"
    "PartitionName=p Nodes=s QOS=long TRESBillingWeights=CPU=1,Mem=0.25G MaxTime=2-0\nLicenses=m@x:2\n",
    "qos.txt": "Name|Priority|GrpTRES|MaxWall|Flags|\nnormal|0||||\nlong|5|cpu=8,gres/gpu=1|1-00:00:00|NoDecay|\n",
    "assoc.txt": "Account|User|Share|MaxJobs|QOS|\nroot||1||normal|\n a||1|3|long|\n  a|u|1||normal,long|\n",
    "topology.conf": "SwitchName=s0 Nodes=n[1-2]\nSwitchName=s1 Nodes=n[3-4]\nSwitchName=t Switches=s[0-1]\n",
    "reservation.txt": "ReservationName=r StartTime=2024-01-10T14:00:00 EndTime=2024-01-10T18:00:00 Nodes=n1\n"
    "   Flags=WEEKLY\n",
}
READERS |= {name: (text, lambda path: read_slurm(path.parent)) for name, text in CONFIG.items()}
LOGS = {"pbs": PBS, "lsf": LSF, "sge": SGE, "condor-long": LONG, "slurmdbd": SLURMDBD, "condor": json.dumps([CONDOR])}
READERS |= {name: (text, lambda path: import_log(path, tz="UTC", skip_bad_rows=True)) for name, text in LOGS.items()}
VALUES = [
    "",
    "9" * 30,
    "9" * 400,
    "9" * 5000,
    "\0",
    "gpu:" + "9" * 30,
    *(
        "-1 0 1e308 -1e308 inf nan 2222222222222222222 x \" ' | , ; [ [1- ] 1-2-3 9999-12-31T23:59:59 "
        "0001-01-01T00:00:00 99999-01-01 2025-02-30T00:00:00 2025-01-01T00:00:00+25:00 99999999999-00:00:00 "
        "UNLIMITED N/A None {} [[x]] true 1.5 １２ −5 9223372036854775808 99999999999P cpu=1e999"
    ).split(),
]


def mutated(text: str, rng: np.random.Generator) -> bytes:
    """Change one to three things of a text: a value, a sign, a line, its end, or a byte."""
    for _ in range(rng.integers(1, 4)):
        parts = re.split(r"([|,\s=:;\"\[\]]+)", text)
        at = int(rng.integers(len(parts)))
        kind = rng.random()
        if kind < 0.6:
            parts[at // 2 * 2] = str(rng.choice(VALUES))
        elif kind < 0.75:
            del parts[at]
        elif kind < 0.85:
            parts[at] += chr(rng.choice([0, 9, 13, 34, 59, 91, 124, 200, 0x85, 0x2028]))
        elif kind < 0.95:
            parts.insert(0, parts[at])
        else:
            parts = parts[:at]
        text = "".join(parts)
    content = bytearray(text.encode())
    if content and rng.random() < 0.1:
        content[rng.integers(len(content))] = rng.integers(256)
    return bytes(content)


@pytest.mark.parametrize("n", [12, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", READERS)
def test_a_mutated_file_is_a_table_or_one_error_of_bounded_length(name, n, tmp_path):
    """Mutations of each kind of input end in a result or in one `TableError` of less than 1,000 characters."""
    text, reader = READERS[name]
    rng = np.random.default_rng(12)
    path = tmp_path / name
    for other in CONFIG if name in CONFIG else ():
        (tmp_path / other).write_text(CONFIG[other])
    for _ in range(n):
        path.write_bytes(mutated(text, rng))
        try:
            reader(path)
        except TableError as error:
            assert len(str(error).replace(str(path), "")) < 1000


STUDY = {
    "quotes": '"q.csv"', "packages": "{ budget_usd = 20_000 }",
    "workloads": '[{ name = "w", generate = { seed = 1, n_jobs = 50 } }]',
}  # fmt: skip
STUDY_VALUES = [
    "{ a = 1 }",
    "9" * 400,
    f"'{'a' * 5000}'",
    "['x', 'x']",
    *"5 -1 1e308 inf nan true '' 'x' [] {} [1] ['a'] 1979-05-27 \"\\u0000\" '/'".split(),
]


@pytest.mark.parametrize(
    "key",
    [
        *("name", "quotes", "results", "packages", "packages.existing_nodes", "packages.retire", "costs.years"),
        *("packages.budget_usd", "workloads", "simulate", "simulate.policies", "sweep.sample", "model.folds"),
        *("evaluate.k", "recommend.constraints"),
    ],
)
def test_any_value_of_a_setting_is_right_or_one_error(key, tmp_path):
    """A number for a file name, text for a table and the like are said in one error of bounded length."""
    (tmp_path / "q.csv").write_text("name,category,cpus,mem_gb,gpus,price_usd\nx,compute,32,128,0,6960\n")
    path = tmp_path / "s.toml"
    table, _, name = key.rpartition(".")
    for value in STUDY_VALUES:
        document = STUDY | ({table: f"{{ budget_usd = 20_000, {name} = {value} }}"} if table == "packages" else {})
        if key == "packages.budget_usd":
            document = STUDY | {"packages": f"{{ budget_usd = {value} }}"}
        elif table != "packages":
            document = STUDY | {key: value}
        path.write_text("\n".join(f"{name} = {value}" for name, value in document.items()))
        try:
            check_study(path)
        except TableError as error:
            assert len(str(error)) < 1500, (key, value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a = " + "9" * 5000, "4,300 digits"), ("a = " + "[" * 20_000 + "]" * 20_000, "nested too deep")],
    ids=["digits", "depth"],
)
def test_a_toml_file_that_python_cannot_hold_is_one_error(text, message, tmp_path):
    """A number of 5,000 digits and lists nested 20,000 deep are no defect of ours."""
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(TableError, match=message):
        check_study(path)


ODD = [
    pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"\xff\xfe\xc3\x28")),
    pa.array([[1], [2]]),
    pa.array([{"a": 1}, {"a": 2}]),
    pa.array([0, None], pa.timestamp("us")),
    pa.array([0, None], pa.date32()),
    pa.array([b"x", b"\xff"]),
    pa.array([2**63 - 1, -(2**63)]),
    pa.array([2**64 - 1, 0], pa.uint64()),
    pa.array([np.inf, np.nan]),
    pa.array(["9" * 5000, "x"]),
    pa.array([None, None]),
]
TABLES = [
    (JOB, {"job_id": ["1", "2"], "submit_time": [1, 2], "run_time": [1, 2], "cpus_per_node": [1, 2]}),
    (NODE, {"node_id": ["a", "b"], "cpus": [1, 2], "mem_mb": [1, 2]}),
    (QUOTE, {"name": ["a", "b"], "category": ["c", "c"], "cpus": [1, 2], "mem_gb": [1, 2], "gpus": [0, 0],
             "price_usd": [1, 2], "licence_usd_per_year": [1, 2]}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "columns"), TABLES, ids=[schema.name for schema, _ in TABLES])
def test_a_column_of_any_type_in_parquet_is_read_or_one_error(schema, columns, tmp_path):
    """Broken UTF-8, lists, dates, missing and huge values in any column are a table or one `TableError`."""
    path = tmp_path / "t.parquet"
    for name in columns:
        for odd in ODD:
            pq.write_table(pa.table({key: pa.array(value) for key, value in columns.items()} | {name: odd}), path)
            try:
                read(path, schema)
            except TableError as error:
                assert str(error).startswith(str(path))


def test_missing_columns_are_named_all_at_once(tmp_path):
    """A table or log that lacks several columns says so in one error."""
    path = tmp_path / "a.csv"
    path.write_text("job_id,user\n1,ann\n")
    with pytest.raises(TableError, match=r"submit_time is missing.*run_time, cpus_per_node"):
        read(path, JOB)
    with pytest.raises(TableError, match=r"columns are submit_time, cpus_per_node, run_time; .*them with"):
        import_log(path, "csv")
    with pytest.raises(TableError, match=r"'JobName' .*; missing too:.*'ReqMem' \(for mem_mb_per_node\)"):
        import_log(path, "csv", "beocat")


def test_a_time_or_amount_beyond_all_sense_is_one_error(tmp_path):
    """Times, durations and amounts that would overflow later are refused where they are read."""
    path = tmp_path / "a.csv"
    for column, value in (("submit_time", 2**41), ("run_time", 2**41), ("n_nodes", 10**9), ("cpus_per_node", 10**10)):
        row = {"job_id": "a", "submit_time": 0, "run_time": 1, "cpus_per_node": 1, column: value}
        path.write_text(",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n")
        with pytest.raises(TableError, match=f"row 1, column {column}: .* is too large; at most"):
            read(path, JOB)


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


SACCT_HEAD = "JobID|State|Submit|Start|End|ReqCPUS|ElapsedRaw|NNodes\n"


def test_an_import_counts_times_out_of_order(tmp_path):
    """Two jobs start before their submission and one ends before its start; all are kept, and counted."""
    rows = ["1|COMPLETED|100|90|200|1|110|1", "2|COMPLETED|100|99|98|1|5|1", "3|COMPLETED|100|100|200|1|100|1"]
    (tmp_path / "a.psv").write_text(SACCT_HEAD + "\n".join(rows) + "\n")
    notes = import_log(tmp_path / "a.psv", "sacct").account()
    assert any("2 jobs that start before they were submitted" in text for text in notes)
    assert any("1 job that end" in text for text in notes)
    (tmp_path / "b.psv").write_text(SACCT_HEAD + rows[2] + "\n")
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
