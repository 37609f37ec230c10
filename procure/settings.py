"""The base of all settings: frozen, without unknown keys, with errors that a user can read."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    SerializationInfo,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError, core_schema

from procure.errors import ArgumentError, TableError, reason
from procure.files import existing_file, is_file
from procure.text import given_and_needed, money, nearest, seconds

MOST_COUNTED = 1_000_000
"""Draws, runs, steps, list entries and whatever else work or memory grows with are at most this many."""
MOST_SAID = 30
"""Problems of one file that an error lists."""
LARGEST = 10**9
"""Any other whole number that a user gives is at most a milliard, as in tables."""
LAST_SEED = 2**32 - 1
"""Every library that we seed takes seeds up to this one."""
MOST_PROCESSES = 10_000
"""Processes, and jobs in a queue, that are asked for at once."""
MOST_LISTED = 1000
"""Policies, and lengths of lists, that a study names."""

MOST_TOML, MOST_PARTS = 4_000_000, 16
"""Bytes of a settings file, and parts of a key such as ``a.b.c``: Python's reader takes memory for each part."""
_PART = r"(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')"
_DEEP_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*+(?:{_PART}[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}", re.ASCII | re.MULTILINE)

PositiveInt = Annotated[int, Field(ge=1, le=LARGEST)]
NaturalInt = Annotated[int, Field(ge=0, le=LARGEST)]
Count = Annotated[int, Field(ge=1, le=MOST_COUNTED)]
Seed = Annotated[int, Field(ge=0, le=LAST_SEED)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]

UNKNOWN_KEY = "unknown_key"


class Settings(BaseModel):
    """Settings that cannot change after they were checked, and that refuse a key they do not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    REMOVED: ClassVar[dict[str, str]] = {}
    """Keys of earlier versions, with what to do instead."""

    @model_validator(mode="wrap")
    @classmethod
    def _name_the_legal_keys(cls, values: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        try:
            return handler(values)
        except ValidationError as error:
            lines = [_line(detail, cls) for detail in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(cls.__name__, lines) from None


def _line(detail: ErrorDetails, model: type[BaseModel]) -> InitErrorDetails:
    """Copy one error; where it is an unknown key of the model, name the nearest legal ones."""
    kind, location = detail["type"], detail["loc"]
    line = InitErrorDetails(type=kind, loc=location, input=detail["input"], ctx=detail.get("ctx", {}))
    if kind == "extra_forbidden" and len(location) == 1:
        legal = nearest(str(location[0]), model.model_fields)
        if location[0] in getattr(model, "REMOVED", {}):
            legal = f"it was removed: {model.REMOVED[str(location[0])]}"  # type: ignore[attr-defined]
        line["type"] = PydanticCustomError(UNKNOWN_KEY, "unknown key; {legal}", {"legal": legal})
    elif kind == UNKNOWN_KEY:
        line["type"] = PydanticCustomError(UNKNOWN_KEY, "unknown key; {legal}", detail["ctx"])
    elif kind not in _OWN_KINDS:  # such as path_type, which pydantic itself makes as a custom error
        line["type"] = PydanticCustomError(kind, "{message}", {"message": detail["msg"]})
    return line


_OWN_KINDS = frozenset(get_args(core_schema.ErrorType))


def _money(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} was given; US$ are a number")
    return money(value) if isinstance(value, str) else value


def _whole_cents(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} was given; US$ are a finite number")
    if round(value, 2) != value:
        raise ValueError("US$ are given to the cent")
    return value


Money = Annotated[float, BeforeValidator(_money), AfterValidator(_whole_cents)]
"""US$ to the cent; text such as ``"$1,000,000"`` or ``"1.2M"`` is accepted."""


def exact_decimal(value: Any) -> Any:
    """Return a float as the decimal that the user wrote: `str` of it is the shortest text that reads back as it."""
    return Decimal(str(value)) if isinstance(value, float) and math.isfinite(value) else value


StrictNumber = Annotated[float, Field(strict=True)]
"""A number that is written as one: neither true nor text such as ``"1.9"``."""


def named(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table whose keys are names; an empty one raises, for what is it of?"""
    if any(not name.strip() for name in table):
        raise ValueError("an empty name was given")
    return table


def _whole_seconds(value: Any) -> Any:
    if isinstance(value, str):
        value = seconds(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


Seconds = Annotated[int, BeforeValidator(_whole_seconds), Field(ge=0, le=LARGEST)]
"""A length of time in whole seconds; text such as ``"3d"`` or ``"12h"`` is accepted."""


def _resolved(path: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get("folder")
    return path if folder is None else Path(os.path.normpath(Path(folder) / path))


def _existing(path: Path, info: ValidationInfo) -> Path:
    if (info.context or {}).get("folder") is not None and not is_file(path):
        raise ValueError(f"{path}: no such file")
    return path


def _relative(path: Path, info: SerializationInfo) -> str:
    folder = (info.context or {}).get("folder") if isinstance(info.context, dict) else None
    return path.as_posix() if folder is None else Path(os.path.relpath(path, folder)).as_posix()


Folder = Annotated[Path, AfterValidator(_resolved), PlainSerializer(_relative, return_type=str)]
"""A path relative to the study file."""

InputFile = Annotated[Folder, AfterValidator(_existing)]
"""A path relative to the study file; the file must exist."""

Model = TypeVar("Model", bound=Settings)


def _key(location: tuple[int | str, ...]) -> str:
    """Write a location as a dotted key; the second of several tables is ``workloads[2]``."""
    text = ""
    for part in location:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def problems(error: ValidationError) -> list[str]:
    """Say for each thing that is wrong: the key, what is wrong, what was given, what is legal."""
    lines = []
    for detail in error.errors():
        location, kind = detail["loc"], detail["type"]
        key = _key(location)
        if kind == UNKNOWN_KEY:
            lines.append(f"{key}: {detail['msg']}")
        elif kind == "extra_forbidden":
            lines.append(f"{key}: unknown key")
        elif kind == "missing":
            lines.append(f"{key}: missing; it is needed")
        elif kind == "value_error":
            lines.append(f"{key}: {detail['ctx']['error']}" if key else str(detail["ctx"]["error"]))
        else:
            lines.append(f"{key}: {given_and_needed(detail)}")
    return lines


def validated(model: type[Model], values: Any, source: str, folder: Path | None = None) -> Model:
    """Build settings from plain values of a TOML file or command line, the ``source``; the error has all that is wrong.

    Paths are relative to the ``folder``, and input files must exist in it; None leaves paths alone.
    """
    try:
        return validate(model, values, folder)
    except ValidationError as error:
        raise TableError(complaint(source, problems(error))) from None


def validate(model: type[Model], values: Any, folder: Path | None = None) -> Model:
    """Do what `validated` does, but leave the error to the caller, as a pydantic.ValidationError."""
    return model.model_validate(values, context={"folder": folder})


def complaint(source: str, lines: list[str]) -> str:
    """Put one problem on the source's line, several under it, the first of many."""
    if len(lines) == 1:
        return f"{source}: {lines[0]}"
    more = [f"and {len(lines) - MOST_SAID:,} more"] if len(lines) > MOST_SAID else []
    return "\n  ".join([f"{source}: {len(lines):,} problems", *lines[:MOST_SAID], *more])


def read_toml(path: Path, hint: str = "") -> dict[str, Any]:
    """Read the values of a TOML file, not yet checked; of one that is missing ``hint`` says what it should be."""
    try:
        existing_file(path)
    except TableError as error:
        raise TableError(f"{error}{hint}") from None
    try:
        content = path.read_bytes()
        if len(content) > MOST_TOML:
            raise TableError(f"{path}: holds {len(content):,} bytes; a settings file has at most {MOST_TOML:,}")
        text = content.decode("utf-8")
        if deep := _DEEP_KEY.search(text):
            line = text.count("\n", 0, deep.start()) + 1
            raise TableError(f"{path}: line {line}: a key of more than {MOST_PARTS} parts with dots between them")
        return tomllib.loads(text)
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror}") from None
    except RecursionError:
        raise TableError(f"{path}: not a TOML file for us: its lists or tables are nested too deep") from None
    except TableError:
        raise
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise TableError(f"{path}: not a TOML file: {reason(error)}") from None


def merged(values: dict[str, Any], texts: Iterable[str]) -> dict[str, Any]:
    """Put texts such as ``recommend.k=10`` or ``workloads.0.policy="easy"`` into a settings file's values.

    What stands right of the sign is a value as TOML writes it; any other text, and a date or time, is text. A text that
    is no ``key=value``, or whose key leads nowhere, is an `ArgumentError` of ``settings``.
    """
    for text in texts:
        name, sign, given = text.partition("=")
        keys = _parts(name.strip())
        if not sign or not keys:
            raise ArgumentError("settings", f"{text!r} was given; write KEY=VALUE, e.g. recommend.k=10")
        place: Any = values
        for n, key in enumerate(keys):
            at: Any = key
            before = ".".join(keys[:n])
            if isinstance(place, list):
                if not key.isdecimal() or int(key) >= len(place):
                    raise ArgumentError("settings", f"{before}.{key}: {before} has {len(place)}, counted from 0")
                at = int(key)
            elif not isinstance(place, dict):
                raise ArgumentError("settings", f"{name.strip()}: {before} is a value, not a table")
            if n == len(keys) - 1:
                place[at] = _toml_value(given.strip())
            else:
                place = place[at] if isinstance(place, list) else place.setdefault(at, {})
    return values


def _parts(name: str) -> list[str]:
    """Return the parts of a dotted key, of which TOML quotes those that have other signs than letters and digits."""
    try:
        ((key, inner),) = tomllib.loads(f"{name} = 0").items()
    except ValueError:
        return [part.strip() for part in name.split(".")] if all(map(str.strip, name.split("."))) else []
    parts = [key]
    while isinstance(inner, dict):
        ((key, inner),) = inner.items()
        parts.append(key)
    return parts


def _toml_value(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value = found.get("value") if len(found) == 1 else None
    return value if isinstance(value, bool | int | float | str | list | dict) else text
