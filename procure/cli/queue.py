"""`procure queue`: when will my job start?"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from procure.cli.common import Format, FormatOption, LogFormat, note, print_json, print_record, print_table
from procure.cli.queue_inputs import (
    cut_of,
    deadline_of,
    followed_by,
    formats_of,
    megabytes_of,
    read_log,
    seconds_of,
    span,
    splits_of,
)
from procure.errors import TableError

if TYPE_CHECKING:
    import pandas as pd

    from procure.queue_time.predict import Request
    from procure.queue_time.store import SiteModel

app = typer.Typer(
    help="When will my job start? Train on a log, predict, watch, judge.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


class Method(StrEnum):
    """The methods that can be trained."""

    PROCURE = "procure"
    KMEANS_GBT = "kmeans-gbt"
    GBT = "gbt"


LogArgument = Annotated[
    Path, typer.Argument(metavar="LOG", help="A job log, or a job table (.parquet, .csv).")
]
ModelOption = Annotated[Path, typer.Option("--model", help="A model file of `procure queue train`.")]
PresetOption = Annotated[
    str | None, typer.Option("--preset", help="How to read the log; see workload import.")
]
TzOption = Annotated[
    str | None, typer.Option("--tz", help="Zone of times without an offset, e.g. Europe/Berlin.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of splits and models.")]


@app.command()
def train(
    log: LogArgument,
    out: Annotated[Path, typer.Option("--out", help="The model file to write.")],
    log_format: Annotated[LogFormat | None, typer.Option("--format", help="Format of the log.")] = None,
    method: Annotated[
        Method, typer.Option(help="procure is ours; the others are published.")
    ] = Method.PROCURE,
    k: Annotated[int | None, typer.Option(min=0, help="Groups of kmeans-gbt; 57 as published.")] = None,
    k_sweep: Annotated[
        str | None, typer.Option(metavar="FROM:TO[:STEP]", help="Choose k on a validation part, e.g. 2:150.")
    ] = None,
    sweep_log: Annotated[
        Path | None, typer.Option(help="Where a k sweep keeps what is done, to go on from. [default: OUT.ks]")
    ] = None,
    preset: PresetOption = None,
    tz: TzOption = None,
) -> None:
    """Train a model of a site's waits on its job log.

    [bold]Examples[/bold]

    \b
    procure queue train jobs.psv --format sacct --tz Europe/Berlin --out site.model
    procure queue train log.swf --format swf --out site.model --method kmeans-gbt --k-sweep 2:150
    """
    from procure.queue_time import predict, store

    if not out.parent.is_dir():
        raise TableError(f"{out.parent}: no such folder to write {out.name} to")
    jobs = read_log(log, log_format, preset, tz)
    if method is Method.KMEANS_GBT and k_sweep is not None:
        k = _swept_k(jobs, k_sweep, sweep_log or out.with_name(out.name + ".ks"))
    site = predict.train(jobs, str(method), 57 if k is None else k)
    store.save(site, out)
    note(
        f"trained {method} on {site.about['n_rows']:,} jobs; wrote {out} ({out.stat().st_size / 1e6:.1f} MB)"
    )


def _swept_k(jobs: pd.DataFrame, text: str, sweep_log: Path) -> int:
    import numpy as np

    from procure.queue_time.evaluation import queue_jobs
    from procure.queue_time.features import site_features, wait_times
    from procure.queue_time.published import best_k, sweep_k

    match = re.fullmatch(r"(\d+):(\d+)(?::(\d+))?", text)
    if not match or int(match[1]) < 2 or int(match[2]) < int(match[1]) or match[3] == "0":
        raise typer.BadParameter(
            f"{text!r} is not FROM:TO or FROM:TO:STEP, such as 2:150", param_hint="--k-sweep"
        )
    ks = list(range(int(match[1]), int(match[2]) + 1, int(match[3] or 1)))
    jobs = queue_jobs(jobs)
    wait = wait_times(jobs)
    rows = np.flatnonzero(~np.isnan(wait))
    curve = sweep_k(
        site_features(jobs).iloc[rows], wait[rows], ks, log_file=sweep_log,
        progress=lambda k, rmse: note(f"k = {k}: RMSE {rmse:,.0f} s on the validation part"),
    )  # fmt: skip
    chosen = best_k(curve)
    note(f"k = {chosen} chosen; the elbow curve is in {sweep_log}")
    return chosen


def _state(state: Path | None, live: bool, tz: str | None) -> tuple[pd.DataFrame | None, int | None]:
    import time

    from procure.queue_time.state import live_state, read_state

    if state is not None and live:
        raise typer.BadParameter("give either --state or --live", param_hint="--live")
    if live:
        return live_state(tz), int(time.time())
    return (None, None) if state is None else (read_state(state, tz), None)


@app.command()
def predict(
    model: ModelOption,
    cpus: Annotated[int, typer.Option(min=1, help="CPUs in all.")],
    time: Annotated[str, typer.Option(help="The time limit: 8:00:00, 2-00:00:00, 90m, 2h.")],
    mem: Annotated[str, typer.Option(help="Memory per node, e.g. 64G; G = 1,000 MB.")] = "0",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs in all.")] = 0,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes.")] = 1,
    partition: Annotated[str, typer.Option(help="Partition; the most used one by default.")] = "",
    user: Annotated[str, typer.Option(help="Who submits.")] = "",
    deadline: Annotated[
        str | None, typer.Option(help="Chance of a start by then: 2h, or 2026-11-22T08:00.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="What squeue printed; see the how-to.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Ask squeue now.")] = False,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Rank other sizes, times and partitions.")
    ] = False,
    tz: TzOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Say when a job would start if it were submitted now: seconds from now.

    [bold]Examples[/bold]

    \b
    procure queue predict --model site.model --cpus 16 --mem 64G --time 8:00:00 --deadline 2h
    procure queue predict --model site.model --cpus 16 --time 8h --state squeue.txt --what-if
    """
    from procure.queue_time import predict as room
    from procure.queue_time import store

    site = store.load(model)
    request = room.Request(cpus, seconds_of(time, "--time"), megabytes_of(mem), gpus, nodes, partition, user)
    room.check_request(site, request)
    queue, now = _state(state, live, tz)
    features = room.current_features(site, request, queue, now)
    moment = _moment(site, queue, now)
    seconds = deadline_of(deadline, moment, tz)
    for warning in room.drift(site, features, moment):
        note(f"careful: {warning}")
    if what_if:
        print_table(room.what_if(site, request, queue, seconds), output, "the same work, soonest first")
        return
    said = room.forecast(site, features, seconds)
    if output is not Format.TABLE:
        print_record(said, output)
        return
    _print_forecast(said, room.drivers(site, features))


