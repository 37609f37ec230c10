"""The report's section on days: how they differ, and what does well on many of them."""

from __future__ import annotations

from html import escape

import numpy as np
import pandas as pd

from procure.evaluation.many_days import Days, Scores, normalised_wait, threshold_sweep, threshold_table
from procure.page.svg import BLUE, GREY, PALETTE, captioned, figure, inline, wait_axis

_LENGTHS = (10, 50, 100, 500, 1_000)


def section(
    days: Days, counted: np.ndarray, scores: Scores, packages: pd.DataFrame, share: float, threshold: int
) -> str:
    """Return the section as HTML; empty for fewer than two days, or nothing simulated on all of them.

    Parameters
    ----------
    days, counted, scores, packages
        See `procure.evaluation.many_days`; of the models, ``normalised`` is drawn against what was simulated.
    share
        Which part of the packages are hits on a day.
    threshold
        A hit is one on more than so many days.
    """
    if len(days.names) < 2 or not days.simulated.any():
        return ""
    parts = [
        "<section>\n<h2>The days</h2>",
        f"<p>A package is a hit on a day if its mean wait there is among the lowest {share:.0%} of all packages"
        " and it can run the day's jobs. Buy what does well on many days, not what is best on one.</p>",
        captioned(
            waits_by_day(days),
            "Mean waits of the simulated packages on each day. Box: the middle half, line: the median, whiskers: "
            "the best and the worst package. A day on which the box is narrow hardly tells packages apart.",
        ),
    ]
    if scores:
        sweep = threshold_sweep(scores, counted, packages, len(days.names))
        caption = (
            "Of the first 50 packages of a ranking, the share that are hits on more than so many days; "
            "predicted by models that had not seen them. The grey line is a random order."
        )
        parts.append(captioned(precision_by_threshold(sweep), caption))
        parts.append(_table(threshold_table(scores, counted, packages, [threshold], _LENGTHS), threshold))
    normalised = [score for (_, model), score in scores.items() if model == "normalised"]
    if normalised:
        known = days.simulated
        chart = normalised_against_simulated(normalised[0][known], normalised_wait(days)[known])
        caption = (
            "Each day's waits from 0 (the best package) to 1 (the worst, or jobs left out), mean over the days. "
            "A point is a package, predicted by a model that had not seen it; on the dashed line exactly."
        )
        parts.append(captioned(chart, caption, "narrow"))
    return "\n".join([*parts, "</section>"])


def waits_by_day(days: Days) -> str:
    """Draw box plots of mean wait per day, of packages that run its jobs (figure 3.7 of Hutchison 2024)."""
    n = len(days.names)
    made, axes = figure(7.2, 3.4)
    held = [wait[able & ~np.isnan(wait)] for wait, able in zip(days.wait, days.able, strict=True)]
    boxes = axes.boxplot(
        [waits if len(waits) else [np.nan] for waits in held],
        widths=0.6, whis=(0, 100), patch_artist=True, medianprops={"color": "black"},
    )  # fmt: skip
    for patch in boxes["boxes"]:
        patch.set(facecolor=BLUE, alpha=0.7)
    everything = np.concatenate(held) if any(map(len, held)) else np.zeros(1)
    wait_axis(axes, "y", float(everything.min()), float(everything.max()))
    axes.set_ylabel("simulated mean wait")
    step = -(-n // 40)
    axes.set_xticks(range(1, n + 1, step), days.names[::step], rotation=90 if n > 8 else 0, fontsize=7)
    return inline(made, "days", "Simulated mean wait of the packages on each day")


def precision_by_threshold(sweep: pd.DataFrame) -> str:
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
    axes.set_xlim(-0.3, max([0, *there["threshold"]]) + 0.3)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(0, 1.03)
    axes.set_xlabel("hit threshold: among the best on more than so many days")
    axes.set_ylabel(f"precision@{int(sweep['k'].iloc[0])}")
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=8, loc="lower left")
    return inline(made, "thresholds", "Precision as the hit threshold rises")


def normalised_against_simulated(predicted: np.ndarray, simulated: np.ndarray) -> str:
    """Draw predicted against simulated normalised waits (figure 3.9)."""
    made, axes = figure(5.2, 4.2)
    high = float(max(predicted.max(), simulated.max()))
    axes.plot([0, high], [0, high], color=GREY, linewidth=1, linestyle="--", label="exact prediction")
    axes.scatter(
        simulated, predicted, s=4, color=BLUE, alpha=0.35, linewidths=0, rasterized=True, label="a package"
    )
    axes.set_xlabel("simulated normalised wait, mean over days")
    axes.set_ylabel("predicted (out of fold)")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    return inline(made, "normalised", "Predicted against simulated normalised wait over all days")


def _table(table: pd.DataFrame, threshold: int) -> str:
    n_hits, n_ranked = (int(table[name].iloc[0]) for name in ("n_hits", "n_ranked"))
    head = (
        f'<table class="keep"><caption>{n_hits:,} of {n_ranked:,} packages are hits on more than {threshold} days.'
        '</caption><thead><tr><th>ranked by</th><th class="n">k</th><th class="n">precision@k</th>'
        '<th class="n">recall@k</th><th class="n">F1@k</th></tr></thead><tbody>'
    )
    rows = []
    for row in table.itertuples(index=False):
        who = row.model if row.feature_set == "none" else f"{row.model} {row.feature_set}"
        figures = ("–" if value != value else f"{value:.3f}" for value in (row.precision, row.recall, row.f1))
        cells = "".join(f'<td class="n">{text}</td>' for text in (f"{row.k:,}", *figures))
        rows.append(f"<tr><td>{escape(who)}</td>{cells}</tr>")
    return head + "\n".join(rows) + "</tbody></table>"
