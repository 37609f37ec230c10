"""`procure queue`: when will my job start? Train on a log, predict, watch, judge."""

from __future__ import annotations

import getpass
import re
import sys
import time as clock
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console

from procure.cli import common, lazy
from procure.errors import TableError
from procure.queue_time import answer as answers
from procure.queue_time import evaluation, store
from procure.queue_time import predict as room
from procure.queue_time.answer import age_of
from procure.queue_time.evaluation import METHODS
from procure.queue_time.log import left_out
from procure.queue_time.predict import read_script
from procure.queue_time.state import HELD, live_state, read_state
from procure.settings import LARGEST
from procure.text import duration, nearest, roughly
from procure.workload.clock import FIRST_DATE, moment, utc_text
from procure.workload.log_settings import LogSettings
from procure.workload.slurm import slurm_limit, slurm_memory_limit

app = lazy.command_group()


@app.callback()
def queue() -> None:
    """When will my job start? Train on a log, predict, watch, judge."""


LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="A job log, or a job table (.parquet, .csv).")]
_SHOWN = (
    "split method deadline_label n_test mae pinball within_2x deadline_accuracy majority_accuracy "
    "coverage_90 brier brier_base"
).split()


def train(
    log: LogArgument,
    out: Annotated[
        Path | None,
        typer.Option(callback=common.in_folder, help="The model file to write; with --update the same by default."),
    ] = None,
    tz: common.TzOption = None,
    settings: common.LogSetOption = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--update",
            metavar="MODEL",
            help="Continue this model with a newer log: recent past and intervals.",
        ),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Train a model of a site's waits on its job log, or continue one with what came since and warn of drift.

    Examples:
    procure queue train jobs.psv --set format=sacct --tz Europe/Berlin --out site.model
    procure queue train jobs-of-this-week.psv --set format=sacct --update site.model
    """
    if (out := out or model) is None:
        raise typer.BadParameter("a file is needed for the model", param_hint="--out")
    known = None if model is None else store.load(model)
    jobs = _read(log, settings, tz)
    site = store.train(jobs) if known is None else store.continue_training(known, jobs, note=common.note)
    store.save(site, out)
    n_rows, size = int(site.about["trained_rows"]), out.stat().st_size
    if output is common.Format.TABLE:
        common.note(f"trained on {n_rows:,} jobs; wrote {out} ({size / 1e6:.1f} MB)")
        return
    record = {"n_jobs_trained": n_rows, "n_jobs_known": int(site.about["n_rows"])}
    common.print_record(record | {"size_mb": size / 1e6, "file": str(out)}, output)


def evaluate(
    log: LogArgument,
    split: Annotated[list[str] | None, typer.Option(help="random or chronological; may be given twice.")] = None,
    tz: common.TzOption = None,
    settings: common.LogSetOption = None,
    method: Annotated[
        list[str] | None, typer.Option(help="procure, kmeans-gbt, gbt or rival; all by default. Repeatable.")
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge predictions of a log's waits on a random or a chronological split.

    Examples:
    procure queue evaluate log.swf --split chronological --format json
    procure queue evaluate log.swf --split random --split chronological
    """
    splits = _names(split or ["chronological"], evaluation.SPLITS, "--split")
    methods = _names(method or METHODS, METHODS, "--method")
    found = evaluation.evaluate(_read(log, settings, tz), splits, methods, progress=common.note)
    if found.stated:
        common.note("procure was trained at the cut and learnt from each outcome as soon as it was known")
    frame = pd.DataFrame(found.rows)
    common.print_table(frame[_SHOWN] if output is common.Format.TABLE else frame, output)
    common.note(evaluation.verdict(found))


def _names(given: Sequence[str], legal: Sequence[str], option: str) -> list[str]:
    """Check the names that an option was given; each once."""
    for name in given:
        if name not in legal:
            raise typer.BadParameter(f"{name!r}; {nearest(name, legal)}", param_hint=option)
    return list(dict.fromkeys(given))


def _read(log: Path, settings: list[str] | None, tz: str | None) -> pd.DataFrame:
    """Read a log, and say which of its jobs tell nothing of waits."""
    jobs = common.read_jobs(log, common.settings_of(settings, LogSettings, log_tz=tz), keep_unfinished="sacct").jobs
    common.note(*left_out(jobs))
    return jobs


ModelOption = Annotated[Path, typer.Option("--model", help="A model file of `procure queue train`.")]


