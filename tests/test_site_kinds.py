"""Kinds of configurations that administrators have: read right, or named with what they may change."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from procure.comparison.waits import site_check, verdict
from procure.errors import TableError
from procure.run import simulate
from procure.site.layout import lay_out
from procure.site.model import Association, Limits, NodeEvent, Partition, Qos, Site
from procure.site.names import Known
from procure.site.partitions import in_each_partition
from procure.site.show import document
from procure.site.store import write_site
from procure.site.understand import read_slurm
from procure.tables import JOB, NODE, check

HEAD = "ClusterName=c\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n"
NODES = "NodeName=n[1-4] CPUs=8 RealMemory=8000\n"
ALL = "PartitionName=p Nodes=ALL Default=YES\n"
RESERVATION = "ReservationName=r StartTime=2024-05-01T08:00:00 EndTime=2024-05-02T08:00:00 Nodes=n1 "


@pytest.fixture
def site(tmp_path):
    """Write files into a folder, and read it."""

    def read(conf: str, **files: str):
        (tmp_path / "slurm.conf").write_text(conf if conf.startswith("Topology") else HEAD + conf)
        for name, text in files.items():
            (tmp_path / name.replace("__", ".")).write_text(text)
        return read_slurm(tmp_path)

    return read


def jobs(n: int, **columns) -> pd.DataFrame:
    given = {"job_id": [str(i) for i in range(n)], "user": "u", "submit_time": range(n), "run_time": 600}
    given |= {"requested_time": 3600, "n_nodes": 1, "cpus_per_node": 1, "mem_mb_per_node": 100}
    return check(pd.DataFrame(given | columns), JOB)


def starts(site: Site, table: pd.DataFrame, nodes: pd.DataFrame, folder) -> list[int | None]:
    write_site(site, nodes, folder / "site")
    found = simulate(table, nodes, f"slurm:site={folder / 'site'}").schedule["start_time"]
    return [None if pd.isna(one) else int(one) for one in found]


def test_node_sets_are_resolved(site):
    """By feature and by name, beside plain nodes."""
    found = site(
        "NodeName=w-14-01,x[2-3] CPUs=8\n"
        "NodeName=a[1-3] CPUs=8 Feature=big,fast\nNodeName=b1 CPUs=8\nNodeSet=large Feature=big\n"
        "NodeSet=own Nodes=\\\nb1,\\\nx2\nPartitionName=p Nodes=large,b1\nPartitionName=q Nodes=own\n"
    )
    assert [one.nodes for one in found.rules.partitions] == ["a1,a2,a3,b1", "b1,x2"]


@pytest.mark.parametrize(
    ("line", "cpus"),
    [
        ("CPUs=20 Sockets=2 CoresPerSocket=10 ThreadsPerCore=2", (20, 1)),
        ("CPUs=40 Sockets=2 CoresPerSocket=10 ThreadsPerCore=2", (40, 2)),
        ("CPUs=40 Sockets=2 CoresPerSocket=10 ThreadsPerCore=2 CoreSpecCount=3", (34, 2)),
        ("CPUs=0 Sockets=2 CoresPerSocket=10 ThreadsPerCore=0", (20, 1)),
        ("CPUTot=40 CPUEfctv=36 Sockets=2 CoresPerSocket=10 ThreadsPerCore=2 CoreSpecCount=2", (36, 2)),
        ("CPUs=40 Sockets=2 CoresPerSocket=10 ThreadsPerCore=2 CpuSpecList=0-1,20,21", (36, 2)),
        ("CPUs=40 Sockets=2 CoresPerSocket=10 ThreadsPerCore=2 CoreSpecCount=5 CpuSpecList=0-1,20,21", (36, 2)),
    ],
)
def test_usable_cpus_and_threads(site, line, cpus):
    """CPUs that equal cores have one thread each; reserved cores are no job's."""
    node = site(f"NodeName=n1 {line}\n{ALL}").nodes.iloc[0]
    assert (node["cpus"], node["threads_per_core"]) == cpus


def test_nodes_of_the_future_and_nodes_that_are_down(site):
    """FUTURE is no node; State=DOWN of a line and DownNodes are closed."""
    found = site(
        NODES + "NodeName=f[1-9] CPUs=8 State=FUTURE\nNodeName=x1 CPUs=8 State=DOWN\n"
        'DownNodes=n4 State=DRAIN Reason="bad dimm"\n' + ALL + "PartitionName=q Nodes=n[1-2],f[1-9]\n"
    )
    assert found.rules.partitions[1].nodes == "n1,n2"
    assert found.nodes["node_id"].tolist() == ["n1", "n2", "n3", "n4", "x1"]
    assert {(one.nodes, one.state) for one in found.rules.events} == {("n4", "drain"), ("x1", "down")}


def test_lines_are_joined_as_slurm_joins_them(site):
    """A comment goes before a backslash counts; several settings may stand on a line."""
    found = site(
        NODES + "#PartitionName=old Nodes=n1 \\\nPartitionName=p Nodes=n1 \\\n  Default=YES # the usual \\\n"
        "PriorityType=priority/basic EnforcePartLimits=ALL\n"
    )
    assert [(one.name, one.default) for one in found.rules.partitions] == [("p", True)]
    assert (found.rules.priority.type, found.rules.enforce_part_limits) == ("basic", "all")


def test_other_files_are_known_or_named(site):
    """plugstack.conf is no slurm.conf; what is none of Slurm's is named, and what is unknown in a line, too."""
    found = site(
        NODES + "PartitionName=p Nodes=ALL NewThing=3 AllowGroups=staff\nNewSetting=5\nMailProg=/bin/true\n",
        plugstack__conf="include /etc/x/*.conf\n", notes__txt="hello\n",
    )  # fmt: skip
    told = document(found)
    assert told["unread_files"] == ["notes.txt"]
    lines = {(one["setting"], one["file"], one["line"]) for one in told["not_understood"]}
    where = ("slurm.conf", 5)
    assert {
        ("partition p newthing", *where),
        ("partition p allowgroups", *where),
        ("newsetting", "slurm.conf", 6),
    } <= lines
    assert not any("mailprog" in one for one, *_ in lines)
    json.dumps(told)


def test_what_the_database_may_keep_back_is_named(site):
    """Of slurmdbd's settings, with their lines; those of Slurm that sacctmgr prints before them are not taken."""
    text = "Configuration data as of 2026-11-29T17:05:40\nPrivateData = none\nTrackWCKey = No\n\n"
    text += "SlurmDBD configuration:\nPrivateData = jobs,usage\nPurgeJobAfter = 12 months\nPurgeEventAfter = NONE\n"
    told = document(site(NODES + ALL, database__txt=text))
    found = {(one["setting"], one["file"], one["line"]) for one in told["not_understood"] if "dbd" in one["setting"]}
    assert found == {("slurmdbd privatedata", "database.txt", 6), ("slurmdbd purgejobafter", "database.txt", 7)}


def test_models_of_an_untyped_number_come_from_gres_conf(site):
    """Two of each of two models; GPUs that the node's line lacks are none, and said."""
    gres = "".join(f"NodeName=n1 Name=gpu Type={t} File=/dev/nvidia{i}\n" for i, t in enumerate(["a", "a", "b", "b"]))
    found = site(
        "GresTypes=gpu,shard\nNodeName=n1 CPUs=8 Gres=gpu:4,shard:8\nNodeName=n2 CPUs=8\n" + ALL,
        gres__conf=gres + "NodeName=n2 Name=gpu Type=c File=/dev/nvidia[0-1]\n",
    )
    assert found.nodes[["gpus", "gpu_type"]].to_numpy().tolist() == [[4, "2x a + 2x b"], [0, ""]]
    assert sum("gres" in one.setting for one in found.rules.not_understood) == 2


