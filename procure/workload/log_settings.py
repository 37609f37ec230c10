"""How a log is read: what its reader is given, over what a preset says."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import field_validator

from procure.errors import TableError
from procure.settings import NaturalInt, PositiveInt, Settings
from procure.workload.clock import zone
from procure.workload.presets import Clock, ColumnMap, Preset, load_preset, parse_column

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

    ``format`` is a row of `procure.workload.formats`; unset it is the preset's, else what the file itself tells.
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
