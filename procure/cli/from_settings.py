"""Options of a command that come from a settings class: their types, bounds, defaults and help stand there, once."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typer.models import ParameterInfo

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_NONE = (dataclasses.MISSING, PydanticUndefined)


GIVEN_ONLY = object()
"""``Annotated[Model, GIVEN_ONLY]``: an option has no default, and the settings hold, unchecked, what was given."""


def options(**groups: Mapping[str, Any] | None) -> Callable[[Callable], Callable]:
    """Let parameters of a command, whose types are settings classes, stand for an option per field.

    Parameters
    ----------
    groups
        By parameter, the fields of its class that are options: each with the annotated type of a Typer option, or
        with None where the option is what the field says (`pydantic.Field` in its annotation: bounds and description;
        or the Typer option itself). A field that is left out has its default. None is every field as it says.

    Examples
    --------
    >>> from procure.cli.from_settings import options
    >>> from procure.learn.weeks import DayFilter
    >>> @options(wanted={"min_jobs": None})
    ... def command(out: str, wanted: DayFilter) -> int:
    ...     return wanted.min_jobs
    >>> command(out="a", min_jobs=5)
    5
    """

    def decorate(command: Callable) -> Callable:
        hints = get_type_hints(command, include_extras=True)
        named = {name: fields or _defaults(hints[name], None) for name, fields in groups.items()}
        parameters: list[inspect.Parameter] = []
        for name, one in inspect.signature(command).parameters.items():
            if name in named:
                parameters += _options_of(hints[name], named[name])
            else:
                parameters.append(one.replace(annotation=hints[name], kind=_KEYWORD))

        @functools.wraps(command)
        def call(**given: Any) -> Any:
            for name, fields in named.items():
                given[name] = _settings(hints[name], {field: given.pop(field) for field in fields})
            return command(**given)

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        return call

    return decorate


def _settings(kind: Any, given: dict[str, Any]) -> Any:
    if get_origin(kind) is not Annotated:
        return kind(**given)
    return get_args(kind)[0].model_construct(**{name: one for name, one in given.items() if one is not None})


def _options_of(kind: Any, fields: Mapping[str, Any]) -> Iterator[inspect.Parameter]:
    given_only = get_origin(kind) is Annotated
    settings = get_args(kind)[0] if given_only else kind
    hints, defaults = get_type_hints(settings, include_extras=True), _defaults(settings)
    for name, option in fields.items():
        of_field = _option(name, hints[name], given_only) if option is None else option
        default = None if given_only else defaults[name]
        yield inspect.Parameter(name, _KEYWORD, default=default, annotation=of_field)


def _defaults(kind: Any, *every: Any) -> dict[str, Any]:
    """Return the default of each field, or one value for all; a field without one has `inspect.Parameter.empty`."""
    settings = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if issubclass(settings, BaseModel):
        found = {name: field.default for name, field in settings.model_fields.items()}
    else:
        found = {field.name: field.default for field in dataclasses.fields(settings)}
    if every:
        return dict.fromkeys(found, *every)
    return {name: inspect.Parameter.empty if one in _NONE else one for name, one in found.items()}


def _option(name: str, kind: Any, optional: bool) -> Any:
    """Turn the annotation of a field into that of an option; inclusive bounds are checked by the option, too."""
    bare, said = _bare(kind)
    if any(isinstance(one, ParameterInfo) for one in said):
        return kind
    told: dict[str, Any] = {}
    for field in (one for one in said if isinstance(one, FieldInfo)):
        told |= {"help": field.description} if field.description else {}
        if all(isinstance(bound, Ge | Le) for bound in field.metadata):
            for bound in field.metadata:
                told |= {"min": bound.ge} if isinstance(bound, Ge) else {"max": bound.le}
    spelt = (f"-{name}", f"--{name}") if len(name) == 1 else ()
    return Annotated[bare | None if optional else bare, typer.Option(*spelt, **told)]


def _bare(kind: Any) -> tuple[Any, list[Any]]:
    """Return a type without what is said of it, and that; of ``T | None`` what is said of ``T``, too."""
    bare, *said = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    some = [one for one in get_args(bare) if one is not type(None)]
    if len(some) == 1 and type(None) in get_args(bare):
        inner, more = _bare(some[0])
        return inner | None, [*more, *said]
    return bare, said
