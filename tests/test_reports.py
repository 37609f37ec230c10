"""The reports: one base template, names that are no markup, and what a library user gets of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

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
from procure.evaluation.many_days import Days
from procure.explanation.bottleneck import Bottleneck
from procure.page.html import render
from procure.page.vega import library, still
from procure.reports import sections
from procure.study import load_study
from procure.sweep import load_plan, run_sweep
from procure.sweep.results import load_results
from procure.text import duration

HOSTILE = "<script>alert(1)</script>"
COLUMNS = (
    "name,category,cpus,mem_gb,gpus,price_usd,spec_rate,vendor,quote_number,valid_until,power_w,idle_power_w,rack_units"
)
QUOTES = f"""{COLUMNS}
{HOSTILE},<b>thin</b>,8,32,0,1000,5,{HOSTILE},{HOSTILE},2020-01-31,300,90,1
"$a$ & $b$",<b>thin</b>,16,64,0,1900,4,{HOSTILE},7,2020-01-31,500,90,2
fat,fat,16,256,1,4000,6,,8,2999-01-01,900,200,4
"""
NODES = f"node_id,kind,cpus,mem_mb,gpus\nold1,{HOSTILE},4,8000,0\nold2,{HOSTILE},4,8000,0\n"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every report, each of something with hostile names."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "quotes.csv").write_text(QUOTES)
    (folder / "old.csv").write_text(NODES)
    (folder / "s.toml").write_text(
        'quotes = "quotes.csv"\n[packages]\nrules = "published"\nbudget_usd = 24_000\nexisting_nodes = "old.csv"\n'
        '[[workloads]]\nname = "day"\ngenerate = { seed = 1, n_jobs = 60 }\nlogged_speed = 4.5\nwarm_up = "1h"\n'
        "[costs]\nusd_per_kwh = 0.2\n[model]\nfolds = 2\n"
    )
    run_sweep(load_plan(load_study(folder / "s.toml")), "serial")
    purchase = procure.report(folder / "s.toml", k=3)
    jobs, nodes = pool_case(np.random.default_rng(3), 40)
    comparison = compare(jobs, nodes, ["fcfs", "easy"], slices="month")
    comparison = replace(comparison, table=comparison.table.assign(policy=[HOSTILE, "easy"]))
    comparison.parts["policy"] = comparison.parts["policy"].replace("fcfs", HOSTILE)
    write_comparison(comparison, folder / "compare.html", HOSTILE)
    return {"purchase": purchase.path.read_text()} | {name: (folder / f"{name}.html").read_text() for name in SIBLINGS}


def bare(page: str) -> str:
    """Return a page without Vega's own program, which is no text of ours."""
    return page.replace(library(), "")


SIBLINGS = ("compare",)
NAMES = ["purchase", *SIBLINGS]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_report_escapes_hostile_names(reports: dict[str, str], name: str):
    """A name that looks like markup is shown as text in every report, and no report runs or loads anything."""
    assert "&lt;script&gt;alert(1)" in reports[name]
    own = r'<script type="application/json"(?: id="data")?>[^<]*</script>|<script>"use strict";.*?</script>'
    text, n_own = re.subn(own, "", bare(reports[name]), flags=re.DOTALL)
    n_pictures = reports[name].count('class="picture"')
    assert n_own == (2 + n_pictures if name == "purchase" else 0)
    assert not re.search(r"<script|<b>|https?://|@import|<link|url\((?!#)| on[a-z]+=", text)
    ids = re.findall(r'\bid="([^"]+)"', bare(reports[name]))
    assert ids and len(ids) == len(set(ids))


@pytest.mark.slow
def test_jobs_of_the_warm_up_count_nowhere(reports: dict[str, str]):
    """The first page's text, its picture and the list tell one mean wait; classes hold the jobs that count."""
    text = reports["purchase"]
    data = json.loads(re.findall(r'id="data">(.*?)</script>', text)[0])
    wait = duration(data["list"][0]["mean_wait_time"])
    first = text[: text.index('id="bill"')]
    assert f"would wait {wait} on average" in first
    counted = int(re.findall(r": ([\d,]+) jobs?[,;]", first)[0].replace(",", ""))
    assert counted < 60
    waits = text[text.index('<section id="waits"') :].partition("</section>")[0]
    sizes = re.findall(r'<th scope="row" class="line">CPUs: .*?</th><td class="n">(\d+)</td>', waits)
    assert sum(map(int, sizes)) == counted


