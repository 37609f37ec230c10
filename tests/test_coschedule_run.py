"""Co-scheduling of real processes: quotas hold, and nothing is left running, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import click
import pandas as pd
import psutil
import pytest
import typer

from procure.cli.coschedule import TwoCommands, run_command
from procure.coschedule import drive
from procure.coschedule.measure import measure
from procure.coschedule.processes import Progress
from procure.coschedule.settings import Driving, Measuring
from procure.errors import TableError

SPIN = [sys.executable, "-c", "while True: pass"]


def run(donor, guest, **settings):
    return drive.run(donor, guest, Driving(**settings))


def left_over(mark: str) -> list[str]:
    """The living processes whose command line holds a mark."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if mark in " ".join(process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(" ".join(process.info["cmdline"]))
    return found


def shells(mark: str) -> int:
    """How many living shells have the mark: not procure itself, nor its keepers."""
    return sum(line.startswith("bash") for line in left_over(mark))


@pytest.fixture
def mark() -> str:
    """A word that no other process has in its command line."""
    return f"mark{uuid.uuid4().hex}"


def shell(text: str, mark: str) -> list[str]:
    """A shell whose command line, and that of what it forks, holds the mark."""
    return ["bash", "-c", f": {mark}; {text}"]


def test_a_guest_that_forks_is_gone_with_its_children(mark):
    """Children in a session of their own, without environment, and orphans end when its first process has ended."""
    alone = f"env -i setsid bash -c ': {mark}; sleep 300; :'"
    guest = shell(
        f"(setsid bash -c ': {mark}; sleep 300') & (bash -c ': {mark}; sleep 300' &) ; {alone} & sleep 0.6", mark
    )
    found = run(shell("sleep 1.5", mark), guest, limit=50, interval=0.3, n_cpus=1, driver="idle")
    assert (found.donor["exit_code"], found.guest["exit_code"]) == (0, 0)
    assert left_over(mark) == []


def test_a_donor_that_dies_leaves_the_cpus_to_the_guest(mark):
    """Its exit code is told, its children are gone, the guest runs to its end."""
    donor = shell(f"bash -c ': {mark}; sleep 300' & sleep 0.7; kill -9 $$", mark)
    found = run(donor, shell("sleep 1.5", mark), limit=50, interval=0.2, n_cpus=1, driver="idle")
    assert found.donor["exit_code"] == -9
    assert found.guest["exit_code"] == 0
    assert left_over(mark) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_everything_is_put_away_and_the_log_is_written(number, mark, tmp_path):
    """After Ctrl-C or a request to terminate: exit code 130, no process, no group, one row per interval in the log."""
    log = tmp_path / "log.csv"
    spin = f"bash -c ': {mark}; while :; do :; done' & while :; do :; done"
    words = [sys.executable, "-m", "procure.cli.main", "coschedule", "run", "--limit-a", "100", "--interval", "0.2",
             "--driver", "idle", "--cpus", "1", "--log", log, "--format", "json",
             "--", *shell(spin, mark), "--", *shell(spin, mark)]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        deadline = time.monotonic() + 60
        while shells(mark) < 4 and time.monotonic() < deadline:  # two shells, two children
            time.sleep(0.1)
        time.sleep(1.0)
        started.send_signal(number)
        out, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert said.splitlines()[-1] == b"procure: interrupted; both commands are ended"
    assert json.loads(out)["interrupted"]
    assert left_over(mark) == []
    assert not list(Path("/sys/fs/cgroup").glob(f"*/procure-{started.pid}-*"))
    assert len(pd.read_csv(log)) >= 2


def begun(mark: str, *options: object) -> subprocess.Popen:
    """Start `procure coschedule run` of two shells that fork, one with an empty environment; wait until all run."""
    donor = shell(f"bash -c ': {mark}; sleep 300; :' & sleep 300", mark)
    guest = shell(f"env -i setsid bash -c ': {mark}; sleep 300; :' & sleep 300", mark)
    ours = ["--limit-a", "100", "--interval", "0.2", "--cpus", "1", *map(str, options)]
    words = [sys.executable, "-m", "procure.cli.main", "coschedule", "run", *ours, "--", *donor, "--", *guest]
    started = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 40
    while shells(mark) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    return started


def wait_until(gone) -> bool:
    deadline = time.monotonic() + 20
    while not gone() and time.monotonic() < deadline:
        time.sleep(0.05)
    return gone()


@pytest.mark.slow
def test_killed_it_leaves_nothing(mark):
    """After kill -9 of procure the keepers end both commands with all that they forked."""
    started = begun(mark, "--driver", "idle")
    started.kill()
    started.wait()
    assert wait_until(lambda: left_over(mark) == [])
    assert wait_until(lambda: not list(Path("/sys/fs/cgroup").glob(f"*/procure-{started.pid}-*")))


def test_idle_guest_yields_and_outputs_are_marked(capfd):
    """The guest of the default driver runs under SCHED_IDLE, the donor does not; each line says whose it is."""
    policy = "import os, time; print('policy', os.sched_getscheduler(0), flush=True); time.sleep"
    found = run([sys.executable, "-c", f"{policy}(4)"], [sys.executable, "-c", f"{policy}(0)"], limit=50, interval=0.2)
    assert found.driver == "idle"
    said = capfd.readouterr().err
    assert f"donor|policy {os.SCHED_OTHER}\n" in said and f"guest|policy {os.SCHED_IDLE}\n" in said


