"""The rules on centres on which nothing was chosen (docs/claims/forward.md): Graham, KTH's SP2 and SDSC's Blue Horizon.

python benchmarks/forward_elsewhere.py run --centre graham --budget 2000000 2500000 --packages 40 --runs 300
python benchmarks/forward_elsewhere.py run --centre kth --budget 300000 350000 400000
python benchmarks/forward_elsewhere.py run --centre sdsc --budget 600000 700000
python benchmarks/forward_elsewhere.py table

``run`` is `procure evaluate --forward` as it is, without the inner backtest; ``table`` puts the cells together.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from forward_claims import QUOTES, STOCKHOLM

from procure import import_log
from procure.objectives.aggregate import REGRET_FLOOR
from procure.recommender import candidates
from procure.recommender.forward import forward
from procure.tables import with_clock, write
from procure.workload.clock import day_bounds

PACIFIC = "America/Los_Angeles"
DAY, BEFORE, AFTER = 86_400, 91, 28
MOST_CPUS, MOST_MEM_MB, MOST_GPUS = 1024, 1_000_000, 8
RULES = (
    "recommended", "past", "past-and-parts", "futures", "futures-mean", "mean-day", "cheapest-per-cpu", "most-cpus",
)  # fmt: skip


def graham(data: Path) -> pd.DataFrame:
    """Return Graham's jobs (Digital Research Alliance of Canada, 2021) that were pending at some noon.

    Their times are local and taken as they are. CPUs, memory and GPUs of a job are even over its nodes, rounded up;
    jobs of more than `MOST_CPUS` CPUs, or of more memory or GPUs on a node than a quoted type has, are left out.
    """
    rows = pd.read_parquet(data / "drac_2021" / "graham_submit_days_0501-0609.parquet")
    nodes = rows["alloc_nodes"].clip(lower=1).astype("int64")
    each = {name: -(-rows[of].astype("int64") // nodes) for name, of in
            (("cpus", "req_cpus"), ("mem_mb", "req_mem_total"), ("gpus", "req_gpus"))}  # fmt: skip
    jobs = pd.DataFrame(
        {
            "job_id": rows["job_unique_id"].astype(str), "user": rows["account_id"].astype(str),
            "submit_time": rows["submit_time"].astype("datetime64[s]").astype("int64"),
            "requested_time": np.maximum(rows["time_limit_sec"], rows["elapsed_time"]).astype("int64"),
            "run_time": rows["elapsed_time"].astype("int64"), "n_nodes": nodes,
            **{f"{name}_per_node": one for name, one in each.items()},
        }
    )  # fmt: skip
    some = (rows["req_cpus"] <= MOST_CPUS) & (each["mem_mb"] <= MOST_MEM_MB) & (each["gpus"] <= MOST_GPUS)
    print(f"graham: {len(jobs):,} jobs, {int((~some).sum()):,} of them left out")
    return _in_order(jobs[some])


def kth(data: Path) -> pd.DataFrame:
    """Return KTH's: each processor that a job had, a node of its own there, is 24 CPUs of a node.

    Jobs of more than 32 nodes are left out: nodes of a job are different ones, and so few are bought.
    """
    return _whole_nodes(data / "pwa" / "KTH-SP2-1996-2.1-cln.swf.xz", 1, 32)


def sdsc(data: Path) -> pd.DataFrame:
    """Return SDSC's: each eight processors that a job had, a node there, are 24 CPUs of a node; without > 64 nodes."""
    return _whole_nodes(data / "pwa" / "SDSC-BLUE-2000-4.2-cln.swf.xz", 8, 64)


