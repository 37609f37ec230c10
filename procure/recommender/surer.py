"""A package of the list that is as good as the first and surer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.objectives.aggregate import regrets
from procure.recommender.criteria import MEAN_WAIT
from procure.recommender.recommendation import Recommendation

LOOKED_AT = 10
"""So many of the list are compared with the first."""
SURER = 0.1
"""A package is surer if it is the best in so much more of the resamples, and is at worst no further behind."""


class Surer(NamedTuple):
    """A package that cannot be told apart from the first, and is the best in more of the resamples.

    ``share_first`` and ``regret`` are of it and of the first: shares of the resamples, and how far behind the best of a
    workload at worst, as a share of that (mean wait, at least 60 s). ``more_usd``: what it costs more.
    """

    rank: int
    package_id: str
    share_first: tuple[float, float]
    regret: tuple[float, float]
    more_usd: float

    def sentence(self) -> str:
        """Say it beside the first package."""
        price = "the same price"
        if round(self.more_usd):
            price = f"US$ {abs(self.more_usd):,.0f} {'more' if self.more_usd > 0 else 'less'}"
        return (
            f"rank {self.rank} ({self.package_id}) is as good and surer: best in {self.share_first[0]:.0%} of the "
            f"resamples against {self.share_first[1]:.0%}, at worst {self.regret[0]:.0%} behind the best of a workload "
            f"against {self.regret[1]:.0%}, for {price}"
        )

    def briefly(self, why: bool = True) -> str:
        """Say it on a page of few words."""
        text = f"rank {self.rank} is as good and surer"
        if not why:
            return text
        return f"{text}: best in {self.share_first[0]:.0%} of resamples, not {self.share_first[1]:.0%}"


def find_surer(done: Recommendation) -> Surer | None:
    """Find the package of the list that is as good as the first and the surest; None where there is none.

    The resamples are those of the list's confidence: it is asked for where they tell the two apart no better than luck.
    """
    sure = done.confidence
    if sure is None or sure.n_draws == 0 or done.criteria.objective.source != "result":
        return None
    n = min(LOOKED_AT, done.k, len(sure.table))
    table, rows = (
        sure.table.head(n),
        done.ranking.set_index("package_id").loc[sure.table["package_id"].head(n), "row"],
    )
    share = table["share_first"].to_numpy(dtype="float64", na_value=np.nan)
    alike = table["alike"].fillna(False).to_numpy(dtype=bool)
    values = done.package_values
    counts = values.of_futures > 0
    waits = values.results[MEAN_WAIT.column][counts][:, rows.to_numpy()]
    worst = regrets(waits, values.best[counts]).max(axis=0)
    left_out = done.ranking["jobs_left_out"].head(n).to_numpy()
    better = alike & (left_out <= left_out[0]) & (share >= share[0] + SURER) & (worst <= worst[0])
    if not better[1:].any():
        return None
    place = 1 + int(np.where(better, share, -1.0)[1:].argmax())
    price = done.ranking["price_usd"].to_numpy()
    return Surer(
        place + 1,
        str(table["package_id"].iloc[place]),
        (float(share[place]), float(share[0])),
        (float(worst[place]), float(worst[0])),
        float(price[place] - price[0]),
    )
