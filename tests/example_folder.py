"""The folder in which the examples of docstrings run: a study that was swept, logs, a queue, a window."""

import json
from pathlib import Path

import pandas as pd
from small_study import write_study
from sweep_lab import make_study
from test_futures import CHICAGO, log

import procure
from procure.tables import JOB, write

SQUEUE = """JOBID|USER|PARTITION|STATE|REASON|CPUS|NODES|MIN_MEMORY|TRES_PER_NODE|TIME_LIMIT|SUBMIT_TIME|START_TIME|\
PRIORITY
7|ann|batch|PENDING|Priority|16|1|1G|N/A|1:00:00|2021-05-04T08:00:00|N/A|10
"""
SWF = "; UnixStartTime: 0\n1 0 5 60 4 -1 -1 4 120 -1 1 1 1 1 1 1 -1 -1\n2 9 0 30 2 -1 -1 2 60 -1 1 1 1 1 1 1 -1 -1\n"
CLOUD = """name,cpus,mem_gb,gpus,usd_per_hour,reserved_usd_per_hour
small,4,16,0,0.2,0.09
large,64,1024,0,5.9,2.7
gpu,64,512,4,14.5,6.6
"""
WINDOW = {"tree": {"pods": 1, "leaves": 2, "nodes": 2}, "idle": [0, 1, 3], "jobs": [{"id": "a", "n_nodes": 2}]}


def study_of_weeks(folder: Path) -> Path:
    """Return a study of six weeks of jobs and one old node."""
    write(log(weeks=6, n=500).assign(n_nodes=1), folder / "weeks.parquet")
    (folder / "old.csv").write_text("node_id,cpus,mem_mb,gpus\nold,8,64000,0\n")
    workload = f'jobs = "weeks.parquet"\ntz = "{CHICAGO}"\nwarm_up = "1d"'
    futures = f'[futures]\ndraws = 4\nlength = "14d"\ntz = "{CHICAGO}"'
    return write_study(folder / "weeks.toml", workload, futures, budget=60_000, packages='existing_nodes = "old.csv"')


def _logged_week(nodes: pd.DataFrame) -> pd.DataFrame:
    """Return a week of jobs that ran under EASY on the nodes."""
    jobs = procure.generate(seed=2, n_jobs=300)
    later = jobs["submit_time"] - jobs["submit_time"].min()
    spread = (later * (6 * 86_400 / later.max())).astype("int64")
    return procure.simulate(jobs.assign(submit_time=spread), nodes, "easy").schedule


def make_folder(folder: Path) -> None:
    """Fill a folder; what every file holds is small."""
    study = make_study(folder)
    award = '[award]\nweights = { price = 60, waits = 40 }\namong = "packages"\n'
    study.write_text(study.read_text(encoding="utf-8") + award, encoding="utf-8")
    procure.run_sweep(study, "serial")
    (folder / "cloud.csv").write_text(CLOUD, encoding="utf-8")
    jobs = procure.generate(seed=1, n_jobs=400)
    nodes = procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000)
    write(jobs, folder / "jobs.parquet")
    write(nodes, folder / "nodes.csv")
    write(procure.simulate(jobs, nodes, "fcfs").schedule, folder / "ran.parquet")
    days = [jobs.sample(frac=0.6, random_state=day) for day in range(14)]
    days = [part.assign(submit_time=part["submit_time"] + 86_400 * day) for day, part in enumerate(days)]
    write(procure.merge(days), folder / "week.parquet")
    wanted, settings = (
        procure.DayFilter(min_jobs=10, min_wait=0),
        procure.LearnSettings(generations=1, population=4, processes=1),
    )
    procure.write_policy(folder / "site.policy", procure.learn_policy(jobs, nodes, wanted, settings))
    write(_logged_week(nodes), folder / "logged.parquet")
    study_of_weeks(folder)
    wide = pd.DataFrame(
        {"job_id": ["a", "b", "c", "d"], "submit_time": [0, 1, 2, 70], "run_time": 100, "requested_time": 200,
         "n_nodes": [2, 3, 4, 5], "cpus_per_node": 1, "mem_mb_per_node": 0, "gpus_per_node": 0}
    )  # fmt: skip
    write(procure.check(wide, JOB), folder / "wide.parquet")
    for name, text in (("log.swf", SWF), ("squeue.txt", SQUEUE), ("instance.json", json.dumps(WINDOW))):
        (folder / name).write_text(text)
