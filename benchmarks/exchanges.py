"""Exchanges around the leader at the end of a race, against the race without, and random packages, with as many runs.

python benchmarks/exchanges.py --centre example --out results/exchanges
python benchmarks/exchanges.py --centre beocat --data ../shared/data --out results/exchanges

A study's futures, the mean wait over them: what the package that is found waits, against the least that any arm found.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

import forward_claims as claims
import numpy as np
import pandas as pd

from procure import load_study, search
from procure.explorer import racing

EXAMPLE = Path(__file__).resolve().parent.parent / "pipelines" / "example.toml"


def study_of(arguments: argparse.Namespace) -> Path:
    """Write the study; return its path."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{arguments.centre}.toml"
    if arguments.centre == "beocat":
        text = claims.beocat(arguments, claims.MONTHS[:1]).read_text()
    else:
        quotes = (EXAMPLE.parent.parent / "quotes" / "example-2023.csv").as_posix()
        text = EXAMPLE.read_text().replace("../quotes/example-2023.csv", quotes).replace('results = "../results"\n', "")
        text = text.replace('name = "example"\n', "").replace("k = 50\n", "k = 50\n[futures]\n")
    more = f'draws = {arguments.draws}\npast = false\n[recommend]\nobjective = "mean-wait"\n'
    text = text.replace("[recommend]\nk = 50\n", "") + more
    path.write_text(text)
    return path


def main() -> None:
    """Run every arm with every seed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--centre", choices=["example", "beocat"], default="example")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/exchanges"))
    parser.add_argument("--budget", type=int, default=1_000_000)
    parser.add_argument("--keep", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--packages", type=int, default=500, help="what the runs would be on all futures")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, nargs="+", default=[0.0, 0.3], help="of the runs, for exchanges")
    arguments = parser.parse_args()
    path = study_of(arguments)
    runs, rows = arguments.packages * arguments.draws, []
    arms = [("random", 0.0), *(("race", share) for share in arguments.share)]
    for seed in range(1, arguments.seeds + 1):
        for method, share in arms:
            racing.NEAR_SHARE, began = share, time.process_time()
            if method == "random":  # a search is continued where one is there
                shutil.rmtree(load_study(path).folder / "search", ignore_errors=True)
            found = search(path, runs=runs, method=method, seed=seed)
            arm = "random packages" if method == "random" else f"race, {share:.0%} for exchanges"
            first = found.ranking.iloc[0]
            rows.append(
                {"arm": arm, "seed": seed, "wait": first["mean_wait_time"], "runs": found.spent["n_runs_asked"]}
            )
            print(*rows[-1].values(), first["package_id"], f"{time.process_time() - began:.0f} s CPU", flush=True)
    table = pd.DataFrame(rows)
    table["ratio"] = table["wait"] / table["wait"].min()
    grouped = table.groupby("arm", sort=False)["ratio"]
    print(grouped.agg(mean=lambda one: np.exp(np.log(one).mean()), worst="max").round(3).to_string())


if __name__ == "__main__":
    main()
