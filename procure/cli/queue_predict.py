"""`procure queue predict`, `watch` and `trend`: ask a trained model about now."""

from __future__ import annotations

import getpass
import time as clock
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from procure.cli.common import Format, FormatOption, echo, note, print_record, print_table
from procure.cli.queue_inputs import deadline_of, limit_of, memory_of
from procure.cli.queue_options import ModelOption, TzOption
from procure.errors import TableError
from procure.queue_time import predict as room
from procure.queue_time import store
from procure.queue_time.state import live_state, read_state
from procure.queue_time.trend import describe_call
from procure.text import duration, printable


def predict(
    model: ModelOption,
    cpus: Annotated[int, typer.Option(min=1, help="CPUs in all.")],
    time: Annotated[str, typer.Option(help="The limit, as in sbatch: 480 (minutes), 8:00:00, 2-00; or 8h.")],
    mem: Annotated[str, typer.Option(help="Memory per node, as in sbatch: 64G is 64 GiB.")] = "0",
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
    """Predict when a job would start if it were submitted now: seconds from now.

    [bold]Examples[/bold]

    \b
    procure queue predict --model site.model --cpus 16 --mem 64G --time 8:00:00 --deadline 2h
    procure queue predict --model site.model --cpus 16 --time 8h --state squeue.txt --what-if
    """
    site = store.load(model)
    request = room.Request(cpus, limit_of(time), memory_of(mem), gpus, nodes, partition, user)
    room.check_request(site, request)
    queue, now = _state(state, live, tz)
    features = room.current_features(site, request, queue, now)
    moment = room.moment_of(site, queue) if now is None else now
    seconds = deadline_of(deadline, moment, tz)
    for warning in room.drift(site, features, moment):
        note(f"careful: {warning}")
    if what_if:
        choices = room.what_if(site, request, queue, seconds)
        shown = _choices(choices, deadline is not None) if output is Format.TABLE else choices
        print_table(shown, output, "the same work, soonest first")
        return
    answer = room.forecast(site, features, seconds)
    if output is not Format.TABLE:
        print_record(answer, output)
        return
    _print_forecast(answer, room.drivers(site, features))


def _choices(choices: pd.DataFrame, deadline: bool) -> pd.DataFrame:
    """Return the ways to ask for the same work as people read them."""

    def between(share: int) -> list[str]:
        ends = zip(choices[f"lower_{share}"], choices[f"upper_{share}"], strict=True)
        return [f"{duration(low)} to {duration(high)}" for low, high in ends]

    shown = choices[["cpus", "requested_time"]]
    if choices["partition"].astype(bool).any():
        shown = shown.assign(partition=choices["partition"])
    shown = shown.assign(**{"median wait": choices["median"], "1 in 2": between(50), "9 in 10": between(90)})
    if deadline:
        shown = shown.assign(**{"in time": [f"{chance:.0%}" for chance in choices["p_before_deadline"]]})
    return shown.assign(as_asked=choices["as_asked"])


def _state(state: Path | None, live: bool, tz: str | None) -> tuple[pd.DataFrame | None, int | None]:
    if state is not None and live:
        raise typer.BadParameter("give either --state or --live", param_hint="--live")
    if live:
        return live_state(tz), int(clock.time())
    return (None, None) if state is None else (read_state(state, tz), None)


def _print_forecast(answer: dict[str, Any], drivers: list[dict[str, Any]]) -> None:
    echo(f"starts in about {duration(answer['median'])} (as likely sooner as later)")
    if answer["lower_90"] is not None:
        echo(f"  1 in 2:  {duration(answer['lower_50'])} to {duration(answer['upper_50'])}")
        echo(f"  9 in 10: {duration(answer['lower_90'])} to {duration(answer['upper_90'])}")
    if answer["p_before_deadline"] is not None:
        echo(f"  chance of a start by the deadline: {answer['p_before_deadline']:.0%}")
    for driver in drivers:
        echo(f"  {driver['feature']} = {driver['value']:,.6g} {driver['effect']} the wait")


def trend(
    model: ModelOption,
    output: FormatOption = Format.TABLE,
) -> None:
    """Predict whether the mean wait of the next four hours rises; show how accurate past calls were.

    [bold]Example[/bold]

    \b
    procure queue trend --model site.model
    """
    site = store.load(model)
    if not site.trend:
        raise TableError(f"{model}: its log was too short to learn a trend from")
    answer = describe_call(site.trend)
    if answer["record_p_value"] > 0.05:
        note("careful: past calls were no better than chance (permutation p > 0.05)")
    print_record(answer, output, f"mean wait of the 4 h after the model's log ends ({model}):")


def watch(
    model: ModelOption,
    user: Annotated[str | None, typer.Option(help="Whose jobs; yours by default.")] = None,
    state: Annotated[Path | None, typer.Option(help="Read this file again and again, not squeue.")] = None,
    every: Annotated[int, typer.Option(min=5, help="Seconds between two looks.")] = 60,
    count: Annotated[int, typer.Option(min=0, help="Stop after N looks; 0 = never.", metavar="N")] = 0,
    tz: TzOption = None,
) -> None:
    """Show your pending jobs and when each may start, again every minute.

    [bold]Examples[/bold]

    \b
    procure queue watch --model site.model
    procure queue watch --model site.model --state squeue.txt --user alice --count 1
    """
    site, who, looks = store.load(model), user or getpass.getuser(), 0
    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            queue, now = _state(state, state is None, tz)
            assert queue is not None
            live.update(_pending_table(site, queue, who, now), refresh=True)
            looks += 1
            if count and looks >= count:
                return
            clock.sleep(every)


def _pending_table(site: store.SiteModel, queue: pd.DataFrame, user: str, now: int | None) -> Table:
    table = Table(title=escape(printable(f"pending jobs of {user}")), title_justify="left")
    for name in ("job", "CPUs", "limit", "partition", "may start in", "9 in 10"):
        table.add_column(name)
    waits = room.pending_waits(site, queue, user, now)
    for job in waits.itertuples():
        cells = (
            job.job_id, str(job.cpus), duration(job.requested_time), job.partition, duration(job.median),
            f"{duration(job.lower_90)} to {duration(job.upper_90)}",
        )  # fmt: skip
        table.add_row(*(escape(printable(text)) for text in cells))
    if waits.empty:
        table.add_row("none", "", "", "", "", "")
    return table
