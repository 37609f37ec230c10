"""`procure coschedule`: two jobs, one allocation: the study's workload, the learner's bounds, real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, lazy
from procure.coschedule.regret import regret as measure_regret
from procure.coschedule.run import measure as measure_pair
from procure.coschedule.run import run as run_pair
from procure.errors import ArgumentError
from procure.settings import LARGEST, LAST_SEED, MOST_COUNTED
from procure.tables import write
from procure.text import counted
from procure.workload.coschedule_study import GAP, system, workflows

app = lazy.command_group()


@app.command()
def example(
    cores: Annotated[int, typer.Option(max=MOST_COUNTED, help="Cores of the system: 64, 128 or 256.")],
    out: Annotated[Path, common.table_option("The job table to write")],
    nodes: Annotated[Path | None, common.table_option("Write the node table of the system here")] = None,
    gap: Annotated[int, typer.Option(max=LARGEST, help="Seconds between the three submissions.")] = GAP,
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="Of the order within a submission.")] = 0,
) -> None:
    """Write the study's 45 workflows with their published profiles.

    Examples:
    procure coschedule example --cores 64 --out workflows.parquet --nodes nodes.csv
    procure compare --jobs workflows.parquet --nodes nodes.csv --no-kill-at-limit \\
        --policies easy:exclusive=true,coschedule:share=0.5,coschedule
    """
    jobs = workflows(cores, gap=gap, seed=seed)
    table = system(cores)
    write(jobs, out)
    common.note(f"wrote {out}: {counted(len(jobs), 'job')}")
    if nodes is not None:
        write(table, nodes)
        common.note(f"wrote {nodes}: {counted(len(table), 'core set')}")


@app.command()
def regret(
    seeds: Annotated[int, typer.Option(min=2, max=MOST_COUNTED, help="Runs of each learner.")] = 30,
    largest: Annotated[
        int, typer.Option(min=100, max=MOST_COUNTED, help="The most cases; 100, 1,000 … up to it.")
    ] = 10_000,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Set the learner's excess risk against its bound; `paper` is the published rule, which breaks it.

    Examples:
    procure coschedule regret
    procure coschedule regret --seeds 10 --largest 1000 --format json
    """
    sizes = [10**k for k in range(2, 10) if 10**k <= largest]
    common.print_table(measure_regret(sizes=sizes, seeds=seeds), output, f"excess risk over {seeds} runs")


def _two(words: list[str]) -> tuple[list[str], list[str]]:
    if words and words[-1] == "--":
        words = words[:-1]
    if words.count("--") < 1 or words[0] == "--" or words[-1] == "--":
        raise ArgumentError("commands", "two commands are needed: -- DONOR [ARGUMENT …] -- GUEST [ARGUMENT …]")
    at = words.index("--")
    return words[:at], words[at + 1 :]


_TWO = "-- A -- B"

CommandsArgument = Annotated[
    list[str], typer.Argument(metavar="-- A [ARG]... -- B [ARG]...", help="Two commands, each after --.")
]
CpusOption = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_COUNTED, help="CPUs of the allocation, both are pinned to; none = all we may use."),
]


@app.command("run")
def run_command(
    commands: CommandsArgument,
    *,
    cpus: CpusOption = None,
    share: Annotated[float | None, typer.Option(help="A quota for the guest by systemd, between 0 and 1.")] = None,
    memory: Annotated[str, typer.Option(help="Memory that the guest may fill, such as 4G, by systemd.")] = "",
    seconds: Annotated[float, typer.Option(min=0.1, help="End both after this many seconds.")] = float("inf"),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Run a donor and, on its CPUs, a guest at idle priority, which gets what the donor leaves over.

    What the commands print goes to standard error, marked donor| and guest|. Ctrl-C ends both. Our options stand before
    the first --.

    Examples:
    procure coschedule run -- ./a.sh -- ./b.sh
    procure coschedule run --share 0.25 --cpus 4 --memory 4G --format json -- ./a.sh -- ./b.sh
    """
    with common.named(commands=_TWO):
        found = run_pair(*_two(commands), cpus=cpus, share=share, memory=memory, seconds=seconds)
    record = found.to_dict()
    if output is common.Format.JSON:
        common.print_json(record)
    else:
        flat = {f"{who}_{key}": value for who in ("donor", "guest") for key, value in record[who].items()}
        common.print_record(flat, output)
    if found.interrupted:
        raise KeyboardInterrupt("both commands are ended")
    if found.donor["exit_code"] != 0:
        raise typer.Exit(1)


@app.command("measure")
def measure_command(
    commands: CommandsArgument,
    *,
    cpus: CpusOption = None,
    seconds: Annotated[float, typer.Option(help="Seconds of each measurement.")] = 60.0,
    bandwidth: Annotated[
        str | None, typer.Option(help="Percent of the memory bandwidth that each draws alone, A,B, if known.")
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Measure what sharing costs two commands: each alone, at idle priority, and by systemd at three quotas.

    Each command is started again when it ends. The rate of a command is its runs per second, if both end often enough;
    else CPU time, which hides what memory contention costs. The overhead and severity that fit are those of the policy
    `coschedule`.

    Examples:
    procure coschedule measure --seconds 30 --cpus 1 -- ./a.sh -- ./b.sh
    procure coschedule measure --format json --bandwidth 90,40 -- ./a.sh -- ./b.sh
    """
    with common.named(commands=_TWO):
        how = {"cpus": cpus, "seconds": seconds, "bandwidth": _shares(bandwidth)}
        found = measure_pair(*_two(commands), **how, tell=common.note)  # type: ignore[arg-type]
    common.show(found, output)


def _shares(text: str | None) -> tuple[float, float]:
    try:
        first, second = (float(word) / 100 for word in (text or "0,0").split(","))
    except ValueError:
        raise ArgumentError("bandwidth", f"{text!r} was given; two percentages A,B are needed") from None
    if not (0 <= first <= 1 and 0 <= second <= 1):
        raise ArgumentError("bandwidth", f"{text!r} was given; 0 to 100 is allowed")
    return first, second
