"""Exchanges around the leader, of a race and of `procure recommend`, against none, and other packages for as many runs.

python benchmarks/exchanges.py --centre example --out results/exchanges
python benchmarks/exchanges.py --centre beocat --data ../shared/data --out results/exchanges
python benchmarks/exchanges.py --recommend --centre example --sample 1500 --draws 4 --seeds 3 --first-seed 4

A study's futures, the mean wait over them: what the package that is found waits, against the least that any arm found.
With ``--recommend`` a sweep of every n-th package (its offset and its futures have the seed), and its list: as it is
confirmed, with exchanges, and with as many runs for the next packages by the model or for random ones.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

import forward_claims as claims
import numpy as np
import pandas as pd

from procure import load_study, run_sweep, search
from procure.explorer import racing
from procure.recommender.criteria import criteria_of
from procure.recommender.exchanges import MOST_EXCHANGED, try_exchanges
from procure.recommender.learning import learn_values, simulator, values_of
from procure.recommender.rank import confirm_list, rank
from procure.recommender.values import PackageValues
from procure.sweep.results import load_results

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


def lists(path: Path, seed: int, sample: int) -> list[dict[str, object]]:
    """Return a row an arm: what the first package of a list waits, and how many packages were simulated for it."""
    text, one = path.read_text(), path.with_name(f"{path.stem}-{sample}-{seed}.toml")
    kept = [line for line in text.splitlines() if not line.startswith(("[sweep]", "sample ="))]
    text = "\n".join(kept).replace("draws =", f"seed = {seed}\ndraws =")
    one.write_text(f"{text}\n[sweep]\nsample = {sample}\noffset = {seed}\n")
    run_sweep(load_study(one))
    results = load_results(one)
    criteria = criteria_of(results.plan.study)

    def confirmed() -> PackageValues:
        values = values_of(results, criteria)
        values.simulate = simulator(results, list(values.results), [])
        learn_values(values, results, criteria)
        confirm_list(values, criteria, MOST_EXCHANGED)
        return values

    rows, rng = [], np.random.default_rng(seed)
    for arm in ("the list as it is confirmed", "exchanges", "the next by the model", "random packages"):
        values, began = confirmed(), time.process_time()
        before = values.simulated.sum()
        if arm == "exchanges":
            try_exchanges(values, criteria, results.counts, MOST_EXCHANGED)
        order = rank(values, criteria, hopeful=True)
        others = order[values.whole.runs_all[order] & ~values.simulated[order]]
        if arm in ("the next by the model", "random packages"):
            more = (rng.permutation(others) if arm == "random packages" else others)[:MOST_EXCHANGED]
            values.confirm(lambda more=more: more)
        order, figure = rank(values, criteria), values.value(criteria.objective)[0]
        wait = float(figure[order[values.simulated[order]][0]])
        n = int(values.simulated.sum())
        rows.append({"arm": arm, "seed": seed, "wait": wait, "runs": n * len(values.cases)})
        print(*rows[-1].values(), f"{n - before} more packages, {time.process_time() - began:.0f} s CPU", flush=True)
    return rows


def say(rows: list[dict[str, object]]) -> None:
    """Print each arm over the least wait of a seed, or, for races, of all that draw the same futures."""
    table = pd.DataFrame(rows)
    table["ratio"] = table["wait"] / table.groupby("of")["wait"].transform("min")
    grouped = table.groupby("arm", sort=False)["ratio"]
    print(grouped.agg(mean=lambda one: np.exp(np.log(one).mean()), worst="max").round(3).to_string())


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
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--recommend", action="store_true", help="a sweep and its list in place of a race")
    parser.add_argument("--sample", type=int, default=1500, help="one of so many packages is swept")
    arguments = parser.parse_args()
    path = study_of(arguments)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if arguments.recommend:
        say([row | {"of": seed} for seed in seeds for row in lists(path, seed, arguments.sample)])
        return
    runs, rows = arguments.packages * arguments.draws, []
    arms = [("random", 0.0), *(("race", share) for share in arguments.share)]
    for seed in seeds:
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
    say([row | {"of": 0} for row in rows])


if __name__ == "__main__":
    main()
