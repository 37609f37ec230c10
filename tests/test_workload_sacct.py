"""The sacct reader, on lines that a real Slurm 22.05 printed and on the real files themselves."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.errors import TableError
from procure.workload import import_log
from procure.workload.asked import asked_for, line_options, read_line

HEADER = (
    "JobID|User|Account|Partition|QOS|Submit|Eligible|Start|End|State|TimelimitRaw|ReqCPUS|ReqMem|"
    "ReqTRES|AllocTRES|NNodes|NodeList|Priority|ElapsedRaw"
)
DAY = "2026-11-21T"


def line(job_id="1", **changes):
    fields = {
        "JobID": job_id, "User": "alice", "Account": "physics", "Partition": "cpu", "QOS": "normal",
        "Submit": f"{DAY}02:55:37", "Eligible": f"{DAY}02:55:37", "Start": f"{DAY}02:55:40", "End": f"{DAY}02:55:44",
        "State": "COMPLETED", "TimelimitRaw": "3", "ReqCPUS": "2", "ReqMem": "1G", "NNodes": "1", "NodeList": "c2",
        "ReqTRES": "billing=2,cpu=2,mem=1G,node=1", "AllocTRES": "billing=2,cpu=2,mem=1G,node=1",
        "Priority": "10062", "ElapsedRaw": "4",
    } | changes  # fmt: skip
    return "|".join(fields[name] for name in HEADER.split("|"))


PENDING = {"Start": "Unknown", "End": "Unknown", "State": "PENDING", "NodeList": "None assigned"}
PENDING |= {"ElapsedRaw": "0", "AllocTRES": ""}


@pytest.fixture
def sacct(tmp_path):
    def read(*lines, header=HEADER, **options):
        path = tmp_path / "jobs.psv"
        path.write_text("\n".join([header, *lines]) + "\n")
        return import_log(path, "sacct", **{"tz": "UTC"} | options)

    return read


def only(imported):
    assert len(imported.jobs) == 1
    return imported.jobs.iloc[0].to_dict()


def test_a_job_is_read_with_what_it_asked_for(sacct):
    job = only(sacct(line(State="CANCELLED by 1002")))
    assert job == {
        "job_id": "1", "user": "alice", "submit_time": 1795229737, "requested_time": 180, "run_time": 4, "n_nodes": 1,
        "cpus_per_node": 2, "mem_mb_per_node": 1024, "gpus_per_node": 0, "gpu_type": "", "partition": "cpu",
        "account": "physics", "qos": "normal", "priority": 10062.0, "state": "CANCELLED", "eligible_time": 1795229737,
        "start_time": 1795229740, "end_time": 1795229744, "node_ids": "c2", "billing": 2.0,
    }  # fmt: skip


def test_a_multi_node_job_keeps_its_nodes_and_its_amounts_are_per_node(sacct):
    job = only(sacct(line(ReqTRES="cpu=5,mem=2001M,node=2,gres/gpu=4", NNodes="2", ReqCPUS="5", NodeList="c[2-3]")))
    assert (job["n_nodes"], job["cpus_per_node"], job["mem_mb_per_node"]) == (2, 3, 1001)
    assert (job["gpus_per_node"], job["node_ids"]) == (2, "c2,c3")


def test_a_whole_node_granted_does_not_change_what_was_asked_for(sacct):
    """What was asked for stays; what was held stands beside it where it is more, and is said."""
    imported = sacct(line(AllocTRES="billing=8,cpu=8,mem=4000M,node=1"))
    assert only(imported)["cpus_per_node"] == 2 and only(imported)["held_cpus_per_node"] == 8
    assert any("1 job held more CPUs than they asked for" in note for note in imported.notes)
    assert "held_cpus_per_node" not in sacct(line()).jobs


@pytest.mark.parametrize(("text", "mb"), [("4000Mc", 8000), ("4Gn", 4096), ("1000M", 500), ("?", 0)])
def test_memory_without_a_tres_follows_its_suffix(sacct, text, mb):
    job = only(sacct(line(ReqTRES="", AllocTRES="", ReqMem=text, NNodes="2", ReqCPUS="4")))
    assert job["mem_mb_per_node"] == mb


def test_rows_that_are_no_finished_job_are_dropped_by_reason(sacct):
    imported = sacct(
        line("1"),
        line("1.batch"),
        line("2", **PENDING),
        line("3", **PENDING | {"Start": "None", "State": "DEADLINE", "End": f"{DAY}02:55:42"}),
        line("4", **PENDING | {"Start": f"{DAY}02:56:00", "End": f"{DAY}02:56:00", "State": "FAILED"}),
        line("5", End="Unknown", State="RUNNING"),
        line("5_truncated_to_the_window", State="RUNNING"),
        line("6", State="REQUEUED"),
        line("6", Submit=f"{DAY}02:56:37", Start=f"{DAY}02:57:40", End=f"{DAY}02:57:44"),
    )
    assert list(imported.jobs["job_id"]) == ["1", "6~1", "6"]
    assert "1 earlier run of requeued jobs kept" in " ".join(imported.notes)
    assert (imported.n_read, imported.dropped) == (9, {"job step": 1, "never started": 3, "still running": 2})
    assert imported.jobs["submit_time"].iloc[2] == 1795229797


def test_requeued_runs_hold_their_cpus_and_records_that_never_ran_do_not(sacct):
    """Each earlier start of a job is a job of its own, in order of submission; a record without one is dropped."""
    times = {"Submit": f"{DAY}02:56:37", "Start": f"{DAY}02:57:00", "End": f"{DAY}02:57:30"}
    imported = sacct(
        line("6", Submit=f"{DAY}02:58:00", Start=f"{DAY}02:58:40", End=f"{DAY}02:58:44"),
        line("6", **times, ElapsedRaw="30", State="REQUEUED"),
        line("6", State="NODE_FAIL", ReqTRES="cpu=4,node=1"),
        line("6", **PENDING | {"Submit": f"{DAY}02:57:50", "State": "REQUEUED"}),
    )
    assert list(imported.jobs["job_id"]) == ["6", "6~2", "6~1"]
    assert list(imported.jobs["run_time"]) == [4, 30, 4]
    assert list(imported.jobs["cpus_per_node"]) == [2, 2, 4]
    assert imported.dropped == {"earlier record of a requeued job that did not run": 1}


@pytest.mark.parametrize("turned", [False, True])
def test_runs_submitted_in_one_second_are_told_apart_by_their_start(sacct, turned):
    rows = [
        line("6", Start=f"{DAY}02:58:40", End=f"{DAY}02:58:44", ElapsedRaw="4"),
        line("6", Start=f"{DAY}02:57:00", End=f"{DAY}02:57:30", ElapsedRaw="30", State="PREEMPTED"),
    ]
    jobs = sacct(*(rows[::-1] if turned else rows)).jobs.set_index("job_id")
    assert jobs["run_time"].to_dict() == {"6": 4, "6~1": 30}


MORE = "|Constraints|Reservation|Licenses|Dependency|Flags|Reason|Cluster|Restarts"


def test_what_a_centres_rules_ask_for_is_read_where_it_is_there(sacct):
    """Constraint, reservation, licenses … become columns; what holds nothing throughout does not."""
    rows = [
        line("1") + "|ib&a100|course|(null)||SchedMain,StartRecieved|None|east|2",
        line("2") + "||||||Resources|east|",
    ]
    jobs = sacct(*rows, header=HEADER + MORE).jobs
    assert jobs["constraint"].tolist() == ["ib&a100", ""]
    assert jobs["reservation"].tolist() == ["course", ""]
    assert jobs["flags"].tolist() == ["SchedMain,StartRecieved", ""]
    assert jobs["reason"].tolist() == ["", "Resources"]
    assert jobs["restarts"].tolist() == [2, 0]
    assert not {"licenses", "dependency"} & set(jobs)


def test_two_clusters_are_no_requeues(sacct):
    """Equal numbers of two clusters are refused, or one cluster is named."""
    rows = [line("1") + "|east", line("1", ElapsedRaw="9") + "|west", line("2") + "|west"]
    header = HEADER + "|Cluster"
    with pytest.raises(TableError, match=r"jobs of 2 clusters, west \(2\), east \(1\); .* name one with --cluster"):
        sacct(*rows, header=header)
    found = sacct(*rows, header=header, cluster="west")
    assert found.jobs["job_id"].tolist() == ["1", "2"] and found.jobs["run_time"].tolist() == [9, 4]
    assert found.dropped == {"of another cluster": 1}
    with pytest.raises(TableError, match=r"holds no job of cluster 'north'; it has west \(2\), east \(1\)"):
        sacct(*rows, header=header, cluster="north")


def old_json(job_id=1, **changes):
    """Write a job as Slurm 22.05 does."""
    return {
        "job_id": job_id, "user": "alice", "account": "physics", "partition": "cpu", "qos": "normal", "cluster": "lab",
        "array": {"job_id": 0, "task_id": None, "task": None}, "constraints": "ib", "flags": ["STARTED_ON_SUBMIT"],
        "time": {"submission": 100, "eligible": 110, "start": 120, "end": 150, "elapsed": 30, "limit": 3},
        "state": {"current": "COMPLETED", "reason": "None"}, "required": {"CPUs": 4, "memory": 500}, "priority": 7,
        "tres": {
            "requested": [
                {"type": "cpu", "name": None, "count": 4}, {"type": "mem", "name": None, "count": 2000},
                {"type": "node", "name": None, "count": 2}, {"type": "gres", "name": "gpu:a100", "count": 2},
            ],
            "allocated": [{"type": "energy", "name": None, "count": None}],
        },
        "allocation_nodes": 2, "nodes": "n[1-2]", "reservation": {"id": 0, "name": 0},
    } | changes  # fmt: skip


def test_json_is_read_as_the_table_is(tmp_path):
    """`sacct --json` of an older and a newer Slurm gives the job that --parsable2 gives; what is none is an error."""
    number = {"set": True, "infinite": False, "number": 3}
    newer = old_json(
        job_id=9, array={"job_id": 9, "task_id": {"set": True, "number": 4}, "task": ""},
        state={"current": ["COMPLETED"], "reason": "None"}, priority=number | {"number": 7}, restart_cnt=1,
        reservation={"name": "course"},
    )  # fmt: skip
    newer["time"] = newer["time"] | {"limit": number}
    pending = old_json(job_id=3, state={"current": "PENDING"}, nodes="None assigned")
    pending["time"] = pending["time"] | {"start": 0, "end": 0, "elapsed": 0}
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"meta": {}, "jobs": [old_json(), newer, pending]}))
    found = import_log(path, "sacct", tz="UTC")
    assert found.dropped == {"never started": 1}
    first, second = found.jobs.to_dict(orient="records")
    wanted = {
        "job_id": "1", "user": "alice", "n_nodes": 2, "cpus_per_node": 2, "mem_mb_per_node": 1000, "gpus_per_node": 1,
        "gpu_type": "a100", "submit_time": 100, "eligible_time": 110, "start_time": 120, "end_time": 150,
        "requested_time": 180, "run_time": 30, "constraint": "ib", "node_ids": "n1,n2", "priority": 7, "cluster": "lab",
    }  # fmt: skip
    assert {key: first[key] for key in wanted} == wanted
    assert second["job_id"] == "9_4" and second["reservation"] == "course" and second["restarts"] == 1
    assert second["requested_time"] == 180 and second["priority"] == 7
    for text, says in (("{", "is no JSON"), ('{"a": 1}', "no list of jobs"), ('{"jobs": []}', "holds no job")):
        path.write_text(text)
        with pytest.raises(TableError, match=says):
            import_log(path, "sacct", tz="UTC")


def test_unfinished_jobs_are_kept_on_request_and_pending_arrays_unfold(sacct):
    imported = sacct(line("7_[1-3%2]", **PENDING), line("8", End="Unknown", State="RUNNING"), keep_unfinished=True)
    jobs = imported.jobs
    assert list(jobs["job_id"]) == ["7_1", "7_2", "7_3", "8"]
    assert jobs["start_time"].isna().tolist() == [True, True, True, False]
    assert jobs["end_time"].isna().all()
    assert jobs["run_time"].tolist() == [0, 0, 0, 4]
    assert imported.dropped == {}
    assert imported.shape["unknown"] == 1.0


def test_limits_and_elapsed_times_may_be_written_out_and_columns_stand_in_any_order(sacct):
    header = HEADER.replace("TimelimitRaw", "Timelimit").replace("ElapsedRaw", "Elapsed")
    job = only(sacct(line(TimelimitRaw="1-02:00:00", ElapsedRaw="00:00:04"), header=header))
    assert (job["requested_time"], job["run_time"]) == (26 * 3600, 4)
    assert only(sacct(line(TimelimitRaw="UNLIMITED"), header=HEADER))["requested_time"] == 0
    order = list(reversed(HEADER.split("|")))
    cells = dict(zip(HEADER.split("|"), line().split("|"), strict=True))
    turned = sacct("|".join(cells[name] for name in order), header="|".join(order))
    assert turned.jobs.equals(sacct(line()).jobs)


def test_times_are_local_to_the_stated_zone_or_seconds(sacct):
    utc = only(sacct(line()))["submit_time"]
    assert only(sacct(line(), tz="America/Chicago"))["submit_time"] == utc + 6 * 3600
    seconds = dict.fromkeys(("Submit", "Eligible", "Start", "End"), "1795229737")
    imported = sacct(line(**seconds), tz=None)
    assert only(imported)["submit_time"] == 1795229737
    assert imported.notes == []
    assert "state the zone" in sacct(line(), tz=None).notes[0]
    with pytest.raises(TableError, match="unknown time zone 'America/Chicgo'; did you mean America/Chicago"):
        sacct(line(), tz="America/Chicgo")


def test_the_hour_that_a_clock_shows_twice_never_makes_a_wait_negative(sacct):
    night = "2026-11-01T"
    times = {"Submit": f"{night}01:50:00", "Eligible": f"{night}01:50:00"}
    times |= {"Start": f"{night}01:10:00", "End": f"{night}01:20:00"}
    job = only(sacct(line(**times), tz="America/Chicago"))
    assert job["start_time"] - job["submit_time"] == 20 * 60
    assert job["end_time"] - job["start_time"] == 10 * 60


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"ReqTRES": "", "ReqCPUS": "two"}, r"row 2, column ReqCPUS: 'two' is not a number"),
        ({"Submit": "yesterday"}, r"row 2, column Submit: 'yesterday' is not a date and time"),
        ({"ReqTRES": "", "ReqMem": "lots"}, r"row 2, column ReqMem: 'lots' is not memory"),
        ({"User": "a|b"}, r"row 2: 20 fields where the header has 19"),
    ],
)
def test_text_in_a_number_is_an_error_with_its_place_or_a_counted_drop(sacct, bad, message):
    lines = [line("1"), line("2", **bad)]
    with pytest.raises(TableError, match=message):
        sacct(*lines)
    imported = sacct(*lines, skip_bad_rows=True)
    assert imported.dropped == {"unreadable row": 1}
    assert len(imported.jobs) == 1


def test_a_log_without_jobs_or_without_a_header_is_an_error(sacct):
    with pytest.raises(TableError, match="holds no job; it has no rows"):
        sacct()
    with pytest.raises(TableError, match=r"holds no job; all 1 rows were dropped \(never started: 1\)"):
        sacct(line(**PENDING))
    with pytest.raises(TableError, match="not a header of sacct"):
        sacct(line(), header=line())
    with pytest.raises(TableError, match="column Submit is missing"):
        sacct(line(), header=HEADER.replace("Submit", "Sent"))


def test_an_empty_field_at_the_end_of_every_row_is_none(sacct):
    """`--parsable` and spreadsheets end each row with a separator, some without one in the header."""
    whole = sacct(line(), line("2"))
    for header in (HEADER, f"{HEADER}|"):
        found = sacct(f"{line()}|", f"{line('2')}|", header=header)
        pd.testing.assert_frame_equal(found.jobs, whole.jobs)
    with pytest.raises(TableError, match="row 2: 20 fields where the header has 19"):
        sacct(line(), f"{line('2')}|")


def test_a_heterogeneous_job_is_one_job(sacct):
    """Its nodes are added up, all as large as the largest component's; a note says so, other jobs stay as they are."""
    parts = [
        line("12+0", NNodes="1", ReqTRES="cpu=2,mem=8G,node=1", NodeList="c1", TimelimitRaw="10"),
        line("12+1", NNodes="2", ReqTRES="cpu=32,mem=4G,node=2,gres/gpu:a100=4", NodeList="g[1-2]", ElapsedRaw="9"),
        line("13"),
    ]
    imported = sacct(*parts)
    whole, other = imported.jobs.iloc[0], imported.jobs.iloc[1]
    assert (whole.job_id, other.job_id, len(imported.jobs)) == ("12", "13", 2)
    assert (whole.n_nodes, whole.cpus_per_node, whole.mem_mb_per_node, whole.gpus_per_node) == (3, 16, 8192, 2)
    assert (whole.gpu_type, whole.run_time, whole.requested_time, whole.node_ids) == ("a100", 9, 600, "c1,g1,g2")
    assert imported.dropped == {"component of a heterogeneous job, joined with its first": 1}
    assert "1 heterogeneous job taken as one job each" in " ".join(imported.notes)


