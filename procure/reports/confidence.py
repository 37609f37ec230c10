"""The report's section on how sure the list is: ranks over redrawn workloads, and what cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import pandas as pd

from procure.page.svg import BLUE, GREY, captioned, figure, inline

_MOST_ROWS = 30


def section(table: pd.DataFrame, sentences: Sequence[str], unit: str, n_draws: int) -> str:
    """Return the section as HTML; empty where there is nothing to compare, without a chart where nothing is known.

    Parameters
    ----------
    table
        As `procure.recommender.confidence.Assurance.table`: the head of the list in rank order, missing where unknown.
    sentences
        What it comes to.
    unit, n_draws
        What was redrawn, and how often; ``nothing``: ranges of predictions were compared.
    """
    if len(table) < 2:
        return ""
    known = table["alike"].notna()
    how, rule, ranks = (
        (
            f"The workload was redrawn {n_draws:,} times ({escape(unit)}, with replacement), and the list ranked each "
            "time.",
            "A package cannot be told from the first if the 90 % range of the difference of their mean waits over the "
            "redraws reaches below 0: in some redraws it is better.",
            "takes in 90 % of the redraws",
        )
        if n_draws
        else (
            "Nothing was redrawn; the 90 % ranges of predictions are compared.",
            "A predicted package cannot be told from the first if its range reaches the first's.",
            "may take if its wait lies in its 90 % range",
        )
    )
    if not known.any():
        how, rule = "Nothing was redrawn, so how sure the order is, is not known.", ""
    said = "".join(f"<li>{escape(line[0].upper() + line[1:])}.</li>" for line in sentences)
    caption = (
        f"Each line is a package: the ranks that it {ranks}. Blue: cannot be told from the first. Its own rank is "
        "the point."
    )
    return "\n".join(
        [
            "<section>\n<h2>How sure the list is</h2>",
            f"<p>{how} {rule} The first came out first on this very workload, so its lead is flattered a little.</p>",
            f"<ul>{said}</ul>" if said else "",
            captioned(chart(table), caption) if known.any() else "",
            "</section>",
        ]
    )


def chart(table: pd.DataFrame) -> str:
    """Draw rank intervals of the head of the list."""
    shown = table.head(_MOST_ROWS)
    made, axes = figure(7.2, 0.8 + 0.14 * len(shown))
    place = np.arange(1, len(shown) + 1)
    for alike, colour in ((True, BLUE), (False, GREY)):
        here = (shown["alike"] == alike).fillna(False).to_numpy(dtype=bool)
        axes.hlines(
            place[here],
            shown["rank_low"][here],
            shown["rank_high"][here],
            color=colour,
            linewidth=3,
            alpha=0.6,
        )
        axes.plot(place[here], place[here], "o", color=colour, markersize=3)
    axes.invert_yaxis()
    axes.set_xlim(0.5, float(shown["rank_high"].max()) + 0.5)
    axes.set_xlabel("rank")
    axes.set_ylabel("place in the list")
    return inline(made, "rank-ranges", "Ranges of ranks of the first packages over redrawn workloads")
