"""The account of waiting: it adds up, equals its slow twin, and finds causes that are known."""

import tempfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_account import CAUSES, naive_account
from policy_cases import job_table, node_table

from procure.account import nodes as account_nodes
from procure.account.account import account_waits
from procure.account.layout import lay_out, make_work, started_jobs, with_outages
from procure.account.sweep import sweep
from procure.errors import TableError
from procure.run import simulate
from procure.site.model import NodeEvent, Partition, Rule, Site
from procure.site.store import write_site
from procure.tables import JOB, NODE, check

DAY = 86_400


def case(seed: int, n_jobs: int = 60) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a log in which jobs start whenever, on nodes that need not hold them all at once."""
    rng = np.random.default_rng(seed)
    n_nodes = int(rng.integers(2, 6))
    nodes = pd.DataFrame(
        {"node_id": [f"n{i}" for i in range(n_nodes)], "cpus": 8, "mem_mb": 1000, "gpus": rng.choice([0, 2], n_nodes)}
    )
    n_of = rng.choice([1, 1, 2], n_jobs)
    submit = np.sort(rng.integers(0, 3000, n_jobs))
    wait = rng.choice([0, 0, 50, 400, 900], n_jobs) + rng.integers(0, 30, n_jobs)
    partition = rng.choice(["a", "b"], n_jobs)
    jobs = pd.DataFrame(
        {
            "job_id": [str(i) for i in range(n_jobs)],
            "user": rng.choice(["u", "v", "w"], n_jobs),
            "submit_time": submit,
            "eligible_time": np.minimum(submit + rng.choice([0, 0, 100], n_jobs), submit + wait),
            "start_time": submit + wait,
            "requested_time": rng.choice([0, 300, 1000], n_jobs),
            "run_time": rng.choice([0, 20, 200, 300], n_jobs),
            "n_nodes": n_of,
            "cpus_per_node": rng.choice([1, 3, 8], n_jobs),
            "mem_mb_per_node": rng.choice([0, 300, 900], n_jobs),
            "gpus_per_node": 0,
            "partition": partition,
            "node_ids": [",".join(rng.choice(nodes["node_id"].to_numpy(), n, replace=False)) for n in n_of],
        }
    )
    return check(jobs, JOB), check(nodes, NODE)


@pytest.mark.parametrize("seed", range(8))
def test_equals_its_slow_twin(seed, monkeypatch):
    """Second for second and job for job, with a limit, an outage and a pause."""
    monkeypatch.setattr(account_nodes, "OVERBOOKED", 1.0)
    jobs, nodes = case(seed)
    laid = lay_out(started_jobs(jobs), nodes)
    origin = int(jobs["submit_time"].min())
    out = [np.array([one]) for one in (1, 6, 500 - origin, 1500 - origin)]
    laid = with_outages(laid, *out)
    limits = laid.centre.max_jobs.copy()
    limits[laid.names.index("v")] = 2
    laid = laid._replace(centre=laid.centre._replace(max_jobs=limits, pause=np.full(len(jobs), 40)))
    seconds = agree(laid, naive_account(jobs, nodes, {"v": 2}, (("n1", 6, 500, 1500),), pause=40))
    if seed < 3:
        assert (seconds.sum(0) > 0).sum() >= 6  # the cases tell causes apart


def agree(laid, twin) -> np.ndarray:
    """Hold that a pass over a log is its twin; return what it booked."""
    work = make_work(laid)
    sweep(laid.log, laid.groups, laid.centre, work)
    assert work.seconds.tolist() == [[one[name] for name in CAUSES] for one in twin]
    return work.seconds


@pytest.mark.parametrize("seed", range(6))
def test_what_was_held_equals_its_slow_twin(seed, monkeypatch):
    """Nodes of several sizes held whole, as the log says or as its numbers tell, and jobs of unknown nodes."""
    monkeypatch.setattr(account_nodes, "OVERBOOKED", 1.0)
    monkeypatch.setattr(account_nodes, "MOST_UNNAMED", 1.0)
    jobs, nodes = case(seed + 20)
    rng = np.random.default_rng(seed)
    nodes["cpus"] = rng.choice([8, 12], len(nodes)) if seed % 2 else 8
    jobs["held_cpus_per_node"] = rng.choice([0, 4, 8, 12, 40], len(jobs))
    jobs["exclusive"] = rng.choice([False, True], len(jobs), p=[0.8, 0.2])
    jobs["node_ids"] = jobs["node_ids"].mask(rng.random(len(jobs)) < 0.2, "")
    laid = lay_out(started_jobs(jobs), nodes)
    agree(laid, naive_account(jobs, nodes))
    assert laid.has_nodes and 0 < laid.n_held < len(jobs) and laid.groups.whole.any()


@pytest.mark.parametrize("said", ["held", "exclusive", "site", "lost"])
def test_whole_nodes_are_occupied(said):
    """Jobs of one to four CPUs that took nodes of four whole: what they waited is for nodes, to 2 %."""
    nodes, jobs = cluster(), crowd(1500, every=520)
    log = simulate(jobs, nodes, "easy:exclusive=true").schedule
    held = {"held": {"held_cpus_per_node": 4}, "exclusive": {"exclusive": "1"}, "site": {"partition": "whole"}}
    site = Site(partitions=(Partition(name="whole", nodes="ALL", oversubscribe="exclusive"),))
    if said == "lost":
        log["node_ids"] = log["node_ids"].mask(np.arange(len(log)) % 50 == 0, "")
    log = check(log.assign(**held.get(said, held["held"])), JOB)
    found = account_waits(log, nodes, site if said == "site" else None)
    assert found.causes["hours"].sum() > 100
    assert share(found, "full", "fragmentation", "reserved") > 0.98
    blind = account_waits(log.drop(columns="held_cpus_per_node", errors="ignore").assign(exclusive=""), nodes)
    assert share(blind, "full", "fragmentation", "reserved") < 0.8
    counts = [note for note in found.notes if "held more CPUs than they asked for" in note]
    assert len(counts) == 1 and "occupied" in counts[0]
    assert (said == "lost") == any("of which it is not known on which nodes they ran" in note for note in found.notes)
    pooled = account_waits(log.drop(columns="node_ids"), nodes, site if said == "site" else None)
    assert share(pooled, "full", "reserved") > 0.98


def test_held_cpus_that_the_nodes_do_not_have_are_not_taken():
    """A node table that counts cores beside a log that counts threads: what was asked for is taken, and said."""
    nodes, jobs = cluster(), crowd(600, every=250)
    log = simulate(jobs, nodes, "easy").schedule.assign(held_cpus_per_node=lambda one: 2 * one["cpus_per_node"])
    found = account_waits(check(log, JOB), nodes)
    assert share(found, "full", "fragmentation", "reserved") > 0.98
    assert any("what they asked for is taken" in note for note in found.notes)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6))
def test_causes_add_up_to_each_wait(seed):
    """No second is lost or counted twice, and each cause lies within its bounds."""
    jobs, _ = case(seed, 30)
    found = account_waits(jobs)
    by_submission = jobs.sort_values("submit_time", kind="stable")
    waits = (by_submission["start_time"] - by_submission["submit_time"]).to_numpy(np.int64)
    assert found.by_job.sum(1).tolist() == waits.tolist()
    causes = found.causes
    assert (causes["lower"] <= causes["hours"] + 1e-9).all() and (causes["hours"] <= causes["upper"] + 1e-9).all()
    assert found.by_class["hours"].sum() == pytest.approx(causes["hours"].sum())
    assert found.by_class["n_jobs"].sum() == len(jobs)


def crowd(n_jobs: int, seed: int = 3, every: int = 200) -> pd.DataFrame:
    """Return jobs of one node's share each; ``every`` s one is submitted on average."""
    rng = np.random.default_rng(seed)
    run = rng.integers(600, 7200, n_jobs)
    jobs = job_table(
        user=rng.choice([f"u{i}" for i in range(6)], n_jobs),
        submit_time=1_600_000_000 + np.sort(rng.integers(0, n_jobs * every, n_jobs)),
        requested_time=run,
        run_time=run,
        cpus_per_node=rng.choice([1, 2, 4], n_jobs),
        mem_mb_per_node=100,
    )
    return check(jobs, JOB)


