"""What others on the node or the network can do to a sweep, and what listens or lies about while one runs: nothing."""

import contextlib
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest
from small_study import search
from sweep_lab import (
    environment,
    finish,
    long_sweep,
    make_long_study,
    make_study,
    parts,
    start,
    until,
)

from procure.errors import TableError
from procure.study import load_study
from procure.sweep import FarmOptions
from procure.sweep.connect import connect, make_cluster
from procure.sweep.store import locked_workers

# Asks every port, whatever listens there, to make a folder: as a scheduler, a worker and a nanny are asked.
ATTACK = """
import asyncio, os, pickle, sys
from distributed.core import connect
from distributed.security import Security

security = Security.temporary()
uid, folder, *addresses = sys.argv[1:]
os.setgroups([]) if int(uid) != os.getuid() else None
os.setuid(int(uid))

async def ask(address, operation):
    mark = os.path.join(folder, f"{operation}-{address.rpartition(':')[2]}")
    try:
        keys = security.get_connection_args("client") | {"require_encryption": False}
        comm = await connect(address, timeout=3, **keys)
        call = {"function": pickle.dumps(os.mkdir), "args": pickle.dumps((mark,))}
        await comm.write({"op": operation, "reply": True} | call)
        print(address, operation, await asyncio.wait_for(comm.read(), 3))
    except Exception as error:
        print(address, operation, repr(error))

async def main():
    asks = [asyncio.create_task(ask(a, o)) for a in addresses for o in ("run_function", "run")]
    _, hang = await asyncio.wait(asks, timeout=20)  # an HTTP server does not answer
    for _ in hang:
        print("no answer")
    sys.stdout.flush()
    os._exit(0)

asyncio.run(main())
"""


def attack(folder: Path, listening: set[tuple[str, int]]) -> list[str]:
    """As another user, ask each host and port to run code, with TLS and without; name those who did."""
    nobody = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else os.getuid()
    marks = folder / "marks"
    marks.mkdir()
    anywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
    found = sorted((anywhere.get(host, host), port) for host, port in listening)
    addresses = [f"{kind}://{host}:{port}" for kind in ("tcp", "tls") for host, port in found]
    done = subprocess.run(
        [sys.executable, "-c", ATTACK, str(nobody), str(marks), *addresses],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2 * len(addresses), done.stdout + done.stderr
    print(done.stdout)
    return sorted(mark.name for mark in marks.iterdir())


def listeners(processes: Iterable[psutil.Process] | None = None) -> list[tuple[str, int]]:
    """Addresses on which some processes listen, by default this one and its children."""
    if processes is None:
        processes = (me := psutil.Process(), *me.children(recursive=True))
    return [
        tuple(each.laddr)
        for process in processes
        for each in process.net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    ]


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="connecting as another user needs root")
def test_nobody_else_can_use_local_workers(tmp_path):
    """Another user on this node cannot run code in the scheduler, the workers or the nannies of a local sweep."""
    before = set(listeners())
    with connect("local", FarmOptions(jobs=2), print) as (client, _):
        client.wait_for_workers(1)
        found = set(listeners()) - before
        assert attack(tmp_path, found) == []
        assert client.submit(sum, [1, 2]).result() == 3
    assert {host for host, _ in found} == {"127.0.0.1"}


@pytest.mark.slow
def test_the_attack_is_one(tmp_path):
    """The attack of these tests does run code where there are no keys, in a scheduler and in a worker."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        (worker,) = client.nthreads()
        ports = {int(each.rpartition(":")[2]) for each in (cluster.scheduler_address, worker)}
        assert len(attack(tmp_path, {("127.0.0.1", port) for port in ports})) >= len(ports)


@pytest.mark.slow
@pytest.mark.parametrize("farm", ["slurm", "pbs", "lsf", "sge"])
def test_queued_workers_have_keys(tmp_path, monkeypatch, farm):
    """Scheduler and jobs of a queue speak TLS, listen where they are told, and leave no keys that others can read."""
    monkeypatch.setattr("dask_jobqueue.lsf.lsf_detect_units", lambda: "kb")
    before = set(listeners())
    options = FarmOptions(walltime="1:00", folder=tmp_path / "study", interface="lo")
    with make_cluster(farm, options) as cluster:
        script = cluster.job_script()
        found = set(listeners()) - before
        assert cluster.scheduler_address.startswith("tls://127.0.0.1:")
        assert {host for host, _ in found} == {"127.0.0.1"}
        if os.getuid() == 0 and farm == "slurm":
            assert attack(tmp_path, found) == []
        keys = [Path(words) for words in script.split() if ".dask-jobqueue.worker." in words]
        assert keys
        assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    for words in ("--tls-key", "--interface lo", "--dashboard-address 127.0.0.1:0"):
        assert words in script, script


def test_no_tls_warns(tmp_path, monkeypatch):
    """Whoever names a scheduler without TLS is told what that means."""
    notes: list[str] = []
    monkeypatch.setattr("procure.sweep.connect.CONNECT_TIMEOUT", "0.1s")
    for scheme in ("tcp", "ws", "ucx"):
        notes.clear()
        farm = f"{scheme}://127.0.0.1:9"
        with pytest.raises(TableError), connect(farm, FarmOptions(folder=tmp_path), notes.append):
            pass
        assert "can run code as you" in notes[0]


def test_workers_of_another_driver_are_not_cancelled(tmp_path, monkeypatch):
    """Queued jobs of a folder are cancelled only by who holds it; a second driver is refused and cancels none."""
    cancelled: list[str] = []
    monkeypatch.setattr("procure.sweep.connect._cancel", lambda farm, name: cancelled.append(name))
    with (
        locked_workers(tmp_path),
        pytest.raises(TableError, match="is running: process"),
        connect("slurm", FarmOptions(folder=tmp_path), lambda text: None),
    ):
        pass
    assert not cancelled


def test_a_search_names_its_jobs_otherwise_than_the_sweep(tmp_path, monkeypatch):
    """A search's queued workers have the search's folder, whatever options it is given: a sweep's live on."""
    study, asked = load_study(make_study(tmp_path)), []

    @contextlib.contextmanager
    def stop(farm, options, note):
        asked.append(options.folder)
        raise TableError("enough")
        yield

    monkeypatch.setattr("procure.explorer.observations.connect", stop)
    for options in (None, FarmOptions(folder=study.folder)):
        with pytest.raises(TableError, match="enough"):
            search(study, farm="slurm", runs=10, options=options)
    assert asked == [study.folder / "search"] * 2


