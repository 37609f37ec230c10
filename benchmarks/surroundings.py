"""Run the default tests in other surroundings, once before each release: `python benchmarks/surroundings.py [PYTEST…]`.

A temporary folder with a short and with a long name, narrow and wide terminals, other languages and zones, and a user
without root whose checkout stands in a folder that nobody may write to. What follows is given to pytest in place of all
default tests, e.g. ``tests/test_cli.py``.
"""

from __future__ import annotations

import locale
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOBODY = 65_534
LONG = 120
LOCALES = {"C": ("C",), "German": ("de_DE.UTF-8", "de_DE.utf8")}


def surroundings(folder: Path) -> dict[str, dict[str, str] | None]:
    """Return the environment variables that differ, by name; None for one that this computer cannot have."""
    long = folder / ("t" * (LONG - len(str(folder)) - 1))
    long.mkdir()
    found: dict[str, dict[str, str] | None] = {
        "TMPDIR of 5 characters": {"TMPDIR": "/tmp/"},
        f"TMPDIR of {len(str(long))} characters": {"TMPDIR": str(long)},
    }
    found |= {f"COLUMNS={width}": {"COLUMNS": str(width)} for width in (60, 80, 200)}
    for name, spellings in LOCALES.items():
        known = next(filter(_has_locale, spellings), None)
        found[f"language {name}"] = known and {"LANG": known, "LC_ALL": known, "LANGUAGE": ""}
    return found | {"TZ of Auckland": {"TZ": "Pacific/Auckland"}}


def _has_locale(name: str) -> bool:
    try:
        locale.setlocale(locale.LC_ALL, name)
    except locale.Error:
        return False
    finally:
        locale.setlocale(locale.LC_ALL, "C")
    return True


@contextmanager
def as_nobody(folder: Path) -> Iterator[tuple[Path, list[str], dict[str, str]]]:
    """Give a copy of the checkout in a folder that is read-only, and how a user without root runs something there."""
    parent = folder / "read-only"
    checkout = parent / "procure"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".venv", ".git", "results"), symlinks=True)
    (checkout / "results").mkdir()
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    prefix: list[str] = []
    if os.geteuid() == 0:
        prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        for path in (checkout, *checkout.rglob("*"), folder / "home", folder / "tmp"):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    parent.chmod(0o555)
    try:
        yield checkout, prefix, {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
    finally:
        parent.chmod(0o755)


def run_tests(arguments: list[str], changed: dict[str, str], cwd: Path, prefix: list[str]) -> bool:
    """Run pytest; say how it ended in a line, and what failed."""
    asked = arguments or ["-m", "not slow and not slurm"]
    command = [*prefix, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *asked]
    began = time.monotonic()
    found = subprocess.run(command, cwd=cwd, env=os.environ | changed, capture_output=True, text=True, errors="replace")
    lines = found.stdout.strip().splitlines() or found.stderr.strip().splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    print(f"{lines[-1] if lines else 'no output'} ({time.monotonic() - began:,.0f} s)", *failed, sep="\n  ")
    return found.returncode == 0


def main() -> int:
    """Run the tests in each of the surroundings; return 1 where one fails."""
    arguments, ok = sys.argv[1:], True
    with tempfile.TemporaryDirectory(prefix="s") as name:
        for what, changed in surroundings(Path(name)).items():
            print(f"{what}: ", end="", flush=True)
            if changed is None:
                print("not on this computer")
                ok = False
                continue
            ok &= run_tests(arguments, changed, ROOT, [])
        who = "another user" if os.geteuid() == 0 else "this user"
        print(f"{who} without root, in a folder that is read-only: ", end="", flush=True)
        with as_nobody(Path(name)) as (checkout, prefix, changed):
            ok &= run_tests(arguments, changed, checkout, prefix)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
