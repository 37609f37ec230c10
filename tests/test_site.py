"""A site is read from Slurm's files, and policy slurm starts jobs as its slow twin does."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_slurm import NaiveSlurm
from policy_cases import few
from site_cases import FEATURES, site_case

from procure.errors import TableError
from procure.run import prepare, simulate
from procure.site.bought import idle_kinds, with_bought
from procure.site.constraints import constraint_groups
from procure.site.layout import lay_out
from procure.site.model import (
    Association,
    Latency,
    Limits,
    NodeEvent,
    Partition,
    Preemption,
    Priority,
    Qos,
    Reservation,
    Scheduler,
    Select,
    Site,
)
from procure.site.policy import Slurm
from procure.site.show import partition_table
from procure.site.store import read_site, write_site
from procure.site.understand import read_slurm
from procure.sweep.runner import Bench, simulate_rows
from procure.tables import JOB, NODE, check

pytestmark = pytest.mark.plain

MANY = int(os.environ.get("PROCURE_TEST_CASES", "20"))

CONF = """ClusterName=lab SelectType=select/cons_tres GresTypes=gpu SelectTypeParameters=CR_Core_Memory
NodeName=DEFAULT CPUs=8 RealMemory=16000
NodeName=n[1-3] Feature=ib,old Weight=10
NodeName=g1 CPUs=16 Gres=gpu:a100:4
PartitionName=DEFAULT MaxTime=2-0
PartitionName=batch Nodes=n[1-3],g1 Default=YES QOS=part
PartitionName=short Nodes=n1 MaxTime=30 PriorityTier=5 OverSubscribe=EXCLUSIVE
SchedulerParameters=bf_window=2880,bf_max_job_user=20,bf_continue,bf_licenses
PriorityType=priority/multifactor
PriorityWeightAge=100
PriorityDecayHalfLife=7-0
JobSubmitPlugins=lua
AccountingStorageEnforce=associations,limits AccountingStorageType=accounting_storage/slurmdbd
"""
ACCOUNTS = """add qos part GrpTRES=cpu=20
add qos long Priority=5 MaxTRESPerUser=cpu=4,mem=2G MaxWall=1-0
add cluster lab
add account physics Fairshare=30 GrpJobs=7
add user alice Account=physics DefaultAccount=physics MaxJobs=3
modify user alice set QOS=part,long
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Slurm's files of a small centre."""
    made = tmp_path / "slurm"
    made.mkdir()
    (made / "slurm.conf").write_text(CONF)
    (made / "accounts.script").write_text(ACCOUNTS)
    return made


def test_configuration_is_read(folder):
    """Partitions, nodes, QOS, limits and scheduler mean what slurm.conf and sacctmgr say."""
    rules, nodes = read_slurm(folder)
    assert [p.name for p in rules.partitions] == ["batch", "short"]
    assert (rules.partitions[0].max_time, rules.partitions[1].max_time) == (2 * 86_400, 1800)
    assert rules.partitions[1].priority_tier == 5
    assert rules.scheduler.bf_window == 2 * 86_400
    assert rules.scheduler.bf_continue and rules.scheduler.bf_max_job_user == 20
    assert nodes["cpus"].tolist() == [16, 8, 8, 8]
    assert nodes["gpus"].tolist() == [4, 0, 0, 0] and nodes["gpu_type"].tolist()[0] == "a100"
    by_name = {q.name: q for q in rules.qos}
    assert by_name["part"].limits.grp_tres == {"cpu": 20}
    assert by_name["long"].limits.max_tres_per_user == {"cpu": 4, "mem": 2048}
    assert by_name["long"].limits.max_wall == 86_400
    alice = next(a for a in rules.associations if a.user == "alice")
    assert (alice.account, alice.limits.max_jobs, alice.qos) == ("physics", 3, ("part", "long"))


def test_nodes_are_in_the_order_of_their_names(tmp_path):
    """Slurm sorts its nodes by name, numbers by value, and of nodes that do as well takes the first."""
    names = ["b-2", "b1", "m2", "n010", "n09", "n9", "n10"]
    nodes = f"NodeName={','.join(reversed(names))} CPUs=8\nPartitionName=p Nodes=ALL\n"
    (tmp_path / "slurm.conf").write_text(nodes + "TopologyParam=SwitchAsNodeRank\n")
    found = read_slurm(tmp_path)
    assert found.nodes["node_id"].tolist() == names
    assert "TopologyParam SwitchAsNodeRank" in [each.setting for each in found.rules.not_understood]


@pytest.mark.parametrize(("node_free", "start"), [(0.957, 12), (0.96, 15)])
def test_a_job_is_over_82_ms_after_its_run_time(node_free, start, tmp_path):
    """A job of 10 s that began at 1.324 is over at 11.406; a pass at 12.365 finds its node free by then, or taken."""
    site = Site(priority=Priority(type="basic"), latency=Latency(pass_at_end=0, job_end=node_free))
    found = started(tmp_path, site, pd.DataFrame({"cpus": [8]}), {"run_time": [10, 10], "cpus_per_node": 8})
    assert found["start_time"].tolist() == [1, start]


def test_what_a_shown_configuration_leaves_unset_is_not_listed(folder):
    """scontrol shows every setting: none, zero with a unit and no limit ask for nothing; a limit is named."""
    shown = "CompleteWait = 0 sec\nCoreSpecPlugin = core_spec/none\nMaxMemPerNode = UNLIMITED\nOverTimeLimit = 0 min\n"
    (folder / "slurm.conf").write_text(CONF + shown)
    assert len(read_slurm(folder).rules.not_understood) == 2
    (folder / "slurm.conf").write_text(CONF + shown.replace("0 min", "5 min"))
    told = [each.setting for each in read_slurm(folder).rules.not_understood]
    assert len(told) == 3 and "overtimelimit" in told


def test_select_linear_takes_nodes_whole_and_says_so(folder):
    """Under select/linear every partition is shown as one that takes nodes whole, whatever the parameters count."""
    (folder / "slurm.conf").write_text(CONF + "SelectType=select/linear\nSelectTypeParameters=CR_CPU_Memory\n")
    site = read_slurm(folder)
    assert site.rules.select.consume == "node"
    assert partition_table(site)["whole_nodes"].all()


