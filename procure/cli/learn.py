"""`procure learn`: train an order on whole simulated weeks, judge it on others."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from procure.cli import common, lazy
from procure.learn.judge import evaluate_policy
from procure.learn.published_training import train_published
from procure.learn.search import Settings, learn_policy
from procure.learn.store import TrainedPolicy, read_policy, write_policy
from procure.learn.weeks import DayFilter
from procure.settings import PositiveInt
from procure.tables import NODE, read
from procure.workload.log_settings import LogSettings

app = lazy.command_group()


JobsOption = Annotated[Path, typer.Option(help="Job table with Unix times (.parquet, .csv), or a log with dates.")]
NodesOption = Annotated[Path, typer.Option(help="Node table.")]
PolicyArgument = Annotated[Path, typer.Argument(metavar="FILE", help="What `procure learn train` wrote.")]
_SECONDS = dict.fromkeys(("mean_wait", "p95_wait", "max_wait", "widest_wait", "user_wait"), "s")


@dataclass(frozen=True)
class Published:
    """Of ppo-published: decisions to train on, and what a step is rewarded with."""

    steps: PositiveInt = 300_000
    reward: Literal["wait", "utilization"] = "wait"


def _set_option(*kinds: type) -> Any:
    keys = ", ".join(one.name for kind in kinds for one in dataclasses.fields(kind))
    return common.set_option(
        f"One of {keys}: days is a day, a month, FIRST..LAST as in 2021-05-01..2021-06-03, FIRST.. or ..LAST; or how a "
        "log is read: preset."
    )


@app.command()
def train(
    jobs: JobsOption,
    nodes: NodesOption,
    out: Annotated[
        Path, typer.Option(callback=common.in_folder, help="The trained policy to write, e.g. site.policy.")
    ],
    method: Literal["search", "ppo-published"] = typer.Option(
        "search", help="search; or ppo-published (extra rl), which cannot learn."
    ),
    settings: Annotated[list[str] | None, _set_option(DayFilter, Settings, Published)] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Train a policy: weeks without a break are simulated under thousands of candidates.

    A candidate scores each waiting job by what a scheduler can see, and EASY serves the lowest first. ppo-published is
    the published reinforcement learning: MaskablePPO on 2,040 jobs that are submitted at once, through ten slots.

    Examples:
    procure learn train --jobs jobs.parquet --nodes nodes.csv --set minutes=10 --out site.policy
    procure learn train --jobs jobs.parquet --nodes nodes.csv --set days=2021-03..2021-04 --out a.policy
    """
    wanted, search, published, how = _settings(settings, Settings, Published)
    if method == "search":
        common.refuse_set(settings, "it belongs to --method ppo-published", "steps", "reward")
    else:
        of_search = ("generations", "processes", "min_jobs", "min_wait")
        common.refuse_set(settings, "it belongs to --method search", *of_search)
    began = time.perf_counter()
    table, servers = common.read_jobs(jobs, how).jobs, read(nodes, NODE)
    if method == "search":
        policy = learn_policy(table, servers, wanted, search, note=common.note)
        _say_how_far(policy, search)
    else:
        policy = train_published(
            table,
            servers,
            wanted,
            seed=search.seed,
            minutes=search.minutes,
            steps=published.steps,
            reward=published.reward,
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
        common.note(f"stopped by minutes = {search.minutes:g} after {done} of {search.generations} generations")
    if policy.trained["untrained"]:
        common.note(
            "nothing was learnt: no candidate was better on all of the training than the point from which the search "
            "began, which is what the file holds"
        )


def _settings(texts: list[str] | None, *kinds: type, **given: Any) -> tuple[Any, ...]:
    wanted, *others, how = common.several(texts, DayFilter, *kinds, LogSettings, **given)
    with common.named(days="--set"):
        _ = wanted.span  # refused before a log is read
    return wanted, *others, common.with_zone(how, wanted.tz)


@app.command()
def evaluate(
    file: PolicyArgument,
    jobs: JobsOption,
    nodes: NodesOption,
    settings: Annotated[list[str] | None, _set_option(DayFilter)] = None,
    daily: bool = typer.Option(
        False, "--daily", help="Days, each from an empty system, instead of weeks without a break."
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge a trained policy on weeks without a break, or with --daily on days from an empty system.

    Beside it stand EASY in several orders, conservative backfilling, best fit and sjf, the point from which the search
    began, and exact run times. Intervals are 95 % bootstrap intervals over weeks, or days.

    Examples:
    procure learn evaluate site.policy --jobs jobs.parquet --nodes nodes.csv --set days=2021-05
    procure learn evaluate agent.policy --jobs jobs.parquet --nodes nodes.csv --set days=2021-05-01.. --daily
    """
    if not daily:
        common.refuse_set(settings, "it belongs to --daily", "min_jobs", "max_jobs", "min_wait")
    _settings(settings)  # refused before a file is read
    policy = read_policy(file)
    wanted, how = _settings(settings, tz=policy.trained.get("tz", "UTC"))
    table, servers = common.read_jobs(jobs, how).jobs, read(nodes, NODE)
    found = evaluate_policy(policy, table, servers, wanted, daily=daily, note=common.note)
    common.show(found, output, lambda: common.print_table(found.policies, output, found.title, _SECONDS))
