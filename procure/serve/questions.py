"""Read a question, and write its answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from procure.queue_time.predict import Request
from procure.serve.engine import Answer
from procure.settings import LARGEST
from procure.text import nearest, printable, roughly
from procure.workload.slurm_text import slurm_limit, slurm_memory_limit

if TYPE_CHECKING:
    from procure.serve.live import Live

FIELDS = ("cpus", "mem", "time", "partition", "gpus", "nodes")
LONGEST = 100


def of_query(given: Sequence[tuple[str, str]], user: str) -> Request:
    """Read a question from an address's parameters.

    Raises
    ------
    starlette.exceptions.HTTPException
        400, with a sentence: an unknown or repeated parameter, or a value that is none.
    """
    values: dict[str, str] = {}
    for name, value in given:
        if name not in FIELDS:
            raise HTTPException(400, f"unknown parameter {_short(name)}; {nearest(name[:LONGEST], FIELDS)}")
        if name in values:
            raise HTTPException(400, f"{name} was given twice")
        if value.strip():
            values[name] = value.strip()
    return of_values(values, user)


def of_body(body: bytes, user: str, most: int) -> list[Request]:
    """Read questions from a JSON body: ``{"requests": [{"cpus": 16, "time": "8:00:00"}, …]}``, or one of them."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON") from None
    asked = given.get("requests", given) if isinstance(given, dict) else given
    asked = asked if isinstance(asked, list) else [asked]
    if not 1 <= len(asked) <= most:
        raise HTTPException(400, f"{len(asked):,} requests were given; 1 to {most} are taken")
    found = []
    for one in asked:
        if not isinstance(one, dict) or not all(isinstance(value, str | int) for value in one.values()):
            raise HTTPException(400, "a request is an object with text and whole numbers, such as cpus and time")
        found.append(of_query([(str(name), _text(value)) for name, value in one.items()], user))
    return found


def _text(value: str | int) -> str:
    return value if isinstance(value, str) else str(value) if abs(value) <= LARGEST else str(LARGEST + 1)


def of_values(values: dict[str, str], user: str) -> Request:
    """Read a question from texts by name."""
    for name in ("cpus", "time"):
        if name not in values:
            raise HTTPException(400, f"{name} is missing; ask as in ?cpus=16&mem=64G&time=8:00:00")
    for name, value in values.items():
        if len(value) > LONGEST:
            raise HTTPException(400, f"{name} is longer than {LONGEST} characters")
    try:
        limit = slurm_limit(values["time"])
        memory = slurm_memory_limit(values.get("mem", "0"))
    except (ValueError, OverflowError) as error:
        raise HTTPException(400, printable(str(error))) from None
    cpus, nodes = _whole(values, "cpus", 1), _whole(values, "nodes", 1, 1)
    if nodes > cpus:
        raise HTTPException(400, f"{nodes:,} nodes were asked for, but {cpus:,} CPUs in all")
    gpus = _whole(values, "gpus", 0, 0)
    return Request(cpus, limit, memory, gpus, nodes, values.get("partition", ""), user)


def _whole(values: dict[str, str], name: str, least: int, otherwise: int = 0) -> int:
    text = values.get(name, str(otherwise))
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and least <= int(text) <= LARGEST):
        raise HTTPException(400, f"{name}={_short(text)} is not a whole number from {least} to {LARGEST:,}")
    return int(text)


def _short(text: str) -> str:
    return repr(printable(text[:40]))


def told(answer: Answer, live: Live) -> dict[str, Any]:
    """Return an answer as the interface gives it."""
    if answer.error:
        return {"error": printable(answer.error)}
    stale = live.staleness()
    return {
        "median_s": answer.median,
        "interval_s": list(answer.interval_90),
        "interval_50_s": list(answer.interval_50),
        "chance": answer.chance,
        "because": answer.because,
        "caution": [*answer.caution, *([stale] if stale else [])],
        "partition": answer.partition,
        "model": live.model_facts(),
        "state_age_s": live.state_age(),
    }


def advice(answer: Answer, stale: str | None) -> str:
    """Say an answer in a line, and that the queue was seen long ago where that is so."""
    low, high = (roughly(one) for one in answer.interval_90)
    if answer.median < 2.5:
        when = "is likely to start at once"
    else:
        when = f"is expected to start in about {roughly(answer.median)}"
    between = "" if high == "at once" else f" (9 in 10: {'within' if low == 'at once' else f'{low} to'} {high})"
    return printable(f"procure: this job {when}{between}. {answer.because}{f' {stale}' if stale else ''}") + "\n"


def written(said: dict[str, Any]) -> str:
    """Write an answer of `told` for people."""
    low, high = said["interval_s"]
    start = "at once" if said["median_s"] < 2.5 else f"in about {roughly(said['median_s'])}"
    chance = ", ".join(f"{name[:-1]} h {share:.0%}" for name, share in said["chance"].items())
    lines = [
        f"starts {start} (as likely sooner as later)",
        f"  9 in 10: {roughly(low)} to {roughly(high)}",
        f"  chance of a start within {chance}",
        said["because"],
    ]
    return _lines([*lines, *(f"Careful: {one}" for one in said["caution"])])


def written_jobs(said: dict[str, Any]) -> str:
    """Write what is said of a caller's waiting jobs for people."""
    careful = [f"Careful: {one}" for one in said["caution"]]
    if not said["jobs"]:
        return _lines(["none of your jobs waits", *careful])
    lines = [f"{'job':<16} {'CPUs':>6}  {'partition':<12} {'may start in':<14} 9 in 10"]
    for job in said["jobs"]:
        low, high = job["interval_s"]
        between = "–" if low is None or low != low else f"{roughly(low)} to {roughly(high)}"
        lines.append(
            f"{job['job_id']:<16} {job['cpus']:>6}  {job['partition']:<12} {roughly(job['median_s']):<14} {between}"
        )
    if said["n"] > len(said["jobs"]):
        lines.append(f"{len(said['jobs'])} of {said['n']} shown, those that wait longest")
    return _lines(lines + careful)


def _lines(lines: list[str]) -> str:
    return "".join(f"{printable(line)}\n" for line in lines)
