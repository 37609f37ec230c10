"""Where `procure` begins: Ctrl-C ends it in one line even while it is still importing."""

from __future__ import annotations

import importlib
import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def run() -> None:
    """Import the command line and run it."""
    try:
        main = importlib.import_module("procure.cli.main")
    except KeyboardInterrupt:
        sys.stderr.write("procure: interrupted\n")
        sys.exit(INTERRUPTED)
    main.run()
