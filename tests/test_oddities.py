"""Nonsense is refused, or counted where it may be meant: never accepted in silence."""

from __future__ import annotations

import pandas as pd
import pytest
from sweep_lab import make_study

from procure.errors import TableError
from procure.packages.quotes import check_quotes
from procure.schemas import JOB
from procure.study import load_study
from procure.study.plan import read_inputs, read_workload
from procure.study.workloads import write_workloads
from procure.tables import check, write
from procure.workload import generate, import_log, read_log
from procure.workload.presets import parse_column
from procure.workload.speed import exact_speed

QUOTE = {"name": "x", "category": "compute", "cpus": 32, "mem_gb": 128.0, "gpus": 0, "price_usd": 6960.0}


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("cpus", 10**9, "at most 100,000 CPUs is allowed"),
        ("gpus", 10**6, "at most 10,000 GPUs is allowed"),
        ("mem_gb", 0, "memory per node.* must be at least 1e-06"),
        ("mem_gb", 1e15, "at most 10,000,000"),
        ("spec_rate", 1e-300, "a speed is a number above 0, at least 1e-06"),
        ("spec_rate", 1e300, "at most 1,000,000,000 any speed is allowed"),
        ("spec_rate_node", 1e300, "at most 1,000,000,000 any speed is allowed"),
        ("name", "x" * 5_000_000, "5,000,002 characters.* is too long; 200 characters are allowed"),
        ("category", "x" * 201, "200 characters are allowed"),
        ("vendor", "x" * 1001, "1000 characters are allowed"),
    ],
)
def test_a_quote_that_no_vendor_makes_is_refused(column, value, words):
    """More CPUs than any server has, none of the memory, a speed of no measure, a name without end."""
    rows = [QUOTE, QUOTE | {"name": "y"} | {column: value}]
    with pytest.raises(TableError, match=f"row 2, column {column}: .*{words}") as error:
        check_quotes(pd.DataFrame(rows))
    assert len(str(error.value)) < 400


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


def test_the_share_of_multi_node_jobs_is_said_and_none_where_there_are_none(tmp_path):
    """One of four jobs, with 80 % of the CPU-hours, asks for four nodes."""
    (tmp_path / "q.csv").write_text("name,category,cpus,mem_gb,gpus,price_usd\nx,c,32,128,0,6960\n")
    study = tmp_path / "s.toml"
    study.write_text(
        'quotes = "q.csv"\nworkloads = [{ name = "w", jobs = "j.csv" }]\n'
        "packages = { budget_usd = 20_000, min_gpu_nodes = 0 }\n"
    )
    header = "job_id,submit_time,run_time,cpus_per_node,n_nodes\n"
    (tmp_path / "j.csv").write_text(header + "a,0,30,1,4\nb,0,10,1,1\nc,0,10,1,1\nd,0,10,1,1\n")
    notes = read_inputs(load_study(study), ["best-fit"]).notes
    assert any("25.0% of the jobs, with 80% of the CPU-hours, ask for several nodes (up to 4)" in n for n in notes)
    (tmp_path / "j.csv").write_text(header + "a,0,40,1,1\n")
    assert not any("several nodes" in text for text in read_inputs(load_study(study), ["best-fit"]).notes)


NODES = "JOB,QUEUED,RUN,NODES\n1,0,3300,128\n2,600,2700,256\n"
COLUMNS = dict(parse_column(text) for text in ("job_id=JOB", "submit_time=QUEUED", "run_time=RUN", "n_nodes=NODES"))
BEOCAT = "JobName,ReqMem,ReqCPUs,ReqGPUs,ReqDuration,ActualDuration,Submit\na,8000000,2,0,3600,100,1614900000\n"


def test_a_log_that_counts_nodes_only(tmp_path):
    """CPUs of every node are a constant, by an option or a preset; without it the error names the option."""
    log = tmp_path / "theta.csv"
    log.write_text(NODES)
    found = import_log(log, "csv", columns=COLUMNS, cpus_per_node=64)
    assert found.jobs["cpus_per_node"].tolist() == [64, 64] and found.jobs["n_nodes"].tolist() == [128, 256]
    assert any("64 CPUs" in note for note in found.notes)
    with pytest.raises(TableError, match="cpus_per_node=N"):
        import_log(log, "csv", columns=COLUMNS)
    columns = "\n".join(f'{field} = {{ column = "{of.column}" }}' for field, of in COLUMNS.items())
    (tmp_path / "theta.toml").write_text(f"cpus_per_node = 64\n[columns]\n{columns}\n")
    again = import_log(log, "csv", str(tmp_path / "theta.toml"))
    assert again.jobs.equals(found.jobs)


