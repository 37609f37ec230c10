"""What `import procure` gives: names with types, signatures that read, examples that run."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from example_folder import make_folder

import procure

ROOT = Path(__file__).parent.parent
NAMES = sorted(set(procure.__all__) - {"TableError", "__version__"})
WRONG = """
import procure
procure.simulate("jobs", policy=3)
procure.train_queue("jobs", method=5)
procure.fat_tree("four", 18, 18)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the examples name."""
    path = tmp_path_factory.mktemp("examples")
    make_folder(path)
    return path


def own_doc(name: str) -> str:
    """Return the docstring of a public name, as it is written."""
    return inspect.unwrap(getattr(procure, name)).__doc__ or ""


@pytest.mark.parametrize("name", NAMES)
def test_signatures_read(name: str) -> None:
    """No default in a public signature shows as an address in memory."""
    if inspect.isfunction(function := getattr(procure, name)):
        assert " at 0x" not in str(inspect.signature(function))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    examples = doctest.DocTestParser().get_doctest(own_doc(name), {}, name, None, 0)
    assert examples.examples
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(examples, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_the_docstring_names_what_there_is() -> None:
    """All that the stub lists, but for the version and the error, which are no questions."""
    assert set(procure.__all__) == {*NAMES, "TableError", "__version__"} == set(dir(procure))
    assert [name for name in NAMES if f"`{name}`" not in (procure.__doc__ or "")] == []


@pytest.mark.slow
def test_a_wrong_call_fails_in_mypy(tmp_path: Path) -> None:
    """Through `import procure`, a strict type checker refuses arguments of a wrong kind and too few of them."""
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--follow-imports=silent"]
    done = subprocess.run([*command, str(tmp_path / "wrong.py")], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = {line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line}
    assert lines == {"3", "4", "5"}, done.stdout


def test_the_reference_lists_every_name() -> None:
    """The library's page of the documentation has each public name, from its home."""
    page = (ROOT / "docs/reference/library.md").read_text(encoding="utf-8")
    for name in NAMES:
        home = inspect.unwrap(getattr(procure, name))
        assert f"::: {home.__module__}.{home.__name__}\n    options:\n      heading: procure.{name}\n" in page, name
