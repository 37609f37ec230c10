"""Faults while a sweep of hundreds of batches runs: it finishes or resumes, nothing lost, nothing twice."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pandas as pd
import pytest
from sweep_lab import (
    all_gone,
    ended,
    environment,
    long_results,
    long_sweep,
    make_long_study,
    make_study,
    parts,
    results,
    serial_results,
    start,
    under_way,
    until,
    workers,
)

from procure.study import load_study
from procure.sweep import FarmOptions
from procure.sweep.connect import connect
from procure.sweep.farm import one_interrupt, run_tasks

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def undisturbed() -> pd.DataFrame:
    return long_results()


def same(path, undisturbed) -> None:
    pd.testing.assert_frame_equal(results(path), undisturbed, check_exact=True)


def runs(log) -> int:
    return sum(map(int, log.read_text().split()))


def test_killed_worker(tmp_path, undisturbed):
    """kill −9 of a worker: the sweep finishes, the table is the same, at most one batch was done twice.

    A worker that is killed between its part and its line in the log leaves one run uncounted.
    """
    path, log = make_long_study(tmp_path), tmp_path / "log"
    sweep = start("sweep", path, FAULT_LOG=str(log))
    under_way(path, sweep)
    workers(sweep)[0].kill()
    ended(sweep)
    same(path, undisturbed)
    assert abs(runs(log) - len(undisturbed)) <= 1


def test_stopped_worker(tmp_path, undisturbed):
    """SIGSTOP of a worker: it counts as lost after a while, and the others do its batches."""
    path, sweep = long_sweep(tmp_path, DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="5s")
    stopped = workers(sweep)
    stopped[0].suspend()
    ended(sweep)
    same(path, undisturbed)
    until(lambda: all_gone(stopped), "the workers' end")


def test_killed_driver_truncated_and_foreign_part(tmp_path, undisturbed):
    """kill −9 of the driver, a part truncated, another study's beside it: started again, only those are redone."""
    path, log = make_long_study(tmp_path), tmp_path / "log"
    sweep = start("sweep", path)
    under_way(path, sweep)
    alone = workers(sweep)
    sweep.kill()
    sweep.communicate()
    until(lambda: all_gone(alone), "the workers to notice")
    kept = sorted(parts(path))
    kept[0].write_bytes(kept[0].read_bytes()[:-100])
    other = make_study(tmp_path / "other", sample="40", seed="9")
    serial_results(other)
    shutil.copy(load_study(other).folder / "results.parquet", kept[0].with_name("a-foreign-one.parquet"))
    said = ended(start("sweep", path, "--format", "json", FAULT_LOG=str(log)))
    assert "damaged" in said
    assert "of other inputs" in said
    assert runs(log) == len(undisturbed) - len(kept) + 1
    same(path, undisturbed)


def test_interrupted_twice(tmp_path, undisturbed):
    """Ctrl-C twice: the driver and its workers end, what was computed is kept, a new start finishes."""
    path, sweep = long_sweep(tmp_path)
    theirs = workers(sweep)
    sweep.send_signal(signal.SIGINT)
    time.sleep(0.3)
    sweep.send_signal(signal.SIGINT)
    said = ended(sweep, 130, 60)
    assert "goes on from there" in said
    until(lambda: all_gone(theirs), "the workers' end")
    kept = len(parts(path))
    said = ended(start("sweep", path, "--format", "json"))
    assert f'"n_computed": {len(undisturbed) - kept},' in said
    same(path, undisturbed)


