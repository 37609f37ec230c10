"""Numbers and names as sentences hold them."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 3


def counted(n: int, noun: str, plural: str = "") -> str:
    """Say how many: ``1 job``, ``1,200 jobs``; ``plural`` where it is not the noun and an s."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def be(n: int) -> str:
    """Return the verb for so many: ``is`` or ``are``."""
    return "is" if n == 1 else "are"


def listed(names: Sequence[str]) -> str:
    """Name all of up to four, else the first three and how many more: ``mon, tue, wed and 22 more``."""
    if len(names) <= _NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more"
