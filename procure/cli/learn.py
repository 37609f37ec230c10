"""`procure learn`: train a policy on whole simulated days, judge it on others, describe it."""

from __future__ import annotations

import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.cli import common, lazy
from procure.cli.from_settings import options
from procure.learn.days import day_span, within
from procure.learn.describe import described
from procure.learn.ppo import train_ppo
from procure.learn.report import write_report
from procure.learn.search import Settings
from procure.learn.store import TrainedPolicy, read_policy, write_policy
from procure.learn.train import DayFilter, DaysToJudge, evaluate_policy, learn_policy
from procure.settings import LARGEST, MOST_COUNTED
from procure.tables import NODE, read
from procure.text import counted, plain
from procure.workload.log_settings import LogSettings

app = lazy.command_group()


class Method(StrEnum):
    """How a policy is trained."""

    SEARCH = "search"
    PPO = "ppo"


JobsOption = Annotated[Path, typer.Option(help="Job table with Unix times (.parquet, .csv), or a log with dates.")]
NodesOption = Annotated[Path, typer.Option(help="Node table.")]
PolicyArgument = Annotated[Path, typer.Argument(metavar="FILE", help="What `procure learn train` wrote.")]
DaysOption = Annotated[
    str | None,
    typer.Option(metavar="SPAN", help="A day, a month, or FIRST..LAST, as in 2021-05-01..2021-06-03; all without."),
]
ZoneOption = Annotated[str | None, common.zone_option("Time zone of the days, e.g. America/Chicago.")]
_DAYS = {"days": DaysOption, "min_jobs": None, "max_jobs": None, "min_wait": None}
_LOG = common.LOG | {"tz": ZoneOption}
_HIDDEN = Annotated[
    int,
    typer.Option("--hidden", min=0, max=MOST_COUNTED, help="search: hidden units beside the linear score."),
]
_SEARCH = {"minutes": None, "generations": None, "n_hidden": _HIDDEN, "processes": None, "seed": None}


