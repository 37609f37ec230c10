"""Policies by name, each as a dotted string, so that what a policy needs loads only when it is asked for.

One grammar everywhere: ``easy`` or ``easy:depth=4,order=sjf``. Other packages add policies through the
entry-point group `procure.policies`, as the rooms of procure do; each entry point names an `Entry`.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import pandas as pd
from pydantic import Field, ValidationError

from procure.errors import ArgumentError, TableError
from procure.policies import entries
from procure.policies.entries import POLICIES, REMOVED, Entry
from procure.policies.parameters import Facts, OneOf, Parameters, Seam
from procure.settings import complaint, problems, validate, validated
from procure.simulator.drive import Policy, policy_name
from procure.simulator.state import Options, State
from procure.text import nearest

DEFAULT = "best-fit"
"""The policy where none is named."""
ALL_OPTIONS: Mapping[str, Any] = MappingProxyType({"*": None})
"""In place of parameters: whatever options installed packages offer."""


def names() -> list[str]:
    """Return the names of all policies: those of `procure.policies`, then those of rooms and installed packages."""
    return [*POLICIES, *(name for name in entries.offered(entries.POLICY_GROUP) if name not in POLICIES)]


def entry(name: str) -> Entry:
    """Return a policy's entry.

    A `TableError` where nothing has this name gives the nearest, or says why an installed package's cannot be loaded.
    """
    if name in POLICIES:
        return POLICIES[name]
    if name not in entries.offered(entries.POLICY_GROUP):
        raise TableError(f"policy {name!r} is not known; {REMOVED.get(name) or nearest(name, names())}")
    found = entries.load(entries.POLICY_GROUP, name, "policy")
    if not isinstance(found, Entry):
        (point, *_) = entries.offered(entries.POLICY_GROUP)[name]
        raise TableError(f"policy {name!r} of an installed package: {point.value} is no procure.policies.catalog.Entry")
    return found


def model_of(name: str, given: Mapping[str, Any] = MappingProxyType({})) -> type[Parameters]:
    """Import the model of a policy's parameters, which makes the policy; errors as `entry`.

    ``given`` are the parameters: an order, a hold-back or a place of another room brings parameters of its own.
    """
    found = entry(name)
    module, _, attribute = found.target.partition(":")
    try:
        model = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise TableError(f"policy {name!r} cannot be loaded from {found.target}: {error}") from error
    if not (isinstance(model, type) and issubclass(model, Parameters)):
        raise TableError(f"policy {name!r}: {found.target} is no subclass of procure.policies.Parameters")
    return with_seams(model, {**given, **found.preset})


def with_seams(model: type[Parameters], given: Mapping[str, Any]) -> type[Parameters]:
    """Return the model of a policy's parameters with those of what is chosen for its seams, or say that it cannot load.

    Options that a package adds to composed policies load when a parameter is given that the model does not have.
    """
    kinds = {
        key: kind for key, field in model.model_fields.items() for kind in field.metadata if isinstance(kind, Seam)
    }
    if not kinds:
        return model
    offers = entries.offered(entries.SEAMS)
    chosen = [f"{kind.kind}.{given.get(key, model.model_fields[key].default)}" for key, kind in kinds.items()]
    wanted = [name for name in dict.fromkeys(chosen) if name in offers]
    mixins = [_as_parameters(name, entries.load(entries.SEAMS, name, "the seam")) for name in wanted]
    known = set().union(model.model_fields, *(mixin.model_fields for mixin in mixins))
    if not given.keys() <= known:
        mixins += [entries.load(entries.SEAMS, name, "the option") for name in offers if "." not in name]
    return _combined(model, *mixins)


@functools.cache
def _as_parameters(name: str, found: Any) -> type[Parameters]:
    """Return a model that makes a seam's class, if the class itself is what is offered."""
    if isinstance(found, type) and issubclass(found, Parameters):
        return found
    kind, _, chosen = name.partition(".")

    def made(state: Any) -> Any:
        return found.make(state) if hasattr(found, "make") else found()

    def make_order(self: Any, state: Any, order: str) -> Any:
        return made(state) if order == chosen else super(mixin, self).make_order(state, order)

    makers: dict[str, tuple[str, Callable]] = {
        "order": ("make_order", make_order),
        "hold": ("make_hold", lambda self, state: made(state)),
        "place": ("make_picker", lambda self, state: made(state)),
    }
    method, maker = makers[kind]
    written: dict[str, Any] = {"__doc__": found.__doc__, method: maker}
    if kind == "place":
        written |= {"takes_tasks": False, "__annotations__": {"takes_tasks": ClassVar[bool]}}
    mixin: Any = type(found.__name__, (Parameters,), written)
    return mixin


