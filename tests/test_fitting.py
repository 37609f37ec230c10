"""Rules that a log shows, and the policy that goes by them."""

import json
import tempfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from naive_fitting import naive_easy
from test_account import under

from procure.account.account import account_waits
from procure.account.inferred import Limit, pauses_of
from procure.account.layout import OWNERS, started_jobs
from procure.account.sweep import CAUSES
from procure.errors import TableError
from procure.fitting import fit
from procure.fitting.fit import Fidelity, fidelity, fit_site
from procure.run import simulate
from procure.site.model import NodeEvent, Partition, Rule, Site
from procure.site.store import read_site, write_site
from procure.tables import JOB, NODE, check, write

DAY = 86_400
MONDAY = 1_600_041_600


def log_of(n_jobs: int, seed: int = 1, span: int = 10 * DAY) -> pd.DataFrame:
    """Return jobs of whole one-CPU nodes that start a while after submission, as long as their user lets expect."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 5, n_jobs)
    submit = MONDAY + np.sort(rng.integers(0, span, n_jobs))
    run = rng.integers(0, 3000, n_jobs)
    return check(
        pd.DataFrame(
            {
                "job_id": [str(i) for i in range(n_jobs)],
                "user": [f"u{one}" for one in user],
                "submit_time": submit,
                "start_time": submit + 5 + 10**user * rng.integers(1, 3, n_jobs) // 2,
                "requested_time": run + rng.choice([0, 60, 4000], n_jobs) + 1,
                "run_time": run,
                "n_nodes": rng.choice([1, 2, 3], n_jobs),
                "cpus_per_node": 1,
                "mem_mb_per_node": 100,
            }
        ),
        JOB,
    )


def nodes_of(n: int) -> pd.DataFrame:
    return check(pd.DataFrame({"node_id": [f"n{i}" for i in range(n)], "cpus": 1, "mem_mb": 1000}), NODE)


def test_policy_rules_equals_its_slow_twin():
    rng = np.random.default_rng(4)
    jobs = log_of(60, span=3000).assign(n_nodes=rng.choice([1, 2, 4], 60))
    jobs = jobs.assign(account=rng.choice(["a", "b"], 60), partition=rng.choice(["p", "q", ""], 60))
    jobs = check(jobs.assign(run_time=rng.integers(1, 400, 60), requested_time=rng.choice([400, 1000], 60)), JOB)
    rules = (
        Rule(kind="pause", value=7),
        Rule(kind="pause", subject="user u1", value=90),
        Rule(kind="limit", subject="user u2 jobs", value=1),
        Rule(kind="limit", subject="account a cpus", value=4),
        Rule(kind="limit", subject="partition * jobs", value=3),
    )
    ran = under(Site(rules=rules), jobs, nodes_of(6))
    origin = int(jobs["submit_time"].min())

    def held(row, now, rows):
        started = [r for r in rows if "start" in r and now < r["start"] + r["run_time"]]
        user, lab, part = ([r for r in started if r[k] == row[k]] for k in ("user", "account", "partition"))
        pause = 90 if row["user"] == "u1" else 7
        return (
            now < row["submit_time"] + pause
            or (row["user"] == "u2" and len(user) >= 1)
            or (row["account"] == "a" and lab and sum(r["n_nodes"] for r in [*lab, row]) > 4)
            or (row["partition"] and len(part) >= 3)
        )

    own = jobs.assign(submit_time=jobs["submit_time"] - origin)
    assert (ran["start_time"] - origin).tolist() == naive_easy(own, 6, held)


def test_jobs_larger_than_their_users_limit_do_not_hide_it():
    """Users may run three CPUs at once; their jobs of six run alone, for a third of the time."""
    rng = np.random.default_rng(2)
    n = 2500
    jobs = log_of(n).assign(
        user=[f"u{one}" for one in rng.integers(0, 6, n)],
        submit_time=MONDAY + np.arange(n) * 400,
        n_nodes=rng.choice([1, 2, 6], n, p=[0.6, 0.3, 0.1]),
        run_time=rng.integers(600, 3000, n),
    )
    jobs = check(jobs.assign(requested_time=jobs["run_time"] + 1).drop(columns="start_time"), JOB)
    site = Site(rules=(Rule(kind="limit", subject="user * cpus", value=3),))
    log = started_jobs(under(site, jobs, nodes_of(60)))
    found = account_waits(log, nodes_of(60)).limits
    assert len(found) >= 4 and {(one.resource, one.value) for one in found} == {("cpus", 3)}


@pytest.mark.slow
def test_a_limit_of_a_partition_is_fitted():
    """Kept as a line with its evidence where the log has it, with the number that it has."""
    jobs, nodes = log_of(1500, seed=3, span=9 * DAY), nodes_of(40)
    rng = np.random.default_rng(3)
    jobs = jobs.assign(n_nodes=1, run_time=3000, requested_time=3600, partition=rng.choice(["p", "q"], 1500))
    jobs = check(jobs, JOB)
    log = under(Site(rules=(Rule(kind="limit", subject="partition q cpus", value=3),)), jobs, nodes)
    assert (log["start_time"] - log["submit_time"]).mean() > 600
    found = fit_site(log, nodes)
    (limit,) = [one for one in found.site.rules if one.kind == "limit"]
    assert limit.subject.startswith("partition q ") and limit.value == 3 and "by chance" in limit.evidence


def test_a_job_that_is_larger_than_its_limit_runs_alone():
    jobs, nodes = log_of(100, span=DAY // 8), nodes_of(6)
    ran = under(Site(rules=(Rule(kind="limit", subject="user * cpus", value=2),)), jobs, nodes)
    assert ran["start_time"].notna().all()
    for row in ran[(ran["n_nodes"] == 3) & (ran["run_time"] > 0)].itertuples():
        mine = ran[(ran["user"] == row.user) & (ran["job_id"] != row.job_id) & (ran["run_time"] > 0)]
        together = (mine["start_time"] < row.end_time) & (row.start_time < mine["end_time"])
        assert not together.any()


@pytest.mark.parametrize("cpus", [1, 3])
def test_nodes_that_events_take_away_start_nothing(cpus):
    """As its slow twin: of a pool, and of nodes that differ; events that overlap, one from before, one without end."""
    rng = np.random.default_rng(7)
    jobs = log_of(80, span=6000).assign(n_nodes=rng.choice([1, 2, 5], 80, p=[0.6, 0.3, 0.1]))
    jobs = check(jobs.assign(run_time=rng.integers(1, 400, 80), requested_time=rng.choice([400, 1000], 80)), JOB)
    origin = int(jobs["submit_time"].min())
    events = [
        ("n[0-2]", 500, 1800),
        ("n[1-4]", 1500, 2600),
        ("n5", -900, 1000),
        ("n[2-3]", 4000, 5000),
        ("n0", 5200, None),
    ]
    made = [NodeEvent(nodes=n, start=origin + a, end=None if b is None else origin + b) for n, a, b in events]
    nodes = check(nodes_of(6).assign(cpus=[1, 1, 1, 1, 1, cpus]), NODE)
    if cpus > 1:
        jobs = check(jobs.assign(cpus_per_node=1, mem_mb_per_node=1000), JOB)  # so that none shares the larger node
    ran = under(Site(events=tuple(made)), jobs, nodes)

    def is_away(node, now):
        spans = {0: [(500, 1800), (5200, 1 << 40)], 1: [(500, 2600)], 2: [(500, 2600), (4000, 5000)]}
        spans |= {3: [(1500, 2600), (4000, 5000)], 4: [(1500, 2600)], 5: [(-900, 1000)]}
        return any(begin <= now < end for begin, end in spans[node])

    starts = ran["start_time"] - origin
    if cpus == 1:  # on nodes that differ the reservation has nodes of its own
        assert starts.tolist() == naive_easy(jobs.assign(submit_time=jobs["submit_time"] - origin), 6, is_away=is_away)
    for start, on in zip(starts, ran["node_ids"], strict=True):
        assert not any(is_away(int(name[1:]), start) for name in on.split(","))
    assert starts.tolist() != (simulate(jobs, nodes, "easy").schedule["start_time"] - origin).tolist()


@pytest.mark.slow
def test_the_replays_of_a_fit_follow_the_events_of_a_site(monkeypatch):
    """Of a log in which nodes were away, the replay is far closer with the events: from an empty system not exact."""
    monkeypatch.setattr(fit, "_KINDS", {})
    jobs = log_of(300, span=5 * DAY).drop(columns="start_time")
    jobs = jobs.assign(run_time=2 * jobs["run_time"], requested_time=2 * jobs["run_time"] + 60)
    days = range(5)
    events = tuple(NodeEvent(nodes="n[0-2]", start=MONDAY + d * DAY, end=MONDAY + d * DAY + 50_000) for d in days)
    site = Site(events=events)
    log = under(site, check(jobs, JOB), nodes_of(6))
    near, far = (fit_site(log, nodes_of(6), known) for known in (site, None))
    error = near.tried.groupby("policy")["mean_error"].mean()
    assert near.site.events == events and "but for the site's events" in near.notes[0]
    assert error["easy"] > 100 and error["rules"] < 0.5 * error["easy"]
    assert far.tried["mean_error"].nunique() == 3 and "events" not in far.notes[0]


@pytest.mark.slow
def test_nodes_that_the_log_shows_to_have_been_away_become_events():
    """They are written with their evidence, a record of drains stands before them, and a second fit finds them anew."""
    rng = np.random.default_rng(3)
    run = rng.integers(1000, 12_000, 2000)
    jobs = log_of(2000, span=20 * DAY).drop(columns="start_time").assign(n_nodes=1, run_time=run, requested_time=run)
    away = NodeEvent(nodes="n[1-5]", start=MONDAY + 6 * DAY, end=MONDAY + 13 * DAY)
    log = under(Site(events=(away,)), check(jobs, JOB), nodes_of(9))
    found = fit_site(log, nodes_of(9))
    nodes = {name for one in found.site.events for name in one.nodes.split(",")}
    assert nodes == {f"n{i}" for i in range(1, 6)}
    assert all(one.reason.startswith("inferred: ") for one in found.site.events)
    assert "were away" in found.notes[0]
    assert fit_site(log, nodes_of(9), found.site).site.events == found.site.events
    assert fit_site(log, nodes_of(9), Site(events=(away,))).site.events == (away,)


@pytest.mark.slow
def test_a_replay_lets_jobs_take_what_they_held(tmp_path):
    """Jobs of one CPU that the log shows to have had nodes of four whole run alone there; EASY does not see it."""
    jobs = log_of(60, span=3000)
    jobs = check(jobs.assign(requested_time=jobs["run_time"] + 100, held_cpus_per_node=4), JOB)
    nodes = nodes_of(6).assign(cpus=4)
    origin = int(jobs["submit_time"].min())
    own = jobs.assign(submit_time=jobs["submit_time"] - origin)
    whole = naive_easy(own, 6)
    site = Site(partitions=(Partition(name="p", nodes="ALL", oversubscribe="exclusive"),))
    write_site(site, nodes, tmp_path)
    said = jobs.drop(columns="held_cpus_per_node")
    for log, policy in (
        (jobs, "rules"),
        (said.assign(exclusive="1"), "rules"),
        (said.assign(partition="p"), f"rules:site={tmp_path}"),
    ):
        ran = simulate(check(log, JOB), nodes, policy).schedule
        assert (ran["start_time"] - origin).tolist() == whole and (ran["cpus_per_node"] == 1).all()
    assert (simulate(jobs, nodes, "easy").schedule["start_time"] - origin).tolist() != whole
    some = jobs.assign(held_cpus_per_node=np.where(np.arange(60) % 3, 3, np.nan))
    asked = jobs.assign(cpus_per_node=np.where(np.arange(60) % 3, 3, 1))
    held, plain = (simulate(check(a, JOB), nodes, b).schedule for a, b in ((some, "rules"), (asked, "easy")))
    assert held["start_time"].tolist() == plain["start_time"].tolist()
    large = nodes.assign(cpus=[4, 4, 4, 4, 2, 2], gpus=[0, 0, 0, 0, 2, 2])  # the CPUs that it held are on no GPU node
    ran = simulate(check(jobs.assign(gpus_per_node=1, n_nodes=1), JOB), check(large, NODE), "rules").schedule
    assert ran["start_time"].notna().all()


def test_a_part_of_a_log_begins_with_what_ran_and_waited():
    """Of six earlier jobs two ran and one waited as the part began; what ran is submitted as it started."""
    first = pd.DataFrame(
        {"job_id": list("abcdef"), "submit_time": [0, 0, 10, 20, 30, 90], "start_time": [0, 5, 60, 200, 40, 90],
         "end_time": [50, 300, 150, 400, 100, 95]}
    )  # fmt: skip
    got = fit._open(first, pd.DataFrame({"submit_time": [100, 120]}))
    assert got[["job_id", "submit_time"]].to_numpy().tolist() == [["b", 5], ["c", 60], ["d", 100]]


def test_a_part_of_a_log_is_not_refused_where_the_log_is_not():
    """Nodes that hold all of a log but for a few hours are not refused for the part in which these hours are many."""
    slot = np.concatenate([np.repeat(np.arange(150), 4), np.repeat(np.arange(150, 175), 8)])
    jobs = pd.DataFrame({"job_id": np.arange(800).astype(str), "user": "u", "submit_time": MONDAY + 1000 * slot})
    jobs = jobs.assign(start_time=jobs["submit_time"], requested_time=1000, run_time=1000, n_nodes=1, cpus_per_node=1)
    log, nodes = started_jobs(check(jobs.assign(mem_mb_per_node=1), JOB)), nodes_of(7)
    assert account_waits(log, nodes).n_jobs == 800 and account_waits(log.tail(200), nodes, part=True).n_jobs == 200
    with pytest.raises(TableError, match="do not hold what ran"):
        account_waits(log.tail(200), nodes)


def test_a_pause_that_is_everybodys_is_no_rule_of_a_name():
    """A user whose pause is everybody's has no line of its own, and no job starts otherwise without it."""
    jobs = pd.DataFrame({"user": ["a"] * 40 + ["b"] * 40 + ["c"] * 40})
    held = np.zeros((120, len(CAUSES)), np.int64)
    held[:, fit.PAUSE] = np.repeat([5, 5, 900], 40)
    seen = fit._Seen(jobs, SimpleNamespace(by_job=held))
    rules = fit._rules(["pause", "pause by user"], seen)
    assert [(rule.subject, rule.value) for rule in rules] == [("", 5), ("user c", 900)]
    every = [rule for kind in ("pause", "pause by user") for rule in fit._KINDS[kind](seen)]
    assert len(every) == 4 and (pauses_of(rules, jobs) == pauses_of(every, jobs)).all()


