"""The layout of the package: few modules at its root, no circle of files; that of folders `lint-imports` keeps."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from procure.simulator.seams import METHODS

PACKAGE = Path(__file__).resolve().parent.parent / "procure"
MOST_ROOT_MODULES = 10
DOTTED = re.compile(r"procure(\.\w+){2,}(:\w+)?")
OPTIONAL = (
    "account",
    "coschedule",
    "fitting",
    "forecast",
    "learn",
    "queue_time",
    "serve",
    "site",
    "topology",
    "window",
)
"""The rooms that plug in."""


def module_name(path: Path) -> str:
    """Name a file as an import does."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str) -> Iterator[str]:
    """Yield what a source imports anywhere: at its top, inside functions, under TYPE_CHECKING, named in a string."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            yield node.value.replace(":", ".")


def import_graph(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return which modules each module imports; a name of a module counts as the module."""
    graph: dict[str, set[str]] = {}
    for name, source in sources.items():
        found = {each if each in sources else each.rpartition(".")[0] for each in imported(source)}
        graph[name] = {each for each in found if each in sources} - {name}
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return one circle of a graph, or an empty list."""
    finished: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in finished:
            return []
        path.append(name)
        for other in sorted(graph[name]):
            if found := visit(other):
                return found
        finished.add(path.pop())
        return []

    return next((found for name in sorted(graph) if (found := visit(name))), [])


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    # The package's own face imports every room when it is used, and its version is a string.
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE or path.stem[0] != "_"]
    return import_graph({module_name(path): path.read_text(encoding="utf-8") for path in paths})


def test_a_circle_is_found():
    """A function-level import that closes a circle is found, and a graph without one passes."""
    sources = {"a": "import b", "b": "def f():\n    from a import x", "c": "from a import x"}
    assert circle(import_graph(sources)) == ["a", "b", "a"]
    assert circle(import_graph(sources | {"b": ""})) == []
    strings = {"procure.a.c": "from procure import b", "procure.b": 'x = load("procure.a.c:Thing")'}
    assert circle(import_graph(strings)) == ["procure.a.c", "procure.b", "procure.a.c"]


def entry_points() -> dict[str, dict[str, str]]:
    """Return what our own distribution offers, by group and name."""
    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    return settings["project"]["entry-points"]


@pytest.mark.slow
def test_entry_points_exist_and_are_of_the_rooms_that_plug_in(graph):
    """Each entry point names a module that is there, of an optional room."""
    targets = [value.partition(":")[0] for group in entry_points().values() for value in group.values()]
    assert targets and set(targets) <= graph.keys()
    rooms_of = {name.removeprefix("procure.").split(".")[0] for name in targets}
    assert rooms_of < set(OPTIONAL)


def test_no_core_module_knows_an_optional_room(graph):
    """Only the command line and the rooms themselves name a room that plugs in, be it in a string."""
    optional = tuple(f"procure.{room}" for room in OPTIONAL)
    core = {name: found for name, found in graph.items() if not name.startswith((*optional, "procure.cli"))}
    assert {
        name: found for name, others in core.items() if (found := [o for o in others if o.startswith(optional)])
    } == {}


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


def test_no_circle_of_files(graph):
    """No module imports itself by way of others, imports inside functions and for types included."""
    assert circle(graph) == []


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
