"""Wrong results that were seen in use: each is asked for by the files and commands that a user has."""

from __future__ import annotations

import tempfile

import pandas as pd
import pytest
from policy_cases import job_table, node_table
from small_study import QUOTES

from procure.account.account import account_waits
from procure.comparison.waits import replay
from procure.errors import TableError
from procure.run import simulate
from procure.schemas import JOB, NODE
from procure.site import accounting
from procure.site.accounting import read_accounting
from procure.site.change import changed
from procure.site.collect import collect, commands
from procure.site.limits import exceeded
from procure.site.model import Limits, NodeEvent, Partition, Preemption, Qos, Site
from procure.site.names import Known
from procure.site.past import as_never_ended
from procure.site.rows import Row
from procure.site.store import write_site
from procure.site.understand import read_slurm
from procure.site.values import whole
from procure.study import load_study
from procure.tables import check, read, write
from procure.workload import Imported, import_log, overview
from procure.workload.slurm import run_slurm


def test_collect_asks_for_the_days_that_are_given(procure) -> None:
    """Jobs and node events of these days; by default of the last 31; a day that is none is bad usage."""
    code, out, _ = procure("site", "collect", "--from", "2026-03-01", "--to", "2026-04-01")
    assert code == 0 and "--starttime=2026-03-01 --endtime=2026-04-01" in out and "start=2026-03-01" in out
    assert "2025-01" not in " ".join(commands().values())
    for begin in ("March", "2026-04-01"):
        assert procure("site", "collect", "--from", begin, "--to", "2026-04-01")[0] == 2


