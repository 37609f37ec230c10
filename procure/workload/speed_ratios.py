"""Are the quoted speeds what they should be? Run-time ratios by type, and what is odd about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from procure.text import listed
from procure.workload.speed import logged_processor_speed, published_rates

MOST = 3.0
"""A run-time ratio above this or below its inverse is warned of: no two processors of a decade differ so much."""

_FAR = 2.0
_STEEP = 0.7


def core_rates(quotes: pd.DataFrame) -> pd.Series:
    """Return the speed of one core by type, NaN where none is quoted."""
    rates = quotes["spec_rate"] if "spec_rate" in quotes else pd.Series(np.nan, index=quotes.index)
    return pd.Series(rates.to_numpy(dtype="float64"), index=quotes["name"].to_numpy())


def speed_ratios(quotes: pd.DataFrame, logged_speeds: Sequence[float]) -> pd.DataFrame:
    """Return by which factor run times are multiplied on each quoted type.

    Parameters
    ----------
    logged_speeds
        Speed of one core of each logged system, in the unit of the quotes' ``spec_rate``; at least one.

    Returns
    -------
    pandas.DataFrame
        One row per type in quote order: ``name spec_rate speed_ratio_min speed_ratio_max``, the lowest and highest
        logged speed / ``spec_rate``; 1.0 where no rate is quoted.
    """
    rates = core_rates(quotes)
    low, high = ((speed / rates).fillna(1.0).to_numpy() for speed in (min(logged_speeds), max(logged_speeds)))
    return pd.DataFrame(
        {
            "name": rates.index,
            "spec_rate": rates.to_numpy(),
            "speed_ratio_min": low,
            "speed_ratio_max": high,
        }
    )


def ratio_text(ratios: pd.DataFrame) -> str:
    """Say which types have which ratio, from the fastest: ``0.83 on a, b; 1.2 on c``."""
    low, high = (ratios[f"speed_ratio_{end}"].map("{:.3g}".format) for end in ("min", "max"))
    text = low.where(low == high, low + "–" + high)
    order = ratios.assign(text=text).sort_values("speed_ratio_min", kind="stable")
    groups = [f"{ratio} on {listed(list(names))}" for ratio, names in order.groupby("text", sort=False)["name"]]
    if len(groups) > 5:
        groups = [*groups[:2], f"{len(groups) - 4} more ratios", *groups[-2:]]
    return "; ".join(groups)


def rate_warnings(quotes: pd.DataFrame, logged_speeds: Sequence[float] = ()) -> list[str]:
    """Say what is odd about the quoted speeds, a sentence each; none where nothing is.

    A ratio beyond `MOST`; a type whose rate is twice or half the median of its like (the same processor, else the
    same category); rates that grow with the number of CPUs, as those of whole nodes do.
    """
    warnings = []
    if len(logged_speeds):
        ratios = speed_ratios(quotes, logged_speeds)
        odd = ratios[(ratios["speed_ratio_max"] > MOST) | (ratios["speed_ratio_min"] < 1 / MOST)]
        if len(odd):
            low, high = ratios["speed_ratio_min"].min(), ratios["speed_ratio_max"].max()
            extreme = f"divided by up to {1 / low:,.0f}" if 1 / low > high else f"multiplied by up to {high:,.0f}"
            warnings.append(
                f"run times would be {extreme}: a ratio beyond {MOST:g} on {listed(odd['name'].tolist())}; "
                "spec_rate is the speed of one core, the rate of a whole node is spec_rate_node"
            )
    rates = core_rates(quotes).dropna()
    warnings += [
        f"the spec_rate of {name} is {rates[name]:g}, and of its like {like:g}: is it that of one core?"
        for name, like in _far_ones(quotes, rates)
    ]
    cpus = quotes.set_index("name")["cpus"].loc[rates.index].to_numpy(dtype="float64")
    if len(set(cpus)) > 1:
        x, y = np.log(cpus), np.log(rates.to_numpy())
        slope = float(np.polyfit(x, y, 1)[0])
        if slope > _STEEP and np.corrcoef(x, y)[0, 1] > _STEEP:
            warnings.append(
                "spec_rate grows with the number of CPUs, as the rates of whole nodes do: "
                "is it that of one core? The rate of a whole node is spec_rate_node"
            )
    return warnings


def _far_ones(quotes: pd.DataFrame, rates: pd.Series) -> list[tuple[str, float]]:
    rated = quotes.set_index("name").loc[rates.index]
    far = []
    for name in rates.index:
        like = (rated["processor"] == rated["processor"][name]) & (rated["processor"] != "")
        if like.sum() < 2:
            like = rated["category"] == rated["category"][name]
            if like.sum() < 3:  # of two different processors, neither is odd
                continue
        median = float(rates[like if like.sum() > 2 else like & (rated.index != name)].median())
        if not 1 / _FAR <= rates[name] / median <= _FAR:
            far.append((name, median))
    return far


def speed_notes(
    speeds: Mapping[str, str | None],
    processors: Mapping[str, str | None],
    quotes: pd.DataFrame,
    existing: pd.DataFrame | None,
) -> list[str]:
    """Say how run times are scaled, where they are not, and what is odd about it: for every stage alike.

    Parameters
    ----------
    speeds
        Speed of the logged system by workload, None where it is not known.
    processors
        The ``logged_processor`` by workload, None where none is named.
    existing
        The node table of the existing system, or None.
    """
    notes = []
    unknown = [name for name, speed in speeds.items() if speed is None]
    if unknown:
        notes.append(
            f"workload {listed(unknown)}: no logged processor or speed; run times as logged on every node (ratio 1.0)"
        )
    by_speed: dict[str, list[str]] = {}
    for name, speed in speeds.items():
        if speed is not None:
            by_speed.setdefault(speed, []).append(name)
    without = unrated(quotes, existing)
    for speed, names in by_speed.items():
        of = f"workload {listed(names)}"
        published = processors.get(names[0])
        if published is not None and logged_processor_speed(published, quotes)[1]:
            of += f", logged on {published} (SPECrate 2017 integer per core, published median {float(speed):g})"
            notes += _unit_notes(quotes)
        if without:
            notes.append(f"{of}: no speed is given for {listed(without)}; run times as logged there (ratio 1.0)")
        if core_rates(quotes).notna().any():
            notes.append(f"{of}: run times are multiplied by {ratio_text(speed_ratios(quotes, [float(speed)]))}")
    return notes + [f"careful: {text}" for text in rate_warnings(quotes, [float(speed) for speed in by_speed])]


def unrated(quotes: pd.DataFrame, existing: pd.DataFrame | None = None) -> list[str]:
    """Name the types without a ``spec_rate`` and the existing nodes without a ``speed``; ``every type`` for all."""
    rates = core_rates(quotes)
    without = rates.index[rates.isna()].tolist() if rates.notna().any() else ["every type"]
    if existing is not None:
        speeds = existing["speed"] if "speed" in existing else pd.Series(np.nan, index=existing.index)
        without += existing.loc[speeds.isna(), "node_id"].tolist()
    return without


def _unit_notes(quotes: pd.DataFrame) -> list[str]:
    """Compare the quoted rates with the published ones of the same processors."""
    published = published_rates().set_index("processor")["spec_rate"]
    rates = core_rates(quotes)
    known = quotes["processor"].isin(published.index).to_numpy() & rates.notna().to_numpy()
    if not known.any():
        return []
    factor = float((rates.to_numpy()[known] / published[quotes["processor"][known]].to_numpy()).mean())
    if 1 / _FAR <= factor <= _FAR:
        return []
    return [
        f"careful: the quoted spec_rate is {factor:.3g} times what is published of these processors, so the logged "
        "processor's speed is in another unit; give logged_speed in that of the quotes"
    ]
