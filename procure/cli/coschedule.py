"""`procure coschedule`: who may share an allocation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli.common import Format, FormatOption, note, print_table, table_file
from procure.coschedule.regret import regret as measure_regret
from procure.coschedule.study import GAP, system, workflows
from procure.tables import write
from procure.text import counted

app = typer.Typer(
    add_completion=False,
    help="Two jobs, one allocation: the study's workload, the learner's bounds, and real processes.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.callback()
def coschedule() -> None:
    """Two jobs, one allocation: the study's workload, the learner's bounds, and real processes."""


@app.command()
def example(
    cores: Annotated[int, typer.Option(help="Cores of the system: 64, 128 or 256.")],
    out: Annotated[
        Path, typer.Option("--out", callback=table_file, help="The job table to write, .parquet or .csv.")
    ],
    nodes: Annotated[
        Path | None,
        typer.Option(callback=table_file, help="Write the node table of the system here."),
    ] = None,
    gap: Annotated[int, typer.Option(help="Seconds between the three submissions.")] = GAP,
    seed: Annotated[int, typer.Option(min=0, help="Of the order within a submission.")] = 0,
) -> None:
    """Write the study's 45 workflows with their published profiles.

    [bold]Examples[/bold]

    \b
    procure coschedule example --cores 64 --out workflows.parquet --nodes nodes.csv
    procure compare --jobs workflows.parquet --nodes nodes.csv --no-kill-at-limit \\
        --policies easy:exclusive=true,coschedule:share=0.5,coschedule
    """
    jobs = workflows(cores, gap=gap, seed=seed)
    table = system(cores)
    write(jobs, out)
    note(f"wrote {out}: {counted(len(jobs), 'job')}")
    if nodes is not None:
        write(table, nodes)
        note(f"wrote {nodes}: {counted(len(table), 'core set')}")


@app.command()
def regret(
    seeds: Annotated[int, typer.Option(min=2, help="Runs of each learner.")] = 30,
    largest: Annotated[int, typer.Option(min=100, help="The most cases; 100, 1,000 … up to it.")] = 10_000,
    output: FormatOption = Format.TABLE,
) -> None:
    """Set the learner's excess risk against its bound; `paper` is the published rule, which breaks it.

    [bold]Examples[/bold]

    \b
    procure coschedule regret
    procure coschedule regret --seeds 10 --largest 1000 --format json
    """
    sizes = [10**k for k in range(2, 10) if 10**k <= largest]
    print_table(measure_regret(sizes=sizes, seeds=seeds), output, f"excess risk over {seeds} runs")
