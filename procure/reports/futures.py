"""A picture of how choices before a cut did after it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib import rc_context

from procure.files import whole_file
from procure.page.svg import BLUE, ORANGE, figure


def draw_forward(table: pd.DataFrame, path: Path) -> None:
    """Write a picture (SVG) of how much longer jobs waited on each rule's choice than on the best in hindsight.

    Parameters
    ----------
    table
        From `procure.recommender.forward.forward`: a dot per cut and rule, a line at each rule's median.

    Raises
    ------
    TableError
        The file cannot be written.
    """
    rules = table["rule"].drop_duplicates().tolist()
    made, axes = figure(7.2, 0.9 + 0.32 * len(rules))
    for place, rule in enumerate(rules):
        ratios = table.loc[table["rule"] == rule, "ratio"]
        axes.plot(ratios, [place] * len(ratios), "o", color=BLUE, markersize=4, alpha=0.7)
        axes.plot([ratios.median()] * 2, [place - 0.3, place + 0.3], color=ORANGE, linewidth=2)
    axes.set_yticks(range(len(rules)), rules)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.set_xlabel("mean wait after the cut, against the best in hindsight (line: median)")
    with rc_context({"svg.hashsalt": "forward", "svg.fonttype": "path"}), whole_file(path) as temporary:
        made.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})
