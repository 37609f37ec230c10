"""The collector on a real Slurm: what waits, runs and has ended is kept, each job once."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from procure.serve.collector import Collector
from procure.serve.live import look
from procure.serve.settings import Place, Service, Source

pytestmark = pytest.mark.slurm


def submitted(*options: str) -> str:
    """Submit a job of a second and return its id."""
    command = ["sbatch", "--parsable", "-D", "/tmp", "-o", "/dev/null", "-t", "5", *options, "--wrap", "sleep 1"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().split(";")[0]


def test_jobs_of_a_slurm_are_kept_once_from_queue_to_end(slurm: None, tmp_path: Path) -> None:
    """A job is seen in the queue, its start and end are those of sacct, and an array's jobs are not doubled."""
    place = Place(tmp_path, Service(source=Source(history_days=1)))
    collector = Collector(place)
    ids = {submitted(), submitted("-n", "2")} | {f"{submitted('--array=1-3')}_{task}" for task in (1, 2, 3)}
    end = time.time() + 120
    kept: dict[str, tuple] = {}
    while time.time() < end and not (ids <= kept.keys() and all(kept[one][2] for one in ids)):
        collector.asked = 0
        collector.tick()
        rows = collector.store.rows("select job_id, submit_time, start_time, end_time from jobs")
        kept = {name: (submit, start, end) for name, submit, start, end in rows}
        time.sleep(2)
    assert ids <= kept.keys()
    counts = collector.store.rows("select job_id, count(*) from jobs group by 1")
    assert all(n == 1 for name, n in counts if name in ids)
    command = ["sacct", "-aXPn", "-S", "now-10minutes", "--format=JobID,Submit,Start,End"]
    environment = os.environ | {"SLURM_TIME_FORMAT": "%s"}
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    rows = [line.split("|") for line in told.splitlines()]
    truth = {name: tuple(map(int, times)) for name, *times in rows if name in ids}
    assert {name: kept[name] for name in ids} == truth
    assert {"squeue", "sacct"} & set(collector.store.problems()) == set()
    collector.close()
    assert [amiss for name, _, amiss in look(place) if name == "state"] == [""]
