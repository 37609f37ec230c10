"""Nominal figures of GPU models, from which a mapping is proposed; nothing is simulated by them."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

TABLE = Path(__file__).with_name("gpu_table.csv")
_OTHERS = {"nvl", "mig", "ti", "super", "ada"}
"""Words that make another model of a name that is in the table."""
_SLICE = re.compile(r"\d+g[._](\d+)gb")


class NominalGpu(NamedTuple):
    """A row of `TABLE`: memory in GB, bandwidth in GB/s, vector rates in TFLOPS; NaN = not stated.

    ``mig`` are the profiles into which one GPU can be split. A name without a size or a form stands for the smallest
    memory, and of H100 and H200 for SXM.
    """

    model: str
    generation: str
    memory_gb: float
    bandwidth_gb_s: float
    fp64_tflops: float
    fp32_tflops: float
    mig: tuple[str, ...]
    source: str


@functools.cache
def nominal_gpus() -> tuple[NominalGpu, ...]:
    """Return the rows of `TABLE`."""
    table = pd.read_csv(TABLE, dtype={"mig": "str"}).fillna({"mig": ""})
    rows = table.to_dict(orient="records")
    return tuple(NominalGpu(**(row | {"mig": tuple(str(row["mig"]).split())})) for row in rows)


def find_gpu(name: str) -> NominalGpu | None:
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
    key = f"gpu_models.{json.dumps(asked)}"
    own, rows = find_gpu(asked), {name: find_gpu(name) for name in offered}
    small = [name for name in offered if _memory(name) < _memory(asked)]
    second = {name: first for name, first in (beside or {}).items() if name in offered and name not in small}
    second = {name: first for name, first in second.items() if first in offered and first not in small}
    left = {*small, *second}
    runs_on = ", ".join(json.dumps(name) for name in offered if name not in left)
    lines = [f"[{key}]", f"runs_on = [{runs_on}]"]
    lines += [
        f"# {json.dumps(name)} has {_memory(name):g} GB, {json.dumps(asked)} {_memory(asked):g} GB" for name in small
    ]
    lines += [
        f"# {json.dumps(name)} stands beside {json.dumps(first)} in one node: name one of the two in runs_on"
        for name, first in second.items()
    ]
    lines.append(f"[{key}.speed]")
    return lines + [f"{json.dumps(name)} = {_speed(own, rows[name])}" for name in offered if name not in left]


def _speed(own: NominalGpu | None, other: NominalGpu | None) -> str:
    if own is None or other is None:
        return "1.0  # not in the table of nominal speeds: fill in"
    figures = [
        f"{name} {there / here:.2g} times"
        for name, there, here in (
            ("FP64", other.fp64_tflops, own.fp64_tflops),
            ("FP32", other.fp32_tflops, own.fp32_tflops),
        )
        if not math.isnan(there / here)
    ]
    beside = "".join(f"; {one}" for one in figures)
    return (
        f"{other.bandwidth_gb_s / own.bandwidth_gb_s:.2g}  # a proposal: memory bandwidth "
        f"{other.bandwidth_gb_s:,.0f} against {own.bandwidth_gb_s:,.0f} GB/s{beside}"
    )
