"""Job tables of every log: rows, and a digest of each column that holds anything."""

from __future__ import annotations

from functools import partial

import pandas as pd
from slurm_events import read_events

import procure
from golden_set.base import Part, Place, table

SUPERCLOUD = {
    "job_id": "id_job", "user": "id_user", "submit_time": "time_submit", "eligible_time": "time_eligible",
    "start_time": "time_start", "end_time": "time_end", "run_time": "service_time:s", "n_nodes": "nodes_alloc",
    "cpus_per_node": "cpus_req::job", "partition": "partition", "requested_time": "timelimit:min",
}  # fmt: skip
PHILLY = {
    "job_id": "timestamp", "submit_time": "timestamp", "run_time": "duration:s", "gpus_per_node": "num_gpus",
    "cpus_per_node": "num_gpus", "partition": "cluster",
}  # fmt: skip
OPENB = {
    "job_id": "name", "submit_time": "creation_time", "start_time": "scheduled_time", "end_time": "deletion_time",
    "cpus_per_node": "num_gpu", "mem_mb_per_node": "memory_mib:MiB", "gpus_per_node": "num_gpu", "gpu_type": "gpu_spec",
}  # fmt: skip
LOGS: dict[str, tuple[str, dict[str, object]]] = {
    **{f"beocat {m}": (f"beocat_2021/all_jobs_20210{m}.csv.xz", {"preset": "beocat"}) for m in (3, 4, 5)},
    "ccr": ("ccr_sacct_2017/pozidriv_2017.csv.xz", {"preset": "ccr"}),
    "eagle": ("nrel_eagle_sample/sample_eagle_data.csv.xz", {"preset": "eagle"}),
    "wagap": ("metacentrum_wagap_2013/wagap-2013_jan-feb.swf.xz", {"preset": "metacentrum"}),
    "KTH": ("pwa/KTH-SP2-1996-2.1-cln.swf.xz", {}),
    "BLUE": ("pwa/SDSC-BLUE-2000-4.2-cln.swf.xz", {"cpus_per_node": 8}),
    "HPC2N": ("pwa/HPC2N-2002-2.1-cln.swf.xz", {}),
    "Lublin": ("synthetic/lublin_256.swf.xz", {}),
    **{
        f"sacct {name}": (f"slurm_22_05/sacct-{name}.psv", {"format": "sacct", "tz": "UTC"})
        for name in ("X", "X-duplicates", "with-steps")
    },
    "sacct unfinished": ("slurm_22_05/sacct-X.psv", {"format": "sacct", "tz": "UTC", "keep_unfinished": True}),
    "supercloud": ("gpu_jobs/supercloud_2021.csv.xz", {"clock": "unix", "columns": SUPERCLOUD}),
    "philly": ("gpu_jobs/philly_2017.csv.xz", {"clock": "local", "tz": "America/Los_Angeles", "columns": PHILLY}),
    "openb": ("alibaba_openb_2023/openb_pod_list_default.csv.xz", {"clock": "log", "columns": OPENB}),
}
"""File and how it is read."""


def log(place: Place, name: str) -> pd.DataFrame:
    """Read a log as a job table."""
    file, how = LOGS[name]
    return procure.import_log(place.data / file, shape="as-logged", **how).jobs


def _log(name: str, place: Place) -> dict[str, object]:
    file, how = LOGS[name]
    found = procure.import_log(place.data / file, shape="as-logged", **how)
    return {"read": found.n_read, "dropped": sum(found.dropped.values()), **table(found.jobs)}


WEEK = "ubccr_slurm/week/workload_week.events.xz"


def _events(place: Place) -> dict[str, object]:
    return table(read_events(place.data / WEEK))


PARTS = {
    "published day": Part(lambda _: table(procure.generate(1))),
    "campus": Part(lambda _: table(procure.generate(1, recipe="campus"))),
    **{name: Part(partial(_log, name), (file,)) for name, (file, _) in LOGS.items()},
    "week": Part(_events, (WEEK,)),
}