def test_a_count_of_gres_conf_that_is_no_number(site):
    """The line says where."""
    with pytest.raises(TableError, match=r"gres\.conf:1.*'x' was given"):
        site("NodeName=n1 CPUs=8 Gres=gpu:2\n" + ALL, gres__conf="Name=gpu Type=a Count=x\n")


def test_a_qos_that_is_not_defined_names_the_command(site):
    """All of them in one line."""
    with pytest.raises(TableError, match=r"p has QOS a, .*q has QOS b.*sacctmgr show qos --parsable"):
        site(NODES + "PartitionName=p Nodes=n1 QOS=a\nPartitionName=q Nodes=n1 QOS=b\n")


def test_tables_and_scripts_of_sacctmgr(site):
    """Aligned tables, a tree by its indents, scripts with -i, flags that are added."""
    qos = "      Name  MaxTRESPU \n---------- ---------- \n    normal            \n      long      cpu=2 \n"
    tree = "Account|User|Share|MaxJobs|\nroot||1||\n phys||1||\n  atom||1||\n  atom|eve|1|3|\n chem||1||\n"
    script = "set -e\nsacctmgr -i add qos fast; sudo /opt/bin/sacctmgr -i add user ann,bob account=chem\n"
    script += "".join(f"sacctmgr -i modify qos fast set flags{one}\n" for one in ("=DenyOnLimit", "+=OverPartQOS"))
    script += "sacctmgr -i update user ann set MaxJobs=4 && sacctmgr -i delete user bob\n"
    dump = "QOS - 'wide':MaxTRESPerUser='cpu=9':MaxWallDurationPerJob=60\nCluster - 'c':Fairshare=1\n"
    found = site(NODES + ALL, qos__txt=qos, assoc__txt=tree, more__script=script, all__cfg=dump).rules
    assert {one.name: one.limits.max_tres_per_user for one in found.qos} == {
        "normal": {}, "long": {"cpu": 2}, "fast": {}, "wide": {"cpu": 9},
    }  # fmt: skip
    assert {one.name: one.flags for one in found.qos}["fast"] == ("DenyOnLimit", "OverPartQOS")
    assert {one.user: one.limits.max_jobs for one in found.associations if one.user} == {"eve": 3, "ann": 4}
    parents = {one.account: one.parent for one in found.associations if not one.user}
    assert parents["phys"] == parents["chem"] == "root" and parents["atom"] == "phys"


def test_memory_that_is_not_consumed(site, tmp_path):
    """Under CR_CPU two jobs share a node whose memory holds one; what no node has is refused."""
    found = site("SelectTypeParameters=CR_CPU\nNodeName=n1 CPUs=2 RealMemory=7000\n" + ALL)
    table = jobs(3, mem_mb_per_node=[5000, 5000, 9000])
    begun = starts(found.rules, table, found.nodes, tmp_path)
    assert begun[2] is None and max(begun[:2]) < 600


def two_nodes() -> pd.DataFrame:
    return check(pd.DataFrame({"node_id": ["n1", "n2"], "cpus": 20, "mem_mb": 64_000}), NODE)


def test_a_partition_leaves_cpus_of_a_node_to_others(site, tmp_path):
    """MaxCPUsPerNode, as a real Slurm 22.05 was seen to: it refuses jobs that would take a node whole."""
    found = site("NodeName=n1 CPUs=36 RealMemory=8000\nPartitionName=p Nodes=n1 Default=YES MaxCPUsPerNode=32\n"
                 "PartitionName=g Nodes=n1\n")  # fmt: skip
    table = jobs(4, partition=["p", "p", "g", "p"], cpus_per_node=[20, 16, 4, 1], exclusive=["", "", "", "1"])
    table["requested_time"] = [3600, 3600, 600, 3600]
    begun = starts(found.rules, table, found.nodes, tmp_path)
    assert begun[1] >= 600 and begun[2] < 60 and begun[3] is None


def test_an_association_binds_in_its_partition_only(tmp_path):
    """MaxJobs=1 of partition a leaves the jobs of partition b alone."""
    site = Site(
        enforce=("associations", "limits"),
        partitions=(Partition(name="a", nodes="n1", default=True), Partition(name="b", nodes="n2")),
        associations=(
            Association(account="x"),
            Association(account="x", user="u", partition="a", limits=Limits(max_jobs=1)),
            Association(account="x", user="u", partition="b"),
        ),
        qos=(Qos(name="normal"),),
    )
    table = jobs(4, account="x", partition=["a", "a", "b", "b"])
    begun = starts(site, table, two_nodes(), tmp_path)
    assert begun[1] > begun[0] + 599 and max(begun[2:]) < 60


@pytest.mark.parametrize(("enforce", "third"), [("limits", True), ("safe", False)])
def test_minutes_of_billing(tmp_path, enforce, third):
    """Use that does not decay holds jobs once it reaches the bound; under safe also those that would pass it."""
    qos = Qos(name="q", flags=("NoDecay",), limits=Limits(grp_tres={"billing": 20}, grp_tres_mins={"billing": 300}))
    weights = {"cpu": 1.0, "mem": 0.25 / 1024}
    site = Site(
        enforce=("limits", enforce),
        partitions=(Partition(name="p", nodes="ALL", default=True, billing_weights=weights),),
        qos=(Qos(name="normal"), qos),
    )
    table = jobs(3, qos="q", cpus_per_node=16, mem_mb_per_node=4000, requested_time=600)
    begun = starts(site, table, two_nodes(), tmp_path)
    assert begun[0] < 60 and begun[2] is None
    assert (begun[1] is not None and 600 <= begun[1] < 660) if third else begun[1] is None


def test_a_check_ends_in_a_verdict(tmp_path):
    """A log that the rules made is foretold; of one whose jobs waited ten hours longer the waits are no forecast."""
    site = Site(partitions=(Partition(name="p", nodes="ALL", default=True),))
    write_site(site, two_nodes(), tmp_path / "site")
    run = simulate(jobs(30, cpus_per_node=20), two_nodes(), f"slurm:site={tmp_path / 'site'}")
    log = check(run.schedule, JOB)
    found = site_check(log, run)
    assert found["verdict"].eq("forecast").all() and "may be read" in verdict(found)
    late = log.assign(start_time=log["start_time"] + 36_000, end_time=log["end_time"] + 36_000)
    found = site_check(late, run)
    assert found["verdict"].eq("no forecast").all() and "no forecast" in verdict(found)


