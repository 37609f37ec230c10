"""How much faster is a job here than in the log: by its application, and by the GPU model that it gets."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field, field_validator, model_validator

from procure.errors import TableError
from procure.files.gpu_pools import models_of, named_pools, pool_for
from procure.objectives.conditions import Term, find, parse_terms
from procure.settings import Settings, StrictNumber, named
from procure.text import counted, short
from procure.workload.speed import Speed, exact_speed, scale_by, scale_run_time, speed_ratio

KINDS, GPUS = "kind_speeds", "gpu_speeds"
"""Columns of a job table: how many times faster a job is, by kind of node and by GPU model."""

Factors = Mapping[str, Fraction]
"""By kind of node: how many times faster than in the log an application is there."""

NOMINAL = Path(__file__).with_name("gpu_table.csv")
"""Nominal figures of GPU models, from which a mapping is proposed; nothing is simulated by them.

A name without a size or a form stands for the smallest memory, and of H100 and H200 for SXM.
"""
_OTHERS = {"nvl", "mig", "ti", "super", "ada"}
"""Words that make another model of a name that is in the table."""
_SLICE = re.compile(r"\d+g[._](\d+)gb")


def _above_zero(speed: dict[str, float]) -> dict[str, float]:
    for name, factor in speed.items():
        if exact_speed(factor, name) is None:
            raise TableError(f"{name}: {factor} was given; a speed is a number above 0")
    return speed


Speeds = Annotated[dict[str, StrictNumber], AfterValidator(named), AfterValidator(_above_zero)]
Share = Annotated[float, Field(strict=True, gt=0, le=1)]


class Application(Settings):
    """Which jobs are an application's, and how fast it is on which processor.

    Parameters
    ----------
    by
        As `procure.objectives.conditions.parse_terms` reads it.
    share
        Of the core hours of jobs that nothing is known of (no such column, an empty cell, or no ``by``), the share
        that is taken to be this application's.
    speed
        By processor (or kind of existing nodes): how many times faster than in the log.
    relative_to
        A processor that speeds are relative to instead; from the log's to this one run times scale by the SPEC number.
    """

    by: str | None = None
    share: Share | None = None
    speed: Annotated[Speeds, Field(min_length=1, max_length=1000)]
    relative_to: str | None = None

    @model_validator(mode="after")
    def _some_jobs(self) -> Application:
        if self.by is None and self.share is None:
            raise ValueError("give by (which jobs are this application's), share (of the core hours), or both")
        return self

    @field_validator("by")
    @classmethod
    def _readable(cls, by: str | None) -> str | None:
        return by if by is None or parse_terms(by, any_column=True) else None

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The conditions of ``by``; none without it."""
        return () if self.by is None else parse_terms(self.by, any_column=True)


class GpuModel(Settings):
    """Where jobs that ask for one GPU model may run besides, and how many times faster than on their own.

    ``share`` of the run time shrinks with the GPU's speed, the rest stays as it is. In a study's ``[gpu_models]``,
    ``any`` stands for the jobs that ask for GPUs and name no model.
    """

    runs_on: Annotated[tuple[str, ...], Field(max_length=62)] = ()
    speed: Speeds = Field(default_factory=dict)
    share: Share = 1.0

    @field_validator("runs_on")
    @classmethod
    def _plain(cls, runs_on: tuple[str, ...]) -> tuple[str, ...]:
        for model in runs_on:
            if not model or re.search("[|=]", model):
                raise ValueError(f"{model!r} was given; a GPU model is named without '|' and '='")
        return runs_on


class Assignment(NamedTuple):
    """Whose each job is."""

    taken: np.ndarray  # int64[n_jobs], the application that takes the job by its condition; -1 = none
    unknown: np.ndarray  # bool[n_applications, n_jobs]: its share counts for the job


