"""The purchase report's first two pages, its data and its script."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from small_study import swept
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.page.html import as_json
from procure.recommender.sensitivity import most_robust
from procure.reports import Report
from procure.reports.answer import compared
from procure.reports.bill import bill
from procure.sweep.results import load_results


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return procure.report(
        load_results(swept(), search=True), tmp_path_factory.mktemp("page") / "r.html", k=6, verify=False
    )


def part(page: str, name: str) -> str:
    """Return the text of a section, without its markup."""
    found = re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL)
    assert found is not None
    return html.unescape(re.sub(r"<[^>]*>", " ", found[0]))


def test_the_first_page_has_at_most_150_words_and_one_picture(made: Report):
    """A committee reads what to buy, what it brings and how sure that is on one short page."""
    text = part(made.html, "answer")
    assert len(text.split()) <= 150
    assert all(question in text for question in ("What it brings", "How sure", "What would change it"))
    assert made.html[: made.html.index('id="bill"')].count("<svg") == 1
    for word in ("resample", "bootstrap", "burst", "NaN", "nan"):
        assert word not in text


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


def test_the_bill_adds_up_to_the_price(made: Report):
    """Counts are those of the package, and the lines add up to what the list says."""
    done = made.recommendation
    for place in range(3):
        lines = bill(done, place)
        assert lines["line_total_usd"].sum() == pytest.approx(done.ranking["price_usd"].iloc[place])
        counts = ",".join(f"{one.type}={one.count}" for one in lines.itertuples(index=False))
        assert counts.replace(" ", "") == done.ranking["package_id"].iloc[place].replace(" ", "")


def test_the_bill_is_a_table_that_a_purchasing_office_opens(tmp_path: Path):
    """`procure report --bill F.csv` writes the lines and their total; another ending is refused before any work."""
    out = tmp_path / "bill.csv"
    asked = ["report", str(swept()), "-k", "3", "--no-verify", "--out", str(tmp_path / "r.html")]
    assert CliRunner().invoke(app, [*asked, "--bill", str(out)]).exit_code == 0
    table = pd.read_csv(out)
    assert table["type"].iloc[-1] == "total"
    assert table["line_total_usd"].iloc[-1] == pytest.approx(table["line_total_usd"].iloc[:-1].sum())
    (tmp_path / "r.html").unlink()
    refused = CliRunner().invoke(app, [*asked, "--bill", str(tmp_path / "bill.xls")])
    assert refused.exit_code != 0 and not (tmp_path / "r.html").exists()


def test_classes_of_jobs_hold_every_job_once(made: Report):
    """Each way of sorting jobs into classes counts every job, and the mean wait is that of the package."""
    waits = compared(made.recommendation).by_class()
    for _, rows in waits.groupby("what"):
        assert rows["n_jobs"].sum() == 300
        mean = (rows["n_jobs"] * rows["mean"]).sum() / 300
        assert mean == pytest.approx(made.recommendation.ranking["mean_wait_time"].iloc[0])


def test_the_most_robust_package_is_never_far_behind():
    """The least of the greatest excesses wins, of equals the first."""
    waits = pd.DataFrame({"a": [9.0, 99.0], "b": [19.0, 39.0], "c": [19.0, 39.0]})
    place, excess = most_robust(waits)
    assert place == 1
    assert excess.tolist() == [1.5, 1.0, 1.0]


def test_json_in_a_page_cannot_end_its_block():
    """Names stay text, and what is not a number becomes null."""
    text = as_json({"a": "</script><b>&", "b": [float("nan"), None, 2]})
    assert not re.search("[<>&]", text)
    assert json.loads(text) == {"a": "</script><b>&", "b": [None, None, 2]}
