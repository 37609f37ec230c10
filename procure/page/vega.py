"""Pictures by Vega-Lite: drawn once for paper and pages without script, and live where a script may run."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import vl_convert
from markupsafe import Markup, escape

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
    axis: dict[str, Any] = {"labelExpr": _DURATION, "labelOverlap": True}
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
    return {
        "data": {"values": rows},
        "height": 24 + 22 * len(groups),
        "mark": {"type": "boxplot", "size": 12, "color": BLUE, "outliers": {"size": 6}, "median": {"color": "black"}},
        "encoding": {
            "x": column("value", **axis),
            "y": {"field": "group", "type": "nominal", "sort": groups, "title": None},
        },
    }


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
