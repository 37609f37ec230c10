"""Compiling beforehand, and the line that says that something is compiled."""

from __future__ import annotations

import pytest

from procure.errors import TableError
from procure.policies import catalog
from procure.sweep.warm import compiled_policies, warm


def test_one_policy_of_each_kernel_is_compiled():
    """Every policy that defaults can make shares its target, hold-back and place with one; none stands twice."""
    names = compiled_policies()
    entries = [catalog.entry(catalog.split(name)[0]) for name in names if name != "easy:depth=2"]
    targets = [(entry.target, entry.preset.get("hold"), entry.preset.get("place")) for entry in entries]
    assert len(set(targets)) == len(targets)
    assert {"fcfs", "sjf", "best-fit", "easy", "conservative", "tabu"} <= set(names)


def test_what_cannot_be_compiled_is_refused_before_anything_is():
    with pytest.raises(TableError, match="fcsf"):
        warm(["fcsf"])


@pytest.mark.slow
def test_a_policy_is_compiled_in_another_process():
    """The table names the policy and how long it took, without an error."""
    found = warm(["fcfs"], 1)
    assert found["policy"].tolist() == ["fcfs"]
    assert found["error"].tolist() == [""]
    assert found["seconds"].iloc[0] > 0
