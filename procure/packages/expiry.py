"""Leave out the quotes that have expired on the study's day, and say which."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.packages.rules import PackageRules
from procure.text import listed


def is_expired(quotes: pd.DataFrame, rules: PackageRules) -> np.ndarray:
    """Tell which quotes were valid only until a day before ``rules.as_of``; without one, none.

    The quotes are as `procure.packages.quotes.check_quotes` returns them.
    """
    if rules.as_of is None:
        return np.zeros(len(quotes), dtype=bool)
    until = quotes["valid_until"].astype(str).to_numpy(dtype=str)
    # Dates of the form YYYY-MM-DD compare as text.
    return np.asarray((until != "") & (until < rules.as_of.isoformat()))


def check_validity(quotes: pd.DataFrame, rules: PackageRules) -> np.ndarray:
    """Do as `is_expired` does, of quotes as for it, but complain where the rules do not allow it.

    Raises
    ------
    TableError
        A mandatory quote has expired, any has and ``rules.expired`` is "error", or all have.
    """
    expired = is_expired(quotes, rules)
    if not expired.any():
        return expired
    must = quotes["mandatory"].to_numpy()
    for wrong, why in ((expired & must, "it is mandatory"), (expired, 'the study says expired = "error"')):
        if wrong.any() and (wrong is not expired or rules.expired == "error"):
            quote = quotes[wrong].iloc[0]
            raise TableError(
                f"packages: the quote {quote['name']} was valid until {quote['valid_until']}, "
                f"before as_of = {rules.as_of}, and {why}"
            )
    if expired.all():
        last = max(quotes["valid_until"])
        raise TableError(f"packages: as_of = {rules.as_of} leaves no quote; the last was valid until {last}")
    return expired


def validity_notes(quotes: pd.DataFrame, rules: PackageRules) -> list[str]:
    """Say in a sentence which quotes, as for `is_expired`, are left out because they have expired."""
    names = quotes.loc[is_expired(quotes, rules), "name"].tolist()
    if not names:
        return []
    return [f"quotes that expired before {rules.as_of} are left out: {listed(names)}"]
