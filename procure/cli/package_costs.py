"""`procure packages --costs`: what packages cost to buy and to run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from procure.cli.common import Format, bad_option, note, print_table
from procure.errors import TableError
from procure.text import counted

if TYPE_CHECKING:
    import pandas as pd

    from procure.packages import PackageRules


def show_costs(
    study_path: Path,
    quotes: pd.DataFrame,
    rules: PackageRules,
    package_ids: list[str],
    out: Path | None,
    output: Format,
) -> None:
    """Print ranges of the costs over all distinct packages, or the named packages side by side."""
    from procure.packages import expand_packages
    from procure.packages.costs import cost_notes, total_costs
    from procure.study import load_study
    from procure.study.plan import read_workload
    from procure.tables import write

    study = load_study(study_path)
    packages = expand_packages(quotes, rules)
    packages = packages[packages["distinct"]].reset_index(drop=True)
    if package_ids:
        with bad_option("--package"):
            packages = _named(packages, package_ids)
    workloads = {each.name: read_workload(each, note) for each in study.workloads}
    system = study.read_existing_system()
    existing = None if system is None or system.nodes.empty else system.nodes
    for text in (*(system.notes if system else ()), *cost_notes(quotes, study.costs, existing)):
        note(text)
    weights = {each.name: each.weight for each in study.workloads}
    costs = total_costs(packages, quotes, study.costs, workloads, rules, existing, weights)
    if out is not None:
        write(packages.join(costs.drop(columns="package_id")), out)
        note(f"wrote {out}")
    title = f"costs over {study.costs.years:g} years"
    if package_ids:
        print_table(_side_by_side(costs), output, title)
    else:
        print_table(_ranges(costs), output, f"{title} of {counted(len(costs), 'distinct package')}")


def _named(packages: pd.DataFrame, package_ids: list[str]) -> pd.DataFrame:
    found = packages.set_index("package_id", drop=False)
    for name in package_ids:
        if name not in found.index:
            raise TableError(
                f"package {name!r}: is none of the study's; `procure packages STUDY --out packages.csv` lists them"
            )
    return found.loc[package_ids].reset_index(drop=True)


def _ranges(costs: pd.DataFrame) -> pd.DataFrame:
    """Return lowest, median and highest value of each cost."""
    import pandas as pd

    from procure.schemas import COST_UNITS

    values = costs[list(COST_UNITS)].astype("float64")
    return pd.DataFrame(
        {
            "cost": list(COST_UNITS),
            "unit": list(COST_UNITS.values()),
            "min": values.min().to_numpy(),
            "median": values.median().to_numpy(),
            "max": values.max().to_numpy(),
        }
    )


def _side_by_side(costs: pd.DataFrame) -> pd.DataFrame:
    """Return a column per package."""
    import pandas as pd

    from procure.schemas import COST_UNITS

    columns = {"cost": list(COST_UNITS), "unit": list(COST_UNITS.values())}
    values = costs.set_index("package_id")[list(COST_UNITS)].astype("float64").T
    return pd.DataFrame(columns | {name: values[name].to_numpy() for name in values})