@functools.cache
def _combined(model: type[Parameters], *mixins: type[Parameters]) -> type[Parameters]:
    if not mixins:
        return model
    return type(model.__name__, (*mixins, model), {"__doc__": model.__doc__, "__module__": model.__module__})


def settable(name: str, given: Mapping[str, Any] = MappingProxyType({})) -> list[str]:
    """Return the parameters of a policy that can be set."""
    preset = entry(name).preset
    return [key for key in model_of(name, given).model_fields if key not in preset]


def parameter_rows(name: str) -> list[dict[str, Any]]:
    """Describe each parameter of a policy that can be set: its name, type, default, range and meaning."""
    model = model_of(name, ALL_OPTIONS)
    rows = []
    for key in settable(name, ALL_OPTIONS):
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
    """Check a policy, ``NAME`` or ``NAME:key=value,key=value``, with further parameters by name.

    Names of files are relative to ``folder`` and become absolute; None leaves them alone. An unknown policy or
    parameter and values that are not allowed are one `TableError`: all of them, with what is legal.
    """
    name, written = split(policy)
    for key in written.keys() & (parameters or {}).keys():
        raise TableError(f"policy {policy!r}: {key} is given twice")
    given = written | dict(parameters or {})
    found = entry(name)
    if "fit" in given and "fit" not in (known := model_of(name).model_fields) and "place" in known:
        given["place"] = given.pop("fit")  # as it was called before places other than fits could be chosen
    model, legal = model_of(name, given), settable(name, given)
    if not given.keys() <= set(legal):
        model, legal = model_of(name, {**given, **ALL_OPTIONS}), settable(name, {**given, **ALL_OPTIONS})
    instead = {
        key: REMOVED.get(f"{name}:{key}") or REMOVED.get(key) or nearest(key, legal)
        for key in given
        if key not in legal
    }
    lines = [f"no parameter {key!r}; {text}" for key, text in instead.items()]
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
        made = validate(model, {key: given[key] for key in given if key in legal} | dict(found.preset), folder)
    except ValidationError as error:
        lines += problems(error)
    if lines:
        raise TableError(complaint(f"policy {name}", lines))
    return PolicySpec(name, found, made)


def is_batched(policy: str) -> bool:
    """Say whether many packages are simulated under a policy in milliseconds each."""
    return spec(policy).batched


def split(policy: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME:key=value,key=value`` into the name and the parameters as text, or refuse what is not written so."""
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


def label(policy: str | Parameters | Callable) -> str:
    """Return what to call a policy: its name as given, its parameters' class and values, or its function's name."""
    if not isinstance(policy, Parameters):
        return policy if isinstance(policy, str) else policy_name(policy)
    changed = ",".join(f"{key}={value}" for key, value in policy.model_dump(exclude_defaults=True).items())
    return type(policy).__name__ + (f":{changed}" if changed else "")


class Chosen(NamedTuple):
    """Which policy decides a run: what to call it, how it is made, and what the simulator does for it."""

    name: str
    make: Callable[[State, Facts], Policy]
    options: Options
    batched: bool = False
    made: Parameters | None = None


class _CallableOptions(Parameters):
    half_life: float = Field(0.0, ge=0)

    def options(self) -> Options:
        return super().options()._replace(half_life=self.half_life)


def chosen_policy(policy: Any, parameters: dict[str, Any]) -> Chosen:
    """Return what decides a run, of a name, of parameters that make it, or of a callable of the policy protocol."""
    if isinstance(policy, str):
        found = spec(policy, parameters)
        made = found.parameters
        return Chosen(found.name, made.make_with, made.options(), found.batched, made)
    if isinstance(policy, Parameters):
        if parameters:
            raise ArgumentError("parameters", "they belong to a policy that is named, or to a callable")
        return Chosen(label(policy), policy.make_with, policy.options(), made=policy)
    plain = validated(_CallableOptions, parameters, "parameters of a callable policy")
    return Chosen(label(policy), lambda state, facts: policy, plain.options())


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
            f"policy {policy} needs the leaf and the pod of each node, which no quote gives; `procure compare` and "
            "`procure simulate` know them from a node table"
        )
