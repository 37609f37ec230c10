"""`procure window`: which jobs of a window, on which nodes? Generate, solve, compare, train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, lazy
from procure.settings import LARGEST, LAST_SEED, MOST_COUNTED, validated
from procure.tables import NODE, read, write
from procure.text import counted
from procure.topology.fat_tree import make_nodes
from procure.window.compare import compare_methods
from procure.window.network import write_network
from procure.window.policies import Windows
from procure.window.problem import read_window
from procure.window.solve import METHODS, make_solver
from procure.window.solve import solve as solve_one
from procure.window.train import train_network
from procure.workload.window_study import generate_jobs, read_released

app = lazy.command_group()

SeedOption = Annotated[int, typer.Option(min=0, max=LAST_SEED, help="Of the random numbers.")]
StepsOption = Annotated[
    int,
    typer.Option(min=0, max=MOST_COUNTED, help="Of lns, sa, sa-published and neural; 0 = as many as is usual."),
]
LimitOption = Annotated[float | None, typer.Option(help="Seconds for mip on one window.")]


@app.command()
def generate(
    out: common.JobsOutOption,
    seed: SeedOption = 0,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_COUNTED, help="How many; 3000, or all that --from holds.", show_default=False),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="The study's released instance instead: id, submission, run time, nodes."),
    ] = None,
    skip: Annotated[int, typer.Option(min=0, max=LARGEST, help="Jobs at the beginning of --from to leave out.")] = 0,
) -> None:
    """Make up jobs as the study's generator does, or read its released instance.

    Gaps of 5 to 30 s, run times of 10 to 1,800 s, 1 to 40 nodes, uniform. The study's nodes are
    `procure topology make --pods 25 --leaves 4 --nodes 10` in its program, --pods 10 --leaves 10 in its text.

    Examples:
    procure window generate --seed 1 --jobs 3000 --out jobs.parquet
    procure window generate --from data_large_1800_40.txt.xz --skip 300 --jobs 300 --out epoch1.parquet
    """
    if source is None:
        table = generate_jobs(3000 if jobs is None else jobs, seed)
    else:
        table = read_released(source)
        table = table.iloc[skip : None if jobs is None else skip + jobs]
    write(table, out)
    common.note(f"wrote {out}: {counted(len(table), 'job')}")


@app.command()
def solve(
    instance: Annotated[
        Path,
        typer.Argument(
            metavar="INSTANCE",
            help='JSON: {"tree": {"pods", "leaves", "nodes"}, "idle": […], "jobs": [{"id", "n_nodes"}]}.',
        ),
    ],
    method: Annotated[str, typer.Option(help=f"{', '.join(METHODS)}.")] = "lns",
    seed: SeedOption = 0,
    steps: StepsOption = 0,
    time_limit: LimitOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Place the jobs of one window on its idle nodes.

    Leaves are per pod and nodes per leaf; idle nodes are places of the tree, counted from 0 leaf by leaf.
    optimal: proved to be the optimum of the static model, in which every job takes nodes that follow each
    other along the idle ones.

    Examples:
    procure window solve instance.json --method exact --format json
    procure window solve instance.json --method sa-published --steps 500 --seed 7
    """
    solver = make_solver(method)
    found = solve_one(read_window(instance), solver, seed=seed, steps=steps, time_limit=time_limit)
    record = found.to_dict()
    if output is common.Format.JSON:
        common.print_json(record)
        return
    assignment = record.pop("assignment")
    if output is common.Format.TABLE:
        record |= {job: " ".join(map(str, places)) for job, places in assignment.items()}
    common.print_record(record, output, f"{instance}")


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="The network's file to write.")],
    minutes: Annotated[float, typer.Option(help="Wall time of the training.")] = 60,
    steps: Annotated[
        int | None,
        typer.Option(
            max=MOST_COUNTED,
            help="Placements after which training ends; the same seed then gives the same network.",
        ),
    ] = None,
    jobs: Annotated[
        Path | None, typer.Option(help="Job table; without, 3,000 of the study's generator per seed.")
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(help="Node table with leaf and pod; without, the study's 25 × 4 × 10.")
    ] = None,
    length: Annotated[int, typer.Option(min=1, max=LARGEST, help="Seconds between two windows.")] = 60,
    seed: SeedOption = 1000,
) -> None:
    """Train the network of neural:NET, which proposes where a job starts; needs the extra rl.

    The file holds numbers only (NumPy arrays and JSON) and is asked without torch.

    Examples:
    procure window train --out net.zip --minutes 60
    procure window solve instance.json --method neural:net.zip
    """
    network = train_network(
        generate_jobs(3000, seed) if jobs is None else common.read_job_table(jobs),
        make_nodes(25, 4, 10) if nodes is None else read(nodes, NODE),
        minutes=minutes,
        steps=steps,
        length=length,
        seed=seed,
        progress=common.note,
    )
    write_network(out, network)
    common.note(f"wrote {out}: trained on {network.training['placements']:,} placements")


@app.command()
def compare(
    jobs: Annotated[Path, typer.Option(help="Job table, Parquet or CSV.")],
    nodes: Annotated[Path, typer.Option(help="Node table with leaf and pod.")],
    methods: Annotated[
        str, typer.Option(help=f"Separated by commas: {', '.join(METHODS)}.")
    ] = "seq,sa-published,sa,greedy,exact,lns",
    length: Annotated[int, typer.Option(max=LARGEST, help="Seconds between two windows.")] = 60,
    most_jobs: Annotated[int, typer.Option(max=MOST_COUNTED, help="Jobs of several nodes in one window.")] = 5,
    driver: Annotated[str, typer.Option(help="The method that drives the system.")] = "lns",
    windows: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_COUNTED, help="Windows to compare on, evenly spread over the run."),
    ] = None,
    seed: SeedOption = 0,
    steps: StepsOption = 0,
    time_limit: LimitOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Solve the same windows by several methods: cost, wait and seconds side by side.

    One method drives the system; each window that it meets is then solved by all. Costs are means over
    windows of the sum over a window's jobs; the wait is the same for every method.

    Examples:
    procure topology make --pods 25 --leaves 4 --nodes 10 --out nodes.csv
    procure window compare --jobs jobs.parquet --nodes nodes.csv --methods seq,sa,exact,lns
    procure window compare --jobs jobs.parquet --nodes nodes.csv --methods mip,exact --windows 20 --format json
    """
    names = [name.strip() for name in methods.split(",") if name.strip()]
    given = {"length": length, "most_jobs": most_jobs, "method": driver, "seed": seed}
    parameters = validated(Windows, given, "policy window")
    with common.named(method="--methods"):
        comparison = compare_methods(
            common.read_job_table(jobs),
            read(nodes, NODE),
            names,
            parameters=parameters,
            steps=steps,
            most=windows,
            time_limit=time_limit,
            progress=common.note,
        )
    shown = comparison.shown() if output is common.Format.TABLE else comparison.table
    common.print_table(shown, output, f"{jobs}: {counted(len(comparison.costs), 'window')} of {length} s")
