"""The layout of the package: what `lint-imports`, which keeps floors and circles, does not see."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from procure.simulator.seams import METHODS

PACKAGE = Path(__file__).resolve().parent.parent / "procure"
MOST_ROOT_MODULES = 10
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


def test_few_modules_at_the_root():
    """The root of the package shows the rooms, not their contents."""
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_ROOT_MODULES


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
