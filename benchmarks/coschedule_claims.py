"""Every figure of docs/claims/coschedule.md: `python benchmarks/coschedule_claims.py PART`, see `main`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from procure.coschedule.contention import Contention, paces_of
from procure.coschedule.drive import run
from procure.coschedule.groups import folder_v1
from procure.coschedule.learner import (
    N_METRICS,
    bin_of,
    choose,
    happiness,
    learn,
    make_learner,
    mix,
    mood_of,
    pair_loss,
    projected_loss,
)
from procure.coschedule.measure import measure
from procure.coschedule.regret import regret
from procure.coschedule.settings import Driving, Measuring
from procure.run import simulate
from procure.workload.coschedule_study import CORES, PROFILES, PUBLISHED, system, workflows
from procure.workload.importing import import_log

STUDY = (
    "easy:exclusive=true", "first-fit", "coschedule:share=0.5", "coschedule:learner=paper", "coschedule:learner=ips",
    "coschedule:learner=ix", "coschedule:learner=ucb", "coschedule:learner=ucb,step=0.125", "coschedule",
)  # fmt: skip
FORMS = ("share", "bandwidth")


def with_parameters(policy: str, **more: object) -> str:
    if not policy.startswith("coschedule"):
        return policy
    words = ",".join(f"{key}={value}" for key, value in more.items())
    return f"{policy},{words}" if ":" in policy else f"{policy}:{words}"


def held(schedule: pd.DataFrame, cpus: int) -> float:
    """CPU-seconds during which at least one job holds them: the union of the jobs' times on each node."""
    rows = schedule.assign(node=schedule["node_ids"].str.split(",")).explode("node").sort_values("start_time")
    total = 0
    for _, part in rows.groupby("node"):
        until = -(10**18)
        for start, end in zip(part["start_time"], part["end_time"], strict=True):
            total += max(0, end - max(start, until))
            until = max(until, end)
    return float(total * cpus)


def one_study(cores: int, policy: str, seed: int, gap: int) -> dict[str, float]:
    jobs, nodes = workflows(cores, gap=gap, seed=seed), system(cores)
    found = simulate(jobs, nodes, with_parameters(policy, seed=seed), kill_at_limit=False)
    table = found.schedule
    work = (jobs["cpu_percent"] / 100 * jobs["run_time"] * jobs["n_nodes"] * jobs["cpus_per_node"]).sum()
    longer = 100 * ((table["end_time"] - table["start_time"]) / jobs["run_time"] - 1)
    makespan = found.metrics["makespan"]
    return {
        "wait": found.metrics["mean_wait_time"] / 3600, "cpu": 100 * work / cores / makespan,
        "cpu_held": 100 * work / held(table, 8), "response": found.metrics["mean_turnaround_time"] / 3600,
        "makespan": makespan / 3600, "longer": longer.mean(), "longest": longer.max(),
        "guests": float(table["began_as_guest"].sum()) if "began_as_guest" in table else 0.0,
        "ceiling": 100 * work / cores / (2 * gap + jobs["run_time"].max()),
    }  # fmt: skip


def study(seeds: range, gap: int, worse: float, policies: tuple[str, ...] = STUDY) -> None:
    print(
        "| Cores | Contention | Policy | Wait, h | × backfilling's | CPU, % of all cores | of held cores "
        "| Response, h | Makespan, h | Run time longer by, % | worst job | Guests |"
    )
    print("|" + " --- |" * 12)
    for cores in CORES:
        base = np.nan
        for form in FORMS:
            for policy in policies:
                if not policy.startswith("coschedule") and form != FORMS[0]:
                    continue
                name = with_parameters(policy, contention=form, worse=worse)
                mean = pd.DataFrame([one_study(cores, name, seed, gap) for seed in seeds])
                worst = mean["longest"].max()
                mean = mean.mean()
                base = mean["wait"] if policy == STUDY[0] else base
                shown = form if policy.startswith("coschedule") else "–"
                cells = [
                    f"{mean['wait']:.2f}", f"{mean['wait'] / base:.2f}", f"{mean['cpu']:.1f}",
                    f"{mean['cpu_held']:.1f}",
                    f"{mean['response']:.2f}", f"{mean['makespan']:.2f}", f"{mean['longer']:.1f}", f"{worst:.1f}",
                    f"{mean['guests']:.0f}",
                ]  # fmt: skip
                print(f"| {cores} | {shown} | `{policy}` | " + " | ".join(cells) + " |", flush=True)
        print(f"The most that {cores} cores could do, if the last submission's longest job never waited: "
              f"{mean['ceiling']:.1f} % of all cores", file=sys.stderr)  # fmt: skip