def test_a_weekly_reservation_comes_again(site, tmp_path):
    """A week later its nodes are closed for the same hours; one of some cores closes none, and is said."""
    shown = (
        "ReservationName=w StartTime=1970-01-08T14:00:00 EndTime=1970-01-08T18:00:00 Nodes=n[1-4] Flags=WEEKLY\n"
        "   Users=r\n\n"
        "ReservationName=h StartTime=1970-01-08T00:00:00 EndTime=1970-03-08T00:00:00 Nodes=n1 CoreCnt=2\n"
        "   NodeName=n1 CoreIDs=0-1\n   Users=r\n"
    )
    found = site(NODES + ALL, reservation__txt=shown)
    assert any(one.setting == "reservation h" for one in found.rules.not_understood)
    at = [7 * 86_400 + 15 * 3600, 14 * 86_400 + 15 * 3600]
    begun = starts(found.rules, jobs(2, submit_time=at), found.nodes, tmp_path)
    assert [one // 3600 for one in begun] == [7 * 24 + 18, 14 * 24 + 18]
    begun = starts(found.rules, jobs(2, submit_time=at, user="r", reservation="w"), found.nodes, tmp_path)
    assert [one // 3600 for one in begun] == [7 * 24 + 15, 14 * 24 + 15]


@pytest.mark.parametrize(
    ("conf", "setting", "word"),
    [
        (f"NodeName=n1 RealMemory=9\n{ALL}", "CPUs", "not given"),
        (f"NodeName=n1 CPUs=9\n{ALL}", "RealMemory", "not given"),
        (f"NodeName=n1 CPUs=24 Sockets=2 CoresPerSocket=6 RealMemory=9\n{ALL}", "CPUs", "12"),
        (f"NodeName=n1 CPUs=9 RealMemory=9 State=CLOUD\n{ALL}", "State", "CLOUD"),
        (f"FastSchedule=0\n{NODES}{ALL}", "FastSchedule", "report"),
        (f"NodeName=n1 CPUs=9 RealMemory=9 Gres=gpu:2\n{ALL}", "node n1 gres", "GresTypes"),
        (f"AccountingStorageEnforce=2\n{NODES}{ALL}", "associations", "assoc"),
        (f"AccountingStorageEnforce=YES\n{NODES}{ALL}", "AccountingStorageEnforce", "nothing"),
        (f"SelectType=\n{NODES}{ALL}", "SelectType", "linear"),
        (f"SelectTypeParameters=CR_Core,CR_ONE_TASK_PER_CORE\nNodeName=n1 CPUs=8 ThreadsPerCore=2\n{ALL}",
         "SelectTypeParameters cr_one_task_per_core", "core"),
        (f"TopologyPlugin=topology/tree\n{NODES}{ALL}", "TopologyPlugin", "missing"),
        (NODES + "PartitionName=p Nodes=ALL OverSubscribe=FORCE:4\n", "partition p OverSubscribe", "share"),
        (NODES + "PartitionName=p Nodes=ALL AllowQos+=x\n", "AllowQos+=x", "not a setting"),
        (f"NodeName=n[1-4] TO_BE_FILLED CPUs=8\n{ALL}", "TO_BE_FILLED", "not a setting"),
        (f"PriorityWeightFairshare=5\n{NODES}{ALL}", "associations", "assoc"),
        (f"SchedulerParameters=sched_interval=-1\n{NODES}{ALL}", "SchedulerParameters sched_interval", "is off"),
        (f"PriorityWeightTRES=cpu=5,license/x=9\n{NODES}{ALL}", "PriorityWeightTRES", "nothing"),
        (f"NodeName=n1 CPUs=9 RealMemory=9 Gres=gpu:2K\n{ALL}", "node n1 gres", "of GPUs none"),
        (NODES + "PartitionName=a,b Nodes=ALL\n", "partition a,b", "no job"),
        (f"PreemptType=preempt/qos\n{NODES}{ALL}", "QOS", "qos"),
        (f"NodeName=n1 CPUs=9 RealMemory=9 State=Drian\n{ALL}", "State", "no state"),
        (f"PreemptType=preempt/partition_prio\n{NODES}{ALL}", "PreemptMode", "does not start"),
        (f"NodeSet=a Nodes=n1\nNodeSet=a Nodes=n2\n{NODES}{ALL}", "a", "this one counts"),
        (f"PreemptMode=REQUEUE\n{NODES}{ALL}", "PreemptMode", "does not start"),
        (f"SlurmctldParameters=max_powered_nodes=2\n{NODES}{ALL}", "SlurmctldParameters", "max_powered_nodes"),
        (NODES + "PreemptType=preempt/partition_prio\nPartitionName=p Nodes=ALL PreemptMode=WITHIN\n",
         "partition p PreemptMode", "WITHIN"),
        (f"PreemptType=preempt/qos\nPreemptMode=CHECKPOINT\n{NODES}{ALL}", "PreemptMode", "not simulated"),
        (NODES + "PartitionName=p Nodes=ALL TRESBillingWeights=GRES/nic:a=9\n",
         "partition p tresbillingweights", "billing"),
        (NODES + "PartitionName=p Nodes=ALL Topology=other\n", "partition p topology", "default"),
        (NODES + "PartitionName=p Nodes=ALL OverTimeLimit=UNLIMITED\n", "partition p overtimelimit", "limit"),
        (NODES + "PartitionName=p Nodes=ALL Exclusive=USER\n", "partition p exclusive", "only NODE"),
        (f"PriorityWeightAge=5\n{NODES}{ALL}", "PriorityType", "basic"),
        (f"AccountingStorageEnforce=limits\n{NODES}{ALL}", "AccountingStorageType", "slurmdbd is taken"),
        (f"SelectTypeParameters=\n{NODES}{ALL}", "SelectTypeParameters", "not given"),
        (f"SelectTypeParameters=CR_Memory\n{NODES}{ALL}", "SelectTypeParameters", "does not start"),
        (f"FastSchedule=1\n{NODES}{ALL}", "SchedulerParameters bf_max_job_test", "100 until"),
        (f"FastSchedule=1\nPriorityWeightFairshare=5\n{NODES}{ALL}", "PriorityFlags", "FAIR_TREE"),
        (NODES + "PartitionName=p Nodes=ALL AllowAccounts=a\n", "AllowAccounts", "binds nobody"),
        (NODES + "PartitionName=p Nodes=ALL TRESBillingWeights=GRES/gpu=9\n", "AccountingStorageTRES", "does not name"),
        (f"PriorityWeightTRES=GRES/gpu=9\n{NODES}{ALL}", "AccountingStorageTRES", "does not name"),
        (f"AccountingStorageType=accounting_storage/none\nPriorityWeightFairshare=5\n{NODES}{ALL}",
         "priorityweightfairshare", "no effect"),
    ],
)  # fmt: skip
def test_what_decides_a_start_and_is_not_given_is_named(site, conf, setting, word):
    """Each with what it is taken to be, or may change."""
    assert [one for one in site(conf).rules.not_understood if one.setting == setting and word in one.effect]


@pytest.mark.parametrize(
    ("name", "text", "setting", "word"),
    [
        ("qos__txt", "Name|Flags|\nnormal||\nq|NoReserve,DenyOnLimit|\n", "flags", "flag"),
        ("gres__conf", "Name=gpu File=/dev/nvidia[0-1]\n", "node g gres", "drains"),
        ("qos__txt", "Name|PreemptMode|\nnormal|within|\n", "QOS normal PreemptMode", "WITHIN"),
        ("all__cfg", "Cluster - 'd'\nParent - 'root'\nAccount - 'a':FairShare=1\n", "cluster", "ClusterName"),
        ("all__cfg", "Cluster - 'c'\nParent - 'root'\nAccount - 'a':GrpTRES=gres/nic=4\n", "grptres", "gres/nic"),
        ("make__sh", "sacctmgr -i modify qos set MaxWall=3-0\n", "modify qos", "changes all"),
        ("make__sh", "sacctmgr -i add user u account=a cluster=d\n", "add user", "of cluster d"),
        ("assoc__txt", "Cluster|Account|User|\nd|a||\n", "cluster", "ClusterName"),
        ("make__sh", "sacctmgr -i add account a\nsacctmgr -i add account $x\n", "line", "variable"),
        ("resv__txt", RESERVATION + "Groups=g\n", "reservation r", "groups"),
        ("resv__txt", RESERVATION + "Flags=FLEX\n",
         "reservation r", "closed"),
        ("resv__txt", RESERVATION + "CoreCnt=2 Flags=\n", "reservation r", "cores"),
        ("resv__txt", RESERVATION + "Flags=MAGNETIC\n", "reservation r", "outside"),
        ("qos__txt", "Name|Priority|\nnormal|0|\nlong|1|9|\n", "line", "row"),
        ("assoc__txt", "   Account       User \n---------- ---------- \na          averylong+ \n",
         "User=averylong+", "cut"),
        ("assoc__txt", "Account||User\na|3|\n", "column without a name", "association"),
        ("share__txt", "Account|User|RawShares|RawUsage|\nroot|||9|\n", "sshare", "limits are unknown"),
        ("resource__txt", "Name|Server|Count|Flags|\nansys|flex|20|Absolute|\n", "file", "sacctmgr"),
        ("assoc__txt", "Account|User|QOS|MaxJobs|\na||normal||\n", "QOS", "put beside"),
        ("config__txt", "Configuration data as of 1\nSelectType = select/linear\nClusterName = c\n",
         "settings", "has other values"),
        ("partition__txt", "PartitionName=p\n   Default=NO QoS=N/A\n   Nodes=n[1-4] SuspendTime=GLOBAL\n",
         "partition p", "has other values"),
        ("share__txt", "Account|User|RawShares|RawUsage|FairShare|\nroot|||9||\n a||1|9||\n", "sshare RawUsage", "ran"),
        ("topology__conf", "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=c Switches=a,b\n"
         "SwitchName=d Switches=a\n", "topology", "network"),
        ("topology__yaml", "- topology: t\n  cluster_default: true\n  block:\n    block_sizes: [4]\n    blocks:\n"
         "      - block: b\n        nodes: n[1-4],g\n", "TopologyPlugin", "leaf switches"),
        ("qos__txt", "Name|Priority|\nlong|1|\n", "columns", "taken as none"),
        ("assoc__txt", "Account|User|MaxJobs|Flags|\na||||\nb|||Deleted|\n", "rows", "withdeleted"),
        ("make__sh", "sacctmgr -i add user u acc=a\n", "add user", "no account"),
        ("assoc__txt", "Account|User|MaxJobs|\nroot|||\na|||\na|u||\nb|||\n", "ParentName", "below root"),
        ("node__txt", "NodeName=n1 CPUTot=8 RealMemory=8000 Gres=gpu:1 State=IDLE\n",
         "CPUs, RealMemory, Gres, Feature, Weight", "count here"),
        ("resv__txt", RESERVATION + "Flags=TIME_FLOAT\n", "reservation r", "ever later"),
        ("resv__txt", RESERVATION + "Flags=PURGE_COMP=00:05:00\n", "reservation r", "nobody uses"),
        ("node__txt", "NodeName=m CPUTot=8 RealMemory=8000 State=IDLE*\n", "State", "1 node from m on did not answer"),
        ("resv__txt", RESERVATION + "MaxStartDelay=9\n", "reservation r maxstartdelay", "not known"),
        ("qos__txt", "Name|Priority|Preempt|MaxWall|\nnormal|0|gone||\nq|1|||\n", "QOS", "no table has"),
        ("all__cfg", "Cluster - 'c':QOS='normal,dumped'\nAccount - 'a':MaxJobs=1\n", "QOS", "no table has"),
        ("slurmdbd__conf", "PurgeJobAfter=6months\nDbdHost=h\n", "slurmdbd purgejobafter", "gone from sacct"),
    ],
)  # fmt: skip
def test_what_the_database_says_beyond_the_model_is_named(site, name, text, setting, word):
    """Flags, limits of a whole cluster, variables of a shell, who may not use a reservation."""
    more = "PreemptType=preempt/qos\nPreemptMode=CANCEL\nGresTypes=gpu\nNodeName=g CPUs=8 RealMemory=8000 Gres=gpu:3\n"
    told = site(more + NODES + ALL, **{name: text}).rules.not_understood
    assert [one for one in told if one.setting == setting and word in one.effect]


def test_what_stands_in_several_places(site):
    """As Slurm 22.05 decides: Priority above its parts, memory per node above that per CPU, a line above DEFAULT."""
    found = site(
        "NodeName=DEFAULT Feature=x CPUs=8 RealMemory=8000\nNodeName=n1 Features=y\nNodeName=n2\n"
        "PartitionName=DEFAULT PriorityTier=3 PriorityJobFactor=5 DefMemPerCPU=100\n"
        "PartitionName=p Nodes=All Default=YES Priority=9 DefMemPerNode=500 QOS=Part\n",
        qos__txt="Name|GrpTRES|\npart|cpu=9|\n",
        nodes__conf__old="NodeName=o CPUs=1\n",
        assoc__txt="Account|User|Flags|\na||Deleted|\nb|||\n",
    )
    (one,) = found.rules.partitions
    assert found.nodes["features"].tolist() == ["y", "x"] and (one.nodes, one.qos) == ("ALL", "part")
    assert (one.priority_tier, one.priority_job_factor) == (9, 9)
    table = jobs(1, cpus_per_node=4, mem_mb_per_node=0)
    assert Known(found.rules, found.nodes, table).memory(table["cpus_per_node"].to_numpy()).tolist() == [500]
    assert "nodes.conf.old" in document(found)["unread_files"]
    assert [each.account for each in found.rules.associations] == ["b"]
    for name in ("<HOST>", "$NODE", "'n1'"):
        with pytest.raises(TableError, match="host list"):
            site(f"NodeName={name} CPUs=1 RealMemory=1\n{ALL}")


def test_a_script_as_sacctmgr_takes_it(site):
    """A command over two lines; several partitions; a change of all that a user, or an account, has."""
    found = site(
        f"{NODES}NodeSet=r1 Nodes=n1\nNodeSet=r2 Nodes=n2\n{ALL}PartitionName=q Nodes=r[1-2] MaxTime=-1\n",
        make__sh="sacctmgr -i add accounts a \\\n  MaxJobs=4\nsacctmgr -i add user u account=a partition=p,q\n"
        "sacctmgr -i add user v account=b\nsacctmgr -i modify user u set MaxJobs=2\n"
        "sacctmgr -i modify user where account=b set MaxJobs=3\n",
    )
    root, *others = sorted(found.rules.associations, key=lambda each: each.account != "root")
    of = {(each.account, each.user, each.partition): each.limits.max_jobs for each in others}
    assert (root.account, root.qos) == ("root", ("normal",))
    assert of == {("a", "", ""): 4, ("a", "u", "p"): 2, ("a", "u", "q"): 2, ("b", "v", ""): 3}
    assert found.rules.partitions[1].nodes == "n1,n2" and found.rules.partitions[1].max_time is None
    with pytest.raises(TableError, match=r"licenses.*number"):
        site(f"Licenses=a:x\n{NODES}{ALL}")


def test_what_slurm_does_not_start_with_is_refused(site):
    with pytest.raises(TableError, match=r"no partition.*slurm.conf:5 sets defaults only"):
        site(NODES + "PartitionName=default Nodes=ALL\n")
    with pytest.raises(TableError, match=r"cpuspeclist: 'a' was given; a number"):
        site("NodeName=n1 CPUs=8 CpuSpecList=a RealMemory=9\n" + ALL)
    with pytest.raises(TableError, match=r"n1 would have 0 CPUs"):
        site("NodeName=n1 CPUs=8 CoreSpecCount=8 RealMemory=9\n" + ALL)
    with pytest.raises(TableError, match=r"slurm.conf:5: a line holds one"):
        site(NODES + "PartitionName=p Nodes=n1 PartitionName=q Nodes=n2\n")
    with pytest.raises(TableError, match=r"slurm.conf:5, partition p lln: 'on' was given; YES or NO"):
        site(NODES + "PartitionName=p Nodes=ALL LLN=on\n")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("NodeName=x CPUs=1 RealMemory=64G", "x realmemory: '64G'"), ("NodeName=x CPUs=1 Weight=-4", "x weight: '-4'"),
        ("PriorityWeightAge=-4", "priorityweightage: '-4'"), ("PriorityCalcPeriod=0", "prioritycalcperiod: '0'"),
        ("SchedulerParameters=sched_interval=0", "SchedulerParameters sched_interval: '0'"),
        ("PreemptMode=foo", "preemptmode: 'foo'"),
        ("PartitionName=x PreemptMode=foo", "partition x preemptmode: 'foo'"),
    ],
)  # fmt: skip
def test_a_value_that_slurm_does_not_take_is_refused_with_its_line(site, line, word):
    """Numbers have no suffix but K, and are from 0 on."""
    with pytest.raises(TableError, match=rf"slurm\.conf:4, {word} was given"):
        site(f"{line}\n{NODES}{ALL}")
    assert site("NodeName=n1 RealMemory=64K\n" + ALL).nodes["mem_mb"].tolist() == [65536]
    assert not site(f"SchedulerParameters=bf_interval=-1\n{NODES}{ALL}").rules.scheduler.backfill


