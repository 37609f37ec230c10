"""Time the Pareto front beside a naive one, on easy and on the hardest points.

    python benchmarks/pareto.py
    python benchmarks/pareto.py --points 100000

``naive`` takes one point after the other and drops all that it dominates, the usual dozen lines of
NumPy; it is left out where the front is too large for it. Where moocore is installed, it is timed too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from procure.objectives.pareto import front

MOST_FOR_NAIVE = 2_000


def naive(points: np.ndarray) -> np.ndarray:
    left = np.arange(len(points))
    i = 0
    while i < len(left):
        mine = points[left[i]]
        keep = (points[left] < mine).any(axis=1) | (points[left] == mine).all(axis=1)
        i = int(keep[:i].sum()) + 1
        left = left[keep]
    found = np.zeros(len(points), dtype=bool)
    found[left] = True
    return found


def sets(n: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)

    def shell(dimensions: int) -> np.ndarray:
        points = np.abs(rng.normal(size=(n, dimensions)))
        return 1 - points / np.linalg.norm(points, axis=1)[:, None]

    return {
        "2 dimensions, uniform": rng.random((n, 2)),
        "3 dimensions, uniform": rng.random((n, 3)),
        "3 dimensions, 100 values each": rng.integers(0, 100, (n, 3)).astype(float),
        "3 dimensions, at most 50,000, all on the front": shell(3)[:50_000],
        "4 dimensions, uniform": rng.random((n, 4)),
    }


def seconds(call: Callable[[np.ndarray], np.ndarray], points: np.ndarray) -> tuple[float, np.ndarray]:
    began = time.perf_counter()
    found = call(points)
    return time.perf_counter() - began, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    others: dict[str, Callable[[np.ndarray], np.ndarray]] = {"naive": naive}
    try:
        from moocore import is_nondominated

        others["moocore"] = lambda points: is_nondominated(points, keep_weakly=True)
    except ImportError:
        pass
    print(
        f"{asked.points:,} points",
        *(f"{name:>12}" for name in ("on the front", "procure", *others)),
        sep="  ",
    )
    for name, points in sets(asked.points, asked.seed).items():
        taken, found = seconds(front, points)
        cells = [f"{int(found.sum()):>12,}", f"{taken:>10.2f} s"]
        for other, call in others.items():
            if other == "naive" and found.sum() > MOST_FOR_NAIVE:
                cells.append(f"{'–':>12}")
                continue
            taken, same = seconds(call, points)
            assert (same == found).all(), other
            cells.append(f"{taken:>10.2f} s")
        print(f"{name:32}", *cells, sep="  ")


if __name__ == "__main__":
    main()
