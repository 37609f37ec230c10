"""The page: rendered here, so that it reads without a script."""

from __future__ import annotations

import time as clock
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from procure.text import counted, duration, printable, roughly

if TYPE_CHECKING:
    from procure.serve.live import Live

HERE = Path(__file__).parent


def render(live: Live, user: str, mine: dict[str, Any], honesty: dict[str, Any], **asked: Any) -> str:
    """Write the page.

    Parameters
    ----------
    live
        What is known.
    user
        Who reads it; "" if nobody knows.
    mine, honesty
        Of `Live.pending`, empty if nobody knows, and of `Live.honesty`.
    asked
        ``given, answer, wrong``: the question in the page's address, its answer, and what was wrong with it.
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
        honesty=honesty,
        totals=live.totals,
        any_closed=any(one["nodes_closed"] for one in live.totals),
        notices=live.snapshot.notices if live.snapshot else [],
        hours=[one | {"share": one["cpus"] / whole} for one in live.hours],
        partitions=sorted(partitions - {"", "ALL", *live.hide}),
        facts=live.model_facts(),
    )


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
