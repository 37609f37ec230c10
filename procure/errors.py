"""The errors that a user is to read: one sentence that says what was wrong, where, and what is allowed."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LONG_WORD = re.compile(r"(\S{60})\S{200,}(\S{20})")


INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


class TableError(ValueError):
    """A table, file or setting is wrong; the message says what was wrong, where, and what is allowed.

    A word of more than 280 characters, such as a cell that lost its quotes, is cut in its middle.
    """

    def __init__(self, message: str) -> None:
        """Take the whole message."""
        super().__init__(_LONG_WORD.sub(r"\1…\2", message))


class ArgumentError(TableError):
    """An argument of a public function is wrong; the command line reports it as bad usage of that option."""

    def __init__(self, argument: str, message: str) -> None:
        """Name the argument, as the function spells it, and say what is wrong with its value."""
        super().__init__(message)
        self.argument = argument


def where(error: BaseException) -> str:
    """Say which error was raised where: a kind, a file and a line, no values, among which may be names."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "?"
    return f"{type(error).__name__} in {place}"


def reason(error: Exception) -> str:
    """Say in a line why a library could not read a file."""
    if isinstance(error, UnicodeDecodeError):
        return f"the byte 0x{error.object[error.start]:02x} in it is not text in UTF-8"
    if "set_int_max_str_digits" in str(error):
        return "a number in it has more than 4,300 digits"
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


@contextmanager
def within(where: str) -> Iterator[None]:
    """Report what is wrong in here as wrong with a file, a workload or a key: ``where`` stands before the message."""
    try:
        yield
    except TableError as error:
        raise TableError(f"{where}: {error}") from None


@contextmanager
def argument(name: str) -> Iterator[None]:
    """Report what is wrong with a table or setting in here as wrong with an argument of a public function."""
    try:
        yield
    except TableError as error:
        raise ArgumentError(name, str(error)) from None


def need(module: str, extra: str = "rl") -> Any:
    """Import a module of an extra; that it is not installed is an error, which names the extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TableError(
            f"this needs the extra {extra}, and {error.name or module} is not installed: "
            f"pip install 'procure-hpc[{extra}]'"
        ) from None
