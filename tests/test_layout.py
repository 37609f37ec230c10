"""The layout of the package: what `lint-imports`, which keeps floors and circles, does not see."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import procure
from procure.simulator.seams import METHODS

PACKAGE = Path(__file__).resolve().parent.parent / "procure"
OPTIONAL = (*"account coschedule fitting forecast learn queue_time serve site topology window".split(),)
"""The rooms that plug in."""


def entry_points() -> dict[str, dict[str, str]]:
    """Return what our own distribution offers, by group and name."""
    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    return settings["project"]["entry-points"]


def test_entry_points_exist_and_are_of_the_rooms_that_plug_in():
    """Each entry point names a module that is there, of an optional room."""
    targets = [value.partition(":")[0] for group in entry_points().values() for value in group.values()]
    assert targets and all(map(find_spec, targets))
    assert {name.split(".")[1] for name in targets} < set(OPTIONAL)


def test_no_core_module_knows_an_optional_room():
    """Only the command line, the package's face and the rooms themselves name a room that plugs in."""
    named = re.compile(rf"(?<!`)procure\.({'|'.join(OPTIONAL)})\b|from procure import .*\b({'|'.join(OPTIONAL)})\b")
    files = [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem[0] != "_"]
    core = [path for path in files if path.relative_to(PACKAGE).parts[0] not in (*OPTIONAL, "cli")]
    assert len(core) > 100 and [path for path in core if named.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
def test_the_core_loads_no_optional_room():
    """Neither `procure recommend` nor EASY, whose estimates another room offers, loads a room that plugs in."""
    code = f"""
import sys
import procure
import procure.cli.recommend
from procure.policies import catalog

procure.recommend, procure.run_sweep, procure.simulate
for name in ("easy:depth=2", "conservative", "best-fit"):
    catalog.spec(name)
print([name for name in sys.modules if name.startswith("procure.") and name.split(".")[1] in {OPTIONAL}])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.slow
def test_no_field_of_a_kernel_has_the_name_of_a_seam_method():
    """Compiled code reads such a field of a named tuple as the method, once the seams are imported."""
    fields = {
        (one.name, line.target.id)
        for path in PACKAGE.rglob("*.py")
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(one, ast.ClassDef) and "NamedTuple" in [getattr(base, "id", "") for base in one.bases]
        for line in one.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }
    # `Ranking` is never compiled.
    assert fields and {found for found in fields if found[1] in METHODS} <= {("Ranking", "score")}


def test_a_module_gives_a_name_once():
    """Of two constants of one name the later would hold in the functions above it, too."""
    for path in sorted(PACKAGE.rglob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
        names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        assert len(names) == len(set(names)), path


EDITS = {
    "schemas.py": [
        ('    _metric("makespan",', '    _metric("least_wait_time", "s", "least wait", ranked="least-wait"),\n'),
        ("COST_ITEMS = (", ' CostItem("cooling", "cooling", "other"),'),
        (
            '        _float("mem_gb",',
            '        _int("bays", "bays", "drive bays per node", **_OPTIONAL, synonyms="drive bays", example="4"),\n',
        ),
    ],
    "simulator/metrics.py": [("    out[INDEX.max_wait_time]", "    out[INDEX.least_wait_time] = 7.0\n")],
}
"""By file: before (of an opening bracket: after) what, and which row is added."""
PROGRAM = """
import numpy as np, pandas as pd
import procure
from procure.cli.main import app
from procure.objectives import OBJECTIVES
from procure.offers.template import write_template
from procure.packages.costs import Costs, total_costs
from procure.schemas import RESULT
from procure.workload import generate
from typer.testing import CliRunner

quotes = procure.read_quotes("quotes.csv")
assert quotes["bays"].tolist() == [4] and quotes["cooling_usd_per_year"].tolist() == [100.0]
write_template("template.csv")
assert {"bays", "cooling_usd_per_year"} <= set(open("template.csv").readline().strip().split(","))
packages = procure.expand_packages(quotes, procure.PackageRules(budget_usd=5000, min_gpu_nodes=0))
jobs = generate(1, 20)
costs = Costs(years=5, price_change_percent={"cooling": 0})
table = total_costs(packages, quotes, costs, {"day": jobs})
n = packages["A"]
assert (table["cooling_usd"] == 500 * n).all()
assert np.allclose(table["tco_usd"], packages["price_usd"] + 500 * n)
nodes = procure.package_nodes({"A": 5}, quotes)
assert procure.simulate(jobs, nodes, "fcfs").metrics["least_wait_time"] == 7.0
assert "least_wait_time" in RESULT.names and OBJECTIVES["least-wait"].unit == "s"
assert "least-wait" in CliRunner().invoke(app, ["recommend", "--help"], env={"COLUMNS": "999"}).stdout
"""


def test_an_objective_a_yearly_cost_and_a_column_are_a_row_each(tmp_path: Path):
    """From these come schema, reader, template, costs, objectives and help; a metric is also computed in the kernel."""
    home = Path(procure.__file__).parent
    shutil.copytree(home, tmp_path / "procure", ignore=shutil.ignore_patterns("__pycache__"))
    for name, edits in EDITS.items():
        path = tmp_path / "procure" / name
        text = path.read_text()
        for mark, row in edits:
            assert text.count(mark) == 1, mark
            text = text.replace(mark, mark + row if mark.endswith("(") else row + mark)
        path.write_text(text)
    (tmp_path / "quotes.csv").write_text(
        "Server type,category,cores,RAM (GB),gpus,price_usd,drive bays,cooling_usd_per_year\n"
        "A,compute,64,512,0,1000,4,100\n"
    )
    clean = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1", "PROCURE_CACHE": str(tmp_path / "c")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
