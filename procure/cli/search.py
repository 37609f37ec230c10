"""``procure search``: the model chooses what to simulate next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from procure.cli import common, farm_options, study_options
from procure.explorer.run import search as search_packages
from procure.study import Study
from procure.sweep import FarmOptions
from procure.sweep.farm import one_interrupt
from procure.tables import write
from procure.text import counted


def search(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    k: study_options.LengthOption = None,
    objective: study_options.ObjectiveOption = None,
    constraints: study_options.ConstraintOption = None,
    method: Annotated[
        str,
        typer.Option(help="model, or every-tenth: the published rule, every n-th package and a model of their totals."),
    ] = "model",
    farm: farm_options.FarmOption = "serial",
    out: Annotated[Path | None, common.table_option("Also write every simulated package, ranked")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Find the best packages with few simulations: a model proposes, the simulator answers, in rounds.

    The list holds simulated packages only, those that run every job first, by mean wait in seconds over
    all jobs of all workloads, or by --objective under --constraint; with what was spent. A second call goes
    on where the first ended; nothing is simulated twice, what the study's own sweep has simulated is known
    from the start and free, and `procure recommend` uses what is simulated here.

    [bold]When it ends.[/bold] When the budget is spent (search.runs, or search.share of all packages: 0.01); or, by
    the model, when for search.stable_rounds rounds in a row (5; 0 = never) no package of the round came among the
    first k of the list (at least 50); or when every package is simulated. A round is a sixth of the packages so far,
    but at least search.batch (24); the first is 64.

    Examples:
    procure search pipelines/example.toml --set search.runs=250
    procure search pipelines/example.toml --set search.share=0.01 -k 10 --format json
    procure search pipelines/large.toml --set search.runs=2000 --farm local
    procure search pipelines/example.toml --objective p95-wait --constraint 'total_gpus>=20'
    """
    of_study, workers = farm_options.farm_options(farm, settings)
    study = study_options.load(path, of_study)
    asked = {"k": k, "objective": objective, "constraints": constraints, "method": method}
    find(study, farm, workers, out, output, **asked)


def find(study: Study, farm: str, workers: FarmOptions, out: Path | None, output: common.Format, **asked: Any) -> None:
    """Search a study's packages, and print what was found."""
    workers = replace(workers, folder=study.folder)
    with one_interrupt(last=True):
        try:
            found = search_packages(study, **asked, farm=farm, options=workers, note=common.note, progress=_progress)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what was simulated is kept, and the same command goes on from there") from None
    if out is not None:
        write(found.ranking, out)
        common.note(f"wrote {counted(len(found.ranking), 'simulated package')} to {out}")

    def people() -> None:
        common.print_table(found.shown(), output, found.title)
        common.print_record(found.spent, output, "Spent:")

    document = {"packages": found.records(), "spent": found.spent}
    common.tell(output, found.notes, lambda: document, found.ranking.head(found.k), people)


def _progress(done: int, total: int, best: float) -> None:
    so_far = f"; best so far: {best:,.1f}" if best == best else ""
    common.note(f"{done:,} of {counted(total, 'run')} requested{so_far}")
