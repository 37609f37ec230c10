"""Pictures: how futures differ from the past, and how choices before a cut did after it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib import rc_context

from procure.files import whole_file
from procure.page.svg import BLUE, GREY, ORANGE, figure

_LABELS = {"week": "week of the past", "class": "class of job", "hour": "hour of the day"}


def draw_differences(differences: pd.DataFrame, path: Path) -> None:
    """Write a picture (SVG) of CPU-hours a week by week, class and hour: the past, and the futures' 90 % range.

    Parameters
    ----------
    differences
        From `procure.workload.futures.compare_futures`.

    Raises
    ------
    TableError
        The file cannot be written.
    """
    made, panels = figure(9.6, 3.0, columns=3)
    for axes, (by, label) in zip(panels, _LABELS.items(), strict=True):
        rows = differences[differences["by"] == by].reset_index(drop=True)
        place = range(len(rows))
        if by == "class":
            reach = [rows["mean"] - rows["low"], rows["high"] - rows["mean"]]
            axes.bar([x - 0.2 for x in place], rows["past"], 0.4, color=GREY, label="past")
            axes.bar([x + 0.2 for x in place], rows["mean"], 0.4, color=BLUE, label="futures, mean and 90 %")
            axes.errorbar(
                [x + 0.2 for x in place],
                rows["mean"],
                yerr=[one.clip(lower=0) for one in reach],
                fmt="none",
                ecolor=ORANGE,
            )
        else:
            axes.fill_between(place, rows["low"], rows["high"], color=BLUE, alpha=0.2, label="90 % of the futures")
            axes.plot(place, rows["mean"], color=BLUE, label="futures, mean")
            axes.plot(place, rows["past"], color=GREY, marker="o", markersize=3, label="past")
        step = 1 if by == "class" else max(1, len(rows) // 8)
        axes.set_xticks(list(place)[::step], rows["of"].tolist()[::step])
        axes.set_xlabel(label)
        axes.set_ylim(0, None)
    panels[0].set_ylabel("CPU-hours a week")
    panels[1].legend(frameon=False, fontsize=7)
    panels[0].legend(frameon=False, fontsize=7)
    with rc_context({"svg.hashsalt": "futures", "svg.fonttype": "path"}), whole_file(path) as temporary:
        made.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})


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