def _moment(site: SiteModel, queue: pd.DataFrame | None, now: int | None) -> int:
    if now is not None:
        return now
    if queue is not None and len(queue):
        return (
            int(
                max(
                    queue["submit_time"].max(),
                    queue["start_time"].dropna().max() if queue["start_time"].notna().any() else 0,
                )
            )
            + 1
        )
    return int(site.about["end"]) + 1


def _print_forecast(said: dict[str, Any], drivers: list[dict[str, Any]]) -> None:
    typer.echo(f"starts in about {span(said['median'])} (as likely sooner as later)")
    if said["lower_90"] is not None:
        typer.echo(f"  1 in 2:  {span(said['lower_50'])} to {span(said['upper_50'])}")
        typer.echo(f"  9 in 10: {span(said['lower_90'])} to {span(said['upper_90'])}")
    if said["p_before_deadline"] is not None:
        typer.echo(f"  chance of a start by the deadline: {said['p_before_deadline']:.0%}")
    for driver in drivers:
        typer.echo(f"  {driver['feature']} = {driver['value']:,.6g} {driver['effect']} the wait")


@app.command("trend")
def trend_(
    model: ModelOption,
    output: FormatOption = Format.TABLE,
) -> None:
    """Say whether the mean wait of the next four hours rises, and how such calls have fared.

    [bold]Example[/bold]

    \b
    procure queue trend --model site.model
    """
    from procure.queue_time import store

    site = store.load(model)
    if not site.trend:
        raise TableError(f"{model}: its log was too short to learn a trend from")
    now, record = site.trend["now"], site.trend["record"]
    up = now["chance_up"] > 0.5
    answer = {
        "direction": "up" if up else "down", "probability": now["chance_up"] if up else 1 - now["chance_up"],
        "last_mean_wait": now["last_mean_wait"], "record_calls": record["n_test"],
        "record_balanced_accuracy": record["balanced_accuracy"], "record_p_value": record["p_value"],
    }  # fmt: skip
    if record["p_value"] > 0.05:
        note("careful: past calls were no better than chance (permutation p > 0.05)")
    print_record(answer, output, f"mean wait of the 4 h after the model's log ends ({model}):")


