"""The service as a process: its sockets, its client, its end by kill -9, and another account."""

import asyncio
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvicorn
from serve_cases import fetch, keep_model, make_log, quick_model, write_dumps

from procure.errors import TableError
from procure.serve import files
from procure.serve.serving import protocol
from procure.serve.settings import Http
from procure.serve.store import Store

PROCURE = [sys.executable, "-c", "from procure.cli.start import run; run()"]


def test_who_reads_nothing_of_an_answer_is_closed() -> None:
    """A large answer that is not taken, and what was asked after it, hold a connection for two looks at most."""

    async def large(scope: dict, receive: object, send: Callable) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"30000000")]})
        await send({"type": "http.response.body", "body": b"x" * 30_000_000})

    async def run() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        how = uvicorn.Config(large, http=protocol(Http(idle=1)), lifespan="off", timeout_keep_alive=1, log_config=None)
        server = uvicorn.Server(how)
        serving = asyncio.create_task(server.serve([listening]))
        _, writes = await asyncio.open_connection(*listening.getsockname(), limit=1024)
        writes.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 2)
        for _ in range(100):
            await asyncio.sleep(0.1)
            if server.server_state.connections:
                break
        for _ in range(100):
            await asyncio.sleep(0.1)
            if not server.server_state.connections:
                break
        still = len(server.server_state.connections)
        writes.transport.abort()
        server.should_exit = server.force_exit = True
        await serving
        assert still == 0

    asyncio.run(run())


def test_root_gives_the_folder_to_the_units_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What root has written belongs to the account `procure`, where there is one."""
    given = []
    monkeypatch.setattr("procure.serve.files.os.getuid", lambda: 0)
    monkeypatch.setattr("procure.serve.files.os.chown", lambda path, *ids, **how: given.append((path.name, ids)))
    files.init(tmp_path / "a")
    assert given == []
    account = SimpleNamespace(pw_name="procure", pw_uid=7, pw_gid=8)
    monkeypatch.setattr("procure.serve.files.pwd.getpwall", lambda: [account])
    files.init(tmp_path / "b")
    assert {name for name, _ in given} == {"b", "run", *files.NAMES}
    assert {ids for _, ids in given} == {(7, 8)}
    given.clear()
    (tmp_path / "b/config.toml").unlink()
    files.init(tmp_path / "b")
    assert given == [("config.toml", (7, 8))]  # what was there stays whose it is


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a link to another account")
def test_a_link_or_folder_of_another_account_is_not_followed(tmp_path: Path) -> None:
    """Who made it could put another in its place; one of root's own is followed."""
    private, link = tmp_path / "private", tmp_path / "link"
    private.mkdir(mode=0o700)
    link.symlink_to(private)
    os.chown(link, 65_534, 65_534, follow_symlinks=False)
    for folder in (link, link / "within"):
        with pytest.raises(TableError, match="65534"):
            files.init(folder)
    assert not any(private.iterdir())
    os.chown(link, 0, 0, follow_symlinks=False)
    files.init(link)
    assert (private / "config.toml").is_file() and private.stat().st_mode & 0o777 == 0o711
    os.chown(private, 65_534, 65_534)
    with pytest.raises(TableError, match="of the account 65534"):
        files.init(private)


@pytest.mark.skipif(shutil.which("lua") is None, reason="lua is not installed here")
@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"ntasks": 4, "nodes": "1-0", "gres": "gres:gpu:2"}, "cpus=4 nodes=1 gpus=2"),
        ({"ntasks": 4, "nodes": "2", "gres": "gres:gpu:a100:2,gres:tmp:1"}, "cpus=4 nodes=2 gpus=4"),
        ({"ntasks": 4, "gres": "gres:gpu:a100"}, "cpus=4 nodes=1 gpus=1"),
        ({"ntasks": 4, "gres": "gres:tmp:7"}, "cpus=4 nodes=1"),
        ({"ntasks": 1, "gpus": "a100:2,v100:1"}, "cpus=1 nodes=1 gpus=3"),
        ({"ntasks": 2, "nodes": "2", "gpus-per-node": "4"}, "cpus=2 nodes=2 gpus=8"),
        ({"ntasks": 4, "gpus-per-task": "a100:1"}, "cpus=4 nodes=1 gpus=4"),
        ({"ntasks": 16, "nodes": "2", "mem-per-cpu": "8G"}, "cpus=16 nodes=2 mem=65536M"),
        ({"ntasks": 1, "partition": "a", "mem": "4000"}, "cpus=1 nodes=1 partition=a mem=4000M"),
        ({"ntasks": 1, "partition": "a,b"}, "nil"),
        ({"ntasks": 1, "partition": "x&user=root"}, "nil"),
        ({"ntasks": 1, "gpus": "2", "mem-per-gpu": "4G"}, "nil"),
        ({"ntasks": 1, "gpus": "2", "cpus-per-gpu": 4}, "nil"),
        ({"ntasks": 1, "gpus": "half"}, "nil"),
        ({"ntasks": 1, "time": "1';touch x;'"}, "nil"),
    ],
)
def test_the_filter_asks_about_the_job_that_is_submitted(options: dict[str, object], asked: str) -> None:
    """As sbatch 22.05 spells its options; about a job that the filter does not understand nothing is asked."""
    code = (Path(files.__file__).parent / "init/cli_filter.lua").read_text()
    unset = {"time": "01:00:00", "cpus-per-task": 0, "ntasks-per-node": -2, "cpus-per-gpu": 0, "ntasks-per-gpu": -2}
    given = ", ".join(f"[{json.dumps(name)}] = {json.dumps(value)}" for name, value in (unset | options).items())
    code = code.replace("local function advise", f"print(question({{ {given} }}))\nlocal function advise")
    done = subprocess.run(["lua", "-"], input=code, capture_output=True, text=True, check=True)
    assert done.stdout.strip().replace("time=01:00:00&", "").replace("&", " ") == asked


