"""The parameters of a policy and of what it is composed with, as one model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from procure.policies import plugins
from procure.policies.parameters import Parameters, Seam

ALL_OPTIONS: Mapping[str, Any] = MappingProxyType({"*": None})
"""In place of parameters: whatever options installed packages offer."""


def with_seams(model: type[Parameters], given: Mapping[str, Any]) -> type[Parameters]:
    """Return the model of a policy's parameters with those of what is chosen for its seams.

    Options that a package adds to composed policies load when a parameter is given that the model does not have.

    Raises
    ------
    TableError
        What is chosen cannot be loaded.
    """
    kinds = {
        key: kind for key, field in model.model_fields.items() for kind in field.metadata if isinstance(kind, Seam)
    }
    if not kinds:
        return model
    offers = plugins.offered(plugins.SEAMS)
    chosen = [f"{kind.kind}.{given.get(key, model.model_fields[key].default)}" for key, kind in kinds.items()]
    wanted = [name for name in dict.fromkeys(chosen) if name in offers]
    mixins = [_as_parameters(name, plugins.load(plugins.SEAMS, name, "the seam")) for name in wanted]
    known = set().union(model.model_fields, *(mixin.model_fields for mixin in mixins))
    if not given.keys() <= known:
        mixins += [plugins.load(plugins.SEAMS, name, "the option") for name in offers if "." not in name]
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
