"""One reader of logs: every command and a study make the same job table of a log, whatever its format and preset."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from test_workload_sacct import HEADER as SACCT_HEADER
from test_workload_sacct import PENDING, line
from test_workload_swf import HEADER as SWF_HEADER
from test_workload_swf import row
from typer.testing import CliRunner

from procure.cli import common
from procure.cli.main import app
from procure.errors import TableError
from procure.schemas import JOB, as_logged
from procure.study.plan import read_workload
from procure.study.sections import Workload
from procure.tables import read, write
from procure.workload import LogSettings, import_log, read_log
from procure.workload.log_settings import preset_names

BEOCAT = (
    "JobName,ReqMem,ReqCPUs,ReqGPUs,ReqDuration,ActualDuration,Submit\n"
    "job2,8000000,4,0,86400,16015,1614844251\njob1,1500001,1,2,3600,0,1614837941\n"
)
CCR = (
    "job_id,user_id,submit,eligible,start,end,timelimit_s,elapsed_s,nnodes,req_cpus,req_mem_total_mb,gpus_req,"
    "partition,account_id,qos,state,node_list\n"
    "1,u1,2017-03-01T10:00:00,2017-03-01T10:00:00,2017-03-01T10:05:00,2017-03-01T11:05:00,7200,3600,2,16,48000,4,"
    "gpu,a,normal,COMPLETED,n[1-2]\n"
)
EAGLE = (
    "job_id,user,submit_time,start_time,end_time,wallclock_req,run_time,nodes_req,processors_req,mem_req,gpus_req,"
    "partition,account,qos,state\n"
    "1,u1,2019-03-01 10:00:00,2019-03-01 10:05:00,2019-03-01 11:05:00,7200,3600,2,72,180000,2,gpu,a,normal,COMPLETED\n"
)
METACENTRUM = row(submit=1_356_994_800, asked=8, mem=8_000_000_000) + " {2,2,7} long"
OWN = (
    "job_id,submit_time,run_time,requested_time,n_nodes,cpus_per_node,mem_mb_per_node\n"
    "a,1700000000,60,400000000,2,8,1000\nb,1700000060,90,3600,1,3,2000\n"
)
SITE_CSV = "id,when,cores,nodes\n7,2026-03-02 09:15:00,24,2\n"
SITE = (
    'format = "csv"\ntz = "Asia/Tokyo"\ncpus_per_node = 64\n[columns]\njob_id = { column = "id" }\n'
    'submit_time = { column = "when" }\nrun_time = { column = "cores", unit = "min" }\nn_nodes = { column = "nodes" }\n'
)
SITE_SWF = 'format = "swf"\ncpus_per_node = 4\nmem_unit = "MiB:node"\nclock = "log"\n'
LOGS = {
    "beocat": ("log.csv", BEOCAT, {"preset": "beocat"}),
    "ccr": ("log.csv", CCR, {"preset": "ccr"}),
    "eagle": ("log.csv", EAGLE, {"preset": "eagle"}),
    "metacentrum": ("log.swf", METACENTRUM, {"preset": "metacentrum"}),
    "csv": ("own.csv", OWN, {"format": "csv"}),
    "swf": ("log.swf", SWF_HEADER + row(asked=6), {"format": "swf"}),
    "sacct": ("jobs.psv", f"{SACCT_HEADER}\n{line('1')}\n{line('2', NNodes='2')}\n", {"format": "sacct"}),
    "a csv preset of a site's own": ("site.csv", SITE_CSV, {"preset": "site.toml"}),
    "an swf preset of a site's own": ("site.swf", SWF_HEADER + row(asked=6), {"preset": "site-swf.toml"}),
}

OPTIONS = {"format": "--log-format", "preset": "--preset"}


class _TableWas(Exception):
    """Carries the job table that a command would go on with."""


def _caught(monkeypatch: pytest.MonkeyPatch, module: object, arguments: list[str]) -> pd.DataFrame:
    """Run a command up to where its module has read the log, and return the job table."""

    def stop(path: Path, *given: object, **options: object) -> None:
        raise _TableWas(read_log(path, *given, **options).jobs)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(module, "read_log", stop)
        found = CliRunner().invoke(app, arguments)
    assert isinstance(found.exception, _TableWas), (arguments, found.output)
    return found.exception.args[0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "site.toml").write_text(SITE)
    (tmp_path / "site-swf.toml").write_text(SITE_SWF)
    (tmp_path / "nodes.csv").write_text("node_id,cpus,mem_mb\nn1,64,256000\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_format_and_preset_stands_in_this_test():
    assert set(LOGS) >= {*preset_names(), "csv", "swf", "sacct"}


@pytest.mark.parametrize("kind", LOGS)
def test_study_import_queue_learn_and_forecast_read_one_table(folder, monkeypatch, kind):
    name, text, settings = LOGS[kind]
    (folder / name).write_text(text)
    options = [part for key, value in settings.items() for part in (OPTIONS[key], value)]
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    found = CliRunner().invoke(app, ["workload", "import", name, *options, "--out", "jobs.parquet"])
    assert found.exit_code == 0, found.output
    imported = as_logged(read("jobs.parquet", JOB))
    assert imported["cpus_per_node"].max() > 1 or kind == "swf"
    tables = {
        "study": read_workload(Workload(name="w", jobs=name, shape="as-logged", **settings)),
        "library": import_log(name, shape="as-logged", **settings).jobs,
    }
    for command in (
        ["queue", "train", name, "--out", "m"],
        ["queue", "evaluate", name],
        ["learn", "train", "--jobs", name, "--nodes", "nodes.csv", "--out", "p"],
        ["forecast", "evaluate", name],
    ):
        tables[" ".join(command[:2])] = _caught(monkeypatch, common, [*command, *given])
    for who, table in tables.items():
        pd.testing.assert_frame_equal(table, imported, check_dtype=True, obj=who)


def test_days_of_another_zone_do_not_move_the_dates_of_a_log(folder, monkeypatch):
    """A preset says the zone of its dates; the zone whose days are meant stands in only where nothing says it."""
    (folder / "log.csv").write_text(CCR)
    submitted = import_log("log.csv", preset="ccr").jobs["submit_time"].tolist()
    workload = Workload(name="w", jobs="log.csv", preset="ccr", tz="Asia/Tokyo", day="2017-03-02")
    assert read_workload(workload)["submit_time"].tolist() == submitted
    given = ["--set", "preset=ccr", "--set", "tz=Asia/Tokyo"]
    table = _caught(monkeypatch, common, ["forecast", "evaluate", "log.csv", *given])
    assert table["submit_time"].tolist() == submitted
    in_tokyo = read_log("log.csv", LogSettings(preset="ccr", log_tz="Asia/Tokyo")).jobs["submit_time"]
    assert in_tokyo.tolist() == [second - 14 * 3600 for second in submitted]
    (folder / "dates.csv").write_text(SITE_CSV)
    (folder / "no-zone.toml").write_text(SITE.replace('tz = "Asia/Tokyo"\n', ""))
    here = Workload(name="w", jobs="dates.csv", preset="no-zone.toml", tz="Asia/Tokyo")
    assert (
        read_workload(here)["submit_time"].tolist()
        == import_log("dates.csv", preset="site.toml").jobs["submit_time"].tolist()
    )


def test_what_is_given_stands_above_the_preset(folder):
    """A number for every node, or a column for the CPUs in place of the preset's number."""
    (folder / "site.csv").write_text(SITE_CSV)
    cpus = [
        import_log("site.csv", preset="site.toml", **given).jobs["cpus_per_node"].item()
        for given in ({}, {"cpus_per_node": 8}, {"columns": {"cpus_per_node": "cores::job"}})
    ]
    assert cpus == [64, 8, 12]
    workload = Workload(name="w", jobs="site.csv", preset="site.toml", cpus_per_node=8)
    assert read_workload(workload)["cpus_per_node"].item() == 8


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("log.swf", {"columns": {"run_time": "x"}, "format": "swf"}, "columns belongs to csv logs"),
        ("log.csv", {"mem_unit": "B:job"}, "mem_unit belongs to swf logs; log.csv is read as csv"),
        ("log.psv", {"clock": "unix", "format": "sacct"}, "clock belongs to csv and swf logs"),
        ("log.csv", {"preset": "metacentrum", "format": "csv"}, "preset metacentrum is for swf logs"),
        ("log.csv", {"mem_unt": "B"}, "mem_unt: unknown key; did you mean mem_unit?"),
    ],
)
def test_a_setting_that_the_format_does_not_take_is_refused(folder, name, settings, says):
    """Nothing that a user says of a log is passed over in silence."""
    (folder / name).write_text(SITE_CSV)
    with pytest.raises(TableError, match=re.escape(says)):
        import_log(name, **settings)


def test_queue_keeps_the_jobs_that_wait_of_a_sacct_log_only(folder, monkeypatch):
    """As `import --keep-unfinished` does; the others are what `import` reads."""
    (folder / "jobs.psv").write_text("\n".join([SACCT_HEADER, line("1"), line("2", **PENDING)]) + "\n")
    table = _caught(monkeypatch, common, ["queue", "train", "jobs.psv", "--out", "m"])
    kept = import_log("jobs.psv", keep_unfinished=True).jobs
    pd.testing.assert_frame_equal(table, kept)
    assert len(kept) == 2


def test_a_limit_that_is_none_is_none_in_a_study_too(folder):
    """A job table with a limit of ten years or more, read by a study and by the other commands."""
    (folder / "own.csv").write_text(OWN)
    study = read_workload(Workload(name="w", jobs="own.csv"))
    assert study["requested_time"].tolist() == [0, 3600]
    write(import_log("own.csv").jobs, "own.parquet")
    assert read_log("own.parquet").jobs["requested_time"].tolist() == [0, 3600]
