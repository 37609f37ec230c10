"""The one exception that a user sees as a sentence; alone here so that ``--help`` need not import pandas."""


class TableError(ValueError):
    """What was wrong with an input, where, what was given and what is allowed; shown to users as it is."""
