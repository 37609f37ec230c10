"""Logs as other centres have them: nodes without CPUs, columns of a known preset, formats that nobody named."""

from __future__ import annotations

import pytest

from procure.errors import TableError
from procure.workload import import_log
from procure.workload.log_settings import parse_column

NODES = "JOB,QUEUED,RUN,NODES\n1,0,3300,128\n2,600,2700,256\n"
COLUMNS = dict(parse_column(text) for text in ("job_id=JOB", "submit_time=QUEUED", "run_time=RUN", "n_nodes=NODES"))
BEOCAT = "JobName,ReqMem,ReqCPUs,ReqGPUs,ReqDuration,ActualDuration,Submit\na,8000000,2,0,3600,100,1614900000\n"


def test_a_log_that_counts_nodes_only(tmp_path, procure):
    """CPUs of every node are a constant, by an option or a preset; without it the error names the option."""
    sacct = tmp_path / "jobs.psv"
    sacct.write_text("JobID|User|Submit|Start|End|NNodes\n1|a|100|160|220|128\n2|b|130|190|260|256\n")
    jobs = import_log(sacct, "sacct", cpus_per_node=64).jobs
    assert jobs["cpus_per_node"].tolist() == [64, 64] and jobs["n_nodes"].tolist() == [128, 256]
    with pytest.raises(TableError, match="cpus_per_node=N"):
        import_log(sacct, "sacct")
    assert procure("workload", "import", sacct, "--log-format", "sacct", "--set", "cpus_per_node=64")[0] == 0
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
