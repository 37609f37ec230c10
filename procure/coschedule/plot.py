"""A run of two commands as a picture."""

from __future__ import annotations

import io

import pandas as pd

from procure.page.svg import BLUE, GREY, ORANGE, figure


def draw(log: pd.DataFrame) -> str:
    """Draw the quota and what each command got over time; returns SVG.

    Parameters
    ----------
    log
        `procure.coschedule.drive.Driven.log`.
    """
    made, axes = figure()
    axes.step(log["seconds"], log["quota"], where="pre", color=GREY, label="quota of the guest")
    axes.plot(log["seconds"], log["donor_share"], color=BLUE, label="donor")
    axes.plot(log["seconds"], log["guest_share"], color=ORANGE, label="guest")
    axes.set_xlabel("seconds since the donor's start")
    axes.set_ylabel("share of the CPUs")
    axes.set_ylim(0, 1.05)
    axes.legend(frameon=False, fontsize=8)
    out = io.StringIO()
    made.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
