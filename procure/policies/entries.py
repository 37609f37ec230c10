"""What the catalog keeps of a policy, and the policies of `procure.policies` itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """Where a policy stands and what it does in one line.

    ``target`` is ``module:class``, a subclass of `procure.policies.parameters.Parameters`, which holds
    the policy's parameters and makes the policy of a run; ``preset`` are parameters that the name
    stands for and that cannot be set. ``multi_node`` says whether it places jobs of several nodes,
    ``compiled`` whether it runs without Python, ``batched`` whether, with default parameters, a kernel
    of its own simulates many packages in milliseconds each (`procure.simulator.batch`).
    """

    target: str
    summary: str
    multi_node: bool = False
    compiled: bool = False
    batched: bool = False
    preset: Mapping[str, Any] = MappingProxyType({})


def _queue(kind: str, order: str, summary: str) -> Entry:
    return Entry(f"procure.policies.queue:{kind}", summary, True, True, preset={"order": order})


def _easy(summary: str, **preset: Any) -> Entry:
    return Entry("procure.policies.easy:Easy", summary, True, True, preset=preset)


_AFTER = "the first in the order blocks the others"

POLICIES: dict[str, Entry] = {
    "fcfs": _queue("Strict", "fcfs", "first come, first served: no job overtakes another"),
    "lcfs": _queue("Strict", "lcfs", f"last come, first served; {_AFTER}"),
    "edf": _queue("Strict", "edf", f"earliest due date first; {_AFTER}; without due dates it is fcfs"),
    "sjf": _queue("Skipping", "sjf", "shortest requested time first; jobs that do not fit are skipped"),
    "smallest-first": _queue("Skipping", "smallest", "fewest CPUs first; jobs that do not fit are skipped"),
    "largest-first": _queue("Skipping", "largest", "most CPUs first; jobs that do not fit are skipped"),
    "first-fit": _queue("Skipping", "fcfs", "queue order; jobs that do not fit are skipped"),
    "best-fit": Entry(
        "procure.policies.best_fit:BestFit",
        "the job and nodes that leave the least of the resources that the job asks for",
        True,
        True,
        batched=True,
    ),
    "best-fit-of-node": Entry(
        "procure.policies.best_fit:BestFitOfNode", "the same, averaged over the resources that the node has", True, True
    ),
    "easy": _easy("fcfs, and jobs that do not delay the first one's reservation overtake"),
    "easy-sjf": _easy("easy, trying the shortest requested time first behind the reservation", order="sjf"),
    "easy-by-time": _easy("easy, overtaking only by what ends strictly before the reservation", by_time_only=True),
    "easy-last-two": _easy("easy, estimating a job by its user's last two run times", last_two=True),
    "conservative": Entry(
        "procure.policies.conservative:Conservative",
        "every job is promised a start at submission; overtaking only where no promise suffers",
        True,
        True,
    ),
    "earliest-gap": Entry(
        "procure.policies.gaps:EarliestGap", "a plan of all jobs in queue order, each in its earliest gap", True, True
    ),
    "best-gap": Entry(
        "procure.policies.gaps:BestGap", "a plan; a new job goes where expected slowdowns become least", True, True
    ),
    "tabu": Entry("procure.policies.gaps:TabuSearch", "best-gap, improved by tabu search over the plan's order", True),
    "priority": _queue("Strict", "priority", f"age, fair share and size, weighted; {_AFTER}"),
    "wfp3": _queue("Strict", "wfp3", f"largest (wait / run time)³ × CPUs first; {_AFTER}"),
    "unicef": _queue("Strict", "unicef", f"largest wait / (log₂ CPUs × run time) first; {_AFTER}"),
    "f1": _queue("Strict", "f1", f"lowest log₁₀(r) n + 870 log₁₀(s) first; {_AFTER}"),
    "f2": _queue("Strict", "f2", f"lowest √r n + 25,600 log₁₀(s) first; {_AFTER}"),
    "f3": _queue("Strict", "f3", f"lowest r n + 6,860,000 log₁₀(s) first; {_AFTER}"),
    "f4": _queue("Strict", "f4", f"lowest r √n + 530,000 log₁₀(s) first; {_AFTER}"),
}
