"""The memo: every number of its sentences and tables is the library's, and it answers five questions by itself."""

import html
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import procure
from procure.packages.rules import OrderLines
from procure.recommender.confidence import Confidence, loads_record
from procure.recommender.objections import COSTLY, NOTHING, ROWS, TURNS, objections
from procure.recommender.recommendation import records
from procure.recommender.rule_costs import RuleCost, best_of_budget
from procure.reports import Report
from procure.reports.bill import bill, order_usd
from procure.reports.memo import OTHER_BUDGETS, alternative
from procure.sweep.trial import replayed
from procure.tables import write
from procure.text import duration
from procure.workload.describe import class_of

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
    table = done.confidence.table
    counts = [*results.counts[first], *results.counts[other], results.counts[first].sum()]
    counts += [done.other_loads["n_packages"]]
    counts += [len(ranking), int(ranking["simulated"].sum()), done.confidence.n_draws, len(able), place + 1, 95]
    counts += [len(table) - 1, int(table["alike"].sum()) - 1, done.case.n_jobs, costs["energy_kwh_per_year"]]
    totals = packages[["total_cpus", "total_mem_gb", "total_gpus"]]
    counts += (totals.iloc[first] - totals.iloc[other]).abs().tolist()
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


QUOTES = """name,category,cpus,mem_gb,gpus,price_usd
Small,compute,16,64,0,4000
Big,compute,64,512,0,15000
Gpu,gpu,32,128,4,30000
"""
NODES = "node_id,cpus,mem_mb,gpus\nold-1,64,512000,0\nold-2,64,512000,0\nold-3,64,512000,4\n"


def sound_jobs() -> pd.DataFrame:
    """Return two days of jobs that load the packages, and that waited long in the log."""
    rng, n = np.random.default_rng(5), 1_200
    jobs = procure.generate(seed=1, n_jobs=n)
    submit = 1_600_000_000 + np.sort(rng.integers(0, 2 * 86_400, n))
    run = rng.integers(1_800, 5_400, n)
    return jobs.assign(
        submit_time=submit, run_time=run, requested_time=2 * run, start_time=submit + 20 * 3600,
        end_time=submit + 20 * 3600 + run, n_nodes=1, cpus_per_node=rng.choice([4, 8, 12], n), gpus_per_node=0,
        gpu_type="", mem_mb_per_node=rng.choice([4_000, 16_000], n), user=[f"u{i % 20}" for i in range(n)],
    )  # fmt: skip


def recommended(folder: Path, jobs: pd.DataFrame | None = None, more: str = "", budget: int = 50_000, **how):
    """Sweep a study of these jobs, and return its recommendation."""
    (folder / "quotes.csv").write_text(QUOTES)
    (folder / "nodes.csv").write_text(NODES)
    write(sound_jobs() if jobs is None else jobs, folder / "jobs.parquet")
    text = f'quotes = "quotes.csv"\n[packages]\nbudget_usd = {budget}\n{{}}\n[[workloads]]\nname = "log"\n'
    source = 'jobs = "jobs.parquet"\n' if "[[workloads]]" not in more else ""
    packages, _, rest = more.partition("|")
    path = folder / "study.toml"
    path.write_text(text.format(packages) + (rest or source))
    procure.run_sweep(path, "serial")
    return procure.recommend(path, **{"k": 5} | how)


def raised(done) -> set[str]:
    """Return the names of what is objected to."""
    return {one.name for one in objections(done)}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory):
    """The recommendation of a study against which little can be said."""
    return recommended(tmp_path_factory.mktemp("sound"))


def test_a_sound_study_is_not_objected_to(sound) -> None:
    """But that its first packages are alike; every row has a sentence that ends without a stop, and advice."""
    assert raised(sound) <= {"not-told-apart", "turns-with-load"}
    for one in objections(sound):
        assert not one.sentence.endswith(".") and str(one).endswith(".") and one.name in ROWS


