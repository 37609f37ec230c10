"""What the product answers, held against the files under ``tests/golden``.

    python benchmarks/golden.py check [SECTION …] [--workers N] [--data ../shared/data]
    python benchmarks/golden.py write [SECTION …]

`check` prints a line for each difference and each section, and fails on any difference. What needs a log that is not
there is skipped by its name. A value may be missing only where its golden file marks it as ``goes``; it is named then.
Whole numbers, texts and digests must be equal; other numbers agree to `TOLERANCE`, as they do where another processor
adds in another order.

A golden value changes on purpose in a commit of its own: `write` of that section, nothing else, and a message that says
in one line why the new value is right.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatchcase
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from golden_set import SECTIONS, section
from golden_set.base import Place

ROOT = Path(__file__).resolve().parent.parent
FILES = ROOT / "tests" / "golden"
TOLERANCE = 1e-9
"""Relative."""
ABSENT, FAILED = "nothing", "failed"


def measured(name: str, part: str, data: Path, workers: int) -> tuple[dict, float]:
    """Compute a part's values as JSON has them, and say how many seconds that took."""
    began = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory() as folder:
            values = section(name).PARTS[part].values(Place(data, Path(folder), workers))
    except Exception as error:  # whatever goes wrong in a part is a difference of that part
        values = {FAILED: f"{type(error).__name__}: {error}"}
    return json.loads(json.dumps(values, default=float)), time.perf_counter() - began


def differences(expected: object, got: object, where: str) -> Iterator[tuple[str, object, object]]:
    """Yield where two values differ, with both."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in dict.fromkeys([*expected, *got]):
            yield from differences(expected.get(key, ABSENT), got.get(key, ABSENT), f"{where} | {key}")
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for i, pair in enumerate(zip(expected, got, strict=True)):
            yield from differences(*pair, f"{where} | {i}")
    elif isinstance(expected, float) and isinstance(got, int | float) and not isinstance(got, bool):
        if not math.isclose(expected, got, rel_tol=TOLERANCE, abs_tol=1e-12):
            yield where, expected, got
    elif expected != got or isinstance(expected, bool) != isinstance(got, bool):
        yield where, expected, got


def judge(name: str, found: dict[str, dict]) -> int:
    """Print how a section's values differ from those in its file; return how many do."""
    n, held = 0, read(name)
    expected = {part: values for part, values in held["values"].items() if part in found}
    for where, was, now in differences(expected, found, name):
        key = where.removeprefix(f"{name} | ")
        why = next((why for pattern, why in held["goes"].items() if fnmatchcase(key, pattern)), None)
        if why is not None and now in (ABSENT, "refused"):
            print(f"{where}: gone, as marked: {why}")
        else:
            n += 1
            print(f"{where}: expected {json.dumps(was)}, got {json.dumps(now)}", flush=True)
    return n


def compute(names: list[str], given: argparse.Namespace) -> Iterator[tuple[str, dict[str, dict], float]]:
    """Compute sections, parts of all side by side; yield each with its parts' values and seconds when it is done."""
    found: dict[str, dict[str, dict]] = {name: {} for name in names}
    seconds, left = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0)
    with ProcessPoolExecutor(given.workers, get_context("spawn")) as pool:
        tasks = {}
        for name in names:
            for part, one in section(name).PARTS.items():
                if absent := [file for file in one.needs if not (given.data / file).exists()]:
                    print(f"{name} | {part}: skipped, {', '.join(absent)} is not in {given.data}")
                    continue
                tasks[pool.submit(measured, name, part, given.data, given.workers)] = name, part
                left[name] += 1
        for task in as_completed(tasks):
            name, part = tasks[task]
            left[name] -= 1
            found[name][part], took = task.result()
            seconds[name] += took
            if given.times:
                print(f"{name} | {part}: {took:.1f} s", flush=True)
            if not left[name]:
                yield name, found[name], seconds[name]


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "write"))
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}; all by default")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="parts that are computed at once")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of real logs")
    parser.add_argument("--times", action="store_true", help="print the seconds of each part, too")
    given = parser.parse_args()
    names = given.sections or list(SECTIONS)
    if unknown := [name for name in names if name not in SECTIONS]:
        parser.error(f"{', '.join(unknown)} is no section; {', '.join(SECTIONS)} are")
    os.environ["OMP_NUM_THREADS"] = "1"
    failed = 0
    for name, found, seconds in compute(names, given):
        if given.what == "write":
            print(f"{name}: {write(name, found)} values written, {seconds:.0f} s", flush=True)
        else:
            n = judge(name, found)
            failed += n
            print(f"{name}: {n} differences, {seconds:.0f} s", flush=True)
    return int(failed > 0)


def read(name: str) -> dict:
    """Read a section's file."""
    path = FILES / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {"goes": {}, "values": {}}


def write(name: str, found: dict[str, dict]) -> int:
    """Write a section's file; parts that were skipped stay as they are."""
    every, held = section(name), read(name)
    if failed := [f"{part}: {values[FAILED]}" for part, values in found.items() if FAILED in values]:
        raise SystemExit("\n".join([*failed, f"{name}: nothing is written"]))
    values = {part: found.get(part, held["values"].get(part)) for part in every.PARTS}
    values = {part: one for part, one in values.items() if one is not None}
    parts = ",\n".join(f"{json.dumps(part)}: {_lines(one)}" for part, one in values.items())
    goes = _lines(getattr(every, "GOES", {}))
    (FILES / f"{name}.json").write_text(f'{{"goes": {goes},\n"values": {{\n{parts}\n}}}}\n')
    return sum(len(one) for one in values.values())


def _lines(values: dict[str, object]) -> str:
    """Write one line a key, so that a change of one value is a change of one line."""
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items()) + "\n}"


if __name__ == "__main__":
    sys.exit(main())
