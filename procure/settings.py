"""What every model of settings shares: it is frozen, refuses unknown keys, and explains its errors."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    SerializationInfo,
    ValidationError,
    ValidationInfo,
)

from procure.errors import TableError
from procure.tables import nearest

_CURRENCY = re.compile(r"(?:US)?\$?\s*(-?\d[\d,]*(?:\.\d+)?)\s*(?:USD|\$)?")


class Settings(BaseModel):
    """Settings that cannot change after they were checked, and that refuse a key they do not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _money(value: Any) -> Any:
    if isinstance(value, str) and (match := _CURRENCY.fullmatch(value.strip())):
        return match.group(1).replace(",", "")
    return value


def _whole_cents(value: float) -> float:
    if round(value, 2) != value:
        raise ValueError("US$ are given to the cent")
    return value


Money = Annotated[float, BeforeValidator(_money), AfterValidator(_whole_cents)]
"""US$ to the cent; text such as ``"$1,000,000"`` is accepted."""


def _resolved(path: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get("folder")
    return path if folder is None else Path(os.path.normpath(Path(folder) / path))


def _existing(path: Path, info: ValidationInfo) -> Path:
    if (info.context or {}).get("folder") is not None and not path.is_file():
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


def _nested_model(annotation: Any) -> type[Settings] | None:
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return annotation
    for argument in get_args(annotation):
        if (found := _nested_model(argument)) is not None:
            return found
    return None


def _legal_names(model: type[Settings], location: tuple[int | str, ...]) -> list[str]:
    """List the keys that are legal beside the last one of a location."""
    at: type[Settings] = model
    for part in location[:-1]:
        if isinstance(part, str) and part in at.model_fields:
            at = _nested_model(at.model_fields[part].annotation) or at
    return list(at.model_fields)


def _key(location: tuple[int | str, ...]) -> str:
    """Write a location as a dotted key; the second of several tables is ``workloads[2]``."""
    text = ""
    for part in location:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def problems(error: ValidationError, model: type[Settings]) -> list[str]:
    """Say for each thing that is wrong: the key, what is wrong, what was given, what is legal."""
    lines = []
    for detail in error.errors():
        location, kind = detail["loc"], detail["type"]
        key = _key(location)
        if kind == "extra_forbidden":
            legal = nearest(str(location[-1]), _legal_names(model, location))
            lines.append(f"{key}: unknown key; {legal}")
        elif kind == "missing":
            lines.append(f"{key}: missing; {detail['msg'].lower()}")
        elif kind == "value_error":
            lines.append(f"{key}: {detail['ctx']['error']}" if key else str(detail["ctx"]["error"]))
        else:
            message = detail["msg"][0].lower() + detail["msg"][1:]
            lines.append(f"{key}: {detail['input']!r} was given; {message}")
    return lines


def validated(model: type[Model], values: Any, source: str, folder: Path | None = None) -> Model:
    """Build settings from plain values.

    Parameters
    ----------
    model
        The kind of settings.
    values
        What a TOML file or a command line gave.
    source
        What to call it in an error.
    folder
        Paths are relative to this folder, and input files must exist in it. None leaves paths alone.

    Raises
    ------
    TableError
        All that is wrong, one line each.
    """
    try:
        return model.model_validate(values, context={"folder": folder})
    except ValidationError as error:
        raise TableError(complaint(source, problems(error, model))) from None


def complaint(source: str, lines: list[str]) -> str:
    """Put one problem on the source's line, several under it."""
    if len(lines) == 1:
        return f"{source}: {lines[0]}"
    return "\n  ".join([f"{source}: {len(lines)} problems", *lines])
