"""Start a lab's Slurm with a scenario's configuration, submit its jobs as sleeps, and keep what accounting says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from slurm_scenarios import jobs_of, write_configuration

from procure.site.collect import collect
from procure.workload.slurm import expand_nodes

SACCT = (
    "JobID,JobIDRaw,JobName,User,Account,Partition,QOS,Submit,Eligible,Start,End,State,TimelimitRaw,ReqCPUS,ReqMem,"
    "ReqTRES,AllocTRES,NNodes,NodeList,Priority,ElapsedRaw,Constraints,Reservation,Flags,Reason,Cluster"
)
_KEPT = re.compile(
    r"(SlurmctldHost|SlurmctldPort|SlurmUser|SlurmdUser|Auth\w+|CredType|Slurm\w*PidFile|Slurm\w*LogFile|"
    r"SlurmdSpoolDir|StateSaveLocation|SlurmdParameters|ProctrackType|TaskPlugin|MpiDefault|SwitchType|"
    r"ReturnToService|MailProg|SlurmctldTimeout|SlurmdTimeout|TreeWidth|AccountingStorage(?:Type|Host|Port|Pass))="
)
_LEFT_OUT = re.compile(
    r"\s*(#|ControlMachine|ControlAddr|FrontEndName|Job(?:Comp|Credential)\w+|SlurmSched\w+|UsePAM|Waittime|VSize\w+|"
    r"DebugFlags|SlurmctldDebug|SlurmdDebug|Propagate|FirstJobId)",
    re.IGNORECASE,
)
_LONGEST = 2400
_LOG = ("SlurmctldDebug=debug", "DebugFlags=Backfill")
"""So that the log says when each pass of the two schedulers ran and what it found."""


def _run(*command: str, check: bool = True, **more: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


class Lab:
    """One lab: a folder with the configuration, the process numbers and the state of its daemons."""

    def __init__(self, folder: Path) -> None:
        """Keep what the starter script's configuration says of ports, keys and files."""
        self.folder = folder.resolve()
        conf = self.folder / "etc" / "slurm.conf"
        original = self.folder / "etc" / "slurm.conf.lab"
        if not original.exists():
            shutil.copy(conf, original)
        lines = original.read_text().splitlines()
        self.kept = [line for line in lines if _KEPT.match(line)]
        first = next(int(line.split("=")[1]) for line in lines if line.startswith("SlurmctldPort="))
        self.ports = (first, first + 1, first + 2)
        self.conf = conf
        os.environ["SLURM_CONF"] = str(conf)
        os.environ["SLURM_TIME_FORMAT"] = "%s"

    def stop(self) -> None:
        """End the scheduler, the node daemons and the accounting daemon of this lab."""
        numbers = []
        for file in (self.folder / "run").glob("slurm*.pid"):
            number = file.read_text().strip()
            command = Path(f"/proc/{number}/cmdline")
            if number and command.exists() and b"slurm" in command.read_bytes():
                os.kill(int(number), signal.SIGTERM)
                numbers.append(number)
        for _ in range(100):
            if not any(Path(f"/proc/{number}").exists() for number in numbers):
                break
            time.sleep(0.2)
        for file in (self.folder / "run").glob("slurm*.pid"):
            file.unlink()

    def start(self, conf: str, extra: dict[str, str], accounting: str) -> list[str]:
        """Start with a scenario's configuration, empty accounts and an empty queue; returns the nodes."""
        host = socket.gethostname().split(".")[0]
        lines: list[str] = [] if "ClusterName=" in conf else ["ClusterName=lab"]
        nodes: list[str] = []
        for line in conf.splitlines():
            match = re.match(r"NodeName=(\S+)(.*)", line)
            if match and match[1] != "DEFAULT":
                for name in expand_nodes(match[1]):
                    port = self.ports[0] + 10 + len(nodes)
                    lines.append(f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}{match[2]}")
                    nodes.append(name)
            elif not _KEPT.match(line) and not _LEFT_OUT.match(line):
                lines.append(line)
        if not extra.get("topology.conf"):
            lines = [line for line in lines if not line.startswith("TopologyPlugin")]
        self.conf.write_text("\n".join([*self.kept, *_LOG, *lines]) + "\n")
        for name in ("gres.conf", "topology.conf"):
            (self.folder / "etc" / name).unlink(missing_ok=True)
            if extra.get(name):
                text = re.sub(r"(Name=gpu)$", rf"\1 Count={self._gpus(conf)}", extra[name], flags=re.MULTILINE)
                (self.folder / "etc" / name).write_text(re.sub(r"Count=(\d+)", self._devices, text))
        sql = ("mariadb", "--no-defaults", "-S", str(self.folder / "run/mysql.sock"), "-u", "root", "-e")
        _run(*sql, "drop database if exists slurm_acct_db; create database slurm_acct_db")
        shutil.rmtree(self.folder / "state" / "ctld")
        (self.folder / "state" / "ctld").mkdir()
        shutil.chown(self.folder / "state" / "ctld", "slurm", "slurm")
        _run("setpriv", "--reuid=slurm", "--regid=slurm", "--clear-groups", "/usr/sbin/slurmdbd")
        self._wait("slurmdbd", lambda: "Cluster" in _run("sacctmgr", "show", "cluster", check=False))
        told = [line for line in map(str.strip, accounting.splitlines()) if line and not re.match("#|list", line)]
        self._account(line for line in told if "gres/" not in line)
        log = self.folder / "log"
        for user in set(re.findall(r"add user (?:name=)?(\w+)", accounting)):
            if subprocess.run(["id", user], capture_output=True).returncode:
                _run("useradd", "--create-home", user)
        (log / "slurmctld.log").write_text("")
        shutil.chown(log / "slurmctld.log", "slurm", "slurm")
        _run("/usr/sbin/slurmctld", cwd=log)
        self._wait("slurmctld", lambda: "is UP" in _run("scontrol", "ping", check=False))
        self._account(line for line in told if "gres/" in line)  # the controller has told the database of GPUs
        for name in nodes:
            (self.folder / "spool" / name).mkdir(exist_ok=True)
            _run("/usr/sbin/slurmd", "-N", name, cwd=log)

        def ready() -> bool:
            states = set(_run("sinfo", "-h", "-N", "-o", "%T").split())
            return states <= {"idle", "mixed", "allocated", "reserved", "maint"}

        self._wait("the nodes", ready)
        return nodes

    @staticmethod
    def _account(lines: Iterable[str]) -> None:
        for line in lines:
            out = subprocess.run(["sacctmgr", "-i", *line.split()], capture_output=True, text=True)
            if out.returncode and "othing" not in out.stdout + out.stderr:
                print("sacctmgr", line, out.stdout, out.stderr)

    @staticmethod
    def _gpus(conf: str) -> int:
        """Return how many GPUs the nodes of a configuration have, which gres.conf may leave out."""
        return max((int(n) for n in re.findall(r"Gres=gpu(?::\w+)?:(\d+)", conf)), default=0)

    def _devices(self, match: re.Match[str]) -> str:
        """Give so many GPUs a device file each, of which slurmd must find one."""
        for number in range(int(match[1])):
            device = self.folder / "dev" / f"gpu{number}"
            if not device.is_char_device():
                device.unlink(missing_ok=True)
                os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        return f"File={self.folder}/dev/gpu[0-{int(match[1]) - 1}]"

    def _wait(self, what: str, true: Any) -> None:
        for _ in range(300):
            if true():
                return
            time.sleep(0.2)
        raise SystemExit(f"{self.folder}: gave up waiting for {what}")