def test_what_is_not_understood_is_listed(folder):
    """A plugin and a parameter that are not modelled are named, with what they may change."""
    found = {each.setting: each for each in read_slurm(folder).rules.not_understood}
    assert "partition" in found["jobsubmitplugins"].effect
    assert found["SchedulerParameters bf_licenses"].where == "slurm.conf:8"
    assert len(found) == 2
    (folder / "slurm.conf").write_text(CONF + "PreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG\n")
    (folder / "accounts.script").write_text(ACCOUNTS.replace("Priority=5", "Priority=5 GraceTime=120 Preempt=part"))
    told = [each for each in read_slurm(folder).rules.not_understood if each.setting not in found]
    assert [each.setting for each in told] == ["PreemptMode"] and "SUSPEND" in told[0].effect
    gang = "PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\n"
    gang += "PartitionName=more Nodes=n2 OverSubscribe=FORCE\n"
    (folder / "slurm.conf").write_text(CONF + gang)
    told = [each for each in read_slurm(folder).rules.not_understood if each.setting not in found]
    assert [each.setting for each in told] == ["PreemptMode", "partition more OverSubscribe", "PriorityTier"]
    assert "SUSPEND" in told[0].effect and "batch and more share nodes" in told[2].value


def test_preemption_is_read(folder):
    """Who gives way, how, after how long, and how long a requeued job waits, from slurm.conf or what scontrol shows."""
    (folder / "slurm.conf").write_text(
        CONF + "PreemptType=preempt/qos\nPreemptMode=REQUEUE\nPreemptParameters=reorder_count=3,strict_order\n"
        "PreemptExemptTime=00:01:00\nAuthInfo=cred_expire=60\nKillWait = 20 sec\nJobRequeue=0\n"
    )
    (folder / "accounts.script").write_text(
        ACCOUNTS.replace("Priority=5", "Priority=5 Preempt=part PreemptMode=cancel PreemptExemptTime=00:05:00")
    )
    rules = read_slurm(folder).rules
    assert rules.preemption == Preemption(
        type="qos", mode="requeue", exempt_time=60, strict_order=True, reorder_count=3, patience=30, requeue=False,
        requeue_delay=60,
    )  # fmt: skip
    [long] = [each for each in rules.qos if each.name == "long"]
    assert (long.preempt, long.preempt_mode, long.exempt_time) == (("part",), "cancel", 300)
    assert not [each for each in rules.not_understood if "reempt" in each.setting]


def test_nodes_that_are_down_today_partitions_without_nodes_and_events_are_read(folder):
    """A replay of an old log cannot know when nodes were down, nor can a job start where no node is."""
    (folder / "slurm.conf").write_text(CONF + "PartitionName=void\n")
    (folder / "nodes.txt").write_text("NodeName=n2 CPUTot=8 RealMemory=16000 State=IDLE+DRAIN Reason=fan\n")
    (folder / "event.txt").write_text(
        "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User|\n"
        "lab|n3|2025-01-02T00:00:00|2025-01-03T00:00:00|DOWN*|disk|root|\n"
        "lab|n3|2025-07-02T00:00:00|Unknown|DRAINED|fan|root|\n"
        "lab|n3|2025-07-02T00:00:00|Unknown|POWERING_UP|fan|root|\n"
        "lab|gone9|2025-07-02T00:00:00|Unknown|DOWN|sold|root|\n"
        "lab||2025-07-02T00:00:00|Unknown||Cluster Registered TRES||\n"
    )
    rules = read_slurm(folder, tz="Europe/Berlin").rules
    found = {each.setting: each for each in rules.not_understood}
    assert "no job of it can start" in found["partition void Nodes"].effect
    assert found["State"].value == "down or drained: n2" and "[[events]]" in found["State"].effect
    assert [each.nodes for each in rules.events] == ["n2", "n3", "n3"]
    assert found["sacctmgr show event"].value == "2 rows" and "not used" in found["sacctmgr show event"].effect
    first, second = rules.events[1:]
    assert (first.state, first.start, first.end) == ("down", 1735772400, 1735858800)
    assert (second.state, second.start, second.end) == ("drain", 1751407200, None)
    (folder / "nodes.txt").write_text("NodeName=n3 CPUTot=8 RealMemory=16000 State=DOWN Reason=fan\n")
    rules = read_slurm(folder).rules  # the open event says since when
    assert len(rules.events) == 2 and min(each.start for each in rules.events) == 1735776000
    assert any("taken as UTC" in each.effect for each in rules.not_understood)


RESERVATION = "ReservationName=maint StartTime=2026-07-01T08:00:00 EndTime=2026-07-01T12:00:00 Nodes=n1 Users=root\n"


def test_times_of_reservations_are_of_the_clock_where_scontrol_ran(folder):
    """08:00 in Chicago in summer is 13:00 UTC; without a zone it is 08:00 UTC, and that is said."""
    (folder / "reservations.txt").write_text(RESERVATION)
    [maint] = read_slurm(folder, "America/Chicago").rules.reservations
    assert pd.Timestamp(maint.start, unit="s") == pd.Timestamp("2026-07-01 13:00")
    assert maint.end - maint.start == 4 * 3600
    rules = read_slurm(folder).rules
    assert pd.Timestamp(rules.reservations[0].start, unit="s") == pd.Timestamp("2026-07-01 08:00")
    assert any("taken as UTC" in each.effect for each in rules.not_understood if each.value == "maint")


def test_limits_of_memory_that_are_not_modelled_are_listed(folder):
    """MaxMemPerCPU, MaxMemPerNode and OverTimeLimit are read and change nothing: each is named."""
    more = "MaxMemPerCPU=2000\nMaxMemPerNode=8000\nOverTimeLimit=5\nPartitionName=fat Nodes=n1 MaxMemPerNode=9000\n"
    (folder / "slurm.conf").write_text(CONF + more)
    found = {each.setting for each in read_slurm(folder).rules.not_understood}
    assert {"maxmempercpu", "maxmempernode", "overtimelimit", "partition fat maxmempernode"} <= found


def test_a_file_with_bars_that_is_no_table_of_accounts_is_left_alone(folder):
    """Whatever else lies in the folder is not read as accounts."""
    (folder / "jobs.events").write_text("-dt 1 -e submit_batch_job | -J jobid_1 -sim-walltime 5\n" * 20)
    told = read_slurm(folder).rules.not_understood
    assert [one.where for one in told if one.setting == "file"] == ["jobs.events"]


@pytest.mark.parametrize(
    ("conf", "wrong"),
    [
        (
            "NodeName=n1\nPartitionName=p Nodes=n[1-2]\n",
            "partition p names 1 node that no NodeName line defines, first n2",
        ),
        ("Include more.conf\n", "the included file more.conf is missing"),
        ("NodeName=n1\n", "no partition is defined"),
        ("NodeName=n1\nPartitionName=p Nodes=n1\nPriorityMaxAge=soon\n", "prioritymaxage: 'soon' was given"),
        (
            "NodeName=n1\nPartitionName=p Nodes=n1\nSchedulerParameters=bf_interval=x\n",
            "bf_interval: 'x' was given",
        ),
    ],
)
def test_bad_configuration(tmp_path, conf, wrong):
    """What cannot be read is one clear error."""
    (tmp_path / "slurm.conf").write_text(conf)
    with pytest.raises(TableError, match=wrong.replace("[", r"\[")):
        read_slurm(tmp_path)


