"""The documentation: every command and notebook in it runs, every link in it leads somewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

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
    """Every relative link of the page names a file of the project."""
    for target in LINK.findall(page.read_text()):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), target


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
