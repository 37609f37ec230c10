"""What listens while a sweep runs, of every farm and batch script: no page that was not asked for."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest
from sweep_lab import environment, make_long_study, parts, start, until
from test_sweep_security import listeners

SCRIPTS = Path(__file__).resolve().parent.parent / "pipelines" / "slurm"
SRUN = '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\n"$@" & "$@" & wait\n'
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def shows_pages(address: tuple[str, int]) -> bool:
    """Tell whether a listener shows a browser anything."""
    host, port = address[:2]
    for page in ("/info/main/workers.html", "/health", "/metrics"):
        try:
            with socket.create_connection((ANYWHERE.get(host, host), port), timeout=5) as stream:
                stream.sendall(f"GET {page} HTTP/1.0\r\n\r\n".encode())
                if re.match(rb"HTTP/1.\d 200", stream.recv(20)):
                    return True
        except OSError:
            continue
    return False


def start_script(folder: Path, script: str, path: Path, **variables: str) -> subprocess.Popen[str]:
    """Run a batch script of ours as Slurm would on one node with two tasks."""
    srun = folder / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(SRUN)
    srun.chmod(0o755)
    given = environment(FAULT_SLEEP="0.05", SLURM_JOB_ID="7", **variables)
    return subprocess.Popen(
        ["bash", str(SCRIPTS / script), str(path)], cwd=folder, text=True, start_new_session=True,
        env=given | {"PATH": f"{srun.parent}:{given['PATH']}"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


Addresses = set[tuple[str, int]]


def while_running(process: subprocess.Popen[str], path: Path, n_ports: int = 0) -> tuple[Addresses, Addresses]:
    """Give where a process and its children listen while it computes, and where a browser is answered; then end it.

    A worker may come up when another has computed for a while: it waits until so many ports are open.
    """
    try:
        driver = psutil.Process(process.pid)

        def found() -> Addresses:
            return set(listeners([driver, *driver.children(recursive=True)]))

        until(lambda: len(parts(path)) >= 5 or process.poll() is not None, "5 parts")
        until(lambda: len({port for _, port in found()}) >= n_ports, f"{n_ports} ports")
        assert process.poll() is None
        open_now = found()
        return open_now, set(filter(shows_pages, open_now))
    finally:
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGTERM)
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.parametrize("farm", ["serial", "local"])
@pytest.mark.slow
def test_farms_show_no_page(tmp_path, farm):
    """A sweep in this process listens nowhere; local workers on loopback, and none of them shows a page."""
    path = make_long_study(tmp_path)
    found, http = while_running(start("sweep", path, "--farm", farm, FAULT_SLEEP="0.05"), path)
    assert bool(found) == (farm != "serial")
    assert {address[0] for address in found} <= {"127.0.0.1"}
    assert not http


@pytest.mark.slow
def test_sweep_sbatch_shows_no_page(tmp_path):
    path = make_long_study(tmp_path)
    _, http = while_running(start_script(tmp_path, "sweep.sbatch", path), path, n_ports=5)
    assert not http


@pytest.mark.parametrize("cpus", ["1", "2"])
@pytest.mark.slow
def test_shard_sbatch_opens_no_http_server(tmp_path, cpus):
    """A task of shard.sbatch listens nowhere, or on loopback where it has several cores."""
    path = make_long_study(tmp_path)
    task = {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_MAX": "0", "SLURM_CPUS_PER_TASK": cpus}
    found, http = while_running(start_script(tmp_path, "shard.sbatch", path, **task), path)
    assert bool(found) == (cpus == "2")
    assert {address[0] for address in found} <= {"127.0.0.1"}
    assert not http
