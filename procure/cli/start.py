"""Where `procure` begins: Ctrl-C ends it in one line even while it is still importing."""

from __future__ import annotations

import os
import sys


def run() -> None:
    """Import the command line and run it."""
    if sys.argv[1:2] == ["serve"]:  # read as Arrow is imported; what its own pool has taken, a service keeps for ever
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from procure.errors import INTERRUPTED

    try:
        from procure.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("procure: interrupted\n")
        sys.exit(INTERRUPTED)
    main.run()


if __name__ == "__main__":
    run()
