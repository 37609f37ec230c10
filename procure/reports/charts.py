"""The report's figures, each from arrays or tables to SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from procure.evaluation.ranking import find_hits, order
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
    time_axis,
    wait_axis,
)
from procure.workload.clock import local_times

_MOST_BINS = 96
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


def waits_by_rank(waits: Sequence[float], simulated: Sequence[bool]) -> Markup:
    """Draw the mean wait down the recommended list; nothing where all are equal."""
    if not differ(waits):
        return Markup()
    made, axes = figure(7.2, 2.1)
    wait, known = np.asarray(waits, dtype="float64"), np.asarray(simulated, dtype=bool)
    rank = np.arange(1, len(wait) + 1)
    axes.scatter(rank[known], wait[known], s=18, color=BLUE, label="simulated")
    if not known.all():
        axes.scatter(rank[~known], wait[~known], s=22, facecolors="none", edgecolors=RED, label="predicted")
    highest = max(float(np.nan_to_num(wait).max()) * 1.1, 1.0)
    axes.set(xlim=(0.3, len(wait) + 0.7), ylim=(0, highest), xlabel="rank", ylabel="mean wait")
    axes.xaxis.get_major_locator().set_params(integer=True)
    time_axis(axes, "y")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return inline(made, "ranks", "Mean wait of the recommended packages by rank")


def _interval(step: int) -> str:
    if step % 86_400 == 0:
        return f"{step // 86_400} d" if step > 86_400 else "day"
    return f"{step // 60} min" if step < 3600 else (f"{step // 3600} h" if step > 3600 else "hour")