def assign(jobs: pd.DataFrame, applications: Mapping[str, Application]) -> Assignment:
    """Say whose each job is; that two applications take the same job is a TableError."""
    taken, names = np.full(len(jobs), -1, np.int64), list(applications)
    unknown = np.zeros((len(names), len(jobs)), dtype=bool)
    for i, one in enumerate(applications.values()):
        if not one.terms:
            unknown[i] = True
            continue
        meant, unknown[i] = find(one.terms, jobs)
        again = np.flatnonzero(meant & (taken >= 0))
        if again.size:
            row = int(again[0])
            raise TableError(
                f"applications.{names[i]}.by: takes {counted(int(again.size), 'job')} that "
                f"applications.{names[taken[row]]}.by takes, too, such as job {jobs['job_id'].iloc[row]}; "
                "each job is of one application"
            )
        taken[meant] = i
    shared = np.array([one.share is not None for one in applications.values()], dtype=bool)
    return Assignment(taken, unknown & shared[:, None] & (taken < 0))


def map_applications(
    jobs: pd.DataFrame, applications: Mapping[str, Application], factors: Sequence[Factors]
) -> pd.DataFrame:
    """Say in a job table how fast jobs are on which kind of node; the same table where nothing changes.

    A job that an application takes is as fast as its factors say. A job of which nothing is known is each application's
    by its share: that share of its run time is as fast as the application, the rest scales as without. ``factors`` are
    in the order of ``applications``; ``kind_speeds`` become such as ``Big=1.4:0.3`` (of 0.3 of the run time).
    """
    taken, unknown = assign(jobs, applications)
    shares = [Fraction(str(one.share)) for one in applications.values()] if len(jobs) and unknown.any() else []
    # Jobs of one pattern have one text: few patterns, many jobs.
    number, patterns = pd.factorize(pd.MultiIndex.from_arrays([taken, *unknown]))
    texts = []
    for mine, *open_ in patterns:
        parts = [(Fraction(1), factors[mine])] if mine >= 0 else []
        texts.append(_kinds_text(parts + [(shares[i], factors[i]) for i, one in enumerate(open_) if one]))
    if not any(texts):
        return jobs
    return jobs.assign(**{KINDS: pd.Series(np.array(texts, dtype=object)[number], index=jobs.index, dtype=object)})


def _kinds_text(parts: Sequence[tuple[Fraction, Factors]]) -> str:
    cells = []
    for kind in dict.fromkeys(kind for _, found in parts for kind in found):
        known = [(share, found[kind]) for share, found in parts if kind in found]
        share = sum((share for share, _ in known), Fraction(0))
        factor = share / sum((share / factor for share, factor in known), Fraction(0))
        cells.append(f"{kind}={_number(factor)}" + (f":{_number(share)}" if share < 1 else ""))
    return "|".join(cells)


def _number(value: Fraction) -> str:
    """Write a fraction exactly: as a decimal where it is one."""
    decimal = Decimal(value.numerator) / Decimal(value.denominator)
    return f"{decimal:f}" if Fraction(decimal) == value else str(value)


def map_gpu_models(jobs: pd.DataFrame, models: Mapping[str, GpuModel]) -> pd.DataFrame:
    """Say in a job table where jobs may run besides the GPU model that they ask for, and how fast.

    ``gpu_type`` becomes such as ``v100|H100`` and ``gpu_speeds`` such as ``H100=3.1``. It is the same table where
    nothing changes; one that was mapped before stays as it is.
    """
    asked = jobs["gpu_type"].where(jobs["gpus_per_node"] > 0).str.strip().str.casefold()
    types, speeds = {}, {}
    for name, one in models.items():
        key = "" if name.casefold() == "any" else name.casefold()
        types[key] = "|".join(dict.fromkeys([*([name] if key else []), *one.runs_on]))
        by_model = {model.casefold(): factor for model, factor in reversed(one.speed.items())}
        whole = {model: 1 / (1 - one.share + one.share / by_model[model.casefold()]) for model in one.speed}
        speeds[key] = "|".join(f"{model}={times:.6g}" for model, times in whole.items())
    kept = jobs[GPUS].fillna("") if GPUS in jobs else pd.Series("", index=jobs.index)
    mapped = asked.isin(types) & (kept == "")
    if not mapped.any():
        return jobs
    return jobs.assign(
        gpu_type=jobs["gpu_type"].mask(mapped, asked.map(types)),
        gpu_speeds=kept.mask(mapped, asked.map(speeds)).astype(jobs["gpu_type"].dtype),
    )


