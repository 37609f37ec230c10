"""Where `procure` begins: Ctrl-C ends it in one line even while it is still importing."""

from __future__ import annotations

import sys


def run() -> None:
    """Import the command line and run it."""
    from procure.errors import INTERRUPTED

    try:
        from procure.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("procure: interrupted\n")
        sys.exit(INTERRUPTED)
    main.run()


if __name__ == "__main__":
    run()
