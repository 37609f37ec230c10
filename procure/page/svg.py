"""Figures as SVG inside a page: no file beside it, no address in it, no two equal ids."""

from __future__ import annotations

import io
import re
import warnings
import zlib
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from procure.text import duration, printable

# Names in other scripts may have no glyph in the fonts at hand: a box stands for it, which needs no warning.
warnings.filterwarnings("ignore", message="Glyph .* missing from")

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#666666",
)
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""

PALETTE = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY)

_TICKS: dict[float, str] = {
    0: "0",
    1: "1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3600: "1 h",
    36_000: "10 h",
    86_400: "1 d",
    864_000: "10 d",
    8_640_000: "100 d",
}

_BETWEEN: dict[float, str] = {
    30: "30 s",
    120: "2 min",
    300: "5 min",
    1200: "20 min",
    7200: "2 h",
    18_000: "5 h",
    172_800: "2 d",
    432_000: "5 d",
    1_728_000: "20 d",
    4_320_000: "50 d",
}


def figure(width: float = 7.2, height: float = 3.2, columns: int = 1) -> tuple[Any, Any]:
    """Return an empty figure (inches) and its axes, in the report's style."""
    with rc_context({"font.size": 9}):
        made = Figure(figsize=(width, height), dpi=150, layout="constrained")
        axes = made.subplots(1, columns, squeeze=False)[0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(True, color="#dddddd", linewidth=0.6)
        one.set_axisbelow(True)
        one.tick_params(labelsize=8)
    return made, axes[0] if columns == 1 else axes


def differ(values: Any) -> bool:
    """Tell whether known values differ, so that a picture of them shows anything."""
    known = np.asarray(values, dtype="float64")
    known = known[~np.isnan(known)]
    return len(known) > 0 and bool(known.min() < known.max())


def wait_axis(axes: Any, which: str, low: float, high: float) -> None:
    """Give an axis of waits (s) a logarithmic scale, linear below 10 s, with ticks that people read."""
    scale, limits, ticks = (
        (axes.set_xscale, axes.set_xlim, axes.set_xticks)
        if which == "x"
        else (axes.set_yscale, axes.set_ylim, axes.set_yticks)
    )
    scale("symlog", linthresh=10)
    high = max(high * 1.3, 1.0)
    low = 0.0 if low < 10 else low / 1.3
    limits(low, high)
    shown: list[float] = [tick for tick in _TICKS if low <= tick <= high and (tick not in (1,) or high < 100)]
    if len(shown) < 4:
        shown = [tick for tick in sorted(_TICKS | _BETWEEN) if low <= tick <= high and tick != 1]
    if len(shown) < 2:
        shown = sorted({*shown, *(round(x) for x in (low, high))})
    ticks(shown, [(_TICKS | _BETWEEN).get(tick) or duration(tick) for tick in shown])
    (axes.xaxis if which == "x" else axes.yaxis).set_minor_locator(NullLocator())


def time_axis(axes: Any, which: str) -> None:
    """Write the ticks of a linear axis of seconds in the largest unit of which it holds two: ``2 h``, ``4 h``."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    size, unit = next(
        (one for one in ((86_400, "d"), (3600, "h"), (60, "min")) if max(-low, high) >= 2 * one[0]), (1, "s")
    )
    ticks = MaxNLocator(6).tick_values(low / size, high / size)
    ticks = [tick for tick in ticks if low <= tick * size <= high]
    axis.set_ticks([tick * size for tick in ticks], [f"{tick:g} {unit}" for tick in ticks])


def literal(text: object) -> str:
    """Return text that a figure shows as it is: no formula between two dollar signs, no characters that control."""
    return printable(str(text)).replace("$", r"\$")


def inline(made: Any, name: str, label: str) -> Markup:
    """Return a figure as SVG to stand inside HTML.

    Parameters
    ----------
    made
        A matplotlib figure.
    name
        Prefix of every id, so that figures on one page do not take each other's clips and glyphs. Any text; what
        no id can hold is replaced.
    label
        What a screen reader says.
    """
    if not re.fullmatch(r"[A-Za-z][\w-]*", name, re.ASCII):
        name = f"figure-{zlib.crc32(name.encode()):08x}"
    out, layout = io.StringIO(), made.get_layout_engine()
    if layout is not None:  # here, and by the canvas itself: `savefig` would draw and place everything twice
        layout.execute(made)
        made.set_layout_engine("none")
    for part in (made, *made.axes):
        part.patch.set(facecolor="none", edgecolor="none")
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        FigureCanvasSVG(made).print_svg(out, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", text, flags=re.DOTALL)  # as in base.html
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    head = f'<svg role="img" aria-label="{escape(label)}" '
    text = re.sub(r'<svg\b[^>]*?(viewBox="[^"]*")[^>]*>', lambda found: f"{head}{found[1]}>", text, count=1)
    return Markup(text.strip())
