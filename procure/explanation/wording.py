"""What explains a package, in sentences that a committee reads, and two packages side by side."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.explanation.bottleneck import WORDS, Binding
from procure.explanation.package import Explained
from procure.text import duration

_STRONGEST = 5


def differences(one: Explained, other: Explained) -> pd.DataFrame:
    """Put two packages side by side: ``what item first second difference`` (first − second; factors: ratio)."""
    rows: list[tuple[str, str, float, float]] = [("price", "US$", one.price_usd, other.price_usd)]
    kinds = list(dict.fromkeys([*one.counts, *other.counts]))
    rows += [("nodes", kind, one.counts.get(kind, 0), other.counts.get(kind, 0)) for kind in kinds]
    rows += [("total", name, one.totals[name], other.totals[name]) for name in one.totals]
    rows.append(("wait, s", "all", one.wait, other.wait))
    both = one.waits.merge(other.waits, on="workload", suffixes=("", "_other"))
    if len(both) > 1:
        rows += [
            ("wait, s", str(r.workload), r.mean_wait_time, r.mean_wait_time_other) for r in both.itertuples()
        ]
    left = [int(each.waits["jobs_left_out"].sum()) for each in (one, other)]
    rows.append(("jobs left out", "all", left[0], left[1]))
    for name in one.binding:
        rows += [
            (
                "share of waiting that lacks",
                WORDS[cause],
                one.binding[name].share(cause),
                other.binding[name].share(cause),
            )
            for cause in one.binding[name].seconds
            if one.binding[name].seconds[cause] or other.binding[name].seconds[cause]
        ]
    table = pd.DataFrame(rows, columns=["what", "item", "first", "second"])
    table["difference"] = table["first"] - table["second"]
    grouped = one.grouped.merge(other.grouped, on="about", suffixes=("", "_other"))
    factors = pd.DataFrame(
        {
            "what": "factor",
            "item": grouped["about"],
            "first": grouped["factor"],
            "second": grouped["factor_other"],
        }
    )
    factors["difference"] = factors["first"] / factors["second"]
    strongest = np.argsort(-np.abs(np.log(factors["difference"].to_numpy(dtype="float64"))), kind="stable")
    return pd.concat([table, factors.iloc[strongest[:_STRONGEST]]], ignore_index=True)


def says(one: Explained) -> list[str]:
    """Say in sentences that a committee reads what is known of a package."""
    bought = ", ".join(f"{n} × {kind}" for kind, n in one.counts.items())
    totals = one.totals
    lines = [
        f"{bought}: US$ {one.price_usd:,.0f} for {totals['cpus']:,.0f} CPUs, {totals['mem_gb']:,.0f} GB and "
        f"{totals['gpus']:,.0f} GPUs in {totals['nodes']:,.0f} nodes; jobs wait {duration(one.wait)} on average"
    ]
    left = int(one.waits["jobs_left_out"].sum())
    if left:
        lines.append(f"{left:,} jobs fit none of its nodes and are left out")
    grouped = one.grouped
    if len(grouped):
        lines.append(
            f"a package of which nothing is known would wait {duration(one.typical_seconds)} by the model; this one "
            f"{duration(one.predicted_seconds)}, because:"
        )
        lines += [f"  {_word(row.about, row.factor)}" for row in grouped.head(_STRONGEST).itertuples()]
        rest = float(np.prod(grouped["factor"].to_numpy()[_STRONGEST:]))
        if len(grouped) > _STRONGEST:
            lines.append(f"  {_word('everything else', rest)}")
    for name, binding in one.binding.items():
        lines.append(_lacked(name, binding))
    best = one.marginal[one.marginal["saved_seconds"] > 0] if len(one.marginal) else one.marginal
    if len(best):
        first = best.iloc[0]
        lines.append(
            f"one more {first['type']} (US$ {first['usd']:,.0f}) would save {duration(first['saved_seconds'])} of "
            f"wait per job, {duration(first['saved_per_1000_usd'])} per US$ 1,000: the most per dollar of all types"
        )
    elif len(one.marginal):
        lines.append("one more node of any type would not shorten the wait")
    return lines


def says_against(one: Explained, other: Explained) -> list[str]:
    """Say in sentences why the first rather than the second, or the other way round."""
    if not (one.wait > 0 or other.wait > 0):
        return ["no job waits on either"]
    better, worse = (one, other) if one.wait <= other.wait else (other, one)
    waits = [duration(better.wait), duration(worse.wait)]
    if better.wait == worse.wait:
        lines = [f"jobs wait equally long on both: {waits[0]}"]
    else:
        less = duration(worse.wait - better.wait)
        instead = f": {waits[0]}, not {waits[1]}" if waits[0] != waits[1] else ""
        lines = [f"jobs wait {less} less on {better.package_id} than on {worse.package_id}{instead}"]
    n_days = len(one.waits)
    if n_days > 1 and better.wait < worse.wait:
        first, second = one.waits["mean_wait_time"].to_numpy(), other.waits["mean_wait_time"].to_numpy()
        n_better = int((first < second).sum()) if better is one else int((second < first).sum())
        lines.append(f"it is the better of the two on {n_better} of {n_days} workloads")
    both = one.grouped.merge(other.grouped, on="about", suffixes=("", "_other"))
    if len(both):
        ratio = (both["factor"] / both["factor_other"]).to_numpy()
        most = int(np.abs(np.log(ratio)).argmax())
        lines.append(
            f"what the model holds to differ most is {both['about'].iloc[most]}: ×{both['factor'].iloc[most]:.2f} "
            f"on the first, ×{both['factor_other'].iloc[most]:.2f} on the second"
        )
    return lines


def _word(what: str, factor: float) -> str:
    if 0.995 <= factor <= 1.005:
        return f"{what}: no difference"
    size = (
        f"{1 - factor:.0%} less"
        if factor < 1
        else (f"{factor - 1:.0%} more" if factor < 2 else f"{factor:.1f} times")
    )
    return f"{what}: ×{factor:.2f}, {size} waiting"


def _lacked(name: str, binding: Binding) -> str:
    if not binding.total_seconds:
        return f"on {name} no job waits"
    shares = sorted(((binding.share(cause), WORDS[cause]) for cause in binding.seconds), reverse=True)
    parts = ", ".join(f"{share:.0%} {word}" for share, word in shares if share >= 0.005)
    text = f"what waiting jobs lacked on {name}, by waiting time: {parts}"
    apart = binding.spread_seconds / binding.total_seconds
    if apart >= 0.005:
        text += f"; for {apart:.0%} of it enough was free in sum, but not on any single node"
    if len(binding.shapes):
        top = binding.shapes.iloc[0]
        text += (
            f"; {top['waited_seconds'] / binding.total_seconds:.0%} of the waiting is that of jobs with "
            f"{top['cpus_per_node']} CPUs, {top['mem_mb_per_node'] / 1000:,.1f} GB and {top['gpus_per_node']} GPUs, "
            f"which {top['n_able']} nodes can hold"
        )
    return text
