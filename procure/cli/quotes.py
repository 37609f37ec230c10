"""`procure quotes`: look at the vendors' offers, and at the nodes that you own already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, lazy
from procure.packages.quotes import price_notes, read_quotes, summarise_quotes
from procure.study.existing import read_existing, summarise_nodes
from procure.tables import write
from procure.text import counted
from procure.workload.speed import exact_speed, logged_processor_speed
from procure.workload.speed_ratios import rate_warnings, ratio_text, speed_ratios

app = lazy.command_group()


@app.command("check")
def check_(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="A quote file, .csv or .parquet; - for stdin.")
    ],
    logged_speed: Annotated[
        list[float] | None,
        typer.Option(
            metavar="SPEED",
            help="Speed of one core of the logged system, in the unit of spec_rate. Repeatable.",
        ),
    ] = None,
    logged_processor: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Its processor instead, e.g. 'AMD EPYC 7542'. Repeatable."),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Check every row of a quote file and print its categories.

    Required columns: name, category, cpus, mem_gb (1 GB = 1,000 MB), gpus, price_usd (US$ of one
    node; text such as $6,960 is accepted). An error names the row and the column. Ranges are of one
    node. With a logged speed, run times are multiplied by logged speed / spec_rate: speed_ratio.

    Examples:
    procure quotes check quotes/example-2023.csv
    procure quotes check quotes/example-2023.csv --format json
    procure quotes check quotes/example-2023.csv --logged-processor 'AMD EPYC 7542'
    """
    table = read_quotes(path)
    with common.bad_option("--logged-speed"):
        speeds = [float(exact_speed(speed) or 0) for speed in logged_speed or []]
    with common.bad_option("--logged-processor"):
        speeds += [logged_processor_speed(name, table)[0] for name in logged_processor or []]
    ratios = speed_ratios(table, speeds) if speeds else None
    summary = summarise_quotes(table, ratios)
    if ratios is not None and output is common.Format.JSON:
        by_category = ratios.groupby(table["category"], sort=False)
        summary["types"] = [part.to_dict(orient="records") for _, part in by_category]
    for text in price_notes(table):
        common.note(text)
    for text in rate_warnings(table, speeds):
        common.note(f"careful: {text}")
    if output is not common.Format.TABLE:
        common.print_table(summary, output)
        return
    people = summary[["category", "n_types"]].copy()
    for name in summary.columns[2::2].str.removesuffix("_min"):
        low, high = summary[f"{name}_min"], summary[f"{name}_max"]
        people[name] = [
            _range(a, b, 4 if name == "speed_ratio" else 12) for a, b in zip(low, high, strict=True)
        ]
    common.print_table(
        people,
        output,
        f"{path}: {counted(len(table), 'type')} in {counted(len(summary), 'category', 'categories')}",
    )
    if ratios is not None:
        common.note(f"run times are multiplied by {ratio_text(ratios)}")


def _range(low: float, high: float, digits: int) -> str:
    return f"{low:,.{digits}g}" if low == high else f"{low:,.{digits}g}–{high:,.{digits}g}"


@app.command("nodes")
def nodes(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A node table, or what `scontrol show node -o` prints."),
    ],
    retire: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Nodes to retire: node01, node[10-19], or a kind. Repeatable."),
    ] = None,
    leave_out_down: Annotated[
        bool, typer.Option("--leave-out-down", help="Leave out nodes that are down, drained or failing.")
    ] = False,
    out: Annotated[Path | None, common.table_option("Write the nodes that stay as a node table")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Look at the nodes of an existing system, by kind: what a study adds to every package.

    Memory is in MB per node. Slurm names no server types, so kinds are spelled from the figures. The
    table that --out writes can be given watts (power_w, idle_power_w) and a speed by hand; a study
    names the file, or Slurm's text itself, as existing_nodes in its \\[packages].

    Examples:
    scontrol show node -o > nodes.txt
    procure quotes nodes nodes.txt
    procure quotes nodes nodes.txt --retire 'node[10-19]' --out nodes.csv
    """
    system = read_existing(path, retire or (), "leave-out" if leave_out_down else "keep")
    for text in system.notes:
        common.note(text)
    if out is not None:
        write(system.nodes, out)
        common.note(f"wrote {out}")
    summary = summarise_nodes(system)
    n = len(system.nodes)
    title = f"{path}: {n:,} of {counted(len(system.listed), 'node')} {'stays' if n == 1 else 'stay'}"
    common.print_table(summary, output, title)
