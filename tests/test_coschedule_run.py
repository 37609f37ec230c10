"""Co-scheduling of real processes: quotas hold, and nothing is left running, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from itertools import pairwise
from pathlib import Path

import click
import pandas as pd
import psutil
import pytest
import typer

from procure.cli.coschedule import TwoCommands, run_command
from procure.coschedule import drive
from procure.coschedule.drive import draw
from procure.coschedule.groups import Duty, GroupV1, GroupV2, choose_boxes, folder_v1
from procure.coschedule.measure import measure
from procure.coschedule.processes import Command, Progress, allocation
from procure.coschedule.settings import Driving, Measuring
from procure.errors import ArgumentError, TableError

SPIN = [sys.executable, "-c", "while True: pass"]


def run(donor, guest, **settings):
    return drive.run(donor, guest, Driving(**settings))


def usable() -> list[str]:
    """The drivers that this machine lets us use."""
    found = []
    for kind in ("idle", "v2", "v1", "duty"):
        try:
            for box in choose_boxes(kind)[:2]:
                box.close()
            found.append(kind)
        except ArgumentError:
            continue
    return found


DRIVERS = usable()
ONE_DRIVER = [DRIVERS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in DRIVERS[1:])]


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


def groups() -> list[Path]:
    """The control groups that this process, or one that it started, has not removed."""
    pids = {str(os.getpid()), *(str(child.pid) for child in psutil.Process().children(recursive=True))}
    return [path for path in Path("/sys/fs/cgroup").glob("*/procure-*") if path.name.split("-")[1] in pids]


def half(driver: str) -> float | None:
    """A fixed quota of a half, where the driver knows quotas."""
    return None if driver == "idle" else 0.5


@pytest.fixture
def mark() -> str:
    """A word that no other process has in its command line."""
    return f"mark{uuid.uuid4().hex}"


def shell(text: str, mark: str) -> list[str]:
    """A shell whose command line, and that of what it forks, holds the mark."""
    return ["bash", "-c", f": {mark}; {text}"]


@pytest.mark.slow
@pytest.mark.parametrize("driver", [each for each in DRIVERS if each != "idle"])
def test_the_guest_gets_no_more_than_its_quota(driver):
    """Two CPU-bound commands on one CPU: neither exceeds its share, and both get something."""
    found = run(SPIN, SPIN, limit=100, share=0.25, interval=0.5, n_cpus=1, seconds=2.5, driver=driver)
    log = found.log.iloc[1:]
    assert found.driver == driver
    assert found.quotas[0] == 0.0
    assert set(found.quotas[1:]) == {0.25}
    assert 0.0 < log["guest_share"].mean() <= 0.25 + 0.08
    assert 0.0 < log["donor_share"].mean() <= 0.75 + 0.08
    assert (found.donor["exit_code"], found.guest["exit_code"]) == (-9, -9)
    assert not groups()


@pytest.mark.parametrize("driver", ONE_DRIVER)
def test_a_guest_that_forks_is_gone_with_its_children(driver, mark):
    """Children in a session of their own, without environment, and orphans end when its first process has ended."""
    alone = f"env -i setsid bash -c ': {mark}; sleep 300; :'"
    guest = shell(
        f"(setsid bash -c ': {mark}; sleep 300') & (bash -c ': {mark}; sleep 300' &) ; {alone} & sleep 0.6", mark
    )
    found = run(shell("sleep 1.5", mark), guest, limit=50, share=half(driver), interval=0.3, n_cpus=1, driver=driver)
    assert (found.donor["exit_code"], found.guest["exit_code"]) == (0, 0)
    assert left_over(mark) == []
    assert not groups()


@pytest.mark.parametrize("driver", ONE_DRIVER)
def test_a_donor_that_dies_leaves_the_cpus_to_the_guest(driver, mark):
    """Its exit code is told, its children are gone, the guest runs to its end."""
    donor = shell(f"bash -c ': {mark}; sleep 300' & sleep 0.7; kill -9 $$", mark)
    found = run(donor, shell("sleep 1.5", mark), limit=50, share=half(driver), interval=0.2, n_cpus=1, driver=driver)
    assert found.donor["exit_code"] == -9
    assert found.guest["exit_code"] == 0
    assert left_over(mark) == []
    assert not groups()


ENDINGS = [(driver, number) for driver in DRIVERS for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.slow
@pytest.mark.parametrize(("driver", "number"), ENDINGS)
def test_interrupted_everything_is_put_away_and_the_log_is_written(driver, number, mark, tmp_path):
    """After Ctrl-C or a request to terminate: exit code 130, no process, no group, one row per interval in the log."""
    log = tmp_path / "log.csv"
    spin = f"bash -c ': {mark}; while :; do :; done' & while :; do :; done"
    words = [sys.executable, "-m", "procure.cli.main", "coschedule", "run", "--limit-a", "100", "--interval", "0.2",
             "--driver", driver, "--cpus", "1", "--log", log, "--format", "json",
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
@pytest.mark.parametrize("driver", DRIVERS)
def test_killed_it_leaves_nothing(driver, mark):
    """After kill -9 of procure the keepers end both commands with all that they forked, and remove the groups."""
    started = begun(mark, "--driver", driver)
    started.kill()
    started.wait()
    assert wait_until(lambda: left_over(mark) == [])
    assert wait_until(lambda: not list(Path("/sys/fs/cgroup").glob(f"*/procure-{started.pid}-*")))


@pytest.mark.slow
@pytest.mark.parametrize("driver", [each for each in DRIVERS if each in ("v1", "v2", "idle")])
def test_clean_removes_what_a_run_without_keepers_left(driver, mark, procure):
    """Where the keepers were killed, too: processes of its groups, or with its mark, end; live runs are left alone."""
    alive, started = begun(f"{mark}b", "--driver", driver), begun(f"{mark}a", "--driver", driver)
    try:
        keepers = psutil.Process(started.pid).children()
        before = shells(f"{mark}b")
        started.kill()
        for keeper in keepers:
            keeper.kill()
        started.wait()
        code, out, _ = procure("coschedule", "clean")
        assert code == 0
        assert f"-{started.pid}-" in out and f"-{alive.pid}-" not in out
        left = left_over(f"{mark}a")
        assert all("sleep 300; :" in line for line in left) if driver == "idle" else left == []
        assert not list(Path("/sys/fs/cgroup").glob(f"*/procure-{started.pid}-*"))
        assert before and shells(f"{mark}b") == before
    finally:
        alive.terminate()
        alive.wait()
        for process in psutil.process_iter(["cmdline"]):
            if mark in " ".join(process.info["cmdline"] or []):
                process.kill()


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


@pytest.mark.slow
def test_a_donor_in_danger_takes_its_cores_back(mark):
    """Whenever the donor would miss its limit, the next quota is 0; it tells its own progress."""
    work = "for i in range(4000):\n print(f'step {i}/4000', flush=True)\n for k in range(20000): k * k"
    donor = [sys.executable, "-c", work]
    found = run(donor, SPIN, limit=3.0, learner="ips", interval=0.2, n_cpus=1, seconds=3, progress=r"step (\d+)/(\d+)")
    rows = found.log.to_dict("records")
    assert rows[-1]["progress"] > 0
    assert any(row["happiness"] < 1 for row in rows[1:-1])
    for row, following in pairwise(rows[1:]):
        if row["happiness"] < 1:
            assert following["quota"] == 0.0
    assert "<svg" in draw(found.log)


@pytest.mark.slow
def test_measure_fits_the_contention_of_two_commands():
    """The shares of a quota are measured, and an overhead is fitted."""
    found = measure(SPIN, SPIN, Measuring(seconds=1, n_cpus=1, quotas=(0.5,)))
    assert found.rate == "cpu_seconds"
    assert found.table["quota"].isna().tolist() == [True, True, False]
    assert found.table["b_share"].iloc[2] <= 0.5 + 0.08
    assert found.contention.overhead >= 0
    assert not groups()


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
    assert not groups()


def test_without_the_right_to_a_control_group_the_file_is_named(tmp_path, monkeypatch):
    """The message says which folder cannot be written and what is missing; idle priority and duty need no group."""
    monkeypatch.setattr("procure.coschedule.groups._mounts", lambda: [("cgroup2", tmp_path, [])])
    monkeypatch.setattr("procure.coschedule.groups._own", lambda controller: "user/session")
    folder = tmp_path / "user" / "session"
    folder.mkdir(parents=True)
    for each in (tmp_path, folder, folder.parent):
        (each / "cgroup.controllers").write_text("memory\n")
    with pytest.raises(ArgumentError, match=r"session/cgroup.controllers does not name cpu"):
        choose_boxes("v2")
    for each in (tmp_path, folder, folder.parent):
        (each / "cgroup.controllers").write_text("cpu memory\n")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(ArgumentError, match=r"session is not ours to write in: Delegate=cpu"):
        choose_boxes("v2")
    assert choose_boxes("auto")[0].kind == "idle"
    donor, guest, why = choose_boxes("by share")
    assert isinstance(donor, Duty) and isinstance(guest, Duty)
    assert "Delegate=cpu" in why and "v1:" in why


def test_version_2_is_written_as_the_kernel_reads_it(tmp_path, monkeypatch):
    """In a delegated group: cpu is passed on, cpu.max holds quota and period, at 0 the group is frozen."""
    monkeypatch.setattr("procure.coschedule.groups._mounts", lambda: [("cgroup2", tmp_path, [])])
    monkeypatch.setattr("procure.coschedule.groups._own", lambda controller: "user")
    folder = tmp_path / "user"
    folder.mkdir()
    for each in (tmp_path, folder):
        (each / "cgroup.controllers").write_text("cpu memory\n")
        (each / "cgroup.subtree_control").write_text("memory\n")
    box = GroupV2("procure-test", 200)
    assert (folder / "cgroup.subtree_control").read_text() == "+cpu"
    assert (box.folder / "cpu.weight").read_text() == "200"
    box.limit(0.25, 4)
    assert (box.folder / "cpu.max").read_text() == "100000 100000"
    assert (box.folder / "cgroup.freeze").read_text() == "0"
    box.limit(0.0, 4)
    assert (box.folder / "cgroup.freeze").read_text() == "1"
    (box.folder / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    assert box.cpu_seconds() == 2.5
    with pytest.raises(ArgumentError, match="from 0 to 1"):
        box.limit(1.5, 4)


def test_a_real_group_of_version_2_holds_stops_and_ends_its_processes(mark):
    """On a real hierarchy of version 2, with or without the cpu controller: entered, frozen, killed, removed."""
    roots = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]
    root = next((each for each in roots if (each / "cgroup.procs").exists() and os.access(each, os.W_OK)), None)
    if root is None or not (root / "cgroup.controllers").exists():
        pytest.skip("needs a group of version 2 that we may write in")
    box = GroupV2(f"procure-{os.getpid()}-{mark}", 100, root)
    box.cpu_seconds = lambda: 0.0  # cpu.stat has usage_usec on every kernel, but is not what is tested
    command = Command(shell(f"bash -c ': {mark}; sleep 300' & sleep 300", mark), box, allocation(1))
    try:
        command.start()
        deadline = time.monotonic() + 20
        while len(box.members()) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(box.members()) >= 3
        box.limit(0.0, 1)
        assert (box.folder / "cgroup.freeze").read_text().strip() == "1"
    finally:
        command.close()
    assert left_over(mark) == []
    assert not box.folder.exists()


@pytest.mark.skipif("v1" not in DRIVERS, reason="needs a control group of version 1 that we may write in")
def test_version_1_stops_at_0_and_goes_on(mark):
    """A quota of 0 stops every process of the group, another one continues them."""
    box = GroupV1(f"procure-{os.getpid()}-{mark}", 100)
    command = Command(shell("while :; do :; done", mark), box, allocation(1))
    try:
        command.start()
        box.limit(0.0, 1)
        time.sleep(0.1)
        assert {process.status() for process in box.members()} == {psutil.STATUS_STOPPED}
        box.limit(0.5, 1)
        assert psutil.STATUS_STOPPED not in {process.status() for process in box.members()}
        assert int((folder_v1("cpu") / box.folder.name / "cpu.cfs_quota_us").read_text()) == 50_000
    finally:
        command.close()
    assert left_over(mark) == []


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
