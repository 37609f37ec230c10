"""``procure plan``: all now, or in parts over the years."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, study_options
from procure.recommender.parts import BEAM, DRAWS_PER_YEAR, N_CANDIDATES, plan_purchases
from procure.settings import LAST_SEED


def plan(
    study: Annotated[Path, study_options.study_argument("The study file; it needs no sweep.")],
    years: Annotated[int, typer.Option(help="How long the system is to serve.")],
    budget_per_year: Annotated[
        str,
        typer.Option(metavar="US$", callback=common.usd, help="Money a year; all now has it all at once."),
    ],
    price_fall: Annotated[float, typer.Option(help="By which share prices fall a year, e.g. 0.1.")] = 0.0,
    retire: Annotated[
        list[str] | None,
        typer.Option(metavar="YEAR=NODES", help="Existing nodes that are gone from a year on, names or kinds; repeat."),
    ] = None,
    candidates: Annotated[
        int, typer.Option(help="Packages tried a year, for each way that is followed.")
    ] = N_CANDIDATES,
    beam: Annotated[int, typer.Option(help="Ways that are followed from year to year.")] = BEAM,
    draws: Annotated[int, typer.Option(help="Futures of each year.")] = DRAWS_PER_YEAR,
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="Of the packages drawn.")] = 1,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Compare buying all now with buying every year: what to buy when, what waits result, what is left over.

    The load grows as the study's \\[futures] say; both ways meet the same futures, year by year. Says when the
    difference is not worth it.

    Examples:
    procure plan study.toml --years 4 --budget-per-year 400000
    procure plan study.toml --years 3 --budget-per-year 400000 --price-fall 0.1 --retire 2=old --format json
    """
    gone: dict[int, list[str]] = {}
    for text in retire or []:
        year, equals, names = text.partition("=")
        if not equals or not year.strip().isdecimal() or not names:
            raise typer.BadParameter(f"{text!r} was given; write YEAR=NODES, as in 2=old[01-10]", param_hint="--retire")
        gone.setdefault(int(year), []).append(names)
    found = plan_purchases(
        study,
        years,
        float(budget_per_year),
        price_fall=price_fall,
        retire=gone,
        candidates=candidates,
        beam=beam,
        draws=draws,
        seed=seed,
        note=common.note,
    )
    common.show(found, output)
