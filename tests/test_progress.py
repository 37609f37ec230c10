"""Whatever takes long says what it does and how far it is; Ctrl-C ends every command alike."""

import os
import pty
import subprocess
import sys
import time

import numba
import pytest
from sweep_lab import until

from procure.cli import progress
from procure.errors import TableError
from procure.policies import catalog
from procure.progress import step, track, watching
from procure.simulator.drive import compiling
from procure.sweep.runner import compiled_policies, warm


def test_lines_where_there_is_no_terminal(monkeypatch, capsys):
    """The outermost step that can say how far it is is told in one line on stderr, once, and its end in another."""
    real = time.monotonic
    monkeypatch.setattr(progress, "_QUIET", 0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: 20 * real())
    with progress.shown(), step("reading"), step("counting", 2, "run") as one, step("within", 9, "run"):
        one.done = 1
        until(lambda: ": counting: 1 of 2 runs" in capsys.readouterr().err, "the line")
        time.sleep(1.2)
        assert capsys.readouterr().err == ""
        one.done = 2
    assert capsys.readouterr().err.startswith("counting: 2 of 2 runs")


def test_short_work_says_nothing_nor_any_where_nobody_watches(capsys):
    with progress.shown(), step("counting", 2, "run") as one:
        one.done = 2
    assert list(track([1, 2], "counting", "one")) == [1, 2]
    assert capsys.readouterr() == ("", "")


ON_A_TERMINAL = """
import sys, time
from procure.cli import progress
from procure.progress import step
progress._QUIET = 0.0
with progress.shown(), step("counting", 2, "fold") as one:
    one.done = 1
    time.sleep(1.5)
    print("an answer")
    one.done = 2
"""


def test_a_bar_on_a_terminal_leaves_stdout_alone():
    """The bar is drawn on stderr and taken away again; what is printed meanwhile goes to stdout."""
    leader, follower = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", ON_A_TERMINAL], stdout=subprocess.PIPE, stderr=follower, text=True, check=True
    )
    os.close(follower)
    drawn = os.read(leader, 100_000).decode()
    os.close(leader)
    assert done.stdout == "an answer\n"
    assert "counting" in drawn and "1/2" in drawn


@pytest.mark.parametrize("module", ["procure.cli.main", "procure.cli.simulate"])
def test_an_interruption_while_importing_is_one_line(module):
    """Ctrl-C before the command line is there, or before a command is: one line, exit code 130, no traceback."""
    code = (
        "import os, signal, sys, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # `&` ignores it
        "from procure.cli.start import run\n"
        "class Slow:\n    def find_spec(name, *rest):\n"
        f"        if name == {module!r}:\n            os.kill(os.getpid(), signal.SIGINT)\n            time.sleep(10)\n"
        "sys.meta_path.insert(0, Slow)\nsys.argv = ['procure', 'simulate', '--help']\nrun()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "procure: interrupted\n")


def test_compiling_is_said_no_longer_than_it_takes():
    heard = []

    class Watcher:
        def begin(self, one):
            heard.append(one.what)

        def end(self, one):
            heard.append("end")

    inner = numba.njit(lambda x: x + 1)
    outer = numba.njit(lambda x: inner(x) * 2)
    with watching(Watcher()), compiling("easy"):
        for value in (1, 1.0):
            assert outer(value) == 4
            assert heard[-2:] == ["compiling easy, once after installation", "end"]
    assert len(heard) == 4


def test_one_policy_of_each_kernel_is_compiled():
    """Every policy that defaults can make shares its target, hold-back and place with one; none stands twice."""
    names = compiled_policies()
    entries = [catalog.entry(catalog.split(name)[0]) for name in names if name != "easy:depth=2"]
    targets = [(entry.target, entry.preset.get("hold"), entry.preset.get("place")) for entry in entries]
    assert len(set(targets)) == len(targets)
    assert {"fcfs", "sjf", "best-fit", "easy", "conservative", "tabu"} <= set(names)
    with pytest.raises(TableError, match="fcsf"):  # before anything is compiled
        warm(["fcsf"])


@pytest.mark.slow
def test_a_policy_is_compiled_in_another_process():
    """The table names the policy and how long it took, without an error."""
    found = warm(["fcfs"], 1)
    assert found["policy"].tolist() == ["fcfs"]
    assert found["error"].tolist() == [""]
    assert found["seconds"].iloc[0] > 0
