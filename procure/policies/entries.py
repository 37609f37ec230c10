"""The policies by name, what the catalog keeps of one, and what installed packages offer through entry points."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, NamedTuple

from procure.errors import TableError

POLICY_GROUP = "procure.policies"
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


REMOVED = {
    "as-logged": "its learned holds told 2 to 8 % of the waiting of later jobs; rules has what a fit keeps",
    "quantile": "estimates are means of the history; leave it out",
    "owners": "say whose nodes are whose by the partitions of --site, as Slurm does",
    **dict.fromkeys(
        ("slowdown", "exponent"), "no job is slowed; `procure topology worth` says from which cost isolation pays"
    ),
    **dict.fromkeys(("learned:ahead", "learned:every"), "looking ahead made no wait shorter; leave it out"),
    "forecast:control": "exact and shuffled forecasts were controls of a measurement; leave it out",
    "forecast:tz": "days are counted from the first submission, within the tolerance; leave it out",
    "forecast:seed": "nothing is shuffled any more; leave it out",
    "tabu:seconds": "under a limit in seconds the schedule depends on the computer's speed; give rounds",
    "window:solve_time_per_job": "give the usual time of the solver as solve_time",
}
"""What to do instead, by policy, by ``POLICY:PARAMETER``, or by a parameter that several policies had."""


class Entry(NamedTuple):
    """Where a policy stands and what it does in one line.

    ``target`` is ``module:class``, a subclass of `procure.policies.parameters.Parameters`, which holds
    the policy's parameters and makes the policy of a run; ``preset`` are parameters that the name
    stands for and that cannot be set. ``multi_node`` says whether it places jobs of several nodes,
    ``compiled`` whether it runs without Python, ``batched`` whether, with default parameters, a kernel
    of its own simulates many packages in milliseconds each (`procure.simulator.fast_lane`).
    """

    target: str
    summary: str
    multi_node: bool = False
    compiled: bool = False
    batched: bool = False
    preset: Mapping[str, Any] = MappingProxyType({})


def _ours(target: str, summary: str, *, compiled: bool = True, batched: bool = False, **preset: Any) -> Entry:
    return Entry(f"procure.policies.{target}", summary, True, compiled, batched, preset)


_AFTER = "the first in the order blocks the others"
_SKIPPED = "jobs that do not fit are skipped"

POLICIES: dict[str, Entry] = {
    "fcfs": _ours("scheduler:Strict", "first come, first served: no job overtakes another", order="fcfs"),
    "lcfs": _ours("scheduler:Strict", f"last come, first served; {_AFTER}", order="lcfs"),
    "edf": _ours("scheduler:Strict", f"earliest due date first; {_AFTER}; without due dates it is fcfs", order="edf"),
    "sjf": _ours("scheduler:Skipping", f"shortest requested time first; {_SKIPPED}", order="sjf"),
    "smallest-first": _ours("scheduler:Skipping", f"fewest CPUs first; {_SKIPPED}", order="smallest"),
    "largest-first": _ours("scheduler:Skipping", f"most CPUs first; {_SKIPPED}", order="largest"),
    "first-fit": _ours("scheduler:Skipping", f"queue order; {_SKIPPED}", order="fcfs"),
    "best-fit": _ours(
        "best_fit:BestFit",
        "the job and nodes that leave the least of the resources that the job asks for",
        batched=True,
    ),
    "best-fit-of-node": _ours("best_fit:BestFitOfNode", "the same, averaged over the resources that the node has"),
    "easy": _ours("easy:Easy", "fcfs, and jobs that do not delay the first one's reservation overtake"),
    "easy-sjf": _ours(
        "easy:Easy", "easy, trying the shortest requested time first behind the reservation", order="sjf"
    ),
    "easy-by-time": _ours(
        "easy:Easy", "easy, overtaking only by what ends strictly before the reservation", by_time_only=True
    ),
    "easy-last-two": _ours("easy:Easy", "easy, estimating a job by its user's last two run times", last_two=True),
    "conservative": _ours(
        "conservative:Conservative",
        "every job is promised a start at submission; overtaking only where no promise suffers",
    ),
    "earliest-gap": _ours("gaps:EarliestGap", "a plan of all jobs in queue order, each in its earliest gap"),
    "best-gap": _ours("gaps:BestGap", "a plan; a new job goes where expected slowdowns become least"),
    "tabu": _ours("gaps:TabuSearch", "best-gap, improved by tabu search over the plan's order", compiled=False),
    "priority": _ours("scheduler:Strict", f"age, fair share and size, weighted; {_AFTER}", order="priority"),
    "wfp3": _ours("scheduler:Strict", f"largest (wait / run time)³ × CPUs first; {_AFTER}", order="wfp3"),
    "unicef": _ours("scheduler:Strict", f"largest wait / (log₂ CPUs × run time) first; {_AFTER}", order="unicef"),
    "f1": _ours("scheduler:Strict", f"lowest log₁₀(r) n + 870 log₁₀(s) first; {_AFTER}", order="f1"),
    "f2": _ours("scheduler:Strict", f"lowest √r n + 25,600 log₁₀(s) first; {_AFTER}", order="f2"),
    "f3": _ours("scheduler:Strict", f"lowest r n + 6,860,000 log₁₀(s) first; {_AFTER}", order="f3"),
    "f4": _ours("scheduler:Strict", f"lowest r √n + 530,000 log₁₀(s) first; {_AFTER}", order="f4"),
}
