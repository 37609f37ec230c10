"""The report's section on days: how they differ, and what does well on many of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.evaluation.many_days import Days, Scores, normalised_wait, threshold_sweep, threshold_table
from procure.page.html import render
from procure.page.svg import BLUE, GREY, PALETTE, figure, inline, literal, wait_axis
from procure.reports.charts import predicted_against_simulated

_LENGTHS = (10, 50, 100, 500, 1_000)


def section(
    days: Days, counted: np.ndarray, scores: Scores, packages: pd.DataFrame, share: float, threshold: int
) -> Markup:
    """Return the section as HTML; empty for fewer than two days, or nothing simulated on all of them.

    Parameters
    ----------
    days, counted, scores, packages
        See `procure.evaluation.many_days`; of the models, ``normalised`` is drawn against what was simulated.
    share
        Which part of the packages are hits on a day.
    threshold
        A package is a hit if it is one on more than this many days.
    """
    if len(days.names) < 2 or not days.simulated.any():
        return Markup()
    known = days.simulated
    drawn: dict[str, Any] = {"precision": "", "hits": [], "normalised": ""}
    if scores:
        drawn["precision"] = precision_by_threshold(threshold_sweep(scores, counted, packages, len(days.names)))
        drawn["hits"] = threshold_table(scores, counted, packages, [threshold], _LENGTHS).to_dict(orient="records")
    normalised = [score for (_, model), score in scores.items() if model == "normalised"]
    if normalised:
        drawn["normalised"] = predicted_against_simulated(
            normalised[0][known], normalised_wait(days)[known], "normalised wait"
        )
    return render(
        Path(__file__).with_name("days.html"),
        share=share,
        threshold=threshold,
        waits=waits_by_day(days),
        **drawn,
    )


def waits_by_day(days: Days) -> Markup:
    """Draw box plots of mean wait per day, of packages that run its jobs (figure 3.7 of Hutchison 2024)."""
    n = len(days.names)
    made, axes = figure(7.2, 3.4)
    held = [wait[able & ~np.isnan(wait)] for wait, able in zip(days.wait, days.able, strict=True)]
    look = {"widths": 0.6, "whis": (0, 100), "patch_artist": True, "medianprops": {"color": "black"}}
    boxes = axes.boxplot([waits if len(waits) else [np.nan] for waits in held], **look)
    for patch in boxes["boxes"]:
        patch.set(facecolor=BLUE, alpha=0.7)
    everything = np.concatenate(held) if any(map(len, held)) else np.zeros(1)
    wait_axis(axes, "y", float(everything.min()), float(everything.max()))
    axes.set_ylabel("simulated mean wait")
    step = -(-n // 40)
    axes.set_xticks(
        range(1, n + 1, step),
        [literal(name) for name in days.names[::step]],
        rotation=90 if n > 8 else 0,
        fontsize=7,
    )
    return inline(made, "days", "Simulated mean wait of the packages on each day")


def precision_by_threshold(sweep: pd.DataFrame) -> Markup:
    """Draw precision@k against the hit threshold, where there are hits (figure 3.8).

    Parameters
    ----------
    sweep
        From `threshold_sweep`.
    """
    made, axes = figure(7.2, 2.9)
    there = sweep[sweep["n_hits"] > 0]
    drawn = there[~there["model"].isin(["random", "cheapest-per-cpu"])]
    groups = drawn.groupby(["feature_set", "model"], sort=False)
    styles = ("-", "--", "-.", ":")
    for i, ((feature_set, model), rows) in enumerate(groups):
        axes.plot(
            rows["threshold"], rows["precision"], color=PALETTE[i % len(PALETTE)], linestyle=styles[i % 4],
            linewidth=1.6, marker=".", label=f"{model} ({feature_set})",
        )  # fmt: skip
    chance = there[there["model"] == "random"]
    axes.plot(chance["threshold"], chance["precision"], color=GREY, linewidth=1, linestyle=(0, (1, 2)))
    axes.set(xlim=(-0.3, max([0, *there["threshold"]]) + 0.3), ylim=(0, 1.03))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("hit threshold: among the best on more than this many days")
    axes.set_ylabel(f"precision@{int(sweep['k'].iloc[0])}")
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=8, loc="lower left")
    return inline(made, "thresholds", "Precision as the hit threshold rises")
