"""The root command: lists the stages in the order of the flow, and turns errors into one line."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import typer
import typer.core

from procure._version import __version__
from procure.cli.lazy import MADE_UP, SETTINGS, LazyGroup
from procure.cli.progress import shown
from procure.errors import INTERRUPTED, ArgumentError, TableError
from procure.text import given_and_needed, printable

COMMANDS = {
    "Buy": {
        "buy": "Everything at once: from a log, offers and a budget to a recommendation and its report.",
        "ask": "Rank the packages again under another budget or bound, from what was simulated.",
        "explore": "Every package live in the browser: type bounds in, see list and picture at once.",
        "quotes": "Vendors' offers: check a quote file, write an empty one.",
        "packages": "List every package that a budget allows: any types in any count, or as the rules say.",
        "study": "Study files: write one, check one, see how far its sweep is.",
        "sweep": "Simulate the packages of a study; an interrupted sweep computes only what is missing.",
        "search": "Find the best packages with few simulations: a model proposes, the simulator answers.",
        "train": "Cross-validate the study's model on the simulated packages, and keep it.",
        "evaluate": "Judge the study's model against what was simulated, beside a random and a naive choice.",
        "recommend": "Rank every package by mean wait or another objective; those that run every job first.",
        "compare-rent": "Buy, rent, or rent for long waits only: the same jobs, the same years.",
        "what-if": "Simulate a package as it is, under each change alone, and under all together.",
        "explain": "Say why a package waits as it does, what its jobs lack, and what one more node is worth.",
        "report": "Write the report: one HTML file that refers to nothing outside itself.",
    },
    "Queue time": {
        "queue": "When will my job start? Train on a log, predict, watch, judge.",
        "serve": "Queue times for a cluster's users: collect, keep a model fresh, answer, be judged in public.",
    },
    "Schedulers": {
        "simulate": "Simulate a workload on nodes under a policy; times in seconds, utilization as a share.",
        "compare": "Compare schedulers on one workload.",
        "policies": "List the scheduling policies, or describe one.",
        "learn": "Train a scheduling policy on a centre's own log, and judge it on weeks it has not seen.",
        "topology": "Where in the network: trees in, allocations checked, worth of isolation.",
        "coschedule": "Run a second job inside another's idle time.",
    },
    "Your centre": {
        "workload": "Job logs in, job tables out: import, describe, generate, slice, days.",
        "site": "The centre's own rules: read from Slurm, checked, inferred from a log; why its jobs waited.",
        "forecast": "Which jobs will come, and how good such forecasts are.",
    },
    "Tools": {
        "doctor": "What is installed here, whether the main job can run; --warm compiles the policies.",
    },
}
"""Every command by its panel of help, with its line of help: its module is imported when it is used."""
PANEL = {name: panel for panel, commands in COMMANDS.items() for name in commands}
_MODULES = dict.fromkeys(("ask", "report", "explore"), "buy") | dict.fromkeys(("search", "train", "evaluate"), "sweep")
_MODULES |= dict.fromkeys(("compare-rent", "what-if", "explain"), "recommend")
_MODULES |= dict.fromkeys(("compare", "policies"), "simulate")
"""The modules of commands that share one with another."""


UsageError: Any = typer.BadParameter.__base__  # of Typer's own copy of Click


class Flow(LazyGroup):
    """The commands in the order of the flow; errors of whichever is called become one line."""

    _called: Any = None
    COMMANDS: ClassVar = {
        name: (_MODULES.get(name, name), line) for commands in COMMANDS.values() for name, line in commands.items()
    }

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return what a listing needs of a command: its name, line of help and panel."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            found.rich_help_panel = PANEL[cmd_name]
        return found

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an argument that the library refuses is bad usage of the option of that name."""
        MADE_UP.clear()
        try:
            with shown():
                return super().invoke(ctx)
        except typer.BadParameter as error:
            if (found := getattr(error.__cause__, "errors", None)) is not None:  # Typer's speech is pydantic's
                (detail, *_) = found()
                wrong = detail.get("ctx", {}).get("error")
                error.message = str(wrong) if wrong else given_and_needed(detail)
            raise
        except UsageError as error:
            _name_what_took_its_place(error)
            raise
        except KeyboardInterrupt as stopped:
            _say("; ".join(["procure: interrupted", *map(str, stopped.args)]))
            raise typer.Exit(INTERRUPTED) from None
        except ArgumentError as error:
            own = self._option(error.argument)
            if own is None:  # what the library was told by another part of it, or by a table
                raise TableError(str(error)) from None
            raise typer.BadParameter(printable(str(error), kept="\n"), param_hint=own) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is to run, and remember it."""
        name, command, rest = super().resolve_command(ctx, args)
        self._called = getattr(command, "commands", {}).get(next(iter(rest), ""), command)
        return name, command, rest

    def _option(self, argument: str) -> str | None:
        """Return how the command that ran calls an argument of the library; None where it has no such option."""
        option = f"--{argument.replace('_', '-')}"
        for one in getattr(self._called, "params", ()):
            if option in one.opts:
                return option
            if one.name == argument:
                return one.opts[0] if one.opts[0].startswith("-") else one.metavar or one.opts[0]
        return None


def _name_what_took_its_place(error: Any) -> None:
    """Say what to do instead of a command or an option of an earlier version."""
    from procure.cli.removed import instead

    asked = getattr(error, "option_name", None) or error.message.partition("'")[2].partition("'")[0]
    path = getattr(error.ctx, "command_path", "")
    if said := instead(path.partition(" ")[2], asked):
        error.message, error.possibilities = f"{path} {asked} was removed: {said}", None


def _type_shown(option: Any, ctx: Any) -> str | None:
    """Return what help shows as an option's type: nothing for a switch, which takes no value."""
    return None if option.is_flag or _TYPE_SHOWN is None else _TYPE_SHOWN(option, ctx=ctx)


