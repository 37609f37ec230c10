"""The rules on centres on which nothing was chosen (docs/claims/forward.md).

With several classes of jobs: Graham, MIT SuperCloud, Alibaba's openb; of whole nodes: KTH's SP2, SDSC's Blue Horizon.

python benchmarks/forward_elsewhere.py run --centre graham0 --budget 700000 --packages 24 --runs 120 --draws 5
python benchmarks/forward_elsewhere.py run --centre supercloud --budget 400000 600000 800000
python benchmarks/forward_elsewhere.py run --centre openb --budget 200000 300000 400000
python benchmarks/forward_elsewhere.py run --centre kth --budget 300000 350000 400000
python benchmarks/forward_elsewhere.py run --centre sdsc --budget 600000 700000
python benchmarks/forward_elsewhere.py table
python benchmarks/forward_elsewhere.py odd-days --centre supercloud --budget 400000 600000 800000

``run`` is `procure evaluate --forward` as it is, without the inner backtest; ``table`` puts the cells together;
``odd-days`` is what knowing every other day of what came gives on the days between, with the same packages.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from forward_choice import WARM_UP, replay
from forward_claims import QUOTES, STOCKHOLM

from procure import import_log, load_plan, load_study
from procure.objectives.aggregate import REGRET_FLOOR
from procure.recommender import candidates
from procure.recommender.forward import forward
from procure.tables import with_clock, write
from procure.workload.clock import day_bounds

EASTERN, PACIFIC = "America/New_York", "America/Los_Angeles"
DAY, BEFORE, AFTER = 86_400, 91, 28
MOST_CPUS, MOST_MEM_MB, MOST_GPUS, MOST_NODES = 64, 1_000_000, 8, 16
OPENB_BEGIN = 115 * DAY
RULES = (
    "recommended", "past", "past-and-parts", "futures", "futures-mean", "mean-day", "cheapest-per-cpu", "most-cpus",
)  # fmt: skip


def graham(data: Path, quarter: int) -> pd.DataFrame:
    """Return the jobs of a quarter of the accounts of Graham (Digital Research Alliance of Canada, 2021).

    The log has what was pending at some noon. Times are local and taken as they are. A replay of all accounts takes
    10 to 25 s, since most packages saturate; the accounts of a quarter are every fourth by number.
    """
    rows = pd.read_parquet(data / "drac_2021" / "graham_submit_days_0501-0609.parquet")
    account = np.unique(rows["account_id"], return_inverse=True)[1]
    rows = rows[account % 4 == quarter]
    jobs = _table(rows["job_unique_id"], rows["account_id"], rows["submit_time"].astype("datetime64[s]"),
                  rows["elapsed_time"], rows["alloc_nodes"].clip(lower=1).astype("int64"),
                  {"cpus": rows["req_cpus"], "mem_mb": rows["req_mem_total"], "gpus": rows["req_gpus"]})  # fmt: skip
    limit = np.maximum(rows["time_limit_sec"], rows["elapsed_time"]).astype("int64")
    return _within(f"graham, quarter {quarter}", jobs.assign(requested_time=limit), MOST_NODES)


def supercloud(data: Path) -> pd.DataFrame:
    """Return MIT SuperCloud's jobs (2021) by what they asked for, evenly over their nodes, rounded up.

    Its author kept one job of each second, and runs of 300 s or more. Jobs of more than `MOST_NODES` nodes are left
    out, and those that ask for more of a node than a quoted type has.
    """
    rows = pd.read_csv(data / "gpu_jobs" / "supercloud_2021.csv.xz")
    asked = pd.DataFrame([dict(one.split("=") for one in text.split(",")) for text in rows["tres_req"]])
    asked = asked.fillna("0").astype("int64")
    nodes = asked["4"].clip(lower=1)
    jobs = _table(rows.index, rows["id_user"], rows["time_submit"], rows["service_time"], nodes,
                  {"cpus": asked["1"], "mem_mb": asked["2"], "gpus": asked["1002"]})  # fmt: skip
    return _within("supercloud", jobs, MOST_NODES)


def openb(data: Path) -> pd.DataFrame:
    """Return the pods of Alibaba's GPU-sharing cluster (2023) from the day on when it was busy; it has no users.

    Those that were never scheduled have no run time and are left out; a shared GPU counts as a whole one.
    """
    rows = pd.read_csv(data / "alibaba_openb_2023" / "openb_pod_list_default.csv.xz")
    rows = rows[rows["scheduled_time"].notna() & (rows["creation_time"] >= OPENB_BEGIN)]
    size = {
        "cpus": -(-rows["cpu_milli"] // 1000),
        "mem_mb": rows["memory_mib"] * 2**20 // 10**6,
        "gpus": rows["num_gpu"],
    }
    run_time = rows["deletion_time"] - rows["scheduled_time"]
    one = pd.Series(1, index=rows.index)
    return _within("openb", _table(rows["name"], None, rows["creation_time"], run_time, one, size), 1)


def _table(
    name: pd.Series | pd.Index, user: pd.Series | None, submit: pd.Series, run_time: pd.Series, nodes: pd.Series,
    size: dict[str, pd.Series],
) -> pd.DataFrame:  # fmt: skip
    """Return a job table; run times are what is asked for, since the logs keep no limit that is one."""
    jobs = pd.DataFrame(
        {
            "job_id": name.astype(str), "submit_time": submit.astype("int64"), "n_nodes": nodes,
            "run_time": run_time.astype("int64"), "requested_time": run_time.astype("int64"),
            **{f"{of}_per_node": -(-one.astype("int64") // nodes) for of, one in size.items()},
        }
    )  # fmt: skip
    return jobs if user is None else jobs.assign(user=user.astype(str))


def _within(centre: str, jobs: pd.DataFrame, most_nodes: int) -> pd.DataFrame:
    """Leave out jobs that no quoted type has room for, or of too many nodes."""
    most = {"cpus_per_node": MOST_CPUS, "mem_mb_per_node": MOST_MEM_MB, "gpus_per_node": MOST_GPUS}
    fits = (jobs[list(most)] <= pd.Series(most)).all(axis=1) & (jobs["n_nodes"] <= most_nodes)
    print(f"{centre}: {len(jobs):,} jobs, {int((~fits).sum()):,} of them left out")
    return _in_order(jobs[fits])


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


CENTRES = {
    **{f"graham{quarter}": (partial(graham, quarter=quarter), "UTC") for quarter in range(4)},
    "supercloud": (supercloud, EASTERN), "openb": (openb, "UTC"),
    "kth": (kth, STOCKHOLM), "sdsc": (sdsc, PACIFIC),
}  # fmt: skip
CUTS = {
    **{f"graham{quarter}": ["2021-05-24", "2021-05-31"] for quarter in range(4)},
    "supercloud": ["2021-02-15", "2021-02-22", "2021-03-01"],
    "openb": ["1970-05-18", "1970-05-21", "1970-05-24"],
    "kth": ["1997-01-01", "1997-03-01", "1997-05-01", "1997-07-01"],
    "sdsc": ["2000-09-01", "2001-03-01", "2001-09-01", "2002-03-01", "2002-09-01"],
}


def study_of(arguments: argparse.Namespace, cut: str, budget: int) -> Path:
    """Write the study of a centre as of a cut: a quarter before it, `AFTER` days after it."""
    read, tz = CENTRES[arguments.centre]
    arguments.out.mkdir(parents=True, exist_ok=True)
    at = day_bounds(cut, tz)[0]
    near = candidates.between(read(arguments.data), at - BEFORE * DAY, at + AFTER * DAY)
    path = arguments.out / f"{arguments.centre}-{budget}-{cut}.toml"
    write(with_clock(near, "unix"), path.with_suffix(".parquet"))
    path.write_text(
        f'quotes = "{QUOTES}"\n[packages]\nrules = "published"\nbudget_usd = {budget}\nmin_gpu_nodes = 0\n'
        f'[[workloads]]\nname = "{arguments.centre}"\njobs = "{path.stem}.parquet"\nwarm_up = "3d"\ntz = "{tz}"\n'
        f'[futures]\ntz = "{tz}"\ndraws = {arguments.draws}\n'
    )
    return path


def run(arguments: argparse.Namespace) -> None:
    """Buy for a centre as of each cut and budget."""
    for cut in arguments.cut or CUTS[arguments.centre]:
        for budget in arguments.budget:
            path, began = study_of(arguments, cut, budget), time.process_time()
            kept = path.with_suffix(".csv")
            if kept.exists():
                continue
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
    centre = ratio.index.str.split("-").str[0].str.rstrip("0123456789")
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


def odd_days(arguments: argparse.Namespace) -> None:
    """Print what knowing every other day of what came gives: each cell; geometric mean, median and worst of all."""
    ratios = []
    for cut in arguments.cut or CUTS[arguments.centre]:
        at = day_bounds(cut, CENTRES[arguments.centre][1])[0]
        for budget in arguments.budget:
            path = study_of(arguments, cut, budget)
            plan = load_plan(load_study(path).model_copy(update={"futures": None}))
            (jobs,) = plan.workloads.values()
            before = candidates.between(jobs, 0, at)
            field = candidates.draw_candidates(plan, "best-fit", before, arguments.packages, seed=1)
            held = replay(field, candidates.between(jobs, at - WARM_UP * DAY, at + AFTER * DAY), WARM_UP + AFTER)
            waited, n = held["waited"].sum(axis=2)[:, WARM_UP:], held["jobs"].sum(axis=1)[WARM_UP:]
            even, odd = (waited[:, k::2].sum(axis=1) / n[k::2].sum() for k in (0, 1))
            both = [candidates.ratio_of(b, int(a.argmin())) for a, b in ((odd, even), (even, odd))]
            ratios.append(float(np.sqrt(np.prod(both))))
            print(f"{path.stem}: {len(field.ids)} packages, the best waits {waited.sum(axis=1).min() / n.sum():.0f} s; "
                  f"odd days known {both[0]:.2f}, even days known {both[1]:.2f}", flush=True)  # fmt: skip
    print(f"{len(ratios)} cells: {np.exp(np.log(ratios).mean()):.2f}, {np.median(ratios):.2f}, {max(ratios):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table", "odd-days"])
    parser.add_argument("--centre", choices=list(CENTRES), default="supercloud")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/forward-elsewhere"))
    parser.add_argument("--budget", type=int, nargs="+", default=[400_000])
    parser.add_argument("--cut", nargs="+", help="instead of the centre's")
    parser.add_argument("--packages", type=int, default=60)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--draws", type=int, default=20)
    arguments = parser.parse_args()
    {"run": run, "table": table, "odd-days": odd_days}[arguments.what](arguments)


if __name__ == "__main__":
    main()
