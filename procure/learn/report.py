"""The judgement of a trained policy as one self-contained HTML file: on days, and on weeks without a break."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.learn.continuous import Continuous
from procure.learn.describe import described
from procure.learn.judge import LEARNED, Judgement
from procure.learn.store import TrainedPolicy
from procure.page.html import render, write_page
from procure.page.names import heading
from procure.page.svg import BLUE, GREY, ORANGE, figure, inline, literal
from procure.text import counted, duration


def write_report(
    judgement: Judgement | None,
    policy: TrainedPolicy,
    path: str | Path,
    about: str,
    weeks: Continuous | str | None = None,
) -> Path:
    """Write the report, whole or not at all.

    Parameters
    ----------
    judgement
        Of days from an empty system, if they were judged.
    about
        What was judged on what.
    weeks
        Of weeks without a break; or why these could not be judged.
    """
    about_policy = described(policy)
    found = weeks if isinstance(weeks, Continuous) else None
    text = render(
        Path(__file__).with_name("report.html"),
        about=about,
        lines=[*([] if found is None else _of_weeks(found)), *([] if judgement is None else _answer(judgement))],
        refused=weeks if isinstance(weeks, str) else "",
        weeks=None if found is None else _rivals(found.policies, "weeks"),
        of_days=None if judgement is None or judgement.policies.empty else _rivals(judgement.policies, "days"),
        figures=None if judgement is None else _figures(judgement),
        days=None if judgement is None else judgement.days,
        chart=None if judgement is None else _against_sjf(judgement.days),
        weights=pd.DataFrame(about_policy["weights"]),
        curve=_curve(about_policy["curve"]) if about_policy["curve"] else None,
        trained=", ".join(f"{key} {value}" for key, value in about_policy["trained"].items()),
    )
    return write_page(path, text)


def _figures(judgement: Judgement) -> pd.DataFrame:
    shown = {heading(name): _as_text(value) for name, value in judgement.figures.items()}
    shown |= {f"CPUs used under {name}": f"{value:.1%}" for name, value in judgement.utilization.items()}
    shown |= {
        f"CPUs used under {name}, first to last submission": f"{value:.1%}"
        for name, value in judgement.utilization_of_submissions.items()
    }
    return pd.DataFrame({"what": list(shown), "value": list(shown.values())})


def _rivals(policies: pd.DataFrame, name: str) -> dict[str, object]:
    """Return a table of policies for people, and the picture of the learned one's ratios to each."""
    told = policies.drop(columns=[f"{what}_{end}" for what in _RATIOS for end in ("ratio", "low", "high")])
    told["policy"] = [one.replace(",", ", ") for one in told["policy"]]  # so that it may break
    for place, (what, words) in enumerate(_RATIOS.items(), 1):
        told.insert(place, f"learned {words} / this", [_ratio(row, what) for row in policies.to_dict("records")])
    return {"table": told, "chart": _ratios(policies[policies["policy"] != LEARNED], name)}


_FEWEST_SURE = 6
"""Weeks; of fewer an interval by resampling covers far less than it says."""
_RATIOS = {"slowdown": "slowdown", "wait": "mean wait"}


def _ratio(row: dict[Any, Any], what: str) -> str:
    ratio, low, high = (row[f"{what}_{end}"] for end in ("ratio", "low", "high"))
    bounds = "" if np.isnan(low) else f" ({low:.2f} to {high:.2f})"
    return f"{ratio:.2f}{bounds}"


def _of_weeks(found: Continuous) -> list[tuple[str, str]]:
    """Say whether the policy is better than the best of its rivals where the queue never empties."""
    row = found.policies.set_index("policy").loc[found.best_rival].to_dict()
    n_weeks = int(found.weeks["week"].nunique())
    sure = "too few weeks to be sure of anything"
    if n_weeks >= _FEWEST_SURE:
        apart = row["slowdown_high"] < 1 or row["slowdown_low"] > 1
        less = "less" if row["slowdown_ratio"] < 1 else "more"
        sure = f"{less} for sure" if apart else "too close to call"
    return [
        (
            f"on {counted(n_weeks, 'week')} without a break its bounded slowdown is {_ratio(row, 'slowdown')} of that "
            f"under the best rival that nobody trained, {found.best_rival}: {sure}",
            "weeks",
        ),
        (f"its mean wait is {_ratio(row, 'wait')} of that one's", "weeks"),
    ]


def _answer(judgement: Judgement) -> list[tuple[str, str]]:
    """Say how long jobs wait against SJF, and on how many days longer.

    Each sentence with the section that it rests on.
    """
    days, figures = judgement.days, judgement.figures
    ours, theirs = days[LEARNED].mean(), days["sjf"].mean()
    worse = int((days[LEARNED] > days["sjf"]).sum())
    return [
        (
            f"on {counted(len(days), 'day')} that it was not trained on, the mean wait is {duration(ours)}; under sjf "
            f"{duration(theirs)}",
            "all-days",
        ),
        (
            f"jobs wait longer than under sjf on {worse} of them; {figures['worst_ratio']:.2f} times as long at worst",
            "days",
        ),
    ]


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(_as_text(one) for one in value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _against_sjf(days: pd.DataFrame) -> Markup:
    made, axes = figure(9, 3.4)
    at = np.arange(len(days))
    for name, marker in (("best-fit", "x"), ("sjf@oracle", "+"), (LEARNED, "o")):
        axes.plot(at, (days[name] + 1) / (days["sjf"] + 1), marker, label=name, markersize=5)
    axes.axhline(1.0, color="grey", linewidth=1)
    axes.set_yscale("log")
    axes.set_xticks(at, [str(day)[5:] for day in days["day"]], rotation=90, fontsize=7)
    axes.set_ylabel("mean wait / sjf's")
    axes.legend(frameon=False, fontsize=8)
    return inline(made, "ratios", "Mean wait of each day as a ratio to that under sjf")


def _curve(points: list[list[float]]) -> Markup:
    made, axes = figure(7, 2.8)
    axes.plot([point[0] for point in points], [point[1] for point in points], "o-", markersize=3)
    axes.set_xlabel("generation")
    axes.set_ylabel("objective")
    return inline(made, "curve", "The objective of the search's centre on all training days")


def _ratios(policies: pd.DataFrame, name: str) -> Markup:
    """Draw the learned policy's figures as ratios to each other policy's, with their intervals."""
    made, axes = figure(9, 0.8 + 0.36 * len(policies))
    at = np.arange(len(policies))[::-1]
    for (what, words), colour, shift in zip(_RATIOS.items(), (BLUE, ORANGE), (0.12, -0.12), strict=True):
        ratio, low, high = (policies[f"{what}_{end}"].to_numpy(float) for end in ("ratio", "low", "high"))
        known = np.isfinite(ratio) & (ratio > 0)
        ends = np.nan_to_num(np.stack([ratio - low, high - ratio]))[:, known].clip(min=0)
        axes.errorbar(
            ratio[known], at[known] + shift, xerr=ends, fmt="o", color=colour, markersize=4, linewidth=1, label=words
        )
    axes.axvline(1.0, color=GREY, linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(at, [literal(one) for one in policies["policy"]], fontsize=7)
    axes.set_xlabel("of the learned policy / of this one; left of 1 the learned one is better")
    axes.legend(frameon=False, fontsize=8)
    return inline(made, f"ratios-{name}", f"Slowdown and mean wait as ratios to each rival, {name}")
