"""How a log is read: what its reader is given, over what a preset, one TOML file each, says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from procure.errors import TableError
from procure.schemas import JOB
from procure.settings import LARGEST, NaturalInt, PositiveInt, Settings, read_toml, validated
from procure.text import nearest
from procure.workload.clock import zone
from procure.workload.ledger import COUNTS, MEMORY_BYTES, PER, SECONDS

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


LogFormat = Literal["csv", "swf", "sacct", "pbs", "lsf", "sge", "condor", "slurmdbd", "jobcomp"]
_FORMATS_OF = {
    "columns": ("csv",),
    "mem_unit": ("swf",),
    "clock": ("csv", "swf"),
    "cluster": ("sacct", "slurmdbd"),
    "fields": ("csv", "sacct"),
}


class LogSettings(Settings):
    """How a log is read; whatever is unset is what the preset says, else the rule of the format.

    ``format`` is a row of `procure.workload.importing`; unset it is the preset's, else what the file itself tells.
    ``preset`` is a known kind of log (`presets.preset_names`), or the path of a preset's TOML file.
    ``columns`` maps fields of the job table to a CSV's columns, also as ``"COLUMN:UNIT:PER"``; ``clock`` says what a
    CSV's or an SWF log's times are: ``unix`` seconds, seconds of the ``log``'s own clock, or ``local`` dates.
    ``log_tz`` is the zone of dates without an offset. ``tz`` is the zone whose days are meant, and that of such dates
    only where neither ``log_tz`` nor the preset tells one.
    ``cpus_per_node`` is that of every node where a log counts nodes only; in SWF, of processors to a node.
    ``mem_unit`` is how SWF's memory is read, e.g. ``kB:cpu``.
    ``asks`` is what jobs asked for where the log does not say: ``tasks``, wherever there is room, or ``nodes``.
    ``fields`` names the columns of a file without a header, with commas between.
    ``cluster`` is the one whose jobs are kept of accounting that holds several.
    ``strict`` refuses a log of which rows are dropped; ``skip_bad_rows`` drops unreadable rows, counted.
    """

    format: LogFormat | None = None
    preset: str | None = None
    columns: dict[str, ColumnMap] | None = None
    clock: Clock | None = None
    log_tz: str | None = None
    tz: str | None = None
    cpus_per_node: PositiveInt | None = None
    mem_unit: str | None = None
    cluster: str | None = None
    asks: Literal["tasks", "nodes"] | None = None
    fields: str | None = None
    strict: bool = False
    skip_bad_rows: bool = False

    @field_validator("columns", mode="before")
    @classmethod
    def _columns_from_text(cls, columns: Any) -> Any:
        if not isinstance(columns, dict):
            return columns
        texts = {field: value for field, value in columns.items() if isinstance(value, str)}
        return columns | dict(parse_column(f"{field}={text}") for field, text in texts.items())

    @field_validator("tz", "log_tz")
    @classmethod
    def _known_zone(cls, tz: str | None) -> str | None:
        return tz if tz is None else zone(tz).key

    def said(self) -> list[str]:
        """Return the names of the settings that only a log has, and that are set."""
        fields = [name for name in LogSettings.model_fields if name != "tz"]
        return [name for name in fields if getattr(self, name) not in (None, False)]


class How(LogSettings):
    """What a reader of a format is given: settings that hold, a preset's among them.

    ``keep_unfinished`` keeps jobs that never started or have not ended.
    """

    node_field: NaturalInt | None = None
    queue_field: NaturalInt | None = None
    keep_unfinished: bool = False


def merged(given: LogSettings, name: str, told: str | None = None, keep_unfinished: bool | str = False) -> How:
    """Return the settings that hold for a log: those given, else the preset's, else the format that the log tells.

    Raises
    ------
    TableError
        An unknown preset, one for another format, or a setting that the format does not take.
    """
    preset = load_preset(given.preset) if given.preset else Preset(name="none")
    form = given.format or (preset.format if given.preset else told or "sacct")
    if given.preset and preset.format != form:
        raise TableError(f"preset {preset.name} is for {preset.format} logs; the format given is {form}")
    for setting, formats in _FORMATS_OF.items():
        if getattr(given, setting) and form not in formats:
            raise TableError(f"{setting} belongs to {' and '.join(formats)} logs; {name} is read as {form}")
    columns = given.columns or {}
    either = {key: getattr(given, key, None) or getattr(preset, key, None) for key in How.model_fields}
    settings = either | {
        "format": form,
        "columns": preset.columns | columns,
        "fields": given.fields and re.sub(r"%-?\d+", "", given.fields),  # widths, as in sacct --format=JobID%30
        "log_tz": given.log_tz or preset.tz or given.tz,
        # A column that the user names for the CPUs stands above a number that the preset gives for every node.
        "cpus_per_node": given.cpus_per_node or (None if "cpus_per_node" in columns else preset.cpus_per_node),
        "keep_unfinished": keep_unfinished in (True, form),
    }
    return How.model_construct(**settings)