def cluster(n: int = 8, cpus: int = 4) -> pd.DataFrame:
    """Return nodes of as many CPUs."""
    return check(node_table(n, cpus=cpus, mem_mb=10_000), NODE)


def under(site: Site, jobs: pd.DataFrame, nodes: pd.DataFrame) -> pd.DataFrame:
    """Return the log of a site's rules and events."""
    with tempfile.TemporaryDirectory() as folder:
        write_site(site, nodes, folder)
        return simulate(jobs, nodes, f"rules:site={folder}").schedule


def share(found, *names: str) -> float:
    return float(found.causes.set_index("cause")["share"][list(names)].sum())


def test_a_limit_that_the_log_does_not_state_is_found():
    """Users who may run three jobs at once wait for nothing else; 98 % of their hours are accounted to it."""
    jobs = crowd(2500, every=180)
    start, running = [], {user: [] for user in jobs["user"].unique()}
    for row in jobs.itertuples():
        mine = sorted(running[row.user])[-3:]
        start.append(max(row.submit_time, mine[0]) if len(mine) == 3 else row.submit_time)
        running[row.user] = [*mine, start[-1] + row.run_time]
    log = check(jobs.assign(start_time=start), JOB)
    found = account_waits(log, cluster(100))
    assert {(one.resource, one.value) for one in found.limits} == {("jobs", 3)}
    assert len(found.limits) == 6
    assert share(found, "above_limit") > 0.98
    known = account_waits(
        log, cluster(100), Site(rules=(Rule(kind="limit", subject="user * jobs", value=3),)), infer=False
    )
    assert known.causes["hours"].tolist() == pytest.approx(found.causes["hours"].tolist())
    struck = account_waits(log, cluster(100), Site(), infer=False)
    assert share(struck, "unexplained") == 1


