"""The reports: one base template, names that are no markup, and what a library user gets of them."""

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import numpy as np
import pytest
from conftest import ROOT
from policy_cases import pool_case
from small_study import swept

import procure
from procure.comparison import compare
from procure.comparison.report import write_report as write_comparison
from procure.errors import ArgumentError, TableError
from procure.page.charts import library, still
from procure.page.html import as_json
from procure.reports.explore import Explorer, serve
from procure.study import load_study
from procure.sweep import load_plan, run_sweep
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
    assert ("would start at once" if wait == "0 s" else f"would wait {wait} on average") in first
    counted = int(re.findall(r": ([\d,]+) jobs?[,;]", first)[0].replace(",", ""))
    assert counted < 60
    waits = text[text.index('<section id="waits"') : text.index('<section id="change"')]
    sizes = re.findall(r'<th scope="row" class="line">CPUs: .*?</th><td class="n">(\d+)</td>', waits)
    assert sum(map(int, sizes)) == counted


def test_no_template_takes_a_text_as_markup():
    """One template alone holds a document, so that every report has its head and its policy."""
    rooms = [path for path in (ROOT / "procure").rglob("*.html") if path.parent.name != "serve"]  # a page, no report
    assert [path.name for path in rooms if "<html" in path.read_text()] == ["base.html"]
    assert not [path.name for path in rooms if re.search(r"\|\s*safe\b", path.read_text())]


@pytest.mark.parametrize("name", NAMES)
def test_everybody_can_read_every_report(reports: dict[str, str], name: str):
    """Tables have captions and scopes, headings go down step by step, columns have names for people, links lead on."""
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
    targets = re.findall(r'<a[^>]* href="#([^"]+)"', text)
    assert targets and set(targets) <= set(re.findall(r'<section id="([^"]+)"', text))


def test_the_ids_of_a_figure_are_safe_whatever_it_is_named():
    """Any name and label make one SVG, whose ids are of letters and numbers."""
    spec = {"data": {"values": [{"a": 1}]}, "mark": {"type": "point", "clip": True}, "encoding": {"x": {"field": "a"}}}
    text = still('a" onload="x', 'back\\slash "quoted" \\1', spec)
    assert 'aria-label="back\\slash &#34;quoted&#34; \\1"' in text
    assert set(re.findall(r'\bid="(figure-[0-9a-f]{8})-', text)) and "onload" not in text


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return Explorer(swept())


@pytest.fixture(scope="module")
def address(explorer: Explorer) -> Iterator[str]:
    """A server of its own, as a user starts it."""
    opened: list[str] = []
    threading.Thread(target=serve, args=(explorer, 0, opened.append), daemon=True).start()
    end = time.monotonic() + 30
    while not opened and time.monotonic() < end:
        time.sleep(0.05)
    yield opened[0]


def asked(address: str, **query: str) -> dict:
    with urlopen(f"{address}answer?{urlencode(query, quote_via=quote)}") as got:
        return json.load(got)


@pytest.mark.parametrize(
    ("budget", "constraints"), [(None, []), (66_000, []), (None, ["total_gpus>=1"]), (67_000, ["mean_wait<=10d"]),
     (None, ["usd_per_job<=1000"]), (None, ["energy_kwh_per_year<200MWh"])]
)  # fmt: skip
def test_what_is_typed_in_is_answered_as_the_library_does(explorer: Explorer, budget, constraints):
    """As `ask` for less money, as the report without bounds; a bound keeps what was confirmed without it."""
    ask = partial(procure.recommend, resamples=0) if budget is None else partial(procure.ask, budget=budget)
    try:
        told = ask(swept(), constraints=constraints, k=5)
    except TableError as error:
        with pytest.raises(TableError, match=re.escape(str(error)[:40])):
            explorer.answer(budget=budget, constraints=constraints, k=5)
        return
    answer = explorer.answer(budget=budget, constraints=constraints, k=5)
    assert answer["n_packages"] == len(told.ranking)
    assert answer["n_kept"] == (told.ranking["satisfies"].sum() if "satisfies" in told.ranking else len(told.ranking))
    ids, listed = {one[0] for one in answer["packages"]}, [one["package_id"] for one in answer["list"]]
    assert set(answer["guessed"]) <= ids and set(listed) <= ids
    if budget is None and constraints:
        return
    top = told.ranking.head(told.k)
    assert listed == top["package_id"].tolist()
    assert [one["mean_wait_time"] for one in answer["list"]] == top["mean_wait_time"].tolist()


def test_a_bound_on_the_price_is_a_budget(explorer: Explorer) -> None:
    """Packages that use up less money are listed for it, as for `budget`."""
    bound, budget = explorer.answer(constraints=["price_usd<=66,000"]), explorer.answer(budget=66_000)
    assert [one["package_id"] for one in bound["list"]] == [one["package_id"] for one in budget["list"]]
    assert bound["n_packages"] == budget["n_packages"]


def test_what_is_learnt_is_answered_while_another_wait_is_being_learnt(monkeypatch):
    """What `prepare` has learnt needs no model any more, and never waits for one that is being fitted."""
    ours, known = Explorer(swept()), "memory_p95_wait<=10d"
    ours.prepare()
    monkeypatch.setattr("procure.reports.explore.learn_values", pytest.fail)
    wanted = ours.answer(constraints=[known])
    found: list[dict] = []
    with ours._lock:
        asking = threading.Thread(target=lambda: found.append(ours.answer(constraints=[known])), daemon=True)
        asking.start()
        asking.join(30)
    assert list(map(as_json, found)) == [as_json(wanted)]


def test_only_the_page_is_answered(address: str):
    """Without the secret, or under another name of this machine, there is nothing."""
    host = re.match(r"http://(127\.0\.0\.1:\d+)/[\w-]{20,}/$", address)[1]
    with urlopen(address) as got:
        page = got.read().decode()
    assert "connect-src 'self'" in page and 'id="ask"' in page
    for url, headers in ((f"http://{host}/", {}), (address, {"Host": "evil.example"}), (address + "../etc", {})):
        with pytest.raises(HTTPError) as refused:
            urlopen(Request(url, headers=headers))
        assert refused.value.code in (403, 404)


def test_bad_bounds_are_one_line(address: str):
    """What cannot be read, and what nothing keeps, is said; the server goes on."""
    bad = ({"constraints": "mean_wait<=soon"}, {"budget": "-1"}, {"k": "0"}, {"constraints": "total_cpus>=1000000"})
    for query in bad:
        assert len(asked(address, **query)["error"]) > 10
    assert "no job is of class gpu" in asked(address, constraints="gpu_p95_wait<=4h")["error"]
    assert asked(address, k="2")["list"][0]["rank"] == 1


def test_a_port_that_is_taken_is_said(explorer: Explorer, address: str):
    port = int(address.split(":")[2].split("/")[0])
    with pytest.raises(ArgumentError, match=f"{port} cannot be used"):
        serve(explorer, port, print)