def test_a_heterogeneous_job_of_sacct_json_is_one_job(tmp_path):
    """`--json` tells of the components by their number and offset."""
    job = {"user": "u", "account": "a", "partition": "p", "nodes": "c1", "allocation_nodes": 1}
    job |= {"required": {"CPUs": 2}, "state": {"current": ["COMPLETED"]}}
    job |= {"time": {"submission": 100, "eligible": 100, "start": 110, "end": 150, "elapsed": 40, "limit": 5}}
    rows = [job | {"job_id": 12 + n, "het": {"job_id": 12, "job_offset": {"set": True, "number": n}}} for n in (0, 1)]
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"jobs": rows}))
    [found] = import_log(path, "sacct").jobs.itertuples()
    assert (found.job_id, found.n_nodes) == ("12", 2)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sbatch -n 16 --dependency=afterok:41:42 run.sh --array=5%9", ("afterok:41:42", 0, "", 0, False)),
        ("sbatch -d afterany:7 -a 0-9%2 -L matlab:2 --nice=50 run.sh", ("afterany:7", 2, "matlab:2", 50, False)),
        ("sbatch --exclusive --nice run.sh", ("", 0, "", 100, False)),
        ("salloc", ("", 0, "", 0, False)),
        ("(null)", ("", 0, "", 0, False)),
        ("sbatch --comment=it's -a 0-9%2 --wrap=srun --nice=5 ./a", ("", 2, "", 0, False)),
        ("sbatch -n many run.sh", ("", 0, "", 0, True)),
        ("sbatch -N 4-2 run.sh", ("", 0, "", 0, True)),
    ],
)
def test_a_submit_line_tells_what_no_field_does(text, found):
    """Options before the script only; what cannot be read is said."""
    assert read_line(f"0 0 {text}")[-5:] == found