def test_models_that_gres_conf_and_a_node_do_not_share(site):
    conf = "GresTypes=gpu\nNodeName=n[1-2] CPUs=8 RealMemory=9 Gres=gpu:a:2\n" + ALL
    found = site(conf, gres__conf="NodeName=n1 Name=gpu Type=b Count=2\nNodeName=n2 Name=gpu Count=2\n")
    assert [one.value for one in found.rules.not_understood] == ["0 of 2"]


ENFORCED = "AccountingStorageEnforce=associations,limits,qos\n" + NODES
USERS = "Account|User|GrpTRES|QOS|Def QOS|ParentName|\nroot|||||\ntop|||normal,q|q|root|\n"


def test_the_first_that_sets_a_limit_decides_whether_a_job_ever_starts(site, tmp_path):
    """A QOS above its association; QOS of the accounts above, and only these."""
    table = USERS + "a||cpu=4|||top|\nb|||||top|\na|u|||||\nb|v||normal|||\n"
    found = site(ENFORCED + ALL, qos__txt="Name|GrpTRES|\nnormal||\nq|cpu=16|\nz||\n", assoc__txt=table)
    given = jobs(4, account=["a", "a", "a", "b"], user=[*"uuuv"], qos=["", "normal", "z", "q"], cpus_per_node=8)
    begun = starts(found.rules, given, found.nodes, tmp_path)
    assert begun[0] is not None and begun[1:] == [None] * 3


