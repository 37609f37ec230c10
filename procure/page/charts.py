"""Pictures by Vega-Lite, drawn once for paper and live where a script may run; Gantt charts as text and figures."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import vl_convert
from markupsafe import Markup, escape

from procure.errors import ArgumentError, TableError
from procure.files import whole_file
from procure.page.html import as_json
from procure.text import plain, printable

BLUE, ORANGE, GREEN, PURPLE, SKY, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#666666"
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, GREY)
WIDTH = 640
"""Pixels of a picture where no screen tells its own."""

_CONFIG = {
    "font": "DejaVu Sans, Helvetica, Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "gridColor": "#e5e5e5"},
    "legend": {"labelFontSize": 11, "titleFontSize": 11, "orient": "top", "direction": "vertical", "title": None,
               "labelLimit": 320, "symbolOpacity": 1},
    "range": {"category": list(PALETTE)},
}  # fmt: skip
_TIMES = (0, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800,
          432_000, 864_000, 1_728_000, 4_320_000, 8_640_000)  # fmt: skip
_DURATION = (
    "datum.value < 60 ? format(datum.value, ',.3~r') + ' s' : datum.value < 3600 ? format(datum.value / 60, '.3~r') + "
    "' min' : datum.value < 86400 ? format(datum.value / 3600, '.3~r') + ' h' : format(datum.value / 86400, ',.3~r') "
    "+ ' d'"
)


def time_axis(title: str, seconds: Iterable[float]) -> dict[str, Any]:
    """Return the scale and axis of durations, s, which are shown from nothing to months: even below 10 s, then log."""
    values = np.asarray([one for one in seconds if one is not None and np.isfinite(one)], np.float64)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    axis: dict[str, Any] = {"labelExpr": _DURATION, "labelOverlap": "greedy", "labelSeparation": 6}
    marks = [one for one in _TIMES if low <= one <= high]
    if len(marks) > 3 or high <= low:
        ends = [low, high if high > low else low + 1]
        scale = {"type": "symlog", "constant": 10, "domain": ends, "nice": False}
        return {"title": title, "scale": scale, "axis": axis | {"values": marks}}
    for step in reversed(_TIMES[1:]):
        marks = [int(one) for one in np.arange(np.ceil(low / step) * step, high, step)]
        if len(marks) > 2:
            break
    return {"title": title, "scale": {"zero": False, "nice": False}, "axis": axis | {"values": marks}}


def column(field: str, **channel: Any) -> dict[str, Any]:
    """Return the encoding of a column of numbers."""
    return {"field": field, "type": "quantitative"} | channel


def records(**columns: Any) -> list[dict[str, Any]]:
    """Return columns of one length, or single values, as rows."""
    alone = {name for name, one in columns.items() if isinstance(one, str) or not hasattr(one, "__len__")}
    lists = {name: one if name in alone else list(one) for name, one in columns.items()}
    return pd.DataFrame(lists).to_dict(orient="records")


def box(rows: list[dict[str, Any]], groups: list[str], axis: dict[str, Any]) -> dict[str, Any]:
    """Return the specification of box plots of ``value`` by ``group``: whiskers 1.5 box lengths, dots beyond."""
    mark = {"type": "boxplot", "size": 12, "color": BLUE, "outliers": {"size": 6}, "median": {"color": "black"}}
    y = {"field": "group", "type": "nominal", "sort": groups, "title": None}
    encoding = {"x": column("value", **axis), "y": y}
    return {"data": {"values": rows}, "height": 24 + 22 * len(groups), "mark": mark, "encoding": encoding}


def drawn(spec: dict[str, Any]) -> dict[str, Any]:
    """Complete a specification with what all pictures share."""
    sized = {"width": "container", "height": 300, "autosize": {"type": "fit-x", "contains": "padding"}}
    return plain({"background": "white", "config": _CONFIG, **sized, **spec})  # type: ignore[return-value]


def still(name: str, label: str, spec: dict[str, Any]) -> Markup:
    """Draw a picture as SVG to stand inside HTML; ``label`` says what it shows, for who cannot see it.

    ``name`` is the prefix of every id in it, so that pictures on one page do not take each other's clips. Text in the
    specification is data: nothing of it is run.
    """
    spec = drawn(spec)
    svg = vl_convert.vegalite_to_svg(spec | {"width": WIDTH} if spec["width"] == "container" else spec)
    # Marks are labelled one by one, which is thousands of labels: the picture has one.
    svg = re.sub(r' (?:aria-[a-z]+|role|xmlns(?::xlink)?)="[^"]*"', "", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(printable(label))}" ', 1)
    prefix = name if re.fullmatch(r"[A-Za-z][\w-]*", name, re.ASCII) else f"figure-{zlib.crc32(name.encode()):08x}"
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    return Markup(svg.replace("url(#", f"url(#{prefix}-"))


def picture(name: str, label: str, spec: dict[str, Any], live: Sequence[str] = ()) -> Markup:
    """Draw a picture as `still`, in an element ``picture-NAME``, with what a script needs to make it live.

    ``live`` data sets are filled by the page's script from its own data: they are drawn, and not written twice.
    """
    kept = {**drawn(spec), "datasets": {k: v for k, v in spec.get("datasets", {}).items() if k not in live}}
    return Markup('<div id="picture-{}" class="picture">{}</div><script type="application/json">{}</script>').format(
        name, still(name, label, spec), as_json(kept | {"label": label})
    )


def image(spec: dict[str, Any], kind: str) -> bytes:
    """Return a picture as the bytes of an ``svg``, ``png`` or ``pdf`` file."""
    if kind == "svg":
        return vl_convert.vegalite_to_svg(drawn(spec)).encode()
    return vl_convert.vegalite_to_png(drawn(spec)) if kind == "png" else vl_convert.vegalite_to_pdf(drawn(spec))


@cache
def library() -> str:
    """Return Vega, Vega-Lite and their embedding as one script that asks for nothing."""
    return vl_convert.javascript_bundle()  # type: ignore[call-arg]


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
    chart = pd.DataFrame({"job": exploded.index.to_numpy(), "node_id": exploded["node_id"].to_numpy()})
    for name in ("start", "end"):
        chart[name] = exploded[f"{name}_time"].to_numpy(np.int64) - int(schedule["submit_time"].min())
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
        made = f"{step} s per character make {int(n_lanes.sum()):,} lines of {width:,} characters"
        raise ArgumentError("step", f"{made}; at most {_MOST_CHARACTERS:,} in all are drawn")
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
        most = f"a figure of at most {_MOST_BARS:,} is drawn (`procure workload slice` takes some days of it)"
        raise TableError(f"the schedule has {len(chart):,} bars, one per job and node; {most}")
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
