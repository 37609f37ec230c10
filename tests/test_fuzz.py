"""Altered files through every reader; `benchmarks/fuzz_readers.py` does the same with ten thousand."""

from __future__ import annotations

from pathlib import Path

import fuzz_readers
import pytest


@pytest.mark.parametrize("n", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_altered_files_are_read_or_refused(n):
    """No traceback, no crash, no hang: altered files of all kinds."""
    counts, faults = fuzz_readers.fuzz(n, seed=n)
    assert faults == []
    assert sum(counts.values()) == n
    kinds = fuzz_readers.KINDS
    assert {name for name, _ in counts} == set(kinds)
    read, refused = (sum(counts[name, outcome] for name in kinds) for outcome in ("read", "refused"))
    assert min(read, refused) > n / 10, "some alterations matter, and some do not"


@pytest.mark.slow
def test_a_fault_is_seen(tmp_path):
    """What is neither read nor refused is named: another exception, a process that ends; the next file is read."""
    texts = {"quotes~1.csv": fuzz_readers.QUOTES, "crash~2.csv": "", "fails~3.csv": "", "quotes~4.csv": "name\nx\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    script = tmp_path.parent / "reads.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(fuzz_readers.__file__).parent)!r})\n"
        "import os, fuzz_readers\n"
        "fuzz_readers.KINDS['crash'] = fuzz_readers.Kind('.csv', lambda path: os.abort())\n"
        "fuzz_readers.KINDS['fails'] = fuzz_readers.Kind('.csv', lambda path: path.nonsense)\n"
        "fuzz_readers.main()\n"
    )
    said = fuzz_readers.read_all(tmp_path, script)
    assert said["quotes~1.csv"] == "read"
    assert said["quotes~4.csv"] == "refused"
    assert said["crash~2.csv"].startswith("the process ended with -6")
    assert said["fails~3.csv"].startswith("AttributeError")
