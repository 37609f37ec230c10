"""Sections of a study file: `[site]`, `[futures]`, `[award]`; and its `[[workloads]]`."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

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
from procure.objectives.constraints import OBJECTIVES, Quantity, of_class, quantity_of
from procure.policies import catalog
from procure.settings import Count, Folder, InputFile, Name, Seconds, Seed, Settings, exact_decimal, read_toml
from procure.tables import write
from procure.text import nearest, seconds
from procure.workload.generate import load_recipe
from procure.workload.load import Futures, draw_futures
from procure.workload.log_settings import LogSettings
from procure.workload.shapes import Shape, check_rules
from procure.workload.speed import logged_processor_speed

NODES = "nodes.csv"
"""The node table in a site's folder."""
POLICY = "slurm"
"""The policy of a study with a site that names none."""
_MARKS = ",;@+"
"""What separates names in a policy's parameter."""


class StudySite(Settings):
    """A centre whose rules hold in a study, and what becomes of bought nodes there.

    ``new_nodes`` and ``new_features`` go by the beginning of a type's name, whatever its case: ``gpu`` is every type
    whose name begins so. ``change`` holds changes of the rules as ``procure what-if --rule`` takes them.
    """

    path: Folder
    new_nodes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    new_features: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    change: tuple[str, ...] = ()

    @field_validator("new_nodes", "new_features")
    @classmethod
    def _plain_names(cls, given: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for kind, names in given.items():
            wrong = [name for name in (kind, *names) if not name or set(name) & set(_MARKS)]
            if wrong:
                raise ValueError(f"{wrong[0]!r} was given; a name is not empty and holds none of {' '.join(_MARKS)}")
        return given

    def parameters(self) -> dict[str, str]:
        """Return what a policy that goes by this site is told."""
        told = {
            "site": self.path.as_posix(),
            "new": _written(self.new_nodes),
            "features": _written(self.new_features),
            "change": ";".join(self.change).replace(",", "+"),
        }
        return {key: text for key, text in told.items() if text}

    def label(self, policy: str) -> str:
        """Return a policy's label under this site; one that goes by no site, or by another, stays as it is."""
        name, given = catalog.split(policy)
        fields = catalog.model_of(name, given).model_fields
        if "site" not in fields or "site" in given:
            return policy
        told = {key: text for key, text in self.parameters().items() if key in fields and key not in given}
        return catalog.spec(policy, told, Path.cwd()).label

    def check_types(self, types: list[str]) -> None:
        """Refuse a name that no type's name begins with; the error has the nearest of the types."""
        for key in ("new_nodes", "new_features"):
            for kind in getattr(self, key):
                if not any(name.casefold().startswith(kind.casefold()) for name in types):
                    raise TableError(f"site.{key}: no quoted type begins with {kind!r}; {nearest(kind, types)}")


def _written(names: dict[str, tuple[str, ...]]) -> str:
    return ";".join(f"{kind}@{'+'.join(each)}" for kind, each in names.items())


PAST = "past"
"""What packages are compared on in a study with futures: its workloads as one log, as it was."""


class StudyFutures(Futures):
    """Drawn weeks that the first packages of a study are tried on, once they are found on the past as it was."""

    REMOVED: ClassVar[dict[str, str]] = Futures.REMOVED | {
        "past": "packages are compared on the past as it was, drawn weeks are tried beside; leave it out"
    }


def table_digest(table: pd.DataFrame) -> str:
    """Return a digest of a table's columns and values."""
    rows = pd.util.hash_pandas_object(table, index=False).to_numpy().astype("<u8")
    names = ",".join(map(str, table.columns)).encode()
    return hashlib.sha256(names + rows.tobytes()).hexdigest()[:16]


def read_futures(jobs: pd.DataFrame, settings: StudyFutures) -> dict[str, pd.DataFrame]:
    """Draw a study's futures, ``future-01`` …, from the jobs of its workloads; a log that is too short is an error."""
    width = max(2, len(str(settings.draws)))
    return {f"future-{i:0{width}d}": drawn for i, drawn in enumerate(draw_futures(jobs, settings), 1)}


SHORT = {"waits": "mean-wait", "wait": "mean-wait", "cost": "tco"}
"""Names of criteria besides those of objectives."""
WHOLE = 100.0
"""What weights add up to."""
_ALONE = tuple(name for name, one in OBJECTIVES.items() if one.how != "regret-max")


def _number(value: object) -> object:
    return seconds(value) if isinstance(value, str) else value


class Scale(Settings):
    """The value of a criterion that gets all points, and the one from which there are none; between them, a line."""

    full: Annotated[float, BeforeValidator(_number), Field(ge=0, allow_inf_nan=False)]
    none: Annotated[float, BeforeValidator(_number), Field(gt=0, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _apart(self) -> Scale:
        if self.none <= self.full:
            raise ValueError(f"none, {self.none:g}, must be above full, {self.full:g}: less is better")
        return self


class Award(Settings):
    """How offers are scored, as a study's ``[award]`` gives it.

    A criterion of ``weights`` (100 in all) is an objective (`SHORT` has short names), less of which is better, or a
    name in ``points``, which a panel gave each vendor (or package id), at most ``most_points``. ``rule`` ``relative``:
    weight × best / value; ``linear``: all points for the best value, none from ``zero_at`` times the best on, a line
    between them; ``scale``, by criterion: a line between two values that are stated before offers are known. ``among``
    ``vendors``: for each vendor, or set of vendors, the first package of the recommendation; ``packages``: the list.
    """

    weights: Annotated[dict[str, Annotated[float, Field(ge=0, le=WHOLE)]], Field(min_length=1, max_length=50)]
    rule: Literal["relative", "linear"] = "relative"
    zero_at: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 2.0
    scale: dict[str, Scale] = Field(default_factory=dict)
    points: dict[str, dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]] = Field(default_factory=dict)
    most_points: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 10.0
    among: Literal["vendors", "packages"] = "vendors"

    @model_validator(mode="after")
    def _agree(self) -> Award:
        for name in self.weights:
            wanted = SHORT.get(name, name)
            if name not in self.points and wanted not in _ALONE and (wanted in OBJECTIVES or not of_class(wanted)):
                legal = nearest(name, [*SHORT, *_ALONE])
                raise ValueError(f"weights.{name}: is neither an objective nor among [award.points]; {legal}")
        total = math.fsum(self.weights.values())
        if abs(total - WHOLE) > 1e-6:
            raise ValueError(f"weights: they add up to {total:g}; they must add up to {WHOLE:g}")
        for key, name in [("points", one) for one in self.points] + [("scale", one) for one in self.scale]:
            if name not in self.weights:
                raise ValueError(f"{key}.{name}: has no weight; {nearest(name, list(self.weights))}")
        for name in self.points.keys() & self.scale.keys():
            raise ValueError(f"scale.{name}: its points are given already, in points.{name}")
        for key, value in (
            (f"{name}.{vendor}", value) for name, of in self.points.items() for vendor, value in of.items()
        ):
            if value > self.most_points:
                raise ValueError(f"points.{key}: {value:g} was given; most_points is {self.most_points:g}")
        return self

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The criteria that are objectives, by their names here."""
        return {name: quantity_of(SHORT.get(name, name)) for name in self.weights if name not in self.points}


def check_points(award: Award | None, vendors: pd.Series, packages: pd.Series | None = None) -> None:
    """Refuse points for a vendor that quotes nothing, or a package not in the list; without a list, ``=`` is one."""
    known = [one for one in vendors.astype(str).unique() if one]
    for name, given in (award.points if award is not None else {}).items():
        for of in given:
            is_package = "=" in of if packages is None else of in set(packages)
            if of not in known and not is_package:
                raise TableError(f"award.points.{name}.{of}: no quote has this vendor; {nearest(of, known)}")


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
