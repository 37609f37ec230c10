"""`procure learn`: train a policy on whole simulated days, judge it on others, describe it."""

from __future__ import annotations

import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pandas as pd
import typer

from procure.cli import common, lazy
from procure.cli.from_settings import options
from procure.errors import ArgumentError, TableError
from procure.learn.continuous import Continuous, evaluate_continuous
from procure.learn.days import DAY_OR_MONTH, FIRST_MONTH, LAST_MONTH, day_span, within
from procure.learn.describe import described
from procure.learn.ppo import train_ppo
from procure.learn.ppo_scorer import train_scorer
from procure.learn.report import write_report
from procure.learn.search import Settings
from procure.learn.store import TrainedPolicy, read_policy, write_policy
from procure.learn.train import DayFilter, DaysToJudge, evaluate_policy, learn_policy, training_days
from procure.settings import LARGEST, MOST_COUNTED
from procure.tables import NODE, read
from procure.text import counted, plain
from procure.workload.log_settings import LogSettings

app = lazy.command_group()
Days = TypeVar("Days", bound=DayFilter)


class Method(StrEnum):
    """How a policy is trained."""

    SEARCH = "search"
    PPO = "ppo"
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
    typer.Option(metavar="SPAN", help="A day, a month, or FIRST..LAST, as in 2021-05-01..2021-06-03; all without."),
]
ZoneOption = Annotated[str | None, common.zone_option("Time zone of the days, e.g. America/Chicago.")]
FromOption = Annotated[
    str | None, typer.Option("--from", metavar="DAY", help="First day, e.g. 2021-05-01; the same as --days DAY..TO.")
]
ToOption = Annotated[str | None, typer.Option("--to", metavar="DAY", help="Last day, included.")]
_DAYS = {"days": DaysOption, "min_jobs": None, "max_jobs": None, "min_wait": None}
_LOG = common.LOG | {"tz": ZoneOption}
_SECONDS = dict.fromkeys(("mean_wait", "p95_wait", "max_wait", "widest_wait", "user_wait"), "s")
_HIDDEN = Annotated[
    int,
    typer.Option("--hidden", min=0, max=MOST_COUNTED, help="search: hidden units beside the linear score."),
]
_SEARCH = {
    **{"inside": None, "objective": None, "minutes": None, "generations": None},
    **{"n_hidden": _HIDDEN, "processes": None, "seed": None},
}


