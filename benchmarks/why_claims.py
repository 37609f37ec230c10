"""The figures of docs/claims/why.md: the account, fidelity of replays on later parts, and counterfactuals.

python benchmarks/why_claims.py account --data ../shared/data
python benchmarks/why_claims.py fidelity --data ../shared/data kth wagap ccr blue hpc2n   fit on 60 %, judge on 40 %
python benchmarks/why_claims.py fidelity --log FILE 16 5832   a log of your own: SWF or job table, CPUs a node, nodes
python benchmarks/why_claims.py counterfactual [slurm | drains]                           a centre with hidden rules
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from procure.account.account import account_waits
from procure.account.layout import started_jobs
from procure.fitting.fit import Fidelity, fidelity, fit_site
from procure.run import simulate
from procure.site.model import Association, Limits, NodeEvent, Partition, Priority, Qos, Rule, Site
from procure.site.store import write_site
from procure.tables import JOB, NODE, check, read
from procure.workload import import_log

LOGS = {
    "kth": ("pwa/KTH-SP2-1996-2.1-cln.swf.xz", {"format": "swf"}, [(100, 1, 1000)]),
    "hpc2n": ("pwa/HPC2N-2002-2.1-cln.swf.xz", {"format": "swf", "cpus_per_node": 2}, [(120, 2, 100_000)]),
    "blue": ("pwa/SDSC-BLUE-2000-4.2-cln.swf.xz", {"format": "swf", "cpus_per_node": 8}, [(144, 8, 4096)]),
    "ccr": ("ccr_sacct_2017/pozidriv_2017.csv.xz", {"format": "csv", "preset": "ccr"}, None),
    "wagap": (
        "metacentrum_wagap_2013/wagap-2013_jan-feb.swf.xz",
        {"format": "swf", "preset": "metacentrum"},
        [(20, 80, 529_426), (48, 12, 94_036)],
    ),
}


def nodes_of(kinds: list[tuple[int, int, int]]) -> pd.DataFrame:
    """Return a node table of some kinds: how many, CPUs, MB."""
    rows = [(f"k{i}-{j}", cpus, mem) for i, (n, cpus, mem) in enumerate(kinds) for j in range(n)]
    return check(pd.DataFrame(rows, columns=["node_id", "cpus", "mem_mb"]), NODE)


def seen_nodes(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the nodes that a log names, each as large as what ran on it at once."""
    events: dict[str, list[tuple[int, int, int, int]]] = {}
    for row in started_jobs(jobs).itertuples():
        for name in row.node_ids.split(","):
            asked = row.cpus_per_node, row.mem_mb_per_node
            events.setdefault(name, []).append((row.start_time, 1, *asked))
            events[name].append((row.end_time, 0, -asked[0], -asked[1]))
    rows = []
    for name, changes in sorted(events.items()):
        levels = np.cumsum([change[2:] for change in sorted(changes)], axis=0)
        rows.append((name, *levels.max(0).tolist()))
    return check(pd.DataFrame(rows, columns=["node_id", "cpus", "mem_mb"]), NODE)


