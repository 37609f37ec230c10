"""A small service for tests: a log, a model trained in a moment, a folder, and a way to ask without a network."""

import asyncio
import json
import os
import pickle
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from procure.queue_time import store as models
from procure.queue_time.model import Settings
from procure.queue_time.store import SiteModel, train
from procure.schemas import JOB
from procure.serve.collector import Collector
from procure.serve.serving import SOCKET
from procure.serve.settings import Model, Place, Service, Source
from procure.serve.slurm import OVERLAP, Closed, Queue
from procure.tables import check

QUICK = Settings(rounds=6, max_pairs=20_000, holdout=0.2)
FIRST = 1_600_000_000
_TRAINED: dict[bytes, bytes] = {}
EVERY = 14_400
SQUEUE = (
    "JOBID|USER|PARTITION|STATE|REASON|CPUS|NODES|MIN_MEMORY|TRES_PER_NODE|TIME_LIMIT|SUBMIT_TIME|START_TIME|PRIORITY"
)
SACCT = (
    "JobID|User|Account|Partition|QOS|Submit|Eligible|Start|End|State|TimelimitRaw|ReqCPUS|ReqMem|ReqTRES|AllocTRES|"
    "NNodes|NodeList|Priority|ElapsedRaw"
)
HOSTILE = "<script>alert('x')</script>&\"'\u202e"


def make_log(n: int = 600, seed: int = 3, cpus: int = 32) -> pd.DataFrame:
    """Return jobs of three users that went through one queue in order, on so many CPUs."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 400 * n, n)) + FIRST
    size, limit = rng.choice([1, 2, 4, 8], n), rng.choice([600, 3600, 14_400], n)
    run = np.maximum((limit * rng.random(n)).astype(int), 1)
    free = np.full(cpus, FIRST)
    start = np.empty(n, np.int64)
    at = FIRST
    for row in range(n):
        order = np.argsort(free, kind="stable")[: size[row]]
        at = max(at, submit[row], int(free[order].max()))
        start[row] = at
        free[order] = at + run[row]
    frame = pd.DataFrame(
        {
            "job_id": [str(1000 + row) for row in range(n)],
            "user": rng.choice(["ann", "ben", "cleo"], n),
            "submit_time": submit,
            "requested_time": limit,
            "run_time": run,
            "cpus_per_node": size,
            "mem_mb_per_node": 1000 * size,
            "gpus_per_node": 0,
            "partition": rng.choice(["long", "short"], n),
            "start_time": pd.array(start, dtype="Int64"),
            "end_time": pd.array(start + run, dtype="Int64"),
            "state": "COMPLETED",
        }
    )
    return check(frame, JOB)


def make_place(folder: Path, **source: Any) -> Place:
    """Return a service that never trains."""
    settings = {"every": EVERY, "history_days": 5} | source
    return Place(folder, Service(name="a test", source=Source(**settings), model=Model(retrain_grown=1e6, rounds=6)))


class Replay:
    """What a Slurm would have shown while a log was made."""

    def __init__(self, log: pd.DataFrame, moment: int) -> None:
        self.log, self.moment = log, moment

    def now(self) -> int:
        return self.moment

    def queue(self) -> Queue:
        here = self.log[(self.log["submit_time"] <= self.moment) & (self.log["end_time"] > self.moment)]
        start = here["start_time"].mask(here["start_time"] > self.moment)
        jobs = here.assign(start_time=start, end_time=pd.NA, state=np.where(start.isna(), "PENDING", "RUNNING"))
        return Queue(self.moment, jobs.astype({"end_time": "Int64"}), {}, Closed())

    def ended(self, since: int, until: int) -> pd.DataFrame:
        return self.log[(self.log["end_time"] > since - OVERLAP) & (self.log["end_time"] <= until)]


def replaying(place: Place, log: pd.DataFrame, moment: int) -> Collector:
    """Return a collector that sees a log from a moment on."""
    collector = Collector(place)
    collector.origin, collector.at = Replay(log, moment), moment
    return collector


def hurried(collector: Collector) -> Collector:
    """Let a collector not rest between its looks."""
    collector.service = SimpleNamespace(source=Source.model_construct(every=0, history_days=5), hide=(), model=Model())
    return collector


def play(collector: Collector, n_looks: int = 10**9) -> None:
    """Let a collector see its log, to the end or so many times."""
    last = int(collector.origin.log["end_time"].max()) + collector.service.source.every
    while collector.origin.moment <= last and n_looks:
        collector.tick()
        collector.origin.moment += collector.service.source.every
        n_looks -= 1


def write_dumps(folder: Path, log: pd.DataFrame, moment: int, now: int) -> None:
    """Write what Slurm's commands would have printed at a moment of a log, as if that were now."""
    folder.mkdir(exist_ok=True)
    later, seen = now - moment, Replay(log, moment)
    rows = [
        f"{job.job_id}|{job.user}|{job.partition}|{job.state}|None|{job.cpus_per_node}|1|{job.mem_mb_per_node}M|N/A|"
        f"{job.requested_time // 60}:00|{job.submit_time + later}|"
        f"{'N/A' if pd.isna(job.start_time) else job.start_time + later}|1"
        for job in seen.queue().jobs.itertuples()
    ]
    ended = [
        f"{job.job_id}|{job.user}|a|{job.partition}|n|{job.submit_time + later}|{job.submit_time + later}|"
        f"{job.start_time + later}|{job.end_time + later}|COMPLETED|{job.requested_time // 60}|{job.cpus_per_node}|"
        f"{job.mem_mb_per_node}M|cpu={job.cpus_per_node},mem={job.mem_mb_per_node}M,node=1|cpu={job.cpus_per_node}|1|c1|1|"
        f"{job.run_time}"
        for job in log[log["end_time"] <= moment].itertuples()
    ]
    texts = {"sacct": "\n".join([SACCT, *ended, ""]), "sinfo": "long|up|32/0/0/32\nshort|up|32/0/0/32\n"}
    texts |= {"squeue": "\n".join([SQUEUE, *rows, ""])} | dict.fromkeys(("node", "partition", "reservation"), "")
    for name, text in texts.items():
        part = folder / f"{name}.part"
        part.write_text(text)
        os.utime(part, (now, now))
        part.replace(folder / f"{name}.txt")