def test_commands_read_and_show(folder, procure, tmp_path):
    """`site read` writes a folder that `site check` shows; scripts find the documented keys."""
    code, out, err = procure("site", "read", folder, "--out", tmp_path / "site", "--format", "json")
    assert code == 0 and "not understood" in err
    document = json.loads(out)
    assert {"partitions", "qos", "accounts", "nodes", "not_understood"} <= set(document)
    assert json.loads(procure("site", "read", folder, "--format", "json")[1]) == document  # nothing is written
    code, out, _ = procure("site", "check", tmp_path / "site")
    assert code == 0 and "grp tres cpu ≤ 20" in out


def test_commands_refuse(procure, tmp_path):
    """A missing folder, or one without a configuration, is one line and exit code 1."""
    code, _, err = procure("site", "check", tmp_path / "none")
    assert code == 1 and "no such folder" in err
    code, _, err = procure("site", "read", tmp_path)
    assert code == 1 and "no node" in err


@given(
    limits=st.dictionaries(st.sampled_from(["cpu", "mem", "node", "gres/gpu"]), st.integers(0, 10**6)),
    jobs=st.none() | st.integers(0, 99),
    shares=st.just("parent") | st.integers(0, 999),
)
@settings(max_examples=25)
def test_a_site_is_read_as_it_was_written(tmp_path_factory, limits, jobs, shares):
    """Writing and reading a site changes nothing."""
    held = Limits(grp_tres=limits, grp_jobs=jobs)
    site = Site(
        partitions=(Partition(name="p", nodes="n[1-2]", default=True),),
        qos=(Qos(name="q", limits=held),),
        associations=(Association(account="a", shares=shares, limits=held),),
    )
    nodes = pd.DataFrame({"node_id": ["n1", "n2"], "cpus": 4, "mem_mb": 100, "features": ["a,b", ""]})
    folder = write_site(site, nodes, tmp_path_factory.mktemp("site"))
    assert read_site(folder).rules == site


def test_constraints():
    """And, or, parentheses, counts and alternatives choose the nodes that sbatch's manual says."""
    features = [{"a"}, {"b"}, {"a", "b"}, set()]

    def rows(text):
        return [(np.flatnonzero(mask).tolist(), n) for mask, n in constraint_groups(text, features)]

    assert rows("a&b") == [([2], 0)]
    assert rows("a|b") == [([0, 1, 2], 0)]
    assert rows("a&(b|a)") == [([0, 2], 0)]
    assert rows("[a*2&b*1]") == [([0, 2], 2), ([1, 2], 1)]
    assert rows("[a|b]") == [([0, 2], -1), ([1, 2], -1)]
    assert rows("[a|b]&b") == [([2], -1), ([1, 2], -1)]


def compare_with_twin(feature: str, seed: int, folder: Path) -> None:
    """Assert that starts and nodes are the twin's."""
    site, nodes, jobs = site_case(feature, seed)
    write_site(site, nodes, folder)
    schedule = simulate(jobs, nodes, Slurm(site=str(folder)), kill_at_limit=False).schedule
    ordered = jobs.sort_values("submit_time", kind="stable", ignore_index=True)
    layout = lay_out(site, nodes, ordered)
    began = int(ordered["submit_time"].iloc[0])
    twin = NaiveSlurm(site, layout, ordered["run_time"])
    start, end, on = twin.run()
    names = nodes["node_id"].tolist()
    found = schedule.set_index("job_id").loc[ordered["job_id"]]
    assert (found["start_time"] - began).fillna(-1).astype(int).tolist() == start, (feature, seed)
    assert found["node_ids"].tolist() == [",".join(names[n] for n in where) for where in on], (feature, seed)
    assert (found["end_time"] - began).fillna(-1).astype(int).tolist() == end, (feature, seed)
    assert (np.array(start) >= 0).any()
    if "restarts" in found:
        assert found["ended_by"].tolist() == twin.ended_by, (feature, seed)
        assert found["restarts"].tolist() == twin.restarts and found["lost_time"].tolist() == twin.lost, (feature, seed)