def predict(
    model: ModelOption,
    script: Annotated[
        Path | None,
        typer.Argument(metavar="JOB.SH", help="A batch script, whose #SBATCH lines say what is asked for."),
    ] = None,
    cpus: Annotated[int | None, typer.Option(min=1, max=LARGEST, help="CPUs in all.")] = None,
    time: Annotated[
        str | None, typer.Option(help="The limit, as in sbatch: 480 (minutes), 8:00:00, 2-00; or 8h.")
    ] = None,
    mem: Annotated[str | None, typer.Option(help="Memory per node, as in sbatch: 64G is 64 GiB.")] = None,
    gpus: Annotated[int | None, typer.Option(min=0, max=LARGEST, help="GPUs in all.")] = None,
    partition: Annotated[str, typer.Option(help="Partition; the most used one by default.")] = "",
    deadline: Annotated[str | None, typer.Option(help="Chance of a start by then: 2h, or 2026-11-22T08:00.")] = None,
    state: Annotated[Path | None, typer.Option(help="What squeue printed; see the how-to.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Ask squeue now.")] = False,
    what_if: Annotated[bool, typer.Option("--what-if", help="Rank other sizes, times and partitions.")] = False,
    tz: common.TzOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Predict when a job would start if it were submitted now: seconds from now.

    What is asked for is read from a batch script's #SBATCH lines, or given by options, which go before.

    Examples:
    procure queue predict job.sh --model site.model --live
    procure queue predict --model site.model --cpus 16 --mem 64G --time 8:00:00 --deadline 2h
    procure queue predict --model site.model --cpus 16 --time 8h --state squeue.txt --what-if
    """
    site = store.load(model)
    given: dict[str, Any] = {"cpus": cpus, "gpus": gpus, "partition": partition or None}
    if time is not None:
        with common.bad_option("--time"):
            given["requested_time"] = slurm_limit(time)
    if mem is not None:
        with common.bad_option("--mem"):  # MB of 2^20 bytes, which a job table of a Slurm log takes for its MB
            given["mem_mb"] = slurm_memory_limit(mem)
    given = {name: value for name, value in given.items() if value is not None}
    if script is not None:
        asked = read_script(script)
        request = replace(asked.request, **given)
        common.note(*asked.notes)
    elif cpus is None or time is None:
        raise typer.BadParameter("give --cpus and --time, or a batch script", param_hint="JOB.SH")
    else:
        request = room.Request(**given)
    queue, now = _state(state, live, tz)
    room.check_request(site, request, queue)
    now = room.moment_of(site, queue) if now is None else now
    if queue is None:
        date = f", {utc_text(now)}" if now > FIRST_DATE else ""
        common.note(f"assuming that it is the end of the model's log{date}; --state or --live gives the present queue")
    elif queue.empty and state is not None:
        common.note(f"{state} lists no jobs: assuming an empty queue at the end of the model's log")
    seconds = _deadline(deadline, now, tz)
    if what_if:
        choices = answers.what_if(site, request, queue, seconds, now)
        shown = _choices(choices, deadline is not None) if output is common.Format.TABLE else choices
        common.print_table(shown, output, "the same work, soonest first")
        return
    said = answers.predict_queue(site, request, queue, now=now, deadline=seconds)
    if output is common.Format.TABLE:
        _print_answer(said)
        return
    if output is common.Format.CSV:
        said |= {name: " ".join(said[name]) for name in ("because", "caution")}
    common.print_record(said, output)


def _deadline(text: str | None, now: int, tz: str | None) -> float | None:
    """Read a deadline as seconds from now: a duration, or a moment."""
    if text is None:
        return None
    if re.match(r"\d{4}-\d{2}-\d{2}", text):
        seconds = moment(text, tz or "UTC") - now
        if seconds <= 0:
            raise TableError(f"the deadline {text} has passed; a later one is needed")
        return float(seconds)
    return float(common.seconds_of(text, "--deadline"))


def _choices(choices: pd.DataFrame, deadline: bool) -> pd.DataFrame:
    """Return the ways to ask for the same work as people read them."""

    def between(share: int) -> list[str]:
        return [_between(one, share) for one in choices.to_dict("records")]

    shown = choices[["cpus"]].assign(limit=[_limit(seconds) for seconds in choices["requested_time"]])
    if choices["partition"].astype(bool).any():
        shown = shown.assign(partition=choices["partition"])
    shown = shown.assign(
        **{"median wait": choices["median"].map(roughly), "1 in 2": between(50), "9 in 10": between(90)}
    )
    if deadline:
        shown = shown.assign(**{"in time": [f"{one:.0%}" for one in choices["p_before_deadline"]]})
    return shown.assign(as_asked=choices["as_asked"])


def _limit(seconds: int) -> str:
    return duration(seconds) if seconds else "none"


def _state(
    state: Path | None, live: bool, tz: str | None, held: bool = False
) -> tuple[pd.DataFrame | None, int | None]:
    if state is not None and live:
        raise typer.BadParameter("give either --state or --live", param_hint="--live")
    if live:
        return live_state(tz, held), int(clock.time())
    return (None, None) if state is None else (read_state(state, tz, held), None)


def _print_answer(said: dict[str, Any]) -> None:
    median = said["median"]
    when = f"in about {roughly(median)}" if median >= 2.5 else "at once"
    common.echo(f"Your job starts {when}, as likely sooner as later.")
    common.echo(f"  1 in 2 such jobs:  {_between(said, 50)}")
    common.echo(f"  9 in 10 such jobs: {_between(said, 90)}")
    if said["p_before_deadline"] is not None:
        common.echo(f"  Chance of a start by the deadline: {said['p_before_deadline']:.0%}")
    common.echo(*said["because"])
    for sentence in said["caution"]:
        common.echo(f"Careful: {sentence}")


def _between(said: Any, share: int) -> str:
    low, high = (roughly(said[f"{end}_{share}"]) for end in ("lower", "upper"))
    if low == high:
        return low
    # below 1 s the interval leaves out nobody who starts sooner, so that it says what "within" says
    return f"within {high}" if said[f"lower_{share}"] < 1 else f"{low} to {high}"


_EVERY, _MOST_SHOWN = 60, 30
"""Seconds between two looks, and jobs that are shown."""


def watch(
    model: ModelOption,
    user: Annotated[str | None, typer.Option(help="Whose jobs; yours by default.")] = None,
    state: Annotated[Path | None, typer.Option(help="Read this file again and again, not squeue.")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Show your pending jobs and when each may start, again every minute.

    What is said of a job counts with the time that it has waited already. Where stdout is no terminal it looks once.

    Examples:
    procure queue watch --model site.model
    procure queue watch --model site.model --state squeue.txt --user alice --format json
    """
    site, who, console = store.load(model), user or getpass.getuser(), Console()
    people = output is common.Format.TABLE
    while True:
        whole, now = _state(state, state is None, None, held=True)
        assert whole is not None
        queue, held = whole[whole["state"] != HELD], whole[(whole["state"] == HELD) & (whole["user"] == who)]
        # They do not compete yet: a row of each has its reason, and no wait.
        held = held[["job_id", "requested_time", "partition", "reason"]].assign(
            cpus=held["n_nodes"] * held["cpus_per_node"]
        )
        waits = room.pending_waits(site, queue, who, now, _MOST_SHOWN if people else None)
        jobs = pd.concat([waits, held], ignore_index=True)
        if people:
            console.clear()  # nothing where stdout is no terminal
            common.print_table(
                _readable(jobs.head(_MOST_SHOWN)), output, f"pending jobs of {who}: {len(jobs) or 'none'}"
            )
            for one in age_of(site, room.moment_of(site, queue) if now is None else now):
                common.echo(f"Careful: {one.text}")
            if (n := int(((queue["user"] == who) & queue["start_time"].isna()).sum())) > len(waits):
                common.echo(f"{len(waits):,} of {n:,} shown, those that wait longest; --format json has all")
        else:
            common.print_table(jobs, output)
        if not sys.stdout.isatty():
            return
        clock.sleep(_EVERY)


def _readable(jobs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for job in jobs.to_dict("records"):
        answer = ["", "held", job.get("reason")]
        if "waited" in job and job["waited"] == job["waited"]:
            so_far = roughly(job["waited"]) if job["waited"] >= 2.5 else "just now"
            answer = [so_far, roughly(job["median"]), _between(job, 90)]
        rows.append([job["job_id"], job["cpus"], _limit(job["requested_time"]), job["partition"], *answer])
    return pd.DataFrame(rows, columns=["job", "CPUs", "limit", "partition", "waited", "may start in", "9 in 10"])


for _command in (train, predict, watch, evaluate):
    app.command()(_command)
