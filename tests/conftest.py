"""What the tests share: the real logs, where they are at hand."""

import gc
import os
import signal

if "PYTEST_XDIST_WORKER" in os.environ:
    # As many processes as CPUs: threads in each of them would only wait for one another.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from slurm_lab import slurm_lab

# Modules and tests are hundreds of thousands of objects that stay: looking for cycles in them took a tenth of the CPU.
gc.set_threshold(20_000, 20, 20)

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"

# A busy machine is no failure: no test is timed. Cases are the same in each run, so that what fails is the change that
# is tested; PROCURE_TEST_RANDOM=1 draws others.
AT_RANDOM = os.environ.get("PROCURE_TEST_RANDOM") == "1"
settings.register_profile("procure", deadline=None, max_examples=40, derandomize=not AT_RANDOM)
settings.load_profile("procure")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what compares compiled kernels with plain Python where nothing is compiled."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        for item in items:
            if item.get_closest_marker("compiled"):
                item.add_marker(pytest.mark.skip(reason="NUMBA_DISABLE_JIT is set"))


def pytest_collection_finish() -> None:
    """Leave what is there before the first test out of every later look for cycles."""
    gc.collect()
    gc.freeze()


_SIGNALS = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """Let signals mean what they meant before all tests: a command that sweeps, and then ends, leaves them changed.

    So does a fixture of a module that runs one, before this begins.
    """
    _give_back()
    yield
    _give_back()


def _give_back() -> None:
    for each, handler in _SIGNALS.items():
        if handler is not None:  # one that is not Python's
            signal.signal(each, handler)


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Give the path of a real log, or skip the test and name the file that it needs."""

    def find(name: str) -> Path:
        path = SHARED_DATA / name
        if not path.exists():
            pytest.skip(f"needs ../shared/data/{name}")
        return path

    return find


@pytest.fixture
def procure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call the command as a user does: exit code, standard output and standard error."""
    from procure.cli.main import run

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["procure", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            run()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


@pytest.fixture(scope="session")
def slurm() -> Iterator[None]:
    """Make sure of a Slurm to submit to, or skip the test."""
    yield from slurm_lab()
