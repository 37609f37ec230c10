"""`procure coschedule`: two jobs, one allocation: the study's workload, the learner's bounds, real processes."""

from __future__ import annotations

from typing import Annotated

import typer

from procure.cli import common, lazy
from procure.coschedule.run import run as run_pair
from procure.errors import ArgumentError
from procure.settings import MOST_COUNTED

app = lazy.command_group()


@app.callback()
def coschedule() -> None:
    """Run a second job inside another's idle time."""


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
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Run a donor and, on its CPUs, a guest at idle priority, which gets what the donor leaves over.

    What the commands print goes to standard error, marked donor| and guest|. Ctrl-C ends both. Our options stand before
    the first --.

    Examples:
    procure coschedule run -- ./a.sh -- ./b.sh
    procure coschedule run --share 0.25 --cpus 4 --format json -- ./a.sh -- ./b.sh
    """
    with common.named(commands=_TWO):
        found = run_pair(*_two(commands), cpus=cpus, share=share)
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
