"""The purchase report's first two pages, its data and its script."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import date
from pathlib import Path

import pandas as pd
import pytest
from small_study import swept
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.errors import TableError
from procure.packages.costs import Costs
from procure.page.html import as_json, write_pdf
from procure.reports import Report
from procure.reports.bill import ended, totals
from procure.sweep.results import load_results


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return procure.report(
        load_results(swept(), search=True), tmp_path_factory.mktemp("page") / "r.html", k=6, verify=False
    )


def test_what_scripts_look_for_is_in_every_report(made: Report):
    """The ids, the version and the JSON block of the documented interface are there."""
    for name in ("answer", "bill", "list", "front", "why", "limits", "repeat"):
        assert len(re.findall(rf'\bid="{name}"', made.html)) == 1
    assert f'<meta name="procure-version" content="{procure.__version__}">' in made.html
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', made.html)
    assert block is not None
    data = json.loads(block[1])
    ranking = made.recommendation.ranking
    assert [one["package_id"] for one in data["list"]] == ranking["package_id"].head(6).tolist()
    assert {"rank", "price_usd", "mean_wait_time"} <= set(data["list"][0])
    drawn = {one[0]: one[1:] for one in data["packages"]}
    keys = [axis["key"] for axis in data["axes"]]
    first = drawn[data["list"][0]["package_id"]]
    assert first[keys.index("price_usd")] == data["list"][0]["price_usd"]
    assert set(drawn) <= set(ranking["package_id"])


def test_only_the_reports_own_script_may_run(made: Report):
    """The content-security policy names the digest of the one script, and forbids everything that is not named."""
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', made.html)
    script = re.search(r"<script>(.*?)</script>", made.html, re.DOTALL)
    assert policy is not None and script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html.unescape(policy[1])
    assert policy[1].startswith("default-src &#39;none&#39;") or policy[1].startswith("default-src 'none'")


@pytest.mark.slow
def test_the_bill_is_a_table_that_a_purchasing_office_opens(tmp_path: Path):
    """`procure report --bill F.csv` writes the lines and their total; another ending is refused before any work."""
    out = tmp_path / "bill.csv"
    asked = ["report", str(swept()), "-k", "3", "--no-verify", "--out", str(tmp_path / "r.html")]
    assert CliRunner().invoke(app, [*asked, "--bill", str(out)]).exit_code == 0
    table = pd.read_csv(out)
    assert table["type"].iloc[-1] == "total"
    assert table["count"].iloc[-1] == table["count"].iloc[:-1].sum()
    second = load_results(swept(), search=True)
    listed = procure.recommend(second, k=3, verify=False)
    lines = table.iloc[:-1]
    beside = lines[lines["second_count"] > 0]
    counts = ",".join(f"{one.type}={one.second_count}" for one in beside.itertuples(index=False))
    assert sorted(counts.split(",")) == sorted(listed.ranking["package_id"].iloc[1].split(","))
    assert table["line_total_usd"].iloc[-1] == pytest.approx(table["line_total_usd"].iloc[:-1].sum())
    (tmp_path / "r.html").unlink()
    refused = CliRunner().invoke(app, [*asked, "--bill", str(tmp_path / "bill.xls")])
    assert refused.exit_code != 0 and not (tmp_path / "r.html").exists()


def test_what_the_order_comes_to_is_told_beside_the_second_choice(made: Report):
    """Totals are those of the list's first and second package; what no quote states, such as power, is left out."""
    done = made.recommendation
    told = {one["what"]: (one["first"], one["second"]) for one in totals(done)}
    assert told["price"] == tuple(done.ranking["price_usd"].iloc[:2])
    rows = done.ranking["row"].iloc[:2]
    assert told["CPUs"] == tuple(done.case.packages["total_cpus"].iloc[rows])
    assert told["servers"] == tuple(done.results.counts[rows].sum(axis=1))
    assert not any("power" in what for what in told)


def test_power_racks_and_years_are_told_where_they_are_known(made: Report):
    """Watts and rack units are summed over the servers; a price per kWh gives the cost over the years."""
    results = made.recommendation.results
    quotes = results.plan.quotes.assign(power_w=500.0, idle_power_w=100.0, rack_units=2.0)
    study = results.plan.study.model_copy(update={"costs": Costs(years=4, usd_per_kwh=0.2)})
    plan = replace(results.plan, quotes=quotes, study=study)
    done = replace(made.recommendation, results=replace(results, plan=plan))
    told = {one["what"]: one["first"] for one in totals(done)}
    n = told["servers"]
    assert told["power, all servers busy"] == pytest.approx(n / 2)
    assert told["height in racks"] == 2 * n
    assert told["cost over 4 years"] == pytest.approx(told["price"] + told["of it energy, 4 years"])


def test_an_offer_that_has_ended_is_named():
    """A line whose last day is past is told; one without a date, or of which nothing is bought, is not."""
    lines = pd.DataFrame(
        {"type": list("abcd"), "count": [1, 1, 1, 0], "valid_until": ["2020-01-31", "", "2999-01-01", "2020-01-31"]}
    )
    assert ended(lines, date(2020, 1, 31)) == []
    assert ended(lines, date(2020, 2, 1)) == ["the offer of a ended on 2020-01-31: ask the vendor again"]


def test_the_pdf_has_page_numbers_in_its_contents(made: Report, tmp_path: Path):
    """WeasyPrint writes beside each line of the contents on which page its section begins."""
    pytest.importorskip("weasyprint", reason="the extra `pdf` is not installed", exc_type=(ImportError, OSError))
    reader = shutil.which("pdftotext")
    if reader is None:
        pytest.skip("no pdftotext on this machine")
    path = write_pdf(tmp_path / "r.pdf", made.html)
    pages = subprocess.run([reader, "-layout", path, "-"], capture_output=True, text=True, check=True).stdout.split(
        "\f"
    )
    contents = next(page for page in pages if "The evidence" in page)
    told = re.findall(r"\d+\. +(\S[^,]*?), page (\d+)", contents)
    assert len(told) >= 8
    for title, number in told:
        assert re.search(rf"^ *{re.escape(title)}\s*$", pages[int(number) - 1], re.MULTILINE), title


def test_without_weasyprint_a_pdf_is_one_error_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("procure.page.html.find_spec", lambda name: None)
    with pytest.raises(TableError, match=r"procure-hpc\[pdf\]"):
        procure.report(swept(), tmp_path / "r.html", pdf=tmp_path / "r.pdf")
    assert not list(tmp_path.iterdir())


def test_json_in_a_page_cannot_end_its_block():
    text = as_json({"a": "</script><b>&", "b": [float("nan"), None, 2]})
    assert not re.search("[<>&]", text)
    assert json.loads(text) == {"a": "</script><b>&", "b": [None, None, 2]}