def test_a_reservation_of_accounts_takes_no_others(site, tmp_path):
    """Those below them, too; where users stand beside, both must be right; -u takes all but u."""
    table = USERS + "a|||||top|\nb|||||root|\na|u|||||\nb|v|||||\na|w|||||\nb|x|||||\n"
    shown = RESERVATION + "Users=u,v Accounts=top Flags=\n"
    shown += RESERVATION.replace("=r ", "=s ").replace("n1", "n2") + "Users=-v Accounts=-top\n"
    found = site(ENFORCED + ALL, assoc__txt=table, resv__txt=shown, qos__txt="Name|Priority|\nnormal|0|\nq|0|\n")
    at = found.rules.reservations[0].start
    given = jobs(5, account=[*"ababb"], user=[*"uvwvx"], reservation=[*"rrrss"], submit_time=at)
    assert [one is None for one in starts(found.rules, given, found.nodes, tmp_path)] == [False] + [True] * 3 + [False]


def test_what_a_partition_never_takes(site, tmp_path):
    """MaxTime and MaxNodes of 0; a limit above MaxTime beside one of MaxTime; licences that the site lacks."""
    parts = "PartitionName=p Nodes=ALL Default=YES MaxTime=600\nPartitionName=z Nodes=ALL Maxtime=0\n"
    found = site(f"Licenses=a:2\n{NODES}{parts}PartitionName=y Nodes=ALL MaxNodes=0\n")
    table = jobs(7, partition=["p", "p", "z", "y", "p", "p", "p"], requested_time=[36_060, 36_000] + [600] * 5)
    table["licenses"] = ["", "", "", "", "a:3", "b", "a"]
    begun = starts(found.rules, table, found.nodes, tmp_path)
    assert [one is None for one in begun] == [True, False, True, True, True, True, False]
    with pytest.raises(TableError, match=r"job 0: licenses 'a:1\|b:1' was given"):
        starts(found.rules, table.assign(licenses="a:1|b:1"), found.nodes, tmp_path)


def test_a_job_of_several_partitions_starts_in_the_first_that_takes_it(site, tmp_path):
    """Where it ran does not bind it; of those that it names one may refuse it, or be moved to since."""
    parts = "PartitionName=p Nodes=n1 Default=YES MaxNodes=1\nPartitionName=q Nodes=n2\nPartitionName=r Nodes=n2\n"
    found = site(NODES + parts)
    table = jobs(4, partition=["p", "q", "q,p", "r"], run_time=500, n_nodes=[1, 1, 2, 1], cpus_per_node=8)
    table = table.assign(partitions=["", "p,q", "", "p,q"], requested_time=600)
    write_site(found.rules, found.nodes, tmp_path / "s")
    told = simulate(table, found.nodes, f"slurm:site={tmp_path / 's'}", kill_at_limit=False).schedule
    assert told["partition"].tolist() == ["p", "q", "q", "r"]
    assert in_each_partition(table.drop(columns="partition"))[0]["partition"].tolist() == ["", "p", "", "p", "q", "q"]
    assert told["node_ids"].iloc[:2].tolist() == ["n1", "n2"] and told["start_time"].isna().tolist()[2]


@pytest.mark.parametrize("of", ["partition", "qos"])
def test_tasks_keep_to_the_nodes_that_a_job_may_have(site, tmp_path, of):
    """Six tasks wait for one node where MaxNodes is 1, though two have three CPUs each."""
    part = "PartitionName=p Nodes=n[1-2] Default=YES" + " MaxNodes=1" * (of == "partition")
    found = site(f"{ENFORCED}{part}\n", qos__txt="Name|MaxTRES|\nnormal|node=1|\n" if of == "qos" else "")
    table = jobs(3, cpus_per_node=[5, 5, 6], mem_mb_per_node=0).assign(n_tasks=[5, 5, 6], cpus_per_task=1, min_nodes=1)
    assert starts(found.rules, table, found.nodes, tmp_path)[2] >= 600


@pytest.mark.parametrize(("old", "new", "word"), [("2024-05-02T08", "now", "a time"), ("n1", "gone", "define")])
def test_a_reservation_that_cannot_be_read_is_refused_with_its_line(site, old, new, word):
    with pytest.raises(TableError, match=f"resv.txt:1.*reservation r.*{word}"):
        site(NODES + ALL, resv__txt=RESERVATION.replace(old, new))


