"""Where a schedule's jobs ran in the network, as one HTML file: hops by size, links that two jobs shared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.page.html import render, write_page
from procure.page.svg import BLUE, GREY, figure, inline, literal
from procure.text import counted, duration
from procure.topology.fat_tree import leaf_and_pod
from procure.topology.metrics import hops_by_size, hops_of_jobs
from procure.topology.verify import Verdict, verify

_MOST_CONFLICTS = 20


def write_report(schedule: pd.DataFrame, nodes: pd.DataFrame, path: str | Path, about: str) -> Path:
    """Write the report, whole or not at all; ``about`` says whose schedule it is.

    Raises
    ------
    TableError
        As `procure.topology.metrics.hops_of_jobs` and `procure.topology.verify.verify`; or the file cannot be written.
    """
    hops, verdict = hops_of_jobs(schedule, nodes), verify(schedule, nodes)
    by_size = hops_by_size(hops)
    leaf, pod = leaf_and_pod(nodes)
    conflicts = pd.DataFrame(verdict.first_conflicts[:_MOST_CONFLICTS], columns=["time", "where", "jobs"])
    started = schedule["start_time"].dropna()
    first = int(started.min()) if len(started) else 0
    text = render(
        Path(__file__).with_name("report.html"),
        about=f"{about}: {counted(len(hops), 'job')} that ran on {counted(len(nodes), 'node')}, "
        f"{counted(len(np.unique(leaf)), 'leaf switch', 'leaf switches')}, {counted(len(np.unique(pod)), 'pod')}",
        lines=_answer(hops, verdict),
        by_size=by_size,
        chart=_chart(by_size) if len(by_size) else "",
        verdict=verdict,
        conflicts=conflicts.assign(
            time=[duration(time - first) for time in conflicts["time"]],
            jobs=[", ".join(map(str, jobs)) for jobs in conflicts["jobs"]],
        ),
        most=_MOST_CONFLICTS,
    )
    return write_page(path, text)


def _answer(hops: pd.DataFrame, verdict: Verdict) -> list[tuple[str, str]]:
    """Say how far the nodes of a job are from each other, and whether jobs meet on a link.

    Each sentence with the section that it rests on.
    """
    several = hops[hops["n_nodes"] > 1]
    if several.empty:
        far = "no job ran on several nodes, so none sends messages between switches"
    else:
        far = (
            f"the nodes of a job are {several['aph'].mean():.2f} hops from each other on average; placed ideally in an "
            f"empty tree they would be {several['ideal_aph'].mean():.2f}"
        )
    if verdict.isolated:
        met = "no two jobs ever held a link between switches, or a node, at the same time"
    else:
        met = (
            f"jobs shared {counted(verdict.n_shared_links, 'link')} between switches and "
            f"{counted(verdict.n_shared_nodes, 'node')} at one time or another"
        )
    return [(far, "hops"), (met, "links")]


def _chart(by_size: pd.DataFrame) -> Markup:
    """Draw the mean hops of each size class, and the ideal ones."""
    made, axes = figure(7.2, 2.8)
    place = np.arange(len(by_size))
    axes.bar(place - 0.2, by_size["mean_aph"], 0.4, color=BLUE, label="as placed")
    axes.bar(place + 0.2, by_size["ideal_aph"], 0.4, color=GREY, label="ideal, in an empty tree")
    axes.set_xticks(place, [literal(one) for one in by_size["nodes"]])
    axes.set(xlabel="nodes of a job", ylabel="mean hops between its nodes")
    axes.set(ylim=(0, 4.2), xlim=(-0.6, max(len(place), 4) - 0.4))
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    return inline(made, "hops", "Mean hops between the nodes of a job, by its size")
