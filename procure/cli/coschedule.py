"""`procure coschedule`: two jobs, one allocation: the study's workload, the learner's bounds, real processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from procure.cli import common, lazy
from procure.cli.from_settings import options
from procure.coschedule.drive import draw
from procure.coschedule.drive import run as run_pair
from procure.coschedule.groups import clean as clean_boxes
from procure.coschedule.measure import measure as measure_pair
from procure.coschedule.regret import regret as measure_regret
from procure.coschedule.settings import Driving, Measuring
from procure.errors import ArgumentError
from procure.files import whole_file
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


class TwoCommands(TyperCommand):
    """Reads `[OPTIONS] -- A … -- B … [OPTIONS]`: our own options may also end the line.

    What ends the second command is its own after a third `--`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Bring our options that end the line to its front."""
        if args.count("--") == 2:  # a third one ends the second command, and our own options before the first
            flags = {name: getattr(each, "is_flag", False) for each in self.params for name in each.opts}
            for at in range(len(args) - 1 - args[::-1].index("--") + 2, len(args)):
                if _only_ours(args[at:], flags):
                    args = [*args[at:], *args[:at]]
                    break
        return super().parse_args(ctx, args)


def _only_ours(words: list[str], flags: dict[str, bool]) -> bool:
    """Say whether words are nothing but our options, with their values."""
    at = 0
    while at < len(words):
        name, equals, _ = words[at].partition("=")
        if not name.startswith("--") or name not in flags:
            return False
        at += 1 if equals or flags[name] else 2
    return at == len(words)


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
_CPUS = Annotated[
    int | None,
    typer.Option(
        "--cpus",
        min=1,
        max=MOST_COUNTED,
        help="CPUs of the allocation, both are pinned to; none = all that we may use.",
    ),
]
_LIMIT = Annotated[float, typer.Option("--limit-a", help="Seconds that the donor, the first, may take.")]
_SHARING = {"n_cpus": _CPUS} | dict.fromkeys(("progress", "driver", "weight"))
_OF_RUN = ("learner", "share", "interval", "step", "progress_file", "seconds", "memory", "seed")


def _say_driver(kind: str, why: str) -> None:
    if kind == "duty":
        reason = f" ({why})" if why else ""
        common.note(f"no control group{reason}: processes are stopped and continued in turn, every 0.1 s")


@app.command()
def clean() -> None:
    """End and remove what runs left behind that were killed together with their keepers.

    A run that is only killed itself leaves nothing: its keepers end both commands. Runs that are alive are left alone.

    Examples:
    procure coschedule clean
    """
    lines = clean_boxes()
    for line in lines:
        common.echo(f"removed {line}")
    common.note(f"{counted(len(lines), 'process or group', 'processes and groups')} removed")


@app.command("run", cls=TwoCommands)
@options(settings={"limit": _LIMIT} | _SHARING | dict.fromkeys(_OF_RUN))
def run_command(
    commands: CommandsArgument,
    *,
    settings: Driving,
    log: Annotated[Path | None, common.table_option("Write a row per interval here")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw quota and CPU shares over time here, .svg.")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Run a donor and, inside its CPUs, a guest: at idle priority, or at a quota that is chosen at every interval.

    What the commands print goes to standard error, marked donor| and guest|. Ctrl-C ends both; the log is written
    all the same. Our options may also stand at the very end, unless another -- ends the second command.

    Examples:
    procure coschedule run --limit-a 600 -- ./a.sh -- ./b.sh
    procure coschedule run --limit-a 600 --progress '(\\d+)/(\\d+)' --log run.csv --plot run.svg -- ./a.sh -- ./b.sh
    procure coschedule run --limit-a 600 --share 0.25 --cpus 4 --format json -- ./a.sh -- ./b.sh
    procure coschedule run --limit-a 600 --driver quota --memory 4G -- ./a.sh -- ./b.sh
    """
    if plot is not None and plot.suffix != ".svg":
        raise ArgumentError("plot", f"{plot} was given; its ending must be .svg")
    with common.named(commands=_TWO):
        found = run_pair(*_two(commands), settings, tell=common.note)
    _say_driver(found.driver, found.why)
    if log is not None:
        write(found.log, log)
    if plot is not None:
        with whole_file(plot) as temporary:
            temporary.write_text(draw(found.log), encoding="utf-8")
    record = found.record()
    for who in ("donor", "guest"):
        if record[who]["exit_code"] is not None and record[who]["cpu_share"] is None:
            common.note(f"the {who} ended too soon for its CPU share to be measured: {record[who]['seconds']:.2f} s")
    if output is common.Format.TABLE:
        flat = {f"{who}_{key}": value for who in ("donor", "guest") for key, value in record[who].items()}
        common.print_record(flat | {key: record[key] for key in ("driver", "n_quota_changes")}, output)
    elif output is common.Format.CSV:
        common.print_table(found.log, output)
    else:
        common.print_json(record)
    if found.interrupted:
        raise KeyboardInterrupt("both commands are ended")
    if found.donor["exit_code"] != 0:
        raise typer.Exit(1)


@app.command("measure", cls=TwoCommands)
@options(settings={"seconds": None} | _SHARING)
def measure_command(
    commands: CommandsArgument,
    *,
    settings: Measuring,
    bandwidth: Annotated[
        str | None, typer.Option(help="Percent of the memory bandwidth that each draws alone, A,B, if known.")
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Measure what sharing costs two commands: each alone, then both at quotas 0.25, 0.5 and 0.75 of the second.

    Each command is started again when it ends. The rate of a command is its progress, if a pattern tells it;
    else runs per second, if it ends often enough; else CPU time, which hides what memory contention costs.
    The overhead and severity that fit are those of the policy `coschedule`.

    Examples:
    procure coschedule measure --seconds 30 --cpus 1 -- ./a.sh -- ./b.sh
    procure coschedule measure --format json --bandwidth 90,40 -- ./a.sh -- ./b.sh
    """
    with common.named(commands=_TWO):
        how = replace(settings, bandwidth=_shares(bandwidth))
        found = measure_pair(*_two(commands), how, tell=common.note)
    _say_driver(found.driver, found.why)
    if output is common.Format.JSON:
        common.print_json(found.record())
        return
    common.print_table(found.table, output, f"pace and share of the CPUs ({found.driver}; rate: {found.rate})")
    if output is common.Format.TABLE:
        fitted = {"overhead": found.contention.overhead, "severity": found.contention.severity}
        common.print_record(fitted, output, "contention model that fits")


def _shares(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        first, second = (float(word) / 100 for word in text.split(","))
    except ValueError:
        raise ArgumentError("bandwidth", f"{text!r} was given; two percentages A,B are needed") from None
    if not (0 <= first <= 1 and 0 <= second <= 1):
        raise ArgumentError("bandwidth", f"{text!r} was given; 0 to 100 is allowed")
    return first, second