LEARNERS = (
    ("full", 0, 0.25), ("paper", 0, 0.25), ("ips", 0, 0.25), ("ix", 0, 0.25), ("ucb", 0, 0.25), ("ucb", 3, 0.25),
    ("ucb", 3, 0.125),
)  # fmt: skip


def learners(seeds: int, n_cases: int, form: str, behind: float, slack: float) -> None:
    """Mean loss over pairs drawn from the study's profiles, of each learner and of the best single expert."""
    kinds = [profile for by_name in PROFILES.values() for profile in by_name.values()]
    model = Contention(FORMS.index(form), 0.02, 1.0)
    print(
        "| Learner | Mean loss (± standard error) | Best expert's | To the best at 0.25 | Each case's lowest |\n|"
        + " --- |" * 5
    )
    base = np.nan
    for mode, trust, step in LEARNERS:
        own, best, least = [], [], []
        for seed in range(seeds):
            rng = np.random.default_rng((seed, 7))
            learner = make_learner(mode, seed, trust=trust, step=step)
            experts = learner.experts
            total, lowest, theirs = 0.0, 0.0, np.zeros(len(experts.metric))
            for _ in range(n_cases):
                context, losses, expected = _case(rng, kinds, model, experts.quotas, behind, slack)
                mood = context[N_METRICS]
                lowest += losses.min()
                expected *= trust > 0
                for i, metric in enumerate(experts.metric):
                    theirs[i] += experts.leaves[i, context[metric], mood] @ losses
                quota = choose(learner, context, expected)
                if mode == "ucb":
                    total += losses[quota]
                else:
                    mix(learner, context)
                    total += learner.chances @ losses
                learn(learner, context, quota, losses, expected[quota])
            own.append(total / n_cases)
            least.append(lowest / n_cases)
            best.append(theirs.min() / n_cases)
        error = np.std(own, ddof=1) / np.sqrt(seeds)
        base = np.mean(best) if np.isnan(base) else base
        shown = f"`{mode}`, step {step}" + (", with the model's expectations" if trust else "")
        print(
            f"| {shown} | {np.mean(own):.4f} ± {error:.4f} | {np.mean(best):.4f} | {np.mean(own) / base:.2f} "
            f"| {np.mean(least):.4f} |", flush=True
        )  # fmt: skip


def _case(rng, kinds, model, quotas, behind, slack):
    """A donor and a guest drawn from the printed profiles, somewhere in their runs; each quota's loss.

    Each is up to ``behind`` late, and its limit is ``slack`` times its run time. What is expected is the
    model without its overhead and bandwidth term, and believes round profiles.
    """
    hours, cpu, mem = kinds[rng.integers(len(kinds))]
    guest_hours, guest_cpu, guest_mem = kinds[rng.integers(len(kinds))]
    shares = [cpu / 100, mem / 100, guest_cpu / 100, guest_mem / 100]
    states = []
    for run_time in (hours * 3600, guest_hours * 3600):
        done, late = rng.uniform(0, 0.95), rng.uniform(0, behind)
        limit = slack * run_time
        states.append((limit, limit - done * run_time * (1 + late), run_time * (1 - done)))
    limit, limit_left, work_left = states[0]
    values = (*shares, shares[0] + shares[2], 1 - limit_left / limit)
    bins = [bin_of(i, value) for i, value in enumerate(values)]
    context = np.array([*bins, mood_of(happiness(limit_left, 1.0, work_left))])
    found = []
    for believed in (model, Contention(0, 0.0, 0.0)):
        losses = []
        for quota in quotas:
            one, other = paces_of(believed, quota, 1.0, (shares[0], shares[1]), (shares[2], shares[3]))
            guests = projected_loss(*states[1][:2], other, states[1][2])
            losses.append(pair_loss(projected_loss(limit, limit_left, one, work_left), guests))
        found.append(np.array(losses))
    return context, found[0], found[1]