def test_all_memory_of_a_node(sacct):
    """``--mem=0``, by the command or, as Slurm wrote it before 22.05, by ReqMem; not where a log tells no request."""
    commands = [
        (line("1", ReqMem="16000M"), "sbatch --mem=0 a.sh"),
        (line("2", ReqMem="0n"), ""),
        (line("3"), "sbatch a"),
    ]
    read = sacct(*("|".join(row) for row in commands), header=f"{HEADER}|SubmitLine")
    assert read.jobs["all_memory"].tolist() == [True, True, False]
    assert any("2 jobs asked for all memory" in note for note in read.notes)
    assert "all_memory" not in sacct(line("2", ReqMem="", ReqTRES="")).jobs


def test_what_no_policy_goes_by_is_said(sacct):
    """Nodes asked for by name and the like; partitions are kept; an option of the script is none of the job."""
    asked = "-p p,q -w n1", "--exclud=n2 -s -w n1", "-n 4"
    rows = [line(str(i)) + f"|sbatch {options} a.sh --exclude=n3" for i, options in enumerate(asked)]
    read = sacct(*rows, header=f"{HEADER}|SubmitLine")
    (said,) = [note for note in read.notes if "no policy" in note]
    assert said.startswith("2 jobs") and read.jobs["partitions"].tolist() == ["p,q", "", ""]
    assert said.endswith(": --exclude 1, --nodelist 2, --oversubscribe 1")


