"""The service's figures on one machine without a Slurm: a long replay, load, clients, another account.

    python benchmarks/serve_claims.py replay --log ../shared/data/pwa/HPC2N-2002-2.1-cln.swf.xz
    python benchmarks/serve_claims.py load --folder FOLDER      # of a replay that was made
    python benchmarks/serve_claims.py client --folder FOLDER
    python benchmarks/serve_claims.py account --folder FOLDER   # as root: another account, with setpriv

Everything is on loopback and on a Unix socket, bounded in count and time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import resource
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil

import procure
from procure.queue_time.evaluation import evaluate
from procure.queue_time.metrics import covered
from procure.serve.settings import read_service

PROCURE = Path(sys.executable).with_name("procure")
PORT = int(os.environ.get("PROCURE_PORT", "18045"))


def started(folder: Path) -> subprocess.Popen:
    log = (folder / "log").open("a")
    command = [PROCURE, "serve", "run", "--config", folder / "config.toml"]
    return subprocess.Popen(command, stdout=log, stderr=log)


def fetch(folder: Path, target: str) -> tuple[int, bytes]:
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(60)
        stream.connect(str(folder / "run/procure.sock"))
        stream.sendall(f"GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        parts = []
        while part := stream.recv(65536):
            parts.append(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def until_ready(folder: Path, seconds: float, finished: bool = False) -> None:
    end = time.time() + seconds
    while time.time() < end:
        try:
            status, body = fetch(folder, "/ready")
            if status == 200 and (json.loads(body)["finished"] or not finished):
                return
        except OSError:
            pass
        time.sleep(2)
    raise SystemExit("the service did not become ready")


def memory(service: subprocess.Popen) -> dict[str, float]:
    """Return the resident MB of the web side, the collector and a training; ``shared out``, shared pages divided."""
    found = {"web": psutil.Process(service.pid).memory_info().rss / 2**20}
    found["shared out"] = psutil.Process(service.pid).memory_full_info().pss / 2**20
    for child in psutil.Process(service.pid).children(recursive=True):
        try:
            words = " ".join(child.cmdline())
            name = "collector" if "collect" in words else "training" if "spawn_main" in words else "other"
            found[name] = found.get(name, 0) + child.memory_info().rss / 2**20
            if name == "collector":
                found["shared out"] += child.memory_full_info().pss / 2**20
        except psutil.Error:
            continue
    return found


def prepare(folder: Path, given: argparse.Namespace) -> None:
    """Make a service that replays a log in steps."""
    log = procure.read_log(given.log).jobs.sort_values("submit_time", kind="stable")
    folder.mkdir(parents=True, exist_ok=True)
    log.to_parquet(folder / "log.parquet")
    subprocess.run([PROCURE, "serve", "init", "--dir", folder, "--replay", folder / "log.parquet"], check=True)
    text = (folder / "config.toml").read_text()
    changes = {"every": given.step, "speed": 0.0, "update_every": given.step, "retrain_grown": given.grown}
    for name, value in changes.items():
        text = re.sub(rf"^{name} = \S+", f"{name} = {value}", text, flags=re.MULTILINE)
    (folder / "config.toml").write_text(text.replace("127.0.0.1:8042", f"127.0.0.1:{PORT}"))


def replay(given: argparse.Namespace) -> None:
    """Replay a log as fast as it goes, or go on with one; memory, and the record beside `queue evaluate`."""
    folder = given.folder
    if not (folder / "config.toml").exists():
        prepare(folder, given)
    service, began, rows = started(folder), time.time(), []
    try:
        while time.time() - began < given.most:
            time.sleep(5)
            try:
                status, body = fetch(folder, "/ready")
            except OSError:
                continue
            rows.append((time.time() - began, memory(service)))
            if status == 200 and json.loads(body)["finished"]:
                break
        _print_memory(rows)
        print(
            f"wall {time.time() - began:.0f} s; collector's processor time "
            f"{sum(sum(c.cpu_times()[:2]) for c in psutil.Process(service.pid).children()):.0f} s"
        )
        page = json.loads(fetch(folder, "/v1/honesty?days=0")[1])
        print("the page says", json.dumps(page["all"]), page["counts"])
        compare(folder, given.step, given.first)
    finally:
        service.terminate()
        service.wait()


def _print_memory(rows: list[tuple[float, dict[str, float]]]) -> None:
    for name in ("web", "collector", "training", "shared out"):
        own = np.array([mb[name] for _, mb in rows if name in mb])
        if len(own):
            thirds = [part.max() for part in np.array_split(own, 3) if len(part)]
            print(f"{name}: resident at most {own.max():.0f} MB; by thirds of the run {[round(one) for one in thirds]}")
    both = [mb["web"] + mb.get("collector", 0) for _, mb in rows]
    print(f"web and collector together: at most {max(both):.0f} MB")


def judged(folder: Path, step: int, first: int) -> dict[tuple[str, int], tuple[float, ...]]:
    """Return what `procure.evaluate_queue` states of the first jobs, trained and updated when the service was; kept."""
    kept = folder / "evaluate.npz"
    if not kept.exists():
        jobs = procure.read_log(folder / "log.parquet").jobs.sort_values(["submit_time", "job_id"])  # as it is kept
        place = read_service(folder / "config.toml")
        cut = int(jobs["submit_time"].iloc[int(len(jobs) * place.service.source.train_share)])
        how, jobs = place.service.model.boosters(), jobs.iloc[: first + int((jobs["submit_time"] < cut).sum())]
        found = evaluate(jobs, ["chronological"], ["procure"], test_from=cut + 1, settings=how, every=step)
        test, said = found.forecasts["chronological", "procure"]
        assert said.interval is not None
        names, submit = found.jobs["job_id"].astype(str).to_numpy("U")[test], found.jobs["submit_time"].to_numpy()[test]
        np.savez(kept, names=names, submit=submit, wait=found.wait[test], ends=said.interval, point=said.point)
    with np.load(kept) as arrays:
        parts = (arrays["names"].tolist(), arrays["submit"].tolist(), arrays["wait"], arrays["ends"], arrays["point"])
        return {
            (name, submit): (wait, low, high, point)
            for name, submit, wait, (low, high), point in zip(*parts, strict=True)
        }


def compare(folder: Path, step: int, first: int) -> None:
    """Judge the same rows by `procure.evaluate_queue`."""
    db = sqlite3.connect(folder / "procure.sqlite")
    query = "select job_id, submit_time, wait, lower_90, upper_90, median from forecasts where wait is not null"
    given = {(name, submit): row for name, submit, *row in db.execute(query)}
    other = judged(folder, step, first)
    keys = [key for key in given if key in other]
    mine, theirs = (np.array([one[key] for key in keys], dtype=float) for one in (given, other))
    assert (mine[:, 0] == theirs[:, 0]).all()
    inside = [covered(one[:, 0], one[:, 1:3]) for one in (mine, theirs)]
    errors = [np.abs(one[:, 0] - one[:, 3]).mean() for one in (mine, theirs)]
    print(f"{len(keys):,} rows of both: coverage of 90 %: the page {inside[0].mean():.4f}, queue evaluate")
    print(f"{inside[1].mean():.4f}; the same verdict on {(inside[0] == inside[1]).mean():.2%} of the jobs;")
    print(f"MAE {errors[0]:.1f} s and {errors[1]:.1f} s")


async def _get(target: str, took: list[float], states: dict[int, int], timeout: float = 10.0) -> None:
    began = time.perf_counter()
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", PORT), timeout)
        writer.write(f"GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), timeout)
        writer.close()
        status = int(answer.split(b" ", 2)[1]) if answer else 0
    except (OSError, TimeoutError, IndexError, ValueError):
        status = 0
    took.append(time.perf_counter() - began)
    states[status] = states.get(status, 0) + 1


def question(rng: random.Random, distinct: int) -> str:
    number = rng.randrange(distinct)
    own = random.Random(number)
    return f"/v1/predict?cpus={own.randint(1, 120)}&time={own.randint(5, 2000)}&mem={own.randint(0, 8)}G"


async def rate(per_second: float, seconds: float, distinct: int, web: psutil.Process) -> None:
    """Ask at a steady rate, whether or not answers have come."""
    rng, took, states = random.Random(1), [], {}
    tasks, began, used = [], time.perf_counter(), sum(web.cpu_times()[:2])
    for number in range(int(per_second * seconds)):
        await asyncio.sleep(max(began + number / per_second - time.perf_counter(), 0))
        tasks.append(asyncio.create_task(_get(question(rng, distinct), took, states)))
    await asyncio.gather(*tasks)
    spent, used = time.perf_counter() - began, sum(web.cpu_times()[:2]) - used
    q = np.quantile(took, [0.5, 0.9, 0.99])
    print(
        f"{per_second:g} requests/s for {seconds:g} s among {distinct:,} questions: {len(took) / spent:.0f}/s answered;"
    )
    print(f"  median {1e3 * q[0]:.0f}, p90 {1e3 * q[1]:.0f}, p99 {1e3 * q[2]:.0f} ms; {states};")
    print(f"  processor time of the web side: {1e3 * used / max(len(took), 1):.2f} ms a request", flush=True)


MALFORMED = [
    b"\x16\x03\x01\x02\x00\x01\x00\xff\xff",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\r\n" * 50,
    b"GET /v1/predict?cpus=%ff%00&time=8h HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /v1/predict?cpus=1e9&time=-1 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /v1/predict?cpus=99999999999999999999&time=99999999999-00 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /v1/predict?cpus=4&time=8h&cpus=5 HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /v1/jobs/../../etc/passwd HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /study/..%2f..%2fprocure.sqlite HTTP/1.1\r\nhost: x\r\n\r\n",
    b'POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n{"a":',
    b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n",
    b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
    b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nZZZ\r\n",
    b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-length: 12\r\n\r\n" + b"[" * 12,
    b"GET /" + b"a" * 30_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 3000 + b"\r\n",
    b"DELETE /v1/pending HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /v1/honesty?days=-1 HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /v1/predict?cpus=４&time=８h HTTP/1.1\r\nhost: x\r\n\r\n".encode(),
]


async def malformed(n: int) -> None:
    """Send what is no request, or a wrong one; count the answers by status."""
    states: dict[int, int] = {}
    gate, rng, tracebacks = asyncio.Semaphore(50), random.Random(3), 0

    async def one(number: int) -> None:
        nonlocal tracebacks
        text = bytearray(MALFORMED[number % len(MALFORMED)])
        if number >= len(MALFORMED) and number % 3 == 0 and text:
            text[rng.randrange(len(text))] = rng.randrange(256)
        async with gate:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
                writer.write(bytes(text))
                answer = await asyncio.wait_for(reader.read(65_536), 30)
                writer.close()
            except (OSError, TimeoutError):
                answer = b""
            words = answer.split(b" ", 2)
            status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
            states[status] = states.get(status, 0) + 1
            tracebacks += b"Traceback" in answer

    await asyncio.gather(*(one(number) for number in range(n)))
    print(
        f"{n:,} malformed requests: {dict(sorted(states.items()))} (0 = closed without an answer); "
        f"tracebacks {tracebacks}",
        flush=True,
    )


async def idle(n: int, web: psutil.Process) -> None:
    """Hold connections that send nothing, and ask beside them."""
    held = [await asyncio.open_connection("127.0.0.1", PORT) for _ in range(n)]
    print(f"{n:,} connections that send nothing are open; beside them:", flush=True)
    await rate(20, 5, 50, web)
    await asyncio.sleep(20)
    closed = 0
    for reader, writer in held:
        try:
            closed += await asyncio.wait_for(reader.read(1), 0.05) == b""
        except (TimeoutError, OSError):
            closed += 0
        writer.close()
    print(f"after 25 s the service had closed {closed:,} of them", flush=True)


def load(given: argparse.Namespace) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    service = started(given.folder)
    try:
        until_ready(given.folder, 120)
        web = psutil.Process(service.pid)
        time.sleep(3)
        asyncio.run(rate(20, 3, 50, web))
        for distinct in (1, 200, 10**9):
            for per_second in (50, 100, 200) if distinct > 1000 else (200,):
                asyncio.run(rate(per_second, given.seconds, distinct, web))
        asyncio.run(idle(1000, web))
        print(f"web side before malformed requests: {memory(service)['web']:.0f} MB")
        for _ in range(3):
            asyncio.run(malformed(10_000))
            print(f"web side: {memory(service)['web']:.0f} MB now", flush=True)
        asyncio.run(rate(20, 3, 50, web))
        log = (given.folder / "log").read_text()
        print(f"tracebacks in the log: {log.count('Traceback')}; load average {os.getloadavg()}")
    finally:
        service.terminate()
        service.wait()


def client(given: argparse.Namespace) -> None:
    service = started(given.folder)
    try:
        until_ready(given.folder, 120)
        words = [
            "queue",
            "ask",
            "--socket",
            given.folder / "run/procure.sock",
            "--cpus",
            "16",
            "--mem",
            "2G",
            "--time",
            "8:00:00",
        ]
        results: dict[str, list[tuple[float, float]]] = {"procure queue ask": [], "python -c pass": []}
        for _ in range(40):
            for name, command in (
                ("procure queue ask", [given.procure, *words]),
                ("python -c pass", [given.procure.with_name("python"), "-c", "pass"]),
            ):
                before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
                done = subprocess.run(command, capture_output=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                results[name].append((time.perf_counter() - began, cpu))
                assert done.returncode == 0, done.stderr
        for name, rows in results.items():
            wall, cpu = np.median(np.array(rows), axis=0) * 1e3
            print(
                f"{name}: {wall:.0f} ms wall, {cpu:.0f} ms processor time, at the median of {len(rows)}; "
                f"least wall {1e3 * min(rows)[0]:.0f} ms"
            )
        print(f"load average {os.getloadavg()}")
    finally:
        service.terminate()
        service.wait()


def account(given: argparse.Namespace) -> None:
    """Try, as another account, to get what is not its own."""
    service = started(given.folder)
    path = given.folder / "run/procure.sock"

    def other(*command: object) -> str:
        words = ["setpriv", f"--reuid={given.user}", "--regid=65534", "--clear-groups", *map(str, command)]
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", env={"PATH": os.environ["PATH"]})
        return (done.stdout + done.stderr).strip()[:160]

    curl = ["curl", "-s", "--unix-socket", path]
    try:
        until_ready(given.folder, 120)
        for what, command in {
            "who it is": [*curl, "http://x/v1/pending"],
            "header forged over the socket": [*curl, "-H", "X-Remote-User: root", "http://x/v1/pending"],
            "header forged over TCP": [
                "curl",
                "-s",
                "-H",
                "X-Remote-User: root",
                f"http://127.0.0.1:{PORT}/v1/pending",
            ],
            "X-Forwarded-For": [
                "curl",
                "-s",
                "-H",
                "X-Forwarded-For: procure-socket",
                f"http://127.0.0.1:{PORT}/v1/pending",
            ],
            "another user in the question": [*curl, "http://x/v1/predict?cpus=4&time=8h&user=root"],
            "another's job": [*curl, "http://x/v1/jobs/200000"],
            "the database": ["cat", given.folder / "procure.sqlite"],
            "the queue": ["cat", given.folder / "queue.parquet"],
            "the model": ["cat", given.folder / "site.model"],
            "the folder": ["ls", given.folder],
            "take the socket away": ["rm", "-f", path],
            "a second collector": ["sh", "-c", f"flock -n {given.folder}/collector.lock true && echo taken"],
            "a path out of studies": [*curl, "--path-as-is", "http://x/study/../procure.sqlite"],
            "the same, encoded": [*curl, "http://x/study/..%2fprocure.sqlite"],
        }.items():
            print(f"{what}: {other(*command)!r}")
    finally:
        service.terminate()
        service.wait()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=["replay", "compare", "load", "client", "account"])
    options.add_argument("--folder", type=Path, default=Path("/tmp/procure-serve-replay"))
    options.add_argument("--log", type=Path)
    options.add_argument("--step", type=int, default=86_400, help="Seconds between two looks and two updates.")
    options.add_argument("--first", type=int, default=10**9, help="Compare the first jobs after the cut alone.")
    options.add_argument("--grown", type=float, default=1e6, help="Growth in percent, from which it is trained again.")
    options.add_argument("--most", type=float, default=3 * 3600, help="Seconds after which a replay is given up.")
    options.add_argument("--seconds", type=float, default=20)
    options.add_argument("--user", default="nobody")
    options.add_argument("--procure", type=Path, default=PROCURE, help="The command whose `queue ask` is timed.")
    given = options.parse_args()
    if given.what == "compare":
        compare(given.folder, given.step, given.first)
    else:
        {"replay": replay, "load": load, "client": client, "account": account}[given.what](given)


if __name__ == "__main__":
    main()
