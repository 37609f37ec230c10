"""The report's section on how sure the list is: ranks over resampled jobs, and packages that cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.page.html import render
from procure.page.svg import BLUE, GREY, figure, inline

_MOST_ROWS = 30


def section(
    table: pd.DataFrame, sentences: Sequence[str], unit: str, n_draws: int, objective: str = "mean wait"
) -> Markup:
    """Return the section as HTML; empty for a single package, without a chart where no rank is known.

    Parameters
    ----------
    table, unit, n_draws
        As of `procure.recommender.confidence.Confidence`.
    sentences
        What they amount to.
    objective
        What the list is in the order of.
    """
    if len(table) < 2:
        return Markup()
    is_known = bool(table["alike"].head(_MOST_ROWS).notna().any())
    return render(
        Path(__file__).with_name("sureness.html"),
        is_known=is_known,
        n_draws=n_draws,
        objective=objective,
        unit=unit,
        lines=sentences,
        chart=chart(table) if is_known else "",
    )


def chart(table: pd.DataFrame) -> Markup:
    """Draw rank intervals of the head of the list, where they are known; at least one must be."""
    shown = table.head(_MOST_ROWS)
    made, axes = figure(7.2, 0.8 + 0.14 * len(shown))
    place = np.arange(1, len(shown) + 1)
    for alike, colour in ((True, BLUE), (False, GREY)):
        here = (shown["alike"] == alike).fillna(False).to_numpy(dtype=bool)
        low, high = shown["rank_low"][here], shown["rank_high"][here]
        axes.hlines(place[here], low, high, color=colour, linewidth=3, alpha=0.6)
        axes.plot(place[here], place[here], "o", color=colour, markersize=3)
    axes.invert_yaxis()
    axes.set(xlim=(0.5, float(shown["rank_high"].max()) + 0.5), xlabel="rank", ylabel="place in the list")
    return inline(made, "rank-ranges", "Ranges of ranks of the first packages over resampled workloads")
