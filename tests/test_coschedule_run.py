"""Co-scheduling of real processes: the guest yields, and nothing is left running, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest

from procure.coschedule.run import allocation, prefix, run
from procure.errors import TableError

SPIN = [sys.executable, "-c", "while True: pass"]


def bound() -> bool:
    """Whether the system lets us bind processes to ours."""
    try:
        return bool(prefix(allocation(1), idle=True))
    except (TableError, OSError):
        return False


pytestmark = pytest.mark.skipif(not bound(), reason="needs PID namespaces")
SYSTEMD = Path("/run/systemd/system").is_dir()


@pytest.fixture
def mark() -> str:
    """A word that no other process has in its command line."""
    return f"mark{uuid.uuid4().hex}"


def left_over(mark: str) -> list[str]:
    """The living processes whose command line holds a mark."""
    every = psutil.process_iter(["cmdline", "status"])
    lines = [" ".join(one.info["cmdline"] or []) for one in every if one.info["status"] != psutil.STATUS_ZOMBIE]
    return [line for line in lines if mark in line]


def forking(mark: str) -> list[str]:
    """A shell that starts others in sessions of their own, one without an environment."""
    alone = f"env -i setsid bash -c ': {mark}; sleep 300; :'"
    return ["bash", "-c", f": {mark}; (setsid bash -c ': {mark}; sleep 300; :') & {alone} & sleep 300"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_killed_or_interrupted_it_leaves_nothing(number, mark):
    """However procure ends, the kernel ends both commands with all that they forked."""
    words = [sys.executable, "-m", "procure.cli.main", "coschedule", "run", "--cpus", "1", "--format", "json"]
    words += ["--", *forking(mark), "--", *forking(mark)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    ) as started:  # fmt: skip
        deadline = time.monotonic() + 60
        while sum(line.startswith("bash") for line in left_over(mark)) < 6 and time.monotonic() < deadline:
            time.sleep(0.05)
        late = time.monotonic() >= deadline
        started.send_signal(signal.SIGKILL if late else number)
        assert not late, "an idle guest got no processor within a minute"
        out, _ = started.communicate(timeout=60)
    if number != signal.SIGKILL:
        assert started.returncode == 130 and json.loads(out)["interrupted"]
    deadline = time.monotonic() + 20
    while left_over(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left_over(mark) == []


def test_a_command_that_ends_takes_its_children_along(mark):
    """A donor that dies is told by its exit code; the guest runs to its end."""
    donor = ["bash", "-c", f"bash -c ': {mark}; sleep 300; :' & sleep 0.3; exit 3"]
    found = run(donor, ["sleep", "0.8"], cpus=1)
    assert (found.donor["exit_code"], found.guest["exit_code"]) == (3, 0) and left_over(mark) == []


def test_idle_guest_yields_and_outputs_are_marked(capfd):
    """The guest runs under SCHED_IDLE, the donor does not; each line says whose it is."""
    policy = [sys.executable, "-c", "import os; print('policy', os.sched_getscheduler(0), flush=True)"]
    run(policy, policy)
    time.sleep(0.2)
    said = capfd.readouterr().err
    assert f"donor|policy {os.SCHED_OTHER}\n" in said and f"guest|policy {os.SCHED_IDLE}\n" in said


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: run(SPIN, SPIN, cpus=10**6), "lets us use"),
        (lambda: run(["./no-such-command"], SPIN), "no-such-command"),
        (lambda: run(SPIN, [__file__]), "cannot be run"),
        pytest.param(
            lambda: run(SPIN, SPIN, share=0.5), "systemd", marks=pytest.mark.skipif(SYSTEMD, reason="systemd runs")
        ),
    ],
)
def test_bad_input_is_one_error_and_leaves_nothing_running(call, said):
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.raises(TableError, match=said):
        call()
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_one_command_is_not_enough(procure):
    """Bad usage, exit code 2."""
    code, _, said = procure("coschedule", "run", "--", "sleep", "1")
    assert code == 2 and "two commands are needed" in said
