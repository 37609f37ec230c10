"""The report's section on a lease beside the purchase."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.packages.finance import cents
from procure.page.html import render
from procure.recommender.recommender import Recommendation
from procure.reports.bill import order_usd
from procure.sweep.results import costs_of
from procure.text import counted


def lease_beside_purchase(done: Recommendation, place: int = 0) -> pd.DataFrame:
    """Return what one package of a list costs bought, and leased as the study's ``[costs] lease`` says.

    Parameters
    ----------
    done
        The list.
    place
        Which package of it, from 0.

    Returns
    -------
    pandas.DataFrame
        ``item bought_usd leased_usd``, US$ to the cent: what is paid on the first day, each month, in the end, and in
        all; what these payments, and what is left of the system, are worth on the first day; the cost over the years.

    Raises
    ------
    ValueError
        The study has no lease.
    """
    results, plan = done.results, done.results.plan
    costs, row = plan.study.costs, int(done.ranking["row"].iloc[place])
    if costs.lease is None:
        raise ValueError("the study has no [costs] lease")
    weights = {case.name: case.weight for case in results.cases}
    package = results.cases[0].packages.iloc[[row]]
    owned = costs_of(plan, package, weights, costs.model_copy(update={"lease": None})).iloc[0]
    leased, lease, whole = results.costs.iloc[row], costs.lease, order_usd(done, place)
    financed = np.array([whole])
    monthly = float(lease.payment(financed)[0])
    final = float(cents(financed * lease.final_percent / 100)[0]) if lease.at_end == "buy" else 0.0
    worth = float(lease.present_value(financed, costs.interest_percent)[0])
    first, n_later = (monthly, lease.months - 1) if lease.due == "begin" else (0.0, lease.months)
    each = "paid each further month" if first else "paid each month"
    rows = [
        ("paid on the first day", whole, first),
        (f"{each}, {counted(n_later, 'time')}", 0.0, monthly),
        ("paid in the end to keep the system", 0.0, final),
        ("paid in all", whole, lease.months * monthly + final),
        (f"worth on the first day, at {costs.interest_percent:g} % a year", whole, worth),
        ("left of the system in the end, worth on the first day", -owned["residual_usd"], -leased["residual_usd"]),
        (f"cost over {costs.years:g} years, with everything else", owned["tco_usd"], leased["tco_usd"]),
    ]
    found = pd.DataFrame(rows, columns=["item", "bought_usd", "leased_usd"])
    return found.assign(**{name: cents(found[name]) + 0.0 for name in ("bought_usd", "leased_usd")})


def section(done: Recommendation) -> Markup:
    """Return the section as HTML; empty for a study without a lease."""
    lease = done.results.plan.study.costs.lease
    if lease is None:
        return Markup()
    table = lease_beside_purchase(done)
    bought, leased = (float(table[name].iloc[-1]) for name in ("bought_usd", "leased_usd"))
    more = "as much as bought" if bought == leased else "more than bought" if leased > bought else "less than bought"
    amount = "" if bought == leased else f"US$ {abs(leased - bought):,.2f} "
    return render(
        Path(__file__).with_name("lease.html"),
        rows=table.to_dict(orient="records"),
        line=f"leased, the first package costs {amount}{more} over {done.results.plan.study.costs.years:g} years",
    )
