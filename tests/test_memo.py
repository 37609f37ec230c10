"""The memo: every number of its sentences and tables is the library's, and it answers five questions by itself."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pytest
from test_objections import QUOTES, sound_jobs

import procure
from procure.packages.rules import OrderLines
from procure.recommender.rule_costs import best_of_budget
from procure.reports import Report
from procure.reports.bill import bill, order_usd
from procure.reports.memo import OTHER_BUDGETS, alternative
from procure.sweep.trial import replayed
from procure.tables import write
from procure.text import duration
from procure.workload.classes import class_of

STUDY = """quotes = "quotes.csv"
[packages]
budget_usd = 50_000
existing_nodes = "old.csv"
[[workloads]]
name = "log"
jobs = "jobs.parquet"
warm_up = "6h"
[costs]
usd_per_kwh = 0.2
idle_share = 0.3
staff_usd_per_year = 1_000
tax_percent = 19
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of a study with existing nodes, a warm-up, tax and costs."""
    folder = tmp_path_factory.mktemp("memo")
    lines = QUOTES.splitlines()
    watts = [f"{line},{one}" for line, one in zip(lines, ("power_w", 300, 700, 2000), strict=True)]
    (folder / "quotes.csv").write_text("\n".join(watts) + "\n")
    (folder / "old.csv").write_text("node_id,cpus,mem_mb,gpus\nold-1,64,512000,0\nold-2,64,512000,0\n")
    write(sound_jobs().assign(run_time=lambda jobs: 3 * jobs["run_time"]), folder / "jobs.parquet")
    (folder / "study.toml").write_text(STUDY)
    procure.run_sweep(folder / "study.toml", "serial")
    return procure.report(folder / "study.toml", k=5)


def waits_on(made: Report, counts: np.ndarray) -> np.ndarray:
    """Replay the jobs that count, here, and return their waits, s."""
    plan = made.recommendation.results.plan
    schedule = replayed(plan, counts, "log", made.recommendation.results.policy)[0].schedule
    late = schedule["submit_time"] >= schedule["submit_time"].min() + 6 * 3600
    return (schedule["start_time"] - schedule["submit_time"])[late].to_numpy(dtype="float64")


def known(made: Report) -> set[str]:
    """Return how every number that the memo may hold is written, computed from the library's tables and replays."""
    done, texts = made.recommendation, set[str]()
    results, ranking = done.results, done.ranking
    first, place = int(ranking["row"].iloc[0]), alternative(done)
    other, packages = int(ranking["row"].iloc[place]), done.case.packages
    able = np.flatnonzero(done.case.simulated & done.case.runs_all)
    middle = able[np.argsort(done.case.wait[able], kind="stable")[len(able) // 2]]
    seconds: list[float] = []
    for counts in (results.counts[first], np.zeros_like(results.counts[first]), results.counts[middle]):
        wait = waits_on(made, counts)
        seconds += [wait.mean(), np.quantile(wait, 0.95, method="inverted_cdf")]
        texts |= {f"{(wait > 3600).mean():.1%}", f"{len(wait):,}"}
    waits = ranking["mean_wait_time"]
    seconds += [waits.iloc[place], abs(waits.iloc[place] - waits.iloc[0])]
    assert done.other_loads is not None and done.confidence is not None
    for one in done.other_loads["loads"]:
        seconds += [one["mean_wait_time"], one["regret_seconds"]]
        texts |= {f"{one['load']:g}", f"{one['rank']}"}
    budget, costs = results.plan.study.packages.budget_usd, results.costs.iloc[first]
    money = [budget, order_usd(done), ranking["price_usd"].iloc[0], ranking["price_usd"].iloc[place]]
    money += [abs(money[2] - money[3]), abs(budget - order_usd(done)), *(share * budget for share in OTHER_BUDGETS)]
    money += [costs[name] for name in costs.index if name.endswith("_usd")]
    for share in OTHER_BUDGETS:
        found = best_of_budget(results, done.criteria, done.rule, share * budget)
        assert found is not None
        seconds.append(found.wait)
        texts |= {f"{share:.0%}", f"{found.n_simulated:,}", *re.findall(r"=(\d+)", found.package_id)}
    days = done.other_loads["days"]
    if days is not None:
        seconds += [days["low_wait_time"], days["high_wait_time"]]
        texts |= {f"{days['n']}", f"{days['best_share']:.0%}", "90%"}
    table = done.confidence.table
    texts |= {f"{one:,}" for one in (*table[["rank_low", "rank_high"]].iloc[0], done.confidence.n_units)} | {"90%"}
    counts = [
        *results.counts[first],
        *results.counts[other],
        results.counts[first].sum(),
        done.other_loads["n_packages"],
    ]
    counts += [len(ranking), int(ranking["simulated"].sum()), done.confidence.n_draws, len(able), place + 1, 95]
    counts += [len(table) - 1, int(table["alike"].sum()) - 1, done.case.n_jobs, costs["energy_kwh_per_year"]]
    counts += [
        abs(packages[name].iloc[first] - packages[name].iloc[other])
        for name in ("total_cpus", "total_mem_gb", "total_gpus")
    ]
    for leader in {one["leader"] for one in done.other_loads["loads"]}:
        texts |= set(re.findall(r"=(\d+)", leader))
    texts |= {f"{one:,.0f}" for one in counts} | {f"{one:,.2f}" for one in money} | {f"{one:,.0f}" for one in money}
    texts |= {f"{costs['usd_per_core_hour']:,.3f}", f"{table['share_first'].iloc[0]:.0%}", "5"}
    return texts | {duration(one) for one in seconds}


_NUMBER = re.compile(
    r"US\$ [\d,]+(?:\.\d+)?|[\d.,]*\d\s?%|[\d.,]*\d (?:ms|s|min|h|d)\b(?: \d+ (?:s|min|h)\b)?|\d[\d,]*(?:\.\d+)?"
)


def test_every_number_of_the_memo_is_the_librarys(made: Report) -> None:
    """Lengths of time, money, shares and counts: each is one that is computed here anew."""
    texts = known(made)
    for _, _, lines in made.memo.parts:
        for line in lines:
            numbers = [] if line.startswith("Of 100 hours") else _NUMBER.findall(line)
            found = {one.removeprefix("US$ ").replace(" %", "%") for one in numbers}
            assert found <= texts | {"95%", "8"}, line


def test_the_table_of_waits_is_a_replay(made: Report) -> None:
    """By kind of job, on the purchase, on today's nodes and on the middle package."""
    assert made.compared is not None and list(made.compared.names) == ["wait", "today", "middle"]
    jobs = made.compared.jobs
    wait = waits_on(made, made.recommendation.results.counts[int(made.recommendation.ranking["row"].iloc[0])])
    assert np.array_equal(jobs["wait"].to_numpy(), wait)
    rows = made.compared.by_class()
    assert rows["n_jobs"].iloc[0] == len(wait) == rows["n_jobs"].iloc[1:].sum()
    kinds = class_of(jobs)
    assert rows["wait_mean"].iloc[1:].tolist() == pytest.approx([wait[kinds == one].mean() for one in np.unique(kinds)])


def test_the_bill_is_exact_to_the_cent(made: Report) -> None:
    """Lines add up to the price, and with tax to the order that the memo names."""
    done = made.recommendation
    price = round(bill(done)["line_total_usd"].sum(), 2)
    assert price == done.ranking["price_usd"].iloc[0]
    order = round(price * 1.19, 2)
    assert order_usd(done) == order and f"US$ {order:,.2f}" in made.memo.order
    assert isinstance(done.results.plan.study.order_lines(), OrderLines)


QUESTIONS = {
    "what": ("What it costs", "US$"),
    "why": ("What it brings", "on average"),
    "how sure": ("How sure this is", "%"),
    "what else": ("The nearest alternative", "on average"),
    "with a fifth less": ("What would change the answer", "80 %"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_five_questions_are_answered_by_the_memo(made: Report, question: str) -> None:
    """Each under its own title, in the first two pages: in full sentences, and in no private words."""
    title, word = QUESTIONS[question]
    said = {name: " ".join(lines) for name, _, lines in made.memo.parts}
    assert word in said[title]
    page = made.html[made.html.index('<section id="answer"') : made.html.index('<section id="bill"')]
    page = re.sub(r"<(script|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]*>", " ", page))
    assert title in text and len(text.split()) < 900
    assert all(line.endswith(".") for _, _, lines in made.memo.parts for line in lines)
    assert not re.search(r"\b(burst|bootstrap|resample|found|alike|NaN|nan)", text)


def test_objections_stand_before_the_answer(made: Report) -> None:
    for one in made.objections:
        assert made.html.index(f'id="objection-{one.name}"') < made.html.index('<div class="answer">')
    brief = made.brief()
    assert brief[: len(made.objections)] == [f"Objection: {one}" for one in made.objections]
    assert brief[-1].endswith(str(Path(made.path)))
