"""The page: rendered here, so that it reads without a script."""

from __future__ import annotations

import math
import os
import stat
import time as clock
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import jinja2
from starlette.responses import Response

from procure.text import counted, duration, printable, roughly

if TYPE_CHECKING:
    from procure.serve.live import Live

_HERE = Path(__file__).parent
_TYPES = {"page.js": "text/javascript", "page.css": "text/css"}
_TICKS = {0: "now", 600: "10 min", 3600: "1 h", 14_400: "4 h", 43_200: "12 h", 172_800: "2 d", 604_800: "7 d"}
_TICKS |= {2_592_000: "30 d", 31_536_000: "1 year"}
LARGEST_STUDY, LONGEST_NAME, MOST_STUDIES = 60_000_000, 200, 100
"""Bytes of a report and characters of its name at most, and how many are listed."""
WIDTH, LEFT = 640, 150
"""Of the drawings, in units of their own; a narrow screen scrolls them."""


def file(name: str) -> Response:
    """Return the script or the style."""
    return Response((_HERE / name).read_bytes(), media_type=_TYPES[name])


def render(
    live: Live,
    user: str,
    mine: tuple[list[dict[str, Any]], int],
    honesty: dict[str, Any],
    given: dict[str, str],
    answer: dict[str, Any] | None,
    wrong: str,
) -> str:
    """Write the page.

    Parameters
    ----------
    live
        What is known.
    user
        Who reads it; "" if nobody knows.
    mine
        The reader's waiting jobs, of `Live.pending`, and how many there are.
    honesty
        Of `Live.honesty`.
    given, answer, wrong
        The question in the page's address, its answer, and what was wrong with it.
    """
    jobs, n_jobs = mine
    readiness = live.readiness()
    return _template().render(
        name=live.place.service.name,
        user=user,
        jobs=jobs,
        n_jobs=n_jobs,
        chart=timeline(jobs),
        honesty=honesty,
        problems=readiness["problems"],
        ready=readiness["ready"],
        finished=readiness["finished"],
        totals=live.totals,
        any_closed=any(one["nodes_closed"] for one in live.totals),
        notices=live.snapshot.notices if live.snapshot else [],
        hours=hours(live),
        most=max([one["waiting_cpus"] + one["running_cpus"] for one in live.totals], default=1) or 1,
        cpus=live.cpus,
        given=given,
        answer=answer,
        wrong=wrong,
        partitions=sorted(
            {str(one) for one in (live.site.about["partitions"] if live.site else [])} - {"", "ALL", *live.hide}
        ),
        studies=studies(live.place.studies)[0],
        facts=live.model_facts(),
        width=WIDTH,
        left=LEFT,
    )


def timeline(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return where on a time line each job's interval and median lie, in units of the drawing."""
    longest = max([job["interval_s"][1] or job["median_s"] for job in jobs], default=0)
    end = next((seconds for seconds in _TICKS if seconds >= max(longest, 3600)), max(_TICKS))

    def at(seconds: float) -> float:
        share = math.log1p(min(seconds, end) / 300) / math.log1p(end / 300)
        return round(LEFT + share * (WIDTH - LEFT - 30), 1)

    bars = []
    for job in jobs:
        outer = job["interval_s"] if job["interval_s"][0] is not None else [job["median_s"]] * 2
        inner = job["interval_50_s"] if job["interval_50_s"][0] is not None else outer
        bars.append(
            {"outer": [at(one) for one in outer], "inner": [at(one) for one in inner], "at": at(job["median_s"])}
        )
    return {"bars": bars, "ticks": [(at(seconds), text) for seconds, text in _TICKS.items() if seconds <= end]}


def hours(live: Live) -> list[dict[str, Any]]:
    """Return how full the next hours are at most, by the limits of the jobs that run now."""
    there = sum(live.cpus.values()) if live.place.service.source.kind == "slurm" else 0
    whole = max([there, *(one["cpus"] for one in live.hours)])
    return [one | {"share": one["cpus"] / whole if whole else 0.0} for one in live.hours]


def open_study(folder: Path, name: str) -> BinaryIO | None:
    """Open ``NAME.html`` in a folder, a plain file there and no link; None where there is none."""
    if not name.isprintable() or "/" in name or name[:1] in ("", ".") or len(name) > LONGEST_NAME:
        return None
    try:
        number = os.open(folder / f"{name}.html", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    about = os.fstat(number)
    if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_STUDY:
        os.close(number)
        return None
    return os.fdopen(number, "rb")


def studies(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the reports that are published, and of the files that are none."""
    try:
        names = sorted(path.stem for path in folder.glob("*.html"))
    except OSError:
        return [], []
    shown = [name for name in names[:MOST_STUDIES] if (stream := open_study(folder, name)) and not stream.close()]
    return shown, [name for name in names if name not in shown]


@cache
def _template() -> jinja2.Template:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
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
