"""The administrator's path: a log, offers and money become a study, and that a purchase."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import run
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.packages import PackageRules, expand_packages, read_quotes
from procure.reports.buying import WEEKS, WHOLE_LOG, _weeks
from procure.study import load_study
from procure.tables import write

QUOTES = """name,category,cpus,mem_gb,gpus,price_usd,power_w
Small,compute,8,64,0,9500,400
Large,compute,16,128,0,17900,700
Fat,bigmem,16,1024,0,31000,900
Gpu,gpu,16,256,4,68000,2600
"""
OFFERS = "name,category,cpus,mem_gb,gpus,price_usd\nSmall,c,16,64,0,4000\nBig,c,64,256,0,12000\nGpu,g,32,128,4,30000\n"
SWF = "; UnixStartTime: 0\n" + "".join(
    f"{i} {9 * i} 5 {60 + i} 4 -1 -1 4 120 -1 1 {i % 3} 1 1 1 1 -1 -1\n" for i in range(1, 40)
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with offers, a short log, and one of jobs of up to eight nodes and without GPUs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotes.csv").write_text(QUOTES)
    (tmp_path / "offers.csv").write_text(OFFERS)
    jobs = procure.generate(seed=3, n_jobs=600)
    rng = np.random.default_rng(3)
    jobs = jobs.assign(
        n_nodes=rng.choice([1, 2, 4, 8], len(jobs), p=[0.7, 0.15, 0.1, 0.05]),
        cpus_per_node=8,
        mem_mb_per_node=4_000,
        gpus_per_node=0,
        gpu_type="",
        submit_time=jobs["submit_time"].min() + np.sort(rng.integers(0, 20 * 86_400, len(jobs))),
        run_time=rng.integers(600, 40 * 3600, len(jobs)),
        start_time=lambda t: t["submit_time"] + 60,
    )
    jobs = jobs.assign(requested_time=jobs["run_time"], end_time=jobs["start_time"] + jobs["run_time"])
    write(jobs, tmp_path / "log.parquet")
    write(log_of(2), tmp_path / "jobs.parquet")
    return tmp_path


def test_a_study_replays_the_jobs_that_it_is_given(folder: Path) -> None:
    """A job table is named where it is, in the zone that is given; a log is refused with what to do."""
    run("study", "init", "s.toml", "--jobs", "log.parquet", "--budget", 300_000, "--tz", "Europe/Berlin")
    study = load_study(folder / "s.toml")
    assert study.workloads[0].jobs == folder / "log.parquet" and not study.made_up
    assert study.workloads[0].tz == "Europe/Berlin"
    (folder / "log.swf").write_text(SWF)
    assert "import" in run("study", "init", "t.toml", "--jobs", "log.swf", code=2).stderr
    assert not (folder / "t.toml").exists()


def test_made_up_jobs_are_said_first_by_every_command(folder: Path) -> None:
    """And are a key of what programs read; of one's own jobs neither is said."""
    begin = "made-up jobs: default"
    assert run("study", "init", "s.toml", "--budget", 300_000).stderr.startswith(begin)
    text = (folder / "s.toml").read_text().replace("{ seed = 1 }", "{ seed = 1, n_jobs = 50 }")
    (folder / "s.toml").write_text(text)
    for words in (
        ("study", "check"),
        ("sweep", "--farm", "serial"),
        ("train",),
        ("recommend", "-k", 3, "--resamples", 0),
    ):
        name, *more = words
        command = [*words[:2], "s.toml", *words[2:]] if name == "study" else [name, "s.toml", *more]
        assert run(*command).stderr.startswith(begin), name
        done = run(*command, "--format", "json")
        document = json.loads(done.stdout)
        assert done.stderr.startswith(begin)
        assert (document[0] if isinstance(document, list) else document)["made_up"] == ["default"], name
    run("study", "init", "own.toml", "--jobs", "log.parquet", "--budget", 300_000)
    done = run("study", "check", "own.toml", "--format", "json")
    assert "made" not in done.stderr and "made_up" not in json.loads(done.stdout)


def test_the_published_rules_are_set_by_their_name_only(folder: Path) -> None:
    """Without it any types may be bought and none must be; what is set beside the name counts."""
    assert (PackageRules(budget_usd=1).min_gpu_nodes, PackageRules(budget_usd=1).types_per_category) == (0, "any")
    named = PackageRules(rules="published", budget_usd=1, min_gpu_nodes=2)
    assert (named.min_gpu_nodes, named.types_per_category) == (2, 1)
    quotes = read_quotes(folder / "quotes.csv")
    published = expand_packages(quotes, PackageRules(rules="published", budget_usd=200_000))
    free = expand_packages(quotes, PackageRules(budget_usd=200_000))
    assert (published["total_gpus"] > 0).all() and not (published[["Small", "Large"]] > 0).all(axis=1).any()
    assert (free["total_gpus"] == 0).any() and (free[["Small", "Large"]] > 0).all(axis=1).any()


