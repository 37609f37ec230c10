"""Policies by name, each as a dotted string, so that what a policy needs loads only when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from procure.errors import TableError
from procure.tables import nearest


class Entry(NamedTuple):
    """Where a policy stands, what it does in one line, and whether it places jobs of several nodes."""

    target: str
    summary: str
    multi_node: bool = False


POLICIES: dict[str, Entry] = {
    "best-fit": Entry(
        "procure.policies.best_fit:best_fit",
        "the (job, node) pair that leaves the least of the resources that the job asks for",
    ),
    "best-fit-of-node": Entry(
        "procure.policies.best_fit:best_fit_of_node",
        "the same, averaged over the resources that the node has",
    ),
}


def entry(name: str) -> Entry:
    """Return a policy's entry.

    Raises
    ------
    TableError
        Nothing has this name; the nearest names are given.
    """
    if name not in POLICIES:
        raise TableError(f"policy {name!r} is not known; {nearest(name, POLICIES)}")
    return POLICIES[name]


def load(name: str) -> Callable[[Any], tuple[int, Any]]:
    """Import a policy by its name."""
    module, attribute = entry(name).target.split(":")
    return getattr(importlib.import_module(module), attribute)
