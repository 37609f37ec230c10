"""Each sentence of the report and of `recommend` agrees with the numbers that it speaks of."""

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
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import search, swept

import procure
from procure.errors import TableError
from procure.explanation.package import marginal_sentences, marginal_values
from procure.packages.costs import Costs
from procure.page.charts import library
from procure.page.html import as_json, write_pdf
from procure.recommender.confidence import Confidence
from procure.recommender.recommendation import Recommendation, about_waiting, records
from procure.reports import Report, sections
from procure.reports.bill import ended, totals
from procure.reports.memo import compared
from procure.study import load_study
from procure.sweep import load_plan, run_sweep
from procure.sweep.results import load_results
from procure.sweep.trial import replayed
from procure.text import duration


@pytest.fixture(scope="module")
def done() -> Recommendation:
    return procure.recommend(load_results(swept(2), search=True), k=6, verify=False)


def test_a_head_of_which_no_rank_is_known_has_no_chart():
    """The first thirty simulated, predictions after them: the section says that nothing is known, and is made."""
    n = 40
    table = pd.DataFrame(
        {"package_id": [f"p{i}" for i in range(n)], "rank_low": pd.NA, "rank_high": pd.NA, "alike": pd.NA}
    ).astype({"rank_low": "Int64", "rank_high": "Int64", "alike": "boolean"})
    table.loc[35:, ["rank_low", "rank_high"]] = 36
    table.loc[35:, "alike"] = True
    page = sections.sureness(Confidence(table, "nothing", 0, 0))
    assert "is not known" in page and "<svg" not in page
    table.loc[3, ["rank_low", "rank_high"]] = 4
    table.loc[3, "alike"] = False
    assert "<svg" in sections.sureness(Confidence(table, "nothing", 0, 0))


def test_workloads_count_by_their_weight(done: Recommendation):
    """A day that stands for three is three times as much of the mean, as in the list."""
    cases = [replace(case, weight=w) for case, w in zip(done.results.cases, (3.0, 1.0), strict=True)]
    row = int(np.flatnonzero(done.case.simulated)[0])
    weighed = replace(
        done, results=replace(done.results, cases=cases), ranking=done.ranking[done.ranking["row"] == row]
    )
    waits, n = ([case.wait[row] for case in cases], [case.n_ran[row] for case in cases])
    assert compared(weighed).figures()["wait_mean"] == pytest.approx(np.average(waits, weights=np.multiply(n, (3, 1))))


@st.composite
def marginals(draw: st.DrawFn) -> pd.DataFrame:
    n = draw(st.integers(1, 5))
    table = pd.DataFrame(
        {
            "type": [f"t{i}" for i in range(n)],
            "usd": 1000.0,
            "saved_seconds": draw(st.lists(st.integers(-50, 50), min_size=n, max_size=n, unique=True)),
            "allowed": draw(st.lists(st.booleans(), min_size=n, max_size=n)),
            "beyond_usd": draw(st.lists(st.sampled_from([0.0, 250.0]), min_size=n, max_size=n)),
        }
    )
    table["saved_per_1000_usd"] = table["saved_seconds"].astype(float)
    return table.sort_values("saved_per_1000_usd", ascending=False, ignore_index=True)


@given(table=marginals())
@settings(max_examples=80, deadline=None)
def test_the_further_node_that_is_named_may_be_bought(table: pd.DataFrame):
    """It shortens the wait, the rules allow it, none that they allow is better, and money that lacks is named."""
    [said] = marginal_sentences(SimpleNamespace(marginal=table))  # type: ignore[arg-type]
    named = re.match(r"one more (t\d) ", said)
    good = table[(table["saved_seconds"] > 0) & table["allowed"]]
    if named is None:
        assert good.empty
        assert ("rules allow" in said) == bool((table["saved_seconds"] > 0).any())
        return
    row = table.set_index("type").loc[named[1]]
    assert row["allowed"] and row["saved_per_1000_usd"] == good["saved_per_1000_usd"].max() > 0
    assert ("beyond the budget" in said) == (row["beyond_usd"] > 0)
    assert ("that the rules allow" in said) == (not table["allowed"].all())


def test_further_nodes_of_a_full_package_are_beyond_the_budget():
    """Of a maximal package nothing more is affordable; another type of a category that has one is not allowed."""
    results = load_results(swept(), search=True)
    plan = results.plan
    counts = results.counts[0]
    table = marginal_values(results, counts).set_index("type")
    left = plan.study.packages.budget_usd - results.cases[0].packages["price_usd"].iloc[0]
    quotes = plan.quotes.set_index("name")
    for name, row in table.iterrows():
        assert row["beyond_usd"] == pytest.approx(max(0.0, row["usd"] - left))
        rivals = quotes.index[(quotes["category"] == quotes.loc[name, "category"]) & (quotes.index != name)]
        held = dict(zip(plan.types, counts, strict=True))
        if any(held[rival] for rival in rivals):
            assert not row["allowed"]
        if row["allowed"] and held[name]:
            assert row["beyond_usd"] > 0


