"""The service under load, without a Slurm: it reads what one would have printed, and answers questions.

    python benchmarks/serve_claims.py --log ../shared/data/pwa/HPC2N-2002-2.1-cln.swf.xz

Everything is on loopback and on a Unix socket, bounded in count and time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil

import procure
from procure.queue_time.log import queue_jobs

SQUEUE = (
    "JOBID|USER|PARTITION|STATE|REASON|CPUS|NODES|MIN_MEMORY|TRES_PER_NODE|TIME_LIMIT|SUBMIT_TIME|START_TIME|PRIORITY"
)
SACCT = (
    "JobID|User|Account|Partition|QOS|Submit|Eligible|Start|End|State|TimelimitRaw|ReqCPUS|ReqMem|ReqTRES|AllocTRES|"
    "NNodes|NodeList|Priority|ElapsedRaw"
)
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


def until_ready(folder: Path, seconds: float) -> None:
    """Wait until the first model is there."""
    end = time.time() + seconds
    while time.time() < end:
        try:
            if fetch(folder, "/ready")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(2)
    raise SystemExit("the service did not become ready")


def prepare(folder: Path, given: argparse.Namespace) -> None:
    """Make a service that reads what Slurm would have printed at the middle of a log."""
    log = queue_jobs(procure.read_log(given.log).jobs)
    at = int(log["submit_time"].iloc[len(log) // 2])
    begin, last, later = at - 90 * 86_400, log["submit_time"] <= at, int(time.time()) - at
    log = log[last & (log["end_time"] > begin)].assign(cpus=log["n_nodes"] * log["cpus_per_node"])
    subprocess.run([PROCURE, "serve", "init", "--dir", folder], check=True)
    text = (folder / "config.toml").read_text().replace("127.0.0.1:8042", f"127.0.0.1:{PORT}")
    (folder / "config.toml").write_text(text.replace("every = 30 ", 'dumps = "."\nevery = 30 '))
    rows = {"sacct": [SACCT], "squeue": [SQUEUE]}
    for job in log.itertuples():
        asks = f"{job.mem_mb_per_node}M"
        if job.end_time <= at:
            times = "|".join(
                str(one + later) for one in (job.submit_time, job.submit_time, job.start_time, job.end_time)
            )
            tres = f"cpu={job.cpus},mem={job.n_nodes * job.mem_mb_per_node}M,node={job.n_nodes}"
            rows["sacct"].append(
                f"{job.job_id}|{job.user}|a|{job.partition}|n|{times}|COMPLETED|{job.requested_time // 60}|{job.cpus}|"
                f"{asks}|{tres}|{tres}|{job.n_nodes}|x|1|{job.run_time}"
            )
            continue
        state, start = ("RUNNING", job.start_time + later) if job.start_time <= at else ("PENDING", "N/A")
        rows["squeue"].append(
            f"{job.job_id}|{job.user}|{job.partition}|{state}|None|{job.cpus}|{job.n_nodes}|{asks}|N/A|"
            f"{job.requested_time // 60}:00|{job.submit_time + later}|{start}|1"
        )
    for name in ("sinfo", "node", "partition", "reservation", *rows):
        (folder / f"{name}.txt").write_text("\n".join([*rows.get(name, []), ""]))


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
    rng, took, states = random.Random(per_second), [], {}  # else the answers of the rate before are still known
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


def load(given: argparse.Namespace) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    if not (given.folder / "config.toml").exists():
        prepare(given.folder, given)
    service = started(given.folder)
    try:
        until_ready(given.folder, given.most)
        web = psutil.Process(service.pid)
        for distinct in (1, 200, 10**9):
            for per_second in (50, 100, 200) if distinct > 1000 else (200,):
                asyncio.run(rate(per_second, given.seconds, distinct, web))
        for _ in range(3):
            asyncio.run(malformed(10_000))
            print(f"web side: {web.memory_info().rss / 2**20:.0f} MB now", flush=True)
        log = (given.folder / "log").read_text()
        print(f"tracebacks in the log: {log.count('Traceback')}; load average {os.getloadavg()}")
    finally:
        service.terminate()
        service.wait()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path, default=Path("/tmp/procure-serve-load"))
    options.add_argument("--log", type=Path, required=True)
    options.add_argument("--most", type=float, default=3 * 3600, help="Seconds after which it is given up.")
    options.add_argument("--seconds", type=float, default=20)
    load(options.parse_args())


if __name__ == "__main__":
    main()
