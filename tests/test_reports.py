"""The reports: one base template, names that are no markup, and what a library user gets of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from policy_cases import pool_case
from small_study import swept

import procure
from procure.comparison import compare
from procure.comparison.report import write_report as write_comparison
from procure.errors import ArgumentError
from procure.evaluation.many_days import Days, hit_days
from procure.explanation.bottleneck import Bottleneck
from procure.page import svg
from procure.page.html import cell, render, sentence
from procure.queue_time.evaluation import evaluate as evaluate_queue
from procure.queue_time.report import write_report as write_queue
from procure.reports import days, explain
from procure.study import load_study
from procure.sweep import load_plan, run_sweep
from procure.sweep.results import load_results
from tests.test_queue_time_model import busy_site

HOSTILE = "<script>alert(1)</script>"
QUOTES = f"""name,category,cpus,mem_gb,gpus,price_usd
{HOSTILE},<b>thin</b>,8,32,0,1000
"$a$ & $b$",<b>thin</b>,16,64,0,1900
fat,fat,16,256,1,4000
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The three reports, each of something with hostile names."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "quotes.csv").write_text(QUOTES)
    (folder / "s.toml").write_text(
        'quotes = "quotes.csv"\n[packages]\nbudget_usd = 24_000\n[[workloads]]\nname = "day"\n'
        "generate = { seed = 1, n_jobs = 60 }\n[model]\nfolds = 2\n"
    )
    run_sweep(load_plan(load_study(folder / "s.toml")), "serial")
    purchase = procure.report(folder / "s.toml", k=3)
    jobs, nodes = pool_case(np.random.default_rng(3), 40)
    comparison = compare(jobs, nodes, ["fcfs", "easy"], seeds=1)
    comparison = replace(comparison, table=comparison.table.assign(policy=[HOSTILE, "easy"]))
    comparison.parts["policy"] = comparison.parts["policy"].replace("fcfs", HOSTILE)
    write_comparison(comparison, folder / "compare.html", HOSTILE)
    queue = evaluate_queue(busy_site(300), methods=())
    queue.curves[HOSTILE] = pd.DataFrame({"k": [1, 2], "rmse": [3.0, 2.0]})
    queue.rows[0]["method"] = HOSTILE
    write_queue(queue, folder / "queue.html")
    pages = {name: (folder / f"{name}.html").read_text() for name in ("compare", "queue")}
    return {"purchase": purchase.path.read_text()} | pages


@pytest.mark.parametrize("name", ["purchase", "compare", "queue"])
def test_a_report_escapes_hostile_names(reports: dict[str, str], name: str):
    """A name that looks like markup is shown as text in every report, and no report runs or loads anything."""
    assert "&lt;script&gt;alert(1)" in reports[name]
    own = r'<script type="application/json" id="data">[^<]*</script>|<script>"use strict";.*?</script>'
    text, n_own = re.subn(own, "", reports[name], flags=re.DOTALL)
    assert n_own == (2 if name == "purchase" else 0)
    assert not re.search(r"<script|<b>|https?://|@import|<link|url\((?!#)| on[a-z]+=", text)
    ids = re.findall(r'\bid="([^"]+)"', reports[name])
    assert ids and len(ids) == len(set(ids))


def test_all_reports_extend_one_base_template(reports: dict[str, str]):
    """The three pages begin with the same head but for title and width; only one template holds a document."""
    heads = {
        re.sub(
            r"<title>.*?</title>|max-width: \d+rem; margin: 0 auto|; script-src 'sha256-[^']*'",
            "",
            text.split("</style>")[0],
        )
        for text in reports.values()
    }
    assert len(heads) == 1
    templates = {path.name: path.read_text() for path in (ROOT / "procure").rglob("*.html")}
    assert [name for name, text in templates.items() if "<html" in text] == ["base.html"]
    assert not [name for name, text in templates.items() if re.search(r"\|\s*safe\b", text)]
    pages = [path for path in (ROOT / "procure").rglob("*.html") if 'extends "base.html"' in path.read_text()]
    assert {path.parent.name for path in pages} >= {"comparison", "queue_time", "reports"}


