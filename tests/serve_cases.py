"""A small service for tests: a log, a model trained in a moment, a folder, and a way to ask without a network."""

from __future__ import annotations

import asyncio
import json
import pickle
import socket
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from procure.queue_time import store as models
from procure.queue_time.model import Settings
from procure.queue_time.store import SiteModel
from procure.queue_time.training import train
from procure.schemas import JOB
from procure.serve.collector import Collector
from procure.serve.guard import SOCKET
from procure.serve.settings import Model, Place, Service, Source
from procure.tables import check

QUICK = Settings(rounds=6, max_pairs=20_000, holdout=0.2)
FIRST = 1_600_000_000
_TRAINED: dict[bytes, bytes] = {}
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


def make_place(folder: Path, log: pd.DataFrame, **source: Any) -> Place:
    """Return a service that replays a log."""
    log.to_parquet(folder / "log.parquet")
    settings = {"kind": "replay", "log": Path("log.parquet"), "speed": 0, "every": 3600, "train_share": 0.5} | source
    return Place(folder, Service(name="a test", source=Source(**settings), model=Model(retrain_grown=1e6, rounds=6)))


def play(collector: Collector) -> None:
    """Let a collector see its replay to the end."""
    collector.tick()
    while collector.origin.pause() >= 0:
        collector.tick()


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
