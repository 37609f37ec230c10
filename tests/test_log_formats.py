"""Logs of every batch system: each is told by its first lines, and read by rules that hold for all."""

from __future__ import annotations

import csv
import gzip
import json
from functools import partial

import pandas as pd
import pytest

from procure.errors import TableError
from procure.schemas import as_logged
from procure.workload import import_log
from procure.workload.importing import FORMATS, Format, recognised
from procure.workload.ledger import Rows
from procure.workload.log_settings import LogFormat
from procure.workload.read_sacct import read_sacct

ROW = "1 0 7 3600 16 -1 -1 16 7200 2000 1 3 1 -1 -1 -1 -1 -1\n"
PBS = (
    "01/02/2024 10:00:00;Q;7.m;queue=q\n"
    "01/02/2024 12:00:00;E;7.m;user=ann group=g project=p jobname=x queue=q ctime=1704186000 qtime=1704186000 "
    "etime=1704186060 start=1704186600 exec_host=a1/0*8+a2/0*8 Resource_List.select=2:ncpus=8:mem=4gb:ngpus=1 "
    "Resource_List.walltime=02:00:00 end=1704190200 Exit_status=0 resources_used.walltime=01:00:00\n"
    "01/02/2024 13:00:00;E;8.m;user=bob ctime=1704186000 start=1704186600 exec_host=b1/0-3+b2/0+b2/1+b2/2+b2/3 "
    "Resource_List.nodes=2:ppn=4:gpus=2 end=1704186700 Exit_status=271 resources_used.walltime=00:01:40\n"
)
TORQUE = (
    "01/02/2024 13:00:00;E;9.m;user=bob queue=q ctime=1704186000 start=1704186600 exec_host=b1/0+b1/1+b2/0+b2/1 "
    "Resource_List.ncpus=1 Resource_List.nodes=2:big:ppn=2 Resource_List.walltime=7200 end=1704186700 Exit_status=0\n"
)
LSF = (
    '"JOB_FINISH" "10.1" 1704190200 41 1000 33 16 1704186000 0 0 1704186600 "ann" "normal" "rusage[ngpus_physical=2]" '
    '"" "" "login" "/h" "" "o" "e" "f" 0 2 "8*h1" "8*h2" 64 60.0 "name" "#BSUB -W 2:30;run ""it""" 1.0 1.0 '
    + "0 " * 17
    + '"" "proj" 0 16 "" "" 0 10\n"JOB_NEW" "10.1" 1704186000 41\n'
)
SGE = (
    "# a comment\nq:h1:g:ann:mpi:51:sge:0:1704186000000:1704186600000:1704190200000:0:0:3600"
    + ":0" * 17
    + ":NONE:d:mpi:16:3:1:1:0:-l h_rt=2:00:00,gpu=4 -pe mpi 16:0:NONE:0:0:0\n"
)
OCS = {
    "job_number": 51, "task_number": 3, "start_time": 1704186600123456, "end_time": 1704190200123456, "owner": "ann",
    "qname": "q", "hostname": "h1", "slots": 16, "job_name": "x", "submission_time": 1704186000874519,
    "category": "-l h_rt=7200,gpu=4 -pe mpi 16", "failed": 0, "exit_status": 0, "usage": {"rusage": {}},
}  # fmt: skip
LIMIT = (
    ' 0 "" "" "" "" 0 "" 0 "" -1 "" "" "" "" -1 "" "" 5136 "" 1704186600 "" "" 1 9 "0" 1 "h1" 1 2 3 4 0 5400 0 0 '
    '"select[any]"'
)
CONDOR = {
    "ClusterId": 9, "ProcId": 2, "Owner": "ann", "QDate": 1704186000, "JobCurrentStartDate": 1704186600,
    "CompletionDate": 1704190200, "RequestCpus": 4, "RequestMemory": 2000, "RequestGpus": 1, "JobStatus": 4,
    "LastRemoteHost": "slot1@h7", "RemoteWallClockTime": 3600.0,
}  # fmt: skip
XML = "".join(f'<a n="{name}"><s>{value}</s></a>\n' for name, value in CONDOR.items())
LONG = "\n".join(f"{name} = {json.dumps(value)}" for name, value in CONDOR.items()) + "\n\n"
SLURMDBD = (
    "id_job,id_array_job,id_array_task,id_user,cpus_req,mem_req,nodes_alloc,nodelist,state,timelimit,time_submit,"
    "time_eligible,time_start,time_end,tres_req,tres_alloc,gres_req\n"
    '5,0,4294967294,77,8,9223372036854779908,1,n1,3,120,1704186000,1704186060,1704186600,1704190200,"1=8,4=1","1=8",'
    "gpu:a100:2\n"
    "6,0,4294967294,77,8,4000,1,n1,4,120,1704186000,0,0,1704186100,,,\n"
)
_HEAD = SLURMDBD.splitlines()[0].split(",")
DUMP = (
    "-- MySQL dump 10.13\nCREATE TABLE `lab_job_table` (\n"
    + "".join(f"  `{name}` int(10) NOT NULL,\n" for name in [*_HEAD, "account", "submit_line"])
    + "  KEY (`id_job`)\n) ENGINE=InnoDB;\nINSERT INTO `lab_job_table` VALUES (5,0,4294967294,77,8,4100,1,'n1',3,"
    "120,1704186000,1704186060,1704186600,1704190200,'1=8,4=1','1=8','gpu:a100:2','o\\'neil','sbatch -N 1 a),(b'),"
    "(6,0,4294967294,77,8,4000,1,'n1',4,120,1704186000,0,0,1704186100,'','',NULL,'x','');\n"
)
JOBCOMP = (
    "JobId=5 UserId=ann(1001) GroupId=g(100) Name=my job JobState=COMPLETED Partition=p TimeLimit=120 "
    "StartTime=2024-01-02T09:10:00 EndTime=2024-01-02T10:10:00 NodeList=n[1-2] NodeCnt=2 ProcCnt=16 WorkDir=/h/a=b "
    "ReservationName= Tres=cpu=16,mem=32000M,node=2,gres/gpu=2 Account=a QOS=normal WcKey= Cluster=c "
    "SubmitTime=2024-01-02T09:00:00 EligibleTime=2024-01-02T09:00:00 ArrayJobId=4 ArrayTaskId=1 ExitCode=0:0 \n"
)
REPORTING = "1704186000:new_job:1704186000:51:-1:NONE:x:ann:g::d:sge:9\n1704186060:host:h1:1:X:c=1\n1704190200:acct:"
ADA = ["ann", 3600, 0, 1, 4, 2000, 1]
FIGURES = "job_id user run_time requested_time n_nodes cpus_per_node mem_mb_per_node gpus_per_node".split()


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("pbs", PBS, [["7.m", "ann", 3600, 7200, 2, 8, 4295, 1], ["8.m", "bob", 100, 0, 2, 4, 0, 2]]),
        ("lsf", LSF, [["41", "ann", 3600, 9000, 2, 8, 0, 2]]),
        ("pbs", TORQUE, [["9.m", "bob", 100, 7200, 2, 2, 0, 0]]),  # ncpus=1 is Torque's own
        ("pbs", PBS.replace("2:ncpus=8:mem=4gb:ngpus=1", "1:ncpus=4+1:ncpus=12:ngpus=2").replace("=ann", '="ann lee"'),
         [["7.m", "ann lee", 3600, 7200, 2, 8, 0, 1], ["8.m", "bob", 100, 0, 2, 4, 0, 2]]),
        ("sge", f"{SGE}# Version 8\n", [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("lsf", LSF.replace('"" "" 0 10', '"" "" 3 10'), [["41_3", "ann", 3600, 9000, 2, 8, 0, 2]]),
        ("sge", SGE.replace("2:00:00", "2\\:00\\:00").replace(":mpi:51", ":m\\:i:51"),
         [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("sge", SGE.replace(":0:0:0\n", "\n"), [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),  # of version 6.1
        ("sge", SGE + SGE.splitlines()[1].replace(":NONE:0:0:0", ":1.h2:0:0:0") + "\n",
         [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("condor", "".join(json.dumps(CONDOR | {"ProcId": n, "JobUniverse": u}) + "\n" for n, u in ((2, 5), (3, 7))),
         [["9_2", *ADA]]),
        ("slurmdbd", SLURMDBD.replace("id_job,", "id_job,het_job_id,het_job_offset,").replace("5,0,", "5,5,0,NULL,")
         .replace("6,0,", "6,5,1,0,").replace(",0,1704186100,,,", ",1704186600,1704190200,,,"),
         [["5", "77", 3600, 7200, 2, 8, 8 * 4100, 2]]),
        ("pbs", TORQUE + TORQUE.replace(";9.m;", ";9[].m;"), [["9.m", "bob", 100, 7200, 2, 2, 0, 0]]),
        ("slurmdbd", SLURMDBD.replace(",", ";").replace("8;4=1", "8,4=1"),
         [["5", "77", 3600, 7200, 1, 8, 8 * 4100, 2]]),
        ("pbs", TORQUE.replace("=7200", "=3:02:00:00"), [["9.m", "bob", 100, 266_400, 2, 2, 0, 0]]),
        ("condor", LONG.replace('LastRemoteHost = "slot1@h7"\n', ""), [["9_2", *ADA]]),
        ("sge", SGE, [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("condor", json.dumps([CONDOR]), [["9_2", *ADA]]),
        ("condor", LONG, [["9_2", *ADA]]),
        ("condor", f"{LONG}{LONG.replace('ProcId = 2', 'ProcId = 3')}", [[f"9_{n}", *ADA] for n in (2, 3)]),
        ("slurmdbd", SLURMDBD, [["5", "77", 3600, 7200, 1, 8, 8 * 4100, 2]]),
        ("pbs", TORQUE.replace("ncpus=1", "ncpus=1 Resource_List.mem=4.5 gb Resource_List.gpus=2"),
         [["9.m", "bob", 100, 7200, 2, 2, 2416, 1]]),
        ("pbs", TORQUE.replace("+b1/1+b2/0+b2/1", "")
         .replace("nodes=2:big:ppn=2", "mppwidth=64 Resource_List.mppnppn=32"),
         [["9.m", "bob", 100, 7200, 2, 32, 0, 0]]),  # of a Cray
        ("pbs", PBS.replace("ngpus", "naccelerators").replace("00;E", "00.123456;E"),
         [["7.m", "ann", 3600, 7200, 2, 8, 4295, 1], ["8.m", "bob", 100, 0, 2, 4, 0, 2]]),
        ("lsf", LSF.replace(" 33 16 ", " 33 4 "), [["41", "ann", 3600, 9000, 2, 8, 0, 2]]),  # -n 4,16
        ("lsf", '"EVENT_ADRSV_FINISH" "10.1" 1704186000\n' + LSF.replace('"rusage[ngpus_physical=2]"', '""')
         .replace(" 0 10", ' 0 10 "rusage[ngpus_physical=2.00]"'), [["41", "ann", 3600, 9000, 2, 8, 0, 2]]),
        ("lsf", LSF.replace("physical=2", "physical=0.50"), [["41", "ann", 3600, 9000, 2, 8, 0, 1]]),
        ("lsf", LSF.replace("physical=2", "physical=2.00/task"), [["41", "ann", 3600, 9000, 2, 8, 0, 16]]),
        ("sge", SGE.replace("gpu=4", "gpu=4,gpu_type=V100"), [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("sge", SGE.replace("gpu=4", "coproc_v100=4"), [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("slurmdbd", SLURMDBD.replace("time_end,", "time_end,time_suspended,deleted,")
         .replace("4190200,", "4190200,600,0,").replace(",0,1704186100,", ",1704186600,1704190200,0,1,"),
         [["5", "77", 3000, 7200, 1, 8, 8 * 4100, 2]]),
        ("sge", SGE.replace("sge:0:", "sge:-5:").replace(",gpu=", ",num_GPUs="),
         [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("sge", SGE.replace("h_rt=2:00:00,gpu=4 -pe mpi 16", "gpu=4,h_rt=7200").replace(":0:NONE:0", ":0.0:NONE:0"),
         [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("sge", SGE.replace("h_rt=2:00:00,gpu=4 -pe mpi 16", "gpu=4,h_rt=2:00:00").replace(":0:NONE:0", ":0.0:NONE:0"),
         [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("lsf", LSF.replace("run ", "run --ngpus=8 ").replace("rusage[ngpus_physical=2]", ""),
         [["41", "ann", 3600, 9000, 2, 8, 0, 0]]),
        ("pbs", TORQUE.replace("ncpus=1", "ncpus=1 Resource_List.mppnppn=0"), [["9.m", "bob", 100, 7200, 2, 2, 0, 0]]),
        ("condor", LONG.replace("Request", "request"), [["9_2", *ADA]]),
        ("condor", json.dumps([CONDOR | {"JobUniverse": 11, "MaxHosts": 2}]),
         [["9_2", "ann", 3600, 0, 2, 4, 2000, 1]]),
        ("slurmdbd", SLURMDBD.replace("id_job,", "id_job,pack_job_id,pack_job_offset,").replace("5,0,", "5,5,0,0,")
         .replace("6,0,", "6,5,1,0,").replace(",0,1704186100,,,", ",1704186600,1704190200,,,"),
         [["5", "77", 3600, 7200, 2, 8, 8 * 4100, 2]]),
        ("pbs", TORQUE.replace("start=", "exec_gpus=b1-gpu/0+b2-gpu/0 start="),
         [["9.m", "bob", 100, 7200, 2, 2, 0, 1]]),
        ("pbs", TORQUE.replace(":big:", ":gpu=1:").replace("exec_host=b1/0+b1/1+b2/0+b2/1 ", ""),
         [["9.m", "bob", 100, 7200, 2, 2, 0, 1]]),
        ("lsf", LSF.replace(" 0 10", f" 0 10{LIMIT}"), [["41", "ann", 3600, 5400, 2, 8, 0, 2]]),
        ("sge", SGE.replace("000:", "000123:"), [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("sge", json.dumps(OCS) + "\n", [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("condor", f'<?xml version="1.0"?>\n<classads>\n<c>\n{XML}</c>\n</classads>\n', [["9_2", *ADA]]),
        ("condor", LONG.replace("RequestGpus", "GPUsProvisioned"), [["9_2", *ADA]]),
        ("slurmdbd", SLURMDBD.replace("gpu:a100:2", "").replace('"1=8,4=1"', '"cpu=8,node=1,gres/gpu=2"'),
         [["5", "77", 3600, 7200, 1, 8, 8 * 4100, 2]]),
        ("slurmdbd", SLURMDBD.split("\n", 1)[0].upper() + "\n" + SLURMDBD.split("\n", 1)[1],
         [["5", "77", 3600, 7200, 1, 8, 8 * 4100, 2]]),
        ("slurmdbd", SLURMDBD.replace("9223372036854779908", "-9223372036854771708").replace("nodelist,", "")
         .replace(",n1,", ","), [["5", "77", 3600, 7200, 1, 8, 8 * 4100, 2]]),
        ("slurmdbd", DUMP, [["5", "77", 3600, 7200, 1, 8, 4100, 2]]),
        ("slurmdbd", SLURMDBD.replace("nodes_alloc,", "").replace(",1,n1,", ',"n[1-2]",').replace(",4=1", ""),
         [["5", "77", 3600, 7200, 2, 4, 4 * 4100, 1]]),
        ("jobcomp", JOBCOMP, [["4_1", "ann", 3600, 7200, 2, 8, 16_000, 1]]),
        ("jobcomp", JOBCOMP.replace("Tres=cpu=16,mem=32000M,node=2,gres/gpu=2", "Gres=gpu:2"),
         [["4_1", "ann", 3600, 7200, 2, 8, 0, 2]]),  # of each node
        ("sge", REPORTING + SGE.splitlines()[1] + "\n", [["51_3", "ann", 3600, 7200, 1, 16, 0, 4]]),
        ("pbs", TORQUE.replace("b1/0+b1/1+b2/0+b2/1", '"R00-M0-128"').replace("ncpus=1", "ncpus=8192")
         .replace("nodes=2:big:ppn=2", "nodect=128"), [["9.m", "bob", 100, 7200, 128, 64, 0, 0]]),  # of Cobalt
        ("pbs", TORQUE.replace("ppn=2", "ppn=all"), [["9.m", "bob", 100, 7200, 2, 2, 0, 0]]),
        ("slurmdbd", SLURMDBD.replace("_job,", "_job,job_name,", 1).replace("5,0,", r'5,"a \"b\", c",0,')
         .replace("6,0,", r"6,\N,0,"), [["5", "77", 3600, 7200, 1, 8, 8 * 4100, 2]]),
        ("sacct", "JobID|User|Submit|Start|End|ReqCPUS|Suspended|TimelimitRaw\n"
         "1|ann|1704186000|1704186600|1704190200|4|00:10:00|120\n", [["1", "ann", 3000, 7200, 1, 4, 0, 0]]),
        ("sacct", "JobID|User|Submit|Start|End|ReqCPUS|TimelimitRaw|SubmitLine\n" + "".join(
            f"{n}|ann|1704186000|1704186600|1704190200|8|120|sbatch {line} a\n" for n, line in enumerate(
                ("--gres=gpu:2", "-n 3 -G 2", "-c 8 --gpus-per-socket=2 --sockets-per-node=1"))),
         [[f"{n}", "ann", 3600, 7200, 1, 8, 0, 2] for n in range(3)]),  # not all CPUs stand on the line
    ],
)  # fmt: skip
def test_a_log_is_told_and_read(tmp_path, name, text, rows):
    """Times, shape, memory in MB and GPUs of a node, of ended jobs; what is left out is counted."""
    path = tmp_path / "log"
    path.write_text(text)
    found = import_log(path)
    assert recognised(text).name == name
    assert found.jobs[FIGURES].to_numpy().tolist() == rows
    assert (found.jobs["start_time"] - found.jobs["submit_time"]).tolist() == [600] * len(rows)
    assert found.n_read == len(found.jobs) + sum(found.dropped.values())


@pytest.mark.parametrize("name", ["pbs", "lsf", "sge"])
def test_a_damaged_line_is_named(tmp_path, name):
    path, text = tmp_path / "log", {"pbs": PBS, "lsf": LSF, "sge": SGE}[name]
    broken = {"pbs": "nonsense", "lsf": LSF[: LSF.index("it")], "sge": "a:b:c"}[name]
    path.write_text(f"{text}{broken}\n{text.splitlines()[-1]}\n")
    line = len(text.splitlines()) + 1
    with pytest.raises(TableError, match=f"line {line}: .*skip_bad_rows"):
        import_log(path, name)
    assert import_log(path, name, skip_bad_rows=True).dropped["unreadable row"] == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"; Version: 2.2\n{ROW}", "swf"),
        (ROW, "swf"),
        ("JobID|User|Submit\n1|a|2\n", "sacct"),
        ('{"jobs":[{"job_id":1}]}', "sacct"),
        ("a;b;c\n1;2;3\n", "csv"),
        ("nothing that is known\n", None),
    ],
)
def test_a_format_is_told_by_its_first_lines(text, name):
    found = recognised(text)
    assert (None if found is None else found.name) == name


def test_a_format_is_one_row(tmp_path, monkeypatch):
    """A reader and a row of the table make a log readable; settings name exactly the table's rows."""
    assert set(FORMATS) == set(LogFormat.__args__)

    def rows(text):
        found = Rows(text)
        for number, line in found.lines():
            name, submit, start, end, cpus = line.split("~")
            found.add(number, JobID=name, Submit=submit, Start=start, End=end, ReqCPUS=cpus)
        return found

    own = Format("own", "of ours", lambda lines: "~" in lines[0], partial(read_sacct, rows=rows))
    monkeypatch.setattr("procure.workload.importing.FORMATS", {"own": own})
    (tmp_path / "log").write_text("a~1704186000~1704186600~1704190200~4\n")
    assert import_log(tmp_path / "log").jobs["cpus_per_node"].tolist() == [4]


SACCT = "JobID|User|Submit|Start|End|State|Timelimit|ReqCPUS|ReqMem|NNodes|Elapsed"


def sacct(tmp_path, *rows, header=SACCT, **settings):
    path = tmp_path / "log.psv"
    path.write_text("\n".join([*([header] if header else []), *rows]) + "\n")
    return import_log(path, "sacct", tz="UTC", **settings)


@pytest.mark.parametrize("start", ["0", "-1", "None", "Unknown", "1970-01-01T00:00:00", ""])
def test_what_is_no_time_is_no_start(tmp_path, start):
    """0, −1, 1970 and words; a cancelled job that ends as it starts after nothing waited only."""
    good = "1|a|2024-01-02T10:00:00|2024-01-02T10:10:00|2024-01-02T11:10:00|COMPLETED|02:00:00|4|8G|1|01:00:00"
    none = f"2|a|2024-01-02T10:00:00|{start}|2024-01-02T11:10:00|CANCELLED by 1|02:00:00|4|8G|1|00:00:00"
    gone = "3|a|2024-01-02T10:00:00|2024-01-02T11:10:00|2024-01-02T11:10:00|CANCELLED by 1|02:00:00|4|8G|1|00:00:00"
    found = sacct(tmp_path, good, none, gone)
    assert found.jobs["job_id"].tolist() == ["1"]
    assert found.dropped == {"never started": 2}


def test_a_run_of_decades_is_an_error(tmp_path):
    row = "1|a|1972-01-02T10:00:00|1972-01-02T10:10:00|2024-01-02T11:10:00|COMPLETED|02:00:00|4|8G|1|"
    with pytest.raises(TableError, match="row 1, column run time: '52 years'"):
        sacct(tmp_path, row.rstrip("|"), header=SACCT.removesuffix("|Elapsed"))


def test_gpus_of_an_allocation_are_not_lost(tmp_path):
    """AllocTRES beside a request without GPUs, AllocGRES of all nodes, and a share of a GPU, which is said."""
    header = f"{SACCT}|ReqTRES|AllocTRES|AllocGRES|ReqGRES"
    start = "a|2024-01-02T10:00:00|2024-01-02T10:10:00|2024-01-02T11:10:00|COMPLETED|02:00:00|8|8Gn|2|01:00:00"
    found = sacct(
        tmp_path,
        f"1|{start}|cpu=8,node=2|cpu=8,node=2,gres/gpu:v100=4||",
        f"2|{start}|||gpu:a100:6|",
        f"3|{start}|cpu=8,node=2|cpu=8,node=2,gres/shard=4||",
        f"4|{start}|||7696487:4|",
        f"5|{start}|cpu=8,node=2,gres/gpu=5|||",
        f"6|{start}|||gpu:3090:4|",
        f"7|{start}|||PER_NODE:gpu:1g.5gb:7|",
        f"8|{start}|||gpu:4|gpu:2",
        f"9|{start}|||gpu:8|PER_TASK:gpu:1",
        f"10|{start}||||PER_SOCKET:gpu:2",
        f"11|{start}|cpu=8,node=2|cpu=8,node=2,gres/gpu=4,gres/gpu:v100=2,gres/gpu:p100=2||",
        header=header,
    )
    assert found.jobs["gpus_per_node"].tolist() == [2, 3, 0, 2, 3, 2, 7, 2, 4, 1, 2]
    assert found.jobs["gpu_type"].tolist() == ["v100", "a100", "", "", "", "3090", "1g.5gb", "", "", "", ""]
    assert any(note.startswith("1 job with GPUs of several models") for note in found.notes)
    assert any("shard" in note for note in found.notes) and any("1 job asked for GPUs" in one for one in found.notes)


def test_a_job_of_tasks_keeps_the_nodes_that_it_got(tmp_path):
    """Slurm writes node=1 for -n 96; memory is that of the nodes that it got."""
    row = "1|a|1704186000|1704186600|1704190200|COMPLETED|02:00:00|96|192000M|4|01:00:00"
    tres = "|cpu=96,mem=192000M,node=1|cpu=96,mem=192000M,node=4"
    jobs = sacct(tmp_path, row + tres, header=f"{SACCT}|ReqTRES|AllocTRES").jobs
    assert jobs[["n_nodes", "cpus_per_node", "n_tasks", "mem_mb_per_task"]].to_numpy().tolist() == [[4, 24, 96, 2000]]
    assert as_logged(jobs)["mem_mb_per_node"].tolist() == [48_000]


def test_what_other_tools_make_of_sacct_is_read(tmp_path):
    """CSV with quoted cells, files one behind the other, and numbers of 1,024 without --noconvert."""
    row = ["1", "a", "1704186000", "1704186600", "1704190200", "COMPLETED", "02:00:00", "4K", "8Gn", "2K", "01:00:00"]
    more = ["cpu=4096,node=2048", 'run "a", b']
    plain = sacct(tmp_path, "|".join(row + more), header=f"{SACCT}|ReqTRES|JobName").jobs
    assert plain[["n_nodes", "cpus_per_node", "run_time"]].to_numpy().tolist() == [[2048, 2, 3600]]
    again = sacct(tmp_path, "|".join(row), SACCT, "|".join(["2", *row[1:]])).jobs
    assert again[["n_nodes", "cpus_per_node"]].to_numpy().tolist() == [[2048, 2]] * 2
    for mark, last in ((",", "JobName"), ("|", "TresPerNode")):
        with (tmp_path / "log.csv").open("w", newline="") as file:
            rows = [[*SACCT.split("|"), "ReqTRES", last], [*row, more[0], 'gres:gpu "2"']]
            csv.writer(file, delimiter=mark, quoting=csv.QUOTE_ALL).writerows(rows)
        found = import_log(tmp_path / "log.csv")
        assert found.jobs[FIGURES].equals(plain[FIGURES])
    assert any("column tresper" in one for one in found.warnings)
    row = "|".join([*row, "gres:gpu:2", "sbatch -N 2048 --gres=gpu:2 a"])
    found = sacct(tmp_path, row, header=f"{SACCT}|TresPerNode|SubmitLine")
    assert found.jobs["gpus_per_node"].tolist() == [2] and not any("tresper" in one for one in found.warnings)


def test_what_slurm_leaves_out_of_its_fields_stands_on_the_command_line(tmp_path):
    """The reservation of who came before it began, and CPUs where a range of nodes alone was asked for."""
    row = "{}|a|1704186000|1704186600|1704190200|COMPLETED|120|{}|1000M|{}|3600|cpu={},node={}|cpu={},node={}|{}|{}"
    header = SACCT + "|ReqTRES|AllocTRES|Reservation|SubmitLine"
    found = sacct(
        tmp_path,
        row.format(1, 2, 1, 2, 1, 2, 1, "", "sbatch -n 2 --reservation=course a"),
        row.format(2, 2, 1, 2, 1, 2, 1, "other", "sbatch -n 2 --reservation=course a"),
        row.format(3, 1, 4, 1, 1, 4, 4, "", "sbatch -N 1-4 a"),
        row.format(4, 2, 3, 2, 2, 6, 3, "", "sbatch -N 2-3 -c 2 a"),
        row.format(5, 2, 2, 2, 1, 4, 2, "", "sbatch -N 1-3 --ntasks-per-node=2 a"),
        row.format(6, 6, 2, 6, 1, 6, 2, "", "sbatch -N 1-3 a"),  # -n 6 stands in the script
        row.format(7, 8, 1, 8, 1, 8, 1, "", "sbatch -n 1 --tres-per-task=cpu:8,gres/gpu:1 a"),
        header=header,
    )
    assert found.jobs["reservation"].tolist() == ["course", "other", "", "", "", "", ""]
    assert found.jobs["gpus_per_task"].tolist() == [0] * 6 + [1]
    asked = found.jobs[["n_tasks", "cpus_per_task", "min_nodes", "max_nodes"]].to_numpy().tolist()
    assert asked[2:5] == [[4, 1, 1, 4], [3, 2, 2, 3], [4, 1, 1, 3]] and asked[5][0] * asked[5][1] == 6
    assert any("3 jobs asked for a range of nodes alone" in one for one in found.notes)


def test_a_file_without_a_header_is_read_by_named_fields(tmp_path):
    """Else it is refused with what to do; another delimiter and a command line with the delimiter in it are read."""
    row = "1|a|1704186000|1704186600|1704190200|COMPLETED|02:00:00|4|8G|1|01:00:00"
    path = tmp_path / "log.psv"
    path.write_text(row + "\n")
    with pytest.raises(TableError, match="--set fields="):
        import_log(path)
    with pytest.raises(TableError, match="--set fields="):
        import_log(path, "sacct")
    named = import_log(path, "sacct", fields=SACCT.replace("|", ",").replace("User", "User%30")).jobs
    assert named.equals(sacct(tmp_path, row).jobs)
    for mark in (";", "@@", "\x1e"):
        assert named.equals(sacct(tmp_path, row.replace("|", mark), header=SACCT.replace("|", mark)).jobs)
    assert named.equals(sacct(tmp_path, f"{row}|sbatch -N 1 -n 4 a|b", header=f"{SACCT}|SubmitLine").jobs)
    assert named.equals(sacct(tmp_path, f"{row}|sbatch -N 1 -n 4 --wrap=a\n|b", header=f"{SACCT}|SubmitLine").jobs)
    for command in ("sbatch -C old|new a|b", ""):  # so does a constraint
        found = sacct(tmp_path, f"{row}|old|new|lab|{command}", header=f"{SACCT}|Constraints|Cluster|SubmitLine").jobs
        assert (found["constraint"][0], found["cluster"][0]) == ("old|new", "lab")
    path.write_text(row.replace("|", ";") + "\n")
    columns = {"cpus_per_node": "c", "submit_time": "s", "start_time": "b", "end_time": "e", "requested_time": "limit"}
    found = import_log(path, "csv", fields="id,u,s,b,e,state,limit,c,m,n,t", columns=columns).jobs
    assert found["requested_time"].tolist() == [7200]


def test_a_step_of_any_name_and_a_limit_of_minutes(tmp_path):
    """1.TBD is no job, as 1.batch is none; a bare number is minutes, as of sbatch; names may be in small letters."""
    row = "1|a|1704186000|1704186600|1704190200|COMPLETED|90|4|8G|1|01:00:00"
    found = sacct(tmp_path, row, row.replace("1|", "1.TBD|", 1))
    assert found.jobs["requested_time"].tolist() == [5400]
    assert found.dropped == {"job step": 1}
    (tmp_path / "log").write_text(f"{SACCT.lower()}\n{row}\n")
    assert import_log(tmp_path / "log").jobs.equals(found.jobs)


def test_a_record_that_stands_twice_is_one_job(tmp_path):
    """Of files that overlap, also one of the job as it ran; a run time that is not said is that between the times."""
    times = "1704186000|1704186600|1704190200|COMPLETED"
    rows = [f"{n}|a|{times}|02:00:00|4|8G|1|{elapsed}" for n, elapsed in ((1, ""), (1, "01:00:00"), (2, "INVALID"))]
    running = rows[0].replace("1704190200|COMPLETED", "Unknown|RUNNING")
    found = sacct(tmp_path, *(f"{row}|shard:1" for row in (*rows, running)), header=f"{SACCT}|ReqGRES")
    assert found.jobs[["job_id", "run_time"]].to_numpy().tolist() == [["1", 3600], ["2", 3600]]
    for other in ("05:00:00", "00:01:00"):
        odd = sacct(tmp_path, rows[1].replace("01:00:00", other))
        assert any("1 job with a run time far from end" in note for note in odd.notes)
    assert found.dropped == {"the same record once more, as in joined files": 2}
    assert any("2 jobs asked for a share of a GPU" in note for note in found.notes)


def test_gpus_of_whole_pbs_nodes_and_their_model(tmp_path):
    """GPUs that only the nodes given have, and the model that was asked for."""
    text = PBS.replace(":ngpus=1", ":gpu_type=a100").replace(
        "exec_host=a1", "exec_vnode=(a1:ncpus=8:ngpus=4)+(a2:ngpus=4) exec_host=a1"
    )
    (tmp_path / "log").write_text(text)
    jobs = import_log(tmp_path / "log").jobs
    assert jobs[["gpus_per_node", "gpu_type"]].to_numpy().tolist() == [[4, "a100"], [2, ""]]


@pytest.mark.parametrize("required", [{"memory_per_cpu": 4096}, {"memory_per_node": 16_384}, {"memory": 2**63 + 4096}])
def test_the_memory_of_json_without_tres(tmp_path, required):
    time = {"submission": 1704186000, "start": 1704186600, "end": 1704190200}
    job = {"job_id": 5, "nodes": "n1", "allocation_nodes": 1, "time": time, "required": {"CPUs": 4} | required}
    (tmp_path / "log").write_text(json.dumps({"jobs": [job]}))
    jobs = import_log(tmp_path / "log").jobs
    assert jobs[["mem_mb_per_node", "run_time"]].to_numpy().tolist() == [[16_384, 3600]]
    (tmp_path / "log").write_text(json.dumps([job | {"time": time | {"elapsed": 3599.5}}]))  # the list alone
    assert import_log(tmp_path / "log").jobs.equals(jobs)
    told = "cpu=4,mem=16G,node=1,gres/gpu=2"
    both = [job | {"tres": {"requested": told}}, job | {"job_id": 6, "tres": told}]  # in two files, joined
    (tmp_path / "log").write_text("\n".join(json.dumps({"jobs": [one]}, indent=1) for one in both))
    assert import_log(tmp_path / "log").jobs["gpus_per_node"].tolist() == [2, 2]
    (tmp_path / "log").write_text('{"ClusterId": 1, "QDate": 1, "a":' + "[" * 100_000)
    with pytest.raises(TableError, match="is not JSON as condor_history"):
        import_log(tmp_path / "log", "condor")


def test_the_hour_that_comes_twice_and_parts_of_seconds(tmp_path):
    """An end is not before its start; of 01:10 and 01:50 in the night of the change the former is the later."""
    columns = {"submit_time": "s", "start_time": "b", "end_time": "e", "cpus_per_node": "c"}
    path = tmp_path / "log.csv"
    for rows, start in (("2024-11-03T00:50:00,2024-11-03T01:50:00,2024-11-03T01:10:00", 1730616600),
                        ("1730613000.25,1730616600.75,1730617800.5", 1730616600)):  # fmt: skip
        path.write_text(f"s,b,e,c\n{rows},4\n")
        jobs = import_log(path, columns=columns, tz="America/Chicago").jobs
        assert jobs[["start_time", "run_time"]].to_numpy().tolist() == [[start, 1200]]
    row = "1|a|2024-11-03T00:50:00|2024-11-03T01:50:00|2024-11-03T01:10:00|COMPLETED|02:00:00|4|8G|1|"
    (tmp_path / "log").write_text(f"{SACCT.removesuffix('|Elapsed')}\n{row[:-1]}\n")
    assert import_log(tmp_path / "log", tz="America/Chicago").jobs["run_time"].tolist() == [1200]


def test_a_csv_with_clocks_beside_numbers(tmp_path):
    """Numbers are in the unit that is said, clocks are not; pandas writes days; memory that no computer has is said."""
    path = tmp_path / "log.csv"
    path.write_text(
        "s,b,r,l,c,m,g\n1704186000,1704186600,0 days 01:00:00,90,4,67108864,gres/gpu=2\n"
        "1704186000,1704186600,1800,1-00:00:00,4,8,gpu=2\n"
    )
    mapping = {
        "submit_time": "s", "start_time": "b", "run_time": "r", "requested_time": "l:min", "cpus_per_node": "c",
        "mem_mb_per_node": "m", "gpus_per_node": "g",
    }  # fmt: skip
    found = import_log(path, columns=mapping)
    assert found.jobs[["run_time", "requested_time", "gpus_per_node"]].to_numpy().tolist() == [
        [3600, 5400, 2],
        [1800, 86_400, 2],
    ]
    assert any("67,108,864" in one for one in found.warnings)
    path.write_text("s,r,c,g\n1704186000,9,4,gpu:2\n1704186000,9,4,3\n1704186000,9,4,\n")
    asked = {name: mapping[name] for name in ("submit_time", "run_time", "cpus_per_node", "gpus_per_node")}
    assert import_log(path, columns=asked).jobs["gpus_per_node"].tolist() == [2, 3, 0]
    path.write_text('s,r,c,g\n1704186000,9,4,"cpu=4, gres/gpu=3"\n')
    assert import_log(path, columns=asked).jobs["gpus_per_node"].tolist() == [3]
    path.write_text("s,b,r,c\n1704186000,1704186600,24:00,4\n")
    found = import_log(path, columns={name: mapping[name] for name in ("submit_time", "run_time", "cpus_per_node")})
    assert found.jobs["run_time"].tolist() == [1440] and any("24 minutes" in note for note in found.notes)


@pytest.mark.parametrize("day", ["20240102", "2024-01-02", "45293.5"])
def test_days_alone_are_no_times(tmp_path, day):
    """Eight digits, or a spreadsheet's days, are no seconds: refused, not taken for a log's own clock."""
    (tmp_path / "log.csv").write_text(f"s,b,e,c\n{day},{day},{day},4\n{day},,,4\n")
    columns = {"submit_time": "s", "start_time": "b", "end_time": "e", "cpus_per_node": "c"}
    with pytest.raises(TableError, match=r"row 1, column s: .* is not a time: .* days"):
        import_log(tmp_path / "log.csv", columns=columns)


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("pbs", PBS.replace(":ngpus=1", " Resource_List.place=excl"), "1 job held whole nodes"),
        ("sge", SGE.replace("gpu=4", "exclusive=true"), "1 job with a parallel environment"),
    ],
)
def test_whole_nodes_are_held(tmp_path, name, text, word):
    """GPUs of such nodes are unknown where the log names none, which is said."""
    (tmp_path / "log").write_text(text)
    found = import_log(tmp_path / "log", name)
    assert found.jobs["exclusive"][0] and any(word in note for note in found.notes)


def test_a_text_in_other_bytes_is_the_same_log(tmp_path):
    """Packed without a suffix, UTF-16 without its mark, lines that end in CR, numbers as decimals; -1 is no limit."""
    row, path = "5|a|1704186000|1704186600|1704190200|COMPLETED|-1|4|8G|1|3600", tmp_path / "log"
    plain = sacct(tmp_path, row).jobs
    text = f"{SACCT}\n{row}\n"
    decimals = text.replace("5|a", "5.0|a").replace("-1|", "-1.0|").replace("|3600", "|3600.0")
    packed = gzip.compress(text.encode())
    for content in (packed, text.encode("utf-16-le"), text.replace("\n", "\r").encode(), decimals.encode()):
        path.write_bytes(content)
        assert import_log(path, "sacct", tz="UTC").jobs.equals(plain)
    path.write_bytes(b"PK\x03\x04\0\0a,b\n")
    with pytest.raises(TableError, match="is no text: unpack an archive"):
        import_log(path)
    path.write_bytes(packed[:60])
    with pytest.raises(TableError, match=r"damaged\? unpack it"):
        import_log(path)


def test_a_csv_with_slurms_units(tmp_path):
    """Clock durations, memory and GPUs as Slurm writes them; without ids jobs bear the numbers of their rows."""
    path = tmp_path / "log.csv"
    path.write_text("s,b,e,limit,c,m,g\n1704186000,1704186600,1704190200,1-00:00:00,8,4Gc,gpu:a100:2\n")
    mapping = {
        "submit_time": "s", "start_time": "b", "end_time": "e", "requested_time": "limit", "cpus_per_node": "c",
        "mem_mb_per_node": "m", "gpus_per_node": "g",
    }  # fmt: skip
    found = import_log(path, columns=mapping)
    assert found.jobs[FIGURES].to_numpy().tolist() == [["1", "", 3600, 86_400, 1, 8, 8 * 4096, 2]]
    assert found.jobs["gpu_type"].tolist() == ["a100"]
    pd.read_csv(path).to_parquet(tmp_path / "log.parquet")
    assert import_log(tmp_path / "log.parquet", columns=mapping).jobs.equals(found.jobs)


def test_amounts_that_are_seldom_meant_are_said(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("s;b;e;c\n1704186000;1704186600;1704190200;1.600\n1704186000;1704186600;1704190200;0\n")
    columns = {"submit_time": "s", "start_time": "b", "end_time": "e", "cpus_per_node": "c"}
    found = import_log(path, columns=columns)
    assert any("1.600" in note for note in found.notes)
    assert any("no CPU" in one and "row 2" in one for one in found.warnings)


@pytest.mark.parametrize("offset", ["+01:00", "+0100", "+01"])
def test_an_offset_holds_for_its_own_row(tmp_path, offset):
    """Of Postgres, too; a row without one is of the zone that is stated."""
    given = [f"2024-01-02 {hour}{offset}" for hour in ("10:00:00", "10:10:00", "11:10:00")]
    plain = [one.removesuffix(offset) for one in given]
    rows = [f"{n}|a|{'|'.join(when)}|COMPLETED|02:00:00|4|8G|1|01:00:00" for n, when in enumerate((given, plain))]
    assert sacct(tmp_path, *rows).jobs["submit_time"].tolist() == [1704186000, 1704189600]


@pytest.mark.parametrize("when", ["05/04/2023 12:30:15", "20230405123015", "Wed Apr 05 12:30:15 2023"])
def test_a_date_of_another_form_is_refused(tmp_path, when):
    with pytest.raises(TableError, match="row 1, column Submit"):
        sacct(tmp_path, f"1|a|{when}|{when}|{when}|COMPLETED|02:00:00|4|8G|1|01:00:00")


def test_a_long_log_is_told_by_its_first_line():
    """Of which only the beginning is looked at, so that its last line is cut."""
    assert recognised(SGE * 3 + SGE[:60]).name == "sge"


def test_the_limit_of_an_array_needs_no_command_line(tmp_path):
    """slurmdbd keeps how many tasks may run at once, as sacct --json does."""
    (tmp_path / "log.csv").write_text(SLURMDBD.replace("id_job,", "id_job,array_max_tasks,").replace("5,0,", "5,4,0,"))
    jobs = import_log(tmp_path / "log.csv", skip_bad_rows=True).jobs
    assert jobs["array_limit"].tolist() == [4]


def test_numbered_resources_are_gpus_or_said(tmp_path):
    """The first that a site counts is taken as GPUs, whatever its number; a job whose GRES are named keeps these."""
    row = SLURMDBD.splitlines()[1]
    plain = row.replace("gpu:a100:2", "").replace('"1=8,4=1","1=8"', '"1=8,4=1,1002=3,1004=1","1=8,1002=3"')
    text = f"{SLURMDBD.splitlines()[0]}\n{row.replace('4=1', '4=1,1002=2')}\n{plain.replace('5,0', '7,0', 1)}\n"
    (tmp_path / "log.csv").write_text(text)
    found = import_log(tmp_path / "log.csv")
    assert found.jobs["gpus_per_node"].tolist() == [2, 3]
    assert any("resource 1002 is taken as GPUs" in one for one in found.notes)
    assert any("resource 1004, which 1 job asked for, is not read" in one for one in found.notes)


def test_clusters_and_memory_of_slurmdbd(tmp_path):
    """Jobs of two clusters are not one; memory of a rounded number is refused, that of a decimal column read."""
    first, row, _ = SLURMDBD.splitlines()
    row = row.replace("9223372036854779908", "4000.0").replace("gpu:a100:2", "gpu:2")
    path = tmp_path / "log.csv"
    path.write_text(f"{first.replace('gres_req', 'gres_used')},cluster\n{row},a\n{row},b\n")
    with pytest.raises(TableError, match="jobs of 2 clusters"):
        import_log(path)
    jobs = import_log(path, cluster="b").jobs
    decimals = row.replace(",3,120", ",3.0,120.0").replace("5,0,4294967294,", "5.0,0.0,4294967294.0,")
    path.write_text(f"{first.replace('gres_req', 'gres_used')}\n{decimals}\n")
    found = import_log(path).jobs
    assert found[[*FIGURES, "state"]].equals(jobs[[*FIGURES, "state"]])
    assert jobs[["mem_mb_per_node", "gpus_per_node"]].to_numpy().tolist() == [[4000, 2]]
    rounded = row.replace("4000.0", "9.22337203685478e+18")
    path.write_text(f"{first}\n{rounded}\n")
    with pytest.raises(TableError, match="column ReqMem"):
        import_log(path)
    path.write_text(f"{first}\n{rounded.replace('4=1', '2=5000,4=1')}\n")  # TRES tell it
    assert import_log(path).jobs["mem_mb_per_node"].tolist() == [5000]


def test_a_pending_array_whose_list_was_cut_is_no_step(tmp_path):
    row = "8_[1,3,5,...]|a|1704186000|Unknown|Unknown|PENDING|02:00:00|4|8G|1|00:00:00"
    good = "9|a|1704186000|1704186600|1704190200|COMPLETED|02:00:00|4|8G|1|01:00:00"
    assert sacct(tmp_path, row, good).dropped == {"never started": 1}


def test_what_lsf_says_of_whole_hosts_and_of_when_a_job_may_begin(tmp_path):
    """The bit of -x, bsub -b, and -w of one job; of more than that the number is said."""
    more = LSF.replace(" 41 1000 33 16 1704186000 0 ", " 42 1000 97 16 1704186000 1704186300 ")
    wait = more.replace('2]" ""', '2]" "done(41)"')
    (tmp_path / "log").write_text(LSF + wait + wait.replace(" 42 ", " 43 ").replace("done(41)", "done(41) && done(42)"))
    found = import_log(tmp_path / "log")
    assert found.jobs["exclusive"].tolist() == [False, True, True]
    assert (found.jobs["eligible_time"] - found.jobs["submit_time"]).tolist() == [0, 300, 300]
    assert found.jobs["dependency"].tolist() == ["", "afterok:41", ""]
    assert any("1 job whose dependency (bsub -w)" in note for note in found.notes)


def test_a_run_before_the_last_is_not_lost(tmp_path):
    """PBS has records R of such; a job of HTCondor that was removed as it waited again held nothing then."""
    (tmp_path / "log").write_text(
        TORQUE.replace(";E;", ";R;") + TORQUE.replace("4186600", "4187600").replace("67", "77")
    )
    assert import_log(tmp_path / "log").jobs["job_id"].tolist() == ["9.m~1", "9.m"]
    gone = CONDOR | {"AllowedExecuteDuration": 7200, "JobStatus": 3, "LastJobStatus": 1, "NumJobStarts": 2}
    (tmp_path / "log").write_text(json.dumps([gone | {"CompletionDate": 0, "EnteredCurrentStatus": 1704290200}]))
    found = import_log(tmp_path / "log")
    assert found.jobs[["run_time", "requested_time"]].to_numpy().tolist() == [[3600, 7200]]
    assert any("1 job started more than once" in one for one in found.notes)


def test_gpus_by_a_name_of_the_site_are_said(tmp_path):
    (tmp_path / "log").write_text(PBS.replace("ngpus=1", "accel_gpu=True"))
    found = import_log(tmp_path / "log")
    assert any("1 job naming GPUs, but no number" in note for note in found.notes)
    (tmp_path / "log.csv").write_text("s,r,c,g,gres\n1704186000,9,4,a100:2,gpu:2\n1704186000,9,4,gpu:1,\n")
    columns = {"submit_time": "s", "run_time": "r", "cpus_per_node": "c"}
    assert any("column gres is not read" in one for one in import_log(tmp_path / "log.csv", columns=columns).warnings)
    found = import_log(tmp_path / "log.csv", columns=columns | {"gpus_per_node": "g"})
    assert any("'a100:2'" in note for note in found.notes)


def test_names_with_the_delimiter_and_names_left_out(tmp_path):
    """A JobName that stands last; node lists with more commas than there are fields; a blanked NodeList."""
    row = "1|a|1704186000|1704186600|1704190200|COMPLETED|02:00:00|4|8G|1|01:00:00"
    named = f"{SACCT}|NodeList|JobName"
    found = sacct(tmp_path, f"{row}||a|b", header=named).jobs
    assert found["job_name"].tolist() == ["a|b"] and "node_ids" not in found
    (tmp_path / "log").write_text(f"{row}|{','.join(f'n{i}' for i in range(30))}|a|b\n{row}\n")
    with pytest.raises(TableError, match="row 2: 11 fields where fields names 13"):
        import_log(tmp_path / "log", "sacct", fields=named.replace("|", ","))
    found = import_log(tmp_path / "log", "sacct", fields=named.replace("|", ","), skip_bad_rows=True).jobs
    assert found["job_name"].tolist() == ["a|b"] and found["node_ids"][0].endswith("n29")
    with pytest.raises(TableError, match=r"log\.psv: 'n\[1-9999999\]' names"):
        sacct(tmp_path, f"{row}|n[1-9999999]|a", header=named)


def test_what_a_csv_leaves_open_is_said(tmp_path):
    """The clock of small times, no number of nodes, a column twice; UTC, UNLIMITED and a spreadsheet's first line."""
    path, columns = tmp_path / "log.csv", {"submit_time": "s", "run_time": "r", "cpus_per_node": "c", "n_nodes": "n"}
    path.write_text("sep=,\ns,r,c,n,c,l\n100,9,4,0,5,UNLIMITED\n200,9,4,2,5,90\n")
    found = import_log(path, columns=columns | {"requested_time": "l:min"})
    assert found.jobs.attrs["clock"] == "log" and found.jobs["requested_time"].tolist() == [0, 5400]
    for said in ("none is of 1980 or later", "1 row without a number of nodes", "column c stands more than once"):
        assert any(said in note for note in found.notes)
    path.write_text("s,r,c,n\n1704186000000000,9,4,1\n".replace("1704", "1"))  # 1986 in microseconds
    with pytest.raises(TableError, match="is not a time"):
        import_log(path, columns=columns)
    path.write_text("s,r,c,n\n600000000000,1 days 02:00:00,4,1\n")
    found = import_log(path, columns=columns)
    assert any("are times in milliseconds" in one for one in found.warnings)
    assert found.jobs["run_time"].tolist() == [93_600]
    path.write_text("s,r,c,n\n2024-01-02 09:00:00 UTC,9,4,1\n")
    assert import_log(path, columns=columns, tz="Asia/Tokyo").jobs["submit_time"].tolist() == [1704186000]


def test_swf_and_slurm_have_one_rule_of_what_ran(tmp_path):
    """A run of decades is an error; cancelled with nothing run nor given, a job never started."""
    gone = ROW.replace(" 3600 16", " 0 -1").replace(" 1 3 1 ", " 5 3 1 ")
    (tmp_path / "log.swf").write_text(ROW + gone)
    assert import_log(tmp_path / "log.swf").dropped == {"never started": 1}
    (tmp_path / "log.swf").write_text(ROW.replace("3600", "999999999"))
    with pytest.raises(TableError, match="'32 years' is not the run of a job"):
        import_log(tmp_path / "log.swf")
    # No number; thousands with commas; a comment that ends with its line alone.
    for header, submit in (("UnixStartTime: 2024-01-02 09:00:00", 0), ("UnixStartTime: 1,704,186,000", 1704186000),
                           ("a\u2028b", 0)):  # fmt: skip
        (tmp_path / "log.swf").write_text(f"; {header}\n{ROW}", encoding="utf-8")
        assert import_log(tmp_path / "log.swf").jobs["submit_time"].tolist() == [submit]


def test_every_column_of_sacct(tmp_path):
    """--format=ALL: | in a constraint and in a command, which stands in the middle and goes on in the next line."""
    header = f"Account|Constraints|{SACCT}|SubmitLine|UID|WorkDir"
    times = "1704186000|1704186600|1704190200|COMPLETED|02:00:00|4|8G|1|01:00:00"
    rows = [f"x|old|new|{n}|a|{times}|sbatch -n 4 --wrap=a | b\n | c|77|/d" for n in (1, 2)]
    found = sacct(tmp_path, *rows, header=header).jobs
    assert found[["job_id", "constraint", "n_tasks"]].to_numpy().tolist() == [["1", "old|new", 4], ["2", "old|new", 4]]
    with pytest.raises(TableError, match="row 1: 17 fields where the header has 16"):
        sacct(tmp_path, f"x|y|1|z|{times}||no|/d|e", header=header)


def test_the_tasks_of_a_pending_array_of_slurmdbd(tmp_path):
    head, _, row = SLURMDBD.splitlines()
    text = f"{head},array_task_str\n{row.replace('6,0,', '6,6,')},4-6%2\n".replace(",4,120,", ",0,120,")
    (tmp_path / "log.csv").write_text(text.replace(",0,1704186100,", ",0,0,"))
    assert import_log(tmp_path / "log.csv", keep_unfinished=True).jobs["job_id"].tolist() == ["6_4", "6_5", "6_6"]


def test_a_table_in_parquet_is_read_by_the_columns_that_are_named(tmp_path):
    """Lists elsewhere do no harm; rows that were chosen keep their own texts; what is no job table is told how to."""
    path = tmp_path / "log.parquet"
    frame = pd.DataFrame(
        {"s": 1704186000, "b": 1704186600, "e": 1704190200, "c": [4, 8], "who": ["ann", "bob"],
         "cpus_per_task": ["1", "2"], "nodes": [["1", "2"], ["3"]]}, index=pd.Index([7, 0], name="job_id"),
    )  # fmt: skip
    columns = {"submit_time": "s", "start_time": "b", "end_time": "e", "cpus_per_node": "c", "user": "who"}
    for one in (frame, frame.rename_axis(None)):
        one.to_parquet(path)
        found = import_log(path, columns=columns).jobs
        assert found[["user", "cpus_per_node"]].to_numpy().tolist() == [["ann", 4], ["bob", 8]]
        assert found["job_id"].tolist() == (["7", "0"] if one is frame else ["1", "2"])
    with pytest.raises(TableError, match="column nodes holds lists"):
        import_log(path, columns=columns | {"n_nodes": "nodes"})
    with pytest.raises(TableError, match=r"nodes holds lists.*--column submit_time=COLUMN"):
        import_log(path)
    pd.DataFrame({"JobID": ["1", "1.0"], "User": ["ann", None], "Submit": ["2024-01-02T09:00:00"] * 2,
                  "Start": ["2024-01-02T09:10:00"] * 2, "End": ["2024-01-02T10:10:00"] * 2, "ReqCPUS": [4, 4],
                  "NNodes": [2.0, 1.0]}).to_parquet(path)  # fmt: skip
    assert import_log(path).jobs[FIGURES[:6]].to_numpy().tolist() == [["1", "ann", 3600, 0, 2, 2]]


def test_what_is_counted_by_names_and_by_numbers(tmp_path):
    """Nodes by their list where no column counts them, users by their number where none names them."""
    times = "1704186000|1704186600|1704190200"
    found = sacct(tmp_path, f"1|77|{times}|64|c[1-4]", f"2|78|{times}|16|c1",
                  header="JobID|UID|Submit|Start|End|AllocCPUS|NodeList").jobs  # fmt: skip
    assert found[FIGURES[:6]].to_numpy().tolist() == [["1", "77", 3600, 0, 4, 16], ["2", "78", 3600, 0, 1, 16]]
    (tmp_path / "log.csv").write_text(
        f"s,b,e,c,n\n{times.replace('|', ',')},64,\"c[1-4]\"\n{times.replace('|', ',')},16,\"['c1', 'c2']\"\n"
    )
    columns = {"submit_time": "s", "start_time": "b", "end_time": "e", "cpus_per_node": "c::job", "node_ids": "n"}
    found = import_log(tmp_path / "log.csv", columns=columns).jobs
    assert found[["n_nodes", "cpus_per_node", "node_ids"]].to_numpy().tolist() == [
        [4, 16, "c1,c2,c3,c4"],
        [2, 8, "c1,c2"],
    ]


def test_units_of_a_csv(tmp_path):
    """Thousandths of CPUs and GPUs, times in parts of seconds, memory with its unit; decimal commas are refused."""
    path = tmp_path / "log.csv"
    path.write_text("s,b,e,c,g,m\n1704186000007,1704186600001,1704190200000,12000,460,16 GB\n"
                    "1704186000007,1704186600001,1704190200000,500,0,16Gi\n")  # fmt: skip
    columns = {"submit_time": "s:ms", "start_time": "b:ms", "end_time": "e:ms", "cpus_per_node": "c:milli",
               "gpus_per_node": "g:milli", "mem_mb_per_node": "m"}  # fmt: skip
    found = import_log(path, columns=columns)
    assert found.jobs[FIGURES[2:]].to_numpy().tolist() == [[3600, 0, 1, 12, 16_000, 1], [3600, 0, 1, 1, 17_180, 0]]
    assert found.jobs["submit_time"].tolist() == [1704186000] * 2
    with pytest.raises(TableError, match=r"column s: '1704186000007' is not a time.*:ms"):
        import_log(path, columns=columns | {"submit_time": "s"})
    path.write_text("s;r;c\n1704186000;1,5;4\n")
    with pytest.raises(TableError, match=r"'1,5' is not a number; write 1\.5"):
        import_log(path, columns={"submit_time": "s", "run_time": "r:h", "cpus_per_node": "c"})


def test_what_stands_around_a_table(tmp_path):
    """Comments, what a login prints, another delimiter, names in Latin-1; a table cut by its own commas is told why."""
    path = tmp_path / "log.csv"
    columns = {"submit_time": "s", "run_time": "r", "cpus_per_node": "c", "user": "u"}
    for head in ("s|r|c|u", "# of 2024, by me\n#\ns|r|c|u", "# of 2024\n#s|r|c|u"):
        path.write_bytes(f"{head}\n1704186000|9|4|H\xe9l\xe8ne\n".encode("latin-1"))
        assert import_log(path, columns=columns).jobs["user"].tolist() == ["H\xe9l\xe8ne"]
    row = "1|a|1704186000|1704186600|1704190200|COMPLETED|02:00:00|4|8G|1|01:00:00"
    path.write_text(f"Welcome, JobID 5 | ran\n***\n{SACCT}\n{row}\n")
    found = import_log(path)
    assert len(found.jobs) == 1 and any("2 lines before the header" in note for note in found.notes)
    with pytest.raises(TableError, match=r"row 1: 13 fields where the header has 12; .*--parsable2"):
        sacct(tmp_path, f"{row},c[1,2]".replace("|", ","), header=f"{SACCT},NodeList".replace("|", ","))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("---\njobs:\n  - job_id: 5\n", "YAML"),
        (
            "   JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n 5 b x a R 1:00 2 n1\n",
            "squeue",
        ),
        ("Job Id: 1.srv\n    Job_Name = x\n", "server_priv/accounting"),
        ('{\n "timestamp":1,\n "pbs_version":"22",\n "Jobs":{"1.srv":{}}}', "server_priv/accounting"),
        ("======\nqname        all.q\nhostname     h1\n", "common/accounting"),
        ("Tue Jan 02 10:00:00 2024\n   JOBID PARTITION  NAME\n 5 b x\n", "squeue"),
        ("PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ncpu* up 2-00:00:00 4 idle c[1-4]\n", "sinfo"),
        ("-----\nCluster/Account/User Utilization 2024-01-01T00:00:00\n", "sreport"),
        ("\nserver: \n                Req'd\nJob ID          Username Queue\n", "server_priv/accounting"),
        ("JOBID   USER    STAT  QUEUE\n41 ann RUN normal\n", "lsb.acct"),
        ("\nAccounting information about jobs that are: \n  - submitted by all users.\n", "lsb.acct"),
        ('"JOB_FINISH2" "10.1" 1555144809 1219 38 "userId" "505"\n', "lsb.acct"),
        ("000 (009.000.000) 2024-01-02 09:00:00 Job submitted from host: <10.0.0.1>\n...\n", "condor_history -json"),
        ("ClusterId ProcId Owner QDate JobStartDate\n9 0 ann 1704186000 1704186600\n", "condor_history -json"),
        ("+--------+----------+\n| id_job | cpus_req |\n+--------+----------+\n", "mysql --batch"),
        ("JobId=5 JobName=x\n   UserId=ann(1001) GroupId=g(100)\n", "scontrol"),
        ('{"apiVersion": "v1", "items": [], "kind": "List"}', "its keys are apiVersion, items, kind"),
        ('[{"status": "Pass", "vc": "e", "attempts": []}]', "its keys are status, vc, attempts"),
        ("a b c\n1 2 3\n", "--column FIELD=COLUMN"),
        ("JobID      User   Submit\n---------- ------ ------\n1 a 2024-01-02T10:00:00\n", "parsable2"),  # for people
        ("JobID|User\n1|a\n", "print-sacct-command"),
        ('{"jobs":[{"id":1,"t_submit":1.0}]}', "sacct --json"),
        ('{"jobs":[{"job_id":1,"job_state":["PENDING"],"name":"x"}]}', "squeue --json"),
        ("INSERT INTO `c_job_table` VALUES (1,2,'x');\n", "complete-insert"),
        ("PAR1\0\0", "NAME.parquet"),
        ("# GWA-T-1\n0 0 7 3600 16 -1 -1 16 7200 -1 1 U1 G1 E1 q P1 S1 S1 UNITARY" + " -1" * 10, "Grid Workload"),
    ],
)
def test_what_is_known_but_not_read_is_named_with_the_way_on(tmp_path, text, word):
    (tmp_path / "log").write_text(text)
    with pytest.raises(TableError, match=word):
        import_log(tmp_path / "log")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PBS.replace(":ngpus=1", ":mps=2").replace("walltime=02", "hwlic=6 Resource_List.walltime=02"),
         "not read: hwlic (1 job), mps (1 job)"),
        (LSF.replace("rusage[", "affinity[core(2)] rusage[matlab=1,mem=9,"), "affinity"),
        (SGE.replace("gpu=4", "v100=2,h_vmem=4G"), "not read: v100 (1 job)"),
        (LONG.replace("RequestMemory", "RequestFpga = 2\nRequestMemory"), "not read: fpga (1 job)"),
        (f"{SACCT}|ReqTRES\n1|a|1704186000|1704186600|1704190200|COMPLETED|90|4|8G|1|01:00:00|cpu=4,gres/npu=2\n",
         "not read: npu (1 job)"),
        (f"{SACCT}|SubmitLine\n1|a|1704186000|1704186600|1704190200|COMPLETED|90|4|8G|1|1:00:00|sbatch --gres=mps:9\n",
         "1 job asked for a share of a GPU"),
        (JOBCOMP.rstrip("\n"), "the last line has no end"),
        (TORQUE.replace(":big:", ":gpu:"), "careful: 1 job naming GPUs"),  # of a node, or of another's resources
        (TORQUE.replace("ncpus=1", "gres=gpus:2"), "careful: 1 job naming GPUs"),
        (TORQUE.replace("Resource_List.nodes=2:big:ppn=2", "req_information.gpus.0=1"), "careful: 1 job naming GPUs"),
        (TORQUE.replace("ncpus=1", "vmem=8gb"), "not read: vmem (1 job)"),
        (LSF.replace("rusage[ngpus_physical=2]", "1*{rusage[ngpus=2]} + 15*{select[any]}"), "careful: 1 job with GPUs"),
        (ROW.replace("-1 -1\n", "1 -1\n"), "1 job with a preceding job (field 17)"),
    ],
)  # fmt: skip
def test_what_is_asked_for_and_not_read_is_named(tmp_path, text, said):
    """Resources by names of the site; and a file that was cut at its end."""
    (tmp_path / "log").write_text(text)
    assert any(said in note for note in import_log(tmp_path / "log").notes)


def test_a_log_of_another_format_than_is_said(tmp_path):
    """The refusal says what it looks like; a record of PBS without an end was cut; LSF's may stand behind #80."""
    for text, form, said in ((PBS, "lsf", "it looks like pbs"), (SACCT, "pbs", "it looks like sacct"),
                             ("JOBID PARTITION NAME\n5 a b\n", "sge", "it is what squeue")):  # fmt: skip
        (tmp_path / "log").write_text(text)
        with pytest.raises(TableError, match=said):
            import_log(tmp_path / "log", form)
    (tmp_path / "log").write_text(TORQUE + TORQUE[:150] + "\n")
    with pytest.raises(TableError, match="line 2: "):
        import_log(tmp_path / "log")
    (tmp_path / "log").write_text("#80\n" + LSF)
    assert len(import_log(tmp_path / "log").jobs) == 1


CELLS = {
    ("run_time", ""): {"PT5M": 300, "P1DT2H3M4S": 93_784, "1h 30m": 5400, "90m": 5400, "1 day, 1:00:00": 90_000,
                       "P5M": "a duration", "1,5": "a number"},
    ("mem_mb_per_node", ""): {"16g": 16_384, "16gb": 16_000, "512Mi": 537, "1.6e4": 16_000, "16 x": "a number",
                              "cpu=4,mem=16G,node=1": 16_384},
    ("gpus_per_node", ""): {"cpu=4,gres/gpu:a100=2": 2, "GPU:2": 2, "a100:4": "GPUs as 2", "True": "GPUs as 2"},
    ("cpus_per_node", ""): {"billing=8,cpu=8,node=1": 8},
    ("cpus_per_node", "percent"): {"550": 6},
    ("submit_time", "ns"): {"1704186000000000000": 1704186000},
    ("submit_time", "ms"): {"1.70419E+12": "rounded"},
    ("submit_time", ""): {"2024/01/02 09:00:00": 1704186000, "02.01.2024 09:00": "a date"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "unit", "cell", "found"), [(*at, *one) for at, cells in CELLS.items() for one in cells.items()]
)
def test_what_a_cell_of_a_csv_may_say(tmp_path, field, unit, cell, found):
    """Lengths with units, memory, TRES, hundredths, nanoseconds; anything else is refused with what is meant."""
    row = {"submit_time": "1704186000", "run_time": "9", "cpus_per_node": "4"} | {field: cell}
    (tmp_path / "log.csv").write_text(f"{';'.join(row)}\n{';'.join(row.values())}\n")
    columns = {field: f"{field}:{unit}"}
    if isinstance(found, str):
        with pytest.raises(TableError, match=f"row 1, column {field}: .*{found}"):
            import_log(tmp_path / "log.csv", columns=columns)
    else:
        assert import_log(tmp_path / "log.csv", columns=columns).jobs[field].tolist() == [found]


def test_a_line_of_json_is_a_job(tmp_path):
    time = {"submission": 1704186000, "start": 1704186600, "end": 1704190200}
    job = {"job_id": 5, "nodes": "n1", "allocation_nodes": 1, "time": time, "required": {"CPUs": 4}}
    (tmp_path / "log").write_text("\n".join(json.dumps(job | {"job_id": n}) for n in (5, 6)))
    assert import_log(tmp_path / "log").jobs["job_id"].tolist() == ["5", "6"]


def test_what_a_csv_says_of_a_whole_job(tmp_path):
    """TRES and CPUs of all nodes, tasks beside CPUs, dates of zeros and dashes, lists of nodes with other marks."""
    path, line = tmp_path / "log.csv", "1704186000,1704186600,1704190200"
    columns = {"submit_time": "s", "start_time": "b", "end_time": "e", "cpus_per_node": "c", "n_nodes": "n"}
    path.write_text(f's,b,e,c,n,g\n{line},16,4,"cpu=64,gres/gpu=16,mem=100G,node=4"\n')
    assert import_log(path, columns=columns | {"gpus_per_node": "g"}).jobs["gpus_per_node"].tolist() == [4]
    path.write_text("s,b,e,c,n\n" + "".join(f"{line},{64 * n},{n}\n" for n in range(1, 12)))
    assert any("c::job" in one for one in import_log(path, columns=columns).warnings)
    assert not any("::job" in one for one in import_log(path, columns=columns | {"cpus_per_node": "c::job"}).warnings)
    path.write_text(f"s,b,e,c,n,n_tasks\n{line},64,2,1\n{line},64,2,128\n{line},64,2,48\n")
    assert import_log(path, columns=columns).jobs["cpus_per_task"].tolist() == [128, 1, 3]
    path.write_text(
        f"s,b,e,c,m,l\n{line},4,0,-\n2024-01-02 09:00:00,0000-00-00 00:00:00,-,4,-,c1+c2|c3\n{line},4,-,c1+c2|c3\n"
    )
    del columns["n_nodes"]
    found = import_log(path, columns=columns | {"mem_mb_per_node": "m", "node_ids": "l"})
    assert found.dropped == {"never started": 2} and found.jobs["node_ids"].tolist() == ["c1,c2,c3"]
    assert import_log(path, columns=columns | {"mem_mb_per_node": "m"}).jobs["mem_mb_per_node"].tolist() == [0, 0]


def test_what_stands_beside_the_figures(tmp_path):
    """What a job of PBS waits for, rows of a dump on lines of their own, and limits whose unit is a guess."""
    (tmp_path / "log").write_text(TORQUE + TORQUE.replace(";9.m;user", ";10.m;depend=afterok:9.m@m user"))
    assert import_log(tmp_path / "log").jobs["dependency"].tolist() == ["", "afterok:9.m"]
    (tmp_path / "log").write_text(DUMP.replace("VALUES (", "VALUES\n(").replace("),(6,", "),\n(6,"))
    assert import_log(tmp_path / "log").dropped == {"never started": 1}
    (tmp_path / "log").write_text(DUMP[:-20])
    with pytest.raises(TableError, match=r"line 24: .* was the dump cut"):
        import_log(tmp_path / "log")
    row = "1|a|1704186000|1704186600|1704190200|COMPLETED|7200|4|8G|1|01:00:00"
    found = sacct(
        tmp_path, f"{row}|cpu=4,license/a=2,license/b@s=1,node=1", f"2{row[1:]}|", header=f"{SACCT}|ReqTRES"
    ).jobs
    assert found["licenses"].tolist() == ["a:2,b@s:1", ""]
    assert any("column Timelimit are minutes" in note for note in sacct(tmp_path, row).notes)
