"""A tree as a picture: pods, leaf switches, nodes on each, and what is uneven."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib import rc_context

from procure.files import whole_file
from procure.page.svg import BLUE, GREY, RED, figure

MOST_LABELS = 60
"""Leaf switches up to which each carries its number of nodes as text."""


def draw_tree(leaves: pd.DataFrame, out: Path) -> Path:
    """Draw a tree, whole or not at all.

    Parameters
    ----------
    leaves
        A row per leaf switch: ``pod leaf n_nodes``, in the order in which they are to stand.
    out
        The file, ``.svg``.
    """
    leaves = leaves.sort_values(["pod", "leaf"], ignore_index=True)
    pods = leaves.groupby("pod", sort=True)["leaf"].size()
    usual, usual_pod = leaves["n_nodes"].mode().max(), pods.mode().max()
    # One place is left empty between two pods.
    at = leaves.index + leaves["pod"].rank(method="dense").astype(int) - 1
    middle = at.groupby(leaves["pod"]).mean()
    centre = (at.iloc[0] + at.iloc[-1]) / 2
    made, axes = figure(max(7.2, min(0.3 * len(leaves), 30)), 3.2)
    for pod, x in middle.items():
        odd = pods[pod] != usual_pod
        if len(pods) > 1:
            axes.plot([centre, x], [3, 2], color=GREY, linewidth=0.8, zorder=1)
        axes.text(
            x,
            2,
            f"pod {pod}",
            ha="center",
            va="center",
            size=8,
            color=RED if odd else "black",
            bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": RED if odd else GREY},
        )
        for leaf in at[leaves["pod"] == pod]:
            axes.plot([x, leaf], [2, 1], color=GREY, linewidth=0.5, zorder=0)
    if len(pods) > 1:
        spine = {"boxstyle": "round", "facecolor": "white", "edgecolor": GREY}
        axes.text(centre, 3, "spine switches", ha="center", va="center", size=8, bbox=spine)
    height = leaves["n_nodes"] / leaves["n_nodes"].max()
    colours = [BLUE if n == usual else RED for n in leaves["n_nodes"]]
    axes.bar(at, height, width=0.8, color=colours)
    if len(leaves) <= MOST_LABELS:
        for x, top, n in zip(at, height, leaves["n_nodes"], strict=True):
            axes.text(x, top / 2, str(n), ha="center", va="center", size=7, color="white")
    axes.set(ylim=(0, 3.4), xlabel="leaf switches, a bar as high as the nodes on it; red: uneven")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    axes.spines[["left", "bottom"]].set_visible(False)
    with whole_file(out) as temporary, rc_context({"svg.hashsalt": "procure"}):
        made.savefig(temporary, format="svg", metadata={"Date": None, "Creator": None})
    return out
