"""Sweeps on a real Slurm: the four ways in, and what a queue does to workers."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from sweep_lab import (
    ended,
    environment,
    finish,
    long_results,
    long_sweep,
    make_long_study,
    parts,
    results,
    serial_results,
    start,
    under_way,
    until,
)
from test_sweep_security import attack, listeners

from procure.study import load_study
from procure.sweep.connect import job_name

ROOT = Path(__file__).resolve().parent.parent
QUEUED = ("--farm", "slurm", "--set", "farm.jobs=2", "--set", "farm.memory=1 GB", "--set", "farm.walltime=0:10:00")
pytestmark = [pytest.mark.slurm, pytest.mark.usefixtures("slurm")]


def make_example(folder: Path) -> Path:
    """Write the example study with every 300th package, in small batches."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (ROOT / "pipelines/example.toml").read_text()
    text = text.replace("../quotes", str(ROOT / "quotes")).replace("../results", "results")
    text = re.sub(r"^sample = .*", "sample = 300\nbatch_size = 20", text, flags=re.MULTILINE)
    path = folder / "example.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def example(tmp_path_factory) -> pd.DataFrame:
    return serial_results(make_example(tmp_path_factory.mktemp("example")))


@pytest.fixture(scope="module")
def long() -> pd.DataFrame:
    return long_results()


