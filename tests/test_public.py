"""What `import procure` gives: names with types, signatures that read, examples that run."""

from __future__ import annotations

import inspect

import pytest

import procure


@pytest.mark.parametrize("name", sorted(procure._HOME))
def test_signatures_read(name: str) -> None:
    """No default in a public signature shows as an address in memory."""
    if inspect.isfunction(function := getattr(procure, name)):
        assert " at 0x" not in str(inspect.signature(function))