@app.command()
@options(wanted=_DAYS, search=_SEARCH, how=_LOG)
def train(
    context: typer.Context,
    *,
    jobs: JobsOption,
    nodes: NodesOption,
    out: Annotated[Path, typer.Option(help="The trained policy to write, e.g. site.policy.")],
    method: Annotated[Method, typer.Option(help="search, or ppo as published (extra rl).")] = Method.SEARCH,
    wanted: DayFilter,
    search: Settings,
    steps: Annotated[int, typer.Option(min=1, max=LARGEST, help="ppo: decisions to train on; as published.")] = 300_000,
    reward: Annotated[str, typer.Option(help="ppo: wait or utilization.")] = "wait",
    how: LogSettings,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Train a policy: whole days are simulated from an empty system under thousands of candidates.

    A candidate scores each waiting job by what a scheduler can see; run times are expected from jobs that
    have ended. The objective is the mean over days of the log ratio of the mean wait to that under sjf.

    ppo is the published reinforcement learning: MaskablePPO on 2,040 jobs of the log that are submitted at once.
    It writes the file every 10,000 steps, and goes on from there when it is called again.

    Examples:
    procure learn train --jobs jobs.parquet --nodes nodes.csv --minutes 10 --out site.policy
    procure learn train --jobs jobs.parquet --nodes nodes.csv --days 2021-03..2021-04 --tz US/Central --out a.policy
    """
    if method is Method.PPO:
        of_search = ("generations", "n_hidden", "processes", "min_jobs", "max_jobs", "min_wait")
        common.refuse_given(context, "it belongs to --method search", *of_search)
    else:
        common.refuse_given(context, "it belongs to --method ppo", "steps", "reward")
    began = time.perf_counter()
    table, servers = common.read_jobs(jobs, how).jobs, read(nodes, NODE)
    zone = how.tz or "UTC"

    def say_steps(steps: int, wait: float) -> None:
        seconds = time.perf_counter() - began
        common.note(f"{steps:,} steps, {seconds:.0f} s: mean wait on the training set {wait / 60:,.1f} min")

    if method is Method.PPO:
        policy = train_ppo(
            within(table, *day_span(wanted.days), zone),
            servers,
            out,
            seed=search.seed,
            minutes=search.minutes,
            steps=steps,
            reward=reward,
            progress=say_steps,
        )
    else:
        policy = learn_policy(table, servers, replace(wanted, tz=zone), search, note=common.note)
        write_policy(out, policy)
    _print_trained(policy, out, began, output)


def _print_trained(policy: TrainedPolicy, out: Path, began: float, output: common.Format) -> None:
    record = {
        "seconds": time.perf_counter() - began,
        "n_simulations": policy.trained["n_simulations"],
        "objective": policy.trained["objective"],
        "file": str(out),
    }
    common.print_record(record, output, "trained")


@app.command()
@options(wanted=_DAYS, how=_LOG)
def evaluate(
    context: typer.Context,
    file: PolicyArgument,
    *,
    jobs: JobsOption,
    nodes: NodesOption,
    wanted: DaysToJudge,
    how: LogSettings,
    ahead: Annotated[
        int, typer.Option(min=0, max=LARGEST, help="Rollouts: s that the queue is simulated ahead; 0 = none.")
    ] = 0,
    every: Annotated[int, typer.Option(min=1, max=LARGEST, help="Rollouts: s between choices.")] = 600,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the figures in FILE, for `describe`; its weights stay.")
    ] = False,
    report: common.ReportOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge a trained policy on days: beside fcfs, sjf, sjf with exact run times, and best fit.

    What the log's earlier jobs tell of run times counts as known once they have ended. Mean waits are in
    seconds; intervals are 95 % bootstrap intervals over days.

    Examples:
    procure learn evaluate site.policy --jobs jobs.parquet --nodes nodes.csv --days 2021-05 --report learn.html
    procure learn evaluate site.policy --jobs jobs.parquet --nodes nodes.csv --days 2021-05-01..2021-06-03 --format json
    """
    if ahead == 0:
        common.refuse_given(context, "without --ahead there are no rollouts", "every")
    policy = read_policy(file)
    how = how.model_copy(update={"tz": how.tz or policy.trained.get("tz", "UTC")})
    found = evaluate_policy(
        policy,
        common.read_jobs(jobs, how).jobs,
        read(nodes, NODE),
        replace(wanted, tz=how.tz or "UTC"),
        rollouts=(ahead, every),
        note=common.note,
    )
    if keep:
        names = found.days["day"].tolist()
        span = {"first_day": names[0], "last_day": names[-1], "n_days": len(names)}
        write_policy(file, replace(policy, judged=plain(span | found.figures)))
    if report is not None:
        write_report(found, policy, report, f"{file} on {jobs.name}")
        common.note(f"report written to {report}")
    if output is common.Format.JSON:
        common.print_json(found.to_dict())
        return
    common.print_table(found.days, output, f"mean wait, s, on {counted(len(found.days), 'day')}")
    if output is common.Format.TABLE:
        utilization = {f"utilization_cpu {name}": value for name, value in found.utilization.items()}
        utilization |= {
            f"utilization_cpu {name}, first to last submission": value
            for name, value in found.utilization_of_submissions.items()
        }
        common.print_record(found.figures | utilization, output, "over all days")


@app.command()
def describe(file: PolicyArgument, output: common.FormatOption = common.Format.TABLE) -> None:
    """Say what a trained policy looks at, its weights, what it was trained on, and how.

    Examples:
    procure learn describe site.policy
    """
    policy = read_policy(file)
    found = described(policy)
    if output is common.Format.JSON:
        common.print_json(found)
        return
    weights = pd.DataFrame(found["weights"])
    common.print_table(weights, output, f"{file}: {policy.method}")
    if output is common.Format.TABLE:
        common.print_record(found["trained"], output, "trained")
        common.print_record(found["judged"] or {"judged": "not yet"}, output, "judged")
