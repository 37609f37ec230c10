"""Which nodes a job's constraint allows: groups of them, each with how many nodes it counts."""

from __future__ import annotations

import re

import numpy as np

from procure.errors import TableError

_TOKEN = re.compile(r"[^\[\]()&|*,\s]+|\*\d+|[\[\]()&|,]")


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
    if plain.startswith("[") and "|" in plain:
        return [(_matching(part, features), -1) for part in plain.strip("[]").split("|")]
    return [(_matching(plain, features), 0)]


def _has(name: str, features: list[set[str]]) -> np.ndarray:
    return np.array([name in each for each in features], bool)


def _matching(text: str, features: list[set[str]]) -> np.ndarray:
    tokens = _TOKEN.findall(text.replace("[", "(").replace("]", ")"))
    position = 0

    def either() -> np.ndarray:
        nonlocal position
        found = both()
        while position < len(tokens) and tokens[position] == "|":
            position += 1
            found = found | both()
        return found

    def both() -> np.ndarray:
        nonlocal position
        found = one()
        while position < len(tokens) and tokens[position] == "&":
            position += 1
            found = found & one()
        return found

    def one() -> np.ndarray:
        nonlocal position
        if position >= len(tokens):
            raise TableError(f"constraint {text!r} ends where a feature is expected")
        token = tokens[position]
        position += 1
        if token == "(":
            found = either()
            position += 1
            return found
        return _has(token, features)

    return either()
