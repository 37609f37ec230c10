"""The report's section on why the first package: what its jobs lack, what counts, what one more node is worth."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import pandas as pd

from procure.explanation.bottleneck import CAUSES, WORDS, Binding
from procure.page.svg import BLUE, GREY, ORANGE, PALETTE, captioned, figure, inline
from procure.text import duration

_MOST_ROWS = 8


def section(
    sentences: Sequence[str],
    against: Sequence[str],
    factors: pd.DataFrame,
    binding: dict[str, Binding],
    marginal: pd.DataFrame,
) -> str:
    """Return the section as HTML.

    Parameters
    ----------
    sentences, against
        Why this package waits as it does, and why not the next one (from `procure.explanation.wording`).
    factors
        ``about factor``, strongest first; empty without a model.
    binding
        By workload, what waiting jobs lacked.
    marginal
        As `procure.explanation.package.marginal_values` returns.
    """
    parts = ["<section>\n<h2>Why the first package</h2>", _list(sentences)]
    if against:
        parts += ["<h3>And not the next one</h3>", _list(against)]
    if len(factors):
        caption = (
            "What the model makes of the package: the wait of a package of which nothing is known, times all these "
            "factors, is its prediction. Left of 1 shortens the wait."
        )
        parts.append(captioned(factor_chart(factors), caption))
    for name, one in binding.items():
        if one.total_seconds:
            caption = f"How many jobs wait on {name}, by what the nearest node is short of for them."
            parts.append(captioned(lacked_chart(one, name), caption))
    if len(marginal):
        parts.append(_marginal(marginal))
    return "\n".join([*parts, "</section>"])


def _list(sentences: Sequence[str]) -> str:
    """Write sentences; those that begin with a space belong to the one before."""
    items = []
    for line in sentences:
        text = escape(line.strip()[0].upper() + line.strip()[1:])
        items.append(
            f"<li style='list-style: none'>{text}</li>" if line.startswith(" ") else f"<li>{text}</li>"
        )
    return f"<ul>{''.join(items)}</ul>"


def lacked_chart(binding: Binding, name: str) -> str:
    """Draw the number of waiting jobs over time, stacked by what they lack."""
    table = binding.over_time(120)
    made, axes = figure(7.2, 2.4)
    hours = (table["begin"].to_numpy() - int(binding.moments[0])) / 3600
    causes = [cause for cause in CAUSES if binding.seconds[cause]]
    axes.stackplot(
        hours, *(table[cause] for cause in causes), labels=[WORDS[cause] for cause in causes],
        colors=[PALETTE[CAUSES.index(cause)] for cause in causes], step="post", linewidth=0,
    )  # fmt: skip
    axes.set_xlim(0, max(float(hours[-1]), 1e-3))
    axes.set_ylim(0)
    axes.set_xlabel("hours since the first submission")
    axes.set_ylabel("waiting jobs")
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    return inline(made, f"lacked-{name}", f"Jobs that wait over time on {name}, by what they lack")


def factor_chart(factors: pd.DataFrame) -> str:
    """Draw the strongest factors as bars from 1."""
    shown = factors.head(_MOST_ROWS)
    made, axes = figure(7.2, 0.6 + 0.24 * len(shown))
    place = np.arange(len(shown))[::-1]
    logs = np.log2(shown["factor"].to_numpy(dtype="float64"))
    axes.barh(place, logs, color=[BLUE if one < 0 else ORANGE for one in logs], height=0.6)
    for y, value, factor in zip(place, logs, shown["factor"], strict=True):
        axes.annotate(
            f"×{factor:.2f}", (value, y), xytext=(4 if value >= 0 else -4, 0), textcoords="offset points",
            va="center", ha="left" if value >= 0 else "right", fontsize=8,
        )  # fmt: skip
    axes.set_yticks(place, shown["about"])
    axes.axvline(0, color=GREY, linewidth=0.8)
    most = max(float(np.abs(logs).max()) * 1.25, 0.1)
    axes.set_xlim(-most, most)
    axes.xaxis.set_visible(False)
    axes.grid(False)
    return inline(made, "factors", "Factors on the predicted wait")


def _marginal(marginal: pd.DataFrame) -> str:
    rows = "".join(
        f"<tr><td>{escape(str(row.type))}</td>"
        + "".join(
            f"<td class='n'>{text}</td>"
            for text in (
                f"{row.usd:,.0f}",
                duration(row.saved_seconds),
                duration(row.saved_per_1000_usd),
                f"{row.more_jobs:,}",
            )
        )
        + "</tr>"
        for row in marginal.head(_MOST_ROWS).itertuples()
    )
    return (
        "<table class='keep'><caption>One more node of each type, simulated: mean wait saved per job. More nodes "
        "need not help: a negative figure is a longer wait.</caption><thead><tr><th>type</th><th class='n'>US$</th>"
        "<th class='n'>wait saved</th><th class='n'>per US$ 1,000</th><th class='n'>more jobs run</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )
