"""What installed packages offer through entry points: policies, and what composes with policies."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from procure.errors import TableError

POLICIES = "procure.policies"
"""The group of whole policies; each entry point names a `procure.policies.entries.Entry`."""
SEAMS = "procure.seams"
"""The group of further orders, hold-backs, places and options of composed policies.

``order.NAME``, ``hold.NAME`` and ``place.NAME`` each name a class of the seam (`procure.simulator.seams`), made by its
``make(state)`` if it has one; or, with parameters, a subclass of `procure.policies.parameters.Parameters` that makes
one and becomes a base of the policy's parameters where the name is chosen. A name without a dot is such a subclass that
any composed policy takes on where one of its parameters is given.
"""
ACCOUNTS = "procure.accounts"
"""The group of accounts of why jobs waited; ``log`` names an object like `procure.account.entries.LogAccount`."""
_OWN = "procure."


@functools.cache
def offered(group: str) -> dict[str, list[EntryPoint]]:
    """Return the entry points of a group by name, sorted; what procure itself offers is not offered by others."""
    by_name: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        by_name.setdefault(point.name, []).append(point)
    return {
        name: [point for point in points if point.value.startswith(_OWN)] or points
        for name, points in sorted(by_name.items())
    }


def load(group: str, name: str, what: str) -> Any:
    """Load what is offered under a name.

    Parameters
    ----------
    what
        What to call it in an error, such as "policy".

    Raises
    ------
    TableError
        Several packages offer the name, or it cannot be imported.
    """
    points = offered(group)[name]
    values = sorted({point.value for point in points})
    if len(values) > 1:
        raise TableError(f"{what} {name!r} is offered by several packages: {', '.join(values)}")
    try:
        return points[0].load()
    except Exception as error:  # whatever another package does when it is imported
        raise TableError(
            f"{what} {name!r} of an installed package cannot be loaded from {values[0]}: "
            f"{type(error).__name__}: {error}"
        ) from error