def test_a_topology_as_slurm_reads_it(site):
    """Spaces around =, lines that go on, nodes under no switch, words of TopologyParam."""
    found = site(
        f"TopologyPlugin=topology/tree\nTopologyParam=dragonfly,RoutePart\n{NODES}{ALL}",
        topology__conf="SwitchName = a Nodes = n[1-2]\nSwitchName=b \\\n Nodes=n3\nSwitchName=t Switches=a,b\n",
    )
    told = {one.setting: one.value for one in found.rules.not_understood}
    assert found.nodes["leaf"].fillna(-1).tolist() == [0, 0, 1, -1]
    assert told["topology"] == "n4" and "TopologyParam dragonfly" in told


def test_what_stands_twice_or_nowhere(site, tmp_path):
    """The last default partition stands; a file that is not included counts for nothing; a template is no setting."""
    twice = NODES + ALL + "PartitionName=q Nodes=n1 Default=YES MaxTime=60 DefaultTime=90\nSelectType=select/linear\n"
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "c.conf").write_text("Licenses=x:2\n")  # of cluster c
    more = "SelectTypeParameters=\nInclude conf/%c.conf\nPriorityMaxAge=INFINITE\n"
    found = site(twice + more, old__conf="NodeName=o1\nPartitionName=o Nodes=o1\n")
    assert found.rules.licenses == {"x": 2} and found.rules.priority.max_age == 10**9
    assert [(one.name, one.default) for one in found.rules.partitions] == [("p", False), ("q", True)]
    assert not found.rules.select.memory and document(found)["unread_files"] == ["old.conf"]
    for line in (
        "NodeName={{ names }} CPUs=8", "DefMemPerCPU=4G", "NodeName=a[1-4", "PartitionName=x State=idle",
        "Include conf.d/*.conf", "DownNodes=z State=DOWN", "NodeName=x RealMemory=9 MemSpecLimit=9",
    ):  # fmt: skip
        with pytest.raises(
            TableError, match=r"slurm\.conf:4.*(template|number|list|allowed|pattern|z; define|for jobs)"
        ):
            site(f"{line}\n{NODES}{ALL}")
    for line in ("NodeName=n3 CPUs=9\n", ALL, "PartitionName=x Nodes=n[1-9]\n"):
        with pytest.raises(TableError, match=r"slurm\.conf:6.*(in line [45] of slurm\.conf|n5)"):
            site(f"{NODES}{ALL}{line}")


def test_tables_of_several_clusters_and_words_relative_to_an_account(site):
    """Rows of ClusterName count alone; +long adds to what is above; usage is that of sshare."""
    found = site(
        NODES + ALL,
        assoc__txt="Cluster|Account|User|Share|QOS|\nc|root||1|normal|\nc|a||5|+long|\nc|a|o'b|1||\nd|a||9|x|\n",
        share__txt="Account|User|RawShares|RawUsage|\nroot|||9|\n a||5|7|\n  a|o'b|1|7|\n",
        qos__txt="Name|\nnormal|\n", cfg__txt="Cluster - 'c':Fairshare=1\nParent - 'a'\nUser - 'o'b':MaxJobs=2\n",
    ).rules  # fmt: skip
    a, user = (one for one in found.associations if one.account == "a")
    assert (a.shares, a.qos, a.usage) == (5, ("normal", "long"), 7.0)
    assert (user.user, user.limits.max_jobs, user.usage) == ("o'b", 2, 7.0)


def test_usage_that_sshare_told_after_the_log_is_that_without_the_logs_jobs(site, tmp_path):
    """Of a month's log sshare runs at its end; taken for the beginning, it would put whoever ran last."""
    share = "Account|User|RawShares|RawUsage|\nroot|||{0}|\n a||1|{0}|\n  a|u|1|{0}|\n"
    usage, begin = 4000.0, 1_700_000_000
    for second in range(20_000):  # a job of 8 CPUs from 2000 until 7000
        usage = usage * 0.5 ** (1 / 10_000) + 8 * (2000 <= second < 7000)
    found = site(
        f"PriorityDecayHalfLife=02:46:40\nPriorityCalcPeriod=1\n{NODES}{ALL}",
        share__txt=share.format(usage), config__txt=f"Configuration data as of {begin + 20_000}\nX = 1\n",
        assoc__txt="Account|User|Share|\nroot|||\n a||1|\n a|u|1|\n",
    )  # fmt: skip
    log = jobs(2, user="u", account="a", submit_time=begin, cpus_per_node=[8, 1], run_time=[5000, 99])
    log["start_time"] = [begin + 2000, begin + 20_000]
    layout = lay_out(found.rules, found.nodes, log)
    assert not [one for one in found.rules.not_understood if "RawUsage" in one.setting]
    assert layout.tree.usage[layout.jobs.association[0]] == pytest.approx(4000, rel=0.01)
    assert layout.tree.usage.max() == pytest.approx(4000, rel=0.01)
    (tmp_path / "config.txt").unlink()
    told = read_slurm(tmp_path, "UTC").rules.not_understood
    assert [one for one in told if one.setting == "sshare RawUsage" and "is not known" in one.effect]


def test_past_reservations_of_the_database(site):
    """Each time is one of its own; what scontrol shows, or repeats, stands once."""
    rows = "Name|TimeStart|TimeEnd|NodeName|Flags|TRES|\nr|2024-05-01T08:00:00|2024-05-02T08:00:00|n1||cpu=8|\n"
    rows += "r|2024-04-01T08:00:00|2024-04-02T08:00:00|n1||cpu=8|\n"
    rows += "old|2024-04-03T08:00:00|2024-04-04T08:00:00|gone,n2||cpu=8|\n"
    found = site(NODES + ALL, resv__txt=RESERVATION + "Flags=\n", past__txt=rows).rules.reservations
    assert [(one.name, one.nodes) for one in found] == [("r", "n1"), ("r~1", "n1"), ("old", "n2")]
    assert Known(
        Site(partitions=(Partition(name="p", nodes="ALL", default=True),), reservations=found),
        two_nodes(),
        jobs(2, reservation="r", submit_time=[found[1].start, found[0].start]),
    ).reservation().tolist() == [1, 0]


def test_tasks_take_whole_cores_of_each_of_their_nodes(site, tmp_path):
    """Placed as Slurm 22.05 did it: on cores of two threads a node's tasks, and their memory, are rounded up.

    7 tasks on one node, 6 on two, 4 of three CPUs, and 7 where 4 and 2 are left and a third node has no threads.
    """
    found = site(
        "NodeName=n[1-2] CPUs=16 Sockets=1 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=16000\n"
        f"NodeName=v1 CPUs=8 RealMemory=24000 Weight=10\n{ALL}"
    )
    tasks, each, least = [7, 6, 4, 7, 1], [1, 1, 3, 1, 1], [1, 2, 1, 1, 1]
    table = jobs(5, n_nodes=least, cpus_per_node=[7, 3, 12, 7, 1], mem_mb_per_node=0, run_time=[600] * 4 + [60])
    table = table.assign(n_tasks=tasks, cpus_per_task=each, mem_mb_per_task=[900, 900, 800, 900, 0], min_nodes=least)
    write_site(found.rules, found.nodes, tmp_path / "site")
    done = simulate(check(table, JOB), found.nodes, f"slurm:site={tmp_path / 'site'}").schedule
    assert done["node_ids"].tolist()[:4] == ["n1", "n1,n2", "n2", "n1,n2,v1"]
    assert done["node_tasks"].tolist()[:4] == ["7", "4,2", "4", "4,2,1"]
    assert done["node_ids"].iloc[4] == "v1"  # what the odd task of the first leaves of its core is nobody's


