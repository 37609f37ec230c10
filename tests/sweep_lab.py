"""What the tests of sweeps share: small studies, and drivers run as a user runs them."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import psutil

from procure.study import Plan, load_study
from procure.sweep import load_plan, read_results, run_sweep

HOOKS = Path(__file__).parent / "hooks"
QUOTES = """name,category,cpus,mem_gb,gpus,price_usd,spec_rate
Small,compute,8,32,0,"$5,000",4.5
Big,bigmem,16,512,0,9000,5.25
Gpu,gpu,16,64.5,2,15000,6
"""


def make_study(folder: Path, **changes: str) -> Path:
    """Write a small study: 3 types, some hundred packages, 150 jobs."""
    settings = {
        "seed": "3", "budget": "90_000", "sample": "1", "speed": '"5"', "kill": "false", "n_jobs": "150",
        "batch_size": "5", "results": "results",
    } | changes  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "quotes.csv").write_text(QUOTES)
    path = folder / "study.toml"
    path.write_text(
        f"""name = "small"
quotes = "quotes.csv"
results = "{settings["results"]}"
[packages]
rules = "published"
budget_usd = {settings["budget"]}
[[workloads]]
name = "day"
generate = {{ seed = {settings["seed"]}, n_jobs = {settings["n_jobs"]} }}
logged_speed = {settings["speed"]}
[simulate]
kill_at_limit = {settings["kill"]}
[sweep]
sample = {settings["sample"]}
batch_size = {settings["batch_size"]}
"""
    )
    return path


def make_long_study(folder: Path, **changes: str) -> Path:
    """Write a study of 745 batches."""
    return make_study(folder, **{"budget": "450_000", "n_jobs": "30", "batch_size": "1"} | changes)


def small_plan(folder: Path, **changes: str) -> Plan:
    """The plan of a small study of 20 jobs."""
    return load_plan(load_study(make_study(folder, **{"n_jobs": "20"} | changes)))


def long_results() -> pd.DataFrame:
    """The long study's results, computed serially in one go."""
    with tempfile.TemporaryDirectory() as folder:
        rows = serial_results(make_long_study(Path(folder)))
    assert len(rows) >= 700
    return rows


def serial_results(path: Path) -> pd.DataFrame:
    """Compute a study here, in one go."""
    plan = load_plan(load_study(path))
    run_sweep(plan, "serial")
    return read_results(plan.study)


def results(path: Path) -> pd.DataFrame:
    return read_results(load_study(path))


def environment(**faults: str) -> dict[str, str]:
    """This environment with faults for `hooks/sitecustomize.py`."""
    bins = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | {"PATH": bins, "PYTHONPATH": str(HOOKS), "COLUMNS": "120"} | faults


def start(*arguments: object, **faults: str) -> subprocess.Popen[str]:
    """Start procure with some arguments."""
    command = [sys.executable, "-m", "procure.cli.main", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**faults)
    )


def finish(process: subprocess.Popen[str], timeout: float = 600) -> tuple[int, str]:
    """Wait for a process; return its exit code and what it said on both streams."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"no end in {timeout} s:\n{out}\n{err}") from None
    assert "Traceback" not in err, err
    return process.returncode, out + err


def ended(process: subprocess.Popen[str], code: int = 0, timeout: float = 600) -> str:
    """Wait for a process that must end with a code; return what it said."""
    found, said = finish(process, timeout)
    assert found == code, said
    return said


def until(true: Callable[[], object], what: str, timeout: float = 240) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, f"waited {timeout} s for {what}"
        time.sleep(0.05)


def parts(path: Path) -> list[Path]:
    """The parts that a running sweep has written."""
    return list((load_study(path).folder / "parts").glob("*.parquet"))


def under_way(path: Path, process: subprocess.Popen[str], n: int = 100) -> None:
    """Wait until a sweep has written some parts and is still at it."""
    until(lambda: len(parts(path)) >= n or process.poll() is not None, f"{n} parts")
    assert process.poll() is None, finish(process)


def long_sweep(folder: Path, *options: object, n: int = 100, **faults: str) -> tuple[Path, subprocess.Popen[str]]:
    """Start to sweep a long study; return its path and the process, some parts later."""
    path = make_long_study(folder)
    sweep = start("sweep", path, *options, **faults)
    under_way(path, sweep, n)
    return path, sweep


def workers(driver: subprocess.Popen[str]) -> list[psutil.Process]:
    """The worker processes of a driver on this node."""
    servers = psutil.Process(driver.pid).children()
    return [each for one in servers for each in one.children() if "forkserver" in " ".join(each.cmdline())]


def all_gone(processes: list[psutil.Process]) -> bool:
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)
