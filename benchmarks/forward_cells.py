"""Replays for every cell of docs/claims/forward.md: one of the whole log a package, and some of futures of each cut.

python benchmarks/forward_cells.py replay --centre beocat --budget 700000 1000000 1500000 2000000 --keep 0 20
python benchmarks/forward_cells.py futures --centre beocat --budget 700000 1000000 1500000 2000000 --keep 0 20
python benchmarks/forward_cells.py replay --centre wagap --budget 300000 --cut 2013-01-29 2013-02-08
python benchmarks/forward_cells.py replay --centre hpc2n --budget 1500000 --cut 2003-01-01 2003-07-01

A replay does not look ahead, so one of the whole log gives, by the day of submission, the past of every cut and what
came after it. Candidates run what is known before the first cut; a job that one cannot run waits to the end of the log.
Days are 24 hours from the first submission. What is there is not run again.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import forward_claims as claims
import forward_elsewhere as elsewhere
import numpy as np
import pandas as pd
from forward_choice import DAY, HORIZON, replay

from procure import load_plan, load_study
from procure.recommender import candidates
from procure.study.plan import read_past_jobs
from procure.workload.clock import day_bounds
from procure.workload.futures import draw_futures

ZONES = {"beocat": claims.CHICAGO, "wagap": claims.PRAGUE, "hpc2n": claims.STOCKHOLM}
ZONES |= {centre: zone for centre, (_, zone) in elsewhere.CENTRES.items()}
WRITE = {"beocat": claims.beocat, "wagap": claims.wagap_study, "hpc2n": claims.hpc2n_study}
WRITE |= {centre: lambda one: elsewhere.study_of(one, one.cut[0], one.budget) for centre in elsewhere.CENTRES}
ONE_LOG = "beocat", "wagap"
"""Their cuts are of one study; of the others each cut is a study of its own, with a quarter before it."""


def field_of(path: Path, zone: str, known: str, n: int) -> tuple[candidates.Candidates, pd.DataFrame]:
    """Draw candidates as of a day, and read the log."""
    study = load_study(path)
    jobs = read_past_jobs(study, lambda text: None)
    plan = replace(load_plan(study.model_copy(update={"futures": None})), workloads={study.workloads[0].name: jobs})
    before = candidates.between(jobs, 0, day_bounds(known, zone)[0])
    return candidates.draw_candidates(plan, study.simulate.policies[0], before, n, seed=1), jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["replay", "futures"])
    parser.add_argument("--centre", choices=list(WRITE), default="beocat")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/forward-cells"))
    parser.add_argument("--budget", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--keep", type=int, nargs="+", default=[0])
    parser.add_argument("--cut", nargs="+", default=["2021-04-04", "2021-04-18", "2021-05-05", "2021-05-19"])
    parser.add_argument("--packages", type=int, default=240)
    parser.add_argument("--on-futures", type=int, default=80)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--kind", default="futures", help="names what is kept of these futures")
    parser.add_argument("--seed", type=int, default=1, help="of the futures")
    parser.add_argument("--set", nargs="*", default=[], help="settings of the futures, as class_spread=0.3")
    arguments = parser.parse_args()
    zone = ZONES[arguments.centre]
    asked = {name: float(value) for name, _, value in (one.partition("=") for one in arguments.set)}
    for budget in arguments.budget:
        for keep in arguments.keep:
            one = argparse.Namespace(**vars(arguments) | {"budget": budget, "keep": keep})
            groups = [arguments.cut] if arguments.centre in ONE_LOG else [[cut] for cut in arguments.cut]
            for cuts in groups:
                one.cut = cuts
                path, began = WRITE[arguments.centre](one), time.process_time()
                stem = path.stem + (f"-{cuts[0]}" if arguments.centre == "hpc2n" else "")
                known = "2021-03-28" if arguments.centre == "beocat" else cuts[0]
                out = arguments.out / f"{stem}.{{}}.npz"
                n = arguments.packages if arguments.what == "replay" else arguments.on_futures
                if arguments.what == "replay":
                    kept = Path(str(out).format("replay"))
                    if kept.exists():
                        continue
                    field, jobs = field_of(path, zone, known, n)
                    first = int(jobs["submit_time"].min())
                    days = 1 + (int(jobs["submit_time"].max()) - first) // DAY
                    np.savez_compressed(kept, **replay(field, jobs, days), first=np.array(first), counts=field.counts)
                    print(
                        f"{kept.name}: {len(field.ids)} packages, {days} days, {time.process_time() - began:.0f} s CPU",
                        flush=True,
                    )
                    continue
                for cut in cuts:
                    kept = Path(str(out).format(f"{arguments.kind}.{cut}"))
                    if kept.exists():
                        continue
                    began = time.process_time()
                    field, jobs = field_of(path, zone, known, n)
                    study = load_study(path)
                    before = candidates.between(jobs, 0, day_bounds(cut, zone)[0])
                    before.attrs = dict(jobs.attrs)
                    settings = study.futures.model_copy(
                        update={"years": 0.0, "draws": arguments.draws, "seed": arguments.seed} | asked
                    )
                    drawn = [replay(field, future, HORIZON) for future in draw_futures(before, settings)]
                    np.savez_compressed(
                        kept,
                        waited=np.array([d["waited"].sum(axis=1) for d in drawn]),
                        over=np.array([d["over"].sum(axis=2) for d in drawn]),
                        jobs=np.array([d["jobs"].sum(axis=0) for d in drawn]),
                    )
                    print(f"{kept.name}: {time.process_time() - began:.0f} s CPU", flush=True)


if __name__ == "__main__":
    main()
