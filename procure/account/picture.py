"""The account as a picture: hours waited by week and by class, coloured by cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context

from procure.account.account import SAID, Account
from procure.account.sweep import CAUSES
from procure.files import whole_file
from procure.page.svg import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, figure

KINDS = (".svg", ".png", ".pdf")
_COLOURS = {
    "not_eligible": "#cccccc", "above_limit": PURPLE, "full": BLUE, "fragmentation": SKY, "memory": "#8fc5e8",
    "gpus": "#12486b", "reserved": GREEN, "outage": RED, "closed_hours": ORANGE, "pause": "#f5d78e",
    "unexplained": GREY,
}  # fmt: skip


def picture(account: Account, out: str | Path) -> Path:
    """Draw an account, whole or not at all; the kind (SVG, PNG, PDF) follows from the file's name."""
    out = Path(out)
    made, (weeks, classes) = figure(10, 4.2, columns=2)
    shown = [name for name in CAUSES if account.causes.set_index("cause")["hours"][name] > 0]
    _stack(weeks, account.by_week, shown)
    weeks.set(xlabel="week of submission", ylabel="hours waited", title=account.title)
    ticks = np.unique(np.linspace(0, max(len(account.by_week) - 1, 0), 6).astype(int))
    weeks.set_xticks(ticks, account.by_week["week"].iloc[ticks] if len(account.by_week) else [], rotation=30)
    shares = account.by_class.copy()
    shares[list(CAUSES)] = shares[list(CAUSES)].div(shares["hours"].where(shares["hours"] > 0), axis=0).fillna(0)
    _stack(classes, shares, shown)
    classes.set(ylabel="share of the hours waited", title="by class of job")
    classes.set_xticks(range(len(shares)), shares["class"])
    handles, labels = classes.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    with whole_file(out) as temporary, rc_context({"svg.hashsalt": "procure"}):
        made.savefig(
            temporary,
            format=out.suffix.lstrip(".") or "svg",
            metadata={"Date": None} if out.suffix == ".svg" else None,
        )
    return out


def _stack(axes: Any, table: pd.DataFrame, names: list[str]) -> None:
    bottom = np.zeros(len(table))
    for name in names:
        height = table[name].to_numpy(float)
        axes.bar(range(len(table)), height, bottom=bottom, width=0.9, color=_COLOURS[name], label=SAID[name])
        bottom = bottom + height
