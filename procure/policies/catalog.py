"""Policies by name, each as a dotted string, so that what a policy needs loads only when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from procure.errors import TableError
from procure.policies import catalog
from procure.policies.names import FITS, HALF_LIFE, ORDERS, PRIORITY
from procure.simulator.state import Options
from procure.text import nearest


class Entry(NamedTuple):
    """Where a policy stands and what it does in one line.

    ``multi_node`` says whether it places jobs of several nodes, ``loop`` where its compiled loop
    stands (without one it is called from Python), ``options`` how it is set: the fields of
    `procure.simulator.state.Options`, with orders and fits by name.
    """

    target: str
    summary: str
    multi_node: bool = False
    loop: str = ""
    options: Mapping[str, Any] = MappingProxyType({})


def _queue(kind: str, order: str, summary: str) -> Entry:
    return Entry(
        f"procure.policies.queue:{kind}",
        summary,
        True,
        f"procure.policies.queue:{kind}_loop",
        {"order": order},
    )


def _easy(summary: str, **options: Any) -> Entry:
    return Entry("procure.policies.easy:easy", summary, True, "procure.policies.easy:easy_loop", options)


_AFTER = "the first in the order blocks the others"

POLICIES: dict[str, Entry] = {
    "fcfs": _queue("strict", "fcfs", "first come, first served: nobody overtakes"),
    "lcfs": _queue("strict", "lcfs", f"last come, first served; {_AFTER}"),
    "edf": _queue("strict", "edf", f"earliest due date first; {_AFTER}; without due dates it is fcfs"),
    "sjf": _queue("skipping", "sjf", "shortest requested time first; who does not fit is skipped"),
    "smallest-first": _queue("skipping", "smallest", "fewest CPUs first; who does not fit is skipped"),
    "largest-first": _queue("skipping", "largest", "most CPUs first; who does not fit is skipped"),
    "first-fit": _queue("skipping", "fcfs", "queue order; who does not fit is skipped"),
    "best-fit": Entry(
        "procure.policies.best_fit:best_fit",
        "the job and nodes that leave the least of the resources that the job asks for",
        True,
        "procure.policies.best_fit:best_fit_loop",
    ),
    "best-fit-of-node": Entry(
        "procure.policies.best_fit:best_fit_of_node",
        "the same, averaged over the resources that the node has",
        True,
        "procure.policies.best_fit:best_fit_of_node_loop",
    ),
    "easy": _easy("fcfs, and jobs that do not delay the first one's reservation overtake"),
    "easy-sjf": _easy(
        "easy, trying the shortest requested time first behind the reservation", backfill_order="sjf"
    ),
    "easy-by-time": _easy(
        "easy, overtaking only by what ends strictly before the reservation", by_time_only=1
    ),
    "easy-last-two": _easy("easy, estimating a job by its user's last two run times", last_two=1),
    "conservative": Entry(
        "procure.policies.conservative:conservative",
        "every job is promised a start at submission; overtaking only where no promise suffers",
        True,
        "procure.policies.conservative:conservative_loop",
    ),
    "earliest-gap": Entry(
        "procure.policies.gaps:earliest_gap",
        "a plan of all jobs in queue order, each in its earliest gap",
        True,
    ),
    "best-gap": Entry(
        "procure.policies.gaps:best_gap", "a plan; a new job goes where expected slowdowns become least", True
    ),
    "tabu": Entry(
        "procure.policies.gaps:tabu_search", "best-gap, improved by tabu search over the plan's order", True
    ),
    "priority": _queue("strict", "priority", f"age, fair share and size, weighted; {_AFTER}"),
    "wfp3": _queue("strict", "wfp3", f"largest (wait / run time)³ × CPUs first; {_AFTER}"),
    "unicef": _queue("strict", "unicef", f"largest wait / (log₂ CPUs × run time) first; {_AFTER}"),
    "f1": _queue("strict", "f1", f"lowest log₁₀(r) n + 870 log₁₀(s) first; {_AFTER}"),
    "f2": _queue("strict", "f2", f"lowest √r n + 25,600 log₁₀(s) first; {_AFTER}"),
    "f3": _queue("strict", "f3", f"lowest r n + 6,860,000 log₁₀(s) first; {_AFTER}"),
    "f4": _queue("strict", "f4", f"lowest r √n + 530,000 log₁₀(s) first; {_AFTER}"),
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


def resolve_options(name: str | None, given: Mapping[str, Any]) -> Options:
    """Return how a policy is set: its entry's options, overruled by those given.

    Parameters
    ----------
    name
        A policy of the catalog; None for a callable of one's own.
    given
        Fields of `procure.simulator.state.Options`, orders and fits by name.

    Raises
    ------
    TableError
        An unknown option, order or fit, or an amount that makes no sense.
    """
    merged = dict(entry(name).options if name else {}) | dict(given)
    for key, value in merged.items():
        if key not in Options._fields:
            raise TableError(f"option {key!r} is not known; {nearest(key, Options._fields)}")
        legal = {"order": ORDERS, "backfill_order": ORDERS, "fit": FITS}.get(key)
        if legal is None:
            try:
                merged[key] = type(Options._field_defaults[key])(value)
            except (TypeError, ValueError):
                raise TableError(f"option {key} is {value!r}; a number is needed") from None
            if not merged[key] >= 0:
                raise TableError(f"option {key} is {value!r}; at least 0 is needed")
        elif value in legal:
            merged[key] = legal.index(value)
        else:
            raise TableError(f"{key} {value!r} is not known; {nearest(str(value), legal)}")
    options = Options(**merged)
    if options.depth < 1:
        raise TableError("a depth of at least 1 reservation is needed; without any, that is first-fit")
    if options.by_time_only and options.depth > 1:
        raise TableError("by_time_only knows one reservation only; leave depth at 1")
    if PRIORITY in (options.order, options.backfill_order) and options.half_life == 0:
        options = options._replace(half_life=HALF_LIFE)
    return options


_TAKES = {
    "easy": {"order": "backfill_order", "queue_order": "order", "fit": "fit", "depth": "depth"},
    "conservative": {"order": "order"},
    "queue": {"fit": "fit"},
}
"""What a user may set, by the module of the policy, and the option that it sets."""


def user_options(name: str, **given: Any) -> dict[str, Any]:
    """Translate what a user set (None = not) into options; the order of EASY is that of the backfilling.

    Raises
    ------
    TableError
        The policy has no such choice.
    """
    takes = _TAKES.get(entry(name).target.split(":")[0].rpartition(".")[2], {}) | {"exclusive": "exclusive"}
    asked = {key: value for key, value in given.items() if value is not None}
    for key in asked:
        if key not in takes:
            raise TableError(
                f"policy {name} has no {key.replace('_', '-')} to choose; "
                f"it takes {', '.join(each.replace('_', '-') for each in takes)}"
            )
    return {takes[key]: value for key, value in asked.items()}


def _attribute(target: str) -> Any:
    module, attribute = target.split(":")
    return getattr(importlib.import_module(module), attribute)


def load(name: str) -> Callable[[Any], tuple[int, Any]]:
    """Import a policy by its name."""
    return _attribute(entry(name).target)


def load_loop(name: str) -> Callable | None:
    """Import a policy's compiled loop by the policy's name; None where it has none."""
    loop = entry(name).loop
    return _attribute(loop) if loop else None


FAST_LANE_POLICY = "best-fit"


def refuse_multi_node(jobs: pd.DataFrame, policy: str) -> None:
    """Refuse jobs of several nodes under a policy that places single-node jobs only, naming the first."""
    several = jobs["n_nodes"].to_numpy() > 1
    if several.any() and not catalog.entry(policy).multi_node:
        first = jobs.loc[several].iloc[0]
        able = [name for name, entry in catalog.POLICIES.items() if entry.multi_node]
        raise TableError(
            f"job {first['job_id']} asks for {first['n_nodes']} nodes, and {several.sum()} of {len(jobs)} "
            f"jobs ask for more than one; policy {policy} places single-node jobs only; "
            f"policies that place such jobs: {', '.join(able) or 'none yet'}"
        )
