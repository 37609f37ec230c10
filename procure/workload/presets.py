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
from procure.workload.units import MEMORY_BYTES, PER, SECONDS

Clock = Literal["unix", "log", "local"]
FOLDER = Path(__file__).parent / "presets"
TIMES = ("submit_time", "eligible_time", "start_time", "end_time")
DURATIONS = ("requested_time", "run_time")
WAIT = "wait"
"""What a log may have in place of start times: seconds from submission to start."""
AMOUNTS = ("cpus_per_node", "mem_mb_per_node", "gpus_per_node")


class ColumnMap(Settings):
    """Where one field of the job table comes from.

    ``unit`` is a unit of memory or of time, for those fields; ``per`` says whether a CPU, memory or
    GPU amount is per ``node``, for the whole ``job`` or per ``cpu``.
    """

    column: str
    unit: str = ""
    per: Literal["node", "job", "cpu"] = "node"


class Preset(Settings):
    """How one kind of log is read.

    ``columns`` maps fields of the job table, or `WAIT`, to columns of a CSV log. ``clock`` says what its times
    are: ``unix`` seconds, seconds of the ``log``'s own clock, or ``local`` dates of the zone ``tz``.
    ``cpus_per_node`` is that of every node, for a log that counts nodes only; in SWF, of processors to a node.
    ``asks`` is what the centre's jobs ask for, ``tasks`` wherever there is room or ``nodes``.
    For SWF logs: what the requested memory is (``mem_unit``) and which further fields are known.
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
            timed = field in (*DURATIONS, WAIT)
            units = [*MEMORY_BYTES] if field == "mem_mb_per_node" else [*SECONDS] * timed
            if source.unit and source.unit not in units:
                raise ValueError(f"{field}: unknown unit {source.unit!r}; {nearest(source.unit, units)}")
        return self


def fitting_preset(columns: Iterable[str]) -> str | None:
    """Return the name of the csv preset all of whose columns a log has, the one with the most; or None."""
    there, best = set(map(str, columns)), None
    for preset in map(load_preset, preset_names()):
        needed = {source.column for source in preset.columns.values()}
        if needed and needed <= there and (best is None or len(preset.columns) > len(best.columns)):
            best = preset
    return None if best is None else best.name


def preset_names() -> list[str]:
    """Return the names of the presets that come with procure."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_preset(name: str) -> Preset:
    """Return a preset by its name, or from a TOML file.

    Raises
    ------
    TableError
        No such preset (the nearest names are offered), or the file is not a legal one.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        raise TableError(f"no preset {name!r}; {nearest(name, preset_names())}, or the path of a .toml file")
    return validated(Preset, {"name": path.stem} | read_toml(path), str(path))


def parse_column(text: str) -> tuple[str, ColumnMap]:
    """Read one mapping ``FIELD=COLUMN[:UNIT[:PER]]``, e.g. ``mem_mb_per_node=ReqMem:kB:job``.

    Raises
    ------
    TableError
        Not of this form, or an unknown field, unit or ``per``.
    """
    field, equals, source = text.partition("=")
    column, _, rest = source.partition(":")
    unit, _, per = rest.partition(":")
    if not equals or not column:
        raise TableError(f"{text!r} is not a mapping; write FIELD=COLUMN[:UNIT[:PER]]")
    if per and per not in PER:
        raise TableError(f"{text!r}: an amount is per node, job or cpu; {per!r} was given")
    mapping = {"column": column, "unit": unit, "per": per or "node"}
    return field, validated(Preset, {"name": "option", "columns": {field: mapping}}, repr(text)).columns[field]
