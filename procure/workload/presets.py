"""Presets: how the columns of a known kind of log map to the job table, one TOML file each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from procure.errors import TableError
from procure.schemas import JOB
from procure.settings import LARGEST, NaturalInt, Settings, read_toml, validated
from procure.text import nearest
from procure.workload.units import COUNTS, MEMORY_BYTES, PER, SECONDS

Clock = Literal["unix", "log", "local"]
FOLDER = Path(__file__).parent / "presets"
TIMES = ("submit_time", "eligible_time", "start_time", "end_time")
DURATIONS = ("requested_time", "run_time")
WAIT = "wait"
"""What a log may have in place of start times: seconds from submission to start."""
AMOUNTS = ("cpus_per_node", "mem_mb_per_node", "gpus_per_node")


class ColumnMap(Settings):
    """Where one field of the job table comes from.

    ``unit`` is of memory or time, or ``milli`` of CPUs and GPUs; ``per`` says whether CPUs, memory or GPUs are per
    ``node``, ``job`` or ``cpu``.
    """

    column: str
    unit: str = ""
    per: Literal["node", "job", "cpu"] = "node"


class Preset(Settings):
    """How one kind of log is read: settings of `procure.workload.log_settings.LogSettings`, and more of SWF logs.

    ``columns`` maps fields of the job table, or `WAIT`. ``node_field`` and ``queue_field`` are fields after the 18
    standard ones of SWF (19, 20, …) with a node list ``{1,1,2}`` and a queue's name.
    """

    name: str
    format: Literal["csv", "swf"] = "csv"
    meaning: str = ""
    clock: Clock | None = None
    tz: str | None = None
    columns: dict[str, ColumnMap] = Field(default_factory=dict)
    mem_unit: str | None = None
    asks: Literal["tasks", "nodes"] | None = None
    node_field: NaturalInt | None = None
    queue_field: NaturalInt | None = None
    cpus_per_node: int | None = Field(default=None, ge=1, le=LARGEST)

    @model_validator(mode="after")
    def _legal(self) -> Preset:
        for field, source in self.columns.items():
            if field not in (*JOB.names, WAIT):
                raise ValueError(f"unknown field {field!r}; {nearest(field, (*JOB.names, WAIT))}")
            timed = field in (*TIMES, *DURATIONS, WAIT)
            units = [*MEMORY_BYTES] if field == "mem_mb_per_node" else [*SECONDS] if timed else [*COUNTS]
            units = units if timed or field in AMOUNTS else []
            if source.unit and source.unit not in units:
                raise ValueError(f"{field}: unknown unit {source.unit!r}; {nearest(source.unit, units)}")
        return self


def fitting_preset(columns: Iterable[str]) -> str | None:
    """Return the name of the csv preset all of whose columns a log has, the one with the most; or None."""
    there, fits = set(map(str, columns)), {}
    for preset in map(load_preset, preset_names()):
        needed = {source.column for source in preset.columns.values()}
        if needed and needed <= there:
            fits[preset.name] = len(preset.columns)
    return max(fits, key=fits.__getitem__, default=None)


def preset_names() -> list[str]:
    """Return the names of the presets that come with procure."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_preset(name: str) -> Preset:
    """Return a preset by its name, or from a TOML file; an unknown or illegal one is a TableError."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        raise TableError(f"no preset {name!r}; {nearest(name, preset_names())}, or the path of a .toml file")
    return validated(Preset, {"name": path.stem} | read_toml(path), str(path))


def parse_column(text: str) -> tuple[str, ColumnMap]:
    """Read one mapping ``FIELD=COLUMN[:UNIT[:PER]]``, e.g. ``mem_mb_per_node=ReqMem:kB:job``."""
    field, equals, source = text.partition("=")
    column, unit, per = [*source.split(":", 2), "", ""][:3]
    if not equals or not column:
        raise TableError(f"{text!r} is not a mapping; write FIELD=COLUMN[:UNIT[:PER]]")
    if per and per not in PER:
        raise TableError(f"{text!r}: an amount is per node, job or cpu; {per!r} was given")
    mapping = {"column": column, "unit": unit, "per": per or "node"}
    return field, validated(Preset, {"name": "option", "columns": {field: mapping}}, repr(text)).columns[field]
