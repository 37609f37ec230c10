"""What the tests share: the real logs, where they are at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slurm_lab import slurm_lab

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Give the path of a real log, or skip the test and name the file that it needs."""

    def find(name: str) -> Path:
        path = SHARED_DATA / name
        if not path.exists():
            pytest.skip(f"needs ../shared/data/{name}")
        return path

    return find


@pytest.fixture(scope="session")
def slurm() -> Iterator[None]:
    """Make sure of a Slurm to submit to, or skip the test."""
    yield from slurm_lab()
