"""A study: the quotes, the budget, the workloads and every choice of one question, in one TOML file."""

from __future__ import annotations

import datetime
import os
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from procure.constraints import parse
from procure.costs import Costs
from procure.errors import TableError
from procure.existing import ExistingSystem, read_existing
from procure.objectives import CVAR_SHARE, objective
from procure.package_rules import PackageRules
from procure.quotes import read_quotes
from procure.settings import Folder, InputFile, Settings, validated
from procure.workload.presets import ColumnMap, parse_column
from procure.workload.spec import processor_speed

if TYPE_CHECKING:
    import pandas as pd

PositiveInt = Annotated[int, Field(ge=1)]
NaturalInt = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]


def _decimal(value: Any) -> Any:
    # str() of a float is the shortest text that reads back as it: the decimal that the user wrote.
    return Decimal(str(value)) if isinstance(value, float) else value


Speed = Annotated[
    Decimal, BeforeValidator(_decimal), Field(gt=0), PlainSerializer(str, return_type=str, when_used="always")
]


_OF_A_LOG = (
    "format", "preset", "columns", "clock", "log_tz", "cpus_per_node", "mem_unit", "strict", "skip_bad_rows"
)  # fmt: skip


class Generate(Settings):
    """The embedded default workload, from a seed."""

    seed: NaturalInt = 1
    n_jobs: PositiveInt | None = None


class Workload(Settings):
    """One job table: generated, read from a job table, or from a log.

    With ``format`` or ``preset`` the file is a log, read by `procure.workload.import_log` with
    ``preset columns clock cpus_per_node mem_unit strict skip_bad_rows``, dates without an offset in
    the zone ``log_tz`` (by default ``tz``). A column is written as ``"COLUMN:UNIT:PER"``.
    ``day`` cuts one local day of the time zone ``tz`` out of it. ``logged_processor`` (a processor
    of the quote file) or ``logged_speed`` (any number, in the unit of the quotes' ``spec_rate``)
    says how fast the logged system was; with neither, run times are left as logged on every node.
    ``weight`` says how much it counts where several workloads are taken together by mean, e.g. the
    number of days that a day stands for.
    """

    name: Name
    generate: Generate | None = None
    jobs: InputFile | None = None
    format: Literal["csv", "swf", "sacct"] | None = None
    preset: str | None = None
    columns: dict[str, ColumnMap] | None = None
    clock: Literal["unix", "log", "local"] | None = None
    log_tz: str | None = None
    cpus_per_node: PositiveInt = 1
    mem_unit: str | None = None
    strict: bool = False
    skip_bad_rows: bool = False
    day: datetime.date | None = None
    tz: str | None = None
    logged_processor: str | None = None
    logged_speed: Speed | None = None
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    @field_validator("preset")
    @classmethod
    def _beside_the_study(cls, preset: str | None, info: ValidationInfo) -> str | None:
        folder = (info.context or {}).get("folder")
        if preset is None or folder is None or not preset.endswith(".toml"):
            return preset
        return (Path(folder) / preset).as_posix()

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
        if tz is not None:
            try:
                ZoneInfo(tz)
            except (KeyError, ValueError, OSError):
                raise ValueError(f"{tz!r} is no time zone; names are like 'America/Chicago'") from None
        return tz

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        if (self.generate is None) == (self.jobs is None):
            raise ValueError("give exactly one of generate and jobs")
        how = [key for key in _OF_A_LOG if getattr(self, key) != type(self).model_fields[key].default]
        if how and self.jobs is None:
            raise ValueError(f"{how[0]} belongs to jobs, and a workload that is generated has none")
        if how and self.format is None and self.preset is None:
            raise ValueError(f"{how[0]} needs format or preset; without them, jobs is a job table")
        if self.day is not None and self.tz is None:
            raise ValueError("day needs tz, the time zone whose day is meant, e.g. tz = 'America/Chicago'")
        if self.logged_processor is not None and self.logged_speed is not None:
            raise ValueError("give at most one of logged_processor and logged_speed")
        return self

    def speed(self, quotes: pd.DataFrame) -> str | None:
        """Return the speed of the logged system as decimal text, or None for the ratio 1.0 everywhere.

        Parameters
        ----------
        quotes
            The quote table; a ``logged_processor`` is looked up in its ``processor`` column.

        Raises
        ------
        TableError
            No quote has that processor with a ``spec_rate``, or two of them differ in it.
        """
        if self.logged_speed is not None:
            return str(self.logged_speed)
        if self.logged_processor is None:
            return None
        try:
            return str(processor_speed(self.logged_processor, quotes))
        except TableError as error:
            raise TableError(f"workload {self.name}, logged_processor: {error}") from None


class Simulate(Settings):
    """Which policies decide, and whether a job ends at its limit."""

    policies: Annotated[tuple[str, ...], Field(min_length=1)] = ("best-fit",)
    kill_at_limit: bool = False

    @field_validator("policies")
    @classmethod
    def _once_each(cls, policies: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(policies)) < len(policies):
            raise ValueError("each policy may stand once")
        return policies


class Sweep(Settings):
    """Which distinct packages are simulated: ``offset``, ``offset + sample``, ``offset + 2 sample`` …"""

    sample: PositiveInt = 10
    offset: NaturalInt = 0
    batch_size: NaturalInt = 0

    @model_validator(mode="after")
    def _offset_below_sample(self) -> Sweep:
        if self.offset >= self.sample:
            raise ValueError(f"offset must be below sample: {self.offset} and {self.sample} were given")
        return self


