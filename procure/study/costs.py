"""What packages of a study cost to buy and to run over the years."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import ArgumentError
from procure.packages.costs import cost_notes, cost_table, total_costs
from procure.progress import silent
from procure.study.plan import list_packages, read_scenarios, works_of
from procure.study.study import Study, load_study
from procure.text import Shown, counted


@dataclass(frozen=True)
class PackageCosts(Shown):
    """Costs of distinct packages."""

    packages: pd.DataFrame  # the package table with the columns of costs
    table: pd.DataFrame  # a row per cost: cost, unit, then its range over the packages, or a column per package named
    title: str
    notes: list[str]


def package_costs(
    study: str | Path | Study,
    package_ids: Sequence[str] = (),
    *,
    quotes: pd.DataFrame | None = None,
    note: Callable[[str], None] = silent,
) -> PackageCosts:
    """Sum up what packages cost: energy, space, network, licences, support and staff over the study's years.

    Parameters
    ----------
    study
        With its ``[costs]`` and workloads.
    package_ids
        These packages side by side; all distinct ones without.
    quotes
        In place of the study's own.
    note
        Called with how the inputs were read.

    Raises
    ------
    ArgumentError
        The study has no package of that name.
    TableError
        Its inputs are wrong.

    Examples
    --------
    >>> import procure
    >>> procure.package_costs("study.toml").table["cost"].to_list()[:2]
    ['purchase_usd', 'fixed_usd']
    """
    study = load_study(study)
    quotes = study.read_quotes() if quotes is None else quotes
    packages = list_packages(study, quotes)
    packages = packages[packages["distinct"]].reset_index(drop=True)
    if package_ids:
        by_id = packages.set_index("package_id", drop=False)
        if unknown := [name for name in package_ids if name not in by_id.index]:
            said = f"the study has no package {unknown[0]!r}; `procure packages STUDY --out packages.csv` lists them"
            raise ArgumentError("package", said)
        packages = by_id.loc[list(package_ids)].reset_index(drop=True)
    existing = study.read_existing_nodes(note)
    weights = {each.name: each.weight for each in study.scenarios}
    workloads = works_of(study, quotes, existing, read_scenarios(study, note))
    costs = total_costs(packages, quotes, study.costs, workloads, study.packages, existing, weights)
    shown = costs if study.costs.usd_per_kwh is not None else costs.assign(energy_usd=np.nan)  # no price is not 0
    table = cost_table(shown, bool(package_ids))
    title = f"costs over {study.costs.years:g} years"
    if not package_ids:
        title += f" of {counted(len(costs), 'distinct package')}"
    whole = packages.join(costs.drop(columns="package_id"))
    return PackageCosts(whole, table, title, cost_notes(quotes, study.costs, existing))
