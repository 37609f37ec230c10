"""The evaluation as one HTML file: the figures, what was stated against what came, rivals, and what recurs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.errors import TableError
from procure.forecast.evaluation import Judged
from procure.forecast.load import LoadJudged, judge_load
from procure.forecast.periods import DAY, PatternSettings, find_patterns
from procure.page import svg
from procure.page.html import render, write_page
from procure.text import duration
from procure.workload.clock import has_dates, local_times

_QUALITY = (
    "period confidence n_forecasts n_hits base_rate auc brier brier_constant worst_tenth "
    "auc_days_shuffled auc_within auc_within_days_shuffled auc_outcomes_shuffled"
).split()


class Beside(NamedTuple):
    """The policy `forecast` beside its rivals on weeks without a break, all against the first of them."""

    table: pd.DataFrame
    """A row per policy, as people read it."""
    tests: pd.DataFrame
    """Per policy and metric: ``policy metric difference low high``, of `procure.comparison.paired`."""
    told: pd.DataFrame
    """The same with units, for people."""
    caveat: str
    """What the tests can tell."""


def write_report(
    judged: Judged,
    jobs: pd.DataFrame,
    settings: PatternSettings | None,
    path: str | Path,
    about: str,
    beside: Beside | None = None,
) -> Path:
    """Write the report, whole or not at all; ``about`` says whose forecasts were judged."""
    rows = pd.DataFrame(judged.rows)
    reserved = [name for name in rows if name.startswith(("precision", "recall"))]
    longest = find_patterns(jobs, settings).table(3).head(20)
    zone = (settings.tz if settings else None) or "UTC"
    dated, first = has_dates(jobs), int(jobs["submit_time"].min())
    times = {
        name: local_times(longest[name], zone).strftime("%Y-%m-%d %H:%M").tolist()
        if dated
        else [duration(one - first) for one in longest[name]]
        for name in ("since", "last", "next")
    }
    text = render(
        Path(__file__).with_name("report.html"),
        about=about,
        lines=[*_answer(rows), *([] if beside is None else _scheduling(beside))],
        beside=beside,
        differences=None if beside is None or beside.tests.empty else _differences(beside.tests),
        notes=judged.notes,
        quality=rows[_QUALITY].rename(columns={"n_hits": "came true"}),
        reserved=rows[["period", "confidence", *reserved]],
        charts=[{"period": name, "chart": _calibration(judged, name)} for name in rows["period"].unique()],
        patterns=longest.drop(columns=["pattern", "burst"]).assign(**times),
        clock=f"times of the zone {zone}" if dated else "since, last and next after the first submission",
        load=_load(jobs, settings),
    )
    return write_page(path, text)


def _answer(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Say how many forecasts came true, and of which period they tell most.

    Each sentence with the section that it rests on.
    """
    told = rows.drop_duplicates("period")
    lines = [
        (
            f"{one.base_rate:.0%} of {one.n_forecasts:,} bursts that were expected again after a {one.period} came",
            f"stated-{one.period}",
        )
        for one in told.itertuples()
    ]
    known = rows.dropna(subset=["auc"])
    if len(known):
        best = known.loc[known["auc"].idxmax()]
        lines.append(
            (
                f"`{best['confidence']}` ranks forecasts best, by {best['period']} (AUC {best['auc']:.2f})",
                "quality",
            )
        )
    return lines


def _scheduling(beside: Beside) -> list[tuple[str, str]]:
    """Say what `forecast` gains in bounded slowdown on the first policy, and what it has where no test is."""
    first = beside.table["policy"].iloc[0]
    of = beside.table.set_index("policy")["mean_bounded_slowdown"]
    ours = next(name for name in of.index if name.startswith("forecast"))
    line = f"under {ours} jobs have a mean bounded slowdown of {of[ours]:.2f}, under {first} {of[first]:.2f}"
    tests = beside.tests
    if len(tests):
        mine = tests[tests["policy"].str.startswith("forecast") & (tests["metric"] == "mean_bounded_slowdown")].iloc[0]
        line += f"; week by week {mine['difference']:+.2f} ({mine['low']:.2f} to {mine['high']:.2f})"
    return [(line, "rivals")]


def _differences(tests: pd.DataFrame) -> Markup:
    """Draw each policy's weekly difference in bounded slowdown to the first one, with its interval."""
    rows = tests[tests["metric"] == "mean_bounded_slowdown"]
    at = np.arange(len(rows))[::-1]
    values, low, high = (rows[name].to_numpy(float) for name in ("difference", "low", "high"))
    made, axes = svg.figure(9, 0.8 + 0.32 * len(rows))
    ends = np.nan_to_num(np.stack([values - low, high - values])).clip(min=0)
    axes.errorbar(values, at, xerr=ends, fmt="o", color=svg.BLUE, markersize=4, linewidth=1)
    axes.axvline(0.0, color=svg.GREY, linewidth=1)
    axes.set_yticks(at, [svg.literal(one) for one in rows["policy"]], fontsize=7)
    axes.set_xlabel("mean weekly bounded slowdown less that of the first policy; left of 0 is better")
    return svg.inline(made, "differences", "weekly difference in bounded slowdown to the first policy")


def _calibration(judged: Judged, period: str) -> Markup:
    """Draw what was stated against what came, a line per confidence mode."""
    made, axes = svg.figure(5, 4)
    axes.plot([0, 1], [0, 1], color=svg.GREY, linewidth=0.8)
    of_period = judged.bins[judged.bins["period"] == period]
    for (mode, bins), colour in zip(of_period.groupby("confidence", sort=False), svg.PALETTE, strict=False):
        axes.plot(bins["stated"], bins["came"], marker=".", color=colour, label=mode)
    axes.set_xlabel("stated confidence")
    axes.set_ylabel("share that came")
    axes.legend(frameon=False)
    return svg.inline(made, f"calibration-{period}", f"stated confidence against what came, by {period}")


def _load(jobs: pd.DataFrame, settings: PatternSettings | None) -> dict[str, object]:
    """Judge the forecast of the load; ``refused`` says why it cannot be."""
    try:
        judged = judge_load(jobs, settings)
    except TableError as error:
        return {"refused": str(error)}
    return {
        "refused": "",
        "errors": judged.errors.rename(columns={"horizon": "hours ahead"}),
        "chart": _day_ahead(judged),
    }


def _day_ahead(judged: LoadJudged) -> Markup:
    """Draw the last four weeks: what was expected a day before, the interval, the week before, and what came."""
    rows = judged.rows[judged.rows["horizon"] == 24]
    rows = rows[rows["target"] > rows["target"].max() - 28 * DAY]
    days = (rows["target"] - rows["target"].min()) / DAY
    made, axes = svg.figure(9, 3.6)
    axes.fill_between(days, rows["low"], rows["high"], color=svg.SKY, alpha=0.3, linewidth=0, label="90 % interval")
    axes.plot(days, rows["seasonal_naive"], color=svg.GREY, linewidth=0.8, label="same hour a week before")
    axes.plot(days, rows["expected"], color=svg.BLUE, label="expected a day before")
    axes.plot(days, rows["actual"], color=svg.RED, linewidth=1.2, label="came")
    axes.set_xlabel("days")
    axes.set_ylabel("CPUs in use")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, ncols=4, fontsize=7)
    return svg.inline(made, "load", "CPUs in use, expected a day before and what came")
