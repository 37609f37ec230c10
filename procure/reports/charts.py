"""The report's figures, each from arrays or tables to SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from procure.evaluation.many_days import Days
from procure.evaluation.ranking import find_hits, order
from procure.explanation.bottleneck import CAUSES, WORDS, Bottleneck
from procure.objectives import Quantity
from procure.page.names import share
from procure.page.svg import (
    BLUE,
    GREY,
    ORANGE,
    PALETTE,
    RED,
    differ,
    figure,
    inline,
    literal,
    wait_axis,
)
from procure.workload.clock import local_times

_MOST_BINS = 96
MOST_RANGES = 30
_MOST_POINTS = 20_000
_STEPS = (60, 300, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 7 * 86_400)


def predicted_against_simulated(predicted: np.ndarray, simulated: np.ndarray, of: str = "mean wait") -> Markup:
    """Draw out-of-fold predictions against what was simulated (figures 3.4 and 3.9 of Hutchison 2024).

    Parameters
    ----------
    predicted, simulated
        A value per package: mean waits, s, on logarithmic axes, or something else.
    of
        What the values are.
    """
    made, axes = figure(5.2, 4.2)
    low, high = float(min(predicted.min(), simulated.min())), float(max(predicted.max(), simulated.max()))
    ends = np.array([max(low, 0.1) if of == "mean wait" else 0.0, high])
    axes.plot(ends, ends, color=GREY, linewidth=1, linestyle="--", label="exact prediction")
    axes.scatter(simulated, predicted, s=4, color=BLUE, alpha=0.35, linewidths=0, rasterized=True, label="a package")
    if of == "mean wait":
        wait_axis(axes, "x", low, high)
        wait_axis(axes, "y", low, high)
    axes.set(xlabel=f"simulated {of}", ylabel=f"predicted {of} (out of fold)")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    return inline(made, f"scatter-{of.split()[0]}", f"Predicted against simulated {of} of the simulated packages")


def precision_by_k(
    rankings: dict[str, np.ndarray], wait: np.ndarray, price: np.ndarray, hit_share: float, k: int
) -> Markup:
    """Draw precision@k of each ranking by its predicted waits, and of a random order."""
    made, axes = figure(7.2, 3.1)
    hits = find_hits(wait, hit_share)
    ks = np.arange(1, len(wait) + 1)
    styles = ("-", "--", "-.", ":")
    for i, (name, predicted) in enumerate(rankings.items()):
        found = np.cumsum(hits.is_hit[order(predicted, price)]) / ks
        axes.plot(ks, found, color=PALETTE[i], linestyle=styles[i % 4], linewidth=1.6, label=name)
    axes.axhline(hits.n_real / len(wait), color=GREY, linewidth=1, linestyle=(0, (1, 2)), label="random order")
    axes.axvline(k, color=GREY, linewidth=0.8)
    axes.annotate(f"k = {k}", (k, 0.12), xytext=(3, 0), textcoords="offset points", fontsize=8, color=GREY)
    if hits.n_hits and hits.n_hits != k:
        axes.axvline(hits.n_hits, color=GREY, linewidth=0.8)
        axes.annotate(
            f"{hits.n_hits:,} hits", (hits.n_hits, 0.12), xytext=(3, 0), textcoords="offset points",
            fontsize=8, color=GREY,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set(xlim=(1, max(len(wait), 2)), ylim=(0, 1.03), xlabel="k, the length of the list", ylabel="precision@k")
    axes.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=8, loc="upper right")
    return inline(made, "precision", "Precision at k of the model's ranking and of simpler ones")


def favourites_against_rest(predicted: np.ndarray, wait: np.ndarray, price: np.ndarray, hit_share: float) -> Markup:
    """Draw simulated waits of the favourites by prediction beside all others (figure 3.6)."""
    made, axes = figure(7.2, 2.0)
    ranking = order(predicted, price)
    n = max(1, find_hits(wait, hit_share).n_hits)
    groups = [wait[ranking[n:]], wait[ranking[:n]]]
    names = [f"all others ({len(groups[0]):,})", f"recommended {share(hit_share)} ({n:,})"]
    boxes = axes.boxplot(
        [group if len(group) else [np.nan] for group in groups],
        orientation="horizontal", widths=0.55, patch_artist=True, tick_labels=names,
        flierprops={"marker": ".", "markersize": 2, "markeredgecolor": GREY, "rasterized": True},
        medianprops={"color": "black"},
    )  # fmt: skip
    for patch, colour in zip(boxes["boxes"], (ORANGE, BLUE), strict=True):
        patch.set(facecolor=colour, alpha=0.75)
    wait_axis(axes, "x", float(wait.min()), float(wait.max()))
    axes.set_xlabel("simulated mean wait")
    return inline(made, "box", "Simulated mean wait of the recommended packages and of all others")


def budget(spent: pd.DataFrame) -> Markup:
    """Draw what the recommended packages spend on each category (figure 3.5)."""
    made, axes = figure(7.2, 0.55 + 0.42 * len(spent))
    place = np.arange(len(spent))[::-1]
    axes.barh(place, spent["share"], color=[PALETTE[i % len(PALETTE)] for i in range(len(spent))], height=0.62)
    for y, row in zip(place, spent.itertuples(index=False), strict=True):
        axes.annotate(
            f"{share(row.share)}  (US$ {row.price_usd:,.0f})", (row.share, y), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=8.5,
        )  # fmt: skip
    axes.set_yticks(place, [literal(one) for one in spent["category"]])
    axes.set_xlim(0, 1.0 if spent["share"].max() < 0.75 else 1.3)
    axes.xaxis.set_visible(False)
    axes.grid(False)
    axes.spines["bottom"].set_visible(False)
    return inline(made, "budget", "Share of the budget by category")


def jobs_over_time(jobs: pd.DataFrame, name: str, tz: str | None = None, log_clock: bool = False) -> Markup:
    """Draw how many jobs were submitted per interval (figure 3.3).

    A log that counts seconds from a start of its own (``log_clock``) has no dates: it is drawn in hours
    since the first submission.
    """
    made, axes = figure(7.2, 2.2)
    submit = jobs["submit_time"].to_numpy()
    first, last = int(submit.min()), int(submit.max())
    step = next((s for s in _STEPS if (last - first) / s <= _MOST_BINS), 86_400 * 30)
    first -= 0 if log_clock else first % step
    counts = np.bincount((submit - first) // step)
    edges = first + step * np.arange(len(counts) + 1)
    along = (edges - first) / 3600 if log_clock else _dates(axes, edges, tz)
    axes.stairs(counts, along, fill=True, color=BLUE)
    axes.set_xlim(along[0], along[-1])
    axes.set_ylim(0)
    axes.set_ylabel(f"jobs per {_interval(step)}")
    axes.set_xlabel("hours since the first submission" if log_clock else f"submitted ({tz or 'UTC'})")
    return inline(made, f"jobs-{name}", f"Jobs submitted over time, workload {name}")


def _dates(axes: Any, seconds: np.ndarray, tz: str | None) -> np.ndarray:
    """Return Unix seconds as local dates, and give the axis ticks for them."""
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    dates = ConciseDateFormatter(locator)
    dates.formats[2] = dates.zero_formats[2] = "%d %b"  # it would name one month for all days, the last
    dates.offset_formats[2] = "%Y"
    axes.xaxis.set_major_formatter(dates)
    return local_times(seconds, tz).to_numpy()


def _interval(step: int) -> str:
    if step % 86_400 == 0:
        return f"{step // 86_400} d" if step > 86_400 else "day"
    return f"{step // 60} min" if step < 3600 else (f"{step // 3600} h" if step > 3600 else "hour")


def rank_ranges(table: pd.DataFrame) -> Markup:
    """Draw rank intervals of the head of the list, where they are known; at least one must be."""
    shown = table.head(MOST_RANGES)
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


def lacked(bottleneck: Bottleneck, name: str) -> Markup:
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


def front(front: pd.DataFrame, axes: Sequence[Quantity], values: np.ndarray, recommended: int) -> Markup:
    """Draw the first axis against the second, the third as colour; front, knee and recommendation marked.

    Nothing where the first axis is the same for all.
    """
    if not differ(values[:, 0]):
        return Markup()
    made, plot = figure(7.2, 3.8)
    step = -(-len(values) // _MOST_POINTS)
    shown = values[::step]
    style = {"s": 6, "linewidths": 0, "alpha": 0.5, "rasterized": True}
    if len(axes) > 2:
        drawn = plot.scatter(shown[:, 1], shown[:, 0], c=shown[:, 2], cmap="cividis", **style)
        made.colorbar(drawn, ax=plot, label=heading_of(axes[2]), format=lambda value, _: f"{value:,.0f}")
    else:
        plot.scatter(shown[:, 1], shown[:, 0], color=GREY, **style)
    points = front[[axes[1].name, axes[0].name]].to_numpy()
    points = points[np.lexsort(points.T[::-1])]
    line = "-" if len(axes) == 2 else "none"
    plot.plot(*points.T, color=BLUE, marker="o", markersize=3.5, linestyle=line, linewidth=1, label="front")
    knee = front[front["knee"]].iloc[0]
    ring = {"s": 110, "facecolors": "none", "edgecolors": ORANGE, "linewidths": 2}
    plot.scatter(knee[axes[1].name], knee[axes[0].name], label="knee", zorder=4, **ring)
    here = values[recommended]
    plot.scatter(here[1], here[0], s=70, color=RED, marker="*", label="recommended", zorder=5)
    wait_axis(plot, "y", float(values[:, 0].min()), float(values[:, 0].max()))
    plot.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    plot.set(xlabel=heading_of(axes[1]), ylabel=f"{name_of(axes[0])} of a job")
    plot.set_title(f"{name_of(axes[0])} against {name_of(axes[1])}: {len(values):,} packages".capitalize(), fontsize=10)
    plot.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=8, loc="upper right")
    return inline(
        made, "pareto", f"{name_of(axes[0])} against {name_of(axes[1])} of all packages, and the Pareto front"
    )


def heading_of(of: Quantity) -> str:
    """Return what an axis is, with its unit."""
    return f"{name_of(of)}, {of.unit}" if of.unit and of.unit != "s" else name_of(of)


def name_of(of: Quantity) -> str:
    """Return what an axis is."""
    return {"tco": "cost over the years"}.get(of.name) or of.name.replace("-", " ")
