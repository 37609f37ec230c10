"""How a raw log becomes a job table: the options of `procure workload import`, which other commands take, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common
from procure.settings import LARGEST
from procure.workload import Imported, LogSettings, read_log
from procure.workload.presets import Clock, ColumnMap, load_preset, parse_column

_CLOCK_HELP = "csv, swf: times are Unix seconds, the log's own seconds, local dates."
_NODES_HELP = (
    "csv, sacct: CPUs of every node, for a log that counts nodes only. swf: p processors become ⌈p/N⌉ nodes with "
    "even shares; default 1."
)
_UNIT = typer.Option(metavar="UNIT[:PER]", help="swf: unit of requested memory; by default kB:cpu.")
_CLUSTER = typer.Option(metavar="NAME", help="sacct: keep this cluster's jobs, of a file of several.")
_FIELDS = typer.Option(metavar="NAME,…", help="csv, sacct: the columns of a file without a header.")
_SKIP_HELP = "Drop and count unreadable rows instead of failing."
LOG = {
    "format": common.LogFormatOption,
    "preset": common.PresetOption,
    "log_tz": Annotated[str | None, common.zone_option("Zone of dates without an offset, e.g. America/Chicago.")],
    "clock": Annotated[Clock | None, typer.Option(help=_CLOCK_HELP)],
    "cpus_per_node": Annotated[int | None, typer.Option(min=1, max=LARGEST, help=_NODES_HELP)],
    "mem_unit": Annotated[str | None, _UNIT],
    "cluster": Annotated[str | None, _CLUSTER],
    "fields": Annotated[
        str | None, typer.Option(metavar="NAME,…", help="csv, sacct: columns of a file without header.")
    ],
    "strict": Annotated[bool, typer.Option("--strict", help="Fail if any row would be dropped.")],
    "skip_bad_rows": Annotated[bool, typer.Option("--skip-bad-rows", help=_SKIP_HELP)],
}
"""Options by field of `LogSettings`; ``columns`` comes from `columns_of`."""
COLUMN_HELP = (
    "csv: where a field of the job table comes from. Units of memory: B kB KiB MB MiB GB GiB TB TiB; of time: s ms "
    "min h d. PER: node, job or cpu. wait=COLUMN is the wait before the start. May be repeated."
)


def columns_of(texts: Sequence[str]) -> dict[str, ColumnMap] | None:
    """Read the mappings of ``--column``; None where there is none."""
    with common.bad_option("--column"):
        return dict(parse_column(text) for text in texts) or None


def import_log(log: Path, how: LogSettings, keep_unfinished: bool = False) -> Imported:
    """Read a raw log; what its format is, its first lines tell where no option does."""
    with common.bad_option("--preset"):
        how.preset is None or load_preset(how.preset)
    return read_log(log, how, keep_unfinished=keep_unfinished)
