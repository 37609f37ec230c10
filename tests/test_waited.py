"""What a purchase cuts of the waiting in the log: sentences say the numbers, causes add up, bounds are in order."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from small_study import write_study

import procure
from procure.account.entries import LOG
from procure.recommender.replay_check import check_replay, compare_baseline, cut_hours, find_logs
from procure.site.model import Rule, Site
from procure.site.store import write_site
from procure.study import load_study
from procure.sweep import load_plan, run_sweep
from procure.sweep.results import load_results
from procure.tables import JOB, NODE, check, write

HOURS = ("logged", "want", "held", "today", "bought", "free")


def logged(policy: str = "easy", pause: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a log of some days, in which every job is held a while before it may start, and its nodes."""
    nodes = check(pd.DataFrame({"node_id": ["n0", "n1", "n2"], "cpus": 16, "mem_mb": 128_000}), NODE)
    jobs = procure.generate(seed=3, n_jobs=300)
    first = jobs["submit_time"].min()
    jobs["submit_time"] = first + 40 * (jobs["submit_time"] - first)
    jobs = jobs.assign(
        cpus_per_node=jobs["cpus_per_node"].clip(upper=8), n_nodes=1, mem_mb_per_node=1000, gpus_per_node=0
    )
    jobs[["run_time", "requested_time"]] *= 3
    later = jobs.assign(submit_time=jobs["submit_time"] + pause)
    log = procure.simulate(later, nodes, policy).schedule.assign(submit_time=jobs["submit_time"])
    return check(log, JOB), nodes