@pytest.mark.parametrize(("per", "kind", "most"), [(["qos"], "qos", 6), (["qos", "user"], "qos_user", 3)])
def test_a_limit_of_a_qos_is_found(per, kind, most):
    """Of all its jobs, or of each user's in it; the other QOS, whose jobs start at once, has none."""
    jobs = crowd(2500, every=180)
    jobs = jobs.assign(qos=np.where(np.random.default_rng(3).random(2500) < 0.6, "long", "short"))
    start, running = [], {}
    for row in jobs.itertuples():
        held = running.get(tuple(getattr(row, name) for name in per), []) if row.qos == "long" else []
        mine = sorted(held)[-most:]
        start.append(max(row.submit_time, mine[0]) if len(mine) == most else row.submit_time)
        running[tuple(getattr(row, name) for name in per)] = [*mine, start[-1] + row.run_time]
    found = account_waits(check(jobs.assign(start_time=start), JOB), cluster(100))
    assert {(one.kind, one.resource, one.value) for one in found.limits} == {(kind, "jobs", most)}
    assert share(found, "above_limit") > 0.95


def busy(n_jobs: int, every: int, share: float, cpus: int) -> pd.DataFrame:
    """Return jobs of which one user submits a share, another the others."""
    rng = np.random.default_rng(2)
    user = np.where(rng.random(n_jobs) < share, "u0", "u1")
    jobs = crowd(n_jobs, every=every).assign(user=user, cpus_per_node=cpus)
    return check(jobs.assign(run_time=2 * jobs["run_time"], requested_time=2 * jobs["run_time"]), JOB)


@pytest.mark.parametrize("resource", ["jobs", "cpus"])
def test_a_limit_of_a_user_who_is_always_at_it_is_found(resource):
    """All within some hours, so that the level itself tells nothing: the total stands still while the user waits."""
    jobs, nodes = busy(400, 90, 1.0, 2), cluster(100)
    most = {"jobs": 4, "cpus": 8}[resource]
    log = under(Site(rules=(Rule(kind="limit", subject=f"user * {resource}", value=most),)), jobs, nodes)
    assert log["submit_time"].max() - log["submit_time"].min() < 12 * 3600
    (found,) = account_waits(log.drop(columns="node_ids"), nodes).limits
    assert (found.resource, found.value) in {("jobs", 4), ("cpus", 8)}  # both are the same here


@pytest.mark.parametrize("policy", ["easy", "fcfs"])
def test_a_total_that_stands_still_because_the_system_is_full_is_no_limit(policy):
    """One user has nearly all jobs, of 3 CPUs on nodes of 4: the CPU left on each is room for none, seen or not."""
    jobs, nodes = busy(1500, 180, 0.9, 3), cluster(12)
    log = simulate(jobs, nodes, policy).schedule
    assert (log["start_time"] - log["submit_time"]).mean() > 3600
    for one in (log, log.drop(columns="node_ids")):
        assert account_waits(one, nodes).limits == []


def test_a_pause_is_found():
    """Jobs that start 90 s after submission on idle nodes wait for the scheduler alone."""
    jobs = crowd(300)
    log = check(jobs.assign(start_time=jobs["submit_time"] + 90), JOB)
    found = account_waits(log, cluster(100))
    assert found.pause == 90
    assert share(found, "pause") == 1


def test_missing_capacity_is_found():
    """With half of the nodes gone for ten days, the hours waited then are accounted to that within 2 %."""
    nodes = cluster(16, 1)
    jobs = crowd(4000, every=600).assign(cpus_per_node=1)
    run = simulate(check(jobs, JOB), nodes.iloc[:6].reset_index(drop=True), "fcfs").schedule
    found = account_waits(run.drop(columns="node_ids"), nodes)
    assert found.outages and {one.cpus for one in found.outages} == {10}
    assert found.causes["hours"].sum() > 100
    assert share(found, "outage") > 0.98