def test_a_guest_beyond_its_memory_is_ended(capfd):
    """It is killed, and told why; the donor goes on."""
    fill = [sys.executable, "-c", "import time; kept = bytearray(200_000_000); time.sleep(60)"]
    found = run(["sleep", "2"], fill, limit=50, interval=0.2, memory="100M")
    assert (found.donor["exit_code"], found.guest["exit_code"]) == (0, -9)
    assert "its limit is 100 MB: ended" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: run(SPIN, SPIN, limit=0), "passed already"),
        (lambda: run(SPIN, SPIN, limit=5, share=1.5), "from 0 to 1"),
        (lambda: run(SPIN, SPIN, limit=5, share=-0.1), "from 0 to 1"),
        (lambda: run(SPIN, SPIN, limit=5, learner="full"), "only a simulation"),
        (lambda: run(SPIN, SPIN, limit=5, learner="exp9"), "not known"),
        (lambda: run(SPIN, SPIN, limit=5, interval=0), "0.1 s or more"),
        (lambda: run(SPIN, SPIN, limit=5, n_cpus=10**6), "lets us use"),
        (lambda: run(SPIN, SPIN, limit=5, progress="("), "regular expression"),
        (lambda: run(SPIN, SPIN, limit=5, progress="x"), "groups"),
        (lambda: run(SPIN, SPIN, limit=5, driver="v3"), "not known"),
        (lambda: run(SPIN, SPIN, limit=5, driver="idle", share=0.5), "idle priority has no quota"),
        (lambda: run(SPIN, SPIN, limit=5, memory="much"), "no amount of memory"),
        (lambda: measure(SPIN, SPIN, Measuring(driver="idle")), "no quotas to measure at"),
        (lambda: run(["./no-such-command"], SPIN, limit=5), "no-such-command: cannot be started"),
        (lambda: run(["sleep", "100"], ["./no-such-command"], limit=5, interval=0.1), "cannot be started"),
        (lambda: run([__file__], SPIN, limit=5), "cannot be started"),
        (lambda: measure(SPIN, SPIN, Measuring(seconds=0)), "1 s or more"),
        (lambda: measure(SPIN, SPIN, Measuring(quotas=(1.0,))), "leaves one command nothing"),
        (lambda: measure(["false"], SPIN, Measuring(seconds=1, n_cpus=1)), "exit code 1"),
    ],
)
def test_bad_input_is_one_error_and_leaves_nothing_running(call, said):
    """What was wrong and what is allowed; no process and no group remains."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.raises(TableError, match=said):
        call()
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_progress_is_the_last_match_of_output_or_file(tmp_path):
    """Done and total, or a percentage; what is no number is passed over; never beyond 0 to 1."""
    progress = Progress(r"step (\d+)/(\d+)")
    assert progress.now() == 0.0
    for line in ("step 3/12", "nothing", "step 6/12 step 9/12", "step 1/0"):
        progress.read_line(line)
    assert progress.now() == 0.75
    percent = Progress(r"(\d+) %")
    percent.read_line("140 %")
    assert percent.now() == 1.0
    assert Progress().now() is None
    file = tmp_path / "progress"
    told = Progress(None, file)
    assert told.now() == 0.0
    file.write_text("starting\n30/40\n")
    assert told.now() == 0.75


def test_own_options_may_end_the_line():
    """Behind the second command too, where nothing but our options follows; a third -- keeps them the command's."""
    app = typer.Typer()
    app.command(cls=TwoCommands)(run_command)
    command = typer.main.get_command(app)

    def parsed(*words):
        context = click.Context(command)
        command.parse_args(context, list(words))
        return context.params["commands"], context.params["learner"], context.params["seconds"]

    assert parsed("--limit-a", "6", "--", "a", "-x", "--", "b", "1", "--learner", "ips", "--seconds", "3") == (
        ["a", "-x", "--", "b", "1"], "ips", 3.0,
    )  # fmt: skip
    assert parsed("--limit-a", "6", "--", "a", "--", "b", "--seconds", "3", "--") == (
        ["a", "--", "b", "--seconds", "3", "--"], "ucb", None,
    )  # fmt: skip
    assert parsed("--limit-a", "6", "--", "a", "--", "b", "--own", "--seconds", "3")[0] == [
        "a",
        "--",
        "b",
        "--own",
    ]


def test_one_command_is_not_enough(procure):
    """Bad usage, exit code 2."""
    code, _, said = procure("coschedule", "run", "--limit-a", 5, "--", "sleep", "1")
    assert code == 2
    assert "two commands are needed" in said


def test_the_cpu_share_of_a_command_of_no_length_is_not_told():
    """What starting and ending takes is no share of the CPUs: nothing is stated."""
    found = run(["true"], ["true"], limit=5)
    assert found.donor["exit_code"] == 0
    assert found.donor["cpu_share"] is None
    assert found.guest["cpu_share"] is None
