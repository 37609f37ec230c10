"""Commands and options of earlier versions that a script may hold, and what to do instead."""

from __future__ import annotations

_LIBRARY = "a call of the library: procure."
_COMMANDS = {
    "award": "procure recommend scores the offers of a study that has [award]",
    "coschedule clean": "the kernel ends what a killed run had started",
    "coschedule example": f"{_LIBRARY}workload.studies.workflows",
    "coschedule measure": "set overhead and severity of the policy by what your own jobs lost together",
    "coschedule regret": f"{_LIBRARY}coschedule.learner.regret",
    "forecast next": f"{_LIBRARY}forecast_jobs",
    "forecast patterns": f"{_LIBRARY}find_patterns",
    "gantt": "procure simulate --gantt FILE",
    "learn describe": f"{_LIBRARY}read_policy",
    "plan": "it bought anew what a cap or a mandatory type allowed once; compare studies of each year's budget",
    "queue features": "docs/explanation/queue-time.md says what a model looks at",
    "queue trend": f"{_LIBRARY}queue_time.trend.judge_trend judges the published one",
    "queue update": "procure queue train LOG --update MODEL",
    "quotes nodes": "name the file as packages.existing_nodes; procure study check lists the nodes that stay",
    "serve check": "procure serve run --config CONFIG --check",
    "site show": "procure site check SITE",
    "study merge": "procure study status STUDY --merge",
    "study verify": "procure study status STUDY",
    "study tls": "workers have Dask's own temporary keys",
    "topology attach": "procure topology make NODES --from FILE",
    "topology penalty": f"{_LIBRARY}count_hops",
    "topology show": "procure topology make --from FILE",
    "warm": "procure doctor --warm",
    "window": f"procure compare --policies window; window by window {_LIBRARY}solve_window; jobs are made by "
    "procure workload generate --recipe window",
    "workload futures": "a study draws its futures itself: [futures] draws = 20",
    "workload load": "procure workload slice JOBS --load FACTOR",
    "workload merge": "procure workload slice JOBS JOBS",
}
_LOG = "clock cpus-per-node mem-unit cluster strict skip-bad-rows log-format=format preset"
_FARM = "jobs cores memory walltime partition account interface wait"
_SET = {
    "packages": {
        "packages.": "fixed-cost=fixed_cost_usd rules min-gpu-nodes types-per-category max-power=max_power_w "
        "max-rack-units maximal all=maximal",
        "sweep.": "max-packages",
    },
    "search": {"search.": "runs share seed batch stable-rounds", "farm.": _FARM},
    "sweep": {"farm.": _FARM},
    "train": {"model.": "feature-set"},
    "evaluate": {"model.": "feature-set"},
    "quotes check": {"": "currency decimal tax=tax_percent"},
    "learn train": {"": f"{_LOG} days tz min-jobs min-wait minutes generations processes seed steps reward"},
    "learn evaluate": {"": f"{_LOG} days tz min-jobs min-wait max-jobs"},
    "forecast evaluate": {"": f"{_LOG} by tz"},
    **{name: {"": _LOG} for name in ("workload import", "queue train", "queue evaluate")},
    "simulate": {"policy": "order queue-order fit depth exclusive"},
    "compare": {"policy": "exclusive"},
}
"""By command and table, options whose keys ``--set`` takes; ``=`` where the key has another name."""
_OF_LIBRARY = {
    "compare-rent": "boot policy",
    "coschedule run": "memory seconds",
    "evaluate": "train-on apart packages seed horizon policy",
    "explain": "marginal no-marginal workload policy",
    "queue evaluate": "test-log test-from last deadline k seed update-every",
    "recommend": "seed exchanges",
    "site why": "infer known-only",
    "simulate": "warm-up",
    "search": "policy",
    "topology check": "spines uplinks",
    "train": "policy",
    "topology make": "cpus mem-mb",
    "topology worth": "policies shared seed",
    "what-if": "seed workload",
    "workload days": "farm seed probe-every day per-month",
}
"""Options that only arguments of the library's function are now."""
_OPTIONS = {
    "--report --plot --out": "--format json or csv has all figures",
    "compare-rent --beside": "what renting costs besides is not counted; add it by hand",
    "compare --seeds": "shaken copies of one log are no independent tests; repeat on its weeks: --slices week",
    "compare-rent --uncertainty": "compare price lists of both ends",
    "evaluate --earlier-cuts": "choosing the rule by earlier cuts was no better than the past; leave it out",
    "evaluate --runs": "every rule replays the past once a package; leave it out",
    "forecast evaluate --nodes": "procure compare --policies easy:place=best,forecast:place=best",
    "forecast evaluate --seed": "nothing is shuffled any more; leave it out",
    "learn train --objective": "the mean bounded slowdown is what a search makes small",
    "packages --as-of --strict": "what is offered no longer: --set packages.types.NAME.max_count=0",
    "packages --study": "name the study in place of the quotes; --set quotes=FILE",
    "queue predict --gpu-type --nodes --user": "write #SBATCH lines: procure queue predict JOB.SH",
    "queue predict --trend": f"{_LIBRARY}queue_time.trend.judge_trend judges the published one",
    "queue train --k-sweep --k --method": "procure queue evaluate LOG --method kmeans-gbt or gbt has the published",
    "queue train --refit --no-refit": "train anew on the whole log: procure queue train LOG --out MODEL",
    "queue train --sweep-log": "leave it out",
    "queue watch --all --limit": "--format json has all",
    "queue watch --count": "where stdout is no terminal it looks once",
    "queue watch --every": "it looks every minute",
    "queue watch --tz": "a state file's times without an offset are UTC",
    "quotes check --fix": "write --out quotes.csv",
    "quotes check --harmless": "name the cells that you read and that change no price: --ignore CELL",
    "quotes check --logged-processor": "put simulate.logged_processor into the study, which says the ratios",
    "quotes check --logged-speed": "put simulate.logged_speed into the study, which says the ratios",
    "recommend --constraints; search --constraints": "--constraint",
    "recommend --redraws": "--resamples",
    "search --dashboard": "how far a search is, it says itself; leave it out",
    "search --scheduler-file; sweep --scheduler-file": "give the address in it: --farm tcp://HOST:PORT",
    "search --tls --no-tls; sweep --no-tls --tls": "workers have Dask's own temporary keys; leave it out",
    "site read --print-commands --run": "procure site collect",
    "study init --category": "--set category.NAMES=CATEGORY",
    "study init --rate": "--set rates.CODE=USD",
    "sweep --dashboard": "how far a sweep is, it says itself; leave it out",
    "serve init --replay": "no log is replayed; procure queue evaluate LOG judges forecasts of one",
    "topology make --leaves --nodes --pods": "--tree PODSxLEAVESxNODES",
    "what-if --budget": "recommend from a study of that budget",
    "workload days --log-format --preset": "procure workload import makes a job table of a log",
    "workload describe --tz": "shares that recur are no longer counted",
}
"""By options of all commands, or of some."""


def instead(command: str, name: str) -> str:
    """Say what to do instead of a command, or of an option of a command; empty where there never was one."""
    options = dict[str, str]()
    for names, why in _OPTIONS.items():
        for part in names.split("; "):
            of, *given = f" {part}".split(" --")
            options |= {f"{of.strip()} --{one}".strip(): why for one in given}
    if said := _COMMANDS.get(f"{command} {name}".strip()) or options.get(f"{command} {name}"):
        return said
    option = name.removeprefix("--")
    for table, words in _SET.get(command, {}).items():
        keys = {word.partition("=")[0]: word.partition("=")[2] or word.replace("-", "_") for word in words.split()}
        if key := keys.get(option):
            return f"--policy NAME:{key}=VALUE" if table == "policy" else f"--set {table}{key}=VALUE"
    if option in _OF_LIBRARY.get(command, "").split():
        return "an argument of the library's function of that name"
    return options.get(name, "")