@pytest.mark.skipif(not Path("/usr/bin/perl").exists(), reason="perl is not installed here")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\nprocure: soon\n", "procure: soon\n"),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\nprocure: no\n", ""),
        (b"nonsense", ""),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000, "x" * 3981),
        (None, ""),
    ],
    ids=["answered", "busy", "nonsense", "endless", "hanging"],
)
def test_the_filter_takes_an_answer_or_nothing(tmp_path: Path, answer: bytes | None, said: str) -> None:
    """What asks for the filter prints the body of a good answer, at most 4,000 bytes of it, and else nothing."""
    code = (Path(files.__file__).parent / "init/cli_filter.lua").read_text().partition("ASK = [[")[2].partition("]]")[0]
    path, heard = str(tmp_path / "socket"), []
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(path)
        own.listen(1)

        def serve() -> None:
            there, _ = own.accept()
            with there:
                heard.append(there.recv(1000))
                if answer is None:
                    there.recv(1)  # until who asks has gone
                with suppress(OSError):
                    there.sendall(answer or b"")

        server = threading.Thread(target=serve)
        server.start()
        asked = ["/usr/bin/perl", "-e", code, path, "/v1/advice?cpus=4&time=8h"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False)
        server.join()
        assert heard == [b"GET /v1/advice?cpus=4&time=8h HTTP/1.0\r\nhost: procure\r\n\r\n"]
        assert done.stdout == said
        held = [socket.socket(socket.AF_UNIX) for _ in range(9)]  # more than are let in: nobody takes them
        for one in held:
            one.setblocking(False)
            one.connect_ex(path)
        assert subprocess.run(asked, capture_output=True, timeout=20, check=False).stdout == b""
        for one in held:
            one.close()


@pytest.mark.parametrize("more", [[], ["--check"]])
@pytest.mark.parametrize("what", ["damaged", "full"])
def test_a_database_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, procure: Callable, monkeypatch: pytest.MonkeyPatch, more: list[str], what: str
) -> None:
    """Damaged in its middle, or on a full disk: which file, what is wrong and what to do; exit code 1."""
    monkeypatch.setattr("os.umask", lambda mode: None)
    procure("serve", "init", "--dir", tmp_path)
    path = tmp_path / "procure.sqlite"
    store = Store(path, writer=True)
    store.put_jobs(make_log())
    store.close()
    if what == "damaged":
        with path.open("r+b") as stream:
            stream.seek(4096)
            stream.write(b"\x55" * (path.stat().st_size - 8192))
    else:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        monkeypatch.setattr(Store, "rows", lambda *_: (_ for _ in ()).throw(error))
    code, _, err = procure("serve", "run", "--config", tmp_path / "config.toml", *more)
    assert code == 1 and str(path) in err and what in err and "internal error" not in err


