"""`procure study`: the file that holds one purchase question."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, lazy
from procure.errors import TableError
from procure.study import Plan, load_plan, load_study
from procure.study.check import application_table, check_study, gpu_models, gpu_notes, study_notes, study_text
from procure.sweep import store
from procure.sweep.tls import dask_options
from procure.text import be, counted

StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file, .toml.")]

app = lazy.command_group()


@app.command("init")
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The study file to write, .toml.")],
    quotes: Annotated[Path, typer.Option(help="The quote file of the study.")] = Path("quotes.csv"),
    budget: Annotated[
        str, typer.Option(metavar="USD", callback=common.usd, help="Budget in US$, e.g. 1.2M.")
    ] = "1000000",
) -> None:
    """Write a study file that shows every setting with its default; never over an existing file.

    Examples:
    procure study init mystudy.toml --quotes quotes/example-2023.csv --budget 1000000
    """
    text = study_text(path, Path(os.path.relpath(quotes, path.parent)), float(budget))
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise TableError(f"{path}: exists already; nothing was written") from None
    common.note(f"wrote {path}; next: procure study check {path}")


@app.command("check")
def check_(
    path: StudyArgument,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Say everything that is wrong with a study file, or what its sweep comes to.

    Examples:
    procure study check pipelines/example.toml
    procure study check pipelines/example.toml --format json
    """
    loaded, size = check_study(path)
    missing = gpu_models(loaded)
    for text in [*study_notes(loaded), *gpu_notes(loaded, missing)]:
        common.note(text)
    workloads, policies = [each.name for each in loaded.workloads], list(loaded.simulate.policies)
    people = output is not common.Format.JSON
    record = {
        "name": loaded.name,
        "results": str(loaded.folder),
        "budget_usd": loaded.packages.budget_usd,
        "workloads": ", ".join(workloads) if people else workloads,
        "policies": ", ".join(policies) if people else policies,
        **size,
    }
    if not people:
        record["gpu_models"] = missing.to_dict(orient="records")
        record["applications"] = application_table(loaded).to_dict(orient="records")
    unmapped = sum(not models for models in missing["runs_on"])
    open_ = (
        f"no error, but nobody offers {counted(unmapped, 'GPU model')} of the log" if unmapped else "no problem found"
    )
    common.print_record(record, output, f"{path}: {open_}")


@app.command("status")
def status(
    path: StudyArgument,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Say how many runs of a study are planned, done, failed and missing.

    Examples:
    procure study status pipelines/example.toml
    """
    common.print_record(store.study_status(_plan(path), common.note), output, str(path))


@app.command("merge")
def merge(
    path: StudyArgument,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Bring the parts of all shards into the one result table; exit code 1 while runs are missing.

    Examples:
    procure study merge pipelines/example.toml
    """
    counts = store.merge(_plan(path), common.note)
    common.print_record(counts, output, str(path))
    if counts["n_missing"]:
        common.note(
            f"{counted(counts['n_missing'], 'run')} {be(counts['n_missing'])} missing; run the shards again, or: "
            f"procure sweep {path}"
        )
        raise typer.Exit(1)


@app.command("verify")
def verify(
    path: StudyArgument,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Check that every planned run is there exactly once and every file is whole; exit code 1 if not.

    Examples:
    procure study verify pipelines/example.toml
    """
    counts, problems = store.verify(_plan(path))
    common.print_record(counts | {"n_problems": len(problems)}, output, str(path))
    for problem in problems:
        common.note(problem)
    if problems:
        raise typer.Exit(1)


@app.command("tls")
def tls(path: StudyArgument) -> None:
    """Make a study's TLS keys if there are none; print what Dask's scheduler and workers need.

    Examples:
    python -m procure.sweep.headless scheduler --protocol tls $(procure study tls mystudy.toml)
    """
    common.echo(dask_options(load_study(path).folder))


def _plan(path: Path) -> Plan:
    return load_plan(load_study(path))
