"""Pictures of the mixture over an evaluation's weeks: who was right, who was trusted, and whether intervals held."""

from __future__ import annotations

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.page import svg
from procure.queue_time.calibrate import SHARE, interval_levels
from procure.queue_time.distribution import Distribution
from procure.queue_time.evaluation import Evaluation
from procure.queue_time.experts import MIDDLE, NAMES
from procure.workload.clock import has_dates, local_times

_SHOWN = 6
"""Experts that have a line of their own: those that were trusted most."""


def pictures(evaluation: Evaluation, tz: str | None = None) -> list[dict[str, str]]:
    """Return, for each split that has a mixture, its name and three drawings; weeks begin by the zone's clock."""
    found = []
    for split, (rows, stated) in evaluation.stated.items():
        wait = evaluation.wait[rows]
        known = ~np.isnan(wait)
        submit = evaluation.jobs["submit_time"]
        week = (
            local_times(submit.iloc[rows], tz).to_period("W").start_time
            if has_dates(evaluation.jobs)
            else pd.Index((submit.iloc[rows] - submit.min()) // (7 * 86_400))
        )
        top = np.argsort(-stated.weights.mean(axis=0), kind="stable")[:_SHOWN]
        found.append(
            {
                "split": split,
                "weights": _weights(split, week, stated.weights, top),
                "losses": _losses(split, week[known], wait[known], stated.experts[known], stated.curve[known], top),
                "intervals": _intervals(split, week[known], wait[known], stated.curve[known]),
            }
        )
    return found


def _weights(split: str, week: pd.Index, weights: np.ndarray, top: np.ndarray) -> Markup:
    table = pd.DataFrame(weights[:, top], columns=[NAMES[i] for i in top]).groupby(week).mean()
    figure, axes = svg.figure()
    colours = [svg.PALETTE[i % len(svg.PALETTE)] for i in range(len(top))]
    axes.stackplot(table.index, 100 * table.to_numpy().T, labels=list(table.columns), colors=colours)
    axes.set(xlabel="week of submission", ylabel="weight in the mixture (%)", ylim=(0, 100))
    axes.legend(framealpha=0.9, fontsize=7, loc="lower left")
    return svg.inline(figure, f"weights-{split}", f"weight of each expert by week, {split}; white is all others")


def _losses(
    split: str,
    week: pd.Index,
    wait: np.ndarray,
    experts: np.ndarray,
    curve: np.ndarray,
    top: np.ndarray,
) -> Markup:
    said = {NAMES[i]: np.expm1(experts[:, i, MIDDLE].astype(float)) for i in top} | {"mixture": curve[:, MIDDLE]}
    table = pd.DataFrame({name: np.abs(point - wait) for name, point in said.items()}).groupby(week).mean()
    figure, axes = svg.figure()
    for place, name in enumerate(table.columns):
        ours = name == "mixture"
        colour = "black" if ours else svg.PALETTE[place % len(svg.PALETTE)]
        axes.plot(table.index, table[name], label=name, color=colour, linewidth=2 if ours else 1)
    axes.set(xlabel="week of submission", ylabel="mean error")
    svg.wait_axis(axes, "y", 0, float(np.nanmax(table.to_numpy())))
    axes.legend(frameon=False, fontsize=7)
    return svg.inline(figure, f"losses-{split}", f"mean error of each expert by week, {split}")


def _intervals(split: str, week: pd.Index, wait: np.ndarray, curve: np.ndarray) -> Markup:
    low, high = Distribution(curve).interval().T
    frame = {"low": low, "median": curve[:, MIDDLE], "high": high}
    stated = pd.DataFrame(frame).groupby(week).median()
    weeks = pd.Series(wait).groupby(week)
    came = pd.DataFrame([_came(one) for _, one in weeks], index=stated.index, columns=["low", "median", "high"])
    figure, axes = svg.figure()
    axes.fill_between(stated.index, stated["low"], stated["high"], color=svg.BLUE, alpha=0.25, label="stated, 9 in 10")
    axes.plot(stated.index, stated["median"], color=svg.BLUE, label="stated median")
    axes.plot(came.index, came["median"], color=svg.ORANGE, marker=".", label="median of the waits")
    for end, label in (("low", "9 in 10 of the waits"), ("high", None)):
        axes.plot(came.index, came[end], color=svg.ORANGE, linewidth=1.2, linestyle=":", label=label)
    axes.set(xlabel="week of submission", ylabel="wait")
    svg.wait_axis(axes, "y", 0, float(max(stated.to_numpy().max(), came.to_numpy().max())))
    axes.legend(frameon=False, fontsize=7)
    return svg.inline(figure, f"stated-{split}", f"stated interval and waits by week, {split}")


def _came(wait: pd.Series) -> np.ndarray:
    """Return the ends and the median of a week's waits, (3,): the ends by the rule of the stated interval."""
    [[low, high]] = interval_levels(SHARE, np.array([(wait < 1).mean()]))
    return wait.quantile([low, 0.5, high]).to_numpy()
