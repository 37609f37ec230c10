"""How large the package is: lines, of all of it and of its core; functions, and how many are wide.

    python benchmarks/house_size.py                # now
    python benchmarks/house_size.py --format json  # for scripts
    python benchmarks/house_size.py --since        # net lines since 4611fed, by what each commit was for

``lines_core`` are the lines of the files of procure that `procure recommend` and `procure sweep` can reach by imports,
``wide_functions`` those of seven parameters or more (of a method, without ``self`` or ``cls``), ``fmt_skip`` the places
where the formatter is told to leave a statement alone.

By ``--since``, every commit counts whole, under one head. Those of the layout (issue 11) are named below, or carry
the trailer `Issue: 11`; all others brought abilities, which that issue does not count. The heads add up to the
difference that `git diff --numstat` tells, so that nothing is left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "procure"
CORE = ("procure.cli.main", "procure.cli.recommend", "procure.cli.sweep")
WIDE = 7
SINCE = "4611fed"
TRAILER = "Issue: 11"

LAYOUT = (
    "7c5becb", "44e8277", "1561ddc", "f1084c3", "7bcfcd1", "16ea347", "3a67cee", "fcbd646", "b288e52", "c156962",
    "ee1f448", "0c5c0b5", "1057620", "a058824", "f255de8", "bd71ae8", "127cfba", "14331f9", "3272e24", "dbe8515",
    "bc242a1", "1b4f404", "80ed291", "f568bf6", "fec603f", "c5f95c2", "d1f82af", "07b8e15", "775abc3", "0234746",
    "3a381b0", "c772610", "2e6ba0f", "6c3f7ab", "6debeec", "911bc19", "2dfb500", "0049b5a", "b875bb5", "f701fe4",
)  # fmt: skip
"""The rooms, the one recommender, the library's functions, the words: what had to get smaller."""

SEAMS = (
    "6664d55", "9284a89", "5f51e5b", "2bd0bb7", "460fb3a",
)  # fmt: skip
"""Parameters of policies, wake and pace, runs that are laid out once: item 4, not counted."""


def commits(since: str) -> list[tuple[str, str, int, int, str]]:
    """Return (commit, head, lines added, lines removed, subject) of each commit that changed the package."""
    form = "--format=%x01%h%x02%s%x02%b%x02"
    command = ["git", "log", "--no-merges", "--reverse", "--numstat", form, f"{since}..HEAD", "--"]
    command += ["procure/*.py", "procure/**/*.py"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = []
    for record in shown.split("\x01")[1:]:
        name, subject, body, numbers = record.split("\x02")
        counts = [line.split("\t")[:2] for line in numbers.strip().splitlines()]
        added, removed = (sum(int(one[i]) for one in counts) for i in (0, 1))
        ours = any(name.startswith(one) for one in LAYOUT) or TRAILER in body
        seam = any(name.startswith(one) for one in SEAMS)
        rows.append((name, "layout" if ours else "seams" if seam else "abilities", added, removed, subject))
    return rows


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
    core = reached(trees, package)
    return {
        "lines_procure": sum(count.values()),
        "lines_core": sum(count[path] for path in core),
        "functions": len(functions),
        "wide_functions": sum(n_parameters(node) >= WIDE for node in functions),
        "fmt_skip": sum(len(re.findall(r"# fmt: (?:skip|off)", source)) for source in sources.values()),
    }


def n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's parameters, the instance or class of a method left out."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len(given) - (bool(given) and given[0].arg in ("self", "cls"))


def reached(trees: dict[Path, ast.Module], package: Path) -> set[Path]:
    """Return the files that the core's commands can reach by imports, wherever these stand, packages on the way too."""
    found: set[Path] = set()
    left = list(CORE)
    while left:
        name = left.pop()
        place = package.joinpath(*name.split(".")[1:])
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path in trees and path not in found and path.parent != package.parent:
                found.add(path)
                left += [] if path == package / "__init__.py" else imports(trees[path])
        if "." in name:
            left.append(name.rpartition(".")[0])
    return found


def imports(tree: ast.Module) -> list[str]:
    """Return the modules of the package that a file may import."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.startswith("procure.")]


def main() -> None:
    """Print the figures, or the table of commits."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--format", choices=("table", "json"), default="table")
    options.add_argument("--since", nargs="?", const=SINCE, help="net lines since a commit; by default 4611fed")
    options.add_argument("--commits", action="store_true", help="with --since: a line per commit")
    given = options.parse_args()
    if given.since is None:
        found = sizes()
        print(json.dumps(found) if given.format == "json" else "\n".join(f"{k:<16}{v:>8,}" for k, v in found.items()))
        return
    print_commits(given.since, given.commits)


def print_commits(since: str, each: bool) -> None:
    """Print what the commits since one added and removed, by their heads."""
    rows = commits(since)
    if each:
        for name, head, added, removed, subject in rows:
            print(f"{name}  {head:<9}  {added - removed:+6,}  {subject}")
    n, plus, minus = Counter(), Counter(), Counter()
    for _, head, added, removed, _ in rows:
        n[head] += 1
        plus[head] += added
        minus[head] += removed
    print(f"{'head':<10}{'commits':>8}{'added':>9}{'removed':>9}{'net':>9}")
    for head in ("layout", "seams", "abilities"):
        print(f"{head:<10}{n[head]:>8,}{plus[head]:>9,}{minus[head]:>9,}{plus[head] - minus[head]:>+9,}")
    print(f"{'all':<10}{len(rows):>8,}{plus.total():>9,}{minus.total():>9,}{plus.total() - minus.total():>+9,}")


if __name__ == "__main__":
    main()
