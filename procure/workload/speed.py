"""How fast are processors: run times scaled exactly, published and quoted speeds, and what is odd about them."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.schemas import SPEEDS
from procure.text import listed, nearest, short

SLOWEST, FASTEST = (Decimal(str(speed)) for speed in SPEEDS)
Speed = str | int | float | Decimal | None
"""Any positive number, read as the decimal that it is written as; None, empty or NaN is unknown."""

MOST = 3.0
"""A run-time ratio above this or below its inverse is warned of: no two processors of a decade differ so much."""

_FAR, _STEEP = 2.0, 0.7
_NOISE = re.compile(r"\((?:r|tm)\)|@.*$|\b(?:cpu|processor|\d+-core)\b", re.IGNORECASE)


def exact_speed(speed: Speed, what: str = "a speed") -> Fraction | None:
    """Return a speed as an exact fraction, None where it is unknown; no number above 0 is a TableError."""
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
    return scale_by(run_time, speed_ratio(logged_speed, node_speed))


def speed_ratio(logged_speed: Speed, node_speed: Speed) -> Fraction:
    """Return logged speed / node speed, 1 where either is unknown."""
    logged, node = exact_speed(logged_speed, "logged speed"), exact_speed(node_speed, "node speed")
    return Fraction(1) if logged is None or node is None else logged / node


def scale_by(run_time: np.ndarray, ratio: Fraction) -> np.ndarray:
    """Return ⌈run time × ratio⌉ in whole seconds, int64; a negative run time, and a result beyond int64, are errors."""
    seconds = np.asarray(run_time, dtype=np.int64)
    if seconds.size and seconds.min() < 0:
        raise TableError(f"run time {int(seconds.min())} s is negative")
    if ratio == 1 or not seconds.size:
        return seconds.copy()
    longest = int(seconds.max())
    if math.ceil(longest * ratio) >= 2**63:
        raise TableError(f"run time {longest} s × {float(ratio):g} is too large")
    fits = longest * ratio.numerator + ratio.denominator < 2**63
    exact = seconds if fits else seconds.astype(object)  # of Python's integers, which have no end
    return ((exact * ratio.numerator + (ratio.denominator - 1)) // ratio.denominator).astype(np.int64)


def plain_processor(name: str) -> str:
    """Write a processor's name without what ``lscpu`` adds: (R), (TM), CPU, Processor, 64-Core and the clock."""
    return " ".join(_NOISE.sub(" ", str(name)).lower().split())


@functools.cache
def published_rates() -> pd.DataFrame:
    """Return the median SPECrate 2017 integer base rate of one core by ``processor``, ``spec_rate``.

    Beside it the ``n_results``, ``chips`` per result, ``result_id`` nearest to the median, and ``cores`` of one chip.
    Facts published on https://www.spec.org/cpu2017/results/ until March 2026, made into a table by
    ``benchmarks/processor_rates.py``; SPECrate is a trademark of the Standard Performance Evaluation Corporation.
    """
    return pd.read_csv(Path(__file__).with_name("spec_rates.csv"))


def logged_processor_speed(name: str, quotes: pd.DataFrame) -> tuple[float, bool]:
    """Return the speed of one core of a logged processor, and whether it is a published rate and not a quoted one.

    Raises
    ------
    TableError
        Neither knows it (the nearest names are offered), or quotes disagree about it.
    """
    for table in (quotes, published_rates()):
        if "spec_rate" in table:
            rates = table.loc[table["processor"].map(plain_processor) == plain_processor(name), "spec_rate"].dropna()
            if len({exact_speed(rate, f"spec_rate of {name}") for rate in rates}) > 1:
                raise TableError(f"processor {name!r} has several values of spec_rate: {', '.join(map(str, rates))}")
            if len(rates):
                return float(rates.iloc[0]), table is not quotes
    names = [*quotes["processor"][quotes["processor"] != ""], *published_rates()["processor"]]
    known = [*dict.fromkeys(map(str, names))]
    like = [one for one in known if set(plain_processor(name).split()) <= set(plain_processor(one).split())]
    hint = nearest(name, like or known)
    if not hint.startswith("did"):
        hint = f"{len(known)} are known, such as {', '.join(known[:3])}; or give logged_speed"
    raise TableError(f"unknown processor {short(name)}; {hint}")


def _core_rates(quotes: pd.DataFrame) -> pd.Series:
    """Return the speed of one core by type, NaN where none is quoted."""
    rates = quotes["spec_rate"] if "spec_rate" in quotes else pd.Series(np.nan, index=quotes.index)
    return pd.Series(rates.to_numpy(dtype="float64"), index=quotes["name"].to_numpy())