@pytest.mark.parametrize(("noted", "third"), [(100, 200), (180, 60), (95, 60)])
def test_a_drain_is_noted_when_the_last_job_leaves(noted, third, tmp_path):
    """A node takes no job since it did not take one for that which left first; a drain of an idle node is as noted."""
    event = NodeEvent(nodes="n1", start=noted, end=noted + 200)
    rules = Site(partitions=(Partition(name="p", nodes="ALL", default=True),), events=(event,))
    table = jobs(4, submit_time=[0, 0, 10, 60], run_time=[50, 200, 90, 20], cpus_per_node=[4, 8, 4, 4])
    table = table.assign(start_time=[0, 0, 10, 200], node_ids=["n1", "n2", "n1", "n2"], mem_mb_per_node=0)
    nodes = check(pd.DataFrame({"node_id": ["n1", "n2"], "cpus": 8, "mem_mb": 0, "gpus": 0}), NODE)
    found = starts(rules, table, nodes, tmp_path)
    assert abs(found[3] - third) < 10


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("all__cfg", "# of today\nCluster - 'c':GrpJobs=1:QOS='normal'\nAccount - 'a'\nParent - 'a'\nUser - 'u'\n"),
        ("assoc__txt", "Account|User|GrpJobs|QOS|\nroot||1|normal|\na||||\na|u|||\n"),
        ("make__sh", "sacctmgr -i modify cluster c set GrpJobs=1\nsacctmgr -i add account A\n"
         "sacctmgr -i add user U account=a\n"),
    ],
)  # fmt: skip
def test_what_root_has_holds_for_all(site, tmp_path, name, text):
    """Its limits, and its QOS, normal where none is given; as a real Slurm 22.05 did; sacctmgr keeps small letters."""
    found = site(ENFORCED + ALL, **{name: text, "qos__txt": "Name|GrpTRES|\nnormal||\nhigh||\n"})
    begun = starts(found.rules, jobs(3, account="a", qos=["", "", "high"]), found.nodes, tmp_path)
    assert begun[0] < 60 and begun[1] >= 600 and begun[2] is None


def test_minus_one_takes_back_and_plus_adds(site):
    """Of QOS and users: the usual priority, factor and share, no limit; one more QOS to end."""
    script = "set -e\necho hello; if ! sacctmgr -n list qos; then sacctmgr -i add qos a,b,c; fi\n"
    script += "sacctmgr -i mod qos c set Priority=9 MaxWall=60 UsageFactor=2 Preempt=a\n"
    script += "sacctmgr -i modify qos c set Priority=-1 MaxWall=UNLIMITED UsageFactor=-1 Preempt+=b\n"
    script += "sacctmgr -i add account x FairShare=7 Priority=3\n"
    script += "sacctmgr -i modify account x set FairShare=-1 Priority=-1\n"
    found = site(NODES + ALL, make__sh=script).rules
    last = found.qos[-1]
    assert (last.name, last.preempt, last.limits) == ("c", ("a", "b"), Limits())
    assert (last.priority, last.usage_factor) == (0, 1.0)
    assert [(one.shares, one.priority) for one in found.associations if one.account == "x"] == [(1, 0)]
    assert not [one for one in found.not_understood if one.effect == "not read"]


def test_a_script_that_hides_what_it_says(site):
    """Where its answers go is no name; a variable may hold the command, as in the simulators' scripts."""
    script = "SACCTMGR=/opt/bin/sacctmgr\n$SACCTMGR -i add qos a set priority=9 >/dev/null 2>&1 || true\n"
    script += "${SACCTMGR} -i add account x fairshare=3 &> /tmp/log\n$ sacctmgr -i add account y fairshare=4\n"
    found = site(NODES + ALL, make__sh=script).rules
    assert [(one.name, one.priority) for one in found.qos] == [("normal", 0), ("a", 9)]
    assert [one.shares for one in found.associations if one.account in "xy"] == [3, 4]
    assert not [one for one in found.not_understood if one.setting != "file"]


def test_a_dump_that_adds_qos(site):
    """QOS+=long beside the QOS of root; a cluster with nothing behind its colon."""
    text = "Cluster - 'c':\nParent - 'root'\nAccount - 'a':Fairshare=1:QOS+=long\n"
    found = site(NODES + ALL, all__cfg=text).rules
    assert [one.qos for one in found.associations if one.account == "a"] == [("normal", "long")]
    assert "cluster" not in {one.setting for one in found.not_understood}
    # ColdFront's of a whole cluster, in a file that others name accounts.conf
    found = site(
        NODES + ALL, all__cfg="", accounts__conf="Cluster - 'c':DefaultQOS='b':QOS+=b,x\nAccount - 'a'\n"
    ).rules
    assert [(one.qos, one.default_qos) for one in found.associations if one.account == "root"] == [
        (("normal", "b", "x"), "b")
    ]


@pytest.mark.parametrize(("version", "below"), [("22.05.8", False), ("23.02.1", True), ("", True)])
def test_accounts_below_those_that_a_partition_takes(site, tmp_path, version, below):
    """Since Slurm 23.02 they may use it, too; 22.05 refused them. What it denies counts where it allows all."""
    parts = "PartitionName=p Nodes=ALL AllowAccounts=top DenyAccounts=top\nPartitionName=q Nodes=ALL DenyAccounts=top\n"
    more = {"config__txt": f"Configuration data as of 1\nSLURM_VERSION = {version}\n"} if version else {}
    users = "Account|User|GrpTRES|ParentName|\nroot||||\ntop|||root|\na|||top|\na|u|||\ntop|u|||\n"
    found = site(ENFORCED + parts, assoc__txt=users, **more)
    given = jobs(4, account=["a", "top", "a", "top"], partition=[*"ppqq"], cpus_per_node=8)
    begun = starts(found.rules, given, found.nodes, tmp_path)
    assert [one is None for one in begun] == [not below, False, below, True]
    assert any(one.setting == "AllowAccounts" for one in found.rules.not_understood) == (not version)


def test_files_that_others_include(site, tmp_path):
    """Of gres.conf, too, and below a folder of which Slurm's line has the whole path; Name=GPU is gpu."""
    (tmp_path / "pcluster").mkdir()
    (tmp_path / "pcluster" / "q.conf").write_text("GresTypes=gpu\nNodeName=n1 CPUs=8 RealMemory=9 Gres=gpu:2\n" + ALL)
    (tmp_path / "a.conf").write_text("NodeName=n1 Name=GPU Type=t4 File=/dev/nvidia[0-1]\n")
    found = site("Licenses=x:2,y,x:3\nInclude /opt/slurm/etc/pcluster/q.conf\n", gres__conf="include a.conf\n")
    assert found.nodes[["gpus", "gpu_type"]].to_numpy().tolist() == [[2, "t4"]]
    assert found.rules.licenses == {"x": 5, "y": 1} and not found.rules.not_understood