def test_a_limit_of_a_qos_is_no_rule_of_a_site():
    """A site's rules cannot say it, so that a fit writes it not."""
    limits = [Limit(owner, "jobs", 3, 20, 20, 1.0, 0.0, kind) for owner, kind in enumerate(OWNERS)]
    account = SimpleNamespace(limits=limits, names=["a", "b", "c", "d", "e in d"])
    found = fit._KINDS["limits"](SimpleNamespace(account=account))
    assert [rule.subject for rule in found] == ["user a jobs", "account b jobs", "partition c jobs"]


def test_without_a_site_rules_is_easy():
    jobs, nodes = log_of(200, span=DAY // 2), nodes_of(5)
    starts = [simulate(jobs, nodes, name).schedule["start_time"].tolist() for name in ("easy", "rules")]
    assert starts[0] == starts[1]


@pytest.mark.slow
def test_fit_finds_what_holds(tmp_path, procure):
    """Users whose jobs wait 1 to 10,000 s with room: fitted to the first part, the replay of the last is far closer."""
    jobs, nodes = log_of(1500), nodes_of(60)
    early, late = jobs.iloc[:900].reset_index(drop=True), jobs.iloc[900:].reset_index(drop=True)
    found = fit_site(early, nodes)
    assert {rule.kind for rule in found.site.rules} == {"pause"}
    assert all(rule.evidence for rule in found.site.rules)
    found.write(tmp_path / "site")
    assert read_site(tmp_path / "site").rules == found.site
    easy, rules = (
        fidelity(late, simulate(late, nodes, policy).schedule) for policy in ("easy", f"rules:site={tmp_path / 'site'}")
    )
    assert rules.mean_error <= easy.mean_error
    assert rules.distance < 0.2 * easy.distance and rules.rank_correlation > max(0.8, easy.rank_correlation)
    write(late, tmp_path / "late.parquet")
    code, out, _ = procure("site", "check", tmp_path / "site", "--jobs", tmp_path / "late.parquet", "--format", "json")
    assert code == 0
    rows = [row for row in json.loads(out) if row["class"] == "all"]
    assert [row["policy"] for row in rows] == ["easy", "rules"]
    assert [row["distance"] for row in rows] == pytest.approx([one.distance for one in (easy, rules)])
    assert [row["mean_error"] for row in rows] == pytest.approx([one.mean_error for one in (easy, rules)])
    struck = found.site.model_copy(update={"rules": ()})
    write_site(struck, nodes, tmp_path / "site")
    again = simulate(late, nodes, f"rules:site={tmp_path / 'site'}").schedule
    assert fidelity(late, again) == easy


def test_a_temporary_folder_with_a_comma_is_no_end_of_a_fit(tmp_path, monkeypatch):
    """The replays of a fit are told of its folder as it is called, whatever that is."""
    (tmp_path / "a,b=c").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a,b=c"))
    assert {rule.kind for rule in fit_site(log_of(250, span=5 * DAY), nodes_of(60)).site.rules} == {"pause"}


@pytest.mark.slow
def test_where_nothing_helps_the_policies_are_easy():
    """A log that EASY made shows no rule that brings a replay closer."""
    jobs, nodes = log_of(600, span=5 * DAY), nodes_of(6)
    found = fit_site(simulate(jobs, nodes, "easy").schedule, nodes)
    assert not found.site.rules


def test_fidelity():
    """Figures that are known: two jobs in the other order, 10 and 30 s off."""
    jobs = pd.DataFrame({"submit_time": [0, 0, 0], "start_time": [10, 20, 30]})
    got = fidelity(jobs, pd.DataFrame({"start_time": [20, 10, 30]}))
    assert got == pytest.approx(Fidelity(20 / 3, 0.0, 0.5))
    exact = Fidelity(0.0, 0.0, 1.0)
    assert exact.ratios(exact) == pytest.approx((1, 1, 1))  # what is as exact as EASY is no closer


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        (lambda jobs: jobs.drop(columns="start_time"), "no start_time"),
        (lambda jobs: jobs[jobs["submit_time"] < MONDAY + 3 * DAY], "3.0 days"),
        (lambda jobs: jobs.assign(cpus_per_node=40), "do not hold what ran on them"),
    ],
)
def test_bad_input_is_one_line(jobs, says):
    with pytest.raises(TableError, match=says) as error:
        fit_site(check(jobs(log_of(800)), JOB), nodes_of(30))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('tz = "Europe/Berlin"', "tz"),
        ('[[rules]]\nkind = "closed_hours"\nvalue = 3', "strike"),
        ('[[rules]]\nkind = "limit"\nsubject = "user u cpu_seconds"\nvalue = 3', "jobs or cpus"),
    ],
)
def test_what_an_earlier_version_wrote_into_a_site_is_named(line, word, tmp_path):
    """Rules and keys that are gone are refused with what to do, not ignored."""
    write_site(Site(), nodes_of(3), tmp_path)
    (tmp_path / "site.toml").write_text(line)
    with pytest.raises(TableError, match=word):
        read_site(tmp_path)
