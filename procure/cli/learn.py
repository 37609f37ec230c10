"""`procure learn`: train an order on whole simulated weeks, judge it on others, describe it."""

from __future__ import annotations

import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from procure.cli import common, lazy
from procure.cli.from_settings import options
from procure.learn.class_features import FEATURES
from procure.learn.judge import evaluate_policy
from procure.learn.published_training import train_published
from procure.learn.search import Settings, learn_policy
from procure.learn.store import SEARCHED, TrainedPolicy, read_policy, write_policy
from procure.learn.weeks import DayFilter
from procure.settings import LARGEST
from procure.tables import NODE, read
from procure.workload.log_settings import LogSettings

app = lazy.command_group()


class Method(StrEnum):
    """How a policy is trained."""

    SEARCH = "search"
    PUBLISHED = "ppo-published"


class Reward(StrEnum):
    """What the published agent is rewarded with."""

    WAIT = "wait"
    UTILIZATION = "utilization"


JobsOption = Annotated[Path, typer.Option(help="Job table with Unix times (.parquet, .csv), or a log with dates.")]
NodesOption = Annotated[Path, typer.Option(help="Node table.")]
PolicyArgument = Annotated[Path, typer.Argument(metavar="FILE", help="What `procure learn train` wrote.")]
DaysOption = Annotated[
    str | None,
    typer.Option(
        metavar="SPAN",
        help="A day, a month, FIRST..LAST as in 2021-05-01..2021-06-03, FIRST.. or ..LAST; all without.",
    ),
]
_LOG = common.LOG | {"tz": Annotated[str | None, common.zone_option("Time zone of the days, e.g. America/Chicago.")]}
_DAYS = {"days": DaysOption, "min_jobs": None, "min_wait": None}
_SEARCH = dict.fromkeys(("objective", "minutes", "generations", "processes", "seed"))
_SECONDS = dict.fromkeys(("mean_wait", "p95_wait", "max_wait", "widest_wait", "user_wait"), "s")


