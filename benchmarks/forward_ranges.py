"""Whether the stated 90 % range can be told from others (docs/claims/forward.md), with the cells of forward_cells.py.

python benchmarks/forward_ranges.py --centre beocat wagap
python benchmarks/forward_ranges.py

Cells of one cut of one log share what came, so they are wrong together. Printed are how many ranges would hold, pooled,
if all that is stated were true; and plainer ranges, a wait over and times a constant, learnt from the other cuts.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from forward_chances import LISTED, Cell, figures, read_cells

from procure.models.intervals import SHARE
from procure.objectives.aggregate import REGRET_FLOOR
from procure.recommender.chances import draw_periods, learn_drift

ASKED = 0.80, 0.97
LEAST = REGRET_FLOOR / 6
"""Waits below it are not told apart, as in `procure.recommender.chances`."""
WORLDS = 4000


def moment_of(cell: Cell) -> str:
    """Return the log and the cut of a cell."""
    return f"{cell.centre} {cell.name.split('.')[-1]}"


def drawn_and_came(cell: Cell) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, in logarithms, what is drawn of the first packages, what came of them, and their past.

    Shapes: float64[draws, packages], and twice float64[packages]. The cells of a cut draw the same random numbers, so
    row i of each is one period, with the covariance that the rule itself states.
    """
    order = np.argsort(figures(cell)["recommended"], kind="stable")[:LISTED]
    waits = cell.futures[:, 0]
    look = draw_periods(waits, cell.past[0, 0], order, learn_drift(cell.past[1:, 0], waits))
    place = {int(row): i for i, row in enumerate(look.rows)}
    drawn = look.figures[:, [place[int(row)] for row in order]]
    return tuple(np.log(np.maximum(one, LEAST)) for one in (drawn, cell.came[order], cell.past[0, 0, order]))


def say_worlds(held: list[np.ndarray], moments: np.ndarray) -> None:
    """Print which share of the ranges holds if what is stated is true: one drawn period for each cut.

    ``held``: by cell, which drawn period lies in the range of which package, bool[draws, packages].
    """
    rng, share = np.random.default_rng(1), []
    for _ in range(WORLDS):
        of = {moment: rng.integers(len(held[0])) for moment in np.unique(moments)}
        share.append(np.concatenate([one[of[moment]] for one, moment in zip(held, moments, strict=True)]).mean())
    low, high = np.quantile(share, (0.025, 0.975))
    within = np.mean([ASKED[0] <= one <= ASKED[1] for one in share])
    n = np.mean(share) * (1 - np.mean(share)) / np.var(share)
    print(f"  if true: {low:.0%} to {high:.0%} of them hold (95 % of {WORLDS:,} draws), as {n:.1f} independent errors; "
          f"{ASKED[0]:.0%} to {ASKED[1]:.0%} in {within:.0%} of the draws")  # fmt: skip


def say_ranges(drawn: list[np.ndarray], came: np.ndarray, past: np.ndarray, moments: np.ndarray) -> None:
    """Print which ranges hold what came, and how wide they are: the stated ones, and a constant about a middle."""
    ends = np.array([np.quantile(one, ((1 - SHARE) / 2, (1 + SHARE) / 2), axis=0) for one in drawn])
    low, high = ends[:, 0], ends[:, 1]
    middle, half = (low + high) / 2, (high - low) / 2
    stated = (came >= low) & (came <= high)
    print(f"  stated: {stated.mean():.0%} held, a factor of {np.exp(np.median(high - low)):.1f} at the median")
    one = np.ones_like(past)
    for name, about, unit in (
        ("past, a constant", past, one), ("stated middle, a constant", middle, one), ("stated, scaled", middle, half),
    ):  # fmt: skip
        off = np.abs(came - about) / unit
        after = np.quantile(off, SHARE)
        print(f"  {name}: afterwards {np.exp(np.median(2 * after * unit)):.1f}", end="")
        for how in ("other cuts", "earlier cuts of the log"):
            least, width = [], []
            for moment in np.unique(moments):
                mine = moments == moment
                known = ~mine
                if how != "other cuts":
                    log, cut = moment.split()
                    known = np.array([text.split()[0] == log and text.split()[1] < cut for text in moments])
                if not known.any():
                    continue
                k = np.quantile(off[known], SHARE)
                least.append((off[mine] <= k).ravel())
                width.append((2 * k * unit[mine]).ravel())
            if least:
                held = np.concatenate(least)
                factor = np.exp(np.median(np.concatenate(width)))
                print(f"; from {how} {held.mean():.0%} of {len(held)} held, {factor:.1f}", end="")
        print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/forward-cells"))
    parser.add_argument("--kind", default="learnt")
    parser.add_argument("--centre", nargs="+", help="instead of all")
    arguments = parser.parse_args()
    cells = read_cells(arguments.out, arguments.kind, arguments.centre)
    moments = np.array([moment_of(cell) for cell in cells])
    found = [drawn_and_came(cell) for cell in cells]
    for name, first in (("first package", 1), (f"first {LISTED}", LISTED)):
        drawn, came, past = ([one[i][..., :first] for one in found] for i in range(3))
        ends = [np.quantile(one, ((1 - SHARE) / 2, (1 + SHARE) / 2), axis=0) for one in drawn]
        print(f"{name}: {len(cells)} cells of {len(np.unique(moments))} cuts")
        say_worlds([(one >= end[0]) & (one <= end[1]) for one, end in zip(drawn, ends, strict=True)], moments)
        say_ranges(drawn, np.array(came), np.array(past), moments)


if __name__ == "__main__":
    main()
