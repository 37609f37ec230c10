"""How numbers and names stand in sentences."""

from __future__ import annotations

import pytest

from procure.text import counted, listed


@pytest.mark.parametrize(
    ("n", "said"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (1234, "1,234 jobs"), (-1, "-1 jobs")]
)
def test_one_is_singular(n, said):
    """And all other numbers plural, thousands set apart."""
    assert counted(n, "job") == said


def test_a_plural_of_its_own():
    """Where an s is not enough."""
    assert (
        counted(2, "category", "categories") == "2 categories" and counted(1, "category", "x") == "1 category"
    )


def test_many_names_are_cut_to_three():
    """One more than three is named, as to count it would be no shorter."""
    names = [f"day-{i}" for i in range(25)]
    assert listed(names) == "day-0, day-1, day-2 and 22 more"
    assert listed(names[:4]) == "day-0, day-1, day-2, day-3" and listed([]) == ""