@pytest.mark.parametrize("feature", FEATURES)
def test_policy_slurm_equals_its_slow_twin(feature, tmp_path):
    """On random sites and jobs, every start and every node is the twin's."""
    for seed in range(few(4)):
        compare_with_twin(feature, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("feature", ["constraints", "topology", "whole"])
def test_requests_that_share_what_is_kept_of_them_change_no_start(feature, tmp_path, monkeypatch):
    """With room to keep of one request alone when nodes get room for it, every start is still the twin's."""
    monkeypatch.setattr("procure.site.work.MOST_KEPT", 1)
    for seed in range(4, 6):
        compare_with_twin(feature, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_policy_slurm_equals_its_slow_twin_on_many_cases(feature, tmp_path):
    """The same on many sites per feature: PROCURE_TEST_CASES says how many."""
    for seed in range(100, 100 + (MANY if feature != "large" else -(-MANY // 4))):
        compare_with_twin(feature, seed, tmp_path)


def test_memory_that_is_not_consumed_is_not_billed_and_tres_weights_count_what_was_asked():
    """A CPU asked for is a CPU of PriorityWeightTRES, though it comes with its core; CR_Core bills no memory."""
    table = pd.DataFrame({"node_id": ["n1"], "cpus": 8, "mem_mb": 1000, "threads_per_core": 2})
    row = {"job_id": ["a"], "cpus_per_node": 1, "n_nodes": 1, "mem_mb_per_node": 500}
    jobs = check(pd.DataFrame(row).assign(submit_time=0, run_time=10, requested_time=60), JOB)
    weights = {"cpu": 1.0, "mem": 0.01}
    for memory, billed in ((True, 7), (False, 2)):
        rules = Site(
            partitions=(Partition(name="p", nodes="ALL", default=True, billing_weights=weights),),
            select=Select(memory=memory), priority=Priority(weight_tres={"cpu": 800}),
        )  # fmt: skip
        found = lay_out(rules, check(table, NODE), jobs).jobs
        held = found.billing + found.per_cpu * 2 + found.per_mb * 500
        assert held.tolist() == [billed] and found.base.tolist() == [100]


def test_memory_that_a_log_says_may_be_the_default():
    """That of a job's CPUs grows with those of its cores; that of a node does not; other memory stays."""
    nodes = check(pd.DataFrame({"node_id": ["n1"], "cpus": 8, "mem_mb": 1000, "threads_per_core": 2}), NODE)
    rows = {
        "job_id": ["a", "b", "c"],
        "mem_mb_per_node": [10, 15, 0],
        "n_tasks": [0, 0, 3],
        "mem_mb_per_task": [0, 0, 34],
    }
    jobs = pd.DataFrame(rows).assign(submit_time=0, run_time=9, requested_time=60, n_nodes=1, cpus_per_node=1)
    partition = (Partition(name="p", nodes="ALL", default=True),)
    for select, first, each in ((Select(def_mem_per_cpu_mb=10), 20, 34), (Select(def_mem_per_node_mb=100), 10, 0)):
        found = lay_out(Site(partitions=partition, select=select), nodes, check(jobs, JOB)).jobs
        assert found.mem.tolist() == [first, 15, 34] and found.mem_per_cpu.tolist()[1:] == [0, each]


def test_a_job_that_takes_nodes_whole_is_as_large_as_it_asks(tmp_path):
    """The size factor counts the CPUs that a job has requested, also of a job that takes its nodes whole."""
    nodes = check(pd.DataFrame({"node_id": ["n1", "n2"], "cpus": 8, "mem_mb": 100}), NODE)
    rules = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True),),
        priority=Priority(weight_job_size=1000, weight_tres={"cpu": 100}),
    )
    rows = {"job_id": ["a", "b"], "exclusive": ["", "1"], "cpus_per_node": 1, "n_nodes": 1}
    jobs = pd.DataFrame(rows).assign(submit_time=0, run_time=10, requested_time=60, mem_mb_per_node=0)
    base = lay_out(rules, nodes, check(jobs, JOB)).jobs.base
    assert base[0] == base[1] == pytest.approx(1000 * (1 / 2 + 1 / 16) / 2 + 100 / 16)


def test_priority_basic_counts_down_by_submission_and_nice():
    """As a real Slurm 22.05 numbers its jobs, an array once."""
    nodes = check(pd.DataFrame({"node_id": ["n1"], "cpus": 8, "mem_mb": 100}), NODE)
    rules = Site(partitions=(Partition(name="p", nodes="ALL", default=True),), priority=Priority(type="basic"))
    rows = {"job_id": ["7_1", "7_2", "8", "9"], "nice": [0, 0, 500, 0], "cpus_per_node": 1, "n_nodes": 1}
    jobs = pd.DataFrame(rows).assign(submit_time=0, run_time=10, requested_time=60, mem_mb_per_node=0)
    base = lay_out(rules, nodes, check(jobs, JOB)).jobs.base
    assert (base - base[0]).tolist() == [0, 0, -501, -2]


def two_tiers(folder: Path, mode: str, jobs: dict, grace: int = 0) -> pd.DataFrame:
    """Simulate jobs of partitions low and high on a node of eight CPUs and 8,000 MB."""
    low = Partition(name="low", nodes="ALL", default=True, preempt_mode=mode, grace_time=grace)
    site = Site(
        partitions=(low, Partition(name="high", nodes="ALL", priority_tier=2)), priority=Priority(type="basic"),
        preemption=Preemption(type="partition", mode=mode),
    )  # fmt: skip
    nodes = check(pd.DataFrame({"node_id": ["n1"], "cpus": 8, "mem_mb": 8000}), NODE)
    write_site(site, nodes, folder)
    table = pd.DataFrame(jobs).assign(n_nodes=1, requested_time=600)
    return simulate(check(table, JOB), nodes, Slurm(site=str(folder))).schedule.set_index("job_id")


@pytest.mark.parametrize(
    ("mode", "run_time", "ends"), [("cancel", 300, "preempted"), ("requeue", 300, ""), ("cancel", 45, "")]
)
def test_a_job_that_gives_way_is_left_its_grace_time(mode, run_time, ends, tmp_path):
    """It goes on for 40 s at least, until limits are looked at; if it ends before, nothing ends it."""
    jobs = {"job_id": ["low", "high"], "partition": ["low", "high"], "submit_time": [0, 10], "run_time": [run_time, 20]}
    found = two_tiers(tmp_path, mode, jobs | {"cpus_per_node": 8, "mem_mb_per_node": 0}, grace=40)
    began = found["start_time"]["high"]
    assert (began < 50) if run_time < 50 else (50 <= began <= 10 + 40 + 31)
    assert found["ended_by"]["low"] == ends and found["restarts"]["low"] == (mode == "requeue")


@pytest.mark.parametrize(("conf", "start"), [("", 21), ("Epilog=/bin/true\n", 20), ("epilog, defer", 21)])
def test_with_an_epilog_the_end_of_a_job_brings_a_pass_at_once(conf, start, folder):
    """The next job starts in the second of the end, without an epilog or with defer in that of the next pass."""
    defer = "defer" in conf
    text = CONF.replace("bf_continue", "bf_continue,defer") if defer else CONF
    (folder / "slurm.conf").write_text(text + ("Epilog=/bin/true\n" if defer else conf))
    site, nodes = read_slurm(folder)
    assert site.latency.pass_at_end == (1 if conf else 0.04)
    latency = site.latency.model_copy(update={"clock": -2.5})
    rules = Site(scheduler=site.scheduler, latency=latency, partitions=(Partition(name="batch", nodes="ALL"),))
    write_site(rules, nodes, folder / "site")
    rows = {"job_id": ["a", "b"], "submit_time": [0, 18], "run_time": [20, 5], "n_nodes": 4}
    jobs = pd.DataFrame(rows).assign(requested_time=60, cpus_per_node=8, mem_mb_per_node=0, partition="batch")
    schedule = simulate(check(jobs, JOB), nodes, Slurm(site=str(folder / "site"))).schedule
    assert schedule["start_time"].tolist() == [0, start]


def test_backfill_wants_all_nodes_of_every_group_that_a_constraint_counts(tmp_path):
    """Backfill starts a job that counts features where each group has as many nodes as it asks for; not a wider one."""
    features = ["old"] * 3 + ["new"] * 3 + ["big"]
    nodes = pd.DataFrame({"node_id": [f"n{n}" for n in range(7)], "cpus": 8, "mem_mb": 100, "features": features})
    write_site(Site(partitions=(Partition(name="p", nodes="ALL", default=True),)), check(nodes, NODE), tmp_path)
    asked = {"a": (1, "big"), "b": (1, "big"), "wide": (4, "[old*3&new*1]"), "three": (3, "[old*2&new*1]")}
    n_nodes, texts = zip(*asked.values(), strict=True)
    jobs = pd.DataFrame({"job_id": list(asked), "n_nodes": n_nodes, "constraint": texts, "submit_time": range(4)})
    jobs = jobs.assign(run_time=50, requested_time=60, cpus_per_node=8, mem_mb_per_node=0)
    schedule = simulate(check(jobs, JOB), check(nodes, NODE), Slurm(site=str(tmp_path))).schedule
    start = schedule.set_index("job_id")["start_time"]
    assert start["three"] < start["b"] <= start["wide"]


def commanded(procure, folder: Path, site: Site, nodes: dict, jobs: dict) -> tuple[pd.DataFrame, str, str]:
    """Run `procure simulate --site` on jobs of a node and 120 s; return the schedule, what was said, and figures."""
    write_site(site, pd.DataFrame({"mem_mb": 100} | nodes), folder / "site")
    usual = {"requested_time": 120, "n_nodes": 1, "mem_mb_per_node": 0}
    pd.DataFrame(usual | jobs).to_csv(folder / "jobs.csv", index=False)
    given = ("--jobs", folder / "jobs.csv", "--site", folder / "site", "--schedule", folder / "s.csv")
    code, out, err = procure("simulate", *given, "--format", "json")
    assert code == 0
    return pd.read_csv(folder / "s.csv", keep_default_na=False), err, out


def test_counts_of_features_below_and_above_the_nodes_asked_for(procure, tmp_path):
    """What is not counted may be any node; who counts more nodes than he asks for, or than there are, is set aside."""
    site = Site(partitions=(Partition(name="p", nodes="ALL", default=True),))
    nodes = {"node_id": ["n1", "n2", "n3"], "cpus": 4, "features": ["x", "y", "x,y"]}
    asked = {"one": (1, "[x*1&y*1]"), "two": (2, "[x*1&y*1]"), "three": (3, "[x*1&y*1]"), "many": (4, "[x*2&y*2]")}
    n_nodes, texts = zip(*asked.values(), strict=True)
    jobs = {"job_id": list(asked), "n_nodes": n_nodes, "constraint": texts, "submit_time": 0, "run_time": 10}
    schedule, err, _ = commanded(procure, tmp_path, site, nodes, jobs | {"cpus_per_node": 1})
    found = schedule.set_index("job_id")["node_ids"]
    assert found["three"] == "n1,n2,n3" and found["two"] and not found["one"] and not found["many"]
    assert "1 job set aside: its constraint counts more nodes than it asks for (one)" in err
    assert "1 job set aside: no nodes of its partition and constraint hold it (many)" in err


@pytest.mark.parametrize(("mode", "starts"), [("requeue", [177, 41]), ("cancel", [0, 41])])
def test_a_job_gives_way_and_waits_again_or_is_over(mode, starts, procure, tmp_path):
    """The higher QOS starts at once; the other job starts anew in a pass after 121 s, or ends; it is said."""
    site = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True),),
        qos=(Qos(name="normal"), Qos(name="high", preempt=("normal",))),
        preemption=Preemption(type="qos", mode=mode),
        latency=Latency(clock=-2.5),
    )
    jobs = {"job_id": ["low", "high"], "submit_time": [0, 41], "run_time": [100, 50], "qos": ["normal", "high"]}
    nodes = {"node_id": ["n1"], "cpus": 4}
    found, err, _ = commanded(procure, tmp_path, site, nodes, jobs | {"cpus_per_node": 4})
    again = mode == "requeue"
    assert found["start_time"].tolist() == starts
    assert found["end_time"].tolist() == [277 if again else 41, 91]
    assert found["restarts"].tolist() == [int(again), 0] and found["lost_time"].tolist() == [41 * again, 0]
    assert found["ended_by"].tolist() == ["" if again else "preempted", ""]
    assert ("1 job ended and queued again 1 time" if again else "1 job ended before their time (preempted)") in err