def test_nodes_that_ran_nothing_while_jobs_waited_are_found():
    """Where nodes are drained for six days these are found, node by node; where none is, none is found."""
    nodes = cluster(16, 1)
    jobs = check(crowd(4000, every=600).assign(cpus_per_node=1), JOB)
    first = int(jobs["submit_time"].min())
    event = NodeEvent(nodes="n[2-11]", start=first + 8 * DAY, end=first + 14 * DAY)
    found = account_waits(under(Site(events=(event,)), jobs, nodes), nodes)
    assert {one.node_id for one in found.outages} == {f"n{i}" for i in range(2, 12)}
    assert all(abs(one.begin - 8 * DAY) <= DAY and abs(one.end - 14 * DAY) <= DAY for one in found.outages)
    assert share(found, "outage") > 0.5
    assert any(note.startswith("10 nodes ran nothing while jobs waited, for ") for note in found.notes)
    assert account_waits(under(Site(), jobs, nodes), nodes).outages == []


def test_idle_nodes_that_waiting_jobs_may_not_use_are_not_missing():
    """Jobs wait for the six nodes of their partition; the ten of the other one ran but a job at either end."""
    nodes = cluster(16, 1)
    jobs = check(crowd(3000, every=600).assign(cpus_per_node=1, partition="few"), JOB)
    busy = simulate(jobs, nodes.iloc[:6].reset_index(drop=True), "fcfs").schedule
    ends = busy.iloc[[0, -1]].assign(partition="rest", job_id=["a", "b"], n_nodes=10, run_time=60)
    ends = ends.assign(start_time=ends["submit_time"], node_ids=",".join(nodes["node_id"].iloc[6:]))
    log = pd.concat([busy, ends.assign(end_time=ends["start_time"] + 60)]).sort_values("submit_time", kind="stable")
    found = account_waits(log.reset_index(drop=True), nodes)
    assert found.causes["hours"].sum() > 100
    assert found.outages == []


def test_a_log_that_is_cut_by_submission_shows_no_outage_at_its_end():
    """What still ran after the last submission is left out of a part, so that its nodes look empty."""
    nodes = cluster(16, 1)
    jobs = check(crowd(300, every=600).assign(cpus_per_node=1), JOB)
    log = simulate(jobs, nodes, "easy").schedule.drop(columns="node_ids")
    last = log.iloc[[-1]].assign(job_id="held", run_time=60)
    held = last.assign(start_time=last["start_time"] + 9 * DAY, end_time=last["start_time"] + 9 * DAY + 60)
    long = last.assign(job_id="long", run_time=10 * DAY, start_time=last["submit_time"])
    log = pd.concat([log, held, long.assign(end_time=long["start_time"] + 10 * DAY)], ignore_index=True)
    assert account_waits(check(log, JOB), nodes).outages == []


@pytest.mark.parametrize("named", [True, False])
def test_events_of_the_site_are_outages(named):
    """Ten of sixteen nodes were down from the tenth to the twentieth day: what waited for them is outage, to 2 %."""
    nodes = cluster(16, 1)
    jobs = check(crowd(4000, every=600).assign(cpus_per_node=1, partition="p"), JOB)
    partition = Partition(name="p", nodes="ALL")
    first = int(jobs["submit_time"].min())
    begin, end = first + 10 * DAY, first + 20 * DAY
    during = jobs["submit_time"].between(begin + DAY, end - DAY)
    few = simulate(jobs[during], nodes.iloc[:6].reset_index(drop=True), "fcfs").schedule
    log = few if named else few.drop(columns="node_ids")
    down = (NodeEvent(nodes="n[6-15]", start=begin, end=end, state="down"),)
    again = (NodeEvent(nodes="n[6-9]", start=begin + DAY, end=end, state="drain"),)
    found = account_waits(log, nodes, Site(events=down + again, partitions=(partition,)), infer=False)
    assert found.causes["hours"].sum() > 20
    assert share(found, "outage") > 0.98
    last = min(end, int(log[["start_time", "end_time"]].max().max()))
    days = 10 * (last - int(log["submit_time"].min())) / DAY
    assert any(f"{days:,.1f} node-days" in note for note in found.notes)
    assert share(account_waits(log, nodes, infer=False), "outage") == 0
    over = Site(events=(NodeEvent(nodes="n[6-15]", start=0, end=begin),), partitions=(partition,))
    assert share(account_waits(log, nodes, over, infer=False), "outage") == 0