def test_a_preset_is_hinted(tmp_path, procure):
    """A log with the columns of a preset is told so, by whatever way it was not named."""
    log = tmp_path / "jobs.csv"
    log.write_text(BEOCAT)
    with pytest.raises(TableError, match="preset=beocat"):
        import_log(log, "csv")
    assert "preset=beocat" in " ".join(procure("workload", "import", log)[2].split())
    log.write_text(BEOCAT.replace("Submit\n", "When\n"))
    with pytest.raises(TableError) as error:
        import_log(log, "csv")
    assert "preset=beocat" not in str(error.value)


def test_sacct_text_that_is_called_csv(tmp_path):
    (tmp_path / "log.csv").write_text("JobID|User|Submit\n1|a|2\n")
    with pytest.raises(TableError, match="format=sacct"):
        import_log(tmp_path / "log.csv", "csv")


def test_metacentrum_is_hinted(tmp_path):
    """SWF with more than its 18 fields is read, with a note on the dialect."""
    row = "1 0 7 3600 16 -1 -1 16 7200 2000 1 3 1 -1 -1 -1 -1 -1"
    (tmp_path / "a.swf").write_text(row + " {1,1} default\n")
    assert any("preset=metacentrum" in note for note in import_log(tmp_path / "a.swf", "swf").notes)
    (tmp_path / "b.swf").write_text(row + "\n")
    assert not any("metacentrum" in note for note in import_log(tmp_path / "b.swf", "swf").notes)


def test_a_sacct_log_that_counts_nodes_only(tmp_path, procure):
    """CPUs of every node are a constant; without it one error names the option, and nothing is dropped in silence."""
    log = tmp_path / "jobs.psv"
    log.write_text("JobID|User|Submit|Start|End|NNodes\n1|a|100|160|220|2\n2|b|130|190|260|1\n")
    found = import_log(log, "sacct", cpus_per_node=64)
    assert found.jobs["cpus_per_node"].tolist() == [64, 64] and found.jobs["n_nodes"].tolist() == [2, 1]
    with pytest.raises(TableError, match="cpus_per_node=N"):
        import_log(log, "sacct")
    assert procure("workload", "import", log, "--log-format", "sacct", "--set", "cpus_per_node=64")[0] == 0


def test_a_wait_in_place_of_start_times(tmp_path, procure):
    """A CSV log's wait column gives the start; one that is missing or negative is no start."""
    log = tmp_path / "waits.csv"
    log.write_text("id,when,waited,ran,n\n1,100,2,60,4\n2,200,0.5,60,4\n3,300,-1,60,4\n")
    texts = ("job_id=id", "submit_time=when", "wait=waited:min", "run_time=ran", "cpus_per_node=n")
    found = import_log(log, "csv", columns=dict(map(parse_column, texts)))
    assert found.jobs["start_time"].tolist() == [220, 230]
    assert found.dropped == {"never started": 1}
    words = [word for text in texts for word in ("--column", text)]
    assert procure("workload", "import", log, "--log-format", "csv", *words)[0] == 0
    with pytest.raises(TableError, match="unknown unit"):
        parse_column("wait=waited:GB")


@pytest.mark.parametrize("limit", [2_147_483_647, 4_294_967_295])
def test_the_largest_number_that_fits_is_no_limit(tmp_path, limit):
    """Sentinel limits become 0, counted in a note."""
    log = tmp_path / "log.swf"
    log.write_text(f"1 0 7 3600 16 -1 -1 16 {limit} -1 1 3 1 -1 -1 -1 -1 -1\n")
    found = import_log(log, "swf")
    assert found.jobs["requested_time"].tolist() == [0]
    assert any("1 job whose limit is ten years or more" in note for note in found.notes)


def test_memory_that_no_computer_has_is_warned_of(tmp_path, procure):
    """SWF read in a wrong unit: said with the likely one, by the import and by every command that reads the log."""
    log = tmp_path / "log.swf"
    rows = [f"{i} {i} 7 3600 16 -1 -1 16 7200 {8 * 10**10} 1 3 1 -1 -1 -1 -1 -1" for i in range(3)]
    log.write_text("\n".join(rows) + "\n")
    [warning] = import_log(log, "swf").warnings
    assert "3 jobs of 3 ask for more than 4 TB per CPU, up to 80 TB" in warning and "B:job" in warning
    assert import_log(log, "swf", mem_unit="B:job").warnings == []
    assert "careful: memory" in procure("workload", "import", log, "--log-format", "swf")[1]
    assert "careful: log.swf: memory" in procure("queue", "train", log, "--out", tmp_path / "m")[2]
    log.write_text("\n".join(row + " {4}" for row in rows) + "\n")
    assert "preset=metacentrum" in import_log(log, "swf").warnings[0]