@pytest.mark.parametrize(("requeue", "start", "end"), [(True, 177, 277), (False, 0, 41)])
def test_a_node_that_goes_down_ends_what_runs_on_it(requeue, start, end, procure, tmp_path):
    """A job of two nodes of which one goes down starts anew in a pass after 121 s, or ends; a drain ends nothing."""
    begin = 1_700_000_000
    site = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True),),
        preemption=Preemption(requeue=requeue),
        latency=Latency(clock=-2.5),
        events=(
            NodeEvent(nodes="n1", start=begin - 100, end=begin - 50, state="down"),
            NodeEvent(nodes="n1", start=begin + 41, end=begin + 50, state="down"),
            NodeEvent(nodes="n3", start=begin + 20, end=begin + 60),
        ),
    )
    nodes = {"node_id": ["n1", "n2", "n3"], "cpus": 4}
    jobs = {"job_id": ["wide", "narrow"], "submit_time": begin, "run_time": 100, "n_nodes": [2, 1], "cpus_per_node": 4}
    found, err, _ = commanded(procure, tmp_path, site, nodes, jobs)
    assert (found["start_time"] - begin).tolist() == [start, 0] and (found["end_time"] - begin).tolist() == [end, 100]
    assert found["restarts"].tolist() == [int(requeue), 0]
    assert found["ended_by"].tolist() == ["" if requeue else "node_fail", ""]
    assert ("queued again 1 time" if requeue else "1 job ended before their time (node_fail)") in err


def test_jobs_of_a_reservation_that_is_over_are_named(procure, tmp_path):
    """A job that its reservation leaves no time for never starts; the others do, and one line counts it."""
    site = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True),),
        reservations=(Reservation(name="course", start=0, end=100, nodes="n1"),),
    )
    jobs = {"job_id": ["a", "b", "c", "late"], "submit_time": [0, 0, 5, 120], "run_time": [100, 50, 50, 50]}
    jobs |= {"reservation": ["course", "course", "", "course"], "cpus_per_node": 4}
    found, err, out = commanded(procure, tmp_path, site, {"node_id": ["n1", "n2"], "cpus": 4}, jobs)
    assert "1 job set aside: reservation course was over before they could start (b)" in err
    assert "1 job set aside: reservation course was over when it was submitted (late)" in err
    assert found.loc[found["start_time"] != "", "job_id"].tolist() == ["a", "c"]
    assert json.loads(out)["n_unrunnable"] == 2