def test_jobs_of_tasks_are_read_as_they_ask(sound, tmp_path: Path) -> None:
    """Who makes the waiting, which memory is asked for, and what would be chosen for the nodes on which they ran."""
    jobs = sound_jobs()
    few = np.arange(len(jobs)) < 6
    jobs = jobs.assign(
        n_tasks=np.where(few, 60, 0), cpus_per_task=1, mem_mb_per_task=np.where(few, 1_000, 0), gpus_per_task=0,
        n_nodes=np.where(few, 15, 1), cpus_per_node=np.where(few, 4, 1), run_time=np.where(few, 80_000, 60),
        mem_mb_per_node=np.where(few, 0, 4_000), submit_time=jobs["submit_time"].min() + np.arange(len(jobs)) * 60,
    )  # fmt: skip
    done = recommended(tmp_path, jobs, budget=60_000)
    said = next(one.sentence for one in objections(done) if one.name == "few-jobs")
    assert "60 tasks with 1 CPU and 1.0 GB each" in said
    asked = records(done)[0]["concentration"]["few"]["request"]
    assert (asked["n_tasks"], asked["mem_mb_per_task"]) == (60, 1_000)
    # 15 nodes of four CPUs are what only the smallest servers can be.
    shape = records(done)[0]["shape"]
    assert shape["package_id"] == "Small=15" and shape["jobs_left_out"] == 0 and sound.shape is None
    assert shape["stays"] == (done.ranking["package_id"].iloc[0] == "Small=15")
    assert any("old nodes" in one for one in done.notes)


def test_a_first_package_that_was_confirmed_is_compared_by_what_it_waits(tmp_path: Path) -> None:
    done = recommended(tmp_path, budget=150_000, more='|jobs = "jobs.parquet"\n[sweep]\nsample = 40\n')
    row = int(done.ranking["row"].iloc[0])
    assert done.ranking["simulated_now"].iloc[0] and np.isnan(done.package_values.whole.wait[row])
    assert done.package_values.mean_wait[row] == done.ranking["mean_wait_time"].iloc[0]
    assert all("–" not in one.sentence for one in objections(done))
    assert not any("no job waits" in one for one in done.notes)


WRONG = {
    "made-up-jobs": ({"more": "|generate = { seed = 1, n_jobs = 300 }\n"}, lambda jobs: jobs),
    "jobs-left-out": ({}, lambda jobs: jobs.assign(  # however long it is, no queue grows by it
        cpus_per_node=[500, *jobs["cpus_per_node"].tolist()[1:]], run_time=[10**8, *jobs["run_time"].tolist()[1:]])),
    "longer-than-logged": ({}, lambda jobs: jobs.assign(start_time=jobs["submit_time"])),
    "few-jobs": ({"budget": 60_000}, lambda jobs: jobs.assign(
        cpus_per_node=[63] * 6 + [1] * (len(jobs) - 6), run_time=[80_000] * 6 + [60] * (len(jobs) - 6),
        submit_time=jobs["submit_time"].min() + np.arange(len(jobs)) * 60)),
    "costly-rule": ({"more": "min_gpu_nodes = 1|"}, lambda jobs: jobs),
    "below-demand": ({}, lambda jobs: jobs.assign(run_time=jobs["run_time"] * 10)),
    "far-above-demand": ({}, lambda jobs: jobs.assign(run_time=60)),
    "unknown-requests": ({}, lambda jobs: jobs.assign(mem_mb_per_node=0)),
    "replay-far-from-log": ({"more": 'existing_nodes = "nodes.csv"|'}, lambda jobs: jobs),
}  # fmt: skip
"""By objection: how the study is asked, and what its jobs are."""


@pytest.mark.parametrize("name", list(WRONG))
def test_what_is_wrong_is_raised(name: str, sound, tmp_path: Path) -> None:
    """On a study that is wrong in one way; the sound one does not raise it."""
    how, change = WRONG[name]
    done = recommended(tmp_path, change(sound_jobs()), **how)
    assert name in raised(done) and name not in raised(sound)
    if name == "jobs-left-out":
        assert "-hours, can never run" in objections(done)[0].sentence and "below-demand" not in raised(done)
    assert any(letter.isdigit() for letter in next(one.sentence for one in objections(done) if one.name == name))