def test_poison_package(tmp_path):
    """A package that kills its worker every time is one row that says so; all others are as ever."""
    study = {"batch_size": "4", "budget": "800_000", "n_jobs": "5"}
    expected = serial_results(make_long_study(tmp_path / "undisturbed", **study))
    assert len(expected) >= 4 * 500
    path, poison = make_long_study(tmp_path, **study), expected["package_id"][len(expected) // 3]
    said = ended(start("sweep", path, FAULT_POISON=poison))
    assert f"package {poison} on day under best-fit killed every worker that tried it" in said
    rows = results(path)
    bad = rows["package_id"] == poison
    assert rows.loc[bad, ["status", "reason"]].to_numpy().tolist() == [["failed", "killed every worker that tried it"]]
    pd.testing.assert_frame_equal(rows[~bad], expected[~bad], check_exact=True)


def test_full_disk(tmp_path, undisturbed):
    """A disk that fills: one sentence, what was written stays, and with room again the sweep goes on."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]).returncode:
        pytest.skip("needs root, to mount a small tmpfs")
    try:
        path = make_long_study(tmp_path, results=str(disk))
        said = ended(start("sweep", path), 1)
        assert "No space left on device" in said
        kept = len(parts(path))
        assert kept > 100
        subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)
        said = ended(start("sweep", path, "--format", "json"))
        assert f'"n_computed": {len(undisturbed) - kept},' in said
        same(path, undisturbed)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.fixture
def dask_farm(tmp_path):
    """Start a scheduler, and workers with the faults that a test names."""
    found, file = [], tmp_path / "scheduler.json"

    def begin(program: str, *arguments: str, **faults: str) -> None:
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", "--scheduler-file", str(file)]
        with (tmp_path / f"{program}{len(found)}.log").open("w") as log:
            found.append(subprocess.Popen([*command, *arguments], env=environment(**faults), stdout=log, stderr=log))

    begin("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    until(file.exists, "the scheduler")

    def worker(**faults: str) -> None:
        begin("worker", "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path), **faults)

    yield file, worker
    for process in reversed(found):
        process.terminate()
    for process in found:
        process.wait(30)


def test_clock_set_apart(tmp_path, undisturbed, dask_farm):
    """Workers whose clock is a day ahead give the same table."""
    file, worker = dask_farm
    worker(FAULT_CLOCK="86400")
    worker()
    path = make_long_study(tmp_path)
    ended(start("sweep", path, "--farm", json.loads(file.read_text())["address"]))
    same(path, undisturbed)


def test_worker_of_another_version(tmp_path, dask_farm):
    """A worker with another version of procure is named, and ends the sweep."""
    file, worker = dask_farm
    worker(FAULT_VERSION="0.0.1")
    address = json.loads(file.read_text())["address"]
    said = ended(start("sweep", make_long_study(tmp_path), "--farm", address, "--set", "farm.wait=60"), 1)
    assert "runs procure 0.0.1, this sweep " in said


def test_scheduler_goes_away(tmp_path, dask_farm):
    """A scheduler that ends in the middle is one sentence, and what was computed stays."""
    file, worker = dask_farm
    worker()
    path, sweep = long_sweep(tmp_path, "--farm", json.loads(file.read_text())["address"], FAULT_SLEEP="0.01", n=20)
    from distributed import Client

    with Client(scheduler_file=str(file)) as client:
        client.shutdown()
    said = ended(sweep, 1, 90)
    assert "scheduler" in said
    assert "is kept" in said
    assert len(parts(path)) >= 20


def test_an_interrupt_while_local_workers_start_is_not_lost(monkeypatch):
    """Ctrl-C before the workers are there ends the sweep once they are, and puts them away."""
    did: list[str] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it

    class Starting:
        def __init__(self, **keywords):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            did.append("started")

        def __enter__(self):
            return self

        def __exit__(self, *why):
            did.append("ended")

    monkeypatch.setattr("distributed.SpecCluster", Starting)
    try:
        with pytest.raises(KeyboardInterrupt), connect("local", FarmOptions(jobs=1), print):
            did.append("went on")
    finally:
        signal.signal(signal.SIGINT, before)
    assert did == ["started", "ended"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_within_a_destructor_is_not_lost(monkeypatch):
    """Ctrl-C while Python runs a `__del__`, which drops what is raised in it, ends the sweep at the next batch."""

    class Released:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    def compute_part(bench, number):
        Released()
        did.append(number)

    did: list[int] = []
    batches = [1, 2, 3]
    work = SimpleNamespace(
        take=lambda alone=True: batches.pop(0) if batches else None,
        bench=lambda batch: None,
        arguments=lambda batch: (batch,),
    )
    monkeypatch.setattr("procure.sweep.farm.compute_part", compute_part)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), one_interrupt():
        list(run_tasks("serial", work))
    assert did == [1]
    assert signal.getsignal(signal.SIGINT) is before