@pytest.mark.parametrize("bound, starts", [(4, [1, 1, 101]), (3, [None, 1, None])])
def test_a_limit_of_a_job_counts_the_whole_nodes_that_it_gets(procure, tmp_path, bound, starts):
    """A job of 2 CPUs that takes its node whole gets under a limit of 4 the node of 4, and never the one of 12."""
    users = [Association(account="x"), Association(account="x", user="other")]
    site = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True, oversubscribe="exclusive"),),
        qos=(Qos(name="normal"),),
        associations=(*users, Association(account="x", user="u", limits=Limits(max_tres_per_job={"cpu": bound}))),
        enforce=("associations", "limits"),
    )
    jobs = {"job_id": ["a", "b", "c"], "submit_time": [0, 0, 5], "run_time": [100, 50, 50], "user": ["u", "other", "u"]}
    jobs |= {"cpus_per_node": 2, "account": "x"}
    schedule, err, _ = commanded(procure, tmp_path, site, {"node_id": ["n1", "n2"], "cpus": [4, 12]}, jobs)
    assert ("2 jobs set aside: limits leave no room for the whole nodes" in err) == (bound == 3)
    assert [None if start == "" else int(float(start)) for start in schedule["start_time"]] == starts


@pytest.mark.parametrize("stop", [False, True])
def test_a_job_above_a_limit_on_cpus_keeps_its_partition_only_under_assoc_limit_stop(tmp_path, stop):
    """Without nodes, too: as in Slurm a limit on TRES stands above that."""
    site = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True),),
        qos=(Qos(name="normal"), Qos(name="few", limits=Limits(grp_tres={"cpu": 6}))),
        enforce=("limits", "qos"), scheduler=Scheduler(backfill=False, assoc_limit_stop=stop),
    )  # fmt: skip
    write_site(site, pd.DataFrame({"node_id": ["n1"], "cpus": [8], "mem_mb": 100}), tmp_path / "site")
    rows = {"job_id": ["a", "b", "c"], "submit_time": [0, 10, 20], "cpus_per_node": [4, 5, 2]}
    jobs = pd.DataFrame(rows).assign(run_time=100, requested_time=120, n_nodes=1, mem_mb_per_node=0)
    jobs["qos"] = ["few", "few", "normal"]
    found = simulate(check(jobs, JOB), read_site(tmp_path / "site").nodes, f"slurm:site={tmp_path / 'site'}").schedule
    assert (found["start_time"].iloc[2] >= found["end_time"].iloc[0]) == stop


def _starts_under(folder: Path, site: Site, nodes: dict[str, list], jobs: dict[str, object]) -> list[int]:
    """Return the starts of one user's jobs of 100 s, with limits of 2 min, in the order given."""
    table = pd.DataFrame({name: value for name, value in jobs.items() if isinstance(value, list)})
    table = table.assign(run_time=100, requested_time=120, n_nodes=1, mem_mb_per_node=0, user="u")
    write_site(site, pd.DataFrame(nodes | {"mem_mb": [100] * len(nodes["cpus"])}), folder)
    found = simulate(
        check(table.assign(job_id=list("abcd")[: len(table)]), JOB), read_site(folder).nodes, f"slurm:site={folder}"
    )
    return found.schedule["start_time"].astype(int).tolist()


def test_a_job_counts_in_a_limit_of_its_qos_also_where_the_partition_binds_it(tmp_path):
    """6 CPUs in a partition whose own QOS allows 100 leave 2 of the 8 that the job's QOS grants the user."""
    few, many = (Limits(max_tres_per_user={"cpu": n}) for n in (8, 100))
    site = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True), Partition(name="q", nodes="ALL", qos="pq")),
        qos=(Qos(name="normal", limits=few), Qos(name="pq", limits=many)), enforce=("limits", "qos"),
    )  # fmt: skip
    jobs = {"submit_time": [0, 10], "cpus_per_node": [6, 4], "partition": ["q", "p"], "qos": ["normal", "normal"]}
    first, second = _starts_under(tmp_path, site, {"node_id": ["n1"], "cpus": [16]}, jobs)
    assert second >= first + 100


@pytest.mark.parametrize("period, waits", [(300, True), (20, False)])
def test_minutes_left_of_running_jobs_are_those_of_the_last_priority_calculation(tmp_path, period, waits):
    """Of 10 CPU-minutes a job of 4 CPUs and 2 min holds 8 until priorities are computed again; 4 more do not fit."""
    site = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True),),
        qos=(Qos(name="normal", limits=Limits(grp_tres_run_mins={"cpu": 10})),), enforce=("limits", "qos"),
        priority=Priority(calc_period=period),
    )  # fmt: skip
    jobs = {"submit_time": [0, 10], "cpus_per_node": [4, 2], "qos": ["normal", "normal"]}
    first, second = _starts_under(tmp_path, site, {"node_id": ["n1"], "cpus": [16]}, jobs)
    assert (second >= first + 100) == waits


def test_a_job_whose_nodes_another_partition_closes_blocks_nobody(tmp_path):
    """The second job closes the large node; the third, who wants it in another partition, lets the fourth start."""
    site = Site(
        partitions=(Partition(name="all", nodes="ALL", default=True), Partition(name="large", nodes="n2")),
        scheduler=Scheduler(backfill=False), priority=Priority(type="basic"),
    )  # fmt: skip
    jobs = {"submit_time": [0, 10, 20, 30], "cpus_per_node": [8, 8, 8, 1], "constraint": ["", "", "big", ""]}
    jobs |= {"partition": ["large", "large", "all", "all"]}
    nodes = {"node_id": ["n1", "n2"], "cpus": [4, 8], "features": ["", "big"]}
    starts = _starts_under(tmp_path, site, nodes, jobs)
    assert starts[3] < starts[0] + 100 <= starts[1]


@pytest.mark.parametrize(("consume", "last"), [("cpu", 2), ("core", 1)])
def test_no_two_jobs_share_a_core_of_several_threads(consume, last, tmp_path):
    """Two jobs of a CPU take both cores of a node; limits count a CPU of each under CR_CPU, else the whole core."""
    site = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True),), select=Select(consume=consume),
        qos=(Qos(name="two", limits=Limits(grp_tres={"cpu": 2})), Qos(name="free")), enforce=("limits", "qos"),
    )  # fmt: skip
    jobs = {"submit_time": [0, 10, 20], "cpus_per_node": [1, 1, 1], "qos": ["two", "two", "free"]}
    starts = _starts_under(tmp_path, site, {"node_id": ["n1"], "cpus": [4], "threads_per_core": [2]}, jobs)
    assert np.argmax(starts) == last and max(starts) >= 100 > sorted(starts)[1]


def test_that_a_limit_keeps_a_job_is_known_when_it_is_submitted(tmp_path):
    """Under assoc_limit_stop a job that a limit of jobs keeps since its submission does not block the next one."""
    site = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True),), scheduler=Scheduler(assoc_limit_stop=True),
        qos=(Qos(name="one", limits=Limits(grp_jobs=1)), Qos(name="free")), enforce=("limits", "qos"),
    )  # fmt: skip
    jobs = {"submit_time": [0, 10, 10], "cpus_per_node": [1, 1, 1], "qos": ["one", "one", "free"]}
    first, _, free = _starts_under(tmp_path, site, {"node_id": ["n1"], "cpus": [4]}, jobs)
    alone = _starts_under(tmp_path, site, {"node_id": ["n1"], "cpus": [4]}, {k: [v[0], v[2]] for k, v in jobs.items()})
    assert [first, free] == alone