def study_of(folder, log: pd.DataFrame, nodes: pd.DataFrame | None, policy: str = "easy"):
    """Return a swept study of a log."""
    write(log, folder / "log.parquet")
    if nodes is not None:
        write(nodes, folder / "old.csv")
    packages = "" if nodes is None else 'existing_nodes = "old.csv"'
    more = f'[simulate]\npolicies = ["{policy}"]\n[sweep]\nsample = 5\n[model]\nfolds = 2'
    path = write_study(folder / "s.toml", 'jobs = "log.parquet"', more, budget=50_000, packages=packages)
    run_sweep(load_plan(load_study(path)), "serial")
    return path


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A study of a log whose jobs waited for nodes, and half an hour each for nothing."""
    log, nodes = logged(pause=1800)
    return study_of(tmp_path_factory.mktemp("held"), log, nodes)


def test_the_sentence_says_the_numbers(held):
    done = procure.recommend(held, k=2)
    account, fidelity = (done.waited.to_dict()[name] for name in ("account", "fidelity"))
    log = pd.read_parquet(held.parent / "log.parquet")
    hours = (log["start_time"] - log["submit_time"]).sum() / 3600
    assert account["hours"] == pytest.approx(hours) and account["n_jobs"] == len(log)
    causes = pd.DataFrame(account["causes"]).set_index("cause")
    assert causes["hours"].sum() == pytest.approx(hours) and causes["share"].sum() == pytest.approx(1)
    assert causes.loc[list(LOG.cuttable), "hours"].sum() == pytest.approx(account["want_hours"])
    assert 0 < account["cut_hours"] <= account["want_hours"] < hours
    assert account["cut_hours"] < account["cut_hours_at_most"] <= hours
    said = re.fullmatch(
        r"of 100 hours waited in the log, (\d+) were for want of nodes; this purchase cuts (\d+|all|none) of these, "
        r"and at most (\d+) of the 100 if all other holds went away with it",
        account["sentence"],
    )
    want, cut, most = said.groups()
    assert int(want) == round(100 * account["want_hours"] / hours)
    assert {"all": int(want), "none": 0}.get(cut, cut) in (str(round(100 * account["cut_hours"] / hours)), int(want), 0)
    assert int(most) == round(100 * account["cut_hours_at_most"] / hours)
    by_class = pd.DataFrame(account["by_class"])
    assert by_class[["hours", "want_hours"]].sum().tolist() == pytest.approx([hours, account["want_hours"]])
    whole = fidelity["by_class"][0]
    assert whole["class"] == "all" and whole["n_jobs"] == len(log)
    assert whole["logged_mean"] == pytest.approx(3600 * hours / len(log))
    assert account["sentence"] in done.notes and fidelity["sentence"] in done.notes


def test_holds_stay_in_both_replays(held):
    """By a slow path: each job comes later by what it waited for other causes, and nothing else differs."""
    results = load_results(held, None, None)
    counts = results.counts[int(procure.recommend(held, k=1).ranking["row"].iloc[0])]
    hours = check_replay(results, counts).account["replayed"]
    log, nodes = pd.read_parquet(held.parent / "log.parquet"), pd.read_csv(held.parent / "old.csv")
    log, nodes = check(log, JOB), check(nodes, NODE)
    account = procure.account_waits(log, nodes)
    want = account.by_job[:, [LOG.causes.index(name) for name in LOG.cuttable]].sum(1)
    order = np.argsort(log["submit_time"].to_numpy(), kind="stable")
    waits = (log["start_time"] - log["submit_time"]).to_numpy(np.int64)
    later = log["submit_time"].to_numpy(np.int64).copy()
    later[order] += waits[order] - want
    today = procure.simulate(
        log.drop(columns="eligible_time", errors="ignore").assign(submit_time=later), nodes, "easy"
    )
    waited = (today.schedule["start_time"] - log["submit_time"]).sum() / 3600
    assert hours["today_hours"] == pytest.approx(waited)
    assert hours["held_hours"] <= min(hours["today_hours"], hours["package_hours"])
    assert hours["held_hours"] >= 0.5 * len(log) * 0.9  # half an hour each


@pytest.mark.slow
def test_a_replay_of_its_own_policy_is_a_forecast_and_one_with_holds_is_none(tmp_path, held):
    log, nodes = logged()
    free = check_replay(load_results(study_of(tmp_path, log, nodes), None, None))
    assert not free.far and free.fidelity["by_class"][0]["mean_error"] == 0
    assert "no forecast" not in free.fidelity["sentence"]
    other = check_replay(load_results(held, None, None))
    assert other.far and "no forecast" in other.fidelity["sentence"]
    cut = procure.recommend(tmp_path / "s.toml", k=1).waited.account
    assert cut["replayed"]["today_hours"] == pytest.approx(cut["hours"])
    # What EASY's own log waits, nodes alone cut: both bounds are the same but for the pause, which is none.
    least = cut["cut_hours"]
    assert least == pytest.approx(cut["hours"] - cut["replayed"]["package_hours_without_holds"], rel=0.1)
    assert least <= cut["cut_hours_at_most"]


def test_it_is_kept(held, monkeypatch):
    results = load_results(held, None, None)
    counts = results.counts[0]
    first = check_replay(results, counts).to_dict()
    monkeypatch.setattr("procure.account.entries.account_waits", None)
    assert json.dumps(check_replay(results, counts).to_dict()) == json.dumps(first)


@pytest.mark.parametrize(
    ("lacks", "says"),
    [
        pytest.param("starts", "no start times", marks=pytest.mark.slow),
        pytest.param("nodes", "on which nodes", marks=pytest.mark.slow),
        pytest.param("room", "the nodes do not hold what ran on them", marks=pytest.mark.slow),
    ],
)
def test_what_is_missing_is_one_line(tmp_path, lacks, says):
    log, nodes = logged()
    if lacks == "starts":
        log = log.drop(columns=["start_time", "end_time", "node_ids"])
    elif lacks == "nodes":
        log, nodes = log.drop(columns="node_ids"), None
    else:
        nodes = nodes.assign(cpus=2)
    done = procure.recommend(study_of(tmp_path, log, nodes), k=1)
    lines = [line for line in done.notes if says in line]
    assert len(lines) == 1 and "\n" not in lines[0]
    assert done.waited.account is None and done.waited.to_dict()["account"]["missing"] == lines[0]


def test_made_up_jobs_say_nothing(tmp_path):
    made = "generate = { seed = 1, n_jobs = 50 }"
    path = write_study(tmp_path / "s.toml", made, "[sweep]\nsample = 9", budget=50_000)
    run_sweep(load_plan(load_study(path)), "serial")
    results = load_results(path, None, None)
    assert find_logs(results) == ([], "") and compare_baseline(results, []) is None
    assert check_replay(results, results.counts[0]).sentences() == []


def test_bounds_are_in_order_whatever_the_replays_give():
    rng = np.random.default_rng(0)
    for _ in range(300):
        want, held, *rest = rng.uniform(0, 10, 5) * rng.choice([0, 1, 1, 1], 5)
        hours = dict(zip(HOURS, (want + held, want, held, *rest), strict=True))
        least, most = cut_hours(hours, bool(rng.integers(2)))
        assert 0 <= least <= hours["want"] and least <= most <= hours["logged"]
    whole = dict(zip(HOURS, (100.0, 40.0, 60.0, 100.0, 70.0, 5.0), strict=True))
    assert cut_hours(whole) == (30.0, 95.0)
    # Waits twice as long for nodes: half of its difference.
    assert cut_hours(whole | {"today": 140.0, "bought": 70.0})[0] == 35.0


@pytest.mark.slow
def test_rules_of_a_site_hold_by_themselves(tmp_path):
    """Under a policy that knows the site, no hold of the log is imposed, and EASY is the bound."""
    log, nodes = logged(pause=1800)
    write_site(Site(rules=(Rule(kind="pause", value=1800),)), nodes, tmp_path / "site")
    path = study_of(tmp_path, log, nodes, f"rules:site={(tmp_path / 'site').as_posix()}")
    found = procure.recommend(path, k=1).waited
    cut = found.account
    assert not found.far and cut["replayed"]["holds_by"] == "the policy"
    assert cut["replayed"]["today_hours"] == pytest.approx(cut["hours"], rel=0.02)
    assert 0 < cut["cut_hours"] <= cut["want_hours"] < cut["cut_hours_at_most"]
