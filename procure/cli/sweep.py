"""``procure sweep``, ``search``, ``train``, ``evaluate``: simulate packages, and learn from those."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from procure.cli import common, study_options
from procure.explorer.run import search as search_packages
from procure.files.read import lacking
from procure.packages.enumerate import TooManyPackages
from procure.page.names import head
from procure.recommender.evaluate import evaluate as evaluate_study
from procure.recommender.evaluate import train as train_model
from procure.recommender.forward import forward
from procure.settings import MOST_COUNTED
from procure.study import Study
from procure.study.check import plan_size, say_size
from procure.sweep import FarmOptions, Plan, load_plan, run_sweep
from procure.sweep.connect import n_local_workers
from procure.sweep.store import verify
from procure.text import counted

OF_RUN = 600
"""Bytes of a worker's own for each job of its workload, under a policy that keeps most."""


def sweep(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    farm: study_options.FarmOption = "local",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be computed, and stop.")] = False,
    shard: str | None = typer.Option(
        None, metavar="I/N", help="Only shard I of 0 … N−1; then: procure study status STUDY.toml --merge"
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Simulate the packages of a study; a sweep that was interrupted computes only what is missing.

    Results go to RESULTS/NAME/results.parquet with a manifest.json beside it. Of packages that are too many to list,
    those that `procure search` chooses are simulated.

    Examples:
    procure sweep pipelines/example.toml --dry-run
    procure sweep pipelines/example.toml
    procure sweep pipelines/example.toml --farm serial --set sweep.sample=50
    """
    part = _shard(shard) if shard else None
    of_study, workers = study_options.farm_options(farm, settings)
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
            _search(study, farm, workers, None, output)
        return
    common.note(*plan.notes)
    if dry_run:
        common.print_record(_planned(plan), output, f"{path} would compute:")
        return
    _note_memory(plan, farm)
    with study_options.interruptible(f"computed is kept, and `procure sweep {path}` goes on from there"):
        summary = run_sweep(plan, farm, note=common.note, options=replace(workers, folder=study.folder), shard=part)
    record = summary._asdict() | {"results": str(summary.results)}
    if summary.n_computed and summary.seconds > 0:
        record["runs_per_second"] = summary.n_computed / summary.seconds
        record["kernel_share"] = summary.kernel_seconds / (summary.seconds * max(1, summary.n_workers))
    common.print_record(record, output, f"{study.name}: sweep finished")
    if part:
        common.note(f"when all shards are done: procure study status {path} --merge")


def _note_memory(plan: Plan, farm: str) -> None:
    """Say that workers on this machine will hardly fit into its memory; that they never will is an error."""
    n, workers = max(map(len, plan.workloads.values()), default=0), n_local_workers() if farm == "local" else 1
    if farm in ("serial", "local"):
        what = f"{counted(workers, 'worker')} with a workload of {n:,} jobs"
        remedy = "take fewer weeks (`procure workload slice`) or fewer workers (`taskset`)"
        if (said := lacking(what, n, OF_RUN, remedy, workers)) is not None:
            common.note(f"careful: {said}")


def _shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and int(number) < int(count):
        return int(number), int(count)
    raise typer.BadParameter(f"{text!r} was given; write I/N with I from 0 to N-1", param_hint="--shard")


def _planned(plan: Plan) -> dict[str, Any]:
    status, problems = verify(plan)
    common.note(*(f"careful: {text}" for text in problems))
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


def search(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    k: study_options.LengthOption = None,
    objective: study_options.ObjectiveOption = None,
    constraints: study_options.ConstraintOption = None,
    method: str = typer.Option(
        "model", help="model, or every-tenth: the published rule, every n-th package and a model of their totals."
    ),
    farm: study_options.FarmOption = "serial",
    out: Annotated[Path | None, common.table_option("Also write every simulated package, ranked")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Find the best packages with few simulations: a model proposes, the simulator answers, in rounds.

    The list holds simulated packages only. A second call goes on where the first ended; what the study's own sweep has
    simulated is free, and `procure recommend` uses what is simulated here. It ends when search.runs, or search.share of
    all packages, are spent; or when search.stable_rounds rounds in a row brought none among the first k.

    Examples:
    procure search pipelines/example.toml --set search.runs=250
    procure search pipelines/example.toml --set search.share=0.01 -k 10 --format json
    procure search pipelines/large.toml --set search.runs=2000 --farm local
    """
    of_study, workers = study_options.farm_options(farm, settings)
    study = study_options.load(path, of_study)
    asked = {"k": k, "objective": objective, "constraints": constraints, "method": method}
    _search(study, farm, workers, out, output, **asked)


def _search(
    study: Study, farm: str, workers: FarmOptions, out: Path | None, output: common.Format, **asked: Any
) -> None:
    """Search a study's packages, and print what was found."""

    def progress(done: int, total: int, best: float) -> None:
        so_far = f"; best so far: {best:,.1f}" if best == best else ""
        common.note(f"{done:,} of {counted(total, 'run')} requested{so_far}")

    workers = replace(workers, folder=study.folder)
    with study_options.interruptible("simulated is kept, and the same command goes on from there"):
        found = search_packages(study, **asked, farm=farm, options=workers, note=common.note, progress=progress)
    common.write_to(out, found.ranking, counted(len(found.ranking), "simulated package"))

    def people() -> None:
        common.print_table(found.shown(), output, found.title)
        common.print_record(found.spent, output, "Spent:")

    document = {"packages": found.records(), "spent": found.spent}
    common.tell(output, found.notes, lambda: document, found.ranking.head(found.k), people)


def train(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Cross-validate the study's model on the packages that were simulated, and keep it.

    Every simulated package is predicted by the folds that did not see it. RMSE is in seconds, and
    relative to always answering the mean (below 1 is better). Models go to RESULTS/NAME/models/.

    Examples:
    procure train pipelines/example.toml
    procure train pipelines/example.toml --set model.feature_set=totals --format json
    """
    done = train_model(study_options.load(path, settings), note=common.note)

    def people() -> None:
        for row in done.table.to_dict(orient="records"):
            common.print_record(row, output, f"{done.study}, {row['workload']}: out-of-fold error")
            pearson = done.correlations[row["workload"]].rename_axis("").reset_index()
            pearson[""] = [head(name)[0] for name in pearson[""]]
            plain = dict.fromkeys(pearson.columns, "")
            common.print_table(pearson, output, "Pearson correlation over the simulated packages", plain)

    common.tell(output, done.notes, done.records, done.table, people)


def evaluate(
    context: typer.Context,
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    truth: Path | None = typer.Option(
        None,
        metavar="STUDY_OR_PARQUET",
        help="A study or result table that simulated more packages: hits and regret are taken from it.",
    ),
    rule: study_options.RuleOption = "runs-all",
    hit_threshold: list[int] | None = typer.Option(
        None,
        min=0,
        metavar="N",
        max=MOST_COUNTED,
        help="Judge the study's workloads together: a hit is among the best on more than N of them; repeat; "
        "default: the study's evaluate.hit_threshold.",
    ),
    ahead: bool = typer.Option(
        False, "--forward", help="Backtest: choose on the jobs before each cut, judge on those after. Needs no sweep."
    ),
    cut: list[str] | None = typer.Option(
        None,
        metavar="DAY",
        help="--forward: buy as of this local day or moment; repeat; default: every first of a month.",
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge the study's model against what was simulated, beside a random and a naive choice.

    A hit is a package whose mean wait is among the lowest 5 % of those that run every job; simulated packages are
    predicted by the folds that did not see them. Regret is how much longer jobs wait on the best of the first k than on
    the best of all. With --hit-threshold N a hit is among the best on more than N of the workloads. With --forward:
    what `recommend` and simpler rules would have bought as of each cut, and how long jobs waited afterwards.

    Examples:
    procure evaluate pipelines/example.toml
    procure evaluate pipelines/example.toml --set evaluate.hit_share=0.01 --format json
    procure evaluate pipelines/example.toml --rule published
    """
    study = study_options.load(path, settings)
    if ahead:
        common.refuse_given(context, "--forward does not use it", "truth", "rule", "hit_threshold")
        common.show(forward(study, cut, note=common.note), output)
        return
    common.refuse_given(context, "it belongs to --forward", "cut")
    found = evaluate_study(study, truth=truth, rule=rule, hit_threshold=hit_threshold, note=common.note)

    def people() -> None:
        common.echo(*found.verdict())
        for title, table in found.shown().items():
            common.print_table(table, output, title)

    common.tell(output, found.notes, found.to_dict, found.hits, people)