def test_nodes_still_to_come_keep_a_core_of_a_job_each(tmp_path):
    """Of 4 tasks on up to 2 nodes, one is on the second, so that the first is full: a task that comes then waits."""
    site = Site(partitions=(Partition(name="p", nodes="ALL", default=True),))
    jobs = {"submit_time": [0, 10, 10], "cpus_per_node": [2, 2, 2], "n_tasks": [4, 1, 1], "cpus_per_task": [1, 2, 2]}
    jobs |= {"min_nodes": [1, 1, 1], "max_nodes": [2, 0, 0]}
    nodes = {"node_id": ["n1", "n2"], "cpus": [4, 4], "threads_per_core": [2, 2]}
    first, second, third = _starts_under(tmp_path, site, nodes, jobs)
    assert second < 100 <= third - first


def test_the_job_with_the_fewest_nodes_gives_way_first(tmp_path):
    """Of two that may give way the one on one node does, though the one on two came before it."""
    site = Site(
        partitions=(Partition(name="p", nodes="ALL", default=True),),
        qos=(Qos(name="low"), Qos(name="high", preempt=("low",))), preemption=Preemption(type="qos", mode="requeue"),
    )  # fmt: skip
    jobs = {"submit_time": [0, 10, 50], "cpus_per_node": [1, 1, 1], "n_tasks": [3, 1, 1], "cpus_per_task": [1, 1, 1]}
    jobs |= {"qos": ["low", "low", "high"]}
    first, second, high = _starts_under(tmp_path, site, {"node_id": ["n1", "n2"], "cpus": [2, 2]}, jobs)
    assert first < high < 100 < second


def test_bought_nodes_join_partitions_and_get_features(tmp_path):
    """A node that no partition lists joins those that its type's name is given for; the listed stay where they are."""
    site = Site(partitions=(Partition(name="general", nodes="n1", default=True), Partition(name="gpu", nodes="n2")))
    ids = ["n1", "n2", "ComputeNode1-001", "GPUNode2-001", "Login-001"]
    kinds = ["node", "node", "ComputeNode1", "GPUNode2", "Login"]
    nodes = check(pd.DataFrame({"node_id": ids, "kind": kinds, "cpus": 4, "mem_mb": 100}), NODE)
    row = {"job_id": ["a"], "submit_time": [0], "requested_time": [60], "run_time": [1]}
    jobs = pd.DataFrame(row).assign(n_nodes=1, cpus_per_node=1, mem_mb_per_node=0, constraint="a100")
    joined = with_bought(site, "compute@general;gpu@general+gpu", "gpu@a100+new")
    layout = lay_out(joined, nodes, check(jobs, JOB))
    assert layout.partition_nodes.tolist() == [
        [True, False, True, True, False],
        [False, True, False, True, False],
    ]
    assert layout.places.nodes[0].tolist() == [False, False, False, True, False]
    assert idle_kinds(joined, nodes) == ["Login"]
    with pytest.raises(TableError, match="new nodes gpu: partition 'none' is not at the site; known: general, gpu"):
        with_bought(site, "gpu@none", "")
    write_site(site, nodes.head(2), tmp_path)
    (tmp_path / "site.toml").write_text((tmp_path / "site.toml").read_text() + '\n[new_nodes]\ngpu = ["general"]\n')
    with pytest.raises(TableError, match=r"new_nodes stands in the study that buys: \[site.new_nodes\]"):
        read_site(tmp_path)


def test_a_sweep_judges_packages_under_the_rules(tmp_path):
    """A package's waits in a sweep under policy slurm are those of one simulation of its nodes."""
    site = Site(partitions=(Partition(name="general", nodes="n1", default=True),))
    kept = pd.DataFrame({"node_id": ["n1"], "kind": ["node"], "cpus": 4, "mem_mb": 1000})
    names = {"node_id": ["ComputeNode-001", "Login-001"], "kind": ["ComputeNode", "Login"]}
    types = pd.DataFrame(names).assign(cpus=8, mem_mb=1000)
    write_site(site, check(kept, NODE), tmp_path)
    rows = {"job_id": [str(n) for n in range(20)], "submit_time": range(20), "run_time": 100}
    jobs = pd.DataFrame(rows).assign(requested_time=120, n_nodes=1, cpus_per_node=4, mem_mb_per_node=0)
    jobs, policy = check(jobs, JOB), f"slurm:site={tmp_path.as_posix()},new=compute@general"
    ready = prepare(jobs, check(pd.concat([kept, types], ignore_index=True), NODE))
    found, _ = simulate_rows(Bench("w", policy, ready, 1, None), ["p"], np.array([[2, 3]]))
    found = found.to_pandas()
    bought = pd.concat([kept, types.iloc[[0, 0, 1, 1, 1]]], ignore_index=True)
    bought["node_id"] = [f"{name}-{n}" if n else name for n, name in enumerate(bought["node_id"])]
    alone = simulate(jobs, check(bought, NODE), policy)
    assert found["status"].tolist() == ["ok"], found["reason"].tolist()
    assert found["mean_wait_time"].iloc[0] == pytest.approx(alone.metrics["mean_wait_time"])
    assert not alone.schedule["node_ids"].str.contains("Login").any()


def test_qos_that_end_each_other_and_are_requeued_are_refused(tmp_path):
    """Two jobs that run long would end each other for ever; where one of them is cancelled instead, they do not."""
    nodes = pd.DataFrame({"node_id": ["n1"], "cpus": 4, "mem_mb": 100})
    jobs = pd.DataFrame(
        {
            "job_id": ["1", "2"], "submit_time": [0, 41], "run_time": 400, "requested_time": 600, "n_nodes": 1,
            "cpus_per_node": 4, "mem_mb_per_node": 0, "qos": ["a", "b"],
        }
    )  # fmt: skip
    partitions = (Partition(name="p", nodes="ALL", default=True),)
    preemption = Preemption(type="qos", mode="requeue")
    for last, refused in (("requeue", True), ("cancel", False)):
        qos = (Qos(name="a", preempt=("b",)), Qos(name="b", preempt=("a",), preempt_mode=last))
        folder = tmp_path / last
        write_site(Site(partitions=partitions, qos=qos, preemption=preemption), nodes, folder)
        if refused:
            with pytest.raises(TableError, match=r"QOS a, b end each other .* for ever"):
                simulate(jobs, nodes, "slurm", parameters={"site": str(folder)})
        else:
            schedule = simulate(jobs, nodes, "slurm", parameters={"site": str(folder)}).schedule
            assert schedule["end_time"].notna().any()


