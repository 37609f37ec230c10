"""Each sentence of the report and of `recommend` agrees with the numbers that it speaks of."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import search, swept, write_study

import procure
from procure.explanation.package import marginal_sentences, marginal_values
from procure.page.vega import library
from procure.recommender.confidence import Confidence
from procure.recommender.recommendation import Recommendation, about_waiting, records
from procure.reports import sections
from procure.reports.memo import compared, write_memo
from procure.study import load_study
from procure.sweep import load_plan, run_sweep
from procure.sweep.results import load_results
from procure.sweep.trial import replayed
from procure.tables import JOB, check, write
from procure.text import duration
from procure.workload import generate


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


@pytest.mark.slow
def test_page_one_speaks_of_all_workloads_as_the_list_does(done: Recommendation):
    """The mean wait that the purchase brings is that of the list's first row, not that of the worst workload."""
    against = compared(done)
    assert against.workload == "the 2 workloads"
    assert len(against.jobs) == done.case.n_jobs
    mean = against.figures()["wait_mean"]
    row = int(done.ranking["row"].iloc[0])
    if done.ranking["simulated"].iloc[0]:
        assert mean == pytest.approx(done.ranking["mean_wait_time"].iloc[0])
    each = [case.wait[row] for case in done.results.cases]
    assert min(each) <= mean <= max(each)
    assert f"would wait {duration(mean)} on average" in " ".join(write_memo(done, against).parts[0][2])


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


@pytest.mark.slow
def test_a_report_where_no_package_runs_every_job(tmp_path: Path):
    """And some packages are not simulated: nothing is known of them, and no axis becomes NaN."""
    jobs = generate(1, 60)
    jobs.loc[0, "mem_mb_per_node"] = 10**8
    write(check(jobs, JOB), tmp_path / "jobs.parquet")
    study = write_study(tmp_path / "mine.toml", 'jobs = "jobs.parquet"', "[sweep]\nsample = 2", budget=40_000)
    plan = load_plan(load_study(study))
    assert plan.packages["distinct"].sum() > len(plan.sampled_rows)
    run_sweep(plan, "serial")
    made = procure.report(study, k=3, verify=False)
    assert made.recommendation.ranking["jobs_left_out"].min() >= 1
    assert "1 job of 60 cannot run" in made.html and ">nan<" not in made.html.lower()


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