def quick_model(log: pd.DataFrame, upto: int) -> SiteModel:
    """Return a model of what was known of a log at a moment, a new one each time that is trained once."""
    seen = log[log["submit_time"] < upto].copy()
    for name in ("start_time", "end_time"):
        seen[name] = seen[name].mask(seen[name] >= upto)
    seen = seen.assign(state=np.where(seen["start_time"].isna(), "PENDING", "COMPLETED"))
    key = pd.util.hash_pandas_object(seen).to_numpy().tobytes()
    if key not in _TRAINED:
        _TRAINED[key] = pickle.dumps(train(seen, settings=QUICK))
    return pickle.loads(_TRAINED[key])


def keep_model(place: Place, site: SiteModel) -> None:
    """Put a model where a service looks for it."""
    models.save(site, place.model)


def ask(
    app: Any,
    target: str,
    client: tuple[str, int] = ("127.0.0.1", 5),
    method: str = "GET",
    body: bytes = b"",
    **more: str,
) -> tuple[int, dict[str, str], bytes]:
    """Ask an application as a web server would; headers by keyword, with _ for -."""
    path, _, query = target.partition("?")
    headers = [(name.replace("_", "-").lower().encode(), value.encode("latin-1")) for name, value in more.items()]
    scope = {"type": "http", "http_version": "1.1", "method": method, "scheme": "http", "server": ("x", 80)}
    scope |= {"path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(), "root_path": ""}
    scope |= {"headers": [(b"host", b"x"), *headers], "client": client}
    sent: list[dict[str, Any]] = []
    given = False

    async def receive() -> dict[str, Any]:
        nonlocal given
        if given:
            await asyncio.sleep(60)
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def run() -> None:
        await app.guard(scope, receive, send)

    asyncio.run(run())
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, b"".join(part.get("body", b"") for part in sent[1:])


def ask_json(app: Any, target: str, **how: Any) -> tuple[int, Any]:
    """Ask, and read the answer's JSON."""
    status, _, body = ask(app, target, **how)
    return status, json.loads(body)


def fetch(path: Path, target: str) -> tuple[int, bytes]:
    """Ask a running service over its socket."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(20)
        stream.connect(str(path))
        stream.sendall(f"GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: stream.recv(65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def over_socket(uid: int) -> tuple[str, int]:
    """Return the client of a connection over the socket."""
    return (SOCKET, uid)
