"""``procure ask``: the same packages under another budget or bound, from what was simulated."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from procure.cli import common, study_options
from procure.recommender.objections import objections
from procure.recommender.recommendation import records
from procure.reports.buying import ask as ask_again
from procure.text import counted


def ask(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="AMOUNT", callback=common.usd, help="US$ for the servers, at most the study's, e.g. 800k."
        ),
    ] = None,
    constraints: study_options.ConstraintOption = None,
    objective: study_options.ObjectiveOption = None,
    k: study_options.LengthOption = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Simulate the head of the list where it is predicted.")
    ] = False,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Rank the packages again under another budget or bound, within seconds: nothing is simulated for it.

    Examples:
    procure ask study.toml --budget 800000
    procure ask study.toml --budget 800000 --constraint 'gpu_p95_wait<=4h' --confirm
    """
    usd = None if budget is None else float(budget)
    study = study_options.load(path, settings)
    done = ask_again(study, budget=usd, constraints=constraints or (), objective=objective, k=k, confirm=confirm)
    top = done.ranking.head(done.k)
    n = int((~top["simulated"]).sum())
    lines = [f"{n} of the {counted(done.k, 'package')} are predicted: --confirm simulates them"] if n else []
    lines += [f"objection: {one}" for one in objections(done)]
    list_ = partial(common.print_table, done.shown(), common.Format.TABLE, done.title)
    common.tell(output, lines, lambda: records(done), top, list_)