@pytest.mark.parametrize(
    ("conf", "files", "read", "value"),
    [
        ("ClusterName=C\nInclude %c.conf\n", {"c__conf": "Licenses=x:2\n"}, lambda it: it.rules.licenses, {"x": 2}),
        ("NodeName=x CPUs=1 Feature=a\\#b Weight=4294967295\n", {},
         lambda it: it.nodes[["features", "weight"]].to_numpy().tolist()[-1], ["a#b", 10**9]),
        ("SchedulerParameters=max_job_bf=5,bf_max_job_test=9\n", {}, lambda it: it.rules.scheduler.bf_max_job_test, 9),
        ("# a page\x0cNodeName=n1\nMailProg=/x\\\\\n", {}, lambda it: len(it.nodes), 4),
        ('PartitionName=q Nodes="n1 n3" AllowAccounts=Phys\n', {},
         lambda it: [(one.nodes, one.allow_accounts) for one in it.rules.partitions[:1]], [("n1,n3", ("phys",))]),
        ("", {"resv__txt": RESERVATION.replace("=r ", "=spring 1 ") + "\n" + RESERVATION.replace("=r ", "=spring 2 ")},
         lambda it: [one.name for one in it.rules.reservations], ["spring 1", "spring 2"]),
        ("", {"node__txt": "NodeName=m CPUTot=2 RealMemory=9 Weight=5\n   Comment=had RealMemory=3 State=DOWN\n"},
         lambda it: it.nodes[["mem_mb", "weight"]].to_numpy().tolist()[0], [9, 5]),
        ("Licenses=x:2\n", {"l__txt": "LicenseName=x\n  Total=2 Remote=no\nLicenseName=y@s\n  Total=3 Remote=yes\n"},
         lambda it: it.rules.licenses, {"x": 2, "y": 3}),
        ("", {"all__cfg": "Cluster - 'c'\nAccount - 'a':MaxJobs=2\nCluster - 'd'\nAccount - 'a':MaxJobs=7\n"},
         lambda it: it.rules.associations[0].limits.max_jobs, 2),
        ("", {"a__cfg": "QOS - 'q':MaxJobs=2\n", "b__cfg": "QOS - 'q':MaxJobs=7\n", "c__cfg": "QOS - 'q':MaxJobs=7\n"},
         lambda it: [(one.where, one.value) for one in it.rules.not_understood], [("b.cfg", "QOS q")]),
    ],
)  # fmt: skip
def test_odd_forms_are_read_as_slurm_reads_them(site, conf, files, read, value):
    """Each was refused, or read as another, before."""
    assert read(site(conf + NODES + ALL, **files)) == value


def test_a_file_that_another_includes_is_read_once(tmp_path):
    """Whichever of them is first by name, where none is slurm.conf."""
    (tmp_path / "a.conf").write_text(NODES)
    (tmp_path / "b.conf").write_text(HEAD + "Include a.conf\n" + ALL)
    assert len(read_slurm(tmp_path).nodes) == 4


def test_lists_and_values_as_slurm_takes_them(site):
    """Commas too many, limits in whole minutes, == as simulators write it, old names of limits."""
    found = site(
        f"SchedulerParameters==bf_max_job_user=20,bf_max_job_test=0\nAccountingStorageEnforce=wckeys\n{NODES}"
        "PartitionName=p Nodes=n1,,n2, Default=YES MaxTime=30:30\nPartitionName=q Nodes=n1\n",
        qos__txt="Name|GrpCPURunMins|GrpMem|\nnormal|9|5|\n",
    ).rules
    assert found.partitions[0].max_time == 1860
    assert (found.scheduler.bf_max_job_user, found.scheduler.bf_max_job_test) == (20, 500)
    assert found.enforce == ("associations",)
    assert found.qos[0].limits == Limits(grp_tres={"mem": 5}, grp_tres_run_mins={"cpu": 9})


def test_what_a_terminal_shows(site):
    """The command above its answer; a reason may hold anything; GPUs of no model."""
    found = site(
        ALL,
        node__txt="[root@head ~]# scontrol show node\nNodeName=n1 CPUTot=8\n   Gres=gpu:(null):4(S:0-1)\n"
        "   RealMemory=8000 Weight=5 State=IDLE+DRAIN\n   Reason=fan Weight=9 is slow [root@2024-05-01T08:00:00]\n",
        qos__txt="$ sacctmgr show qos -p\nName|Priority|MaxWall|\nnormal|7||\n",
    )
    assert found.nodes[["gpus", "weight"]].to_numpy().tolist() == [[4, 5]]
    assert found.rules.events[0].reason.startswith("fan Weight=9 is slow") and found.rules.qos[0].priority == 7


def test_a_topology_that_includes_others(site):
    """In their place; topology.yaml stands above topology.conf, which is named."""
    files = {"topology__conf": "Include leaves.conf\nSwitchName=t Switches=s[1-2]\n"}
    files["leaves__conf"] = "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\n"
    found = site(f"TopologyPlugin=topology/tree\n{HEAD}{NODES}{ALL}", **files)
    assert found.nodes["leaf"].tolist() == [0, 0, 1, 1] and not found.rules.not_understood
    yaml = "- topology: t\n  tree:\n    switches:\n      - switch: s\n        nodes: n[1-4]\n"
    found = site(HEAD + NODES + ALL, topology__yaml=yaml)
    assert found.nodes["leaf"].tolist() == [0] * 4 and "topology.conf" in document(found)["unread_files"]


def test_without_associations_a_partition_takes_every_account(site, tmp_path):
    """As Slurm does since 23.02."""
    found = site(f"{NODES}PartitionName=p Nodes=ALL AllowAccounts=x\n")
    assert starts(found.rules, jobs(1, account="a"), found.nodes, tmp_path) != [None]


def test_a_folder_that_is_not_the_one_names_the_way_on(tmp_path):
    (tmp_path / "etc" / "slurm").mkdir(parents=True)
    (tmp_path / "node.json").write_text("{}")
    with pytest.raises(TableError, match=r"not read: node.json.*without --json"):
        read_slurm(tmp_path)
    (tmp_path / "etc" / "slurm" / "slurm.conf").write_text(HEAD + NODES + ALL)
    with pytest.raises(TableError, match=r"etc/slurm/slurm.conf stands below"):
        read_slurm(tmp_path)
    with pytest.raises(TableError, match=r"a file: name its folder"):
        read_slurm(tmp_path / "node.json")


def test_without_slurmdbd_nothing_is_enforced(site):
    """Slurm says so in its log and goes on; with it, associations by partition are one in the tree of shares."""
    users = "Account|User|Partition|GrpTRES|\na||||\na|u|p||\n"
    found = site(f"PriorityWeightFairshare=5\n{NODES}{ALL}", assoc__txt=users).rules
    assert "associations by partition" in {one.setting for one in found.not_understood}
    found = site("AccountingStorageType=accounting_storage/none\n" + ENFORCED + ALL).rules
    assert not found.enforce and "accountingstorageenforce" in {one.setting for one in found.not_understood}


def test_oversubscribe(site):
    """Exclusive=NODE is the word of Slurm 26.05; what is none of its words is refused."""
    found = site(NODES + "PartitionName=p Nodes=ALL Exclusive=NODE\nPartitionName=q Nodes=n1 OverSubscribe=YES:1\n")
    assert [one.oversubscribe for one in found.rules.partitions] == ["exclusive", "yes:1"]
    with pytest.raises(TableError, match=r"slurm\.conf:5, partition p oversubscribe: 'FORCED' was given; NO"):
        site(NODES + "PartitionName=p Nodes=ALL OverSubscribe=FORCED\n")


def test_defaults_per_gpu_stand_alone_or_together(site):
    """Of the cluster and of a partition, where ``scontrol`` joins them under JobDefaults."""
    found = site("DefCpuPerGPU=4\n" + NODES + "PartitionName=p Nodes=ALL JobDefaults=DefCpuPerGPU=8,DefMemPerGPU=900\n")
    [part] = found.rules.partitions
    assert (found.rules.select.def_cpu_per_gpu, part.def_cpu_per_gpu, part.def_mem_per_gpu_mb) == (4, 8, 900)
