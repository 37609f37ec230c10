"""The service on a real Slurm: 300 jobs in ten minutes, a controller that restarts, a kill -9.

    SLURM_LAB_DIR=/tmp/lab SLURM_LAB_PORT=28800 SLURM_LAB_USERS="alice bob carol" SLURM_LAB_GPUNODES=0 \\
        SLURM_LAB_NODES=4 ../shared/slurm/start-slurm.sh
    python benchmarks/serve_slurm.py --lab /tmp/lab

Runs as root on the lab of `start-slurm.sh`, whose users submit; nothing else is touched.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

USERS = ("alice", "bob", "carol")
PROCURE = Path(sys.executable).with_name("procure")


class Lab:
    def __init__(self, lab: Path, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.plain, self.filtered = lab / "etc/slurm.conf", lab / "filter/slurm.conf"
        os.environ["SLURM_CONF"] = str(self.plain)
        (folder / "cli_filter.lua").unlink(missing_ok=True)  # `init` leaves what is there as it is
        subprocess.run([PROCURE, "serve", "init", "--dir", folder], check=True, capture_output=True)
        (lab / "filter").mkdir(exist_ok=True)
        for path in (lab / "etc").iterdir():
            if path.name != "slurmdbd.conf":
                shutil.copy(path, lab / "filter" / path.name)
        self.filtered.write_text(self.plain.read_text() + "CliFilterPlugins=cli_filter/lua\n")
        shutil.copy(folder / "cli_filter.lua", lab / "filter/cli_filter.lua")
        for path in (lab / "filter").iterdir():
            path.chmod(0o644)
        (lab / "filter").chmod(0o755)
        config = folder / "config.toml"
        text = config.read_text().replace('listen = "127.0.0.1:8042"', 'listen = "127.0.0.1:18044"')
        config.write_text(text.replace("update_every = 3600", "update_every = 60"))
        self.service: subprocess.Popen | None = None

    def start(self) -> None:
        log = (self.folder / "log").open("a")
        command = [PROCURE, "serve", "run", "--config", self.folder / "config.toml"]
        self.service = subprocess.Popen(command, stdout=log, stderr=log)

    def ready(self) -> bool:
        try:
            return ask(self.folder, "/ready")[0] == 200
        except OSError:
            return False

    def sbatch(self, user: str, script: str, *options: str, conf: Path | None = None) -> subprocess.CompletedProcess:
        words = " ".join(["sbatch", "-D", "/tmp", "-o", "/dev/null", *options, "--wrap", f"'{script}'"])
        return subprocess.run(
            ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "sh", "-c", words],
            env={"PATH": os.environ["PATH"], "SLURM_CONF": str(conf or self.filtered), "HOME": "/tmp", "USER": user},
            capture_output=True,
            text=True,
        )


def ask(folder: Path, target: str) -> tuple[int, bytes]:
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(20)
        stream.connect(str(folder / "run/procure.sock"))
        stream.sendall(f"GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        parts = []
        while part := stream.recv(65536):
            parts.append(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def wait_until(what, seconds: float, said: str) -> None:
    until = time.time() + seconds
    while not what():
        if time.time() > until:
            raise SystemExit(f"gave up: {said}")
        time.sleep(1)


def squeue_empty() -> bool:
    return not subprocess.run(["squeue", "-h"], capture_output=True, text=True).stdout.strip()


def history(lab: Lab) -> None:
    """Run 150 jobs as accounting to learn from, unless there are as many."""
    known = subprocess.run(["sacct", "-aXn", "-S", "now-1day", "--format=State"], capture_output=True, text=True).stdout
    if known.count("\n") >= 140:
        return
    rng = random.Random(1)
    for number in range(150):
        job = ("-n", str(rng.choice([1, 2, 4, 8])), "-t", str(rng.choice([2, 5, 10, 30])))
        lab.sbatch(USERS[number % 3], f"sleep {rng.randint(1, 12)}", *job, conf=lab.plain)
    wait_until(squeue_empty, 1200, "the first jobs did not end")


def jobs(lab: Lab, n: int, seconds: float) -> None:
    history(lab)
    time.sleep(10)
    for path in lab.folder.glob("procure.sqlite*"):
        path.unlink()
    (lab.folder / "site.model").unlink(missing_ok=True)
    lab.start()
    wait_until(lab.ready, 300, "the service did not become ready")
    began = time.time()
    events = {0.5: lambda: restart_controller(lab), 0.7: lambda: kill_service(lab)}
    rng, said, failed, ids = random.Random(2), 0, 0, set()
    for number in range(n):
        for share in [share for share in events if number >= share * n]:
            threading.Thread(target=events.pop(share)).start()
        size, limit = rng.choice([1, 2, 4, 8, 16]), rng.choice([2, 5, 10, 30])
        run = min(rng.expovariate(1 / 13) + 1, 60 * limit - 1)
        for _ in range(40):
            done = lab.sbatch(USERS[number % 3], f"sleep {run:.0f}", "-n", str(size), "-t", str(limit))
            if done.returncode == 0:
                break
            failed += 1
            time.sleep(2)
        said += "procure: " in done.stderr
        ids.add(done.stdout.split()[-1])
        time.sleep(max(began + seconds * (number + 1) / n - time.time(), 0))
    spent = time.time() - began
    wait_until(squeue_empty, 900, "the jobs did not end")
    time.sleep(150)  # accounting lags, and is read once a minute
    print(f"{n} jobs in {spent:.0f} s; sbatch was tried again {failed} times while the controller was away")
    print(f"{said} of {n} submissions were told when the job may start")
    judge(lab, ids)
    subprocess.run([PROCURE, "serve", "check", "--config", lab.folder / "config.toml"])


def judge(lab: Lab, ids: set[str]) -> None:
    """Hold what the service kept against what sacct says."""
    command = ["sacct", "-aXPn", "--noconvert", "-S", "now-1hour", "--format=JobID,Submit,Start,End,State"]
    text = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"SLURM_TIME_FORMAT": "%s"}).stdout
    truth = {row[0]: row for line in text.splitlines() if (row := line.split("|"))[0] in ids}
    db = sqlite3.connect(lab.folder / "procure.sqlite")
    kept = {
        row[0]: row
        for row in db.execute(
            "select job_id, submit_time, issued, source, wait, lower_90, upper_90, "
            "lower_50, upper_50, median, week_median, last_five from forecasts"
        )
    }
    known = dict(db.execute("select job_id, count(*) from jobs group by job_id").fetchall())
    mine = [kept[one] for one in truth if one in kept]
    before = [row for row in mine if row[2] <= int(truth[row[0]][2])]
    wrong = [one for one in truth if one in kept and kept[one][4] != int(truth[one][2]) - int(truth[one][1])]
    print(
        f"sacct knows {len(truth)} of the {len(ids)}; the service {sum(one in known for one in truth)} of them, "
        f"{sum(known.get(one, 0) > 1 for one in truth)} twice"
    )
    print(
        f"forecasts {len(mine)}, of these made before the start {len(before)}; by source "
        f"{ {name: sum(row[3] == name for row in mine) for name in ('poll', 'late')} }"
    )
    print(f"waits that differ from sacct: {len(wrong)}")
    v = np.array([row[4:] for row in before], dtype=float)
    wait = v[:, 0]
    inside = [float(((wait >= v[:, low]) & (wait <= v[:, low + 1])).mean()) for low in (1, 3)]
    errors = [float(np.abs(wait - v[:, column]).mean()) for column in (5, 6, 7)]
    print(
        f"coverage 90: {inside[0]:.3f}, 50: {inside[1]:.3f}; mean wait {wait.mean():.1f} s; MAE {errors[0]:.1f} s, "
        f"week's median {errors[1]:.1f} s, last five {errors[2]:.1f} s, at once {wait.mean():.1f} s"
    )


def restart_controller(lab: Lab) -> None:
    pid = int((lab.lab / "run/slurmctld.pid").read_text())
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 60, "slurmctld did not end")
    time.sleep(20)
    subprocess.run(["/usr/sbin/slurmctld"], cwd=lab.lab / "log", env=os.environ | {"SLURM_CONF": str(lab.plain)})
    print("slurmctld was restarted after 20 s", flush=True)


def kill_service(lab: Lab) -> None:
    assert lab.service is not None
    lab.service.kill()
    lab.service.wait()
    time.sleep(5)
    lab.start()
    wait_until(lab.ready, 120, "the service did not come back")
    print("the service was killed with -9 and started again after 5 s", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--lab", type=Path, required=True)
    options.add_argument("--folder", type=Path, default=Path("/tmp/procure-serve-lab"))
    options.add_argument("--jobs", type=int, default=300)
    options.add_argument("--seconds", type=float, default=600)
    given = options.parse_args()
    lab = Lab(given.lab, given.folder)
    try:
        jobs(lab, given.jobs, given.seconds)
    finally:
        if lab.service is not None and lab.service.poll() is None:
            lab.service.terminate()
            lab.service.wait()
    print(json.dumps({"loadavg": os.getloadavg()}))


if __name__ == "__main__":
    main()