def test_columns_of_submit_lines(sacct):
    """They stand in the job table where any line tells them, and nodes of policy slurm go by them."""
    rows = [line(str(i)) + f"|sbatch {options} a|b.sh" for i, options in enumerate(["-n 1", "-d afterok:0", "-n '1"])]
    read = sacct(*rows, header=f"{HEADER}|SubmitLine")
    assert read.jobs["dependency"].tolist() == ["", "afterok:0", ""] and "array_limit" not in read.jobs
    assert any("1 submit line cannot be read" in note for note in read.notes)
    assert any("1 job of 3 waits for others" in one for one in read.warnings)
    read = sacct(rows[0].replace("-n 1 ", "-n 1 --exclusive=user "), header=f"{HEADER}|SubmitLine")
    assert any("alone with jobs of their user" in note for note in read.notes)


ASKED = [
    ("-n 16", 16, "n_tasks=16 min_nodes=1"),
    ("-n 16 -N 2", 16, "n_tasks=16 min_nodes=2 max_nodes=2"),
    ("-N 2-4 -n 8", 8, "n_tasks=8 min_nodes=2 max_nodes=4"),
    ("-N 2-4", 2, "n_tasks=2 min_nodes=2 max_nodes=4"),
    ("-n 4 -c 8 --mem-per-cpu=1G", 32, "n_tasks=4 cpus_per_task=8 mem_mb_per_task=8192 mem_mb_per_node=0"),
    ("-n 6 --mem 3G --exclusive", 6, "n_tasks=6 mem_mb_per_node=3072 mem_mb_per_task=0 exclusive=1"),
    ("-n 10 --ntasks-per-node=4", 10, "n_tasks=10 tasks_per_node=4 min_nodes=1"),
    ("--ntasks=4 --gpus-per-task=a100:2", 4, "n_tasks=4 gpus_per_task=2 gpus_per_node=0"),
    ("-n 16 --gpus=4", 16, "n_tasks=4 cpus_per_task=4 gpus_per_task=1"),
    ("-n8 --gres=gpu:2", 8, "n_tasks=8 gpus_per_node=2"),
    ("--array=0-9%2 -n 3", 3, "n_tasks=3 array_limit=2"),
    ("-n 10 --ntasks-per-n=4 --arr=1-9%3", 10, "n_tasks=10 tasks_per_node=4 array_limit=3"),
    ("--gpus=4 --ntasks-per-gpu=4", 16, "n_tasks=4 cpus_per_task=4 gpus_per_task=1"),
    ("-c 4", 12, "n_tasks=3 cpus_per_task=4"),  # the script says -n 3
    ("-n 3", 12, "n_tasks=3 cpus_per_task=4"),  # the script says -c 4
    ("-N 1 -n 8", 8, "n_tasks=0 n_nodes=1 cpus_per_node=8"),
    ("-N 2 --ntasks-per-node=4 --gpus-per-task=1", 8, "n_tasks=0 gpus_per_node=4"),
    ("-p long", 8, "n_tasks=0"),
    ("-n 8 --wrap=srun -n 2 ./a", 8, "n_tasks=8 cpus_per_task=1"),  # what --wrap held in quotation marks
    ("-n 3 -c 2", 12, "n_tasks=0"),  # something else was said, too
]