def load(name: str, data: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a log by submission, and its nodes."""
    path, settings, kinds = LOGS[name]
    if settings["format"] == "job table":
        jobs = read(data / path, JOB)
    else:
        jobs = import_log(data / path, skip_bad_rows=True, shape="as-logged", **settings).jobs
    jobs = jobs.sort_values("submit_time", kind="stable", ignore_index=True)
    return jobs, seen_nodes(jobs) if kinds is None else nodes_of(kinds)


def own_log(path: Path, cpus: int, nodes: int) -> tuple[str, dict[str, object], list[tuple[int, int, int]]]:
    """Return an entry of LOGS for a file of somebody's own, on equal nodes whose memory limits no job."""
    table = path.suffix in (".parquet", ".csv")
    settings = {"format": "job table"} if table else {"format": "swf", "cpus_per_node": cpus}
    return str(path.resolve()), settings, [(nodes, cpus, 4_000_000 * cpus)]


def measure_fidelity(arguments: argparse.Namespace) -> None:
    """Fit on the first 60 % of the jobs, replay the last 40 %; mean error and distance as shares of EASY's."""
    for name in arguments.logs or LOGS:
        jobs, nodes = load(name, arguments.data)
        cut = int(0.6 * len(jobs))
        first = 0 if arguments.last is None else max(0, cut - arguments.last)
        early, late = (part.reset_index(drop=True) for part in (jobs.iloc[first:cut], jobs.iloc[cut:]))
        fitted = fit_site(early, nodes)
        with tempfile.TemporaryDirectory() as folder:
            fitted.write(folder)
            easy: Fidelity | None = None
            for policy in ("easy", f"rules:site={folder}"):
                found = fidelity(late, simulate(late, nodes, policy).schedule)
                easy = easy or found
                error, distance, _ = found.ratios(easy)
                higher = found.rank_correlation - easy.rank_correlation
                figures = *(f"{one:,.3f}" for one in found), f"of EASY's: {error:.2f} {distance:.2f} {higher:+.2f}"
                print(name, policy.partition(":")[0], *figures, flush=True)


def measure_account(arguments: argparse.Namespace) -> None:
    """Account for every log."""
    for name in arguments.logs or LOGS:
        jobs, nodes = load(name, arguments.data)
        began = time.perf_counter()
        found = account_waits(jobs, nodes)
        print(f"{name}, {time.perf_counter() - began:.1f} s\n{found}\n{found.sentence}\n", flush=True)


def hidden_centre(seed: int) -> tuple[pd.DataFrame, Site]:
    """Return jobs, and rules that a fit does not know: limits, pauses that differ by user."""
    rng = np.random.default_rng(seed)
    n = 5000
    # A job that is ended at its limit has another run time in a log than in the jobs that were replayed.
    run = np.clip(rng.lognormal(7.3, 1.4, n), 30, 200_000).astype(int)
    user = rng.choice(12, n, p=rng.dirichlet(np.ones(12)))
    submit = 1_600_041_600 + np.sort(rng.integers(0, 40 * 86_400, n))
    jobs = pd.DataFrame(
        {
            "job_id": [str(i) for i in range(n)],
            "user": [f"u{one}" for one in user],
            "submit_time": submit,
            "requested_time": np.minimum(run * rng.choice([1, 2, 6], n), 200_000) + 60,
            "run_time": run,
            "n_nodes": rng.choice([1, 2, 4, 8], n, p=[0.5, 0.2, 0.2, 0.1]),
            "cpus_per_node": 1,
        }
    )
    rules = [Rule(kind="pause", subject=f"user u{i}", value=int(rng.integers(10, 900))) for i in range(12)]
    rules += [Rule(kind="limit", subject=f"user u{i} cpus", value=int(rng.integers(4, 12))) for i in range(0, 12, 2)]
    return check(jobs, JOB), Site(rules=tuple(rules))


def drained(seed: int) -> tuple[pd.DataFrame, Site]:
    """Return the same jobs and rules, and six of 20 nodes drained for six days that the fit does not know of either."""
    jobs, site = hidden_centre(seed)
    first = int(jobs["submit_time"].min())
    event = NodeEvent(nodes="k0-[2-7]", start=first + 15 * 86_400, end=first + 21 * 86_400)
    return jobs, site.model_copy(update={"events": (event,)})


def slurm_centre(seed: int) -> tuple[pd.DataFrame, Site]:
    """Return the same jobs, and a site that policy slurm follows: limits of users, a short partition's, drained nodes.

    None of its code is that of policy `rules`: priority by age and fair share, limits on CPUs and jobs of associations,
    half of the long jobs in a partition of twelve nodes, and eight nodes drained for ten days.
    """
    rng = np.random.default_rng(seed)
    jobs, _ = hidden_centre(seed)
    long = (jobs["requested_time"] > 14_400).to_numpy() & (rng.random(len(jobs)) < 0.5)
    jobs = jobs.assign(account="lab", partition=np.where(long, "long", "all"))
    users = [
        Association(
            account="lab",
            user=f"u{i}",
            limits=Limits(max_jobs=int(rng.integers(3, 10)), grp_tres={"cpu": int(rng.integers(8, 16))}),
        )
        for i in range(12)
    ]
    first = int(jobs["submit_time"].min())
    drained = NodeEvent(nodes="k0-[0-7]", start=first + 12 * 86_400, end=first + 22 * 86_400)
    site = Site(
        cluster="hidden",
        qos=(Qos(name="normal"),),
        enforce=("associations", "limits"),
        partitions=(Partition(name="all", nodes="ALL", default=True), Partition(name="long", nodes="k0-[8-19]")),
        associations=(Association(account="lab"), *users),
        priority=Priority(weight_age=1000, weight_fair_share=1000),
        events=(drained,),
    )
    return check(jobs, JOB), site


def measure_counterfactual(arguments: argparse.Namespace) -> None:
    """Predict what 20 % more nodes do to the mean wait, against what they do under the hidden rules."""
    centre = arguments.logs[0] if arguments.logs else "rules"
    hidden_by = "slurm" if centre == "slurm" else "rules"
    for seed in range(arguments.seeds):
        jobs, hidden = {"slurm": slurm_centre, "drains": drained, "rules": hidden_centre}[centre](seed)
        now, more = nodes_of([(20, 1, 1000)]), nodes_of([(24, 1, 1000)])
        with tempfile.TemporaryDirectory() as folder:
            truth, own = Path(folder) / "truth", Path(folder) / "own"
            write_site(hidden, now, truth)
            log = simulate(jobs, now, f"{hidden_by}:site={truth}").schedule
            bought = simulate(jobs, more, f"{hidden_by}:site={truth}").schedule
            before, after = (float((one["start_time"] - jobs["submit_time"]).mean()) for one in (log, bought))
            print(
                f"{centre}, seed {seed}: true mean wait {before:,.0f} s, with 20 % more nodes {after:,.0f} s",
                flush=True,
            )
            fit_site(log, now).write(own)
            for policy in ("easy", f"rules:site={own}"):
                waits = [
                    float((simulate(jobs, nodes, policy).schedule["start_time"] - jobs["submit_time"]).mean())
                    for nodes in (now, more)
                ]
                effect = (waits[0] - waits[1]) / (before - after)
                name = policy.partition(":")[0]
                print(
                    f"  {name}: {waits[0]:,.0f} → {waits[1]:,.0f} s, {effect:.2f} of the true effect",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fidelity", "account", "counterfactual"])
    parser.add_argument("logs", nargs="*", help="some of " + ", ".join(LOGS) + "; of counterfactual: slurm or drains")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--log", nargs=3, metavar=("FILE", "CPUS", "NODES"), help="a log of your own, CPUs a node, nodes"
    )
    parser.add_argument("--last", type=int, help="learn on so many jobs, the last ones of the first 60 %%")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_intermixed_args()
    if arguments.log:
        own = Path(arguments.log[0])
        LOGS[own.name] = own_log(own, int(arguments.log[1]), int(arguments.log[2]))
        arguments.logs.append(own.name)
    measures = {"fidelity": measure_fidelity, "account": measure_account, "counterfactual": measure_counterfactual}
    measures[arguments.what](arguments)


if __name__ == "__main__":
    main()