@functools.lru_cache(4096)
def speeds_of(text: str, column: str) -> dict[str, tuple[Fraction, Fraction]]:
    """Read how many times faster a job is, and which share of it: ``Big=1.4|Small=71/50:0.3``.

    Raises
    ------
    TableError
        A part is no name with a number above 0, or its share is not above 0 and at most 1.
    """
    found = {}
    for part in filter(None, (one.strip() for one in text.split("|"))):
        name, _, value = part.rpartition("=")
        parts = value.partition(":")
        try:
            factor, share = (Fraction(one) if "/" in one else exact_speed(one, column) for one in (parts[0], parts[2]))
        except (ValueError, ZeroDivisionError, TableError):
            factor = share = None
        share = Fraction(1) if not parts[1] else share
        if not name.strip() or not factor or factor < 0 or not share or not 0 < share <= 1:
            raise TableError(
                f"{column}: {short(part)} was given; write NAME=TIMES or NAME=TIMES:SHARE, e.g. Big=1.4:0.3"
            )
        found[name.strip().casefold() if column == GPUS else name.strip()] = factor, share
    return found


def run_times_on(jobs: pd.DataFrame, logged: Speed, node: Speed, model: str, kind: str = "") -> np.ndarray:
    """Return how long each job runs on a node of a speed and kind with GPUs of a model, int64 s, in table order.

    Of ``model`` such as ``2x A100 + 2x L40S``, a job runs on the first one that will do.

    Without GPUs, or where ``gpu_speeds`` do not name the model, and where ``kind_speeds`` do not name the kind, as
    `scale_run_time` says. A speed of the kind replaces the ratio of the two speeds; that of the GPU multiplies it.
    """
    run_time, nothing = jobs["run_time"].to_numpy(np.int64), pd.Series("", index=jobs.index)
    found = scale_run_time(run_time, logged, node)
    on_gpus, by_kind = GPUS in jobs and bool(model), KINDS in jobs and bool(kind)
    if not on_gpus and not by_kind:
        return found
    ratio, several = speed_ratio(logged, node), "+" in model
    gpus = jobs[GPUS].fillna("").where(jobs["gpus_per_node"] > 0, "") if on_gpus else nothing
    kinds = jobs[KINDS].fillna("") if by_kind else nothing
    number, rows = pd.factorize(pd.MultiIndex.from_arrays([gpus, kinds, jobs["gpu_type"] if several else nothing]))
    for place, (on_gpu, on_kind, asked) in enumerate(rows):
        factor, share = speeds_of(str(on_kind), KINDS).get(kind, (Fraction(1), Fraction(0)))
        whole = share / factor + (1 - share) * ratio
        factor, share = speeds_of(str(on_gpu), GPUS).get(_taken(str(asked), model), (Fraction(1), Fraction(0)))
        whole *= share / factor + 1 - share
        if whole != ratio:
            found[number == place] = scale_by(run_time[number == place], whole)
    return found


def _taken(asked: str, text: str) -> str:
    """Return which model of a node a request takes; empty where none will do."""
    pools = named_pools(text)
    place = pool_for(pools, models_of(asked)) if "+" in text else 0
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
    """Count the jobs of each GPU model that a log, not mapped, asks for and that is not ``offered``.

    Of an empty offered model nodes state none, and every job runs on them. ``stay`` are models of nodes that stay
    beside what is bought. Returns ``model n_jobs gpu_hours runs_on``, most hours first, then by name; ``runs_on`` are
    the models that stay or are offered on which these jobs may run: where it is empty, no package runs them.
    """
    there = {one.casefold() for one in offered}
    known = there | {one.casefold() for one in stay}
    held = jobs[jobs["gpus_per_node"] > 0] if "" not in there else jobs.iloc[:0]
    hours = held["run_time"] * held["n_nodes"] * held["gpus_per_node"] / 3600
    held = held.assign(gpu_hours=hours, model=held["gpu_type"].str.casefold())
    lacking = {text: bool(models_of(text)) and there.isdisjoint(models_of(text)) for text in held["model"].unique()}
    held = held[held["model"].map(lacking).astype(bool)]
    table = held.groupby("model", sort=True).agg(n_jobs=("model", "size"), gpu_hours=("gpu_hours", "sum")).reset_index()
    mapped = {name.casefold(): model.runs_on for name, model in models.items()}
    runs_on = [
        [*(one for one in stay if one.casefold() in models_of(model)),
         *(one for one in mapped.get(model, ()) if one.casefold() in known)]
        for model in table["model"]
    ]  # fmt: skip
    table = table.assign(gpu_hours=table["gpu_hours"].round(1), runs_on=runs_on)
    return table.sort_values(["gpu_hours", "model"], ascending=[False, True], kind="stable", ignore_index=True)