@pytest.mark.parametrize(("options", "cpus", "wanted"), ASKED, ids=[one[0] for one in ASKED])
def test_a_job_of_tasks_has_what_its_command_line_asks_for(sacct, options, cpus, wanted):
    """`ReqCPUS` completes what only the script said; a job of which nothing tells keeps the shape that was logged."""
    row = line(ReqTRES=f"cpu={cpus},mem=16G,node=1", ReqCPUS=str(cpus)) + f"|sbatch {options} run.sh"
    other = line("2") + "|sbatch -n 2 run.sh"
    job = sacct(row, other, header=f"{HEADER}|SubmitLine").jobs.iloc[0]
    for each in wanted.split():
        name, _, value = each.partition("=")
        assert int(job[name]) == int(value), each


@pytest.mark.parametrize(
    "options", ["-N 1 --ntasks-per-node=4 --gres=gpu:b:1", "-N 1 -n 4 -G b:1", "-n 4 --gres=gpu:b:1"]
)
def test_a_model_of_gpus_that_is_not_accounted_is_read_from_the_command_line(sacct, options):
    """AccountingStorageTRES=gres/gpu counts GPUs of all models; the job may run on those of its own only."""
    tres = "cpu=4,gres/gpu=1,mem=16G,node=1"
    row = line(ReqTRES=tres, AllocTRES=tres, ReqCPUS="4") + f"|sbatch {options} run.sh"
    job = sacct(row, header=f"{HEADER}|SubmitLine").jobs.iloc[0]
    assert job["gpu_type"] == "b" and job["gpus_per_node"] + 4 * job.get("gpus_per_task", 0) >= 1


