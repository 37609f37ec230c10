"""Policies by name, each as a dotted string, so that what a policy needs loads only when it is asked for.

One grammar everywhere: ``easy`` or ``easy:depth=4,order=sjf``. Other packages add policies through the
entry-point group `GROUP`; each entry point names an `Entry`.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd
from pydantic import ValidationError

from procure.errors import TableError
from procure.policies.parameters import OneOf, Parameters
from procure.settings import complaint, problems, validate
from procure.text import nearest

GROUP = "procure.policies"
"""The entry-point group in which installed packages offer policies."""
DEFAULT = "best-fit"
"""The policy where none is named."""


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
    return Entry("procure.learn.easy:EstimatedEasy", summary, True, True, preset=preset)


def _on_tree(model: str, which: str) -> Entry:
    return Entry(f"procure.topology.policies:{model}", f"easy, exclusive, on a fat-tree: {which}", True, True)


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
        "procure.policies.best_fit:BestFitOfNode",
        "the same, averaged over the resources that the node has",
        True,
        True,
    ),
    "easy": _easy("fcfs, and jobs that do not delay the first one's reservation overtake"),
    "easy-sjf": _easy("easy, trying the shortest requested time first behind the reservation", order="sjf"),
    "easy-by-time": _easy(
        "easy, overtaking only by what ends strictly before the reservation", by_time_only=True
    ),
    "easy-last-two": _easy("easy, estimating a job by its user's last two run times", last_two=True),
    "conservative": Entry(
        "procure.policies.conservative:Conservative",
        "every job is promised a start at submission; overtaking only where no promise suffers",
        True,
        True,
    ),
    "earliest-gap": Entry(
        "procure.policies.gaps:EarliestGap",
        "a plan of all jobs in queue order, each in its earliest gap",
        True,
        True,
    ),
    "best-gap": Entry(
        "procure.policies.gaps:BestGap",
        "a plan; a new job goes where expected slowdowns become least",
        True,
        True,
    ),
    "tabu": Entry(
        "procure.policies.gaps:TabuSearch", "best-gap, improved by tabu search over the plan's order", True
    ),
    "priority": _queue("Strict", "priority", f"age, fair share and size, weighted; {_AFTER}"),
    "wfp3": _queue("Strict", "wfp3", f"largest (wait / run time)³ × CPUs first; {_AFTER}"),
    "unicef": _queue("Strict", "unicef", f"largest wait / (log₂ CPUs × run time) first; {_AFTER}"),
    "f1": _queue("Strict", "f1", f"lowest log₁₀(r) n + 870 log₁₀(s) first; {_AFTER}"),
    "f2": _queue("Strict", "f2", f"lowest √r n + 25,600 log₁₀(s) first; {_AFTER}"),
    "f3": _queue("Strict", "f3", f"lowest r n + 6,860,000 log₁₀(s) first; {_AFTER}"),
    "f4": _queue("Strict", "f4", f"lowest r √n + 530,000 log₁₀(s) first; {_AFTER}"),
    "learned": Entry(
        "procure.learn.policy:Learned", "what `procure learn train` found to be best", True, True
    ),
    "forecast": Entry(
        "procure.forecast.policies:Forecast", "easy, with nodes held for jobs that are expected", True, True
    ),
    "any": _on_tree("Any", "any idle nodes"),
    "compact": _on_tree("Compact", "the fewest switches; links are shared"),
    "tiers": _on_tree("Tiers", "no shared links, by rules for jobs of a leaf, of a pod and of several pods"),
    "isolated": _on_tree("Isolated", "no shared links, each job with links of its own"),
    "closest": Entry(
        "procure.window.policies:Closest",
        "easy, exclusive, on a fat-tree: each job at the start along the idle nodes with the fewest hops",
        True,
        True,
    ),
    "window": Entry(
        "procure.window.policies:Windows",
        "exclusive, on a fat-tree: jobs wait some seconds and are then placed together with few hops",
        True,
        True,
    ),
    "coschedule": Entry(
        "procure.coschedule.policy:Coschedule",
        "first-fit, and jobs with profiles may run inside others' allocations at a quota",
        True,
        True,
    ),
}


@functools.cache
def _installed() -> dict[str, list[EntryPoint]]:
    """Return the entry points of installed packages by name; the names of `POLICIES` are taken."""
    by_name: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        if point.name not in POLICIES:
            by_name.setdefault(point.name, []).append(point)
    return dict(sorted(by_name.items()))


def _entry_of(points: list[EntryPoint]) -> Entry:
    name, offers = points[0].name, {f"{point.value}" for point in points}
    if len(offers) > 1:
        raise TableError(f"policy {name!r} is offered by several packages: {', '.join(sorted(offers))}")
    try:
        found = points[0].load()
    except Exception as error:  # whatever another package does when it is imported
        raise TableError(
            f"policy {name!r} of an installed package cannot be loaded from {points[0].value}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, Entry):
        raise TableError(
            f"policy {name!r} of an installed package: {points[0].value} is no procure.policies.catalog.Entry"
        )
    return found


def names() -> list[str]:
    """Return the names of all policies: those of the catalog, then those of installed packages."""
    return [*POLICIES, *_installed()]


def entry(name: str) -> Entry:
    """Return a policy's entry.

    Raises
    ------
    TableError
        Nothing has this name (the nearest names are given), or it is that of an installed package and
        cannot be loaded.
    """
    if name in POLICIES:
        return POLICIES[name]
    installed = _installed()
    if name not in installed:
        raise TableError(f"policy {name!r} is not known; {nearest(name, [*POLICIES, *installed])}")
    return _entry_of(installed[name])


def model_of(name: str) -> type[Parameters]:
    """Import the model of a policy's parameters, which makes the policy.

    Raises
    ------
    TableError
        As `entry`; or the target is no such model.
    """
    target = entry(name).target
    module, _, attribute = target.partition(":")
    try:
        model = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise TableError(f"policy {name!r} cannot be loaded from {target}: {error}") from error
    if not (isinstance(model, type) and issubclass(model, Parameters)):
        raise TableError(f"policy {name!r}: {target} is no subclass of procure.policies.Parameters")
    return model


def settable(name: str) -> list[str]:
    """Return the parameters of a policy that can be set."""
    preset = entry(name).preset
    return [key for key in model_of(name).model_fields if key not in preset]


def parameter_rows(name: str) -> list[dict[str, Any]]:
    """Describe each parameter of a policy that can be set: its name, type, default, range and meaning."""
    model = model_of(name)
    rows = []
    for key in settable(name):
        field = model.model_fields[key]
        annotation = getattr(field.annotation, "__name__", str(field.annotation))
        limits = [
            f"{sign} {getattr(each, bound):,}"
            for each in field.metadata
            for bound, sign in (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
            if hasattr(each, bound)
        ]
        limits += [", ".join(each.names) for each in field.metadata if isinstance(each, OneOf)]
        rows.append(
            {
                "parameter": key,
                "type": annotation,
                "default": _as_text(field.get_default()),
                "range": "; ".join(limits),
                "meaning": field.description or "",
            }
        )
    return rows


@dataclass(frozen=True)
class PolicySpec:
    """A policy with its parameters, checked."""

    name: str
    entry: Entry
    parameters: Parameters

    @property
    def label(self) -> str:
        """The one way to write it: ``easy:depth=4``, with the parameters that differ from the defaults."""
        shown = []
        for key, field in type(self.parameters).model_fields.items():
            value = getattr(self.parameters, key)
            if key not in self.entry.preset and value != field.default:
                shown.append(f"{key}={_as_text(value)}")
        return f"{self.name}:{','.join(shown)}" if shown else self.name

    @property
    def batched(self) -> bool:
        """Whether many packages are simulated in milliseconds each."""
        return self.entry.batched and self.label == self.name


def _as_text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.removesuffix(".0") if isinstance(value, float) else text


def spec(policy: str, parameters: Mapping[str, Any] | None = None, folder: Path | None = None) -> PolicySpec:
    """Check a policy and its parameters.

    Parameters
    ----------
    policy
        ``NAME`` or ``NAME:key=value,key=value``.
    parameters
        Further parameters by name.
    folder
        Names of files are relative to it, and become absolute; None leaves them alone.

    Raises
    ------
    TableError
        An unknown policy or parameter, or a value that is not allowed: all of them, with what is legal.
    """
    name, written = split(policy)
    for key in written.keys() & (parameters or {}).keys():
        raise TableError(f"policy {policy!r}: {key} is given twice")
    given = written | dict(parameters or {})
    found = entry(name)
    model = model_of(name)
    legal = settable(name)
    lines = [f"no parameter {key!r}; {nearest(key, legal)}" for key in given if key not in legal]
    lines += [
        f"{key}: {value!r} was given; a value holds no comma"
        for key, value in given.items()
        if isinstance(value, str) and "," in value
    ]
    lines += [
        f"{key}: {str(value).lower()} was given; it must be a number"  # True would become 1
        for key, value in given.items()
        if isinstance(value, bool) and key in legal and model.model_fields[key].annotation in (int, float)
    ]
    try:
        made = validate(
            model, {key: given[key] for key in given if key in legal} | dict(found.preset), folder
        )
    except ValidationError as error:
        lines += problems(error)
    if lines:
        raise TableError(complaint(f"policy {name}", lines))
    return PolicySpec(name, found, made)


def is_batched(policy: str) -> bool:
    """Say whether many packages are simulated under a policy in milliseconds each."""
    return spec(policy).batched


def split(policy: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME:key=value,key=value`` into the name and the parameters as text.

    Raises
    ------
    TableError
        It is not written so, or one key stands twice.
    """
    name, colon, rest = policy.partition(":")
    given: dict[str, str] = {}
    for item in rest.split(",") if colon else []:
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key or not value:
            raise TableError(f"policy {policy!r}: {item!r} was given; write NAME:key=value,key=value")
        if key in given:
            raise TableError(f"policy {policy!r}: {key} is given twice")
        given[key] = value
    return name.strip(), given


