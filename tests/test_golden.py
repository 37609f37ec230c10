"""What the product answers is what it answered: `benchmarks/golden.py check`, a section a test."""

import subprocess
import sys

import pytest
from conftest import ROOT
from golden_set import SECTIONS


@pytest.mark.slow
@pytest.mark.parametrize("name", SECTIONS)
def test_section(name):
    """Nothing differs; parts whose logs are not there are named as skipped."""
    line = [sys.executable, ROOT / "benchmarks/golden.py", "check", name, "--workers", "1"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = [text for text in done.stdout.splitlines() if ": skipped, " in text]
    if skipped:
        pytest.skip("; ".join(skipped))
