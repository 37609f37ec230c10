"""The documentation: every command and notebook in it runs, every link in it leads somewhere."""

import doctest
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from example_folder import make_folder

import procure

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(bash|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def page_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if FENCE.search(p.read_text())], ids=page_name)
def test_page_runs(page, tmp_path):
    """The page's bash and python blocks run one after the other in an empty folder with the examples."""
    for folder in ("quotes", "pipelines"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    bin_folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}", "COLUMNS": "120"}
    for language, block in FENCE.findall(page.read_text()):
        command = ["bash", "-euo", "pipefail", "-c", block] if language == "bash" else [sys.executable, "-c", block]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{block}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page):
    """Every link, test and benchmark that the page names is a file of the project, or of a commit named beside it."""
    for target in LINK.findall(page.read_text()):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), target
    for line in page.read_text().splitlines():
        for program in re.findall(r"(?:tests|benchmarks)/\w+\.py", line):
            assert (ROOT / program).exists() or re.search(r"\b[0-9a-f]{7,8}\b", line), program


NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda one: one.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path):
    """Each cell as it stands; the last expression of a cell has a table for notebooks, where it is one of ours."""
    shutil.copytree(ROOT / "quotes", tmp_path / "quotes")
    cells = [one for one in json.loads(notebook.read_text())["cells"] if one["cell_type"] == "code"]
    shown = (
        "import ast\n"
        "def run(source, names):\n"
        "    tree = ast.parse(source)\n"
        "    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None\n"
        "    exec(compile(tree, 'cell', 'exec'), names)\n"
        "    value = None if last is None else eval(compile(last, 'cell', 'eval'), names)\n"
        "    assert value is None or value._repr_html_(), source  # what a notebook shows\n"
        "names = {}\n"
    )
    program = shown + "".join(f"run({''.join(one['source'])!r}, names)\n" for one in cells)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(cells) > 2


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
