"""Logs as other centres have them: nodes without CPUs, columns of a known preset, formats that nobody named."""

from __future__ import annotations

import pytest

from procure.errors import TableError
from procure.workload import import_log
from procure.workload.importing import guess
from procure.workload.presets import parse_column

NODES = "JOB,QUEUED,RUN,NODES\n1,0,3300,128\n2,600,2700,256\n"
COLUMNS = dict(
    parse_column(text) for text in ("job_id=JOB", "submit_time=QUEUED", "run_time=RUN", "n_nodes=NODES")
)
BEOCAT = (
    "JobName,ReqMem,ReqCPUs,ReqGPUs,ReqDuration,ActualDuration,Submit\na,8000000,2,0,3600,100,1614900000\n"
)


def test_a_log_that_counts_nodes_only(tmp_path):
    """CPUs of every node are a constant, by an option or a preset; without it the error names the option."""
    log = tmp_path / "theta.csv"
    log.write_text(NODES)
    found = import_log(log, "csv", columns=COLUMNS, cpus_per_node=64)
    assert found.jobs["cpus_per_node"].tolist() == [64, 64] and found.jobs["n_nodes"].tolist() == [128, 256]
    assert any("64 CPUs" in note for note in found.notes)
    with pytest.raises(TableError, match="--cpus-per-node N"):
        import_log(log, "csv", columns=COLUMNS)
    columns = "\n".join(f'{field} = {{ column = "{of.column}" }}' for field, of in COLUMNS.items())
    (tmp_path / "theta.toml").write_text(f"cpus_per_node = 64\n[columns]\n{columns}\n")
    again = import_log(log, "csv", str(tmp_path / "theta.toml"))
    assert again.jobs.equals(found.jobs)


def test_a_preset_is_hinted(tmp_path, procure):
    """A log with the columns of a preset is told so, by whatever way it was not named."""
    log = tmp_path / "jobs.csv"
    log.write_text(BEOCAT)
    with pytest.raises(TableError, match="--preset beocat"):
        import_log(log, "csv")
    assert guess(log) == "--preset beocat"
    assert "--preset beocat" in " ".join(procure("workload", "import", log)[2].split())
    log.write_text(BEOCAT.replace("Submit\n", "When\n"))
    with pytest.raises(TableError) as error:
        import_log(log, "csv")
    assert "--preset beocat" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("; Version: 2.2\n1 0 7 3600 16 -1 -1 16 7200 2000 1 3 1 -1 -1 -1 -1 -1\n", "--format swf"),
        ("1 0 7 3600 16 -1 -1 16 7200 2000 1 3 1 -1 -1 -1 -1 -1\n", "--format swf"),
        ("JobID|User|Submit\n1|a|2\n", "--format sacct"),
        ("a;b;c\n1;2;3\n", "--format csv"),
        ("nothing that is known\n", ""),
    ],
)
def test_the_format_is_guessed_for_an_error(tmp_path, text, option):
    """Whoever names no format is told what the log looks like."""
    (tmp_path / "log").write_text(text)
    assert guess(tmp_path / "log") == option


def test_sacct_text_that_is_called_csv(tmp_path):
    """Its only column shows what it is."""
    (tmp_path / "log.csv").write_text("JobID|User|Submit\n1|a|2\n")
    with pytest.raises(TableError, match="--format sacct"):
        import_log(tmp_path / "log.csv", "csv")


def test_metacentrum_is_hinted(tmp_path):
    """SWF with more than its 18 fields is read, with a note on the dialect."""
    row = "1 0 7 3600 16 -1 -1 16 7200 2000 1 3 1 -1 -1 -1 -1 -1"
    (tmp_path / "a.swf").write_text(row + " {1,1} default\n")
    assert any("--preset metacentrum" in note for note in import_log(tmp_path / "a.swf", "swf").notes)
    (tmp_path / "b.swf").write_text(row + "\n")
    assert not any("metacentrum" in note for note in import_log(tmp_path / "b.swf", "swf").notes)


def test_a_wrong_choice_is_said_without_pythons_words(procure):
    """The allowed values, and nothing of how they are checked."""
    code, _, said = procure("workload", "import", "x", "--format", "foo")
    assert code == 2 and "'foo' is not one of" in said and "Value error" not in said
