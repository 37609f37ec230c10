"""``procure sweep``: simulate every package that a study asks for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common


def sweep(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")],
    farm: Annotated[
        str, typer.Option(help="serial, local, or the address of a Dask scheduler such as tcp://HOST:PORT.")
    ] = "local",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be computed, and stop.")] = False,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Simulate the packages of a study; a sweep that was interrupted computes only what is missing.

    Results go to RESULTS/NAME/results.parquet with a manifest.json beside it.

    [bold]Examples[/bold]

    \b
    procure sweep pipelines/example.toml --dry-run
    procure sweep pipelines/example.toml
    procure sweep pipelines/example.toml --farm serial
    """
    from procure.study import load_study
    from procure.sweep import load_plan, run_sweep
    from procure.sweep.store import study_status

    plan = load_plan(load_study(study))
    for name in plan.workloads:
        if plan.logged_speed(name) is None:
            common.note(
                f"workload {name}: no logged processor or speed; run times as logged on every node (ratio 1.0)"
            )
    if dry_run:
        common.print_record(_planned(plan, study_status(plan)), output, f"{study} would compute:")
        return
    try:
        with _progress() as show:
            summary = run_sweep(plan, farm, progress=show, note=common.note)
    except KeyboardInterrupt:
        common.note(f"interrupted; what was computed is kept, and `procure sweep {study}` goes on from there")
        raise typer.Exit(130) from None
    record = summary._asdict() | {"results": str(summary.results)}
    if summary.n_computed and summary.seconds > 0:
        record["runs_per_second"] = summary.n_computed / summary.seconds
        record["kernel_share"] = summary.kernel_seconds / (summary.seconds * summary.n_workers)
    common.print_record(record, output, f"{plan.study.name}: sweep finished")


def _planned(plan, status: dict) -> dict:
    return {
        "n_packages": len(plan.packages),
        "n_distinct": int(plan.packages["distinct"].sum()),
        "n_sampled": len(plan.sampled_rows),
        "workloads": ", ".join(f"{name} ({len(jobs):,} jobs)" for name, jobs in plan.workloads.items()),
        "policies": ", ".join(plan.study.simulate.policies),
        "n_runs": plan.n_runs,
        "n_missing": status["n_missing"],
        "folder": status["folder"],
    }


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal, a line every 10 s elsewhere; both on stderr."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("simulating"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=None, rate="")
            began = time.perf_counter()

            def show(done: int, total: int) -> None:
                rate = done / max(time.perf_counter() - began, 1e-9)
                bar.update(task, completed=done, total=total, rate=f"{rate:,.0f} runs/s" if done else "")

            yield show
        return
    began = last = time.perf_counter()

    def say(done: int, total: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if now - last < 10 and 0 < done < total:
            return
        last = now
        rate = done / max(now - began, 1e-9)
        left = f", {(total - done) / rate:,.0f} s left" if rate > 0 else ""
        common.note(f"{done:,} of {total:,} runs, {rate:,.0f} runs/s{left}")

    yield say
