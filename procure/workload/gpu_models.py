"""GPU models: which of them will do for a job, and how much faster it is on each."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field, field_validator

from procure.errors import TableError
from procure.files.gpu_pools import models_of, named_pools, pool_for
from procure.settings import Settings, StrictNumber, named
from procure.workload.applications import COLUMN, kind_speeds
from procure.workload.speed import Speed, exact_speed, scale_by, scale_run_time

ANY = "any"
"""In a study's ``[gpu_models]``: the jobs that ask for GPUs and name no model."""

_DIGITS = 6


class GpuModel(Settings):
    """Where jobs that ask for one GPU model may run besides, and how many times faster than on their own.

    ``share`` of the run time shrinks with the GPU's speed, the rest stays as it is.
    """

    runs_on: Annotated[tuple[str, ...], Field(max_length=62)] = ()
    speed: Annotated[dict[str, StrictNumber], AfterValidator(named)] = Field(default_factory=dict)
    share: Annotated[float, Field(strict=True, gt=0, le=1)] = 1.0

    @field_validator("speed")
    @classmethod
    def _above_zero(cls, speed: dict[str, float]) -> dict[str, float]:
        for model, factor in speed.items():
            try:
                exact_speed(factor, model)
            except TableError as error:
                raise ValueError(str(error)) from None
        return speed

    @field_validator("runs_on")
    @classmethod
    def _plain(cls, runs_on: tuple[str, ...]) -> tuple[str, ...]:
        for model in runs_on:
            if not model or re.search("[|=]", model):
                raise ValueError(f"{model!r} was given; a GPU model is named without '|' and '='")
        return runs_on

    def times_faster(self, model: str) -> float:
        """Return how many times faster a whole job is on a model, by Amdahl's law."""
        factor = next((one for name, one in self.speed.items() if name.casefold() == model.casefold()), 1.0)
        return 1 / (1 - self.share + self.share / factor)


def gpu_types(text: str) -> list[str]:
    """Return the GPU models that will do, without regard to case: ``v100|H100``; empty = any."""
    return [one for one in (part.strip().casefold() for part in str(text).split("|")) if one]


@functools.lru_cache(4096)
def gpu_speeds(text: str) -> dict[str, Fraction]:
    """Read how many times faster a job is on GPU models: ``H100=3.1|L40S=1.4``; what is not named is 1.

    Raises
    ------
    TableError
        A part is no model with a number above 0.
    """
    found = {}
    for part in filter(None, (one.strip() for one in text.split("|"))):
        model, is_there, factor = part.partition("=")
        speed = exact_speed(factor, f"gpu_speeds, {model}") if is_there else None
        if speed is None:
            raise TableError(f"gpu_speeds: {part!r} was given; write MODEL=TIMES, e.g. H100=3.1|L40S=1.4")
        found[model.strip().casefold()] = speed
    return found


def map_gpu_models(jobs: pd.DataFrame, models: Mapping[str, GpuModel]) -> pd.DataFrame:
    """Say in a job table where jobs may run besides the GPU model that they ask for, and how fast.

    Parameters
    ----------
    jobs
        A job table.
    models
        By the model that jobs ask for, or `ANY`.

    Returns
    -------
    pandas.DataFrame
        The table with ``gpu_type`` such as ``v100|H100`` and ``gpu_speeds`` such as ``H100=3.1``; the same table
        where nothing changes. A table that was mapped before stays as it is.
    """
    asked = jobs["gpu_type"].where(jobs["gpus_per_node"] > 0).str.strip().str.casefold()
    names = {"" if name.casefold() == ANY else name.casefold(): name for name in models}
    mapped = asked.isin(names)
    if "gpu_speeds" in jobs:
        mapped &= jobs["gpu_speeds"].fillna("") == ""
    if not mapped.any():
        return jobs
    types = {
        key: "|".join(dict.fromkeys([*([name] if key else []), *models[name].runs_on])) for key, name in names.items()
    }
    speeds = {
        key: "|".join(f"{model}={models[name].times_faster(model):.{_DIGITS}g}" for model in models[name].speed)
        for key, name in names.items()
    }
    kept = jobs["gpu_speeds"].fillna("") if "gpu_speeds" in jobs else pd.Series("", index=jobs.index)
    return jobs.assign(
        gpu_type=jobs["gpu_type"].mask(mapped, asked.map(types)),
        gpu_speeds=kept.mask(mapped, asked.map(speeds)).astype(jobs["gpu_type"].dtype),
    )


