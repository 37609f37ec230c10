"""A price list of rented nodes, and what jobs cost on them: on demand, or reserved for years."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.packages.runnable import fits, mem_mb, request_shapes, shape_of
from procure.schemas import Column, Schema
from procure.tables import check, read

_OPTIONAL = {"required": False, "nullable": True, "minimum": 0}

PRICES = Schema(
    "price",
    (
        Column("name", "str", "", "the provider's name of the instance type", longest=200),
        Column("cpus", "int", "CPUs", "CPU cores; of two threads to a core one", minimum=1, maximum=100_000),
        Column("mem_gb", "float", "GB = 1,000 MB", "memory", minimum=1e-6, maximum=10**7),
        Column("gpus", "int", "GPUs", "GPUs", required=False, default=0, minimum=0, maximum=10_000),
        Column("gpu_type", "str", "", "GPU model; empty = any", required=False, default="", longest=1000),
        Column("speed", "float", "any speed", "speed of one core; empty = ratio 1.0", maximum=10**9, **_OPTIONAL),  # type: ignore[arg-type]
        Column("usd_per_hour", "float", "US$/hour", "on demand", minimum=0),
        Column("reserved_usd_per_hour", "float", "US$/hour", "of every hour of the years", **_OPTIONAL),  # type: ignore[arg-type]
    ),
    unique="name",
)
"""The columns of a price list."""


def read_prices(path: str | Path) -> pd.DataFrame:
    """Read a price list, see `PRICES`.

    Raises
    ------
    TableError
        The file cannot be read, or a cell is wrong, such as reserved dearer than on demand.

    Examples
    --------
    >>> import procure
    >>> procure.read_prices("cloud.csv")["name"].to_list()
    ['small', 'large', 'gpu']
    """
    path = Path(path)
    if path.suffix.lower() in (".xlsx", ".ods", ".xls"):
        raise TableError(f"{path}: a price list is read as .csv or .parquet; save the sheet as CSV")
    return check_prices(read(path, PRICES), str(path))


def check_prices(prices: pd.DataFrame, source: str = "prices") -> pd.DataFrame:
    """Return a price list in its schema; errors as of `read_prices`."""
    prices = check(prices, PRICES, source)
    prices = prices.assign(**{name: np.nan for name in ("reserved_usd_per_hour", "speed") if name not in prices})
    for row, one in enumerate(prices.itertuples(), 1):
        where = f"{source}, row {row}, column"
        if one.reserved_usd_per_hour > one.usd_per_hour:
            raise TableError(
                f"{where} reserved_usd_per_hour: {one.reserved_usd_per_hour:g} was given; it is of every hour, "
                f"and on demand costs {one.usd_per_hour:g}"
            )
        if one.speed == 0:
            raise TableError(f"{where} speed: 0 was given; it must be above 0")
    return prices


def holds(prices: pd.DataFrame, jobs: pd.DataFrame) -> np.ndarray:
    """Say which instance type holds one node's share of which job, bool[types, jobs]."""
    shapes = request_shapes(jobs)
    types = prices[["cpus", "gpus", "gpu_type"]].assign(mem_mb=mem_mb(prices["mem_gb"]))
    return fits(types, shapes)[:, shape_of(jobs, shapes)]


def reserved_count(busy: np.ndarray, share: np.ndarray, ratio: float) -> int:
    """Return how many instances to reserve so that a mix with on demand costs least.

    ``busy`` instances are in use for each ``share`` of the time; ``ratio`` is the price of a reserved hour over that of
    one on demand: one more pays as long as it is used for more than that part of the time.
    """
    order = np.argsort(busy, kind="stable")
    above = 1 - np.cumsum(share[order])
    enough = np.flatnonzero(above <= ratio + 1e-12)
    if ratio >= 1 or not len(enough):
        return 0
    return 0 if 1 - share[busy <= 0].sum() <= ratio + 1e-12 else int(busy[order][enough[0]])


def in_use(begin: np.ndarray, seconds: np.ndarray, count: np.ndarray, period: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many instances are in use, int64[n], and for which share of a period, s, that repeats for ever.

    ``begin``, ``seconds``, ``count``: int64, from when, how long and on how many instances a job runs; what reaches
    beyond the period goes on at its beginning. The shares add up to 1.
    """
    always = int((count * (seconds // period)).sum())
    first = begin % period
    last = first + seconds % period
    moments = np.concatenate([first, np.minimum(last, period), np.zeros_like(first), np.maximum(last - period, 0)])
    changes = np.concatenate([count, -count, count, -count])
    times, place = np.unique(np.append(moments, [0, period]), return_inverse=True)
    steps = np.zeros(len(times), dtype=np.int64)
    np.add.at(steps, place[: len(moments)], changes)
    level = np.cumsum(steps)[:-1] + always
    return level, np.diff(times) / period