@functools.cache
def nominal_gpus() -> tuple[Any, ...]:
    """Return the rows of `NOMINAL`: memory in GB, bandwidth in GB/s, vector rates in TFLOPS; NaN = not stated."""
    return tuple(pd.read_csv(NOMINAL, dtype={"mig": "str"}).fillna({"mig": ""}).itertuples(index=False))


def find_gpu(name: str) -> Any | None:
    """Return the row that a model's name means, such as ``nvidia_a100-sxm4-80gb``; None where it may be another.

    All words of the row's name stand in it; of several rows the one with most words counts. A size that is stated is
    the row's. A MIG slice is none.
    """
    words = set(re.findall(r"[a-z0-9]+", name.casefold()))
    if _SLICE.search(name.casefold()) or words & _OTHERS:
        return None
    sizes = _sizes(name)
    found = [
        one
        for one in nominal_gpus()
        if set(re.sub(r"\b\d+gb\b", "", one.model.casefold()).split()) <= words
        and (not sizes or sizes == {one.memory_gb})
        and (sizes or not _sizes(one.model))
    ]
    return max(found, key=lambda one: len(one.model.split()), default=None)


def _sizes(name: str) -> set[float]:
    """Return the sizes in GB that a model's name states: 80 of ``a100-sxm4-80gb``, ``a100_80``, ``A100 80 GB``."""
    return {float(one) for one in re.findall(r"(?<![a-z0-9.])(\d{2,3})(?:\s*gi?b?)?(?![a-z0-9.])", name.casefold())}


def _memory(name: str) -> float:
    """Return a model's memory in GB as its name states it, else as the table does; NaN where neither does."""
    if part := _SLICE.search(name.casefold()):
        return float(part[1])
    row = find_gpu(name)
    return row.memory_gb if row is not None else max(_sizes(name), default=math.nan)


def propose_mapping(asked: str, offered: Sequence[str], beside: Mapping[str, str] | None = None) -> list[str]:
    """Write the table of a study that maps a GPU model to those on offer, nominal speeds as a proposal.

    Speeds are ratios of memory bandwidth, which binds most codes; beside them stand those of arithmetic. Where a model
    is not in the table, the speed is 1.0 and to be filled in. Models with less memory are left out of ``runs_on``, and
    so are those that stand ``beside`` another in one node, as their jobs take the first one there.
    """
    key, quoted = f"gpu_models.{json.dumps(asked)}", json.dumps
    fits = [name for name in offered if not _memory(name) < _memory(asked)]
    second = {name: first for name, first in (beside or {}).items() if name in fits and first in fits}
    named_ = [name for name in fits if name not in second]
    return [
        f"[{key}]",
        f"runs_on = [{', '.join(map(quoted, named_))}]",
        *(f"# {quoted(name)} has {_memory(name):g} GB, {quoted(asked)} {_memory(asked):g} GB"
          for name in offered if name not in fits),
        *(f"# {quoted(name)} stands beside {quoted(first)} in one node: name one of the two in runs_on"
          for name, first in second.items()),
        f"[{key}.speed]",
        *(f"{quoted(name)} = {_nominal_speed(find_gpu(asked), find_gpu(name))}" for name in named_),
    ]  # fmt: skip


def _nominal_speed(own: Any | None, other: Any | None) -> str:
    if own is None or other is None:
        return "1.0  # not in the table of nominal speeds: fill in"
    rates = {"FP64": other.fp64_tflops / own.fp64_tflops, "FP32": other.fp32_tflops / own.fp32_tflops}
    beside = "".join(f"; {name} {times:.2g} times" for name, times in rates.items() if not math.isnan(times))
    return (
        f"{other.bandwidth_gb_s / own.bandwidth_gb_s:.2g}  # a proposal: memory bandwidth "
        f"{other.bandwidth_gb_s:,.0f} against {own.bandwidth_gb_s:,.0f} GB/s{beside}"
    )
