"""What a search is asked."""

from __future__ import annotations

from typing import NamedTuple

from procure.packages.space import Space
from procure.recommender.criteria import Criteria
from procure.study import Plan


class Question(NamedTuple):
    """Which packages of a study are best: what does not change while a search runs."""

    plan: Plan
    policy: str
    space: Space
    criteria: Criteria
    seed: int
    """Of all random choices."""