@app.command()
def evaluate(
    log: LogArgument,
    split: Annotated[
        list[str] | None, typer.Option(help="random, chronological or rolling; may be given several times.")
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", help="Output table, json or csv; input swf, sacct or features. Repeatable."),
    ] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option(help="Format of the log, by its name otherwise.")
    ] = None,
    method: Annotated[list[Method] | None, typer.Option(help="Methods to judge; all by default.")] = None,
    report: Annotated[Path | None, typer.Option(help="An HTML report to write.")] = None,
    test_from: Annotated[
        str | None, typer.Option(help="First test moment: ISO time, or seconds in the log's own clock.")
    ] = None,
    test_log: Annotated[
        Path | None, typer.Option(help="A log that follows: train on LOG, test on this.")
    ] = None,
    last: Annotated[int | None, typer.Option(min=100, help="Use only the last so many jobs.")] = None,
    deadline: Annotated[str | None, typer.Option(help="In place of the training rows' mean wait.")] = None,
    target: Annotated[str | None, typer.Option(help="With --format features: which wait to predict.")] = None,
    k: Annotated[
        int | None, typer.Option(min=2, help="Groups of kmeans-gbt; chosen by validation otherwise.")
    ] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seeds; several with --format features.")] = None,
    preset: PresetOption = None,
    tz: TzOption = None,
) -> None:
    """Judge predictions of a log's waits on random, chronological and monthly rolling splits.

    [bold]Examples[/bold]

    \b
    procure queue evaluate log.swf --split chronological --format json
    procure queue evaluate log.swf --split random --split chronological --report report.html
    procure queue evaluate rows.parquet --format features --split random --seed 0 --seed 1
    """
    output, given = formats_of(formats or [])
    splits = splits_of(
        split or (["random"] if given == "features" and test_from is None else ["chronological"])
    )
    seconds = None if deadline is None else float(seconds_of(deadline, "--deadline"))
    if report is not None and not report.parent.is_dir():
        raise TableError(f"{report.parent}: no such folder to write {report.name} to")
    if given == "features":
        rows = _evaluate_features(log, splits, seed or [0], target, test_from, seconds, tz)
    else:
        jobs = read_log(log, given or log_format, preset, tz)
        cut = None if test_from is None else cut_of(test_from, jobs, tz)
        if test_log is not None:
            jobs, cut = followed_by(jobs, read_log(test_log, given or log_format, preset, tz))
        rows = _evaluate_log(jobs, splits, method, seed or [0], last, cut, k, seconds, report)
    if output is Format.JSON:
        print_json(rows)
    else:
        import pandas as pd

        columns = [
            "split", "method", "deadline_label", "n_test", "mae", "pinball", "within_2x", "deadline_accuracy",
            "majority_accuracy", "coverage_90", "brier", "brier_base",
        ]  # fmt: skip
        frame = pd.DataFrame(rows)
        print_table(frame if output is Format.CSV else frame[columns], output)


def _evaluate_features(
    path: Path, splits: list[str], seeds: list[int], target: str | None, test_from: str | None,
    deadline: float | None, tz: str | None,
) -> list[dict[str, Any]]:  # fmt: skip
    from procure.queue_time.ready import evaluate_ready, read_ready
    from procure.workload.clock import moment

    ready = read_ready(path, target)
    cut = None
    if test_from is not None:
        cut = int(test_from) if test_from.isdigit() else moment(test_from, tz or "UTC")
        splits = ["chronological" if name == "random" else name for name in splits]
    rows = []
    for name in splits:
        if name == "rolling":
            raise typer.BadParameter("ready-made features take random or chronological", param_hint="--split")
        rows += evaluate_ready(ready, name, seeds=tuple(seeds), test_from=cut, deadline=deadline)
    return _shown(rows)


