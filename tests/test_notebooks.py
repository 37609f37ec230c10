"""The notebooks run from top to bottom in an empty folder with the examples."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

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
