"""What `search` returns: the packages that it simulated, best first."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from procure.recommender.criteria import Criteria
from procure.recommender.recommendation import heading
from procure.text import Shown


@dataclass(frozen=True)
class SearchResult(Shown):
    """What a search found.

    ``ranking`` has the packages that it knows, all simulated, best first: the package table with ``rank``,
    ``mean_wait_time`` and ``jobs_left_out``; by another objective, or with constraints, also ``satisfies``,
    ``objective_value`` and what is constrained. The first ``k`` are shown. ``spent`` is what it cost, by name;
    ``types`` are columns of the ranking; ``limits`` says how many jobs are cut at their limit on the first package.
    """

    name: str
    criteria: Criteria
    k: int
    ranking: pd.DataFrame
    spent: dict[str, object]
    types: list[str]
    limits: str

    @property
    def title(self) -> str:
        """What the list is of."""
        plain, n = self.criteria == Criteria(), min(self.k, len(self.ranking))
        by = "mean wait" if plain else heading(self.criteria.objective)
        return f"{self.name}: the first{f' {n}' if n > 1 else ''}, all simulated, by {by}"

    @property
    def notes(self) -> list[str]:
        """What the user should know of the list, a sentence each."""
        top, of = self.ranking.head(self.k), self.criteria.objective
        column = "objective_value" if "objective_value" in top else "mean_wait_time"
        lines = []
        if "satisfies" in top and not top["satisfies"].all():
            n = f"{int(self.ranking['satisfies'].sum()):,} of the {len(self.ranking):,} packages"
            lines.append(f"{n} that were simulated satisfy the constraints; the others follow")
        if len(top) > 1 and top[column].eq(top[column].iloc[0]).all():
            least = f"{of.name}, {top[column].iloc[0]:,.1f} {of.unit}"
            lines.append(
                f"all {len(top)} have the same {least}: this workload cannot tell them apart; a longer list, a busier "
                "day or `procure workload slice --load` may"
            )
        return [*lines, self.limits]

    def shown(self) -> pd.DataFrame:
        """Return the list as a table for people."""
        top = self.ranking.head(self.k)
        table = top[["rank", "package_id"]].assign(price_usd=top["price_usd"].round().astype("int64"))
        if "objective_value" in top:
            table[heading(self.criteria.objective)] = top["objective_value"].round(3)
            table["satisfies"] = top["satisfies"]
        table["wait_s"] = top["mean_wait_time"].round(1)
        return table.assign(left_out=top["jobs_left_out"]) if top["jobs_left_out"].any() else table

    def records(self) -> list[dict[str, object]]:
        """Return the first k as plain records, as ``procure search --format json`` prints them."""
        fixed = ["rank", "package_id", "price_usd", "mean_wait_time", "jobs_left_out"]
        fixed += ["total_cpus", "total_mem_gb", "total_gpus"]
        rows = []
        for row in self.ranking.head(self.k).to_dict(orient="records"):
            one = {name: row[name] for name in fixed}
            one["counts"] = {name: int(row[name]) for name in self.types if row[name]}
            if self.criteria != Criteria():
                one |= {"objective": self.criteria.objective.name, "objective_value": row["objective_value"]}
                one |= {"objective_unit": self.criteria.objective.unit, "satisfies": row["satisfies"]}
                one["constrained"] = {bound.of.name: row[bound.of.name] for bound in self.criteria.bounds}
            rows.append(one)
        return rows

    def summary(self) -> str:
        """Return the list as text, with the notes and what was spent."""
        spent = f"{self.spent['n_runs_computed']:,} runs computed, ended by: {self.spent['ended']}"
        return f"{super().summary()}\n- {spent}"
