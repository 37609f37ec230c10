"""The administrator's path: a log, offers and money become a study, and that a purchase."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from small_study import run

import procure
from procure.packages import PackageRules, expand_packages, read_quotes
from procure.recommender.objections import objections
from procure.reports.bill import totals
from procure.reports.memo import compared, write_memo
from procure.study import load_study
from procure.tables import write

QUOTES = """name,category,cpus,mem_gb,gpus,price_usd,power_w
Small,compute,8,64,0,9500,400
Large,compute,16,128,0,17900,700
Fat,bigmem,16,1024,0,31000,900
Gpu,gpu,16,256,4,68000,2600
"""
SWF = "; UnixStartTime: 0\n" + "".join(
    f"{i} {9 * i} 5 {60 + i} 4 -1 -1 4 120 -1 1 {i % 3} 1 1 1 1 -1 -1\n" for i in range(1, 40)
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with offers, and with jobs of up to eight nodes and without GPUs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotes.csv").write_text(QUOTES)
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
    write(jobs, tmp_path / "jobs.parquet")
    return tmp_path


def test_a_study_replays_the_jobs_that_it_is_given(folder: Path) -> None:
    """A job table is named where it is, in the zone that is given; a log is refused with what to do."""
    run("study", "init", "s.toml", "--jobs", "jobs.parquet", "--budget", 300_000, "--tz", "Europe/Berlin")
    study = load_study(folder / "s.toml")
    assert study.workloads[0].jobs == folder / "jobs.parquet" and not study.made_up
    assert study.workloads[0].tz == "Europe/Berlin"
    (folder / "log.swf").write_text(SWF)
    assert "import" in run("study", "init", "t.toml", "--jobs", "log.swf", code=2).stderr
    assert not (folder / "t.toml").exists()


def test_a_study_reads_its_offers_with_what_was_given(folder: Path) -> None:
    (folder / "offers.csv").write_text("Modell,Gruppe,Kerne,RAM,Beschleuniger,Preis EUR\nA,compute,8,64,0,9000\n")
    names = {"name": "Modell", "category": "Gruppe", "cpus": "Kerne", "mem_gb": "RAM", "gpus": "Beschleuniger"}
    names |= {"price_usd": "Preis EUR"}
    columns = [word for field, heading in names.items() for word in ("--column", f"{field}={heading}")]
    offers = ("--quotes", "offers.csv", "--set", "rates.EUR=1.08")
    run("study", "init", "s.toml", *offers, *columns, "--budget", 50_000)
    study = load_study(folder / "s.toml")
    assert study.offers.rates == {"EUR": Decimal("1.08")} and study.read_quotes()["price_usd"].tolist() == [9720]
    assert "format" in run("study", "init", "t.toml", "--set", "format=swf", code=2).stderr


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
    run("study", "init", "own.toml", "--jobs", "jobs.parquet", "--budget", 300_000)
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
    run("study", "init", "s.toml", "--jobs", "jobs.parquet", "--budget", 300_000)
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
    run("study", "init", f"{name}.toml", "--jobs", "jobs.parquet", "--budget", 200_000)
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


def test_a_purchase_that_waits_longer_than_the_log_says_so_first(folder: Path) -> None:
    """On page one; energy without a price is not priced, and not free."""
    run("study", "init", "s.toml", "--jobs", "jobs.parquet", "--budget", 90_000)
    path = folder / "s.toml"
    path.write_text(path.read_text().replace("# staff_usd_per_node_year = 0 ", "staff_usd_per_node_year = 100 "))
    run("sweep", path, "--farm", "serial")
    done = procure.recommend(path, k=2, resamples=0)
    assert done.ranking["mean_wait_time"].iloc[0] > 60
    assert "longer-than-logged" in [one.name for one in objections(done)]
    said = {title: " ".join(lines) for title, _, lines in write_memo(done, compared(done)).parts}
    assert "In the log they waited 60 s" in said["What it brings"]
    assert f"All {len(done.ranking)} packages were simulated" in said["How sure this is"]
    told = {one["what"]: one["first"] for one in totals(done)}
    assert told["of it energy, 5 years"] == "not priced" and told["cost over 5 years"] > told["price"]
    assert "not priced" in procure.report(path, k=2).html


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
