"""What others on the node or the network can do to a sweep: nothing."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from sweep_lab import make_study
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.explorer import search
from procure.study import load_study
from procure.sweep import FarmOptions
from procure.sweep.connect import connect, make_cluster
from procure.sweep.lock import locked_workers
from procure.sweep.tls import make_keys

# Asks every port, whatever listens there, to make a folder: as a scheduler, a worker and a nanny are asked.
ATTACK = """
import asyncio, os, pickle, sys
from distributed.core import connect
from procure.sweep.tls import one_run_security

security = one_run_security()
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
    await asyncio.gather(*(ask(a, o) for a in addresses for o in ("run_function", "run")))

asyncio.run(main())
"""


def attack(folder: Path, ports: set[int]) -> list[str]:
    """As another user, ask whatever listens on some ports of loopback to run code; name those who did."""
    return attack_addresses(folder, {("127.0.0.1", port) for port in ports})


def attack_addresses(folder: Path, listening: set[tuple[str, int]]) -> list[str]:
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


def listening() -> list[tuple[str, int]]:
    """Addresses on which this process and its children listen."""
    me = psutil.Process()
    return listeners((me, *me.children(recursive=True)))


def listeners(processes: Iterable[psutil.Process]) -> list[tuple[str, int]]:
    """Addresses on which some processes listen."""
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
    before = set(listening())
    with connect("local", FarmOptions(jobs=2), print) as (client, _):
        client.wait_for_workers(1)
        n_workers = len(client.nthreads())
        found = set(listening()) - before
        assert attack(tmp_path, {port for _, port in found}) == []
        assert client.submit(sum, [1, 2]).result() == 3
    assert {host for host, _ in found} == {"127.0.0.1"}
    assert len(found) == 1 + 2 * n_workers, "a scheduler, workers and nannies; no HTTP server"


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
        assert len(attack(tmp_path, ports)) >= len(ports)


@pytest.mark.slow
def test_dashboard_only_when_asked_for_and_on_loopback():
    """With --dashboard there is one HTTP server more, on loopback, and its address is said."""
    before, notes = set(listening()), []
    with connect("local", FarmOptions(jobs=1, dashboard=True), notes.append) as (client, _):
        client.wait_for_workers(1)
        found = set(listening()) - before
    assert len(found) == 4
    assert {host for host, _ in found} == {"127.0.0.1"}
    assert notes[0].startswith("dashboard: http://127.0.0.1:")


@pytest.mark.slow
@pytest.mark.parametrize("farm", ["slurm", "pbs", "lsf", "sge"])
def test_queued_workers_have_keys_unless_refused(tmp_path, monkeypatch, farm):
    """Scheduler and jobs of a queue speak TLS by default, listen where they are told, and open no HTTP server."""
    monkeypatch.setattr("dask_jobqueue.lsf.lsf_detect_units", lambda: "kb")
    before = set(listening())
    options = FarmOptions(walltime="1:00", folder=tmp_path / "study", interface="lo")
    with make_cluster(farm, options) as cluster:
        script = cluster.job_script()
        found = set(listening()) - before
        assert cluster.scheduler_address.startswith("tls://127.0.0.1:")
        assert {host for host, _ in found} == {"127.0.0.1"}
        assert len(found) == 1
        if os.getuid() == 0 and farm == "slurm":
            assert attack(tmp_path, {port for _, port in found}) == []
    for words in (
        "--tls-key",
        "--interface lo",
        "-m procure.sweep.headless worker",
    ):
        assert words in script, script
    options = replace(options, tls=False)
    with make_cluster(farm, options) as cluster:
        assert cluster.scheduler_address.startswith("tcp://127.0.0.1:")
        assert "--tls" not in cluster.job_script()


def test_no_tls_warns(tmp_path, monkeypatch):
    """Whoever turns TLS off, or names a scheduler without it, is told what that means."""
    notes: list[str] = []
    monkeypatch.setattr("procure.sweep.connect.refusal", lambda farm, script: "no")
    monkeypatch.setattr("procure.sweep.connect._cancel", lambda farm, name: None)
    options = FarmOptions(folder=tmp_path, tls=False, interface="lo")
    with pytest.raises(TableError), connect("slurm", options, notes.append):
        pass
    assert "can run code as you" in notes[0]
    notes.clear()
    monkeypatch.setattr("procure.sweep.connect.CONNECT_TIMEOUT", "0.1s")
    for scheme in ("tcp", "ws", "ucx"):
        notes.clear()
        farm = f"{scheme}://127.0.0.1:9"
        with pytest.raises(TableError), connect(farm, FarmOptions(folder=tmp_path), notes.append):
            pass
        assert "can run code as you" in notes[0]


@pytest.mark.parametrize("which", ["", "cert.pem", "key.pem"])
def test_keys_that_others_may_know_are_refused(tmp_path, which):
    """Keys or their folder with another mode or owner, or behind a link, are refused, and what to do is said."""
    make_keys(tmp_path)
    path = tmp_path / "tls" / which
    mode = path.stat().st_mode & 0o777
    path.chmod(mode | 0o040)
    with pytest.raises(TableError, match=r"has mode 0[67]40.*Remove the folder"):
        make_keys(tmp_path)
    path.chmod(mode)
    moved = path.rename(tmp_path / "elsewhere")
    path.symlink_to(moved)
    with pytest.raises(TableError, match="is a link"):
        make_keys(tmp_path)
    path.unlink()
    moved.rename(path)
    make_keys(tmp_path)
    if os.getuid() == 0:
        os.chown(path, 65534, 65534)
        with pytest.raises(TableError, match="belongs to the user with the id 65534"):
            make_keys(tmp_path)


def test_keys_where_anybody_could_replace_them_are_refused(tmp_path):
    """A results folder that everybody may write to is refused for TLS, unless each can only move what is theirs."""
    folder = tmp_path / "results"
    folder.mkdir()
    folder.chmod(0o1777)
    make_keys(folder)
    folder.chmod(0o777)
    with pytest.raises(TableError, match=r"has mode 0777.*chmod o-w"):
        make_keys(folder)


def test_keys_that_expire_are_made_anew(tmp_path):
    """A pair of keys of last year is replaced by a new one."""
    cert, key = make_keys(tmp_path)
    old = key.read_bytes()
    os.utime(cert, (1.0, time.time() - 350 * 86_400))
    assert make_keys(tmp_path)[1].read_bytes() != old
    assert sorted(path.name for path in cert.parent.iterdir()) == [".lock", "cert.pem", "key.pem"]


def test_drivers_that_make_keys_at_once_get_a_pair_that_matches(tmp_path):
    """However many drivers ask for a study's keys at the same time, certificate and key belong together."""
    for number in range(10):
        folder, together = tmp_path / str(number), threading.Barrier(8)

        def make(folder=folder, together=together):
            together.wait()
            return make_keys(folder)

        with ThreadPoolExecutor(8) as pool:
            pairs = [asked.result() for asked in [pool.submit(make) for _ in range(8)]]
        ((cert, key),) = set(pairs)
        public = x509.load_pem_x509_certificate(cert.read_bytes()).public_key()
        assert public == load_pem_private_key(key.read_bytes(), None).public_key()


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

    monkeypatch.setattr("procure.explorer.oracle.connect", stop)
    for options in (None, FarmOptions(folder=study.folder)):
        with pytest.raises(TableError, match="enough"):
            search(study, farm="slurm", runs=10, options=options)
    assert asked == [study.folder / "search"] * 2


@pytest.mark.parametrize(
    "options",
    [
        ("--set", "farm.tls=false"),
        ("--farm", "serial", "--set", "farm.dashboard=true"),
        ("--farm", "tcp://127.0.0.1:9", "--set", "farm.dashboard=true"),
    ],
)
def test_options_of_no_use_are_bad_usage(tmp_path, options):
    """What a farm has no use for is refused, exit code 2."""
    assert CliRunner().invoke(app, ["sweep", str(make_study(tmp_path)), *options]).exit_code == 2