NOBODY = 65534


def plant(folder: Path, victim: Path, name: str = "public") -> Path:
    """Make, as another user where that is possible, Dask's folder in a public one: its locks lead to a file of ours."""
    public = folder / name
    public.mkdir()
    public.chmod(0o1777)
    planted = public / "dask-scratch-space"
    planted.mkdir()
    for name in ("global.lock", "purge.lock"):
        (planted / name).symlink_to(victim)
    planted.chmod(0o777)
    if os.getuid() == 0:
        os.chown(planted, NOBODY, NOBODY)
    return public


def refuse_planted(public: Path, victim: Path) -> None:
    assert victim.read_text() == "dear to me\n"
    planted = public / "dask-scratch-space"
    assert sorted(path.name for path in planted.iterdir()) == ["global.lock", "purge.lock"]


@pytest.fixture
def victim(tmp_path) -> Path:
    path = tmp_path / "thesis.txt"
    path.write_text("dear to me\n")
    return path


@pytest.mark.slow
def test_local_workers_leave_a_planted_folder_alone(tmp_path, victim, monkeypatch):
    """Another user's dask-scratch-space is not used; what is used is ours alone, and gone afterwards."""
    public = plant(tmp_path, victim)
    monkeypatch.setattr(tempfile, "tempdir", str(public))
    with connect("local", FarmOptions(jobs=1), print) as (client, _):
        client.wait_for_workers(1)
        folders = client.run(lambda dask_worker: dask_worker.local_directory)
        folders |= client.run(lambda dask_worker: dask_worker.local_directory, nanny=True)
        folders["scheduler"] = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.local_directory)
        (own,) = public.glob("procure-*")
        assert (own.stat().st_mode & 0o777, own.stat().st_uid) == (0o700, os.getuid())
        assert all(Path(folder).is_relative_to(own) for folder in folders.values()), folders
    refuse_planted(public, victim)
    left = {path.name for path in public.iterdir()} - {path.name for path in public.glob("pymp-*")}
    assert left == {"dask-scratch-space"}  # multiprocessing's folder ends with this process


@pytest.mark.slow
@pytest.mark.parametrize("name", ["public", "of-a-path-that-no-socket-of-unix-can-have-" * 2])
def test_interrupted_sweep_leaves_no_folder(tmp_path, victim, name):
    """Whether it ends, is interrupted or is told to end: a sweep removes its folder for temporary files."""
    public = plant(tmp_path, victim, name)
    _, sweep = long_sweep(tmp_path, TMPDIR=str(public))
    sweep.terminate()
    assert finish(sweep)[0] == 130
    refuse_planted(public, victim)
    assert [path.name for path in public.iterdir()] == ["dask-scratch-space"]


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


@pytest.mark.parametrize("cpus", ["1", "2", ""])
@pytest.mark.slow
def test_batch_scripts_open_no_http_server(tmp_path, cpus):
    """Nor sweep.sbatch; a task of shard.sbatch listens nowhere, or on loopback where it has several cores."""
    path = make_long_study(tmp_path)
    if not cpus:
        assert not while_running(start_script(tmp_path, "sweep.sbatch", path), path, n_ports=5)[1]
        return
    task = {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_MAX": "0", "SLURM_CPUS_PER_TASK": cpus}
    found, http = while_running(start_script(tmp_path, "shard.sbatch", path, **task), path)
    assert bool(found) == (cpus == "2")
    assert {address[0] for address in found} <= {"127.0.0.1"}
    assert not http