class ModelChoice(Settings):
    """Which model predicts the packages that were not simulated."""

    kind: Literal["xgboost", "gbt"] = "xgboost"
    feature_set: Literal["composition", "totals"] = "composition"
    folds: Annotated[int, Field(ge=2)] = 5
    seed: NaturalInt = 1


class Evaluate(Settings):
    """What a hit is, and the list lengths at which hits are counted.

    With ``hit_threshold`` several workloads are judged together: a hit is among the best ``hit_share``
    on more than so many of them.
    """

    hit_share: Annotated[float, Field(gt=0, lt=1)] = 0.05
    hit_threshold: NaturalInt | None = None
    k: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (10, 50, 100, 500, 1000)


class Recommend(Settings):
    """How many packages are recommended and confirmed by simulation, by which objective, within which bounds.

    ``objective`` is one of `procure.objectives.OBJECTIVES`; ``constraints`` are written as
    `procure.constraints.parse` reads them; ``cvar_share`` is the share of the workloads' weight that the
    objective ``cvar`` is the mean of.
    """

    k: PositiveInt = 50
    objective: str = "mean-wait"
    constraints: tuple[str, ...] = ()
    cvar_share: Annotated[float, Field(gt=0, le=1)] = CVAR_SHARE

    @field_validator("objective")
    @classmethod
    def _known_objective(cls, name: str) -> str:
        try:
            return objective(name).name
        except TableError as error:
            raise ValueError(str(error)) from None

    @field_validator("constraints")
    @classmethod
    def _readable(cls, constraints: tuple[str, ...]) -> tuple[str, ...]:
        try:
            for text in constraints:
                parse(text)
        except TableError as error:
            raise ValueError(str(error)) from None
        return constraints


class Search(Settings):
    """How much an active search may simulate, and when it ends; ``runs``, where given, instead of ``share``."""

    runs: PositiveInt | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 0.01
    seed: NaturalInt = 1
    batch: PositiveInt = 24
    k: PositiveInt = 50
    stable_rounds: NaturalInt = 5


class Study(Settings):
    """One study file, checked; all paths are absolute or relative to the working folder."""

    name: Name
    quotes: InputFile
    results: Folder = Path("results")
    packages: PackageRules
    workloads: tuple[Workload, ...]
    simulate: Simulate = Simulate()
    sweep: Sweep = Sweep()
    search: Search = Search()
    model: ModelChoice = ModelChoice()
    evaluate: Evaluate = Evaluate()
    recommend: Recommend = Recommend()
    costs: Costs = Costs()
    _path: Path = PrivateAttr(default=Path("study.toml"))

    @field_validator("workloads")
    @classmethod
    def _named_once(cls, workloads: tuple[Workload, ...]) -> tuple[Workload, ...]:
        if not workloads:
            raise ValueError("at least one [[workloads]] table is needed")
        names = [workload.name for workload in workloads]
        again = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if again:
            raise ValueError(f"two workloads are named {again[0]!r}")
        return workloads

    @property
    def path(self) -> Path:
        """The study file."""
        return self._path

    @property
    def folder(self) -> Path:
        """Where this study's tables go: the results folder and the study's name."""
        return self.results / self.name

    def read_quotes(self) -> pd.DataFrame:
        """Read the study's quote table."""
        return read_quotes(self.quotes)

    def read_existing_system(self) -> ExistingSystem | None:
        """Read the existing system, those of its nodes that stay and what is to be said of them, or None."""
        rules = self.packages
        if rules.existing_nodes is None:
            return None
        return read_existing(rules.existing_nodes, rules.retire, rules.existing_down)

    def read_existing_nodes(self) -> pd.DataFrame | None:
        """Read the node table that is added to every package, or None where no node stays."""
        system = self.read_existing_system()
        return None if system is None or system.nodes.empty else system.nodes

    def document(self) -> dict[str, Any]:
        """Give every setting, defaults included, as plain values; paths are relative to the study file."""
        return self.model_dump(mode="json", context={"folder": self.path.parent})


def load_study(path: str | Path) -> Study:
    """Read a study file.

    Parameters
    ----------
    path
        A TOML file. Paths inside it are relative to its folder; ``name`` defaults to the file's name
        and ``results`` to the folder ``results`` beside it.

    Raises
    ------
    TableError
        The file is missing or no TOML (with the line), or holds unknown keys, illegal values, or
        input files that do not exist: all of them, one line each.
    """
    path = Path(path)
    study = validated(Study, read_values(path), str(path), folder=path.parent)
    study._path = path
    return study


def read_values(path: Path) -> dict[str, Any]:
    """Read a study file's plain values, not yet checked.

    Raises
    ------
    TableError
        The file is missing or no TOML (with the line).
    """
    if not path.is_file():
        raise TableError(f"{path}: no such file")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: is no TOML: {error}") from None
    if isinstance(values.get("workloads"), str):
        values["workloads"] = _workloads_of(path.parent / values["workloads"], path.parent)
    return {"name": path.stem, "results": "results"} | values


def _workloads_of(path: Path, folder: Path) -> Any:
    """Read the workloads that stand in a file of their own; paths become relative to the study's folder."""
    if not path.is_file():
        raise TableError(
            f"{path}: no such file; workloads is a file of [[workloads]] tables, or these tables"
        )
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("workloads", [])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: is no TOML: {error}") from None
    for table in found if isinstance(found, list) else []:
        for key in ("jobs", "preset"):
            named = table.get(key)
            if isinstance(named, str) and (key == "jobs" or named.endswith(".toml")):
                table[key] = os.path.relpath(path.parent / named, folder or ".")
    return found
