"""Run times on another processor: logged run time × logged speed / node speed, rounded up exactly."""

from __future__ import annotations

import functools
import math
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.schemas import SPEEDS
from procure.text import nearest, short

SLOWEST, FASTEST = (Decimal(str(speed)) for speed in SPEEDS)
Speed = str | int | float | Decimal | None
"""Any positive number, read as the decimal that it is written as; None, empty or NaN is unknown."""


def exact_speed(speed: Speed, what: str = "a speed") -> Fraction | None:
    """Return a speed as an exact fraction, None where it is unknown.

    Raises
    ------
    TableError
        Not a number, infinite, or not above 0.
    """
    if speed is None or speed is pd.NA or str(speed).strip().lower() in ("", "nan"):
        return None
    try:
        number = Decimal(repr(float(speed)) if isinstance(speed, float) else str(speed).strip())
    except InvalidOperation:
        raise TableError(f"{what}: {speed!r} is not a number") from None
    if not number.is_finite() or not SLOWEST <= number <= FASTEST:
        raise TableError(
            f"{what}: {short(speed)} was given; a speed is a number above 0, from {SLOWEST} to {FASTEST:,}"
        )
    return Fraction(number)


def scale_run_time(run_time: np.ndarray, logged_speed: Speed, node_speed: Speed) -> np.ndarray:
    """Return ⌈run time × logged speed / node speed⌉ in whole seconds.

    Speeds are taken as the decimals that they are written as, and the arithmetic is in integers, so
    that 1 s at speed 2.1 is exactly 7 s at 0.3 (floating point makes it 8). A run time of 0 stays 0.
    Where either speed is unknown the ratio is 1.

    Parameters
    ----------
    run_time
        Logged run times, whole seconds, any shape.
    logged_speed, node_speed
        Speed of one core of the logged system and of the node, in the same measure (SPECrate 2017 per
        core, say, or one of your own).

    Returns
    -------
    numpy.ndarray
        int64 seconds, of the same shape.

    Raises
    ------
    TableError
        A speed is not a number above 0, a run time is negative, or a result exceeds int64.

    References
    ----------
    The procurement study that procure follows scales logged durations by the ratio of base scores in
    SPEC CPU2017; rounding up is ours, so that no job gets shorter than it can be.

    Examples
    --------
    >>> import procure
    >>> import numpy as np
    >>> procure.scale_run_time(np.array([100]), "5", "10").tolist()
    [50]
    """
    logged, node = exact_speed(logged_speed, "logged speed"), exact_speed(node_speed, "node speed")
    return scale_by(run_time, Fraction(1) if logged is None or node is None else logged / node)


def scale_by(run_time: np.ndarray, ratio: Fraction) -> np.ndarray:
    """Return ⌈run time × ratio⌉ in whole seconds, int64; a negative run time, and a result beyond int64, are errors."""
    seconds = np.asarray(run_time, dtype=np.int64)
    if seconds.size and seconds.min() < 0:
        raise TableError(f"run time {int(seconds.min())} s is negative")
    if ratio == 1 or not seconds.size:
        return seconds.copy()
    largest = int(seconds.max()) * ratio.numerator + ratio.denominator
    if math.ceil(int(seconds.max()) * ratio) >= 2**63:
        raise TableError(f"run time {int(seconds.max())} s × {float(ratio):g} is too large")
    if largest < 2**63:
        return (seconds * ratio.numerator + (ratio.denominator - 1)) // ratio.denominator
    exact = [-(-int(value) * ratio.numerator // ratio.denominator) for value in seconds.flat]
    return np.array(exact, dtype=np.int64).reshape(seconds.shape)


def processor_speed(name: str, table: pd.DataFrame, speed: str = "spec_rate", processor: str = "processor") -> float:
    """Look a processor's speed up by its name, capitals and spaces aside.

    Parameters
    ----------
    name
        E.g. ``AMD EPYC 7542``.
    table
        Any table with a column of processors and one of speeds, such as a quote table.
    speed, processor
        The two columns' names.

    Raises
    ------
    TableError
        A column is missing, the processor is not in the table (the nearest names are offered), it has
        no speed, or rows disagree about it.
    """
    for column in (speed, processor):
        if column not in table.columns:
            raise TableError(f"no column {column!r}; {nearest(column, map(str, table.columns))}")
    names = table[processor].astype(str).str.strip()
    known = sorted({text for text in names if text})
    rows = table.loc[names.map(plain_processor) == plain_processor(name), speed].dropna()
    if not len(rows):
        if plain_processor(name) in map(plain_processor, known):
            raise TableError(f"processor {name!r} has no {speed}")
        raise TableError(f"unknown processor {name!r}; {nearest(name, known)}")
    speeds = {exact_speed(value, f"{speed} of {name}") for value in rows}
    if len(speeds) > 1:
        raise TableError(f"processor {name!r} has several values of {speed}: {', '.join(map(str, rows))}")
    return float(rows.iloc[0])


_NOISE = re.compile(r"\((?:r|tm)\)|@.*$|\b(?:cpu|processor|\d+-core)\b", re.IGNORECASE)


def plain_processor(name: str) -> str:
    """Write a processor's name without what ``lscpu`` adds: (R), (TM), CPU, Processor, 64-Core and the clock."""
    return " ".join(_NOISE.sub(" ", str(name)).lower().split())


@functools.cache
def published_rates() -> pd.DataFrame:
    """Return the median SPECrate 2017 integer base rate of one core, by processor.

    Facts published on https://www.spec.org/cpu2017/results/ until March 2026, made into a table by
    ``benchmarks/processor_rates.py``; SPECrate is a trademark of the Standard Performance Evaluation
    Corporation.

    Returns
    -------
    pandas.DataFrame
        ``processor``, ``spec_rate`` (of one core), ``n_results``, ``chips`` per result, the
        ``result_id`` nearest to the median, and ``cores`` of one chip.
    """
    return pd.read_csv(Path(__file__).parent / "spec_rates.csv")


def logged_processor_speed(name: str, quotes: pd.DataFrame) -> tuple[float, bool]:
    """Look a logged processor up among the quotes, else in `published_rates`.

    Returns
    -------
    float, bool
        The speed of one core, and whether it is a published rate.

    Raises
    ------
    TableError
        Neither knows it (the nearest names are offered), or quotes disagree about it.
    """
    if {"spec_rate", "processor"} <= set(quotes.columns):
        rated = quotes[quotes["spec_rate"].notna()]
        if plain_processor(name) in set(rated["processor"].map(plain_processor)):
            return processor_speed(name, rated), False
    published = published_rates()
    if plain_processor(name) in set(published["processor"].map(plain_processor)):
        return processor_speed(name, published), True
    known = [*dict.fromkeys([*quotes["processor"][quotes["processor"] != ""], *published["processor"]])]
    like = [one for one in known if set(plain_processor(name).split()) <= set(plain_processor(one).split())]
    hint = nearest(name, like or known)
    if not hint.startswith("did"):
        hint = f"{len(known)} are known, such as {', '.join(known[:3])}; or give logged_speed"
    raise TableError(f"unknown processor {short(name)}; {hint}")
