"""Commands and options of earlier versions that a script may hold, and what to do instead."""

from __future__ import annotations

_LOG = "--clock --cpus-per-node --mem-unit --cluster --strict --skip-bad-rows"
_LOG_AND_FORMAT = f"{_LOG} --log-format=format --preset"
_FARM = "--jobs --cores --memory --walltime --partition --account --interface --wait"
_REMOVED = f"""
award: procure recommend scores the offers of a study that has [award]
coschedule clean: the kernel ends what a killed run had started
coschedule example: a call of the library: procure.workload.studies.workflows
coschedule measure: set overhead and severity of the policy by what your own jobs lost together
coschedule regret: a call of the library: procure.coschedule.learner.regret
forecast next: a call of the library: procure.forecast_jobs
forecast patterns: a call of the library: procure.find_patterns
gantt: procure simulate --gantt FILE
learn describe: a call of the library: procure.read_policy
plan: it bought anew what a cap or a mandatory type allowed once; compare studies of each year's budget
queue features: docs/explanation/queue-time.md says what a model looks at
queue trend; queue predict --trend: a call of the library: procure.queue_time.trend.judge_trend judges the published one
queue update: procure queue train LOG --update MODEL
quotes nodes: name the file as packages.existing_nodes; procure study check lists the nodes that stay
serve check: procure serve run --config CONFIG --check
site show: procure site check SITE
study merge: procure study status STUDY --merge
study verify: procure study status STUDY
study tls; search --tls --no-tls; sweep --tls --no-tls: workers have Dask's own temporary keys; leave it out
topology attach: procure topology make NODES --from FILE
topology penalty: a call of the library: procure.count_hops
topology show: procure topology make --from FILE
warm: procure doctor --warm
window: procure compare --policies window; window by window procure.solve_window of the library; jobs are made by \
procure workload generate --recipe window
workload futures: a study draws its futures itself: [futures] draws = 20
workload load: procure workload slice JOBS --load FACTOR
workload merge: procure workload slice JOBS JOBS
packages --fixed-cost=fixed_cost_usd --rules --min-gpu-nodes --types-per-category --max-power=max_power_w \
--max-rack-units --maximal --all=maximal: --set packages.KEY=VALUE
packages --max-packages: --set sweep.KEY=VALUE
search --runs --share --seed --batch --stable-rounds: --set search.KEY=VALUE
search {_FARM}; sweep {_FARM}: --set farm.KEY=VALUE
train --feature-set; evaluate --feature-set: --set model.KEY=VALUE
quotes check --currency --decimal --tax=tax_percent: --set KEY=VALUE
learn train {_LOG_AND_FORMAT} --days --tz --min-jobs --min-wait --minutes --generations --processes --seed --steps \
--reward; learn evaluate {_LOG_AND_FORMAT} --days --tz --min-jobs --min-wait --max-jobs: --set KEY=VALUE
forecast evaluate {_LOG_AND_FORMAT} --by --tz; workload import {_LOG}: --set KEY=VALUE
queue train {_LOG_AND_FORMAT}; queue evaluate {_LOG_AND_FORMAT}: --set KEY=VALUE
simulate --order --queue-order --fit --depth --exclusive; compare --exclusive: --policy NAME:KEY=VALUE
compare-rent --boot --policy; coschedule run --memory --seconds; explain --marginal --no-marginal --workload --policy; \
evaluate --train-on --apart --packages --seed --horizon --policy; recommend --seed --exchanges; simulate --warm-up; \
queue evaluate --test-log --test-from --last --deadline --k --seed --update-every; site why --infer --known-only; \
search --policy; topology check --spines --uplinks; topology make --cpus --mem-mb; train --policy; \
topology worth --policies --shared --seed; what-if --seed --workload; \
workload days --farm --seed --probe-every --day --per-month: an argument of the library's function of that name
compare-rent --beside: what renting costs besides is not counted; add it by hand
compare-rent --uncertainty: compare price lists of both ends
compare --seeds: shaken copies of one log are no independent tests; repeat on its weeks: --slices week
evaluate --earlier-cuts: choosing the rule by earlier cuts was no better than the past; leave it out
forecast evaluate --nodes: procure compare --policies easy:place=best,forecast:place=best
learn train --objective: the mean bounded slowdown is what a search makes small
packages --as-of --strict: what is offered no longer: --set packages.types.NAME.max_count=0
packages --study: name the study in place of the quotes; --set quotes=FILE
queue predict --gpu-type --nodes --user: write #SBATCH lines: procure queue predict JOB.SH
queue train --k-sweep --k --method: procure queue evaluate LOG --method kmeans-gbt or gbt has the published
queue train --refit --no-refit: train anew on the whole log: procure queue train LOG --out MODEL
queue watch --all --limit: --format json has all
queue watch --count: where stdout is no terminal it looks once
queue watch --every: it looks every minute
queue watch --tz: a state file's times without an offset are UTC
quotes check --fix: write --out quotes.csv
quotes check --harmless: name the cells that you read and that change no price: --ignore CELL
quotes check --logged-processor --logged-speed: put simulate.logged_processor or logged_speed into the study
recommend --constraints; search --constraints: --constraint
recommend --redraws: --resamples
search --dashboard; sweep --dashboard: how far it is, it says itself; leave it out
search --scheduler-file; sweep --scheduler-file: give the address in it: --farm tcp://HOST:PORT
site read --print-commands --run: procure site collect
study init --category: --set category.NAMES=CATEGORY
study init --rate: --set rates.CODE=USD
serve init --replay: no log is replayed; procure queue evaluate LOG judges forecasts of one
topology make --leaves --nodes --pods: --tree PODSxLEAVESxNODES
what-if --budget: recommend from a study of that budget
workload days --log-format --preset: procure workload import makes a job table of a log
evaluate --runs; forecast evaluate --seed; queue train --sweep-log; workload describe --tz: it is not needed any more; \
leave it out
--report --plot --out: --format json or csv has all figures
"""
"""A line each: commands, or options of a command, or of every command (with ``=`` where ``--set`` calls it so)."""


def instead(command: str, name: str) -> str:
    """Say what to do instead of a command, or of an option of a command; empty where there never was one."""
    found = dict[str, str]()
    for line in _REMOVED.strip().splitlines():
        removed, _, what = line.partition(": ")
        for part in removed.split("; "):
            where, *options = f" {part}".split(" --")
            found |= {} if options else {part: what}
            for option, _, key in (one.partition("=") for one in options):
                found[f"{where.strip()} --{option}".strip()] = what.replace("KEY", key or option.replace("-", "_"))
    return found.get(f"{command} {name}".strip()) or found.get(name, "")