def same(path: Path, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(results(path), expected, check_exact=True)
    ended(start("study", "status", path))


def slurm_jobs(path: Path, *options: str) -> list[str]:
    """Ids of a study's jobs that are queued or running."""
    name = job_name(load_study(path).folder)
    asked = subprocess.run(
        ["squeue", "-h", "-o", "%A", f"--name={name}", *options], capture_output=True, text=True, check=True
    )
    return asked.stdout.split()


def no_jobs(path: Path) -> None:
    """Wait until no job of a study is left."""
    until(lambda: not slurm_jobs(path), "the jobs' end", 100)


def submit(folder: Path, script: str, *arguments: object, **variables: str) -> None:
    """Run a batch script of ours to its end."""
    command = ["sbatch", "--wait", "--mem-per-cpu=500M", *map(str, arguments)]
    place = command.index("SCRIPT")
    command[place] = str(ROOT / "pipelines/slurm" / script)
    done = subprocess.run(
        command, cwd=folder, env=environment(**variables), capture_output=True, text=True, timeout=240
    )
    logs = "\n".join(log.read_text() for log in folder.glob("procure-*.log"))
    assert done.returncode == 0, done.stderr + logs


def test_farm_slurm(tmp_path, example):
    """Jobs submitted by the sweep itself give the serial table, and leave no keys."""
    path = make_example(tmp_path)
    ended(start("sweep", path, *QUEUED))
    same(path, example)
    assert not [log for log in (load_study(path).folder / "logs").iterdir() if "PRIVATE KEY" in log.read_text()]
    no_jobs(path)


@pytest.mark.skipif(os.getuid() != 0, reason="connecting as another user needs root")
@pytest.mark.parametrize("options", [(), ("--set", "farm.interface=lo")])
def test_nobody_else_can_use_any_listener_of_a_queued_farm(tmp_path, options):
    """Whatever listens while jobs of a sweep run, here and in the jobs, runs no code for another user."""
    path = make_long_study(tmp_path)
    sweep = start("sweep", path, *QUEUED, *options, FAULT_SLEEP="0.05")
    try:
        under_way(path, sweep)
        until(lambda: len(slurm_jobs(path, "--states=RUNNING")) == 2, "two jobs")
        name = job_name(load_study(path).folder)
        driver = psutil.Process(sweep.pid)
        here = {driver, *driver.children(recursive=True)}
        jobs = {each for each in psutil.process_iter() if each not in here and _belongs_to(each, name)}
        until(lambda: len(set(listeners(jobs))) >= 4, "two workers and their nannies")
        found = {*listeners(here), *listeners(jobs)}
        assert set(listeners(here)), "the scheduler"
        assert not options or {host for host, _ in found} == {"127.0.0.1"}, found
        print(f"{len(found)} listeners: {sorted(found)}")
        assert attack(tmp_path, found) == []
        assert sweep.poll() is None
    finally:
        sweep.send_signal(signal.SIGINT)
        finish(sweep, 90)
    no_jobs(path)


def _belongs_to(process: psutil.Process, name: str) -> bool:
    """Tell whether a process is part of a job of some name, or Slurm's own process that watches over it."""
    try:
        words, job = process.cmdline(), process.environ().get("SLURM_JOB_NAME")
        watched = words[:1] and words[0].startswith("slurmstepd")
        return job == name or bool(watched and any(_belongs_to(each, name) for each in process.children()))
    except psutil.Error:
        return False


def test_sbatch_sweep(tmp_path, example):
    """sweep.sbatch: scheduler, workers and driver in one allocation give the serial table, and end with it."""
    path = make_example(tmp_path)
    submit(tmp_path, "sweep.sbatch", "--ntasks=3", "SCRIPT", path)
    same(path, example)
    assert not list(tmp_path.glob(".procure-*"))


def test_sbatch_shards(tmp_path, example):
    """shard.sbatch: an array without Dask; merge says what is missing until all shards ran."""
    path = make_example(tmp_path)
    submit(tmp_path, "shard.sbatch", "--array=1-3", "SCRIPT", path, PROCURE_SHARDS="4")
    said = ended(start("study", "status", path, "--merge"), 1)
    assert "planned runs have no result" in said
    submit(tmp_path, "shard.sbatch", "--array=0", "--cpus-per-task=2", "SCRIPT", path, PROCURE_SHARDS="4")
    ended(start("study", "status", path, "--merge"))
    same(path, example)


def test_running_dask_on_slurm(tmp_path, example):
    """A scheduler here and workers in a job that we did not make: --farm tcp://HOST:PORT."""
    file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--scheduler-file", str(file)]
    scheduler = subprocess.Popen([*dask, "--port", "0", "--no-dashboard"], stderr=subprocess.DEVNULL)
    job = ""
    try:
        until(file.exists, "the scheduler")
        worker = f"{sys.executable} -m distributed.cli.dask_worker --scheduler-file {file} --nthreads 1"
        asked = subprocess.run(
            ["sbatch", "--parsable", "--mem=1G", f"--output={tmp_path}/worker.log", f"--wrap={worker}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        job = asked.stdout.strip()
        path = make_example(tmp_path)
        address = json.loads(file.read_text())["address"]
        ended(start("sweep", path, "--farm", address, "--set", "farm.wait=60"))
        same(path, example)
    finally:
        subprocess.run(["scancel", job], check=True)
        scheduler.terminate()
        scheduler.wait(30)


def test_cancelled_job_and_restarted_controller(tmp_path, long):
    """scancel of a worker's job, then slurmctld killed and started again: the sweep replaces and finishes."""
    path, sweep = long_sweep(tmp_path, *QUEUED, FAULT_SLEEP="0.1")
    before = slurm_jobs(path, "--states=RUNNING")
    subprocess.run(["scancel", before[0]], check=True)
    until(lambda: set(slurm_jobs(path)) - set(before), "a new job")
    lab = os.environ.get("SLURM_LAB_DIR")
    if lab and Path(lab, "run/slurmctld.pid").exists():
        pid = int(Path(lab, "run/slurmctld.pid").read_text())
        os.kill(pid, signal.SIGTERM)
        until(lambda: not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text(),
              "the controller's end")  # fmt: skip
        subprocess.run(["slurmctld"], cwd=Path(lab, "log"), check=True)
        until(lambda: subprocess.run(["sinfo"], capture_output=True).returncode == 0, "the controller")
    ended(sweep)
    same(path, long)
    no_jobs(path)


def test_limit_reached(tmp_path, long):
    """Jobs that reach their limit: workers leave before it, new jobs come, the table is the same."""
    path = make_long_study(tmp_path)
    queued = [*QUEUED[:-1], "farm.walltime=0:01:00"]
    deadline = time.monotonic() + 400
    sweep = start("sweep", path, *queued, "--format", "json", FAULT_SLEEP="0.25")
    jobs: set[str] = set()
    while sweep.poll() is None and time.monotonic() < deadline:
        jobs |= set(slurm_jobs(path))
        time.sleep(1)
    ended(sweep)
    assert len(jobs) > 2
    same(path, long)
    no_jobs(path)


def test_killed_driver_leaves_no_jobs(tmp_path, long):
    """kill −9 of the driver: its jobs end by themselves or with the next start, which finishes."""
    path, sweep = long_sweep(tmp_path, *QUEUED)
    sweep.kill()
    sweep.communicate()
    ended(start("sweep", path, *QUEUED))
    same(path, long)
    no_jobs(path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_twice_leaves_no_jobs(tmp_path, number):
    """Ctrl-C or TERM, twice: no job of ours is left in Slurm's queue."""
    path, sweep = long_sweep(tmp_path, *QUEUED)
    sweep.send_signal(number)
    time.sleep(0.3)
    sweep.send_signal(number)
    ended(sweep, 130, 90)
    assert parts(path)
    no_jobs(path)


def test_refused_job(tmp_path):
    """A job that Slurm refuses: its words at once, and nothing is left."""
    path = make_long_study(tmp_path)
    said = ended(start("sweep", path, *QUEUED, "--set", "farm.account=nosuch"), 1)
    assert "Invalid account" in said
    said = ended(start("sweep", path, *QUEUED, "--set", "farm.partition=nosuch"), 1)
    assert "invalid partition" in said.lower()


def test_no_worker_comes(tmp_path):
    """Jobs that wait in the queue: the user hears why, in Slurm's words, and farm.wait gives up."""
    path = make_long_study(tmp_path)
    # Nobody's other jobs are disturbed: these ask for more time than the partition gives, and wait for ever.
    queued = [*QUEUED[:-1], "farm.walltime=200:00:00"]
    said = ended(start("sweep", path, *queued, "--set", "farm.wait=5"), 1, 90)
    assert "PENDING (PartitionTimeLimit)" in said
    no_jobs(path)
