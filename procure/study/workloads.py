"""The workloads of a study: job tables, logs or seeds, as they stand in its TOML file or in one of their own."""

from __future__ import annotations

import datetime
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    field_validator,
    model_validator,
)

from procure.errors import TableError, within
from procure.files import whole_file
from procure.settings import Count, InputFile, Name, Seconds, Seed, Settings, exact_decimal, read_toml
from procure.tables import write
from procure.workload.generate import load_recipe
from procure.workload.log_settings import LogSettings
from procure.workload.shapes import Shape, check_rules
from procure.workload.speed import logged_processor_speed

Speed = Annotated[
    Decimal, BeforeValidator(exact_decimal), Field(gt=0), PlainSerializer(str, return_type=str, when_used="always")
]


class Generate(Settings):
    """A made-up workload, from a seed and an embedded recipe."""

    seed: Seed = 1
    n_jobs: Count | None = None
    recipe: Literal["published-day", "campus"] = "published-day"

    @property
    def n_made(self) -> int:
        """How many jobs are made up."""
        return self.n_jobs or load_recipe(self.recipe).n_jobs


class Workload(LogSettings):
    """One job table: generated, read from a job table, or from a log.

    With ``format`` or ``preset`` the file is a log, read by `procure.workload.read_log` with the settings of
    `procure.workload.LogSettings`, which stand here.
    ``day`` cuts one local day of the time zone ``tz`` out of it; without, the whole log is replayed as it came.
    ``warm_up`` (``"3d"``, ``"12h"`` or seconds from the first submission) is simulated, but what is submitted in it
    does not count; with ``begin = "as-logged"`` it is not simulated either: the system begins at its end with the
    jobs that the log says were running or waiting then. ``logged_processor`` (a processor
    of the quote file, or one whose SPECrate 2017 is published) or ``logged_speed`` (any number, in the
    unit of the quotes' ``spec_rate``) says how fast the logged system was; with neither, those of
    ``[simulate]``, else run times are left as logged on every node.
    ``shape`` says how jobs of several nodes meet nodes of another size: as ``tasks`` wherever there is room, whole-node
    jobs by their CPUs, or on the nodes ``as-logged``; ``shape_rules`` say it of some jobs, ``"partition=debug"`` or
    ``"class=gpu"``, see `procure.workload.shapes.shape_jobs`.
    ``weight`` says how much it counts where several workloads are taken together by mean, e.g. the
    number of days that a day stands for.
    """

    name: Name
    generate: Generate | None = None
    jobs: InputFile | None = None
    day: datetime.date | None = None
    warm_up: Seconds = 0
    begin: Literal["empty", "as-logged"] = "empty"
    logged_processor: str | None = None
    logged_speed: Speed | None = None
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    shape: Shape = "tasks"
    shape_rules: Annotated[dict[str, str], AfterValidator(check_rules)] = Field(default_factory=dict)

    @field_validator("preset")
    @classmethod
    def _beside_the_study(cls, preset: str | None, info: ValidationInfo) -> str | None:
        folder = (info.context or {}).get("folder")
        if preset is None or folder is None or not preset.endswith(".toml"):
            return preset
        return (Path(folder) / preset).as_posix()

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        if (self.generate is None) == (self.jobs is None):
            raise ValueError("give exactly one of generate and jobs")
        how = self.said()
        if how and self.jobs is None:
            raise ValueError(f"{how[0]} belongs to jobs, and a workload that is generated has none")
        if how and self.format is None and self.preset is None:
            raise ValueError(f"{how[0]} needs format or preset; without them, jobs is a job table")
        if self.day is not None and self.tz is None:
            raise ValueError("day needs tz, the time zone whose day is meant, e.g. tz = 'America/Chicago'")
        if self.begin == "as-logged" and not self.warm_up:
            raise ValueError("begin = 'as-logged' needs warm_up, at whose end the system begins")
        if self.logged_processor is not None and self.logged_speed is not None:
            raise ValueError("give at most one of logged_processor and logged_speed")
        return self


def logged_speed(system: Any, quotes: pd.DataFrame, where: str) -> str | None:
    """Return the speed of a logged system as decimal text, or None for the ratio 1.0 everywhere.

    ``system`` has ``logged_processor``, which is looked up in the quotes and then among the published rates, and
    ``logged_speed``; ``where`` it stands is said in the error of both, of a processor that is not known, or of quotes
    that differ in its ``spec_rate``.
    """
    if system.logged_processor is not None and system.logged_speed is not None:
        raise TableError(f"{where}: give at most one of logged_processor and logged_speed")
    if system.logged_speed is not None:
        return str(system.logged_speed)
    if system.logged_processor is None:
        return None
    with within(f"{where}, logged_processor"):
        return str(logged_processor_speed(system.logged_processor, quotes)[0])


def read_workloads(path: Path, folder: Path) -> Any:
    """Read the workloads that stand in a file of their own, not yet checked.

    Paths in it are relative to its folder; those returned are relative to the study's.
    """
    found = read_toml(path, "; workloads is a file of [[workloads]] tables, or these tables").get("workloads", [])
    for table in found if isinstance(found, list) else []:
        for key in ("jobs", "preset"):
            named = table.get(key)
            if isinstance(named, str) and (key == "jobs" or named.endswith(".toml")):
                table[key] = os.path.relpath(path.parent / named, folder or ".")
    return found


def write_workloads(
    days: dict[str, pd.DataFrame],
    chosen: pd.DataFrame,
    folder: Path,
    like: Workload | None = None,
    tz: str | None = None,
) -> Path:
    """Write chosen days as job tables into a folder, and the ``workloads.toml`` that a study takes them from.

    ``chosen`` has ``day weight``, from `procure.workload.parts.choose`; the logged processor or speed of the workload
    ``like`` holds for the days, too; ``tz`` is the zone in which a report dates them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["# Days that `procure workload days` chose; paths are relative to this file."]
    for row in chosen.itertuples(index=False):
        write(days[row.day], folder / f"jobs-{row.day}.parquet")
        lines += ["", "[[workloads]]", f'name = "{row.day}"', f'jobs = "jobs-{row.day}.parquet"']
        lines += [f"tz = {json.dumps(tz)}"] if tz is not None else []
        lines += [f"weight = {row.weight}"] if row.weight != 1 else []
        for key in ("logged_processor", "logged_speed", "shape"):
            value = getattr(like, key, None)
            lines += [f"{key} = {json.dumps(str(value))}"] if value not in (None, "tasks") else []
    with whole_file(folder / "workloads.toml") as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "workloads.toml"
