"""The page: rendered here, so that it reads without a script."""

from __future__ import annotations

import math
import time as clock
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from procure.text import counted, duration, printable, roughly

if TYPE_CHECKING:
    from procure.serve.live import Live

HERE = Path(__file__).parent
_TICKS = {0: "now", 600: "10 min", 3600: "1 h", 14_400: "4 h", 43_200: "12 h", 172_800: "2 d", 604_800: "7 d"}
_TICKS |= {2_592_000: "30 d", 31_536_000: "1 year"}
WIDTH, LEFT = 640, 150
"""Of the drawings, in units of their own; a narrow screen scrolls them."""


def render(live: Live, user: str, mine: dict[str, Any], honesty: dict[str, Any], **asked: Any) -> str:
    """Write the page for a user, "" if nobody knows who reads it.

    ``mine`` is of `Live.pending`, empty for nobody, and ``honesty`` of `Live.honesty`. What is ``asked`` are ``given,
    answer, wrong``: the question in the page's address, its answer, and what was wrong with it.
    """
    jobs, readiness = mine.get("jobs", []), live.readiness()
    whole = max([sum(live.cpus.values()), *(one["cpus"] for one in live.hours)]) or 1
    partitions = {str(one) for one in (live.site.about["partitions"] if live.site else [])}
    return _template().render(
        **asked,
        **{name: readiness[name] for name in ("problems", "ready")},
        name=live.place.service.name,
        user=user,
        jobs=jobs,
        n_jobs=mine.get("n", 0),
        chart=timeline(jobs),
        honesty=honesty,
        totals=live.totals,
        any_closed=any(one["nodes_closed"] for one in live.totals),
        notices=live.snapshot.notices if live.snapshot else [],
        hours=[one | {"share": one["cpus"] / whole} for one in live.hours],
        most=max([one["waiting_cpus"] + one["running_cpus"] for one in live.totals], default=1) or 1,
        partitions=sorted(partitions - {"", "ALL", *live.hide}),
        facts=live.model_facts(),
        width=WIDTH,
        left=LEFT,
    )


def timeline(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return where on a time line each job's intervals and median lie, in units of the drawing."""
    longest, left = max([job["interval_s"][1] for job in jobs], default=0), LEFT
    left = max([left, *(9 * len(str(job["job_id"])) for job in jobs)])  # an id is never cut
    end = next((seconds for seconds in _TICKS if seconds >= max(longest, 3600)), max(_TICKS))

    def at(seconds: float) -> float:
        share = math.log1p(min(seconds, end) / 300) / math.log1p(end / 300)
        return round(left + share * (WIDTH - LEFT - 30), 1)

    bars = []
    for job in jobs:
        outer, inner = ([at(one) for one in job[name]] for name in ("interval_s", "interval_50_s"))
        bars.append({"outer": outer, "inner": inner, "at": at(job["median_s"])})
    return {
        "width": WIDTH - LEFT + left,
        "bars": bars,
        "ticks": [(at(seconds), text) for seconds, text in _TICKS.items() if seconds <= end],
    }


@cache
def _template() -> jinja2.Template:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value, kept="\n\t") if isinstance(value, str) else value,
    )
    made.filters |= {
        "roughly": roughly,
        "counted": counted,
        "wait": duration,
        "limit": lambda seconds: duration(seconds) if seconds else "none",
        "share": lambda value: "–" if value is None else f"{100 * value:.1f} %",
        "figure": lambda value: "–" if value is None else f"{value:.3f}",
        "day": lambda seconds: clock.strftime("%Y-%m-%d", clock.gmtime(seconds)),
        "moment": lambda seconds: clock.strftime("%Y-%m-%d %H:%M UTC", clock.gmtime(seconds)) if seconds else "–",
    }
    return made.get_template("page.html")