_TYPE_SHOWN = getattr(typer.core.TyperOption, "display_type_rich", None)
if _TYPE_SHOWN is not None:  # Typer has no setting for it
    typer.core.TyperOption.display_type_rich = _type_shown  # type: ignore[method-assign, assignment]

app = typer.Typer(
    name="procure",
    cls=Flow,
    help="Which servers should an HPC centre buy, and when will a job start?",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
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


def _say(text: str) -> None:
    typer.echo(printable(text, kept="\n\t"), err=True)


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let TERM and HUP end a command as Ctrl-C does, so that no half-written file is left."""
    main = threading.current_thread() is threading.main_thread()
    ends = [one for one in (signal.SIGTERM, signal.SIGHUP) if main and signal.getsignal(one) is signal.SIG_DFL]
    try:
        for one in ends:
            signal.signal(one, signal.default_int_handler)
        yield
    finally:
        for one in ends:
            if signal.getsignal(one) is signal.default_int_handler:
                signal.signal(one, signal.SIG_DFL)


def run() -> None:
    """Run the command line; an error is one line on stderr: exit code 2 for bad usage, 130 for Ctrl-C, else 1."""
    code = 1
    try:
        with _ended_in_order(), warnings.catch_warnings():
            if not sys.warnoptions:
                warnings.showwarning = lambda message, *about, **more: _say(f"procure: {message}")
            app()
        return
    except TableError as error:
        said = str(error)
    except KeyboardInterrupt:
        said, code = "interrupted", INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError as error:
        what = str(error).partition("\n")[0]
        said = f"out of memory{what and f' ({what})'}: reduce the input"
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        said = str(TableError(f"{where}{error.strerror or error}"))  # which cuts a name without an end
    except Exception as error:
        if os.environ.get("PROCURE_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        said = f"internal error: {what} (PROCURE_TRACEBACK=1 shows where)"
    _say(f"procure: {said}")
    sys.exit(code)


if __name__ == "__main__":
    run()