def _options(job: Any, numbers: dict[str, str]) -> list[str]:
    found = [
        f"--uid={job.user}", "-J", str(job.job_id), "-o", "/dev/null", "-t", str(-(-job.requested_time // 60)),
    ]  # fmt: skip
    shape = getattr(job, "options", "") or f"-N {job.n_nodes} --ntasks-per-node={job.cpus_per_node}"
    found += shape.split()
    for flag, value in (
        ("--account", job.account), ("--partition", job.partition), ("--qos", job.qos),
        ("--constraint", job.constraint), ("--reservation", job.reservation), ("--licenses", job.licenses),
    ):  # fmt: skip
        if value:
            found.append(f"{flag}={value}")
    if job.mem_mb_per_node:
        found.append(f"--mem={job.mem_mb_per_node}M")
    if job.gpus_per_node:
        kind = f":{job.gpu_type}" if job.gpu_type else ""
        found.append(f"--gres=gpu{kind}:{job.gpus_per_node}")
    if job.exclusive:
        found.append("--exclusive")
    if job.nice:
        found.append(f"--nice={job.nice}")
    if job.begin_after:
        found.append(f"--begin=now+{job.begin_after}")
    if job.dependency:
        how, _, on = job.dependency.partition(":")
        found.append(f"--dependency={how}:{numbers[on]}")
    if job.array:
        percent = f"%{job.array_limit}" if job.array_limit else ""
        found.append(f"--array=0-{job.array - 1}{percent}")
    return found


def run_for_real(scenario: dict[str, Any], folder: Path, out: Path) -> None:
    """Run a scenario once on a real Slurm; keeps sacct's answer, the configuration as shown, and the first second."""
    lab = Lab(folder)
    lab.stop()
    extra = {"gres.conf": scenario.get("gres", ""), "topology.conf": scenario.get("topology", "")}
    lab.start(scenario["conf"], extra, scenario.get("accounting", ""))
    out.mkdir(parents=True, exist_ok=True)
    write_configuration(scenario, out)
    first = int(time.time()) + 20  # nodes that have just registered ask for passes of their own, at a centre none
    (out / "first").write_text(str(first))
    (out / "load.txt").write_text(" ".join(map(str, os.getloadavg())))
    for each in scenario.get("reservations", []):
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(first + each["start"]))
        words = [f"ReservationName={each['name']}", f"StartTime={when}", f"Nodes={each['nodes']}"]
        words.append(f"EndTime={time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(first + each['end']))}")
        words += [f"{key}={','.join(each[key])}" for key in ("users", "accounts", "flags") if each.get(key)]
        _run("scontrol", "create", "reservation", *words)
    for what in ("config", "partition", "node", "reservation"):
        (out / f"{what}.txt").write_text(_run("scontrol", "show", what))
    (out / "assoc.txt").write_text(_run("sacctmgr", "show", "assoc", "-p"))
    (out / "qos.txt").write_text(_run("sacctmgr", "show", "qos", "-p"))
    _submit(scenario, first)
    end = time.time() + _LONGEST
    while _run("squeue", "-h", check=False).strip() and time.time() < end:
        time.sleep(3)
    left = _run("squeue", "-h", "-o", "%i %j %T %r")
    (out / "left.txt").write_text(left)
    if left:
        _run("scancel", "--user=root", check=False)
    time.sleep(5)
    fields = [
        "-X",
        "-D",
        "-P",
        "--noconvert",
        "-a",
        f"--format={SACCT}",
        "-S",
        str(time.strftime("%Y-%m-%d")),
    ]
    (out / "sacct.psv").write_text(_run("sacct", *fields))
    collect(out / "collected", end=time.strftime("%Y-%m-%d", time.localtime(time.time() + 86_400)))
    shutil.copy(lab.folder / "log" / "slurmctld.log", out / "slurmctld.log")
    lab.stop()


def _submit(scenario: dict[str, Any], first: int) -> None:
    jobs = jobs_of(scenario)
    steps: list[tuple[float, int, Any]] = [(first + job.submit_time, 1, job) for job in jobs.itertuples(index=False)]
    for each in scenario.get("events", []):
        steps.append((first + each["start"], 0, ("Down" if each["state"] == "down" else "Drain", each["nodes"])))
        if "end" in each:
            steps.append((first + each["end"], 0, ("Resume", each["nodes"])))
    numbers: dict[str, str] = {}
    for at, _, what in sorted(steps, key=lambda step: step[:2]):
        time.sleep(max(0.0, at - time.time()))
        if isinstance(what, tuple) and not hasattr(what, "_fields"):
            reason = [] if what[0] == "Resume" else ["Reason=scenario"]
            # a node that is only down comes back as soon as its daemon answers (ReturnToService=2)
            for state in ("Drain", "Down") if what[0] == "Down" else (what[0],):
                _run("scontrol", "update", f"NodeName={what[1]}", f"State={state}", *reason)
            continue
        script = f"sleep {what.run_time}"
        if scenario.get("in_seconds"):
            script = f"for i in $(seq {what.run_time}); do sleep 1; done"
        answer = subprocess.run(
            ["sbatch", "--parsable", *_options(what, numbers), f"--wrap={script}"],
            capture_output=True, text=True, cwd="/tmp",
        )  # fmt: skip
        if answer.returncode:
            print(what.job_id, answer.stderr.strip())
        numbers[what.job_id] = answer.stdout.strip().split(";")[0]


__all__ = ["Lab", "pd", "run_for_real"]
