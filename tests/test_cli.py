"""The command line as a whole: help everywhere, exit codes, one JSON document on stdout, no tracebacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from procure.cli.main import app

ROOT = Path(__file__).resolve().parent.parent


def every_command(command=None, path=()):
    """Walk all commands of the tree with their full names."""
    command = command or typer.main.get_command(app)
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(path)
        return
    for name, child in children.items():
        yield from every_command(child, (*path, name))


@pytest.mark.parametrize("name", list(every_command()))
def test_every_command_shows_an_example(name):
    """--help of every command works and holds an example that calls it."""
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert f"procure {name}" in shown.output.replace("Usage: ", "", 1).split("Usage", 1)[-1]
    assert "Example" in shown.output


def procure(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    """Run the command as a user does."""
    command = [sys.executable, "-m", "procure.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd or ROOT)


def test_help_imports_nothing_heavy():
    """`procure --help` loads neither pandas nor numpy, numba, pyarrow, dask or xgboost."""
    script = (
        "import sys, procure.cli.main\n"
        "print([m for m in ('pandas', 'numpy', 'numba', 'pyarrow', 'dask', 'xgboost', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


BAD = [
    (("nosuch",), 2, "No such command"),
    (("simulate", "--jobs", "x"), 2, "--nodes"),
    (("packages", "quotes/example-2023.csv", "--budget", "many"), 2, "many"),
    (("simulate", "--jobs", "nope.parquet", "--nodes", "nope.csv"), 1, "nope.parquet: no such file"),
    (("sweep", "nope.toml"), 1, "nope.toml: no such file"),
    (("packages", "quotes/example-2023.csv", "--budget", "1000"), 1, "the budget excludes every package"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), BAD, ids=[" ".join(a)[:40] for a, _, _ in BAD])
def test_bad_input_is_one_error(arguments, code, message):
    """Bad usage exits with 2, failure with 1; stderr holds the reason and no traceback, stdout nothing."""
    done = procure(*arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_json_stands_alone_on_stdout(tmp_path):
    """With --format json stdout is one JSON document; what else is said goes to stderr."""
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("node_id,kind,cpus,mem_mb,gpus\nn1,k,64,256000,0\n")
    done = procure(
        "workload", "generate", "--n-jobs", "200", "--seed", "1", "--out", "jobs.parquet", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    done = procure(
        "simulate", "--jobs", "jobs.parquet", "--nodes", "nodes.csv", "--format", "json", cwd=tmp_path
    )
    record = json.loads(done.stdout)
    assert record["n_completed"] + record["n_unrunnable"] == record["n_jobs"] == 200
    assert record["utilization_gpu"] is None
    assert {"mean_wait_time", "p95_wait_time", "elapsed"} <= set(record)


def test_a_defect_is_one_line(tmp_path):
    """An error that nobody foresaw is one line without a traceback, exit code 1."""
    script = (
        "import procure.cli.main as main, procure.cli.quotes\n"
        "import procure.quotes\n"
        "def broken(path): raise RuntimeError('oh')\n"
        "procure.quotes.read_quotes = broken\n"
        "import sys; sys.argv = ['procure', 'quotes', 'check', 'x.csv']\n"
        "main.run()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "RuntimeError: oh" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_walk_finds_commands():
    """The tree walk above sees commands (a guard against an empty parametrisation)."""
    assert len(list(every_command())) >= 10
