"""The errors that a user is to read: one sentence that says what was wrong, where, and what is allowed."""


class TableError(ValueError):
    """A table, file or setting is wrong; the message says what was wrong, where, and what is allowed."""


class ArgumentError(TableError):
    """An argument of a public function is wrong; the command line reports it as bad usage of that option."""

    def __init__(self, argument: str, message: str) -> None:
        """Name the argument, as the function spells it, and say what is wrong with its value."""
        super().__init__(message)
        self.argument = argument
