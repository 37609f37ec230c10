"""The formats of logs, a row each: how one is told, and what reads it.

All but csv and swf become rows of sacct's fields, so that `procure.workload.read_sacct` has the rules for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from procure.workload import read_condor, read_lsf, read_pbs, read_sge, read_slurmdbd
from procure.workload.rows import Rows


class Format(NamedTuple):
    """A format of logs."""

    name: str
    of: str
    recognises: Callable[[list[str]], bool]  # from a log's first lines that hold anything
    rows: Callable[[str], Rows] | None = None  # sacct's fields; None: a reader of its own


def _is_sacct(lines: list[str]) -> bool:
    head = lines[0].lstrip()
    return bool(re.search(r"\bJobID(Raw)?\b", head)) or (head[:1] == "{" and not read_condor.recognises(lines))


def _is_swf(lines: list[str]) -> bool:
    numbers = lines[0].split()
    return lines[0].lstrip().startswith(";") or (len(numbers) >= 18 and all(_is_number(one) for one in numbers[:18]))


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(\.\d*)?", text))


def _is_csv(lines: list[str]) -> bool:
    return max(map(lines[0].count, ",;\t|")) > 0


FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format("swf", "the Standard Workload Format", _is_swf),
        Format("pbs", "accounting records of OpenPBS, PBS Professional, Torque", read_pbs.recognises, read_pbs.rows),
        Format("lsf", "LSF's lsb.acct", read_lsf.recognises, read_lsf.rows),
        Format("sge", "Grid Engine's accounting file", read_sge.recognises, read_sge.rows),
        Format("condor", "HTCondor's history, -json or -long", read_condor.recognises, read_condor.rows),
        Format("slurmdbd", "slurmdbd's job table as CSV", read_slurmdbd.recognises, read_slurmdbd.rows),
        Format("sacct", "sacct --parsable2 or --json", _is_sacct),
        Format("csv", "columns that --column or a preset names", _is_csv),
    )
}
"""In the order in which a log is tried."""


def recognised(text: str) -> Format | None:
    """Return the format of a log, from its first characters; None where nothing tells."""
    lines = [line for line in text.split("\n") if line.strip()]
    return next((one for one in FORMATS.values() if lines and one.recognises(lines)), None)
