"""The judgement of a trained policy as one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.learn.describe import described
from procure.learn.judge import LEARNED, Judgement
from procure.learn.store import TrainedPolicy
from procure.page.html import render, write_page
from procure.page.names import heading
from procure.page.svg import figure, inline
from procure.text import counted, duration


def write_report(judgement: Judgement, policy: TrainedPolicy, path: str | Path, about: str) -> Path:
    """Write the report, whole or not at all; ``about`` says what was judged on what."""
    about_policy = described(policy)
    shown = {heading(name): _as_text(value) for name, value in judgement.figures.items()}
    shown |= {f"CPUs used under {name}": f"{value:.1%}" for name, value in judgement.utilization.items()}
    shown |= {
        f"CPUs used under {name}, first to last submission": f"{value:.1%}"
        for name, value in judgement.utilization_of_submissions.items()
    }
    text = render(
        Path(__file__).with_name("report.html"),
        about=about,
        lines=_answer(judgement),
        figures=pd.DataFrame({"what": list(shown), "value": list(shown.values())}),
        days=judgement.days,
        chart=_against_sjf(judgement.days),
        weights=pd.DataFrame(about_policy["weights"]),
        curve=_curve(about_policy["curve"]) if about_policy["curve"] else None,
        trained=", ".join(f"{key} {value}" for key, value in about_policy["trained"].items()),
    )
    return write_page(path, text)


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