def test_money_beyond_the_demand_is_said_where_cheaper_packages_wait_longer(tmp_path: Path) -> None:
    """Jobs come 95 at once, every three hours: without GPU nodes all start, with some a fifth waits 20 minutes."""
    jobs = sound_jobs()
    bunch = np.arange(len(jobs)) // 95 * 10_800
    jobs = jobs.assign(submit_time=1_600_000_000 + bunch, run_time=1_200, cpus_per_node=4, mem_mb_per_node=4_000)
    done = recommended(tmp_path, jobs, budget=100_000)
    said = next(one.sentence for one in objections(done) if one.name == "far-above-demand")
    assert "less money may do" in said


@given(before=st.floats(1, 1e6), share=st.floats(0, 1.2), more=st.integers(0, 3), found=st.booleans())
def test_a_rule_is_objected_to_where_it_costs_a_tenth(
    sound, before: float, share: float, more: int, found: bool
) -> None:
    """Of the wait and at least a minute, or where jobs can run without it; not where nothing better was found."""
    value = before * share
    one = RuleCost("min_gpu_nodes = 1", 9, "Small=1" if found else None, "mean-wait", "s", value, before, 0, more)
    costly = found and (more > 0 or (before - value > COSTLY * before and before - value >= NOTHING))
    assert ("costly-rule" in raised(replace(sound, rule_costs=(one,)))) == costly


@given(simulated=st.lists(st.booleans(), min_size=1, max_size=3))
def test_a_prediction_that_leads_is_said(sound, simulated: list[bool]) -> None:
    ranking = sound.ranking.head(len(simulated)).assign(simulated=simulated)
    assert ("predicted-leads" in raised(replace(sound, ranking=ranking, confidence=None))) == (not simulated[0])


def test_a_bound_that_costs_the_wait_is_named(sound, tmp_path: Path) -> None:
    """With the wait of the best package that was simulated and keeps the others."""
    done = recommended(tmp_path, constraints=["total_gpus>=4"])
    found = next(one for one in objections(done) if one.name == "costly-rule")
    assert "total_gpus>=4" in found.sentence and "costly-rule" not in raised(sound)


@given(wait=st.lists(st.floats(0, 1e5), min_size=2, max_size=5), load=st.sampled_from([1.2, 1.5]))
def test_the_choice_turns_where_another_is_better_under_more_load(sound, wait: list[float], load: float) -> None:
    """By a hundredth of the wait, and under 1.2 times the load."""
    loads = pd.DataFrame([wait, wait], index=[1.0, load], columns=[f"Small={i}" for i in range(len(wait))])
    other = loads_record(loads, np.empty((0, 1)), np.empty((0, 1)), np.empty((0, 1)))
    turns = load == 1.2 and wait[0] - min(wait) > TURNS * wait[0]
    assert ("turns-with-load" in raised(replace(sound, other_loads=other))) == turns


@given(alike=st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=4))
def test_packages_that_cannot_be_told_apart_are_counted(sound, alike: list[bool | None]) -> None:
    """Where the jobs were resampled, and another package is as good."""
    ids = sound.ranking["package_id"].iloc[: len(alike) + 1]
    table = pd.DataFrame({"package_id": ids, "alike": pd.array([True, *alike], dtype="boolean")})
    done = replace(sound, confidence=Confidence(table, "days", 10, 10))
    found = [one for one in objections(done) if one.name == "not-told-apart"]
    assert bool(found) == (None not in alike and any(alike))
    n, of = sum(map(bool, alike)) if found else 0, len(alike)
    others = "the other" if of == 1 else f"any of the {of} others" if n == of else f"{n} of the {of} others"
    assert not found or f"told apart from {others} that" in found[0].sentence
