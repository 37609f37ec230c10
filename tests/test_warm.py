"""Compiling beforehand, and the line that says that something is compiled."""

from __future__ import annotations

import pytest
from numba import njit

from procure.errors import TableError
from procure.policies import catalog
from procure.progress import watching
from procure.simulator.drive import compiling, load_compiled
from procure.sweep.warm import compiled_policies, warm


class Heard:
    """Keeps what the steps said."""

    def __init__(self):
        self.said = []

    def begin(self, one):
        self.said.append(one.what)

    def end(self, one):
        pass


def test_one_policy_of_each_kernel_is_compiled():
    """Every policy that defaults can make shares its target, hold-back and place with one; none stands twice."""
    names = compiled_policies()
    entries = [catalog.entry(catalog.split(name)[0]) for name in names if name != "easy:depth=2"]
    targets = [(entry.target, entry.preset.get("hold"), entry.preset.get("place")) for entry in entries]
    assert len(set(targets)) == len(targets)
    assert {"fcfs", "sjf", "best-fit", "easy", "conservative", "tabu"} <= set(names)


def test_what_cannot_be_compiled_is_refused_before_anything_is():
    """An unknown policy is one error; nothing is started."""
    with pytest.raises(TableError, match="fcsf"):
        warm(["fcsf"])


def test_compiling_is_told_and_loading_is_not():
    """A watcher hears once that something is compiled, and nothing when it is there already."""
    doubled, heard = njit(lambda x: 2 * x), Heard()
    with watching(heard):
        for _ in range(2):
            with compiling("the doubler"):
                load_compiled(doubled, 1)
    assert heard.said == ["compiling the doubler, once after installation"]


@pytest.mark.slow
def test_a_policy_is_compiled_in_another_process():
    """The table names the policy and how long it took, without an error."""
    found = warm(["fcfs"], 1)
    assert found["policy"].tolist() == ["fcfs"]
    assert found["error"].tolist() == [""]
    assert found["seconds"].iloc[0] > 0