@app.command()
@options(wanted=_DAYS, search=_SEARCH, how=_LOG)
def train(
    context: typer.Context,
    *,
    jobs: JobsOption,
    nodes: NodesOption,
    out: Annotated[
        Path, typer.Option(callback=common.in_folder, help="The trained policy to write, e.g. site.policy.")
    ],
    method: Annotated[
        Method, typer.Option(help="search; or ppo-published (extra rl), which cannot learn.")
    ] = Method.SEARCH,
    wanted: DayFilter,
    search: Settings,
    steps: Annotated[
        int, typer.Option(min=1, max=LARGEST, help="ppo-published: decisions to train on; as published.")
    ] = 300_000,
    reward: Annotated[Reward, typer.Option(help="ppo-published: what a step is rewarded with.")] = Reward.WAIT,
    how: LogSettings,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Train a policy: weeks without a break are simulated under thousands of candidates.

    A candidate scores each waiting job by what a scheduler can see, and EASY serves the lowest first; run times are
    expected from jobs that have ended. The objective is held against EASY in the order of the shortest request.

    ppo-published is the published reinforcement learning: MaskablePPO on 2,040 jobs of the log that are submitted at
    once, seen through ten slots.

    Examples:
    procure learn train --jobs jobs.parquet --nodes nodes.csv --minutes 10 --out site.policy
    procure learn train --jobs jobs.parquet --nodes nodes.csv --days 2021-03..2021-04 --tz US/Central --out a.policy
    """
    _ = wanted.span  # refused before a log is read
    if method is Method.SEARCH:
        common.refuse_given(context, "it belongs to --method ppo-published", "steps", "reward")
    else:
        of_search = ("objective", "generations", "processes", "min_jobs", "min_wait")
        common.refuse_given(context, "it belongs to --method search", *of_search)
    began = time.perf_counter()
    table, servers = common.read_jobs(jobs, how).jobs, read(nodes, NODE)
    wanted = replace(wanted, tz=how.tz or "UTC")
    if method is Method.SEARCH:
        policy = learn_policy(table, servers, wanted, search, note=common.note)
        _say_how_far(policy, search)
    else:
        policy = train_published(
            table,
            servers,
            wanted,
            seed=search.seed,
            minutes=search.minutes,
            steps=steps,
            reward=reward.value,
            progress=lambda done, wait: common.note(f"{done:,} steps: mean wait on the training set {wait:,.0f} s"),
        )
    write_policy(out, policy)
    untrained = policy.trained.get("untrained", False)
    record = {"seconds": time.perf_counter() - began} | {
        name: policy.trained[name] for name in ("n_simulations", "objective")
    }
    record |= {"file": str(out)} | ({"untrained": untrained} if untrained else {})
    common.print_record(record, output, "not trained" if untrained else "trained")


def _say_how_far(policy: TrainedPolicy, search: Settings) -> None:
    done = policy.trained["generations"]
    if done < search.generations:
        common.note(f"stopped by --minutes {search.minutes:g} after {done} of {search.generations} generations")
    if policy.trained["untrained"]:
        common.note(
            "nothing was learnt: no candidate was better on all of the training than the point from which the search "
            "began, which is what the file holds"
        )


@app.command()
@options(wanted=_DAYS | {"max_jobs": None}, how=_LOG)
def evaluate(
    context: typer.Context,
    file: PolicyArgument,
    *,
    jobs: JobsOption,
    nodes: NodesOption,
    wanted: DayFilter,
    how: LogSettings,
    daily: Annotated[
        bool, typer.Option("--daily", help="Days, each from an empty system, instead of weeks without a break.")
    ] = False,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge a trained policy on weeks without a break, or with --daily on days from an empty system.

    Beside it stand EASY in several orders, conservative backfilling, best fit and sjf, the point from which the search
    began, and exact run times. What the log's earlier jobs tell of run times counts as known once they have ended.
    Mean waits are in seconds; intervals are 95 % bootstrap intervals over weeks, or days.

    Examples:
    procure learn evaluate site.policy --jobs jobs.parquet --nodes nodes.csv --days 2021-05
    procure learn evaluate agent.policy --jobs jobs.parquet --nodes nodes.csv --days 2021-05-01.. --daily
    """
    _ = wanted.span  # refused before a log is read
    if not daily:
        common.refuse_given(context, "it belongs to --daily", "min_jobs", "max_jobs", "min_wait")
    policy = read_policy(file)
    how = how.model_copy(update={"tz": how.tz or policy.trained.get("tz", "UTC")})
    table, servers = common.read_jobs(jobs, how).jobs, read(nodes, NODE)
    wanted = replace(wanted, tz=how.tz or "UTC")
    found = evaluate_policy(policy, table, servers, wanted, daily=daily, note=common.note)
    common.show(found, output, lambda: common.print_table(found.policies, output, found.title, _SECONDS))


@app.command()
def describe(file: PolicyArgument, output: common.FormatOption = common.Format.TABLE) -> None:
    """Say what a trained policy looks at, its weights, what it was trained on, and how.

    Examples:
    procure learn describe site.policy
    """
    policy = read_policy(file)
    rows: list[dict[str, Any]] = []
    if policy.method == SEARCHED:
        for (name, meaning), weight in zip(FEATURES.items(), policy.arrays["weights"].tolist(), strict=True):
            rows.append({"what": name, "weight": weight, "meaning": meaning})
        trust = float(policy.arrays["trust"][0])
        rows.append({"what": "trust", "weight": trust, "meaning": "jobs that have ended for which the history counts"})
    else:
        for name, array in policy.arrays.items():
            meaning = f"{' × '.join(map(str, array.shape))}, root mean square"
            rows.append({"what": name, "weight": float((array**2).mean() ** 0.5), "meaning": meaning})
    if output is common.Format.JSON:
        common.print_json({"method": policy.method, "weights": rows, "trained": policy.trained})
        return
    common.print_table(pd.DataFrame(rows), output, f"{file}: {policy.method}")
    if output is common.Format.TABLE:
        trained = {key: value for key, value in policy.trained.items() if key not in ("weeks", "curve")}
        weeks = policy.trained.get("weeks", [])
        span = {"n_weeks": len(weeks), "first_week": weeks[0], "last_week": weeks[-1]} if weeks else {}
        common.print_record(trained | span, output, "trained")
