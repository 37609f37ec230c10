"""Where the package's lines come from: net lines of `procure/*.py` since a commit, by what each commit was for.

    python benchmarks/house_size.py            # since 4611fed, when the rooms were laid out anew
    python benchmarks/house_size.py --commits  # commit by commit

Every commit counts whole, under one head. Those of the layout (issue 11) are named below, or carry the trailer
`Issue: 11`; all others brought abilities, which that issue does not count. The heads add up to the difference that
`git diff --numstat` tells, so that nothing is left out.
"""

from __future__ import annotations

import argparse
import subprocess
from collections import Counter

SINCE = "4611fed"
TRAILER = "Issue: 11"

LAYOUT = (
    "7c5becb", "44e8277", "1561ddc", "f1084c3", "7bcfcd1", "16ea347", "3a67cee", "fcbd646", "b288e52", "c156962",
    "ee1f448", "0c5c0b5", "1057620", "a058824", "f255de8", "bd71ae8", "127cfba", "14331f9", "3272e24", "dbe8515",
    "bc242a1", "1b4f404", "80ed291", "f568bf6", "fec603f", "c5f95c2", "d1f82af", "07b8e15", "775abc3", "0234746",
    "3a381b0", "c772610", "2e6ba0f", "6c3f7ab", "6debeec", "911bc19", "2dfb500", "0049b5a", "b875bb5", "f701fe4",
)  # fmt: skip
"""The rooms, the one recommender, the library's functions, the words: what had to get smaller."""

SEAMS = (
    "6664d55", "9284a89", "5f51e5b", "2bd0bb7", "460fb3a",
)  # fmt: skip
"""Parameters of policies, wake and pace, runs that are laid out once: item 4, not counted."""


def commits(since: str) -> list[tuple[str, str, int, int, str]]:
    """Return (commit, head, lines added, lines removed, subject) of each commit that changed the package."""
    form = "--format=%x01%h%x02%s%x02%b%x02"
    command = ["git", "log", "--no-merges", "--reverse", "--numstat", form, f"{since}..HEAD", "--"]
    command += ["procure/*.py", "procure/**/*.py"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = []
    for record in shown.split("\x01")[1:]:
        name, subject, body, numbers = record.split("\x02")
        counts = [line.split("\t")[:2] for line in numbers.strip().splitlines()]
        added, removed = (sum(int(one[i]) for one in counts) for i in (0, 1))
        ours = any(name.startswith(one) for one in LAYOUT) or TRAILER in body
        seam = any(name.startswith(one) for one in SEAMS)
        rows.append((name, "layout" if ours else "seams" if seam else "abilities", added, removed, subject))
    return rows


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--since", default=SINCE)
    options.add_argument("--commits", action="store_true", help="a line per commit")
    given = options.parse_args()
    rows = commits(given.since)
    if given.commits:
        for name, head, added, removed, subject in rows:
            print(f"{name}  {head:<9}  {added - removed:+6,}  {subject}")
    n, plus, minus = Counter(), Counter(), Counter()
    for _, head, added, removed, _ in rows:
        n[head] += 1
        plus[head] += added
        minus[head] += removed
    print(f"{'head':<10}{'commits':>8}{'added':>9}{'removed':>9}{'net':>9}")
    for head in ("layout", "seams", "abilities"):
        print(f"{head:<10}{n[head]:>8,}{plus[head]:>9,}{minus[head]:>9,}{plus[head] - minus[head]:>+9,}")
    print(
        f"{'all':<10}{len(rows):>8,}{plus.total():>9,}{minus.total():>9,}{plus.total() - minus.total():>+9,}"
    )


if __name__ == "__main__":
    main()