def _span(wanted: Days, first: str | None, last: str | None) -> Days:
    """Put ``--from`` and ``--to`` in the place of ``--days``; whichever was given is checked before a log is read."""
    if first is None and last is None:
        day_span(wanted.days)
        return wanted
    if wanted.days is not None:
        raise typer.BadParameter("give --days, or --from and --to", param_hint="--days")
    for day, option in ((first, "--from"), (last, "--to")):
        if day is not None and not DAY_OR_MONTH.fullmatch(day):
            raise typer.BadParameter(f"{day!r} was given; write a day or a month, e.g. 2021-05-01", param_hint=option)
    span = f"{first or FIRST_MONTH}..{last or LAST_MONTH}"
    try:
        day_span(span)
    except ArgumentError:
        raise typer.BadParameter(f"{last!r} was given, which is before --from {first}", param_hint="--to") from None
    return replace(wanted, days=span)


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
        Method, typer.Option(help="search; ppo (extra rl); or ppo-published, which cannot learn.")
    ] = Method.SEARCH,
    wanted: DayFilter,
    search: Settings,
    first: FromOption = None,
    last: ToOption = None,
    steps: Annotated[int, typer.Option(min=1, max=LARGEST, help="ppo: decisions to train on; as published.")] = 300_000,
    reward: Annotated[Reward, typer.Option(help="ppo-published: what a step is rewarded with.")] = Reward.WAIT,
    how: LogSettings,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Train a policy: weeks without a break are simulated under thousands of candidates.

    A candidate scores each waiting job by what a scheduler can see, and EASY serves the lowest first; run times are
    expected from jobs that have ended. The objective is held against EASY in the order of the shortest request.
    With --inside skip, days from an empty system are simulated, and whoever fits may start.

    ppo trains one score that all waiting jobs share, day by day, and writes the same kind of file (extra rl).
    ppo-published is the published reinforcement learning: MaskablePPO on 2,040 jobs of the log that are submitted at
    once, seen through ten slots. It writes the file every 10,000 steps, and goes on from there when called again.

    Examples:
    procure learn train --jobs jobs.parquet --nodes nodes.csv --minutes 10 --out site.policy
    procure learn train --jobs jobs.parquet --nodes nodes.csv --days 2021-03..2021-04 --tz US/Central --out a.policy
    """
    wanted = _span(wanted, first, last)
    _refuse_void(context, method, search)
    began = time.perf_counter()
    table, servers = common.read_jobs(jobs, how).jobs, read(nodes, NODE)
    wanted = replace(wanted, tz=how.tz or "UTC")

    def say_steps(steps: int, value: float) -> None:
        told = f"mean wait on the training set {value / 60:,.1f} min"
        told = told if method is Method.PUBLISHED else f"objective {value:.4f}"
        common.note(f"{steps:,} steps, {time.perf_counter() - began:.0f} s: {told}")

    how_long: dict[str, Any] = {"seed": search.seed, "minutes": search.minutes, "steps": steps}
    if method is Method.PUBLISHED:
        part = within(table, *day_span(wanted.days), wanted.tz)
        policy = train_ppo(part, servers, out, reward=reward.value, progress=say_steps, **how_long)
    elif method is Method.PPO:
        policy = train_scorer(training_days(table, servers, wanted), progress=say_steps, **how_long)
        write_policy(out, policy)
    else:
        policy = learn_policy(table, servers, wanted, search, note=common.note)
        write_policy(out, policy)
        _say_how_far(policy, search)
    _print_trained(policy, out, began, output)


def _refuse_void(context: typer.Context, method: Method, search: Settings) -> None:
    of_search = ("inside", "objective", "generations", "n_hidden", "processes")
    if method is Method.SEARCH:
        common.refuse_given(context, "it belongs to --method ppo", "steps", "reward")
        if search.inside == "easy":
            common.refuse_given(context, "weeks are taken however many jobs they have", "max_jobs")
        if search.inside == "skip":
            common.refuse_given(context, "whoever fits is trained for the mean wait", "objective")
        return
    common.refuse_given(context, "it belongs to --method search", *of_search)
    if method is Method.PUBLISHED:
        common.refuse_given(context, "it belongs to days", "min_jobs", "max_jobs", "min_wait")
    else:
        common.refuse_given(context, "it belongs to --method ppo-published", "reward")


def _say_how_far(policy: TrainedPolicy, search: Settings) -> None:
    done = policy.trained["generations"]
    if done < search.generations:
        common.note(f"stopped by --minutes {search.minutes:g} after {done} of {search.generations} generations")
    if policy.trained["untrained"]:
        common.note(
            "nothing was learnt: no candidate was better on all of the training than the point from which the search "
            "began, which is what the file holds"
        )


def _print_trained(policy: TrainedPolicy, out: Path, began: float, output: common.Format) -> None:
    record: dict[str, Any] = {
        "seconds": time.perf_counter() - began,
        "n_simulations": policy.trained["n_simulations"],
        "objective": policy.trained["objective"],
        "file": str(out),
    }
    untrained = policy.trained.get("untrained", False)
    record |= {"untrained": untrained} if untrained else {}
    common.print_record(record, output, "not trained" if untrained else "trained")


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
    first: FromOption = None,
    last: ToOption = None,
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Whole weeks of the span in one run, instead of days from empty.")
    ] = False,
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
    """Judge a trained policy on days from an empty system, or with --continuous on weeks without a break.

    Beside it stand EASY in several orders, conservative backfilling, best fit and sjf, a random order, the point from
    which the search began, and exact run times. What the log's earlier jobs tell of run times counts as known once
    they have ended. Mean waits are in seconds; intervals are 95 % bootstrap intervals over days, or weeks. The report
    of days shows the weeks of the same span too.

    Examples:
    procure learn evaluate site.policy --jobs jobs.parquet --nodes nodes.csv --days 2021-05 --report learn.html
    procure learn evaluate site.policy --jobs jobs.parquet --nodes nodes.csv --from 2021-05-01 --continuous
    """
    if ahead == 0:
        common.refuse_given(context, "without --ahead there are no rollouts", "every")
    policy = read_policy(file)
    how = how.model_copy(update={"tz": how.tz or policy.trained.get("tz", "UTC")})
    wanted = replace(_span(wanted, first, last), tz=how.tz or "UTC")
    table, servers = common.read_jobs(jobs, how).jobs, read(nodes, NODE)
    if continuous:
        of_days = ("min_jobs", "max_jobs", "min_wait", "ahead", "every", "keep")
        common.refuse_given(context, "it belongs to days from an empty system", *of_days)
        weeks = evaluate_continuous(policy, table, servers, wanted, note=common.note)
        if report is not None:
            write_report(None, policy, report, f"{file} on {jobs.name}", weeks)
            common.note(f"report written to {report}")
        _print_continuous(weeks, output)
        return
    found = evaluate_policy(
        policy,
        table,
        servers,
        wanted,
        rollouts=(ahead, every),
        note=common.note,
    )
    if keep:
        names = found.days["day"].tolist()
        span = {"first_day": names[0], "last_day": names[-1], "n_days": len(names)}
        write_policy(file, replace(policy, judged=plain(span | found.figures)))
    if report is not None:
        write_report(found, policy, report, f"{file} on {jobs.name}", _weeks(policy, table, servers, wanted))
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
        common.print_table(found.policies, output, "beside its rivals, means of the days", _SECONDS)


def _weeks(policy: TrainedPolicy, jobs: pd.DataFrame, nodes: pd.DataFrame, wanted: DayFilter) -> Continuous | str:
    """Judge on the weeks of the same span without a break, or say why that cannot be."""
    if policy.method == "ppo":
        return "the published agent is judged on days only"
    try:
        return evaluate_continuous(policy, jobs, nodes, wanted, note=common.note)
    except TableError as error:
        return str(error)


def _print_continuous(found: Continuous, output: common.Format) -> None:
    if output is common.Format.JSON:
        common.print_json(found.to_dict())
        return
    common.print_table(found.policies, output, found.title, _SECONDS)
    for text in found.notes:
        common.note(text)


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