def test_packages_that_are_too_many_to_list_are_searched(folder: Path) -> None:
    """`init` and `check` say how many; `sweep` searches, and all that follows goes on from what it has simulated."""
    run("study", "init", "s.toml", "--jobs", "log.parquet", "--budget", 300_000)
    text = (
        (folder / "s.toml")
        .read_text()
        .replace("# runs = 2_000 ", "runs = 70 ")
        .replace("# max_packages = 500_000", "max_packages = 20")
    )
    (folder / "s.toml").write_text(text)
    said = run("study", "check", "s.toml", "--format", "json")
    assert json.loads(said.stdout)["about_packages"] == 20 and "searches among them, at most 70 runs" in said.stderr
    assert "no search" in str(run("recommend", "s.toml", code=1).exception)
    spent = json.loads(run("sweep", "s.toml", "--farm", "serial", "--format", "json").stdout)["spent"]
    assert spent["n_runs_asked"] == 70
    assert json.loads(run("train", "s.toml", "--format", "json").stdout)[0]["n_simulated"] > 40
    run("evaluate", "s.toml")
    done = run("recommend", "s.toml", "-k", 3, "--resamples", 0, "--format", "json")
    first = json.loads(done.stdout)[0]
    assert first["simulated"] and "are those that searches have simulated" in done.stderr
    run("explain", "s.toml", first["package_id"])


def purchase(name: str, *more: str) -> dict:
    """Sweep a study of 200,000 US$ whose packages obey some more lines; return its first package."""
    run("study", "init", f"{name}.toml", "--jobs", "log.parquet", "--budget", 200_000)
    path = Path(f"{name}.toml")
    path.write_text(path.read_text().replace("[packages]  ", "\n".join(["[packages]", *more, ""])))
    run("sweep", path, "--farm", "serial")
    return json.loads(run("recommend", path, "-k", 3, "--resamples", 0, "--format", "json").stdout)[0]


def test_a_log_without_gpu_jobs_buys_no_gpu_server(folder: Path) -> None:
    """By the commands of the README; where a rule forces one, what that costs is said, before the sweep and after."""
    free = purchase("free")
    run("train", "free.toml")
    assert "Gpu" not in free["counts"] and free["jobs_left_out"] == 0 and free["rules"] == []
    forced = purchase("forced", "min_gpu_nodes = 1", "types_per_category = 1")
    assert forced["counts"]["Gpu"] == 1 and forced["mean_wait_time"] > free["mean_wait_time"]
    gpu, types, both = forced["rules"]
    assert (gpu["rule"], types["rule"]) == ("min_gpu_nodes = 1", "types_per_category = 1")
    assert gpu["before"] == both["before"] == forced["mean_wait_time"] and gpu["n_simulated"] > 0
    assert gpu["value"] < gpu["before"] and "Gpu" not in gpu["package_id"]
    assert both["value"] == pytest.approx(free["mean_wait_time"])
    probed = run("study", "check", "forced.toml", "--format", "json")
    assert [one["rule"] for one in json.loads(probed.stdout)["rules"]] == [one["rule"] for one in forced["rules"]]
    assert "without the rule min_gpu_nodes = 1 the same money waits" in probed.stderr
    page = procure.report("forced.toml", k=3).html
    first = page[: page.index('id="bill"')].casefold()
    assert first.count("without the rule ") >= 2 and "without all these rules" in first and "`" not in first
    assert "made-up" not in page[: page.index('id="bill"')]


def test_a_budget_in_another_currency_goes_by_its_rate(tmp_path, procure):
    """€300,000 at 1.08 are US$ 324,000 of the study; without a rate it is bad usage that names the option."""
    quotes = tmp_path / "q.csv"
    quotes.write_text("Model,Cores,Memory (GB),GPUs,Unit price (EUR)\nA,64,256,0,9000\n")
    study = ("study", "init", tmp_path / "s.toml", "--quotes", quotes, "--budget", "€300,000")
    code, _, err = procure(*study)
    assert code == 2 and "--set rates.EUR" in " ".join(err.replace("│", " ").split())
    assert procure(*study, "--set", "rates.EUR=1.08", "--set", "category.'*'=compute")[0] == 0
    loaded = load_study(tmp_path / "s.toml")
    assert loaded.packages.budget_usd == 324_000
    assert loaded.read_quotes()[["category", "price_usd"]].to_numpy().tolist() == [["compute", 9720]]


def log_of(n_days: float, n: int = 300) -> pd.DataFrame:
    """Return jobs spread over so many days, most of them in the second half."""
    jobs = procure.generate(seed=1, n_jobs=n)
    when = np.sort(np.random.default_rng(1).beta(2, 1, n)) * n_days * 86_400
    return jobs.assign(submit_time=1_600_000_000 + when.astype("int64"))


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
    nameless = re.sub(r"^([^,]*),[^,]*,", r"\1,", QUOTES, flags=re.MULTILINE)
    (folder / "no-category.csv").write_text(nameless)
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
    assert list(_weeks(log_of(WHOLE_LOG / 86_400 - 1))) == ["jobs"]
