"""Energy by the hour, reckoned and simulated: `python benchmarks/energy_by_hour.py`.

Some packages of the example study on its four weeks of made-up jobs; made-up files: electricity by the hour, dear in
the evening, and a curve that rises steeply at first. What `procure.packages.costs.total_costs` reckons of each package
beside what its simulated schedule takes, node by node; of a straight curve between idle and busy, too.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from procure.packages.costs import Costs, energy_of_schedule, total_costs
from procure.study import load_plan, load_study
from procure.sweep.trial import replayed

STUDY = Path(__file__).resolve().parent.parent / "pipelines" / "example.toml"
BENT = {0: 0.4, 20: 0.7, 60: 0.9, 100: 1.0}
WATTS_PER_CPU, WATTS_PER_GPU = 8, 300


def files(folder: Path, quotes: pd.DataFrame) -> dict[str, Costs]:
    """Write prices and curves, and return the costs by the name of the curve."""
    price = [0.08 if hour < 7 else 0.25 if 17 <= hour < 21 else 0.16 for hour in range(24)]
    pd.DataFrame({"hour": range(24), "usd_per_kwh": price}).to_csv(folder / "prices.csv", index=False)
    busy = 100 + WATTS_PER_CPU * quotes["cpus"] + WATTS_PER_GPU * quotes["gpus"]
    found = {}
    for name, shape in (("straight", {0: BENT[0], 100: 1.0}), ("bent", BENT)):
        rows = [
            {"name": of, "load_pct": load, "power_w": watts * share}
            for of, watts in zip(quotes["name"], busy, strict=True)
            for load, share in shape.items()
        ]
        pd.DataFrame(rows).to_csv(folder / f"{name}.csv", index=False)
        found[name] = Costs(energy_prices=folder / "prices.csv", power_curves=folder / f"{name}.csv")
    return found


def main() -> None:
    """Print a row per package and curve."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--packages", type=int, default=4, help="how many, evenly chosen from the list")
    n = arguments.parse_args().packages
    plan = load_plan(load_study(STUDY))
    rows = plan.sampled_rows[np.linspace(0, len(plan.sampled_rows) - 1, n).astype(int)]
    packages = plan.packages.iloc[rows]
    [(name, jobs)] = plan.workloads.items()
    window = (int(jobs["submit_time"].min()) + plan.warm_up(name), int(jobs["submit_time"].max()))
    print("| package | busy | jobs left out | curve | MWh reckoned | simulated | US$ a year reckoned | simulated |")
    with tempfile.TemporaryDirectory() as folder:
        for curve, costs in files(Path(folder), plan.quotes).items():
            reckoned = total_costs(packages, plan.quotes, costs, plan.work)
            for i, row in enumerate(rows):
                counts = plan.packages.iloc[row][plan.types].to_numpy(np.int64)
                run, nodes = replayed(plan, counts, name, "best-fit")
                found = energy_of_schedule(run.schedule, nodes, plan.quotes, costs, window, int(counts.sum()))
                one = reckoned.iloc[i]
                print(
                    f"| {one['package_id']} | {one['busy_share']:.2f} "
                    f"| {run.metrics['n_unrunnable'] / len(jobs):.1%} | {curve} "
                    f"| {one['energy_kwh_per_year'] / 1000:,.1f} | {found['energy_kwh_per_year'] / 1000:,.1f} "
                    f"| {one['energy_usd'] / costs.years:,.0f} | {found['energy_usd_per_year']:,.0f} |"
                )


if __name__ == "__main__":
    main()