SPIN = """
import sys, time
for i in range(int(sys.argv[1])):
    for k in range(400_000): pass
    print(f"step {i + 1}/{sys.argv[1]}", flush=True)
"""
SLEEP = """
import sys, time
for i in range(int(sys.argv[1])):
    for k in range(200_000): pass
    with open("/dev/null", "w") as out: out.write("x" * 100_000)
    time.sleep(0.03)
    print(f"step {i + 1}/{sys.argv[1]}", flush=True)
"""
MEMORY = """
import sys
import numpy as np
a = np.ones(16_000_000)
for i in range(int(sys.argv[1])):
    a += 1.0
    print(f"step {i + 1}/{sys.argv[1]}", flush=True)
"""
PAIRS = {
    "CPU-bound and CPU-bound": (SPIN, SPIN, 1),
    "CPU-bound, and sleeps and writes": (SPIN, SLEEP, 1),
    "memory-bound and memory-bound": (MEMORY, MEMORY, 1),
    "sleeps and writes, and CPU-bound": (SLEEP, SPIN, 1),
    "sleeps and writes, and memory-bound": (SLEEP, MEMORY, 1),
    "memory-bound on one of two, and memory-bound": (MEMORY, MEMORY, 2),
}
"""Donor, guest, and the CPUs that they share."""
ENDLESS = "1000000000"
STEP = r"step (\d+)/(\d+)"
WEIGHT = 10_000
"""Others use this machine too; at this weight their processes hardly matter."""


def quotas(seconds: float) -> None:
    """On one CPU: what each of two commands got against the quota that was set."""
    print("| Donor and guest | Quota | Guest, % of the CPU | Donor's quota | Donor, % | Donor's pace | Guest's pace |")
    print("|" + " --- |" * 7)
    for name, (donor, guest, _) in list(PAIRS.items())[:3]:
        words = [[sys.executable, "-c", text, ENDLESS] for text in (donor, guest)]
        found = measure(*words, Measuring(seconds=seconds, n_cpus=1, progress=STEP, weight=WEIGHT))
        for row in found.table.to_dict("records")[2:]:
            cells = [f"{row['quota']:.2f}", f"{100 * row['b_share']:.1f}", f"{1 - row['quota']:.2f}"]
            cells += [f"{100 * row['a_share']:.1f}", f"{row['a_pace']:.3f}", f"{row['b_pace']:.3f}"]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        alone = found.table.iloc[:2]
        shares = f"{100 * alone['a_share'].iloc[0]:.1f} % and {100 * alone['b_share'].iloc[1]:.1f} %"
        print(f"{name}: alone {shares}; {found.driver}; overhead {found.contention.overhead:.3f}", flush=True)


