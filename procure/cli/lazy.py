"""Groups of commands whose modules are imported when one of their commands is called, so that help is fast."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar

import typer
import typer.core

from procure.errors import TableError

_EXAMPLES = r"\n\n(Examples?):\n"
"""The head of a docstring's last paragraph, whose lines help shows one by one."""

GROUP = "procure.commands"
"""The entry-point group in which rooms and installed packages offer commands: NAME = a module."""

MADE_UP: list[str] = []
"""The workloads of the command's study whose jobs are made up: a key of every JSON document that it prints."""

SETTINGS = {"help_option_names": ["-h", "--help"]}


class LazyGroup(typer.core.TyperGroup):
    """Lists commands by name and line of help, and imports the module of the one that is called.

    ``COMMANDS`` has, by name, the module (in `procure.cli`, or with dots) and the line of help. The module holds an
    ``app`` of several commands, or a function of the command's name.
    """

    COMMANDS: ClassVar[dict[str, tuple[str, str]]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, as help and completion show them."""
        return list(self.COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> typer.core.TyperCommand | None:
        """Return a command's name and line of help, which is all that a listing needs."""
        known = self.COMMANDS.get(cmd_name)
        return None if known is None else typer.core.TyperCommand(cmd_name, help=known[1])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is to run, or whose options are to be completed, and import it."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, name and _load(*self.COMMANDS[name], name), rest


def offered(taken: set[str]) -> dict[str, tuple[str, str]]:
    """Return the commands of installed packages, sorted by name: module and line of help.

    A module is not imported for that: its line of help is what its docstring says in the first line, after the colon.
    Without one it is not there, as what an older version of procure offered.
    """
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    found = {one.name: (one.value, _first_line(one.value)) for one in points if one.name not in taken}
    return {name: (module, line) for name, (module, line) in found.items() if line}


def _first_line(module: str) -> str:
    try:
        found = importlib.util.find_spec(module)
    except ImportError:
        found = None
    if found is None or found.origin is None:
        return "" if module.startswith("procure.") else f"cannot be loaded: there is no {module}"
    docstring = ast.get_docstring(ast.parse(Path(found.origin).read_text(encoding="utf-8"))) or ""
    line = docstring.partition("\n")[0].partition(": ")[2]
    return line[:1].upper() + line[1:]


def command_group(group: type[LazyGroup] | None = None) -> typer.Typer:
    """Make a command that has commands of its own; its line of help stands where it is listed."""
    return typer.Typer(cls=group, add_completion=False, no_args_is_help=True, rich_markup_mode="rich")


def _load(module_name: str, line: str, name: str) -> Any:
    place = module_name if "." in module_name else f"procure.cli.{module_name}"
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if not place.startswith(error.name or "-"):
            raise
        raise TableError(f"{name}: {line}; reinstall the package that offers it") from None
    command = getattr(module, "app", None)
    if command is None:
        command = typer.Typer(add_completion=False, rich_markup_mode="rich", context_settings=SETTINGS)
        command.command(name)(getattr(module, name.replace("-", "_")))
    found: Any = typer.main.get_command(command)
    found.help = found.help or line
    for one in (found, *getattr(found, "commands", {}).values()):
        one.help = one.help and re.sub(_EXAMPLES, r"\n\n[bold]\1[/bold]\n\n\b\n", one.help)
    return found
