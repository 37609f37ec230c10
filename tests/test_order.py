"""The order in which a log serves its waiting jobs: whom a start crowded out, weights, and the policy that follows."""

import numpy as np
import pandas as pd
import pytest
from naive_fitting import naive_easy, naive_use

from procure.account import choices
from procure.account.choices import choice_sets
from procure.account.layout import lay_out, started_jobs
from procure.account.usage import make_usage, share_of, use
from procure.run import simulate
from procure.site.model import Rule, Site
from procure.site.store import write_site
from procure.tables import JOB, NODE, check

MONDAY = 1_600_041_600


def crowded(n_jobs: int, seed: int = 1, every: int = 500) -> pd.DataFrame:
    """Return jobs of one to four of twenty nodes that keep these full; users differ in what they submit."""
    rng = np.random.default_rng(seed)
    run = np.maximum(60, rng.lognormal(8, 1, n_jobs)).astype(int)
    return check(
        pd.DataFrame(
            {
                "job_id": [str(i) for i in range(n_jobs)],
                "user": rng.choice([f"u{i}" for i in range(6)], n_jobs, p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.1]),
                "submit_time": MONDAY + np.sort(rng.integers(0, n_jobs * every, n_jobs)),
                "requested_time": run + 60,
                "run_time": run,
                "n_nodes": rng.integers(1, 5, n_jobs),
                "cpus_per_node": 1,
                "mem_mb_per_node": 100,
            }
        ),
        JOB,
    )


def nodes_of(n: int) -> pd.DataFrame:
    return check(pd.DataFrame({"node_id": [f"n{i}" for i in range(n)], "cpus": 1, "mem_mb": 1000}), NODE)


def test_recent_use_equals_its_slow_twin():
    """The mean that is kept up to date, against the sum over all jobs."""
    rows = [
        {"user": "0", "start": s, "run_time": r, "cpus_per_node": c, "n_nodes": 1}
        for s, r, c in ((0, 90_000, 3), (5000, 400, 2), (80_000, 300_000, 1))
    ]
    usage = make_usage(1, 10.0)
    changes = sorted(
        change
        for r in rows
        for change in ((r["start"], r["cpus_per_node"]), (r["start"] + r["run_time"], -r["cpus_per_node"]))
    )
    for at, cpus in changes:
        use(usage, 0, at, cpus)
        for later in (0, 50, 4000):
            done = [r for r in rows if r["start"] <= at]
            if not [one for one, _ in changes if at < one < at + later]:
                assert share_of(usage, 0, at + later) == pytest.approx(naive_use(done, "0", at + later, 10.0))


def test_choice_sets_equal_their_slow_twin(monkeypatch):
    """Who had room before a start and none after it, counted anew at each."""
    monkeypatch.setattr(choices, "MOST_OTHERS", 200)
    jobs, nodes = crowded(150, every=300), nodes_of(12)
    log = started_jobs(simulate(jobs, nodes, "sjf").schedule.drop(columns="node_ids"))
    sets = choice_sets(lay_out(log, nodes), np.random.default_rng(0))
    rows = log.assign(submit_time=log["submit_time"] - MONDAY, start_time=log["start_time"] - MONDAY).to_dict("records")
    own = [set(sets.job[a:b]) - {sets.job[a]} for a, b in zip(sets.first[:-1], sets.first[1:], strict=True)]
    found = {int(sets.job[a]): some for a, some in zip(sets.first[:-1], own, strict=True)}
    assert len(found) == len(own) > 20
    n_equal = 0
    for i, row in enumerate(rows):
        now = row["start_time"]
        before = [
            k for k, r in enumerate(rows) if (r["start_time"], k) < (now, i) and r["start_time"] + r["run_time"] > now
        ]
        free = 12 - sum(rows[k]["n_nodes"] for k in before)
        waiting = [k for k, r in enumerate(rows) if r["submit_time"] <= now < r["start_time"] and k != i]
        head = next((k for k in waiting if rows[k]["n_nodes"] > free), None)
        lost = {k for k in waiting if free - row["n_nodes"] < rows[k]["n_nodes"] <= free}
        assert found.get(i, set()) <= lost
        # Those that an earlier job's reservation keeps out had no room to take.
        if head is None or not any(k > head for k in lost):
            n_equal += 1
            assert found.get(i, set()) == lost, i
        for k in {i, *lost}:
            if found.get(i) and k in (i, *found[i]):
                at = next(at for at in range(len(own)) if sets.job[sets.first[at]] == i)
                place = sets.first[at] + list(sets.job[sets.first[at] : sets.first[at + 1]]).index(k)
                past = [dict(r, start=r["start_time"]) if r["start_time"] < now else dict(r, start=None) for r in rows]
                assert sets.use[place] == pytest.approx(naive_use(past, rows[k]["user"], now, 12.0))
    assert n_equal > 50


def test_an_order_equals_its_slow_twin(tmp_path):
    """EASY in the order of weights of age, size, time, recent use and a partition, second by second."""
    rng = np.random.default_rng(4)
    jobs = crowded(70, every=40).assign(partition=rng.choice(["p", "q"], 70))
    run = rng.integers(1, 400, 70)
    jobs = check(jobs.assign(run_time=run, requested_time=run + rng.choice([10, 300], 70)), JOB)
    weights = {"age": 0.5, "size": -0.7, "requested_time": -0.4, "use": -30.0, "partition q": 1.5}
    rules = tuple(Rule(kind="order", subject=name, value=value) for name, value in weights.items())
    write_site(Site(rules=rules), nodes_of(6), tmp_path)
    ran = simulate(jobs, nodes_of(6), f"rules:site={tmp_path}").schedule
    origin = int(jobs["submit_time"].min())

    def weight(row, now, rows):
        return (
            0.5 * np.log1p(now - row["submit_time"])
            - 0.7 * np.log1p(row["n_nodes"])
            - 0.4 * np.log1p(row["requested_time"])
            - 30.0 * np.log1p(10 * naive_use(rows, row["user"], now, 6.0))
            + 1.5 * (row["partition"] == "q")
        )

    own = jobs.assign(submit_time=jobs["submit_time"] - origin)
    starts = (ran["start_time"] - origin).tolist()
    assert starts == naive_easy(own, 6, lambda *_: False, weight)
    assert starts != naive_easy(own, 6, lambda *_: False)
    write_site(Site(), nodes_of(6), tmp_path)  # struck out
    again = simulate(jobs, nodes_of(6), f"rules:site={tmp_path}").schedule
    assert again["start_time"].tolist() == simulate(jobs, nodes_of(6), "easy").schedule["start_time"].tolist()


@pytest.mark.parametrize(("subject", "value"), [("length", 1), ("age", "much"), ("use", float("inf"))])
def test_an_order_that_cannot_be_followed_is_refused(subject, value):
    """A weight of something unknown, or that is no number."""
    with pytest.raises(ValueError, match=r"an order weighs|is a weight"):
        Rule(kind="order", subject=subject, value=value)
