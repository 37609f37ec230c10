"""The memo: what to buy, what it brings, what it costs, how sure that is, what else, and what would change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.comparison.waits import size_class, user_class
from procure.objectives.conditions import JobClass
from procure.packages.costs import Costs
from procure.page.names import servers
from procure.recommender.recommendation import Recommendation, jobs_on
from procure.recommender.replay_check import cut_sentence, starts_known
from procure.recommender.rule_costs import BestOfBudget, best_of_budget, shape_notes
from procure.recommender.values import Criteria
from procure.reports.bill import order_usd
from procure.schemas import CLASSES, COST_ITEMS, as_logged
from procure.simulator.metrics import LONG_WAIT
from procure.study.rules import unlisted
from procure.text import counted, duration, joined
from procure.workload.describe import class_of

NEARLY = 1.05
"""A package is nearly as good if jobs wait at most 5 % longer on it, or a second."""
SAVES = 0.01
"""A saving below 1 % of the price is not worth a sentence."""
OTHER_BUDGETS = (0.8, 0.9, 1.1, 1.2)
"""Shares of the budget whose best packages are simulated, too; the memo tells those of `_TOLD`."""
_TOLD = (0.8, 1.2)
_CLASS_NAMES = dict(
    zip(CLASSES, ("with GPUs", "with over 8 GB per CPU", "on several nodes", "all others"), strict=True)
)
_MEMORY = {"up to 4 GB": 4, "4–16 GB": 16, "16–64 GB": 64, "64–256 GB": 256, "over 256 GB": np.inf}
_COSTS = {
    "purchase_usd": "the servers", "fixed_usd": "what is paid once beside them", "network_usd": "network",
    "energy_usd": "energy", "space_usd": "space in racks", "staff_usd": "staff", "lines_usd": "other lines",
    "tax_usd": "tax", **{one.cost: one.meaning for one in COST_ITEMS},
}  # fmt: skip
_ANYWHERE = [
    "Users react to a new system. Here the same jobs arrive at the same times whatever is bought.",
    "Jobs that share a node's memory bandwidth, network or file system do not slow each other down.",
    "Memory is what was requested, not what was used. Failures, maintenance and the time to start a job are zero.",
    "The jobs above stand for all others: ask the question for other months, too, if next year's jobs will differ.",
]


@dataclass(frozen=True)
class Compared:
    """The waits of the jobs on the first package, today, and on the middle of what the money allows.

    ``names`` say what the columns are: ``wait`` the purchase, ``today`` today's system or the log (missing where
    neither is known), ``middle`` the package of median wait among those simulated that run every job. ``jobs`` are
    those that count, with these columns, s, NaN where one did not run; ``weight`` is what a job's workload counts.
    """

    workload: str
    names: dict[str, str]
    jobs: pd.DataFrame

    def figures(self, jobs: pd.DataFrame | None = None) -> dict[str, float]:
        """Return ``n_jobs``, and of each column the mean, the 95th percentile and the share over an hour."""
        jobs = self.jobs if jobs is None else jobs
        found: dict[str, float] = {"n_jobs": len(jobs)}
        for name in self.names:
            held = jobs[jobs[name].notna()]
            wait, weight = held[name].to_numpy(dtype="float64"), held["weight"].to_numpy(dtype="float64")
            figures = [np.nan] * 3
            if len(held):
                alike = (weight == weight[0]).all()  # then as the metrics of a run have it
                how = {} if alike else {"weights": weight, "method": "inverted_cdf"}
                mean, late = (np.average(one, weights=weight) for one in (wait, wait > LONG_WAIT))
                figures = [float(mean), float(np.quantile(wait, 0.95, **how)), float(late)]
            found |= dict(zip((f"{name}_{one}" for one in ("mean", "p95", "late")), figures, strict=True))
        return found

    def by_class(self, own: Sequence[JobClass] = (), wide: bool = False) -> pd.DataFrame:
        """Return ``what class`` and the `figures` of all jobs and of each class with jobs.

        ``own`` are the classes that the study defines; ``wide``: also by CPUs, memory and users.
        """
        parts = self.parts(own, wide)
        return pd.DataFrame([{"what": what, "class": name} | self.figures(part) for what, name, part in parts])

    def parts(self, own: Sequence[JobClass] = (), wide: bool = False) -> list[tuple[str, str, pd.DataFrame]]:
        """Return the jobs of each class that has any: by what they are told apart, the class, and its jobs."""
        jobs = self.jobs
        ways: dict[str, pd.Series] = {"kind": pd.Series(np.array(CLASSES)[class_of(jobs)], index=jobs.index)}
        if wide:
            edges = [one * 1000 for one in _MEMORY.values()]
            place = np.searchsorted(edges, as_logged(jobs)["mem_mb_per_node"].to_numpy(), side="left")
            memory = pd.Categorical.from_codes(place, list(_MEMORY), ordered=True)
            ways |= {"CPUs": size_class(jobs), "memory per node": pd.Series(memory, index=jobs.index)}
            if (jobs["user"] != "").any():
                ways["users, by CPU time"] = user_class(jobs)
        parts = [("all", "all jobs", jobs)]
        for what, classes in ways.items():
            names = CLASSES if what == "kind" else classes.cat.categories
            parts += [(what, _CLASS_NAMES.get(name, name), jobs[(classes == name).to_numpy()]) for name in names]
        parts += [("study", one.name, jobs[one.members(jobs)]) for one in own]
        return [one for one in parts if len(one[2]) or one[0] == "all"]


def compared(done: Recommendation) -> Compared:
    """Replay the jobs of all workloads on the first package and on what it is compared with."""
    results, ranking, names = done.results, done.ranking, {"wait": "this purchase"}
    first, existing = results.counts[done.first], results.plan.existing

    def jobs(counts: np.ndarray | None) -> pd.DataFrame:
        return pd.concat(jobs_on(results, counts), ignore_index=True)

    logged, stands = jobs(None), existing is not None and len(existing) > 0
    table = logged.assign(wait=jobs(first)["wait"])
    alone = jobs(np.zeros_like(first))["wait"] if stands else pd.Series([np.nan])
    if not alone.isna().any():
        names["today"], table["today"] = "today's nodes alone", alone
    elif starts_known(logged):
        names["today"], table["today"] = "in the log", logged["wait"].clip(lower=0)
    kept = ranking["simulated"] & (ranking["jobs_left_out"] == 0) & ranking.get("satisfies", True)
    able = np.sort(ranking.loc[kept, "row"].to_numpy())
    if len(able) > 1:
        middle = able[np.argsort(done.case.wait[able], kind="stable")[len(able) // 2]]
        names["middle"] = f"the middle of {len(able):,} packages"
        table["middle"] = jobs(results.counts[middle])["wait"]
    n = len(results.cases)
    return Compared(results.cases[0].name if n == 1 else f"the {n} workloads", names, table)


@dataclass(frozen=True)
class Memo:
    """What the first two pages say; ``parts`` are a title, the id of the section with the evidence, and sentences."""

    package: str
    order: str
    parts: list[tuple[str, str, list[str]]]
    limits: list[str]


def other_budgets(done: Recommendation) -> list[BestOfBudget]:
    """Simulate packages for more and for less money; a budget that buys none is left out."""
    own = done.results.plan.study.packages.budget_usd
    shares = OTHER_BUDGETS if done.verified and done.criteria.need_runs else ()
    found = (best_of_budget(done.results, done.criteria, done.rule, round(share * own, 2)) for share in shares)
    return [one for one in found if one is not None]


def write_memo(done: Recommendation, waits: Compared | None, budgets: Sequence[BestOfBudget] = ()) -> Memo:
    """Word the memo.

    ``done`` is a list that is not empty; ``waits`` are from `compared`, None where no job runs on the first package;
    ``budgets`` from `other_budgets`.
    """
    parts = [
        ("What it brings", "waits", _brings(done, waits)),
        ("What it costs", "bill", _costs(done)),
        ("How sure this is", "sure", _sure(done)),
        ("The nearest alternative", "list", _alternative(done)),
        ("What would change the answer", "change", _changes(done, budgets)),
    ]
    order = f"US$ {order_usd(done):,.2f} of a budget of US$ {done.results.plan.study.packages.budget_usd:,.2f}"
    name = servers(str(done.ranking["package_id"].iloc[0]))
    return Memo(name, order, [one for one in parts if one[2]], limits(done))


def _brings(done: Recommendation, waits: Compared | None) -> list[str]:
    left = int(done.ranking["jobs_left_out"].iloc[0])
    lines = [f"{counted(left, 'job')} of {done.case.n_jobs:,} cannot run on it."] if left else []
    if waits is None:
        return [*lines, "No job runs on this package, so no wait is known."]
    of = waits.figures()
    lines.append(_waits(f"The {counted(len(waits.jobs), 'job')} would", of, "wait"))
    if name := waits.names.get("today", ""):
        they = f"On {name} they would" if name.startswith("today") else f"{name.capitalize()} they"
        lines.append(_waits(they, of, "today"))
    if "middle" in waits.names:
        lines.append(_waits(f"On {waits.names['middle']} simulated for this money they would", of, "middle"))
    if "today" not in waits.names and not done.results.plan.study.made_up:
        lines.append("The log does not say how long its jobs waited, so today's waits are not known.")
    return lines


def _waits(they: str, of: dict[str, float], name: str) -> str:
    """Say how long jobs wait; ``they`` begins the sentence and says whether they would, or did."""
    mean, p95, late = (of[f"{name}_{one}"] for one in ("mean", "p95", "late"))
    would = they.endswith(" would")
    if duration(mean) == "0 s" and not late:
        return f"{they} {'start' if would else 'started'} at once."
    wait, start, later = ("wait", "would start", "would wait") if would else ("waited", "started", "waited")
    soon = "at once" if duration(p95) == "0 s" else f"within {duration(p95)}"
    text = f"{they} {wait} {duration(mean)} on average; 95 % of them {start} {soon}"
    return f"{text}, and {100 * late:.1f} % {later} more than an hour."


def _costs(done: Recommendation) -> list[str]:
    study, cost = done.results.plan.study, done.results.costs.iloc[done.first]
    n = int(done.results.counts[done.first].sum())
    price, whole = float(done.ranking["price_usd"].iloc[0]), order_usd(done)
    lines = [f"{counted(n, 'server')} cost US$ {price:,.2f}."]
    if round(whole - price, 2) > 0:
        lines.append(f"With all else that is paid once, such as racks, network and tax, the order is US$ {whole:,.2f}.")
    fixed, budget = study.packages.fixed_cost_usd, study.packages.budget_usd
    if fixed:
        paid = f"US$ {fixed:,.2f} are paid whatever is bought"
        lines.append(f"{paid}, so US$ {budget - fixed:,.2f} of the budget are left for servers.")
    if whole > budget:
        lines.append(f"That is US$ {whole - budget:,.2f} more than the budget.")
    left = round(budget - max(whole, price + fixed), 2)
    lines += [f"US$ {left:,.2f} of the budget are left."] if left > 0 else []
    years = f"{study.costs.years:g} years"
    if study.costs == Costs():
        lines.append(
            f"The study prices nothing but the purchase: what {years} of energy, space and staff cost is not known. "
            "Prices under [costs] in the study file tell it."
        )
    else:
        parts = [f"US$ {cost[name]:,.0f} for {what}" for name, what in _COSTS.items() if round(float(cost[name]), 2)]
        back = f", less US$ {cost['residual_usd']:,.0f} left in the end" if cost["residual_usd"] else ""
        lines.append(f"Over {years} it costs US$ {cost['tco_usd']:,.0f}: {joined(parts)}{back}.")
        lines.append(f"That is US$ {cost['usd_per_core_hour']:,.3f} per core-hour used.")
    if cost["energy_kwh_per_year"] == cost["energy_kwh_per_year"]:
        priced = "" if study.costs.usd_per_kwh is not None else ", which is not priced"
        lines.append(f"With these jobs it uses {cost['energy_kwh_per_year']:,.0f} kWh a year{priced}.")
    return lines


def _sure(done: Recommendation) -> list[str]:
    plan, ranking, sure = done.results.plan, done.ranking, done.confidence
    n, known, able = len(ranking), int(ranking["simulated"].sum()), int((ranking["jobs_left_out"] == 0).sum())
    if sure is None or len(sure.table) < 2 or not sure.table["alike"].notna().all():
        lines = ["How sure the order of the list is, is not known: the jobs were not drawn anew."]
    else:
        alike, share = int(sure.table["alike"].sum()) - 1, float(sure.table["share_first"].iloc[0])
        others, what = len(sure.table) - 1, sure.unit if sure.unit == "days" else "jobs"
        if others == 1:
            told = f"the package it was compared with {'cannot' if alike else 'can'}"
        else:
            which = f"{alike:,} of the" if 0 < alike < others else "none of the" if alike else "all"
            told = f"{which} {others:,} packages it was compared with {'cannot' if 0 < alike < others else 'can'}"
        best = f"is the best in {100 * share:.0f} % of the draws."
        best = f": which is the best changes from draw to draw, and this one {best}" if alike else f", and it {best}"
        lines = [f"When the {what} are drawn anew {sure.n_draws:,} times, {told} be told from this one{best}"]
    runs = "" if able == n else f"; {able:,} of them run every job"
    if "satisfies" in ranking:
        runs += f"; {int(ranking['satisfies'].sum()):,} keep the bounds"
    if plan.searched:
        lines.append(f"A search simulated {n:,} packages of {unlisted(plan.study)}{runs}.")
    elif known == n:
        lines.append(f"All {n:,} packages were simulated{runs}." if n > 1 else "The rules allow no other package.")
    else:
        lines.append(f"Of {n:,} packages {known:,} were simulated, and a model predicted the others{runs}.")
    if done.waited.account is not None:
        cut = cut_sentence(done.waited.account, most=False)
        lines.append(f"{cut[:1].upper()}{cut[1:]}.")
    if done.waited.far:
        lines.append("The waits shown are no forecast, because a replay of today is far from the log: compare by them.")
    return lines


def alternative(done: Recommendation) -> int:
    """Return the place of the nearest alternative: the cheapest that is nearly as good, else the second; 0 for none."""
    top = done.ranking.head(done.k)
    if len(top) < 2:
        return 0
    wait, price = (top[name].to_numpy(dtype="float64") for name in ("mean_wait_time", "price_usd"))
    good = (top["jobs_left_out"] == top["jobs_left_out"].iloc[0]).to_numpy() & (wait <= NEARLY * wait[0] + 1.0)
    place = int(np.where(good, price, np.inf).argmin()) if done.criteria == Criteria() else 0
    return place if price[0] - price[place] > SAVES * price[0] else 1


def _alternative(done: Recommendation) -> list[str]:
    place = alternative(done)
    if not place:
        return ["There is none: the list holds one package."]
    one, first = done.ranking.iloc[place], done.ranking.iloc[0]
    here, there = (done.case.packages.iloc[int(each["row"])] for each in (first, one))
    longer = float(one["mean_wait_time"] - first["mean_wait_time"])
    apart = f"{duration(abs(longer))} {'longer' if longer > 0 else 'less'}" if longer else "as long"
    which = f"Number {place + 1} of the list is {servers(str(one['package_id']))} for US$ {one['price_usd']:,.2f}"
    lines = [f"{which}: jobs wait {duration(one['mean_wait_time'])} on average, {apart}."]
    more = [
        f"{there[name] - here[name]:,.0f} more {what}"
        for name, what in (("total_cpus", "CPUs"), ("total_mem_gb", "GB of memory"), ("total_gpus", "GPUs"))
        if there[name] > here[name]
    ]
    why = [f"has {joined(more)}"] if more else []
    saved = float(first["price_usd"] - one["price_usd"])
    why += [f"costs US$ {saved:,.2f} less"] if saved > 0 else []
    nothing = "It has no more CPUs, memory or GPUs and costs no less, so nothing that is measured here speaks for it."
    return [*lines, f"One might prefer it because it {joined(why)}." if why else nothing]


def _changes(done: Recommendation, budgets: Sequence[BestOfBudget]) -> list[str]:
    lines, of = [], done.other_loads or {"loads": [], "n_packages": 1}
    for one in of["loads"]:
        text = f"With {one['load']:g} times the load, jobs wait {duration(one['mean_wait_time'])}"
        if one["rank"] > 1:
            text += f", and {servers(one['leader'])} is better by {duration(one['regret_seconds'])}"
        elif of["n_packages"] > 1:
            text += f", and this package is still the best of the {of['n_packages']} tried"
        lines.append(text + ".")
    named = done.shape and done.shape | {"package_id": servers(done.shape["package_id"])}
    lines += [f"{one[:1].upper()}{one[1:]}." for one in shape_notes(named)]
    lines += [one.sentence() for one in done.rule_costs]
    own = done.results.plan.study.packages.budget_usd
    for found in budgets:
        share = round(found.budget_usd / own, 4)
        if share in _TOLD:
            money = f"With {100 * share:.0f} % of the budget (US$ {found.budget_usd:,.0f})"
            out = f" and {counted(found.jobs_left_out, 'job')} cannot run" if found.jobs_left_out else ""
            best = f"the best of {found.n_simulated:,} packages simulated for that money"
            lines.append(f"{money}, jobs wait {duration(found.wait)}{out} on {servers(found.package_id)}, {best}.")
    return lines


def limits(done: Recommendation) -> list[str]:
    """Say what is not in the model, first what holds of this study alone."""
    plan = done.results.plan
    lines = [f"The scheduler is simulated as {done.results.policy}; what else yours goes by is left out."]
    if all(plan.logged_speed(case.name) is None for case in done.results.cases):
        lines.append("Run times are as logged on every server, because the processor of the log is not stated.")
    else:
        lines.append("Speed is one number per server type; a program may gain more or less from a new processor.")
    return [*lines, *_ANYWHERE]
