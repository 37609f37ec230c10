"""`procure buy` and `procure ask`: one command from a log and offers to an answer, and asked again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import run
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.reports.buying import WEEKS, WHOLE_LOG, _weeks
from procure.tables import write
from procure.workload import LogSettings

QUOTES = """name,category,cpus,mem_gb,gpus,price_usd
Small,compute,16,64,0,4000
Big,compute,64,256,0,12000
Gpu,gpu,32,128,4,30000
"""


def log_of(n_days: float, n: int = 300) -> pd.DataFrame:
    """Return jobs spread over so many days, most of them in the second half."""
    jobs = procure.generate(seed=1, n_jobs=n)
    when = np.sort(np.random.default_rng(1).beta(2, 1, n)) * n_days * 86_400
    return jobs.assign(submit_time=1_600_000_000 + when.astype("int64"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with offers and a job table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "offers.csv").write_text(QUOTES)
    write(log_of(2), tmp_path / "jobs.parquet")
    return tmp_path


BUY = ("buy", "--jobs", "jobs.parquet", "--quotes", "offers.csv", "--budget", "70k", "--farm", "serial", "-k", 3)


def test_one_command_answers_and_goes_on_where_it_was(folder: Path) -> None:
    """The second time nothing is imported or simulated again, and the answer is the same, also from the study alone."""
    first = json.loads(run(*BUY, "--format", "json").stdout)
    assert {"recommendation", "packages", "waits_by_class", "cost", "confidence", "report", "objections"} <= set(first)
    assert Path(first["report"]).is_file() and len(first["packages"]) == 3
    assert first["cost"]["price_usd"] == first["recommendation"]["price_usd"] <= 70_000
    assert first["cost"]["energy_usd"] is None  # nothing prices it
    again = run(*BUY, "--format", "json")
    assert json.loads(again.stdout) == first
    assert ", 0 of them now" in again.stderr and "imported before" in again.stderr
    alone = run("buy", "study.toml", "--farm", "serial", "-k", 3, "--format", "json")
    assert json.loads(alone.stdout) == first
    by_hand = procure.recommend("study.toml", k=3).ranking["package_id"].iloc[0]
    assert by_hand == first["recommendation"]["package_id"]


def test_a_study_that_was_edited_is_not_written_over(folder: Path) -> None:
    """Neither by other options, nor by the same after an edit; other options without a log are refused."""
    run(*BUY)
    path = folder / "study.toml"
    path.write_text(path.read_text().replace("70000", "60000"))
    assert "procure buy study.toml" in str(run(*BUY, code=1).exception) and "60000" in path.read_text()
    cost = json.loads(run("buy", "study.toml", "--farm", "serial", "--format", "json").stdout)["cost"]
    assert cost["price_usd"] <= 60_000 and (folder / "results" / "study.1").is_dir()
    assert "ask" in run("buy", "--budget", "5k", code=2).stderr
    assert "--rate" in run("buy", "study.toml", "--rate", "EUR=1.1", code=2).stderr


def test_ask_ranks_again_from_what_was_simulated(folder: Path) -> None:
    """Under less money, and under bounds; more money than the study's is refused, and nothing is simulated."""
    run(*BUY)
    parts = {one: one.stat().st_mtime_ns for one in (folder / "results").rglob("*.parquet")}
    rows = json.loads(run("ask", "study.toml", "--budget", "40k", "-k", 2, "--format", "json").stdout)
    assert rows and all(one["price_usd"] <= 40_000 for one in rows)
    gpus = json.loads(run("ask", "study.toml", "--constraint", "total_gpus>=4", "--format", "json").stdout)
    assert gpus and all(one["total_gpus"] >= 4 for one in gpus)
    assert {one: one.stat().st_mtime_ns for one in parts} == parts
    assert "budget_usd" in run("ask", "study.toml", "--budget", "80k", code=2).stderr
    assert "100.00" in str(run("ask", "study.toml", "--budget", "100", code=1).exception)