def test_the_counts_of_packages_are_those_of_the_list(done: Recommendation):
    """Those that run every job and those that cannot; simulated before, now, predicted, unknown: each once."""
    [text] = [note for note in done.notes if "distinct package" in note]
    numbers = [int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", text)]
    ranking = done.ranking
    able = ranking["jobs_left_out"] == 0
    known, guessed = ranking["simulated"], ranking["mean_wait_time"].notna()
    assert numbers[:3] == [len(ranking), able.sum(), (~able).sum()]
    assert numbers[3] + numbers[4] == known.sum() and numbers[4] == ranking["simulated_now"].sum()
    rest = [int((~known & guessed).sum()), int((~known & ~guessed).sum())]
    assert numbers[5:] == [n for n in rest if n]


@pytest.mark.parametrize("place", range(3))
def test_who_waits_is_what_a_replay_says(done: Recommendation, place: int):
    """The mean, the 95th percentile, the share over an hour and the class that waits longest, replayed here."""
    first = replace(done, ranking=done.ranking.iloc[place:].reset_index(drop=True))
    row = int(first.ranking["row"].iloc[0])
    if not done.package_values.simulated[row]:
        assert about_waiting(first) == []
        return
    text = about_waiting(first)[0]
    runs = [
        replayed(done.results.plan, done.results.counts[row], case.name, done.results.policy)[0]
        for case in done.results.cases
    ]
    waits = [
        (run.schedule["start_time"] - run.schedule["submit_time"]).dropna().to_numpy(dtype="float64") for run in runs
    ]
    n = [len(one) for one in waits]
    mean = np.average([one.mean() for one in waits], weights=n)
    late = np.average([(one > 3600).mean() for one in waits], weights=n)
    assert f"jobs wait {duration(mean)} on average" in text and f"{100 * late:.1f} % over an hour" in text
    longest = re.search(r"waits longest is (\w+): (.*?) on average", text)
    if longest:
        by_class = {one["class"]: one["mean_wait_time"] for one in records(first)[0]["by_class"]}
        assert by_class[longest[1]] == max(by_class.values()) and duration(by_class[longest[1]]) == longest[2]


@pytest.mark.slow
def test_a_report_after_a_search_and_a_short_list(tmp_path: Path):
    """Packages that a search or the list has simulated in addition have ranks that may not be known."""
    path = tmp_path / "small.toml"
    path.write_text(Path(swept()).read_text().replace('"small"', f'"small"\nresults = "{tmp_path}"'))
    run_sweep(load_plan(load_study(path)), "serial")
    search(path, runs=20, stable_rounds=0)
    assert len(procure.recommend(path, k=5).ranking.head(5)) == 5
    text = procure.report(path, tmp_path / "report.html", k=5).html.replace(library(), "")
    assert "How sure the list is" in text and "NaN" not in text and "&lt;NA&gt;" not in text


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


def test_what_the_order_comes_to_is_told_beside_the_second_choice(made: Report):
    """Totals are those of the list's first and second package; what no quote states, such as power, is left out."""
    done = made.recommendation
    told = {one["what"]: (one["first"], one["second"]) for one in totals(done)}
    assert told["price"] == tuple(done.ranking["price_usd"].iloc[:2])
    rows = done.ranking["row"].iloc[:2]
    assert told["CPUs"] == tuple(done.case.packages["total_cpus"].iloc[rows])
    assert told["servers"] == tuple(done.results.counts[rows].sum(axis=1))
    assert not any("power" in what for what in told)
    results = done.results  # where quotes state watts and rack units they are summed, a price per kWh gives the years'
    quotes = results.plan.quotes.assign(power_w=500.0, idle_power_w=100.0, rack_units=2.0)
    study = results.plan.study.model_copy(update={"costs": Costs(years=4, usd_per_kwh=0.2)})
    plan = replace(results.plan, quotes=quotes, study=study)
    told = {one["what"]: one["first"] for one in totals(replace(done, results=replace(results, plan=plan)))}
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


def test_a_pdf_without_weasyprint_or_a_bill_of_another_kind_is_one_error_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("procure.page.html.find_spec", lambda name: None)
    with pytest.raises(TableError, match=r"procure-hpc\[pdf\]"):
        procure.report(swept(), tmp_path / "r.html", pdf=tmp_path / "r.pdf")
    with pytest.raises(TableError, match=r"bill\.xls: a table is written as .*; a bill also as \.xlsx"):
        procure.report(swept(), tmp_path / "r.html", bill=tmp_path / "bill.xls")
    assert not list(tmp_path.iterdir())


def test_json_in_a_page_cannot_end_its_block():
    text = as_json({"a": "</script><b>&", "b": [float("nan"), None, 2]})
    assert not re.search("[<>&]", text)
    assert json.loads(text) == {"a": "</script><b>&", "b": [None, None, 2]}