def _ratio_text(ratios: pd.Series) -> str:
    """Say which types have which ratio, from the fastest: ``0.83 on a, b; 1.2 on c``."""
    ordered = ratios.sort_values(kind="stable")
    by_text = ordered.groupby(ordered.map("{:.3g}".format), sort=False)
    groups = [f"{ratio} on {listed(list(one.index))}" for ratio, one in by_text]
    if len(groups) > 5:
        groups = [*groups[:2], f"{len(groups) - 4} more ratios", *groups[-2:]]
    return "; ".join(groups)


def rate_warnings(quotes: pd.DataFrame, logged_speeds: Sequence[float] = ()) -> list[str]:
    """Say what is odd about the quoted speeds, a sentence each; none where nothing is.

    A ratio beyond `MOST`; a type whose rate is twice or half the median of its like (the same processor, else the
    same category); rates that grow with the number of CPUs, as those of whole nodes do.
    """
    warnings, rates = [], _core_rates(quotes).dropna()
    if len(logged_speeds) and len(rates):
        low, high = min(logged_speeds) / rates, max(logged_speeds) / rates
        odd = rates.index[(high > MOST) | (low < 1 / MOST)].tolist()
        if odd:
            far, near = 1 / low.min(), high.max()
            extreme = f"divided by up to {far:,.0f}" if far > near else f"multiplied by up to {near:,.0f}"
            warnings.append(
                f"run times would be {extreme}: a ratio beyond {MOST:g} on {listed(odd)}; "
                "spec_rate is the speed of one core, the rate of a whole node is spec_rate_node"
            )
    rated = quotes.set_index("name").loc[rates.index]
    for name, rate in rates.items():
        same = (rated["processor"] == rated["processor"][name]) & (rated["processor"] != "")
        like = rates[same if same.sum() > 1 else rated["category"] == rated["category"][name]]
        if len(like) < 3 and same.sum() < 2:  # of two different processors, neither is odd
            continue
        median = float((like if len(like) > 2 else like.drop(name)).median())
        if not 1 / _FAR <= rate / median <= _FAR:
            warnings.append(f"the spec_rate of {name} is {rate:g}, and of its like {median:g}: is it that of one core?")
    x, y = np.log(rated["cpus"].to_numpy(dtype="float64")), np.log(rates.to_numpy())
    if len(set(x)) > 1 and np.polyfit(x, y, 1)[0] > _STEEP and np.corrcoef(x, y)[0, 1] > _STEEP:
        warnings.append(
            "spec_rate grows with the number of CPUs, as the rates of whole nodes do: "
            "is it that of one core? The rate of a whole node is spec_rate_node"
        )
    return warnings


def speed_notes(
    speeds: Mapping[str, str | None],
    processors: Mapping[str, str | None],
    quotes: pd.DataFrame,
    existing: pd.DataFrame | None,
) -> list[str]:
    """Say how run times are scaled, where they are not, and what is odd about it: for every stage alike.

    ``speeds`` of the logged system and ``processors`` that are named stand by workload, None where none is known;
    ``existing`` is the node table of the existing system.
    """
    notes, by_speed = [], dict[str | None, list[str]]()
    for name, speed in speeds.items():
        by_speed.setdefault(speed, []).append(name)
    if unknown := by_speed.pop(None, []):
        notes.append(
            f"workload {listed(unknown)}: no logged processor or speed; run times as logged on every node (ratio 1.0)"
        )
    rates = _core_rates(quotes)
    without = rates.index[rates.isna()].tolist() if rates.notna().any() else ["every type"]
    if existing is not None:
        stated = existing["speed"] if "speed" in existing else pd.Series(np.nan, index=existing.index)
        without += existing.loc[stated.isna(), "node_id"].tolist()
    known = {float(str(speed)): names for speed, names in by_speed.items()}
    for logged, names in known.items():
        of, published = f"workload {listed(names)}", processors.get(names[0])
        if published is not None and logged_processor_speed(published, quotes)[1]:
            of += f", logged on {published} (SPECrate 2017 integer per core, published median {logged:g})"
            notes += _unit_notes(quotes, rates)
        if without:
            notes.append(f"{of}: no speed is given for {listed(without)}; run times as logged there (ratio 1.0)")
        if rates.notna().any():
            notes.append(f"{of}: run times are multiplied by {_ratio_text((logged / rates).fillna(1.0))}")
    return notes + [f"careful: {text}" for text in rate_warnings(quotes, [*known])]


def _unit_notes(quotes: pd.DataFrame, rates: pd.Series) -> list[str]:
    """Compare the quoted rates with the published ones of the same processors."""
    published = published_rates().set_index("processor")["spec_rate"].reindex(quotes["processor"]).to_numpy()
    factor = (rates / published).mean()
    if np.isnan(factor) or 1 / _FAR <= factor <= _FAR:
        return []
    return [
        f"careful: the quoted spec_rate is {factor:.3g} times what is published of these processors, so the logged "
        "processor's speed is in another unit; give logged_speed in that of the quotes"
    ]
