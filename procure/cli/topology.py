"""`procure topology`: where in the network: trees in, allocations checked, hops counted."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, lazy
from procure.comparison.isolation import SHARES, weigh_isolation
from procure.errors import ArgumentError, TableError
from procure.page.tree_picture import draw_tree
from procure.settings import LARGEST, LAST_SEED
from procure.site.network import attach as attach_network
from procure.site.network import is_slurm_topology, read_slurm_topology
from procure.tables import NODE, existing_file, read, write
from procure.tables import check as check_table
from procure.text import counted
from procure.topology.fat_tree import MOST_LINKS, leaf_and_pod, leaf_table, make_nodes, uneven
from procure.topology.metrics import hops_by_size, hops_of_jobs
from procure.topology.verify import verify
from procure.workload.read_schedule import read_schedule

app = lazy.command_group()

ScheduleArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SCHEDULE",
        help="What `procure simulate --out` or `sacct -X --parsable2` writes, or any table with "
        "job_id,start_time,end_time,node_ids (host lists such as n[5-8] too).",
    ),
]
UplinksOption = Annotated[
    int,
    typer.Option(min=0, max=MOST_LINKS, help="Of a leaf switch; 0 = the node table's, or as the largest has nodes."),
]
SpinesOption = Annotated[
    int, typer.Option(min=0, max=MOST_LINKS, help="Uplinks of a second-level switch; 0 = as many as leaves in a pod.")
]
NodesOption = Annotated[Path, typer.Option(help="Node table with leaf and pod.")]
OutOption = Annotated[Path, common.table_option("The node table to write", "--out")]


@app.command()
def show(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A node table, Slurm's topology.conf or .yaml, or what `scontrol show topology` prints.",
        ),
    ],
    output: common.FormatOption = common.Format.TABLE,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Also draw the tree here.")] = None,
) -> None:
    """Show the tree: pods, leaf switches, nodes on each, and what is uneven.

    Below the table stand a line per pod and a number per leaf switch: how many nodes hang on it; * marks
    a size that differs from most. Switches of topology.conf are numbered in the order of the file.

    Examples:
    procure topology show nodes.csv --plot tree.svg
    scontrol show topology > network.txt
    procure topology show network.txt --format json
    """
    if plot is not None and plot.suffix != ".svg":
        raise ArgumentError("plot", f"{plot} was given; its ending must be .svg")
    table = read_slurm_topology(path).nodes if is_slurm_topology(path) else read(path, NODE)
    rows, wrong = leaf_table(table), uneven(*leaf_and_pod(table))
    if plot is not None:
        draw_tree(rows, plot)
    if output is common.Format.JSON:
        sizes = {"n_pods": rows["pod"].nunique(), "n_leaves": len(rows), "n_nodes": len(table)}
        common.print_json(sizes | {"uneven": wrong, "leaves": rows.to_dict(orient="records")})
        return
    common.print_table(rows, output, f"{path}: {counted(len(table), 'node')} on {counted(len(rows), 'leaf', 'leaves')}")
    if output is common.Format.TABLE:
        usual = rows["n_nodes"].mode().max()
        for number, part in rows.groupby("pod"):
            counts = [f"{n}{'' if n == usual else '*'}" for n in part["n_nodes"]]
            common.echo(f"pod {number}: {' '.join(counts)}")
        common.echo("uneven: " + ("; ".join(wrong) if wrong else "nothing"))


@app.command()
def attach(
    source: Annotated[
        Path,
        typer.Option("--from", help="topology.conf, topology.yaml, or what `scontrol show topology` prints."),
    ],
    nodes: Annotated[
        Path | None, typer.Argument(metavar="[NODES]", help="A node table; without, one with the network's nodes.")
    ] = None,
    out: Annotated[Path | None, common.table_option("The node table to write; without, it is printed", "--out")] = None,
) -> None:
    """Add the columns leaf and pod to a node table, from a tree or blocks as Slurm has them.

    Without a node table, one is made of the network's nodes, of one CPU each.

    Examples:
    procure topology attach nodes.csv --from /etc/slurm/topology.conf --out placed.csv
    procure topology attach --from topology.yaml --out tree.csv
    """
    if not is_slurm_topology(source):
        raise TableError(
            f"{existing_file(source)}: holds no line that begins with SwitchName=, and no topology in YAML"
        )
    network = read_slurm_topology(source)
    if nodes is None:
        table = check_table(network.nodes[["node_id"]].assign(cpus=1, mem_mb=1000), NODE)
    else:
        table = read(nodes, NODE)
    table = attach_network(table, network)
    for text in uneven(*leaf_and_pod(table)):
        common.note(f"uneven: {text}")
    if out is None:
        common.print_table(table, common.Format.CSV)
        return
    write(table, out)
    common.note(f"wrote {out}: {counted(len(table), 'node')} of the {len(network.nodes):,} in the network")


@app.command()
def make(
    pods: Annotated[int, typer.Option(max=LARGEST, help="Pods.")],
    leaves: Annotated[int, typer.Option(max=LARGEST, help="Leaf switches in each pod.")],
    nodes: Annotated[int, typer.Option(max=LARGEST, help="Nodes on each leaf switch.")],
    out: OutOption,
    cpus: Annotated[int, typer.Option(max=LARGEST, help="CPUs of each node.")] = 1,
    mem_mb: Annotated[int, typer.Option(min=1, max=LARGEST, help="Memory of each node, MB.")] = 1000,
) -> None:
    """Write the node table of a tree with equal nodes, to try things on.

    Examples:
    procure topology make --pods 4 --leaves 18 --nodes 18 --out nodes.csv
    """
    write(make_nodes(pods, leaves, nodes, cpus=cpus, mem_mb=mem_mb), out)
    common.note(f"wrote {out}: {counted(pods * leaves * nodes, 'node')}")


@app.command()
def check(
    schedule: ScheduleArgument,
    nodes: NodesOption,
    uplinks: UplinksOption = 0,
    spines: SpinesOption = 0,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Check whether two jobs ever hold one link between switches, on anyone's schedule; exit code 1 if so.

    A job whose column links is empty may use every link between its leaves, and between its pods. n_sharing of
    the n_over_links jobs that use such links ever shared one, in shared_time of their time. Two jobs on one node
    share its link to the leaf, which counts as well.

    Examples:
    procure topology check schedule.parquet --nodes nodes.csv --format json
    sacct -aXP -S now-30days -o JobID,Start,End,NodeList > month.psv; procure topology check month.psv --nodes tree.csv
    """
    verdict = verify(read_schedule(schedule), read(nodes, NODE), uplinks=uplinks, spines=spines)
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
    policies: Annotated[str, typer.Option(help="Isolating policies, separated by commas.")] = "isolated,tiers",
    shared: Annotated[str, typer.Option(help="The policy that lets jobs share links.")] = "compact",
    saved: Annotated[
        str, typer.Option(help="By how much isolated jobs run shorter: shares such as 10%, or v1, v2 (SC18).")
    ] = ",".join(SHARES),
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="Of v1 and v2.")] = 0,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Find from which share of run time on isolation pays on this system.

    Isolated jobs of 5 nodes or more run shorter, but nodes stay empty. Below the table stands the decision: isolate
    if sharing links costs jobs more than this.

    Examples:
    procure topology worth --jobs jobs.parquet --nodes tree.csv
    procure topology worth --jobs jobs.parquet --nodes tree.csv --policies isolated --saved 0%,2%,4%,v1 --format json
    """
    table = common.read_job_table(jobs)
    with common.named(policies="--policies", scenario="--saved"):
        found = weigh_isolation(
            table,
            read(nodes, NODE),
            [name.strip() for name in policies.split(",")],
            shared=shared,
            scenarios=[name.strip() for name in saved.split(",")],
            seed=seed,
            progress=common.note,
        )
    document = {"break_even": found.break_even, "rows": found.table.to_dict(orient="records")}

    def people() -> None:
        common.print_table(found.table, output, found.title)
        for line in found.notes:
            common.echo(line)

    common.tell(output, (), lambda: document, found.table, people)


@app.command()
def penalty(
    schedule: ScheduleArgument,
    nodes: NodesOption,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Count the hops between a job's nodes (APH), by size, against the ideal placement in an empty tree.

    Hops are links between switches: 0 on one leaf, 2 in one pod, 4 otherwise; the mean over all pairs
    of a job's nodes, and over the jobs of at least 2 nodes.

    Examples:
    procure topology penalty schedule.parquet --nodes nodes.csv
    procure topology penalty schedule.parquet --nodes nodes.csv --format json
    """
    hops = hops_of_jobs(read_schedule(schedule), read(nodes, NODE))
    several = hops[hops["n_nodes"] > 1]
    by_size = hops_by_size(hops)
    record = {
        "n_jobs": len(several),
        "mean_aph": several["aph"].mean(),
        "ideal_aph": several["ideal_aph"].mean(),
    }

    def people() -> None:
        common.print_record(record, output, f"{schedule}: hops between nodes of a job")
        common.print_table(by_size, output)

    document = record | {"by_size": by_size.to_dict(orient="records")}
    common.tell(output, (), lambda: document, by_size, people)