def first_on_this_machine() -> None:
    """Move into a control group with right of way over all others that use this machine, where we may."""
    own = folder_v1("cpu") / f"procure-claims-{os.getpid()}"
    try:
        own.mkdir(exist_ok=True)
        (own / "cpu.shares").write_text("262144")
        (own / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        print(f"no group of our own ({error}): others' processes count", file=sys.stderr)


DRIVEN = {"half": {"driver": "quota", "share": 0.5}, "ucb": {"driver": "quota"}, "idle": {"driver": "idle"}}


def slowdown(repeats: int) -> None:
    """The donor's run time alone, with a guest at fixed halves, with the learner, and with a guest at idle priority."""
    first_on_this_machine()
    print("| Donor and guest | CPUs | Alone, s | At 50/50, × | `ucb`, × | `idle`, × | Guest, % of the CPUs at 50/50 "
          "| `ucb` | `idle` |\n|" + " --- |" * 9)  # fmt: skip
    for name, (donor, guest, n_cpus) in PAIRS.items():
        words = [[sys.executable, "-c", donor, _steps(donor)], [sys.executable, "-c", guest, ENDLESS]]
        alone = [_took(words[0], ["sleep", "1"], n_cpus, driver="idle")[0] for _ in range(repeats + 1)][1:]
        limit = 1.15 * min(alone)
        cells = {}
        for way, how in DRIVEN.items():
            found = [_took(*words, n_cpus, limit=limit, progress=STEP, **how) for _ in range(repeats)]
            cells[way] = np.median(found, axis=0)
        times = " | ".join(f"{cells[way][0] / np.median(alone):.2f}" for way in DRIVEN)
        shares = " | ".join(f"{100 * cells[way][1]:.0f}" for way in DRIVEN)
        print(f"| {name} | {n_cpus} | {np.median(alone):.1f} | {times} | {shares} |", flush=True)


def _steps(text: str, seconds: float = 6.0) -> str:
    """How many steps take so long alone."""
    words = [sys.executable, "-c", text, ENDLESS]
    found = measure(words, words, Measuring(seconds=3, quotas=(), n_cpus=1, progress=STEP))
    rate = found.table["a_rate"].iloc[0]
    return str(max(10, round(rate * 1_000_000_000 * seconds)))


def _took(donor, guest, n_cpus: int, *, limit: float = 600.0, **how) -> tuple[float, float]:
    """The donor's seconds, and the share of the CPUs that the guest got meanwhile; the guest is ended then."""
    found = run(donor, guest, Driving(limit=limit, interval=0.5, n_cpus=n_cpus, until_donor=True, **how))
    return found.donor["seconds"], float(found.log["guest_share"].iloc[1:].mean() if len(found.log) > 1 else 0.0)


STATIC_CPU = {64: (94, 99, 51, 99), 128: (73, 99, 36, 99), 256: (55, 99, 26, 99)}
"""Table 2, CPU % of each workflow under fixed halves."""


def published() -> None:
    """Table 3; and table 2's CPU % under fixed halves beside the share of half a CPU that the profile keeps busy."""
    print(PUBLISHED.to_string(index=False))
    for cores, found in STATIC_CPU.items():
        of_half = [min(100, 2 * cpu) for _, cpu, _ in PROFILES[cores].values()]
        print(cores, dict(zip(PROFILES[cores], zip(of_half, found, strict=True), strict=True)))


def profiled(jobs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Give each user one of the study's four kinds of workflow (64 cores), each as likely, for all jobs."""
    rng = np.random.default_rng(seed)
    users = sorted(jobs["user"].unique())
    kind = dict(zip(users, rng.integers(0, 4, len(users)), strict=True))
    profiles = np.array([profile[1:] for profile in PROFILES[64].values()], dtype=float)
    of = profiles[jobs["user"].map(kind).to_numpy()]
    return jobs.assign(cpu_percent=of[:, 0], mem_percent=of[:, 1], bandwidth_percent=of[:, 1], mem_mb_per_node=0)


LOGS = {
    "kth": ("pwa/KTH-SP2-1996-2.1-cln.swf.xz", {"cpus_per_node": 1}, [1] * 100),
    "wagap": ("metacentrum_wagap_2013/wagap-2013_jan-feb.swf.xz", {"preset": "metacentrum"}, [80] * 20 + [12] * 48),
}  # fmt: skip
"""File, how it is read, and the CPUs of each node."""


def logs(folder: Path, name: str, n_jobs: int, seeds: int) -> None:
    """The first jobs of a log, profiles drawn per user; with and without guests."""
    file, how, cpus = LOGS[name]
    jobs = import_log(folder / file, format="swf", **how).jobs.head(n_jobs)
    nodes = pd.DataFrame({"node_id": [f"n{i:03d}" for i in range(len(cpus))], "cpus": cpus, "mem_mb": 1})
    print(
        "| Policy | Contention | Mean wait, h | Bounded slowdown | CPUs held, % | CPU used, % of all "
        "| Makespan, d | Run time longer by, % | Guests | Kernel, s |"
    )
    print("|" + " --- |" * 10)
    easy = "easy:exclusive=true" if max(cpus) == 1 else "easy"
    cases = [(easy, "share", 1.0), ("first-fit", "share", 1.0)]
    for learner in ("idle", "ucb"):
        cases += [(f"coschedule:learner={learner}", form, worse) for form in FORMS for worse in (1.0, 2.0)]
        cases += [(f"coschedule:learner={learner},progress={known}", "share", 1.0) for known in ("past", "limit")]
    cases += [("coschedule:share=0.5", form, 1.0) for form in FORMS]
    for policy, form, worse in cases:
        rows = []
        for seed in range(seeds):
            table = profiled(jobs, seed)
            name = with_parameters(policy, contention=form, worse=worse, seed=seed)
            found = simulate(table, nodes, name, kill_at_limit=False)
            schedule, makespan = found.schedule, found.metrics["makespan"]
            n_cpus = table["n_nodes"] * table["cpus_per_node"]
            work = (table["cpu_percent"] / 100 * table["run_time"] * n_cpus).sum()
            took = schedule["end_time"] - schedule["start_time"]
            longer = 100 * (took.sum() / table["run_time"].sum() - 1)
            as_guest = schedule.get("guest_time", 0)
            holding = ((took - as_guest) * n_cpus).sum()
            rows.append([
                found.metrics["mean_wait_time"] / 3600, found.metrics["mean_bounded_slowdown"],
                100 * holding / sum(cpus) / makespan, 100 * work / sum(cpus) / makespan, makespan / 86_400, longer,
                schedule["began_as_guest"].sum() if "began_as_guest" in schedule else 0, found.elapsed,
            ])  # fmt: skip
        wait, slow, holds, used, span, longer, guests, kernel = np.mean(rows, axis=0)
        shown = "–" if not policy.startswith("coschedule") else form + ("" if worse == 1 else ", twice as bad")
        print(f"| `{policy}` | {shown} | {wait:.2f} | {slow:.1f} | {holds:.1f} | {used:.1f} | {span:.1f} "
              f"| {longer:.1f} | {guests:,.0f} | {kernel:.1f} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("regret", "learners", "study", "published", "quotas", "slowdown", "log"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0, help="of the study")
    parser.add_argument("--cases", type=int, default=4000)
    parser.add_argument("--behind", type=float, default=0.12, help="how late jobs of learners are at most")
    parser.add_argument("--slack", type=float, default=1.1, help="limits of learners' jobs / their run times")
    parser.add_argument("--gap", type=int, default=7200)
    parser.add_argument("--worse", type=float, default=1.0)
    parser.add_argument("--form", choices=FORMS, default="share")
    parser.add_argument("--policies", default=";".join(STUDY), help="separated by semicolons")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--jobs", type=int, default=28_000)
    parser.add_argument("--log", choices=LOGS, default="kth")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    given = parser.parse_args()
    if given.part == "regret":
        print(regret(seeds=30).to_string())
    elif given.part == "learners":
        learners(given.seeds, given.cases, given.form, given.behind, given.slack)
    elif given.part == "study":
        seeds = range(given.first_seed, given.first_seed + given.seeds)
        study(seeds, given.gap, given.worse, tuple(given.policies.split(";")))
    elif given.part == "published":
        published()
    elif given.part == "quotas":
        quotas(given.seconds)
    elif given.part == "slowdown":
        slowdown(given.seeds)
    else:
        logs(given.data, given.log, given.jobs, given.seeds)


if __name__ == "__main__":
    main()
