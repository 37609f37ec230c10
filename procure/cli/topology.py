"""`procure topology`: where in the network: trees in, allocations checked, worth of isolation."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from procure.cli import common, lazy
from procure.comparison.isolation import SHARES, weigh_isolation
from procure.errors import TableError
from procure.site.network import attach as attach_network
from procure.site.network import is_slurm_topology, read_slurm_topology
from procure.tables import NODE, existing_file, read
from procure.tables import check as check_table
from procure.text import counted
from procure.topology.fat_tree import leaf_table, make_nodes
from procure.topology.verify import verify
from procure.workload.read_csv import read_schedule

app = lazy.command_group()

ScheduleArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SCHEDULE",
        help="What `procure simulate --out` or `sacct -X --parsable2` writes, or any table with "
        "job_id,start_time,end_time,node_ids (host lists such as n[5-8] too).",
    ),
]
NodesOption = Annotated[Path, typer.Option(help="Node table with leaf and pod.")]


@app.command()
def make(
    table: Path | None = typer.Argument(
        None, metavar="[NODES]", help="A node table, to which the network's columns are added."
    ),
    source: Path | None = typer.Option(
        None, "--from", help="topology.conf, topology.yaml, or what `scontrol show topology` prints."
    ),
    tree: str | None = typer.Option(
        None, metavar="PxLxN", help="Instead, equal nodes: P pods of L leaf switches with N nodes each."
    ),
    out: Annotated[Path | None, common.table_option("The node table to write")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Make a node table with the columns leaf and pod, from Slurm's tree or blocks or of equal nodes; show its tree.

    Without a node table, Slurm's is of the network's nodes, of one CPU each.

    Examples:
    procure topology make nodes.csv --from /etc/slurm/topology.conf --out placed.csv
    procure topology make placed.csv --format json
    procure topology make --tree 4x18x18 --out nodes.csv
    """
    if (source is None) == (tree is None) and table is None:
        raise typer.BadParameter("give a node table, --from or --tree", param_hint="--from")
    if tree is not None:
        found = shown = _equal(tree)
    else:
        found, shown = _placed(table, source)
    common.write_to(out, found, counted(len(found), "node"))
    _show(str(out or table or source or tree), shown, output)


def _equal(text: str) -> pd.DataFrame:
    """Return the node table of a tree with equal nodes, of one CPU each."""
    if not re.fullmatch(r"\d{1,9}x\d{1,9}x\d{1,9}", text):
        raise typer.BadParameter(f"{text!r} is not PODSxLEAVESxNODES, such as 4x18x18", param_hint="--tree")
    with common.named(pods="--tree", leaves="--tree", nodes="--tree"):
        return make_nodes(*map(int, text.split("x")), cpus=1, mem_mb=1000)


def _placed(nodes: Path | None, source: Path | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a node table with the columns of a network, or as it is; and what has the names of its switches."""
    table = None if nodes is None else read(nodes, NODE)
    if source is None:
        assert table is not None
        return table, table
    if not is_slurm_topology(source):
        raise TableError(f"{existing_file(source)}: holds no line that begins with SwitchName=, no topology in YAML")
    network = read_slurm_topology(source)
    if table is None:
        table = check_table(network.nodes[["node_id"]].assign(cpus=1, mem_mb=1000), NODE)
        return attach_network(table, network), network.nodes
    table = attach_network(table, network)
    return table, table


def _show(name: str, table: pd.DataFrame, output: common.Format) -> None:
    """Show pods, leaf switches, and the nodes on each."""
    rows = leaf_table(table)
    if output is common.Format.JSON:
        sizes = {"n_pods": rows["pod"].nunique(), "n_leaves": len(rows), "n_nodes": len(table)}
        common.print_json(sizes | {"leaves": rows.to_dict(orient="records")})
        return
    common.print_table(rows, output, f"{name}: {counted(len(table), 'node')} on {counted(len(rows), 'leaf', 'leaves')}")


@app.command()
def check(
    schedule: ScheduleArgument,
    nodes: NodesOption,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Check whether two jobs ever hold one link between switches, on anyone's schedule; exit code 1 if so.

    A job whose column links is empty may use every link between its leaves, and between its pods. Two jobs on one node
    share its link to the leaf, which counts as well.

    Examples:
    procure topology check schedule.parquet --nodes nodes.csv --format json
    sacct -aXP -S now-30days -o JobID,Start,End,NodeList > month.psv; procure topology check month.psv --nodes tree.csv
    """
    verdict = verify(read_schedule(schedule), read(nodes, NODE))
    record = asdict(verdict)
    first = record.pop("first_conflicts")[:10]
    if output is common.Format.TABLE:
        common.print_record(record, output, f"{schedule}")
        for conflict in first:
            common.echo(f"  at {conflict['time']}: {conflict['where']}: {', '.join(conflict['jobs'])}")
    else:
        common.print_record(record | {"first_conflicts": first}, output)
    if not verdict.isolated:
        raise typer.Exit(1)


@app.command()
def worth(
    jobs: Annotated[Path, typer.Option(help="Job table, Parquet or CSV.")],
    nodes: NodesOption,
    saved: str = typer.Option(
        ",".join(SHARES), help="By how much isolated jobs run shorter: shares such as 10%, or v1, v2 (SC18)."
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Find from which share of run time on isolation pays on this system.

    Isolated jobs of 5 nodes or more run shorter, but nodes stay empty. Below the table stands the decision: isolate
    if sharing links costs jobs more than this.

    Examples:
    procure topology worth --jobs jobs.parquet --nodes tree.csv
    procure topology worth --jobs jobs.parquet --nodes tree.csv --saved 0%,2%,4%,v1 --format json
    """
    table = common.read_job_table(jobs)
    how: dict[str, Any] = {"scenarios": [name.strip() for name in saved.split(",")], "progress": common.note}
    with common.named(scenario="--saved"):
        found = weigh_isolation(table, read(nodes, NODE), ["isolated", "tiers"], **how)
    document = {"break_even": found.break_even, "rows": found.table.to_dict(orient="records")}

    def people() -> None:
        common.print_table(found.table, output, found.title)
        common.echo(*found.notes)

    common.tell(output, (), lambda: document, found.table, people)
