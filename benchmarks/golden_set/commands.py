"""The README's commands with ``--format json`` on small inputs: their keys and numbers, and texts of one word.

Left out by rule (`tidy`): sentences and paths (any text with a space or a slash is held as ``…``), keys in `VOLATILE`,
and rows of a table beyond the eighth, of which the number is held. Left out whole: what needs a network, a live
Slurm, a server or real processes (`doctor`, `serve`, `site collect`, `coschedule run`).
"""

from __future__ import annotations

import shlex
from functools import partial

from golden_set.base import Part, Place
from golden_set.doors import ROOT, answer, command

VOLATILE = {"elapsed", "seconds", "kernel_seconds", "mean_seconds", "p95_seconds", "train_seconds", "size_mb"}
MOST_ROWS = 8
JOBS = "! workload generate --recipe campus --n-jobs 3000 --out jobs.parquet\n"
NODES = "node_id,cpus,mem_mb,gpus,gpu_type\n" + "".join(
    f"n{i},{'24,256000,4,a100' if i > 6 else '64,256000,0,'}\n" for i in range(8)
)
LOGGED = JOBS + "! simulate --jobs jobs.parquet --nodes nodes.csv --policy easy --schedule log.parquet\n"
SITE = f"! site read {ROOT}/pipelines/centre --out site\n! workload generate --n-jobs 800 --out day.parquet\n"
STUDY = f"""quotes = "{ROOT}/quotes/example-2023.csv"
[packages]
budget_usd = 100_000
min_gpu_nodes = 1
types_per_category = 1
[[workloads]]
name = "log"
jobs = "jobs.parquet"
tz = "UTC"
[simulate]
kill_at_limit = false
[sweep]
sample = 5
"""
BOUGHT = "ComputeNode3=4,BigMemNode2=1,GPUNode9=1"
BUY = f"""{JOBS}
workload describe jobs.parquet
workload slice jobs.parquet --day 2024-03-12 --tz UTC --out day.parquet
workload days jobs.parquet --tz UTC --by clustering -n 4 --out days
quotes check {ROOT}/quotes/example-2023.csv
packages {ROOT}/quotes/example-2023.csv --set packages.rules=published --budget 100000
! study init new.toml --quotes {ROOT}/quotes/example-2023.csv --budget 100000
study check new.toml
! sweep study.toml --farm serial
train study.toml
evaluate study.toml
recommend study.toml -k 5
recommend study.toml -k 3 --objective p95-wait --constraint 'price_usd<=$99,000'
recommend study.toml -k 3 --pareto wait,price
explain study.toml {BOUGHT}
what-if study.toml --package {BOUGHT} --growth 1.3 --policy easy
search study.toml --set search.runs=80
compare-rent study.toml --prices {ROOT}/quotes/example-cloud.csv
"""
QUEUE = f"""{LOGGED}
queue train log.parquet --out site.model
queue predict --model site.model --cpus 16 --mem 64G --time 8:00:00 --deadline 2h
"""
SCHEDULERS = f"""{JOBS}
simulate --jobs jobs.parquet --nodes nodes.csv --policy best-fit
compare --jobs jobs.parquet --nodes nodes.csv --policies fcfs,easy,best-fit
compare --jobs jobs.parquet --nodes nodes.csv --slices week --continuous --policies easy,easy-sjf
"""
CENTRE = f"""{SITE}
site read {ROOT}/pipelines/centre --out other
simulate --jobs day.parquet --site site
simulate --jobs day.parquet --site site --rule bf_max_job_user=2
compare --jobs day.parquet --site site --policies slurm,easy,best-fit
"""
WHY = f"""{LOGGED}
site why log.parquet --nodes nodes.csv
site fit log.parquet --nodes nodes.csv --out fitted
site check fitted --jobs log.parquet
"""
LEARN = f"""{LOGGED}
forecast evaluate log.parquet --set tz=UTC
learn train --jobs log.parquet --nodes nodes.csv --out site.policy --set generations=2 --set min_jobs=20 \
  --set processes=1
learn evaluate site.policy --jobs log.parquet --nodes nodes.csv
compare --jobs jobs.parquet --nodes nodes.csv --policies easy:place=best,easy:order=learned,file=site.policy
"""
NETWORK = """! topology make --tree 2x3x4 --out tree.csv
! workload generate --recipe window --n-jobs 120 --seed 0 --out jobs.csv
simulate --jobs jobs.csv --nodes tree.csv --policy isolated --schedule plan.csv
topology check plan.csv --nodes tree.csv
topology worth --jobs jobs.csv --nodes tree.csv
compare --jobs jobs.csv --nodes tree.csv --policies closest,window:method=lns,length=10
"""


def tidy(said: object) -> object:
    """Leave out what changes from run to run, and words."""
    if isinstance(said, dict):
        return {key: tidy(value) for key, value in said.items() if key not in VOLATILE}
    if isinstance(said, list):
        rows = [row for row in said[:MOST_ROWS] if isinstance(row, dict)]
        names = [next((one for one in row.values() if isinstance(one, str) and tidy(one) == one), "") for row in rows]
        if len(set(names) - {""}) == len(said[:MOST_ROWS]) and rows:
            return {"rows": len(said), **{name: tidy(row) for name, row in zip(names, rows, strict=True)}}
        return [tidy(one) for one in said[:MOST_ROWS]] + [len(said)] * (len(said) > MOST_ROWS)
    return "…" if isinstance(said, str) and set(said) & set(" /\n") else said


def run(script: str, place: Place) -> dict[str, object]:
    """Run commands one after the other; keep what those without a mark answer."""
    (place.folder / "nodes.csv").write_text(NODES)
    (place.folder / "study.toml").write_text(STUDY)
    found = {}
    for line in filter(None, script.splitlines()):
        words = shlex.split(line.removeprefix("! "))
        if line.startswith("! "):
            command(*words, folder=place.folder)
        else:
            found[line.replace(f"{ROOT}/", "")] = tidy(answer(*words, folder=place.folder))
    return found


GOES = {"buy | recommend* | targets": "a bound says what is promised"}
SCRIPTS = {"buy": BUY, "queue": QUEUE, "schedulers": SCHEDULERS, "centre": CENTRE, "why": WHY, "learn": LEARN}
PARTS = {name: Part(partial(run, script)) for name, script in (SCRIPTS | {"network": NETWORK}).items()}
