"""``procure sweep``: simulate every package that a study asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from procure.cli import common, farm_options, study_options
from procure.cli.search import find
from procure.packages.enumerate import TooManyPackages
from procure.study.check import plan_size, say_size
from procure.sweep import load_plan, run_sweep
from procure.sweep.farm import one_interrupt
from procure.sweep.store import study_status
from procure.text import counted


def sweep(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    farm: farm_options.FarmOption = "local",
    jobs: farm_options.JobsOption = None,
    walltime: farm_options.WalltimeOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be computed, and stop.")] = False,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Only shard I of 0 … N−1; then: procure study status STUDY.toml --merge"),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Simulate the packages of a study; a sweep that was interrupted computes only what is missing.

    Results go to RESULTS/NAME/results.parquet with a manifest.json beside it. Of packages that are too many to list,
    those that `procure search` chooses are simulated.

    Examples:
    procure sweep pipelines/example.toml --dry-run
    procure sweep pipelines/example.toml
    procure sweep pipelines/example.toml --farm serial --set sweep.sample=50
    procure sweep pipelines/year.toml --farm slurm --jobs 20 --walltime 1:00:00
    procure sweep pipelines/year.toml --shard 7/32
    """
    part = _shard(shard) if shard else None
    of_study, workers = farm_options.farm_options(farm, settings, jobs=jobs, walltime=walltime)
    study = study_options.load(path, of_study)
    try:
        plan = load_plan(study)
    except TooManyPackages:
        if part:
            raise
        common.note(f"{path}: {say_size(study)}")
        if dry_run:
            common.print_record(plan_size(study), output, f"{path} would search:")
        else:
            find(study, farm, workers, None, output)
        return
    for text in plan.notes:
        common.note(text)
    if dry_run:
        common.print_record(_planned(plan, study_status(plan, common.note)), output, f"{path} would compute:")
        return
    workers = replace(workers, folder=study.folder)
    with one_interrupt(last=True):
        try:
            summary = run_sweep(plan, farm, note=common.note, options=workers, shard=part)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"what was computed is kept, and `procure sweep {path}` goes on from there"
            ) from None
    record = summary._asdict() | {"results": str(summary.results)}
    if summary.n_computed and summary.seconds > 0:
        record["runs_per_second"] = summary.n_computed / summary.seconds
        record["kernel_share"] = summary.kernel_seconds / (summary.seconds * max(1, summary.n_workers))
    common.print_record(record, output, f"{study.name}: sweep finished")
    if part:
        common.note(f"when all shards are done: procure study status {path} --merge")


def _shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and int(number) < int(count):
        return int(number), int(count)
    raise typer.BadParameter(f"{text!r} was given; write I/N with I from 0 to N-1", param_hint="--shard")


def _planned(plan, status: dict) -> dict:
    return {
        "n_packages": len(plan.packages),
        "n_distinct": int(plan.packages["distinct"].sum()),
        "n_sampled": len(plan.sampled_rows),
        "workloads": ", ".join(f"{name} ({counted(len(jobs), 'job')})" for name, jobs in plan.workloads.items()),
        "policies": ", ".join(plan.study.simulate.policies),
        "n_runs": plan.n_runs,
        "n_missing": status["n_missing"],
        "folder": status["folder"],
    }
