"""Policies by name, each as a dotted string, so that what a policy needs loads only when it is asked for.

One grammar everywhere: ``easy`` or ``easy:depth=4,order=sjf``. Other packages add policies through the
entry-point group `procure.policies`, as the rooms of procure do; each entry point names an `Entry`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
from pydantic import ValidationError

from procure.errors import TableError
from procure.policies import plugins
from procure.policies.entries import POLICIES, Entry
from procure.policies.parameters import OneOf, Parameters
from procure.policies.removed import REMOVED
from procure.policies.seams_of import ALL_OPTIONS, with_seams
from procure.settings import complaint, problems, validate
from procure.text import nearest

DEFAULT = "best-fit"
"""The policy where none is named."""


def names() -> list[str]:
    """Return the names of all policies: those of `procure.policies`, then those of rooms and installed packages."""
    return [*POLICIES, *(name for name in plugins.offered(plugins.POLICIES) if name not in POLICIES)]


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
    if name not in plugins.offered(plugins.POLICIES):
        raise TableError(f"policy {name!r} is not known; {nearest(name, names())}")
    found = plugins.load(plugins.POLICIES, name, "policy")
    if not isinstance(found, Entry):
        (point, *_) = plugins.offered(plugins.POLICIES)[name]
        raise TableError(f"policy {name!r} of an installed package: {point.value} is no procure.policies.catalog.Entry")
    return found


def model_of(name: str, given: Mapping[str, Any] = MappingProxyType({})) -> type[Parameters]:
    """Import the model of a policy's parameters, which makes the policy.

    Parameters
    ----------
    given
        The parameters that are given: an order, a hold-back or a place of another room brings its own parameters.

    Raises
    ------
    TableError
        As `entry`; or the target is no such model.
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
    if "fit" in given and "fit" not in (known := model_of(name).model_fields) and "place" in known:
        given["place"] = given.pop("fit")  # as it was called before places other than fits could be chosen
    model, legal = model_of(name, given), settable(name, given)
    if not given.keys() <= set(legal):
        model, legal = model_of(name, {**given, **ALL_OPTIONS}), settable(name, {**given, **ALL_OPTIONS})
    instead = {key: REMOVED.get(f"{name}:{key}") or nearest(key, legal) for key in given if key not in legal}
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