@pytest.mark.parametrize(("key", "most"), [("account", 12), ("partition", 6), (None, 4)])
def test_a_limit_of_an_account_or_a_partition_is_found(key, most):
    """An account or a partition may run so many jobs at once; the log of users' limits shows none of theirs."""
    jobs = crowd(2500, every=180)
    number = jobs["user"].str[1:].astype(int)
    rng = np.random.default_rng(8)
    jobs = jobs.assign(account=np.where(number < 3, "lab", "group"), partition=rng.choice(["a", "b", "c", "d"], 2500))
    name = {"account": "lab", "partition": "b", None: "*"}[key]
    rule = Rule(kind="limit", subject=f"{key or 'user'} {name} jobs", value=most)
    nodes = cluster(100)
    log = under(Site(rules=(rule,)), check(jobs, JOB), nodes)
    found = account_waits(log.drop(columns="node_ids"), nodes)
    shown = {(one.kind, found.names[one.owner], one.resource, one.value) for one in found.limits}
    assert found.causes["hours"].sum() > 100
    if key:
        assert shown == {(key, name, "jobs", most)}
        assert {key: name, "resource": "jobs", "value": most}.items() <= found.to_dict()["limits"][0].items()
        assert f"{key}s inferred" in found.notes[-1]
    else:
        assert shown == {("user", f"u{i}", "jobs", most) for i in range(6)}
    assert share(found, "above_limit") > 0.98


def test_pieces_that_are_not_seen_are_a_bound():
    """Without node names, what would be fragmentation lies between nothing and all that seems to have had room."""
    nodes = cluster()
    log = simulate(crowd(1500, every=250), nodes, "easy").schedule
    seen, blind = (account_waits(one, nodes) for one in (log, log.drop(columns="node_ids")))
    row = blind.causes.set_index("cause").loc["fragmentation"]
    assert row["hours"] == 0 <= seen.causes.set_index("cause")["hours"]["fragmentation"] <= row["upper"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda jobs: jobs.drop(columns="start_time"), "no start_time"),
        (lambda jobs: jobs.assign(cluster=["a", "b"] * (len(jobs) // 2)), "2 clusters"),
        (lambda jobs: jobs.assign(node_ids="n0", cpus_per_node=32), "had 32 CPUs of n0, which has 4"),
        (lambda jobs: jobs.assign(node_ids=["n0", "other"] * (len(jobs) // 2)), "ran on other"),
        (lambda jobs: jobs.assign(node_ids="n0", start_time=jobs["submit_time"].max()), "CPUs ran at once on n0"),
    ],
)
def test_bad_input_is_one_line(change, says):
    """No starts, two clusters, nodes that do not hold what ran on them."""
    jobs = crowd(100)
    with pytest.raises(TableError, match=says) as error:
        account_waits(check(change(check(jobs.assign(start_time=jobs["submit_time"]), JOB)), JOB), cluster())
    assert "\n" not in str(error.value)


def test_pauses_of_users_and_accounts_are_pauses():
    """A user's own pause stands above everybody's; what waits longer is unexplained."""
    who = {"user": ["ann", "bob", "eve"], "account": ["x", "y", "y"]}
    times = {"submit_time": [0, 1000, 2000], "start_time": [500, 1500, 2500], "requested_time": 100, "run_time": 10}
    jobs = job_table(**who, **times, node_ids="n0")
    rules = (
        Rule(kind="pause", value=50),
        Rule(kind="pause", subject="account y", value=200),
        Rule(kind="pause", subject="user eve", value=500),
    )
    found = account_waits(jobs, cluster(1), Site(rules=rules), infer=False)
    paused = found.by_job[:, [CAUSES.index("pause"), CAUSES.index("unexplained")]]
    assert paused.tolist() == [[50, 450], [200, 300], [500, 0]]


@pytest.mark.parametrize("says", [{"exclusive": ["1", ""]}, {"held_cpus_per_node": [96, 60]}])
def test_a_job_that_holds_nodes_of_unequal_size_whole_holds_all_of_each(says):
    """The larger node is full while a job has it and a smaller one whole: who waits for it waits for nodes."""
    nodes = node_table(3, node_id=["big", "s1", "s2"], cpus=[128, 64, 64])
    times = {"submit_time": [0, 10], "start_time": [0, 1000], "run_time": [1000, 100], "requested_time": 2000}
    jobs = job_table(n_nodes=[2, 1], cpus_per_node=[4, 100], node_ids=["big,s1", "big"], **times, **says)
    found = account_waits(jobs, nodes, infer=False)
    assert found.by_job[:, CAUSES.index("full")].sum() == 990
    assert not any("do not hold" in text for text in found.notes)
