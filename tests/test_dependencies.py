"""The oldest versions that pyproject.toml allows are named to pip as they stand there, and none has a known hole."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SAFE = {
    "jinja2": (3, 1, 6),  # CVE-2025-27516: templates break out of the sandbox
    "cryptography": (46, 0, 7),  # CVE-2024-12797, CVE-2026-26007, CVE-2026-39892
    "dask": (2026, 1, 0),  # CVE-2026-23528: code run through the dashboard
    "pyarrow": (14, 0, 1),  # CVE-2023-47248: files that run code
    "scikit-learn": (1, 5),  # CVE-2024-5206: words kept in a model
    "pydantic": (2, 4, 0),  # CVE-2024-3772: a regular expression without end
}
"""Since which version no advisory is known, where there was one."""


def oldest() -> dict[str, tuple[int, ...]]:
    """Return what `make test-oldest` installs."""
    done = subprocess.run([sys.executable, str(ROOT / ".ci/oldest.py")], capture_output=True, text=True, check=True)
    pairs = (line.split("==") for line in done.stdout.splitlines())
    return {name: tuple(map(int, number.split("."))) for name, number in pairs}


def test_every_dependency_has_a_lowest_version_that_is_tried():
    """`make test-oldest` pins each dependency at its lower bound; time zones alone have none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[\[>=<]", line)[0] for line in project["dependencies"]}
    assert names - set(oldest()) == {"tzdata"}


@pytest.mark.parametrize("name", SAFE)
def test_no_version_with_a_known_hole_is_allowed(name):
    """The lower bound is at, or above, the version that mended the last one known."""
    assert oldest()[name] >= SAFE[name]
