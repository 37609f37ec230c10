"""How a raw log becomes a job table: what commands that read one take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common
from procure.files import memory
from procure.workload import Imported, LogSettings, read_log
from procure.workload.presets import ColumnMap, load_preset, parse_column

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="How a log is read: clock (csv, swf: times are Unix seconds, "
        "the log's own seconds, local dates), cpus_per_node (of a log that counts nodes only; swf: processors to a "
        "node), mem_unit=UNIT:PER (swf; by default kB:cpu), cluster (sacct: of a file of several), fields (csv, "
        "sacct: the names of the columns of a file without a header), strict=true (fail "
        "if a row would be dropped), skip_bad_rows=true (count unreadable rows). Repeatable.",
    ),
]
COLUMN_HELP = (
    "csv: where a field of the job table comes from. Units of memory: B kB KiB MB MiB GB GiB TB TiB; of time: us "
    "ms s min h d; of CPUs, GPUs: milli. PER: node, job or cpu. wait=COLUMN is the wait before the start. Repeatable."
)


def columns_of(texts: Sequence[str]) -> dict[str, ColumnMap] | None:
    """Read the mappings of ``--column``; None where there is none."""
    with common.bad_option("--column"):
        return dict(parse_column(text) for text in texts) or None


def import_log(log: Path, how: LogSettings, keep_unfinished: bool = False) -> Imported:
    """Read a raw log; what its format is, its first lines tell where no option does."""
    with common.bad_option("--preset"):
        how.preset is None or load_preset(how.preset)
    common.note_memory(log, memory.OF_LOGGED)
    return read_log(log, how, keep_unfinished=keep_unfinished, shape="tasks")