def split_list(text: str) -> list[str]:
    """Split policies separated by commas; a comma before ``key=value`` belongs to the policy before it."""
    found: list[str] = []
    for item in text.split(","):
        if found and ":" in found[-1] and re.match(r"\s*\w+\s*=", item):
            found[-1] += f",{item}"
        elif item.strip():
            found.append(item.strip())
    return found


def from_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the option names of earlier versions: EASY's ``order`` was ``backfill_order``."""
    old = {"order": "queue_order", "backfill_order": "order"}
    if "queue_order" not in model_of(name).model_fields:
        return dict(options)
    return {old.get(key, key): value for key, value in options.items()}


def refuse_multi_node(jobs: pd.DataFrame, policy: str) -> None:
    """Refuse jobs of several nodes under a policy that places single-node jobs only, naming the first."""
    several = jobs["n_nodes"].to_numpy() > 1
    if several.any() and not entry(split(policy)[0]).multi_node:
        first = jobs.loc[several].iloc[0]
        able = [name for name, each in POLICIES.items() if each.multi_node]
        raise TableError(
            f"job {first['job_id']} asks for {first['n_nodes']} nodes, and {several.sum()} of {len(jobs)} "
            f"jobs ask for more than one; policy {policy} places single-node jobs only; "
            f"policies that place such jobs: {', '.join(able) or 'none yet'}"
        )


def refuse_on_packages(policy: str) -> None:
    """Refuse a policy that needs to know where in a network each node is: no quote tells that."""
    if spec(policy).parameters.needs_tree:
        raise TableError(
            f"policy {policy} needs the leaf and the pod of each node, which no quote tells; `procure compare` and "
            "`procure simulate` know them from a node table"
        )