def test_sections_escape_workload_names():
    """The names of days stand in figures, captions and lists; none of them is markup or a formula."""
    wait = np.array([np.arange(30.0), np.arange(30.0) ** 2])
    two = Days((HOSTILE, "$day$"), wait, wait >= 0, np.ones(2), np.full(wait.shape, 9.0))
    packages = pd.DataFrame(
        {"package_id": "p", "price_usd": np.arange(30.0), "total_cpus": 1}, index=range(30)
    )
    assert "<script" not in days.section(two, hit_days(two), {("a", HOSTILE): wait[0]}, packages, 0.1, 1)
    seconds = dict.fromkeys(("cpus", "memory", "gpus", "gpu_type", "policy"), 5.0)
    moments, cumulative = np.array([0, 10]), np.array([[0.0] * 5, [5.0] * 5])
    bottleneck = Bottleneck(seconds, 0.0, moments, cumulative, pd.DataFrame(), 0)
    page = render(Path(explain.__file__).with_name("why.html"), why=[HOSTILE], against=[], factors="", marginal=[],
                  lacked={HOSTILE: explain.lacked_chart(bottleneck, HOSTILE)})  # fmt: skip
    assert "<script" not in page and page.count("&lt;script&gt;") == 3


def test_the_ids_of_a_figure_are_safe_whatever_it_is_named():
    """Any name and label make one SVG; matplotlib's settings are as before."""
    before = dict(matplotlib.rcParams)
    made, axes = svg.figure()
    axes.plot([0, 1], [0, 1])
    text = svg.inline(made, 'a" onload="x', 'back\\slash "quoted" \\1')
    assert 'aria-label="back\\slash &#34;quoted&#34; \\1"' in text
    assert set(re.findall(r'\bid="(figure-[0-9a-f]{8})-', text)) and "onload" not in text
    assert dict(matplotlib.rcParams) == before


def test_cells_and_sentences_are_written_for_people():
    """Numbers to so many places, dashes for what is unknown; a note becomes a sentence once."""
    values = (1.23456, 1234.5, np.nan, 12, "x", None)
    assert [cell(value) for value in values] == ["1.235", "1,234.500", "–", "12", "x", "–"]
    assert [cell(value, None) for value in values[:2]] == ["1.235", "1,234"]
    assert [sentence(one) for one in ("jobs wait", "Done.", " because of:")] == [
        "Jobs wait.", "Done.", "Because of:",
    ]  # fmt: skip


def test_a_library_user_gets_the_report_and_what_it_was_made_from(tmp_path: Path):
    """`procure.report` takes results, writes one file and returns the recommendation, evaluation and explanations."""
    results = load_results(swept(), search=True)
    report = procure.report(results, tmp_path / "r.html", k=4, verify=False)
    assert report.path == tmp_path / "r.html" and report.path.read_text() == report.html
    first = report.recommendation.ranking["package_id"].iloc[0]
    assert report.explanations[0].package_id == first and len(report.explanations) == 2
    assert set(report.evaluation["model"]) >= {"xgboost", "random", "cheapest-per-cpu"}
    assert first in report.summary() and str(report.path) in report.summary()
    assert f"procure recommend {swept()} -k 4 --no-verify" in report.html
    with pytest.raises(ArgumentError) as refused:
        procure.report(swept(), policy="bestfit")
    assert refused.value.argument == "policy"


def test_a_library_user_gets_the_evaluation():
    """Each workload is judged by itself, or with a threshold all together; a wrong argument is named."""
    results = load_results(swept(2))
    apart = procure.evaluate(results)
    assert apart.hits["workload"].unique().tolist() == ["day-1", "day-2"] and apart.sweep is None
    assert apart.to_dict() == procure.evaluate(swept(2), apart=True, hit_threshold=0).to_dict()
    text = apart.summary()
    assert "small, day-2: hits are the best 5%" in text and "rank correlation" in text
    assert apart._repr_html_().count("<table") == 2
    together = procure.evaluate(results, hit_threshold=[0, 1], feature_set="totals", train_on=["day-2"])
    assert set(together.hits["threshold"]) == {0, 1} and together.choices is not None
    assert {"day day-2", "normalised"} <= set(together.hits["model"])
    assert "on more than 0 of 2 days" in together.summary()
    for argument, wrong in {
        "feature_set": {"feature_set": "total"},
        "rule": {"rule": "best"},
        "train_on": {"hit_threshold": 0, "train_on": ["day-3"]},
    }.items():
        with pytest.raises(ArgumentError) as refused:
            procure.evaluate(results, **wrong)
        assert refused.value.argument == argument
    with pytest.raises(ArgumentError, match="hits over days need several"):
        procure.evaluate(swept(), hit_threshold=0)
