"""``procure site why``: to which cause each hour of a log's waits falls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.account.account import account_waits
from procure.cli import common
from procure.site.store import read_site
from procure.tables import NODE, read

SHORT = 4 * 86_400
"""s; a log that is shorter shows no rule that goes by days."""


def why(
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="Job table with start times, .parquet or .csv.")],
    nodes: Annotated[
        Path | None, typer.Option(help="Node table: node_id,kind,cpus,mem_mb,gpus; the site's without.")
    ] = None,
    site: Annotated[Path | None, typer.Option(help="A site folder: its nodes, partitions and rules.")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Account for every hour that jobs waited: want of nodes, limits, fragmentation, reservations, the unexplained.

    Each second of each wait falls to the first cause that applies. Lower counts the hours for which no other cause
    would do, upper those for which this one would, whatever comes first.

    Examples:
    procure site why jobs.parquet --nodes nodes.csv
    procure site why jobs.parquet --site site/ --format json
    """
    table = common.read_job_table(jobs)
    folder = None if site is None else read_site(site)
    if nodes is not None:
        system = read(nodes, NODE)
    else:
        system = None if folder is None else folder.nodes
    if len(table) and table["submit_time"].max() - table["submit_time"].min() < SHORT:
        common.note(f"careful: {jobs.name} is shorter than four days: limits and outages may go unseen")
    found = account_waits(table, system, None if folder is None else folder.rules)
    common.show(found, output)
    if output is common.Format.TABLE:
        common.echo(found.sentence)