def test_all_reports_extend_one_base_template(reports: dict[str, str]):
    """All pages begin with the same head but for title and width; only one template holds a document."""
    heads = {
        re.sub(
            r"<title>.*?</title>|max-width: \d+rem; margin: 0 auto|; script-src 'sha256-[^']*'",
            "",
            text.split("</style>")[0],
        )
        for text in reports.values()
    }
    assert len(heads) == 1
    rooms = [path for path in (ROOT / "procure").rglob("*.html") if path.parent.name != "serve"]  # a page, no report
    templates = {path.name: path.read_text() for path in rooms}
    assert [name for name, text in templates.items() if "<html" in text] == ["base.html"]
    assert not [name for name, text in templates.items() if re.search(r"\|\s*safe\b", text)]
    pages = [path for path in (ROOT / "procure").rglob("*.html") if 'extends "base.html"' in path.read_text()]
    assert {path.parent.name for path in pages} == {
        "comparison", "reports",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_everybody_can_read_every_report(reports: dict[str, str], name: str):
    """Every table has a caption and scopes, headings go down step by step, and columns have names for people."""
    text = bare(reports[name])
    for table in re.findall(r"<table(?! id=\"compared\").*?</table>", text, re.DOTALL):
        assert "<caption>" in table
        heads = re.findall(r"<th\b[^>]*>", table)
        assert heads and all("scope=" in one for one in heads)
        assert not [head for head in re.findall(r"<th scope=\"col\"[^>]*>([^<]*)<", table) if "_" in head]
    levels = [int(level) for level in re.findall(r"<h([1-6])\b", text)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(low <= high + 1 for high, low in pairwise(levels))
    assert f'<meta name="procure-version" content="{procure.__version__}">' in text and 'id="answer"' in text
    assert "<text" in text  # a figure's words are text


@pytest.mark.parametrize("name", NAMES)
def test_every_report_leads_from_its_claims_to_their_evidence(reports: dict[str, str], name: str):
    """More than three sections have contents in their order; each link leads to a section that is there."""
    text = bare(reports[name])
    sections = re.findall(r'<section id="([^"]+)">\s*<h2>(.*?)</h2>', text)
    targets = re.findall(r'<a[^>]* href="#([^"]+)"', text)
    assert targets and set(targets) <= set(re.findall(r'<section id="([^"]+)"', text))
    listed = re.findall(r'<li><a href="#([^"]+)">(.*?)</a></li>', text)
    if name == "purchase":
        sections = [one for one in sections if one[0] not in ("limits", "bill", "list")]
    assert listed == (sections if len(sections) > 3 else [])
    if name != "purchase":
        claims = re.findall(r"<p[^>]*>", text[text.index('<div class="answer">') : text.index("</section>")])
        assert len(re.findall(r'class="see"', text)) == len(claims) > 0


def test_sections_escape_workload_names():
    """The names of days stand in figures, captions and lists; none of them is markup or a formula."""
    wait = np.array([np.arange(30.0), np.arange(30.0) ** 2])
    two = Days((HOSTILE, "$day$"), wait, wait >= 0, np.ones(2), np.full(wait.shape, 9.0))
    assert "<script" not in sections.days(two)
    seconds = dict.fromkeys(("cpus", "memory", "gpus", "gpu_type", "policy"), 5.0)
    moments, cumulative = np.array([0, 10]), np.array([[0.0] * 5, [5.0] * 5])
    bottleneck = Bottleneck(seconds, 0.0, moments, cumulative, pd.DataFrame(), 0)
    page = render(Path(sections.__file__).with_name("why.html"), why=[HOSTILE], against=[], marginal=[],
                  lacked={HOSTILE: sections.lacked(bottleneck, HOSTILE)})  # fmt: skip
    assert "<script" not in page and page.count("&lt;script&gt;") == 3


def test_the_ids_of_a_figure_are_safe_whatever_it_is_named():
    """Any name and label make one SVG, whose ids are of letters and numbers."""
    spec = {"data": {"values": [{"a": 1}]}, "mark": {"type": "point", "clip": True}, "encoding": {"x": {"field": "a"}}}
    text = still('a" onload="x', 'back\\slash "quoted" \\1', spec)
    assert 'aria-label="back\\slash &#34;quoted&#34; \\1"' in text
    assert set(re.findall(r'\bid="(figure-[0-9a-f]{8})-', text)) and "onload" not in text


@pytest.mark.slow
def test_a_library_user_gets_the_report_and_what_it_was_made_from(tmp_path: Path):
    """`procure.report` takes results, writes one file and returns the recommendation, evaluation and explanations."""
    results = load_results(swept(), search=True)
    report = procure.report(results, tmp_path / "r.html", k=4, verify=False)
    assert report.path == tmp_path / "r.html" and report.path.read_text() == report.html
    first = report.recommendation.ranking["package_id"].iloc[0]
    assert report.explanations[0].package_id == first and len(report.explanations) == 2
    assert set(report.evaluation["model"]) >= {"xgboost", "random", "cheapest-per-cpu"}
    assert first in report.summary() and str(report.path) in report.summary()
    assert f"procure report {swept()} -k 4 --no-verify" in report.html
    with pytest.raises(ArgumentError) as refused:
        procure.report(swept(), policy="bestfit")
    assert refused.value.argument == "policy"


@pytest.mark.slow
def test_a_library_user_gets_the_evaluation():
    """Each workload is judged by itself, or with a threshold all together; a wrong argument is named."""
    results = load_results(swept(2))
    apart = procure.evaluate(results)
    assert apart.hits["workload"].unique().tolist() == ["day-1", "day-2"] and apart.sweep is None
    text = apart.summary()
    assert "small, day-2: hits are the best 5%" in text and "rank correlation" in text
    assert apart._repr_html_().count("<table") == 2
    together = procure.evaluate(results, hit_threshold=[0, 1], feature_set="totals")
    assert set(together.hits["threshold"]) == {0, 1} and together.choices is not None
    assert {"day day-1", "normalised"} <= set(together.hits["model"])
    assert "on more than 0 of 2 days" in together.summary()
    for argument, wrong in {"feature_set": {"feature_set": "total"}, "rule": {"rule": "best"}}.items():
        with pytest.raises(ArgumentError) as refused:
            procure.evaluate(results, **wrong)
        assert refused.value.argument == argument
    with pytest.raises(ArgumentError, match="hits over days need several"):
        procure.evaluate(swept(), hit_threshold=0)