def started(folder: Path, site: Site, nodes: pd.DataFrame, jobs: dict) -> pd.DataFrame:
    """Simulate jobs of one node and a CPU, or as they say, on a site of one partition."""
    site = site.model_copy(update={"partitions": (Partition(name="p", nodes="ALL", default=True),)})
    nodes = check(nodes.assign(node_id=[f"n{n + 1}" for n in range(len(nodes))], mem_mb=1000), NODE)
    write_site(site, nodes, folder)
    n_jobs = len(jobs["run_time"])
    usual = {"submit_time": 0, "n_nodes": 1, "cpus_per_node": 1, "mem_mb_per_node": 0, "requested_time": 600}
    table = pd.DataFrame(usual | {"job_id": [str(n) for n in range(n_jobs)]} | jobs)
    return simulate(check(table, JOB), nodes, Slurm(site=str(folder)), kill_at_limit=False).schedule


@pytest.mark.parametrize(("n_nodes", "gpus", "found"), [(1, 0, "n2"), (3, 0, "n1,n2,n3"), (1, 1, "n1")])
def test_of_neighbours_one_node_is_the_fullest_several_or_with_gpus_the_first(n_nodes, gpus, found, tmp_path):
    """Of nodes that hold it a job takes the fullest, if it is to take one without GPUs; others take the first ones."""
    nodes = pd.DataFrame({"cpus": [5, 4, 8, 4, 8], "gpus": 2})
    asked = {"run_time": [50], "cpus_per_node": 4, "n_nodes": n_nodes, "gpus_per_node": gpus}
    assert started(tmp_path, Site(priority=Priority(type="basic")), nodes, asked)["node_ids"].iloc[0] == found


@pytest.mark.parametrize(
    ("tasks", "weight", "found"),
    [
        (20, [1] * 6, "n1,n2,n3"),
        (10, [1] * 6, "n1,n2"),
        (12, [5, 5, 1, 5, 5, 5], "n3,n4"),
        (20, [1, 1, 5, 5, 5, 5], "n1,n2,n3"),
    ],
)
def test_tasks_take_the_leaf_with_the_fewest_nodes_and_light_nodes_first(tasks, weight, found, tmp_path):
    """A leaf fits by its nodes, not by their CPUs; of nodes with a lower weight all are taken: as Slurm 22.05 does."""
    nodes = pd.DataFrame({"cpus": 8, "leaf": [0, 0, 1, 1, 1, 1], "weight": weight})
    asked = {"run_time": [50], "n_tasks": tasks, "cpus_per_task": 1}
    site = Site(priority=Priority(type="basic"), select=Select(topology="tree"))
    assert started(tmp_path, site, nodes, asked)["node_ids"].iloc[0] == found


@pytest.mark.parametrize(("boot", "starts"), [("04:26:38", [0, 3]), ("04:26:39", [1, 4]), ("05:26:40", [2, 2])])
def test_periodic_work_goes_by_the_boot_that_a_configuration_shows(boot, starts, tmp_path):
    """It begins 1.5 s after BOOT_TIME: passes come each three seconds from then on, and by periods before it."""
    shown = f"Configuration data as of 2026-11-29T04:40:00\nBOOT_TIME = 2026-11-29T{boot}\n"
    (tmp_path / "slurm.conf").write_text("NodeName=n1 CPUs=8\nPartitionName=p Nodes=n1 Default=YES\n")
    (tmp_path / "config.txt").write_text(shown + "PriorityType = priority/basic\n")
    site = read_slurm(tmp_path).rules
    first = int(pd.Timestamp("2026-11-29T04:26:42Z").timestamp())
    jobs = {"run_time": [50, 50], "submit_time": [first, first + 2]}
    found = started(tmp_path / "site", site, pd.DataFrame({"cpus": [8]}), jobs)
    assert (found["start_time"] - first).tolist() == starts


def test_limits_are_free_at_an_end_before_its_nodes_are(tmp_path):
    """An end at 2.58 s lets the next job of its user start at 3.5, not on its own node, free a second later."""
    latency = Latency(clock=-2.5, job_end=1, pass_at_end=0)
    two = {"run_time": [2, 9], "submit_time": [0, 1], "cpus_per_node": 8}
    one_at_once = (Qos(name="q", limits=Limits(max_jobs_per_user=1)),)
    for n_nodes, start in ((2, 3), (1, 6)):
        site = Site(latency=latency, qos=one_at_once, enforce=("limits",))
        nodes = pd.DataFrame({"cpus": [8] * n_nodes})
        found = started(tmp_path / str(n_nodes), site, nodes, two | {"user": "u", "qos": "q"})
        assert found["start_time"].tolist() == [0, start]


def test_passes_keep_their_rhythm_through_an_empty_queue(tmp_path):
    """A pass that finds nothing to start comes all the same: who is submitted a second after it waits for the next."""
    site, nodes, jobs = site_case("priority", 1)
    latency = Latency(job_end=0, pass_at_end=0, clock=-3)
    scheduler = site.scheduler.model_copy(update={"backfill": False})
    write_site(site.model_copy(update={"latency": latency, "scheduler": scheduler}), nodes, tmp_path)
    three = jobs.head(3).assign(
        submit_time=[0, 1, 8], requested_time=60, run_time=[4, 20, 20], n_nodes=1, cpus_per_node=1, mem_mb_per_node=0
    )
    schedule = simulate(three, nodes, Slurm(site=str(tmp_path)), kill_at_limit=False).schedule.set_index("job_id")
    assert schedule.loc[three["job_id"], "start_time"].tolist() == [0, 3, 9]  # the end at 4 asks for a pass at 6


def test_a_limit_on_a_gpu_model_counts_jobs_that_name_it(tmp_path):
    """GrpTRES=gres/gpu:a100=2: the second job waits for the first; one that names no model goes by no such limit."""
    limited = Limits(grp_tres={"gres/gpu:a100": 2})
    site = Site(qos=(Qos(name="normal", limits=limited),), enforce=("limits",), priority=Priority(type="basic"))
    nodes = pd.DataFrame({"cpus": [8], "gpus": [8], "gpu_type": ["A100"]})
    jobs = {"run_time": [30] * 3, "gpus_per_node": [2, 1, 1], "gpu_type": ["a100", "a100", ""], "qos": "normal"}
    first, second, third = started(tmp_path, site, nodes, jobs)["start_time"]
    assert (first, third) == (1, 1) and second > 30
