"""The report's section on why the first package: what its jobs lack, what counts, what one more node is worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.explanation.bottleneck import CAUSES, WORDS, Bottleneck
from procure.explanation.package import PackageExplanation
from procure.explanation.wording import comparison_sentences, sentences
from procure.page.html import render
from procure.page.names import servers
from procure.page.svg import BLUE, GREY, ORANGE, PALETTE, figure, inline, literal

_MOST_ROWS = 8


def section(explanations: Sequence[PackageExplanation]) -> Markup:
    """Return the section as HTML: the first package, against the next where there is one; empty without any."""
    if not explanations:
        return Markup()
    first = explanations[0]
    return render(
        Path(__file__).with_name("why.html"),
        why=sentences(first),
        against=_named(explanations) if len(explanations) == 2 else [],
        factors=factor_chart(first.grouped) if len(first.factors) else "",
        lacked={name: lacked_chart(one, name) for name, one in first.bottlenecks.items() if one.total_seconds},
        marginal=first.marginal.head(_MOST_ROWS).to_dict(orient="records"),
    )


def _named(explanations: Sequence[PackageExplanation]) -> list[str]:
    """Compare two packages, named as people read them."""
    lines = comparison_sentences(*explanations)
    for one in explanations:
        lines = [line.replace(one.package_id, servers(one.package_id)) for line in lines]
    return lines


def lacked_chart(bottleneck: Bottleneck, name: str) -> Markup:
    """Draw the number of waiting jobs over time, stacked by what they lack."""
    table = bottleneck.over_time(120)
    made, axes = figure(7.2, 2.4)
    hours = (table["begin"].to_numpy() - int(bottleneck.moments[0])) / 3600
    causes = [cause for cause in CAUSES if bottleneck.seconds[cause]]
    axes.stackplot(
        hours, *(table[cause] for cause in causes), labels=[WORDS[cause] for cause in causes],
        colors=[PALETTE[CAUSES.index(cause)] for cause in causes], step="post", linewidth=0,
    )  # fmt: skip
    axes.set_ylim(0)
    axes.set(
        xlim=(0, max(float(hours[-1]), 1e-3)),
        xlabel="hours since the first submission",
        ylabel="waiting jobs",
    )
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    return inline(made, f"lacked-{name}", f"Jobs that wait over time on {name}, by what they lack")


def factor_chart(factors: pd.DataFrame) -> Markup:
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
    axes.set_yticks(place, [literal(one) for one in shown["about"]])
    axes.axvline(0, color=GREY, linewidth=0.8)
    most = max(float(np.abs(logs).max()) * 1.25, 0.1)
    axes.set_xlim(-most, most)
    axes.xaxis.set_visible(False)
    axes.grid(False)
    return inline(made, "factors", "Factors on the predicted wait")
