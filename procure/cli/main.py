"""The root command: lists the stages in the order of the flow, and turns errors into one line."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
import typer.core

from procure._version import __version__
from procure.cli import (
    compare,
    evaluate,
    explain,
    gantt,
    packages,
    policies,
    queue,
    quotes,
    recommend,
    report,
    search,
    simulate,
    study,
    sweep,
    train,
    what_if,
    workload,
)
from procure.errors import TableError


class InOrder(typer.core.TyperGroup):
    """Lists the commands in the order of the flow instead of commands first, groups after."""

    flow = (
        "quotes", "packages", "workload", "simulate", "study", "sweep", "search", "train", "evaluate", "recommend",
        "what-if", "explain", "report",
        "queue", "compare", "policies", "gantt",
    )  # fmt: skip

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the names of the commands, as help and completion show them."""
        return sorted(super().list_commands(ctx), key=self.flow.index)


app = typer.Typer(
    name="procure",
    cls=InOrder,
    help="Which servers should an HPC centre buy, and when will a job start?",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"procure {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Which servers should an HPC centre buy, and when will a job start?

    quotes → packages → workload → simulate → sweep → train → evaluate → recommend → report;
    beside it, queue-time prediction for users and the comparison of schedulers.
    """


app.add_typer(quotes.app, name="quotes")
app.command("packages")(packages.packages)
app.add_typer(workload.app, name="workload")
app.command("simulate")(simulate.simulate)
app.command("sweep")(sweep.sweep)
app.command("search")(search.search)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("recommend")(recommend.recommend)
app.command("what-if")(what_if.what_if)
app.command("explain")(explain.explain)
app.command("report")(report.report)
app.add_typer(study.app, name="study")
app.add_typer(queue.app, name="queue")
app.command("compare")(compare.compare)
app.add_typer(policies.app, name="policies")
app.command("gantt")(gantt.gantt)


def run() -> None:
    """Run the command line; an error is one line on stderr, exit code 2 for bad usage, 1 for failure."""
    try:
        app()
    except TableError as error:
        typer.echo(f"procure: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("procure: interrupted", err=True)
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"procure: {where}{error.strerror or error}", err=True)
        sys.exit(1)
    except Exception as error:
        if os.environ.get("PROCURE_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        typer.echo(f"procure: a defect of procure itself: {what} (PROCURE_TRACEBACK=1 shows where)", err=True)
        sys.exit(1)


if __name__ == "__main__":
    run()
