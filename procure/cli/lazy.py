"""Groups of commands whose modules are imported when one of their commands is called, so that help is fast."""

from __future__ import annotations

import importlib
import re
from typing import Any, ClassVar

import typer
import typer.core

_EXAMPLES = r"\n\n(Examples?):\n"
"""The head of a docstring's last paragraph, whose lines help shows one by one."""

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


def command_group(group: type[LazyGroup] | None = None) -> typer.Typer:
    """Make a command that has commands of its own; its line of help stands where it is listed."""
    return typer.Typer(cls=group, add_completion=False, no_args_is_help=True, rich_markup_mode="rich")


def _load(module_name: str, line: str, name: str) -> Any:
    module = importlib.import_module(module_name if "." in module_name else f"procure.cli.{module_name}")
    command = getattr(module, "app", None)
    if command is None:
        command = typer.Typer(add_completion=False, rich_markup_mode="rich", context_settings=SETTINGS)
        command.command(name)(getattr(module, name.replace("-", "_")))
    found: Any = typer.main.get_command(command)
    found.help = found.help or line
    for one in (found, *getattr(found, "commands", {}).values()):
        one.help = one.help and re.sub(_EXAMPLES, r"\n\n[bold]\1[/bold]\n\n\b\n", one.help)
    return found
