"""What explains a package, in sentences that a committee reads, and two packages side by side."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.explanation.bottleneck import WORDS, Bottleneck
from procure.explanation.package import PackageExplanation
from procure.packages.runnable import request_text
from procure.text import counted, duration

_STRONGEST = 5


def differences(one: PackageExplanation, other: PackageExplanation) -> pd.DataFrame:
    """Compare two packages: ``what item first second difference`` (first − second; of factors the ratio)."""
    rows: list[tuple[str, str, float, float]] = [("price", "US$", one.price_usd, other.price_usd)]
    kinds = list(dict.fromkeys([*one.counts, *other.counts]))
    rows += [("nodes", kind, one.counts.get(kind, 0), other.counts.get(kind, 0)) for kind in kinds]
    rows += [("total", name, one.totals[name], other.totals[name]) for name in one.totals]
    rows.append(("wait, s", "all", one.wait, other.wait))
    both = one.waits.merge(other.waits, on="workload", suffixes=("", "_other"))
    if len(both) > 1:
        rows += [("wait, s", str(r.workload), r.mean_wait_time, r.mean_wait_time_other) for r in both.itertuples()]
    mine, theirs = (int(each.waits["jobs_left_out"].sum()) for each in (one, other))
    rows.append(("jobs left out", "all", mine, theirs))
    for workload, here in one.bottlenecks.items():
        shares = [(WORDS[cause], here.share(cause), other.bottlenecks[workload].share(cause)) for cause in here.seconds]
        rows += [("share of waiting for", *share) for share in shares if any(share[1:])]
    table = pd.DataFrame(rows, columns=["what", "item", "first", "second"])
    table["difference"] = table["first"] - table["second"]
    factors = _factors_of(one, other).head(_STRONGEST).assign(what="factor")
    return pd.concat([table, factors[table.columns]], ignore_index=True)


def _factors_of(one: PackageExplanation, other: PackageExplanation) -> pd.DataFrame:
    """Return the factors of both, ``item first second difference``, those that differ most first."""
    both = one.grouped.merge(other.grouped, on="about", suffixes=("", "_other"))
    both = both.rename(columns={"about": "item", "factor": "first", "factor_other": "second"})
    both["difference"] = both["first"] / both["second"]
    return both.iloc[np.argsort(-np.abs(np.log(both["difference"].to_numpy(dtype="float64"))), kind="stable")]


def sentences(one: PackageExplanation) -> list[str]:
    """Explain a package in sentences; one that begins with spaces belongs to the list before it."""
    totals, left_out, grouped = one.totals, int(one.waits["jobs_left_out"].sum()), one.grouped
    lines = [
        f"{', '.join(f'{n} × {kind}' for kind, n in one.counts.items())}: US$ {one.price_usd:,.0f} for "
        f"{totals['cpus']:,.0f} CPUs, {totals['mem_gb']:,.0f} GB and {totals['gpus']:,.0f} GPUs in "
        f"{totals['nodes']:,.0f} nodes; jobs wait {duration(one.wait)} on average"
    ]
    if left_out:
        lines.append(f"{counted(left_out, 'job')} cannot run on any of its nodes")
    if len(grouped):
        lines.append(
            f"the model predicts a mean wait of {duration(one.predicted_seconds)}, against "
            f"{duration(one.typical_seconds)} for a typical package, because of:"
        )
        factors = list(zip(grouped["about"], grouped["factor"], strict=True))
        rest = [("everything else", float(np.prod([one for _, one in factors[_STRONGEST:]])))]
        for what, factor in factors[:_STRONGEST] + rest * (len(factors) > _STRONGEST):
            size = f"{1 - factor:.0%} less" if factor < 1 else f"{factor - 1:.0%} more"
            size = size if factor < 2 else f"{factor:.1f} times the"
            lines.append(f"  {what}: " + (f"×{factor:.2f}, {size} waiting" if abs(factor - 1) > 0.005 else "no effect"))
    lines += [_waited_for(workload, bottleneck) for workload, bottleneck in one.bottlenecks.items()]
    return lines + marginal_sentences(one)


def marginal_sentences(one: PackageExplanation) -> list[str]:
    """Say which further node, of those that the study's rules allow, shortens the wait most for its price.

    And whether the budget suffices for it; empty if none was tried.
    """
    if not len(one.marginal):
        return []
    better = one.marginal[one.marginal["saved_seconds"] > 0]
    allowed = better[better["allowed"]] if len(better) else better
    if not len(allowed):
        which = "any type" if not len(better) else "a type that the study's rules allow"
        return [f"one more node of {which} would not shorten the wait"]
    first, beyond = allowed.iloc[0], allowed["beyond_usd"].iloc[0]
    which = "all types" if one.marginal["allowed"].all() else "the types that the rules allow"
    return [
        f"one more {first['type']} (US$ {first['usd']:,.0f}) would shorten the mean wait by "
        f"{duration(first['saved_seconds'])}, {duration(first['saved_per_1000_usd'])} per US$ 1,000: the most for the "
        f"money of {which}" + (f"; that is US$ {beyond:,.0f} beyond the budget" if beyond else "")
    ]


def comparison_sentences(one: PackageExplanation, other: PackageExplanation) -> list[str]:
    """Say on which of two packages jobs wait less, and why."""
    if not (one.wait > 0 or other.wait > 0):
        return ["no job waits on either"]
    better, worse = (one, other) if one.wait <= other.wait else (other, one)
    short, long = duration(better.wait), duration(worse.wait)
    lines = [f"jobs wait equally long on both: {short}"]
    if better.wait < worse.wait:
        instead = f": {short} against {long}" if short != long else ""
        less = duration(worse.wait - better.wait)
        lines = [f"jobs wait {less} less on {better.package_id} than on {worse.package_id}{instead}"]
        if len(one.waits) > 1:
            shorter = better.waits["mean_wait_time"].to_numpy() < worse.waits["mean_wait_time"].to_numpy()
            lines.append(f"they wait less on {int(shorter.sum())} of {len(one.waits)} workloads")
    for most in _factors_of(one, other).head(1).itertuples():
        lines.append(
            f"the model attributes most of the difference to {most.item}: ×{most.first:.2f} for the first, "
            f"×{most.second:.2f} for the second"
        )
    return lines


def _waited_for(workload: str, bottleneck: Bottleneck) -> str:
    total = bottleneck.total_seconds
    if not total:
        return f"on {workload} no job waits"
    shares = sorted(((bottleneck.share(cause), WORDS[cause]) for cause in bottleneck.seconds), reverse=True)
    parts = ", ".join(f"{share:.0%} {word}" for share, word in shares if share >= 0.005)
    text = f"what jobs waited for on {workload}, by waiting time: {parts}"
    fragmented = bottleneck.fragmented_seconds / total
    if fragmented >= 0.005:
        text += f"; for {fragmented:.0%} of it enough was free in total, but on no single node"
    for top in bottleneck.shapes.head(1).to_dict(orient="records"):
        text += (
            f"; {top['waited_seconds'] / total:.0%} of it falls on jobs on {request_text(top)}, which "
            f"{counted(top['n_able'], 'node')} can hold"
        )
    return text
