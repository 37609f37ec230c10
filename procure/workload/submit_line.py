"""What a job was asked for on its command line, sacct's SubmitLine: what the accounting's other fields do not tell."""

from __future__ import annotations

import argparse
import re
import shlex
from typing import NoReturn


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("-d", "--dependency", default="")
    parser.add_argument("-a", "--array", default="")
    parser.add_argument("-L", "--licenses", default="")
    parser.add_argument("--exclusive", default="")
    parser.add_argument("--nice", default="")
    return parser


_PARSER = _parser()


def read_submit_line(text: str) -> tuple[str, float, str, str, float, bool]:
    """Read a line such as ``sbatch -n 16 --dependency=afterok:41 --array=0-9%2 run.sh``.

    Parameters
    ----------
    text
        The line; empty or ``(null)`` where there is none.

    Returns
    -------
    tuple
        ``dependency``, ``array_limit`` (tasks that may run at once, 0 = all), ``exclusive`` (``1`` or empty),
        ``licenses``, ``nice``, and whether the line cannot be read.
    """
    nothing = ("", 0.0, "", "", 0.0)
    if text in ("", "(null)", "Unknown"):
        return *nothing, False
    try:
        words = shlex.split(text)
        known, _ = _PARSER.parse_known_args(_options(words[1:]))
        limit = re.search(r"%(\d+)$", known.array)
        nice = float(known.nice or 0)
    except ValueError:
        return *nothing, True
    # Of --exclusive=user and the like the nodes are shared with the same user's jobs.
    whole = "1" if known.exclusive == "1" else ""
    return known.dependency, float(limit[1]) if limit else 0.0, whole, known.licenses, nice, False


_BARE = frozenset(
    "--contiguous --get-user-env --hold -H --ignore-pbs --no-kill -k --no-requeue --overcommit -O --oversubscribe -s "
    "--parsable --pty --quiet -Q --reboot --requeue --spread-job --test-only --use-min-nodes --verbose -v --wait "
    "-W".split()
)
"""Options that take no value, so that what follows one may be the script."""


def _options(words: list[str]) -> list[str]:
    """Return the words before the script, what stands behind it being the script's own; bare flags get their value."""
    taken: list[str] = []
    for word in words:
        before = taken[-1] if taken else ""
        if not word.startswith("-") and (not before.startswith("-") or "=" in before or before in _BARE):
            break
        taken.append({"--exclusive": "--exclusive=1", "--nice": "--nice=100"}.get(word, word))
    return taken