def _evaluate_log(
    jobs: pd.DataFrame, splits: list[str], methods: list[Method] | None, seeds: list[int], last: int | None,
    cut: int | None, k: int | None, deadline: float | None, report: Path | None,
) -> list[dict[str, Any]]:  # fmt: skip
    from procure.queue_time.evaluation import METHODS
    from procure.queue_time.evaluation import evaluate as run

    names = [str(m) for m in methods] if methods else list(METHODS)
    found = run(
        jobs, splits, names, seed=seeds[0], last=last, test_from=cut, k=k, deadline=deadline, progress=note
    )
    if report is not None:
        from procure.queue_time.report import write_report

        write_report(found, report, seed=seeds[0])
        note(f"wrote {report}")
    return _shown(found.rows)


def _shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the deadline that only the report shows."""
    return [row for row in rows if row["deadline_label"] != "8h"]


@app.command()
def update(
    log: LogArgument,
    model: ModelOption,
    out: Annotated[
        Path | None, typer.Option(help="Where to write; the model file itself by default.")
    ] = None,
    log_format: Annotated[LogFormat | None, typer.Option("--format", help="Format of the log.")] = None,
    refit: Annotated[bool, typer.Option("--refit", help="Train again on the whole log given.")] = False,
    preset: PresetOption = None,
    tz: TzOption = None,
) -> None:
    """Continue a model with newer log rows: its recent past, its intervals, its trend; warn of drift.

    [bold]Example[/bold]

    \b
    procure queue update jobs-of-this-week.psv --format sacct --model site.model
    """
    from procure.queue_time import predict as room
    from procure.queue_time import store

    site, warnings, n_new = room.update(store.load(model), read_log(log, log_format, preset, tz), refit)
    for warning in warnings:
        note(f"careful: {warning}")
    store.save(site, out or model)
    note(f"{n_new:,} newer jobs; wrote {out or model}")


@app.command()
def watch(
    model: ModelOption,
    user: Annotated[str | None, typer.Option(help="Whose jobs; yours by default.")] = None,
    state: Annotated[Path | None, typer.Option(help="Read this file again and again, not squeue.")] = None,
    every: Annotated[int, typer.Option(min=5, help="Seconds between two looks.")] = 60,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many looks; 0 = never.")] = 0,
    tz: TzOption = None,
) -> None:
    """Show your pending jobs and when each may start, again every minute.

    [bold]Examples[/bold]

    \b
    procure queue watch --model site.model
    procure queue watch --model site.model --state squeue.txt --user alice --count 1
    """
    import getpass
    import time

    from rich.console import Console
    from rich.live import Live

    from procure.queue_time import store

    site, who, looks = store.load(model), user or getpass.getuser(), 0
    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            queue, now = _state(state, state is None, tz)
            assert queue is not None
            live.update(_pending_table(site, queue, who, now), refresh=True)
            looks += 1
            if count and looks >= count:
                return
            time.sleep(every)


def _pending_table(site: SiteModel, queue: pd.DataFrame, user: str, now: int | None) -> Any:
    from rich.table import Table

    from procure.queue_time import predict as room

    table = Table(title=f"pending jobs of {user}", title_justify="left")
    for name in ("job", "CPUs", "limit", "partition", "may start in", "9 in 10"):
        table.add_column(name)
    mine = queue[(queue["user"] == user) & queue["start_time"].isna()]
    for job in mine.head(30).itertuples():
        others = queue[queue["job_id"] != job.job_id]
        request = _request_of(job)
        said = room.forecast(site, room.current_features(site, request, others, now))
        interval = f"{span(said['lower_90'])} to {span(said['upper_90'])}"
        table.add_row(
            str(job.job_id), str(request.cpus), span(request.requested_time), request.partition,
            span(said["median"]), interval,
        )  # fmt: skip
    if mine.empty:
        table.add_row("none", "", "", "", "", "")
    return table


def _request_of(job: Any) -> Request:
    from procure.queue_time.predict import Request

    return Request(
        int(job.n_nodes * job.cpus_per_node), int(job.requested_time), int(job.mem_mb_per_node),
        int(job.n_nodes * job.gpus_per_node), int(job.n_nodes), str(job.partition), str(job.user),
    )  # fmt: skip