class Running:
    """A service that reads what a Slurm has written, as the second half of a log goes by at an hour each second."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.process = folder, None
        self.log, self.began = make_log(), int(time.time()) - 200_000
        self.first = int(self.log["submit_time"].iloc[300])
        subprocess.run([*PROCURE, "serve", "init", "--dir", folder], check=True)
        config = folder / "config.toml"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        text = config.read_text().replace("every = 30 ", 'dumps = "dumps"\nevery = 1 ')
        text = text.replace("127.0.0.1:8042", f"127.0.0.1:{self.port}") + "idle = 8\nconnections_each = 40\n"
        config.write_text(text.replace("retrain_grown = 20.0", "retrain_grown = 1000000.0"))
        self.written, self.over = 0, threading.Event()
        self.write()
        site = quick_model(self.log.assign(**self.shifted()), self.began)
        from procure.serve.settings import read_service

        keep_model(read_service(config), site)
        self.writing = threading.Thread(target=self.go_on)
        self.writing.start()
        self.start()

    def shifted(self) -> dict:
        return {name: self.log[name] + self.began - self.first for name in ("submit_time", "start_time", "end_time")}

    def write(self) -> None:
        moment = self.written * 60
        write_dumps(self.folder / "dumps", self.log, self.first + moment, self.began + moment)
        self.written += 1

    def go_on(self) -> None:
        while not self.over.wait(0.2):
            self.write()

    @property
    def socket(self) -> Path:
        return self.folder / "run/procure.sock"

    def start(self) -> None:
        command = [*PROCURE, "serve", "run", "--config", self.folder / "config.toml"]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until(lambda: self.get("/ready")[0] == 200, self.folder)

    def get(self, target: str) -> tuple[int, dict]:
        status, body = fetch(self.socket, target)
        return status, json.loads(body)


def until(what, folder: Path, seconds: float = 120) -> None:  # type: ignore[no-untyped-def]
    end = time.time() + seconds
    while time.time() < end:
        try:
            if what():
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError((folder / "log").read_text()[-2000:])


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    folder = Path(tempfile.mkdtemp(prefix="procure-serve-"))  # where another account may come to the socket
    try:
        made = Running(folder)
        try:
            yield made
        finally:
            made.over.set()
            made.process.terminate()
        assert made.process.wait(20) == 0
        assert not made.socket.exists()
    finally:
        shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")
def test_a_shell_is_answered(running: Running) -> None:
    """What the page of the service says to type gives lines to read."""
    command = ["curl", "-s", "--unix-socket", running.socket, "-H", "accept: text/plain"]

    def said(target: str) -> str:
        return subprocess.run([*command, f"http://procure{target}"], capture_output=True, text=True).stdout

    assert "procure: this job" in said("/v1/predict?cpus=2&mem=1G&time=1:00:00")
    assert said("/v1/pending").startswith("none of your jobs waits")
    assert said("/v1/advice?cpus=2&time=1:00:00").startswith("procure: this job ")


@pytest.mark.slow
def test_killed_it_goes_on_where_it_was(running: Running) -> None:
    """After kill -9 a new one takes the folder, and each job has one forecast, with the wait of the log."""
    until(lambda: running.get("/v1/honesty?days=0")[1]["counts"]["given"] > 20, running.folder)
    running.process.kill()
    running.process.wait()
    running.start()
    store = Store(running.folder / "procure.sqlite")
    given = store.rows("select count(*), count(distinct job_id) from forecasts")[0]
    assert given[0] == given[1]
    until(lambda: store.rows("select count(*) from forecasts")[0][0] > given[0], running.folder)
    log, rows = make_log().set_index("job_id"), store.rows("select job_id, wait from forecasts where wait is not null")
    assert rows
    for name, wait in rows:
        assert wait == log.loc[name, "start_time"] - log.loc[name, "submit_time"]


@pytest.mark.slow
def test_connections_that_say_nothing_are_closed(running: Running) -> None:
    """Idle ones, and those that send half a request, are closed; one too many is refused; others are answered."""
    held = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(30)]
    for number, one in enumerate(held):
        one.settimeout(30)
        if number % 2:
            one.sendall(b"GET /health HTTP/1.1\r\nho")
    assert running.get("/health")[0] == 200
    more = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(20)]
    time.sleep(0.5)
    refused = 0
    for one in more:
        one.settimeout(0.2)
        try:
            refused += one.recv(1) == b""
        except ConnectionError:
            refused += 1
        except TimeoutError:
            pass
    assert refused >= 10

    def closed(one: socket.socket) -> bool:
        try:
            return one.recv(1) in (b"", b"H")
        except ConnectionError:
            return True

    assert all(map(closed, held))
    for one in (*held, *more):
        one.close()


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0 or shutil.which("setpriv") is None, reason="only root can become another account")
def test_another_account_gets_nothing_that_is_not_its_own(running: Running) -> None:
    """Neither the header, the files, the lock nor the socket's place give another account anything."""

    def other(*words: object) -> subprocess.CompletedProcess:
        command = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True)

    curl = ("curl", "-s", "--unix-socket", running.socket, "-H", "X-Remote-User: ann")
    assert json.loads(other(*curl, "http://x/v1/pending").stdout)["user"] == "nobody"
    for name in ("procure.sqlite", "queue.parquet", "site.model", "collector.lock"):
        assert other("head", "-c1", running.folder / name).returncode != 0, name
    assert other("ls", running.folder).returncode != 0
    assert other("rm", "-f", running.socket).returncode != 0 and running.socket.exists()
    assert other("flock", "-n", running.folder / "collector.lock", "true").returncode != 0
    for path in ("study/../procure.sqlite", "study/..%2fprocure.sqlite", "study/%2e%2e%2fprocure.sqlite"):
        found = other("curl", "-s", "--path-as-is", "--unix-socket", running.socket, f"http://x/{path}")
        assert "error" in json.loads(found.stdout)