def test_memory_of_a_task_is_not_more_for_the_rounding_of_its_nodes(sacct):
    """16,000 MB by default for 16 tasks, on three nodes: 1,000 each, of which 16 fill a node of 16,000."""
    of = {"ReqTRES": "cpu=16,mem=16000M,node=1", "AllocTRES": "cpu=16,mem=16000M,node=3", "ReqMem": "16000M"}
    row = line(**of, ReqCPUS="16", NNodes="3", NodeList="c[1-3]") + "|sbatch -n 16 run.sh"
    assert sacct(row, header=f"{HEADER}|SubmitLine").jobs["mem_mb_per_task"].tolist() == [1000]


def test_what_asked_for_tasks_is_counted_by_core_hours(sacct):
    """Unreadable lines and lines that do not say it are unknown; --set asks=tasks says it for them."""
    rows = [
        line("1", NNodes="3", ReqTRES="cpu=8,node=1", AllocTRES="cpu=8,node=3", NodeList="c[1-3]"),
        line("2", NNodes="2", ReqTRES="cpu=8,node=2", AllocTRES="cpu=8,node=2", NodeList="c[1-2]"),
        line("3", ReqTRES="cpu=4,node=1"),
        line("4", ReqTRES="cpu=4,node=1"),
    ]
    lines = ["", "", "sbatch run.sh", "sbatch -n '4"]
    both = [f"{row}|{text}" for row, text in zip(rows, lines, strict=True)]
    found = sacct(*both, header=f"{HEADER}|SubmitLine")
    assert found.shape == {"tasks": 9 / 25, "nodes": 8 / 25, "unknown": 8 / 25}
    assert found.jobs["n_tasks"].tolist() == [8, 0, 0, 0]
    assert any("32 % unknown" in text for text in found.account())
    assert any("1 submit line cannot be read" in note for note in found.notes)
    assert sacct(*rows, asks="tasks").jobs["n_tasks"].tolist() == [8, 0, 4, 4]
    assert "n_tasks" not in sacct(*rows, shape="as-logged").jobs


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(1, 64),
    c=st.sampled_from([1, 1, 2, 6]),
    wide=st.sampled_from([0, 0, 4]),
    low=st.sampled_from([0, 0, 2]),
    more=st.sampled_from([0, 3]),
    style=st.sampled_from(["long", "short", "spaced"]),
    memory=st.sampled_from(["", "--mem=2G", "--mem-per-cpu=100"]),
)
def test_options_in_any_spelling_ask_for_the_same(n, c, wide, low, more, style, memory):
    """Of random options, the line asks for the tasks that they name, on as many nodes."""
    options = {"ntasks": n, "cpus-per-task": c, "ntasks-per-node": wide, "nodes": f"{low}-{low + more}" if low else 0}
    short = {"ntasks": "n", "cpus-per-task": "c", "nodes": "N"}
    words = []
    for name, value in options.items():
        if value and style == "long":
            words.append(f"--{name}={value}")
        elif value:
            words.append(f"-{short[name]}{value}" if style == "short" and name in short else f"--{name} {value}")
    asked = asked_for(line_options(f"sbatch {' '.join(words)} {memory} -J x run.sh -n 99"), n * c)
    stated = max(min(low, n), 1)
    least = max(stated, -(-n // wide) if wide else 1)
    assert (asked.n_tasks, asked.cpus_per_task) == (n, c)
    assert asked.mem_mb_per_task == (100 * c if "per-cpu" in memory else 0)
    assert asked.mem_mb_per_node == (2048 if "2G" in memory else -1)
    high = low + more if low else 0
    even = (wide and n == wide * stated and high in (0, least)) or (high == least and high in (1, n))
    assert (asked.shape, asked.max_nodes) == ("nodes" if even else "tasks", high)
    assert asked.min_nodes == stated


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("-n 6 --ntasks-per-core=1", {"own_cores": "task"}),
        ("-n 6 --hint=nomultithread", {"own_cores": "cpu"}),
        ("-n 6 -B *:*:1", {"own_cores": "cpu"}),
        ("-n 6 --gpus=2", {"gpu_defaults": "cpu mem"}),
        ("-n 6 --gpus=2 -c 1 --mem=100", {"gpu_defaults": ""}),
        ("-n 6 --gpus=2 --exclusive", {"gpu_defaults": ""}),
        ("--gpus=6", {"n_tasks": 6, "cpus_per_task": 1, "gpus_per_task": 1, "gpu_defaults": "cpu mem"}),
        ("--gpus=3 --cpus-per-gpu=2", {"n_tasks": 3, "cpus_per_task": 2, "gpus_per_task": 1, "gpu_defaults": "mem"}),
        ("-n 6 --gpus-per-task=1 --cpus-per-gpu=4", {"n_tasks": 6, "cpus_per_task": 4, "gpus_per_task": 1}),
    ],
)
def test_what_a_site_adds_to_a_request_and_whose_cores_are_its_own(sacct, options, found):
    """A real Slurm's ReqTRES lacks what defaults per GPU and ``--cpus-per-gpu`` add; AllocTRES holds it."""
    n = 1 if options.startswith("--gpus") else 6
    gpus = int(options.split("gpus=")[1][0]) if "gpus=" in options else 6 * ("gpus-per-task" in options)
    asked, got = f"cpu={n},mem={n}G,node=1,gres/gpu={gpus}", f"cpu=24,mem=48G,node=1,gres/gpu={gpus}"
    row = line("1", ReqCPUS=str(n), ReqMem=f"{n}G", ReqTRES=asked, AllocTRES=got) + f"|sbatch {options} a.sh"
    plain = line("2", ReqCPUS="1", ReqTRES="cpu=1,mem=1G,node=1,gres/gpu=1", AllocTRES=got) + "|sbatch --gpus=1 a.sh"
    read = sacct(row, plain, header=f"{HEADER}|SubmitLine")
    job = read.jobs.iloc[0]
    for name, value in found.items():
        assert (str(job.get(name, "")).strip() if isinstance(value, str) else job[name]) == value
    assert not any("no policy goes by" in note for note in read.notes)
