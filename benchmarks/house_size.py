"""How large the house is: lines, functions, words, commands and options, each beside what it may be at most.

    python benchmarks/house_size.py                # a table
    python benchmarks/house_size.py --format json  # for scripts

Lines are those of all Python files, blank ones and comments included. ``lines_core`` are of the files of procure that
`procure recommend` and `procure sweep` can reach by imports; ``wide_functions`` have seven parameters or more (``self``
or ``cls`` of a method not counted); ``fmt_skip`` are places where the formatter is told to leave a statement alone.
``words_docs`` are words, as `wc -w` counts them, of README.md, CHANGELOG.md and every page of docs/. ``n_commands`` are
the commands that have no commands below them, those that rooms offer by entry points included; ``n_options`` are the
options and arguments of all of them together, ``--help`` not counted.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import typer

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "procure"
CORE = ("procure.cli.main", "procure.cli.recommend", "procure.cli.sweep")
WIDE = 7
AT_MOST = {
    "lines_procure": 50_000, "lines_tests": 27_000, "lines_benchmarks": 5_000, "words_docs": 55_000,
    "n_commands": 45, "n_options": 280,
}  # fmt: skip
"""What is to be reached: procure 46,000 lines once it is halved, 50,000 with what is built then."""


def sizes(package: Path = PACKAGE) -> dict[str, int]:
    """Return the figures by name."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    functions = [
        node
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    count = {path: source.count("\n") for path, source in sources.items()}
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    commands = list(_commands(typer.main.get_command(importlib.import_module(CORE[0]).app)))
    return {
        "lines_procure": sum(count.values()),
        "lines_core": sum(count[path] for path in _reached(trees, package)),
        "lines_tests": _lines(ROOT / "tests"),
        "lines_benchmarks": _lines(ROOT / "benchmarks"),
        "words_docs": sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
        "n_commands": len(commands),
        "n_options": sum(len(command.params) for command in commands),
        "functions": len(functions),
        "wide_functions": sum(_n_parameters(node) >= WIDE for node in functions),
        "fmt_skip": sum(len(re.findall(r"# fmt: (?:skip|off)", source)) for source in sources.values()),
    }


def _lines(folder: Path) -> int:
    return sum(path.read_text(encoding="utf-8").count("\n") for path in folder.rglob("*.py"))


def _commands(command: Any) -> Iterator[Any]:
    """Return the commands without commands below them; groups that import theirs when called are asked one by one."""
    if not hasattr(command, "list_commands"):
        yield command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from _commands(command.resolve_command(context, [name])[1])


def _n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's parameters, the instance or class of a method left out."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len(given) - (bool(given) and given[0].arg in ("self", "cls"))


def _reached(trees: dict[Path, ast.Module], package: Path) -> set[Path]:
    """Return the files that the core's commands can reach by imports, wherever these stand, packages on the way too."""
    found: set[Path] = set()
    left = list(CORE)
    while left:
        name = left.pop()
        place = package.joinpath(*name.split(".")[1:])
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path in trees and path not in found and path.parent != package.parent:
                found.add(path)
                left += [] if path == package / "__init__.py" else _imports(trees[path])
        if "." in name:
            left.append(name.rpartition(".")[0])
    return found


def _imports(tree: ast.Module) -> list[str]:
    """Return the modules of the package that a file may import."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.startswith("procure.")]


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--format", choices=("table", "json"), default="table")
    found = sizes()
    if options.parse_args().format == "json":
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:<17}{value:>8,}" + (f"  at most {AT_MOST[name]:,}" if name in AT_MOST else ""))


if __name__ == "__main__":
    main()