def run_times_on(jobs: pd.DataFrame, logged: Speed, node: Speed, model: str, kind: str = "") -> np.ndarray:
    """Return how long each job runs on a node of a speed and kind with GPUs of a model, int64 s, in table order.

    Of ``model`` such as ``2x A100 + 2x L40S``, a job runs on the first one that will do.

    Without GPUs, or where ``gpu_speeds`` do not name the model, and where ``kind_speeds`` do not name the kind, as
    `scale_run_time` says. A speed of the kind replaces the ratio of the two speeds; that of the GPU multiplies it.
    """
    run_time = jobs["run_time"].to_numpy(np.int64)
    found = scale_run_time(run_time, logged, node)
    on_gpus = "gpu_speeds" in jobs and bool(model)
    by_kind = COLUMN in jobs and bool(kind)
    if not on_gpus and not by_kind:
        return found
    there, here = exact_speed(logged, "logged speed"), exact_speed(node, "node speed")
    ratio = Fraction(1) if there is None or here is None else there / here
    nothing = pd.Series("", index=jobs.index)
    gpus = jobs["gpu_speeds"].fillna("").where(jobs["gpus_per_node"] > 0, "") if on_gpus else nothing
    kinds = jobs[COLUMN].fillna("") if by_kind else nothing
    several = "+" in model
    number, pairs = pd.factorize(pd.MultiIndex.from_arrays([gpus, kinds, jobs["gpu_type"] if several else nothing]))
    for place, (on_gpu, on_kind, asked) in enumerate(pairs):
        taken = _model_for(str(asked), model) if several else model.casefold()
        factor, speed = gpu_speeds(str(on_gpu)).get(taken), kind_speeds(str(on_kind)).get(kind)
        if factor is not None or speed is not None:
            mine = number == place
            whole = (ratio if speed is None else speed.ratio(ratio)) / (factor or 1)
            found[mine] = scale_by(run_time[mine], whole)
    return found


def _model_for(asked: str, text: str) -> str:
    """Return which model of a node a request takes; empty where none will do."""
    pools = named_pools(text)
    place = pool_for(pools, models_of(asked))
    return pools[place][0].casefold() if place >= 0 else ""


def offered_gpu_models(quotes: pd.DataFrame, existing: pd.DataFrame | None) -> list[str]:
    """Return the GPU models of quotes and of nodes that stay, as written there; an empty one where some state none.

    Of ``2x A100 + 14x A100_1g.5gb`` both.
    """
    tables = [quotes, *([] if existing is None else [existing])]
    names = pd.concat([table.loc[table["gpus"] > 0, "gpu_type"] for table in tables]).fillna("")
    return list(dict.fromkeys(model for text in names for model, _ in named_pools(str(text))))


def asked_gpu_models(
    jobs: pd.DataFrame, offered: Collection[str], models: Mapping[str, GpuModel], stay: Collection[str] = ()
) -> pd.DataFrame:
    """Count the jobs of each GPU model that a log asks for and that is not on offer.

    Parameters
    ----------
    jobs
        A job table, not mapped.
    offered
        From `offered_gpu_models`; an empty one is of nodes that state none, on which every job runs.
    models
        As in `map_gpu_models`.
    stay
        Models of nodes that stay beside what is bought.

    Returns
    -------
    pandas.DataFrame
        ``model n_jobs gpu_hours runs_on``, most hours first, then by name. ``runs_on`` lists the models of nodes that
        stay and the offered ones on which these jobs may run; where it is empty, no package runs them.
    """
    there = {one.casefold() for one in offered}
    known = there | {one.casefold() for one in stay}
    with_gpus = jobs[jobs["gpus_per_node"] > 0] if "" not in there else jobs.iloc[:0]
    hours = with_gpus["run_time"] * with_gpus["n_nodes"] * with_gpus["gpus_per_node"] / 3600
    names = with_gpus["gpu_type"].str.casefold()
    lacking = {text: bool(gpu_types(text)) and there.isdisjoint(gpu_types(text)) for text in names.unique()}
    held = with_gpus.assign(gpu_hours=hours, model=names)[names.map(lacking).astype(bool)]
    table = held.groupby("model", sort=True).agg(n_jobs=("model", "size"), gpu_hours=("gpu_hours", "sum")).reset_index()
    mapping = {name.casefold(): model for name, model in models.items()}
    runs_on = [
        [
            *(one for one in stay if one.casefold() in gpu_types(model)),
            *(one for one in (mapping[model].runs_on if model in mapping else ()) if one.casefold() in known),
        ]
        for model in table["model"]
    ]
    table = table.assign(gpu_hours=table["gpu_hours"].round(1), runs_on=runs_on)
    return table.sort_values(["gpu_hours", "model"], ascending=[False, True], kind="stable", ignore_index=True)
