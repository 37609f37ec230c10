"""The rule of choice by an inner backtest: which rule leads at earlier cuts, and when that is enough."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from test_forward import AT, study  # noqa: F401
from test_futures import WEEK

from procure.objectives.aggregate import REGRET_FLOOR
from procure.packages import package_nodes
from procure.recommender import earlier_cuts
from procure.recommender.candidates import between, draw_candidates
from procure.recommender.earlier_cuts import FIXED, EarlierCut, earlier_moments, replay_earlier, weigh_rules
from procure.run import simulate
from procure.study import load_plan, load_study
from procure.study.plan import read_past_jobs
from procure.tables import with_clock_of
from procure.workload.futures import Futures
from procure.workload.past import N_PARTS

N = 40


def cut(seed: int, good: str = "futures-mean", name: str = "") -> EarlierCut:
    """Return a cut at which one rule foresees what comes, and the other waits are random."""
    rng = np.random.default_rng(seed)
    past, futures = (rng.uniform(1000, 9000, size=(n, 5, N)) for n in (1 + N_PARTS, 3))
    came = past[0, 0] if good == "past" else futures[:, 0].mean(axis=0)
    return EarlierCut(name or str(seed), past, futures, came)


@pytest.mark.parametrize("good", ["past", "futures-mean"])
def test_the_rule_that_has_foreseen_what_came_is_chosen(good):
    found = weigh_rules([cut(seed, good) for seed in range(6)])
    assert found.leader == found.chosen == good and found.agreeing >= earlier_cuts.MIN_AGREEING
    assert (found.ratios[good] == 1).all() and (found.ratios >= 1).all(axis=None)
    assert f"chosen: {good}, ahead" in found.sentence() and found.to_dict()["rule"] == good


def test_a_ratio_is_the_wait_on_the_choice_over_the_best():
    one = cut(3)
    row = weigh_rules([one]).ratios.iloc[0]
    came = np.maximum(one.came, REGRET_FLOOR)
    assert row["past"] == pytest.approx(came[one.past[0, 0].argmin()] / came.min())


def test_with_few_cuts_the_fixed_rule_stays():
    found = weigh_rules([cut(seed, "past") for seed in range(earlier_cuts.MIN_CUTS - 1)])
    assert found.leader == "past" and found.chosen == FIXED
    assert "4 earlier cuts are needed" in found.sentence()


def test_a_lead_that_random_halves_do_not_show_is_none():
    """What comes has nothing to do with what any rule knows: who leads is luck."""
    rng = np.random.default_rng(10)
    cuts = [cut(seed)._replace(came=rng.uniform(1000, 9000, size=N)) for seed in range(6)]
    found = weigh_rules(cuts)
    assert found.leader != FIXED and found.chosen == FIXED and found.agreeing < earlier_cuts.MIN_AGREEING
    assert "random halves" in found.sentence()


def test_where_all_rules_choose_alike_the_fixed_one_is_it():
    one = cut(1)
    level = EarlierCut("a", np.ones_like(one.past), np.ones_like(one.futures), one.came)
    assert weigh_rules([level] * 5).chosen == FIXED


def test_earlier_cuts_are_weeks_before_with_three_weeks_of_log():
    assert earlier_moments(0, 6 * WEEK) == [3 * WEEK, 4 * WEEK, 5 * WEEK]
    assert earlier_moments(0, 60 * WEEK, 2) == [58 * WEEK, 59 * WEEK]
    assert earlier_moments(0, 3 * WEEK) == [] and earlier_moments(0, 60 * WEEK, 0) == []


def test_the_past_of_a_cut_knows_no_later_job_and_what_came_is_of_all(study, monkeypatch):  # noqa: F811
    """Against a schedule of each package, looked at job by job."""
    study_ = load_study(study)
    jobs = read_past_jobs(study_, lambda text: None)
    plan = load_plan(study_.model_copy(update={"futures": None}))
    before = between(jobs, 0, AT + WEEK)
    with_clock_of(jobs, before)
    bench = draw_candidates(plan, "best-fit", before, 3, seed=1)
    seen = []
    monkeypatch.setattr(earlier_cuts, "weigh_rules", lambda cuts, seed: seen.extend(cuts) or weigh_rules(cuts, seed))
    settings = Futures(draws=2, length=2 * WEEK, years=0.0, tz="America/Chicago")
    at = AT
    found = replay_earlier(bench, before, settings, 86_400, [("a", at)])
    assert found is not None and found.n_runs == 3 + (1 + 2) * 3 and [one.name for one in seen] == ["a"]
    first = int(before["submit_time"].min())
    for row, counts in enumerate(bench.counts):
        nodes = package_nodes(dict(zip(plan.types, counts.tolist(), strict=True)), plan.quotes, plan.existing)
        earlier = between(before, first, at)
        with_clock_of(before, earlier)
        submits, waits = [], []
        for some in (earlier, before):
            schedule = simulate(some, nodes, "best-fit").schedule
            submits.append(some["submit_time"].to_numpy())
            waits.append(schedule["start_time"].to_numpy() - submits[-1])
        assert seen[0].past[0, 0, row] == pytest.approx(waits[0][submits[0] >= first + 86_400].mean())
        assert seen[0].came[row] == pytest.approx(waits[1][submits[1] >= at].mean())
    assert seen[0].futures.shape == (2, 5, 3)
    assert isinstance(found.ratios, pd.DataFrame)