def _whole_nodes(path: Path, of: int, most: int) -> pd.DataFrame:
    jobs = import_log(path, "swf", skip_bad_rows=True).jobs
    jobs = jobs.assign(n_nodes=-(-jobs["n_nodes"] // of), cpus_per_node=24)
    wide, held = jobs["n_nodes"] > most, jobs["n_nodes"] * jobs["run_time"]
    print(f"{path.name}: {len(jobs):,} jobs, {int(wide.sum()):,} of more than {most} nodes left out, "
          f"{held[wide].sum() / held.sum():.0%} of the load")  # fmt: skip
    return _in_order(jobs[~wide])


def _in_order(jobs: pd.DataFrame) -> pd.DataFrame:
    return jobs.sort_values("submit_time", kind="stable", ignore_index=True)


CENTRES = {"graham": (graham, "UTC"), "kth": (kth, STOCKHOLM), "sdsc": (sdsc, PACIFIC)}
CUTS = {
    "graham": ["2021-05-23", "2021-05-27", "2021-05-31"],
    "kth": ["1997-01-01", "1997-03-01", "1997-05-01", "1997-07-01"],
    "sdsc": ["2000-09-01", "2001-03-01", "2001-09-01", "2002-03-01", "2002-09-01"],
}


def run(arguments: argparse.Namespace) -> None:
    """Buy for a centre as of each cut and budget."""
    read, tz = CENTRES[arguments.centre]
    arguments.out.mkdir(parents=True, exist_ok=True)
    jobs = read(arguments.data)
    for cut in arguments.cut or CUTS[arguments.centre]:
        at = day_bounds(cut, tz)[0]
        near = candidates.between(jobs, at - BEFORE * DAY, at + AFTER * DAY)
        for budget in arguments.budget:
            began, stem = time.process_time(), f"{arguments.centre}-{budget}.{cut}"
            kept = arguments.out / f"{stem}.csv"
            if kept.exists():
                continue
            write(with_clock(near, "unix"), arguments.out / f"{stem}.parquet")
            path = arguments.out / f"{stem}.toml"
            path.write_text(
                f'quotes = "{QUOTES}"\n[packages]\nbudget_usd = {budget}\nmin_gpu_nodes = 0\n'
                f'[[workloads]]\nname = "{arguments.centre}"\njobs = "{stem}.parquet"\nwarm_up = "3d"\ntz = "{tz}"\n'
                f'[futures]\ntz = "{tz}"\n'
            )
            found = forward(path, [cut], n_packages=arguments.packages, runs=arguments.runs, earlier=0, note=print)
            print(found.summary(), f"{time.process_time() - began:.0f} s CPU", sep="\n", flush=True)
            found.table.to_csv(kept, index=False)


def table(arguments: argparse.Namespace) -> None:
    """Put the cells together: ratios of each rule, and geometric mean, median and worst by centre and of all."""
    paths = sorted(arguments.out.glob("*.csv"))
    rows = pd.concat([pd.read_csv(path).assign(cell=path.stem) for path in paths])
    ratio = rows.pivot_table(index="cell", columns="rule", values="ratio")[list(RULES)]
    first = rows.drop_duplicates("cell").set_index("cell")
    ratio["random"] = first["random_ratio"]
    shown = ratio.assign(best_min=first["best_mean_wait_time"] / 60, saturated=first["share_saturated"])
    print(shown.round(2).to_string())
    idle = ratio["random"] <= 1 + 1e-9
    print(f"{int(idle.sum())} of {len(ratio)} cells in which all wait less than {REGRET_FLOOR:.0f} s on each candidate")
    centre = ratio.index.str.split("-").str[0]
    for name in (*sorted(set(centre)), "all"):
        log = np.log(ratio[((centre == name) | (name == "all")) & ~idle])
        of = np.exp(pd.DataFrame({"mean": log.mean(), "median": log.median(), "worst": log.max()}))
        print(f"{name}, {len(log)} cells", of.round(2).T.to_string(), sep="\n")
    ours = rows[rows["rule"] == "recommended"].set_index("cell")[~idle]
    held = ours["mean_wait_time"].between(ours["low_wait_time"], ours["high_wait_time"])
    factor = ours["high_wait_time"].clip(lower=1) / ours["low_wait_time"].clip(lower=1)
    print(f"recommended: the 90 % range held {held.sum()} of {len(ours)}, a factor of {factor.median():.1f} (median)")
    for name, most in (("best", 1 + 1e-9), ("near", 1.05)):
        print(f"  {name}: stated {ours[f'{name}_chance'].mean():.0%}, true {(ours['ratio'] <= most).mean():.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("--centre", choices=list(CENTRES), default="graham")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/forward-elsewhere"))
    parser.add_argument("--budget", type=int, nargs="+", default=[1_600_000])
    parser.add_argument("--cut", nargs="+", help="instead of the centre's")
    parser.add_argument("--packages", type=int, default=60)
    parser.add_argument("--runs", type=int, default=500)
    arguments = parser.parse_args()
    {"run": run, "table": table}[arguments.what](arguments)


if __name__ == "__main__":
    main()
