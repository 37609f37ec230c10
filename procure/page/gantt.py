"""Gantt charts of a schedule: as text for a few jobs, as a figure for more."""

from __future__ import annotations

from heapq import heappop, heappush
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.files import whole_file
from procure.page.vega import column, image
from procure.text import printable

_LETTERS = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MOST_CHARACTERS, _MOST_BARS = 20_000_000, 50_000
"""Of a chart as text; of a figure, a bar per job and node."""


def bars(schedule: pd.DataFrame) -> pd.DataFrame:
    """Return a row per job and node that ran: ``job`` (row) ``node_id start end lane``; times are s after the first.

    Jobs that share a node at a time stand in lanes of it, numbered from 0: each in the first that is free. A table in
    which no job has a start, an end and nodes is no schedule, and an error.
    """
    columns = ["start_time", "end_time", "node_ids"]
    if not set(columns) <= set(schedule.columns):
        raise TableError("not a schedule: start_time, end_time and node_ids are needed (see `procure simulate`)")
    numbered = schedule[columns].reset_index(drop=True)
    ran = numbered.loc[numbered["start_time"].notna() & (numbered["node_ids"].astype(str) != "")]
    if ran.empty:
        raise TableError("no job of this schedule ran")
    exploded = ran.assign(node_id=ran["node_ids"].str.split(",")).explode("node_id")
    first = int(schedule["submit_time"].min())
    chart = pd.DataFrame(
        {
            "job": exploded.index.to_numpy(),
            "node_id": exploded["node_id"].to_numpy(),
            "start": exploded["start_time"].to_numpy(np.int64) - first,
            "end": exploded["end_time"].to_numpy(np.int64) - first,
        }
    )
    return chart.assign(lane=_lanes(chart))


def _lanes(chart: pd.DataFrame) -> np.ndarray:
    """Return the lane of each bar, int64: by start, then by row, the first lane of the node that is free by then."""
    lanes = np.zeros(len(chart), np.int64)
    nodes, starts, ends = (chart[name].tolist() for name in ("node_id", "start", "end"))
    busy: dict[str, list[tuple[int, int]]] = {node: [] for node in nodes}  # heaps of (end, lane)
    free: dict[str, list[int]] = {node: [] for node in nodes}  # heaps of lanes
    for bar in np.argsort(starts, kind="stable").tolist():
        runs, idle = busy[nodes[bar]], free[nodes[bar]]
        while runs and runs[0][0] <= starts[bar]:
            heappush(idle, heappop(runs)[1])
        lanes[bar] = lane = heappop(idle) if idle else len(runs)
        heappush(runs, (ends[bar], lane))
    return lanes


def fitting_step(schedule: pd.DataFrame, width: int) -> int:
    """Return the seconds per character with which a line of the text chart has at most ``width`` characters."""
    chart = bars(schedule)
    margin = max(len(printable(str(node))) for node in chart["node_id"].unique())
    return max(1, -(-int(chart["end"].max()) // max(width - margin - len(" ||"), 1)))


def gantt_text(schedule: pd.DataFrame, nodes: list[str] | None = None, step: int = 1) -> str:
    """Draw a schedule as text: lines of nodes, a character per ``step`` seconds, a dot where nothing runs.

    The first job of the table is ``1``, the tenth ``A``. A node has as many lines as jobs share it at most, the
    first with its name.
    """
    chart = bars(schedule)
    nodes = nodes or sorted(chart["node_id"].unique())
    width = -(-int(chart["end"].max()) // step)
    n_lanes = chart.groupby("node_id")["lane"].max().add(1).reindex(nodes, fill_value=1)
    if width * int(n_lanes.sum()) > _MOST_CHARACTERS:
        raise ArgumentError(
            "step",
            f"{step} s per character make {int(n_lanes.sum()):,} lines of {width:,} characters; at most "
            f"{_MOST_CHARACTERS:,} in all are drawn",
        )
    rows = {(node, lane): np.full(width, ".", dtype="U1") for node in nodes for lane in range(n_lanes[node])}
    for job, node, start, end, lane in chart.itertuples(index=False):
        rows[node, lane][start // step : -(-end // step)] = _LETTERS[job % len(_LETTERS)]
    names = {node: printable(node) for node in nodes}
    margin = max(map(len, names.values()))
    lines = [f"{'' if lane else names[node]:<{margin}} |{''.join(cells)}|" for (node, lane), cells in rows.items()]
    return "\n".join(lines) + "\n"


def gantt_figure(schedule: pd.DataFrame, out: str | Path) -> Path:
    """Draw a schedule as a figure, whole or not at all; the kind (SVG, PNG, PDF) follows from the file's name."""
    chart = bars(schedule)
    if len(chart) > _MOST_BARS:
        raise TableError(
            f"the schedule has {len(chart):,} bars, one per job and node; a figure of at most {_MOST_BARS:,} is drawn "
            "(`procure workload slice` takes some days of it)"
        )
    out = Path(out)
    if out.suffix not in ("", ".svg", ".png", ".pdf"):
        raise TableError(f"{out.name}: a chart is written as .svg, .png, .pdf or .txt")
    names = [printable(str(name)) for name in sorted(chart["node_id"].unique())]
    n_lanes = int(chart["lane"].max()) + 1
    rows = chart.assign(
        name=schedule["job_id"].iloc[chart["job"]].astype(str).map(printable).to_numpy(),
        node_id=chart["node_id"].astype(str).map(printable),
        colour=chart["job"] % 20,
        middle=(chart["start"] + chart["end"]) / 2,
    )
    y = {"field": "node_id", "type": "nominal", "sort": names, "title": "node", "axis": {"labels": len(names) <= 60}}
    colour = {"field": "colour", "type": "nominal", "legend": None, "scale": {"scheme": "tableau20"}}
    text = {"mark": {"type": "text", "fontSize": 8}, "encoding": {"x": column("middle"), "text": {"field": "name"}}}
    spec = {
        "width": 900,
        "height": min(60 + 18 * len(names) * min(n_lanes, 4), 2900),
        "data": {"values": rows.drop(columns="job").to_dict(orient="records")},
        "encoding": {"y": y, "yOffset": {"field": "lane", "type": "ordinal"}},
        "layer": [
            {"mark": "bar", "encoding": {
                "x": column("start", title="seconds after the first submission"), "x2": {"field": "end"},
                "color": colour}},
            *([text] if len(chart) <= 100 else []),
        ],
    }  # fmt: skip
    with whole_file(out) as temporary:
        temporary.write_bytes(image(spec, out.suffix.lstrip(".") or "svg"))
    return out
