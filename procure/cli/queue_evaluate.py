"""`procure queue evaluate`: how good predictions of a log's waits are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from procure.cli.common import Format, LogFormat, note, print_json, print_table
from procure.cli.queue_inputs import cut_of, followed_by, formats_of, read_log, seconds_of, splits_of
from procure.cli.queue_options import LogArgument, Method, PresetOption, ReplayOption, TzOption
from procure.errors import TableError

if TYPE_CHECKING:
    import pandas as pd


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
    replay: ReplayOption = False,
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
        rows = _evaluate_log(jobs, splits, method, seed or [0], last, cut, k, seconds, report, replay)
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
    cut: int | None, k: int | None, deadline: float | None, report: Path | None, replay: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    from procure.queue_time.evaluation import METHODS
    from procure.queue_time.evaluation import evaluate as run

    names = [str(m) for m in methods] if methods else list(METHODS)
    found = run(
        jobs, splits, names, seed=seeds[0], last=last, test_from=cut, k=k, deadline=deadline, replay=replay,
        progress=note,
    )  # fmt: skip
    if report is not None:
        from procure.queue_time.report import write_report

        write_report(found, report, seed=seeds[0])
        note(f"wrote {report}")
    return _shown(found.rows)


def _shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the deadline that only the report shows."""
    return [row for row in rows if row["deadline_label"] != "8h"]
