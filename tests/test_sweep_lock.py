"""A study's folder that others read, write or have left: no shard disturbs another, and no reader the owner."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys

import pytest
from sweep_lab import make_study

from procure.errors import TableError
from procure.files import whole_file
from procure.study import load_study
from procure.sweep import load_plan, run_sweep
from procure.sweep.store import locked, open_folder

WRITE = """
import sys, time
import procure.tables
from procure.cli.main import run

def as_csv(frame, out):
    print("writing", flush=True)
    time.sleep(60)

procure.tables.as_csv = as_csv
sys.argv = ["procure", "workload", "generate", "--out", sys.argv[1]]
run()
"""


def small_plan(folder):
    return load_plan(load_study(make_study(folder, n_jobs="20", sample="40")))


def test_a_shard_leaves_the_half_written_parts_of_another(tmp_path):
    """What is being written in the folder is neither read nor renamed when another shard starts."""
    plan = small_plan(tmp_path)
    run_sweep(plan, "serial", shard=(0, 2))
    part = next((plan.study.folder / "parts").glob("*.parquet"))
    with whole_file(part.with_name("day.best-fit.000000007-01234567.parquet")) as temporary:
        temporary.write_bytes(part.read_bytes()[:100])
        _, notes = open_folder(plan)
        assert notes == []
        run_sweep(plan, "serial", shard=(1, 2))
        assert temporary.exists()
        temporary.write_bytes(part.read_bytes())


def test_a_lock_that_is_held_names_who_holds_it(tmp_path):
    """Not a process that has ended."""
    study = load_study(make_study(tmp_path))
    with locked(study), pytest.raises(TableError, match=rf"running: process {os.getpid()} on "):
        locked(study).__enter__()
    lock = study.folder / "lock"
    ended = subprocess.Popen(["true"])
    ended.wait()
    lock.write_text(lock.read_text().replace(f"process {os.getpid()} ", f"process {ended.pid} "))
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TableError, match="left no name"):
            locked(study).__enter__()
    with locked(study), lock.open() as stream, pytest.raises(OSError):
        fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_leaves_no_half_file(tmp_path, number):
    """TERM and HUP end a command as Ctrl-C does."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, str(tmp_path / "jobs.csv")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # under nohup it would ignore HUP
    ) as command:  # fmt: skip
        assert command.stdout is not None
        assert command.stdout.readline() == "writing\n"
        command.send_signal(number)
        assert command.communicate(timeout=60)[1] == "procure: interrupted\n"
    assert command.returncode == 130
    assert not list(tmp_path.iterdir())
