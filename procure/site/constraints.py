"""Which nodes a job's constraint allows: groups of them, each with how many nodes it counts."""

from __future__ import annotations

import re

import numpy as np

from procure.errors import TableError


def constraint_groups(text: str, features: list[set[str]]) -> list[tuple[np.ndarray, int]]:
    """Read a ``--constraint``: groups of nodes and how many are taken of each (0 = all that are asked for).

    ``a&b`` both, ``a|b`` either, ``[a|b]`` all nodes alike (the groups are then alternatives, marked −1), ``a*2&b*1``
    counts, parentheses (sbatch(1), ``--constraint``).
    """
    text = text.strip().strip('"')
    plain = text.replace(",", "&")
    counts = re.findall(r"([^\[\]()&|*]+)\*(\d+)", plain)
    if counts:
        return [(_has(name.strip("[]()"), features), int(count)) for name, count in counts]
    if alike := re.search(r"\[([^\[\]]*\|[^\[\]]*)\]", plain):
        parts = re.split(r"\|(?![^(]*\))", alike[1])  # of the brackets themselves, not of parentheses within
        return [(_matching(plain.replace(alike[0], f"({part})"), features), -1) for part in parts]
    return [(_matching(plain, features), 0)]


def _has(name: str, features: list[set[str]]) -> np.ndarray:
    return np.array([name in each for each in features], bool)


def _matching(text: str, features: list[set[str]]) -> np.ndarray:
    """Return which nodes match: ``&`` above ``|``, and what stands in parentheses above both."""
    known: dict[str, np.ndarray] = {}

    def either(part: str) -> np.ndarray:
        return np.any([np.all([one(name.strip()) for name in each.split("&")], 0) for each in part.split("|")], 0)

    def one(name: str) -> np.ndarray:
        if not name:
            raise TableError(f"constraint {text!r} ends where a feature is expected")
        return known[name] if name in known else _has(name, features)

    rest = text.replace("[", "(").replace("]", ")")
    while inner := re.search(r"\(([^()]*)\)", rest):
        known[key := f"<{len(known)}>"] = either(inner[1])
        rest = rest.replace(inner[0], key)
    return either(rest)