@pytest.mark.parametrize(
    ("jobs", "more", "option"),
    [
        ("log.psv", (), "--tz"),
        ("log.txt", (), "--set format="),
        ("jobs.parquet", ("--budget", "€5,000"), "--rate EUR="),
        ("jobs.parquet", ("--quotes", "no-category.csv"), "--category"),
        ("jobs.parquet", ("--quotes", "no-price.csv"), "price_usd"),
        ("jobs.parquet", ("--budget", "100"), "budget"),
    ],
)
def test_what_only_a_person_can_say_is_one_question(
    folder: Path, jobs: str, more: tuple[str, ...], option: str
) -> None:
    """It names the option that answers it, and nothing is written before."""
    (folder / "log.psv").write_text(
        "JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqTRES|NNodes|NCPUS|State\n"
        "1|a|2024-01-01T00:00:00|2024-01-01T00:10:00|2024-01-01T01:10:00|3600|120|cpu=4,mem=8G,node=1|1|4|COMPLETED\n"
    )
    (folder / "log.txt").write_text("hello\n")
    (folder / "no-category.csv").write_text(QUOTES.replace("category,", "").replace("compute,", "").replace("gpu,", ""))
    (folder / "no-price.csv").write_text("name,category,cpus,mem_gb,gpus\nA,compute,1,1,0\n")
    words = {"--jobs": jobs, "--quotes": "offers.csv", "--budget": "70k"} | dict(
        zip(more[::2], more[1::2], strict=True)
    )
    done = CliRunner().invoke(app, ["buy", *(word for pair in words.items() for word in pair), "--farm", "serial"])
    assert done.exit_code in (1, 2)
    assert option in str(done.exception) + " ".join(done.stderr.replace("│", " ").split())


def test_a_log_in_swf_asks_nothing(folder: Path) -> None:
    """Its processors are tasks of one CPU, so nobody need say how many a node had; what is said is said once."""
    rows = (f"{n} {60 * n} 5 600 6 -1 -1 6 1200 -1 1 1 1 1 1 1 -1 -1" for n in range(1, 41))
    (folder / "log.swf").write_text("; UnixStartTime: 0\n" + "\n".join(rows) + "\n")
    done = run(*(word if word != "jobs.parquet" else "log.swf" for word in BUY))
    assert done.stderr.count("no job asks for memory") == 1  # of the log, and not again of its workload
    assert not any("stood on nodes" in line for line in done.stdout.splitlines())
    jobs = procure.load_plan(procure.load_study("study.toml")).workloads["jobs"]
    assert (jobs["n_tasks"] == 6).all() and (jobs["cpus_per_task"] == 1).all()


def test_the_busiest_weeks_are_those_of_the_gpus_where_no_job_counts_cpus() -> None:
    """Such a log gave its first weeks, whatever came later."""
    jobs = log_of(200, 2_000).assign(cpus_per_node=0)
    day = (jobs["submit_time"] - jobs["submit_time"].min()) // 86_400
    weeks = _weeks(jobs.assign(gpus_per_node=np.where(day.between(101, 128), 8, 1)))
    assert {int((one["submit_time"].max() - jobs["submit_time"].min()) // 86_400) for one in weeks.values()} == {
        107, 114, 121, 128,
    }  # fmt: skip


def test_the_busiest_weeks_stand_for_a_long_log(folder: Path) -> None:
    """Each is whole and has three days before it that do not count; a log of sixty days is replayed as it is."""
    write(log_of(200, 2_000), folder / "long.parquet")
    words = [word if word != "jobs.parquet" else "long.parquet" for word in BUY]
    run(*words)
    study = procure.load_study("study.toml")
    assert len(study.workloads) == WEEKS and all(one.warm_up == 3 * 86_400 for one in study.workloads)
    plan = procure.load_plan(study)
    for name, jobs in plan.workloads.items():
        assert (
            0 < plan.n_counted(name) < len(jobs) and jobs["submit_time"].max() - jobs["submit_time"].min() < 10 * 86_400
        )
    whole = log_of(WHOLE_LOG / 86_400 - 1)
    inputs = procure.Inputs(write(whole, folder / "b.parquet"), folder / "offers.csv", "70k", LogSettings())
    procure.buy("b.toml", inputs, farm="serial")
    assert [len(one) for one in procure.load_plan(procure.load_study("b.toml")).workloads.values()] == [len(whole)]