def test_collect_says_what_gave_no_answer(tmp_path, monkeypatch) -> None:
    """An empty answer and a command that hangs are sentences; what the others printed is kept."""
    for name, text in (
        ("scontrol", '[ "$3" = node ] && sleep 9; [ $2 = config ] && echo x; true'),
        ("sacctmgr", "echo y"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("procure.site.collect.TIMEOUT", dict.fromkeys(["node.txt"], 1))
    failed = collect(tmp_path / "slurm")
    assert any("show node" in one and "within 1 s" in one for one in failed)
    assert any("show partition" in one and "printed nothing" in one for one in failed)
    assert (tmp_path / "slurm" / "config.txt").read_text() == "x\n"


def test_a_command_of_slurm_is_not_bent_by_the_environment(tmp_path, monkeypatch) -> None:
    """What would have it show other jobs or times is gone, what is asked for stands; what it lacks is a sentence."""
    (tmp_path / "squeue").write_text("#!/bin/sh\n[ $1 = bad ] && echo why >&2 && exit 3\nenv\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    bent = "SQUEUE_PARTITION SACCT_FORMAT SCONTROL_ALL SLURM_CLUSTERS SLURM_TIME_FORMAT SLURM_BITSTR_LEN".split()
    for name in bent:
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("SLURM_CONF", "kept")
    seen = run_slurm(["SLURM_TIME_FORMAT=%s", "squeue", "all"])
    assert (
        "=mine" not in seen
        and "SLURM_CONF=kept" in seen
        and "SLURM_TIME_FORMAT=%s" in seen
        and "SLURM_BITSTR_LEN=0" in seen
    )
    with pytest.raises(TableError, match="squeue failed: why"):
        run_slurm(["squeue", "bad"])
    with pytest.raises(TableError, match="snothing is not installed"):
        run_slurm(["snothing"])


@pytest.mark.parametrize(
    ("line", "held"), [("qos+=long", ("normal", "long")), ("qos-=normal", ("short",)), ("qos=long", ("long",))]
)
def test_a_qos_is_added_and_taken_away(line, held) -> None:
    """`qos+=` keeps what an association has, its own or its account's; `qos-=` takes away."""
    first = "normal" if "+" in line else "normal,short"
    for target in ("add user alice account=phys", "add account phys"):
        text = f"add account phys\n{target} qos={first}\nmodify user where name=alice account=phys set {line}\n"
        found = read_accounting([("a.txt", "add user alice account=phys\n" + text)])
        assert found.associations["phys", "alice", ""]["qos"] == held


def test_the_smaller_of_two_bounds_counts() -> None:
    """A job beyond GrpTRES is set aside, though the limit of its user is larger."""
    limits = Limits(grp_tres={"cpu": 100}, max_tres_per_user={"cpu": 1000})
    site = Site(qos=(Qos(name="normal", limits=limits),), enforce=("limits",))
    assert "cpu" in exceeded(site, ("", "normal", "phys", "alice"), {"cpu": 200.0}, 1, 0)
    assert not exceeded(site, ("", "normal", "phys", "alice"), {"cpu": 100.0}, 1, 0)


def test_a_limit_is_one_row(monkeypatch) -> None:
    """A further name of a limit is a row; reading and --rule go by it."""
    text = [("a.txt", "add qos long GrpRunning=3\n")]
    assert [one.setting for one in read_accounting(text).not_understood] == ["grprunning"]
    monkeypatch.setitem(accounting._LIMITS, "grprunning", Row("grprunning", "grp_jobs", whole))
    found = read_accounting(text)
    assert found.qos["long"]["limits"]["grp_jobs"] == 3 and not found.not_understood
    site = Site(qos=(Qos(name="long"),), enforce=("limits",))
    assert changed(site, "qos long GrpRunning=4", node_table(1)).qos[0].limits.grp_jobs == 4


def test_boards_of_a_node_are_counted(tmp_path) -> None:
    """A node of two boards without CPUs= has the sockets of both."""
    (tmp_path / "slurm.conf").write_text(
        "NodeName=n[1-2] Boards=2 SocketsPerBoard=2 CoresPerSocket=16 RealMemory=100\nPartitionName=p Nodes=ALL\n"
    )
    assert read_slurm(tmp_path).nodes["cpus"].tolist() == [64, 64]


def test_a_topology_in_yaml_is_read_with_a_site(tmp_path) -> None:
    """As one in topology.conf is: leaves in the order of the file; it stands above TopologyPlugin."""
    (tmp_path / "slurm.conf").write_text("NodeName=n[1-4] CPUs=4\nPartitionName=p Nodes=ALL\n")
    switches = "".join(f"      - switch: s{i}\n        nodes: n[{2 * i - 1}-{2 * i}]\n" for i in (1, 2))
    top = "      - switch: top\n        children: s[1-2]\n"
    text = "---\n- topology: main\n  cluster_default: true\n  tree:\n    switches:\n" + top + switches
    (tmp_path / "topology.yaml").write_text(text)
    found = read_slurm(tmp_path)
    assert found.nodes["leaf"].tolist() == [0, 0, 1, 1] and found.rules.select.topology == "tree"


def test_settings_that_are_read_and_not_followed_are_listed(tmp_path) -> None:
    (tmp_path / "slurm.conf").write_text(
        "SchedulerParameters=bf_one_resv_per_job\nSelectTypeParameters=CR_Core,CR_Pack_Nodes\n"
        "NodeName=n1 CPUs=4\nPartitionName=p Nodes=ALL MaxCPUsPerSocket=2\n"
    )
    told = " ".join(each.setting for each in read_slurm(tmp_path).rules.not_understood)
    assert "bf_one_resv_per_job" in told and "cr_pack_nodes" in told and "maxcpuspersocket" in told


def test_limits_that_are_not_applied_are_listed() -> None:
    """Of other GRES, wall in all and submissions: read and shown, and named with what that may change."""
    text = "add qos long GrpTRES=CPU=8,gres/gpu:a100=4,gres/nic=2 GrpTRESMins=billing=9 GrpWall=60 MaxSubmitJobs=5\n"
    found = read_accounting([("a.txt", text)])
    told = [(each.setting, each.where) for each in found.not_understood]
    assert sorted(told) == [(name, "a.txt:1") for name in ("grptres", "grpwall", "maxsubmitjobsperuser")]
    assert found.qos["long"]["limits"]["grp_tres"] == {"cpu": 8, "gres/gpu:a100": 4, "gres/nic": 2}


def test_a_replay_to_the_second_errs_by_nothing() -> None:
    jobs = check(job_table(submit_time=[0, 0], run_time=[100, 100], cpus_per_node=4), JOB)
    run = simulate(jobs, check(node_table(1, cpus=4), NODE), "fcfs")
    logged = jobs.assign(start_time=run.schedule["start_time"], eligible_time=[0, 40])
    assert run.schedule["start_time"].tolist() == [0, 100]
    assert replay(logged, run)["mean_error"].tolist()[-1] == 0


def test_twenty_thousand_singletons_are_laid_out_at_once() -> None:
    """Each waits for the like jobs since the singleton before it, which waits for all others."""
    n = 20_000
    jobs = check(
        pd.DataFrame({"job_id": [str(i) for i in range(n)], "user": "u", "job_name": "x", "submit_time": range(n),
                      "run_time": 1, "cpus_per_node": 1, "dependency": ["singleton"] * n}), JOB,
    )  # fmt: skip
    site = Site(partitions=(Partition(name="p", nodes="n0", default=True),))
    on = Known(site, check(node_table(1, cpus=4), NODE), jobs).dependencies()
    assert len(on["on"]) == n - 1


@pytest.mark.parametrize(
    ("dependency", "starts"),
    [
        ("afterany:1,afterany:2", 900),
        ("afterany:1?afterany:2", 300),
        ("afterany:1:2?afterany:1", 300),  # each job of a list is an alternative
        ("afterok:3?afterany:2", 300),
        ("afterok:3?afternotok:2", None),
        ("afterok:1?afterok:99", 10),  # not in the table
    ],
)
def test_of_dependencies_with_a_question_mark_one_is_enough(dependency, starts) -> None:
    jobs = job_table(
        job_id=["1", "2", "3", "4"], submit_time=[0, 0, 0, 10], run_time=[900, 300, 60, 5], cpus_per_node=1
    )
    jobs = jobs.assign(state=["COMPLETED", "COMPLETED", "FAILED", "COMPLETED"], dependency=["", "", "", dependency])
    site = Site(partitions=(Partition(name="p", nodes="n0", default=True),))
    nodes = check(node_table(1, cpus=8), NODE)
    with tempfile.TemporaryDirectory() as folder:
        write_site(site, nodes, folder)
        found = simulate(check(jobs, JOB), nodes, f"slurm:site={folder}").schedule["start_time"]
    if starts is None:
        assert pd.isna(found.iloc[3])
    else:
        assert starts <= found.iloc[3] <= starts + 120


def test_users_and_nodes_may_be_called_nan(tmp_path) -> None:
    """`nan`, `None` and `NaN` are names where the file holds these texts."""
    (tmp_path / "jobs.csv").write_text(
        "job_id,user,submit_time,run_time,cpus_per_node\n1,nan,0,5,1\n2,None,0,5,1\n3,,0,5,1\n"
    )
    jobs = read(tmp_path / "jobs.csv", JOB)
    assert jobs["user"].tolist() == ["nan", "None", ""]
    assert read(write(jobs, tmp_path / "jobs.parquet"), JOB)["user"].tolist() == ["nan", "None", ""]
    assert check(pd.DataFrame({"job_id": ["1", "2"], "user": [None, float("nan")], "submit_time": 0, "run_time": 1,
                               "cpus_per_node": 1}), JOB)["user"].tolist() == ["", ""]  # fmt: skip


def test_an_award_goes_by_a_class_of_the_study(tmp_path) -> None:
    """A criterion may be an objective of a class in `[classes]`; of another it is named."""
    path = tmp_path / "s.toml"
    text = (
        f'quotes = "{QUOTES}"\n[packages]\nbudget_usd = 60_000\n[[workloads]]\nname = "w"\n'
        'generate = { seed = 1, n_jobs = 50 }\n[classes]\nsmall = "cpus<=4"\n'
        "[award]\nweights = { price = 70, small-p95-wait = 30 }\n"
    )
    path.write_text(text)
    award = load_study(path).award
    assert award is not None and award.quantities["small-p95-wait"].unit == "s"
    path.write_text(text.replace("small-p95", "large-p95"))
    with pytest.raises(TableError, match=r"award\.weights\.large-p95-wait"):
        load_study(path)


def test_a_reservation_without_a_name_is_one_error(tmp_path, procure) -> None:
    (tmp_path / "slurm.conf").write_text("NodeName=n1 CPUs=4\nPartitionName=p Nodes=n1 Default=YES\n")
    (tmp_path / "reservation.txt").write_text("ReservationName= StartTime=1700000000 EndTime=1700003600 Nodes=n1\n")
    code, _, err = procure("site", "read", tmp_path, "--out", tmp_path / "site")
    assert code == 1 and "reservationname" in err and "internal error" not in err


def test_serve_init_follows_no_link_that_was_planted(tmp_path, procure) -> None:
    """A link in place of a folder is one error, and what it points to keeps its mode; settings are not for all."""
    private, folder = tmp_path / "private", tmp_path / "serve"
    private.mkdir(mode=0o700)
    folder.mkdir()
    (folder / "run").symlink_to(private)
    code, _, err = procure("serve", "init", "--dir", folder)
    assert code == 1 and "is a link" in err and private.stat().st_mode & 0o777 == 0o700
    (folder / "run").unlink()
    (folder / "config.toml").symlink_to(private / "theirs.toml")
    assert procure("serve", "init", "--dir", folder)[0] == 1
    (folder / "config.toml").unlink()
    assert procure("serve", "init", "--dir", folder)[0] == 0
    assert (folder / "config.toml").stat().st_mode & 0o777 == 0o600


def test_no_node_is_missing_before_the_first_start() -> None:
    """A log whose first jobs wait for days tells nothing of these days."""
    jobs = check(job_table(submit_time=[0, 0, *range(1, 400)], run_time=3000, cpus_per_node=1), JOB)
    nodes = check(node_table(4, cpus=1), NODE)
    late = jobs.assign(submit_time=jobs["submit_time"] * 900 + 6 * 86_400)
    log = simulate(late, nodes, "fcfs").schedule
    log = log.assign(submit_time=[0, 0, *log["submit_time"].iloc[2:]])
    assert all(one.begin >= 6 * 86_400 for one in account_waits(check(log, JOB), nodes).outages)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("assoc.txt", "Cluster|Account|User|Share|\nc|phys|alice|lots|"),
        ("qos.txt", "Name|Priority|\nlong|high|"),
        ("slurm.conf", "NodeName=n2 CPUs=many RealMemory=100"),
        ("slurm.conf", "PartitionName=q Nodes=n1 PriorityTier=first"),
        ("slurm.conf", "PriorityWeightAge=heavy"),
    ],
)
def test_a_setting_that_is_no_number_is_named_by_file_and_value(tmp_path, procure, name, line) -> None:
    """No text of Python or of a library reaches a user; file, line, what was given and what is needed do."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    base = "NodeName=n1 CPUs=4 RealMemory=100\nPartitionName=p Nodes=n1 Default=YES\n"
    (folder / "slurm.conf").write_text(base + (line + "\n" if name == "slurm.conf" else ""))
    if name != "slurm.conf":
        (folder / name).write_text(line + "\n")
    code, _, err = procure("site", "read", folder, "--out", tmp_path / "site")
    assert code == 1 and name in err and any(word in err for word in ("lots", "high", "many", "first", "heavy"))
    assert "invalid literal" not in err and "pydantic" not in err and "is needed" in " ".join(err.split())


GPU_LOG = "id,when,took,nodes,cores,num_gpus\na,0,10,1,4,1\nb,5,20,2,48,40\nc,9,30,1,4,0\n"
"""Of all nodes of a job, as traces of GPU centres count."""
MAPPED = {"job_id": "id", "submit_time": "when", "run_time": "took", "cpus_per_node": "cores"}


def test_gpus_of_a_csv_log_are_read_or_named(tmp_path) -> None:
    """A column of GPUs that nothing maps was left out in silence; tasks of a job with GPUs could not be spread."""
    (tmp_path / "log.csv").write_text(GPU_LOG)

    def read_as(asks: str | None = None, **more: str) -> Imported:
        return import_log(tmp_path / "log.csv", "csv", columns=MAPPED | more, clock="log", asks=asks)

    assert any("column num_gpus is not read" in text for text in read_as().warnings)
    on_one = read_as(gpus_per_node="num_gpus")
    assert not any("is not read" in text for text in on_one.warnings)
    assert any("1 job of 3 asks for more than 16 GPUs on one node (up to 40)" in text for text in on_one.warnings)
    tasks = read_as("tasks", gpus_per_node="num_gpus")
    assert not any("more than 16 GPUs" in text for text in tasks.warnings)
    assert tasks.jobs[["n_tasks", "cpus_per_task", "gpus_per_task"]].to_numpy().tolist() == [
        [1, 4, 1], [40, 2, 1], [4, 1, 0],
    ]  # fmt: skip
    assert overview(tasks.jobs)["offered_gpu_hours"] * 3600 == 1 * 10 + 40 * 20
    nodes = node_table(n=6, cpus=32, gpus=8)
    assert simulate(tasks.jobs, nodes, "easy").metrics["n_unrunnable"] == 0
    each = read_as(gpus_per_node="num_gpus::job", n_nodes="nodes")
    assert each.jobs["gpus_per_node"].to_list() == [1, 20, 0]


def test_a_request_by_the_node_holds_on_every_node_that_was_given(tmp_path) -> None:
    """Of -n 240 --gres=gpu:2 sacct counts one node's two GPUs; six nodes gave twelve, and six were taken."""
    (tmp_path / "log.psv").write_text(
        "JobID|Submit|Start|End|State|ReqTRES|AllocTRES|NNodes\n"
        "1|10|20|50|COMPLETED|cpu=240,node=1,gres/gpu=2|cpu=240,node=6,gres/gpu=12|6\n"
        "2|10|20|50|COMPLETED|cpu=240,node=1,gres/gpu=12|cpu=240,node=6,gres/gpu=12|6\n"
    )
    assert import_log(tmp_path / "log.psv", "sacct").jobs["gpus_per_node"].to_list() == [2, 2]


def test_tasks_that_stood_on_more_nodes_than_asked_held_no_more_cpus(tmp_path) -> None:
    """Four tasks of -N 2-4 on four nodes held one CPU of each; the two of each that two nodes give were noted."""
    (tmp_path / "log.psv").write_text(
        "JobID|Submit|Start|End|State|ReqTRES|AllocTRES|NNodes\n"
        "1|10|20|50|COMPLETED|cpu=4,node=2|cpu=4,node=4|4\n"
        "2|10|20|50|COMPLETED|cpu=1,node=1|cpu=8,node=1|1\n"
    )
    assert import_log(tmp_path / "log.psv", "sacct").jobs["held_cpus_per_node"].to_list() == [1, 8]


def test_jobs_that_others_ended_are_not_over_in_a_replay() -> None:
    """A run before a requeue was a job of its own, and one that was cancelled for another was over by itself."""
    jobs = check(
        job_table(
            job_id=["7~1", "8", "9~1", "7", "9"],
            submit_time=[0, 10, 15, 50, 60],
            eligible_time=[0, 10, 15, 170, 60],
            start_time=[5, 20, 20, 180, 70],
            end_time=[45, 40, 50, 480, 80],
            run_time=[40, 20, 30, 300, 10],
            requested_time=[600, 90, 60, 600, 60],
            state=["PREEMPTED", "PREEMPTED", "NODE_FAIL", "COMPLETED", "COMPLETED"],
        ),
        JOB,
    )
    assert as_never_ended(jobs, Site()) == (jobs, "")
    table, said = as_never_ended(jobs, Site(preemption=Preemption(type="qos")))
    assert table["job_id"].to_list() == ["7", "8", "9~1", "9"]
    assert table["submit_time"].to_list() == [0, 10, 15, 60] and table["eligible_time"].to_list() == [0, 10, 15, 60]
    assert table["held_time"].to_list() == [40, 0, 0, 0] and table["held_until"].to_list() == [45, 0, 0, 0]
    assert table["run_time"].to_list() == [300, 90, 30, 10]
    assert "1 run before a requeue left out" in said and "1 job run to the limit" in said
    down = as_never_ended(jobs, Site(events=(NodeEvent(nodes="n1", start=30, state="down"),)))[0]
    assert down["job_id"].to_list() == ["7~1", "8", "9", "7"] and down["submit_time"].to_list() == [0, 10, 15, 50]
