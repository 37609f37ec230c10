"""The seams of a scheduler: what an order, a hold-back and a place answer to a kernel.

Each is a class of named tuples with the methods below, of plain Python that Numba can compile too: a kernel calls the
method of the class that it is given, in plain Python Python does. `order`, `hold` and `place` are decorators that check
such a class and give it the methods that it need not have.

A method reads the state and its own fields by attribute only, and makes no arrays; what it needs, the tuple holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from procure.simulator.reference import compile_method

Class = TypeVar("Class", bound=type)


def _nothing(self, state):
    """Keep nothing."""


def _nothing_of(self, state, job):
    """Keep nothing of a job."""


def _everybody(self, state, job, reserved):
    return True


METHODS: dict[str, tuple[int, dict[str, Callable | None]]] = {
    "follow": (1, {"order": _nothing, "hold": _nothing, "place": _nothing}),
    "score": (2, {"order": None}),
    "admits": (3, {"hold": _everybody}),
    "waits": (1, {"hold": _nothing}),
    "pick": (3, {"place": None}),
    "fits": (3, {}),
    "room": (4, {}),
    "reserve": (2, {}),
    "choose": (3, {}),
    "started": (2, {"order": _nothing_of, "hold": _nothing_of, "place": _nothing_of}),
}
"""By name: how many arguments a method has beside ``self``, and of which seams it is; None = the class must have it."""

for _name, (_n, _) in METHODS.items():
    compile_method(_name, _n)


def _seam(kind: str) -> Callable[[Class], Class]:
    def check(cls: Any) -> Any:
        for name, (_, kinds) in METHODS.items():
            if kind in kinds and not hasattr(cls, name):
                if kinds[kind] is None:
                    raise TypeError(f"{cls.__name__} is no {kind}: it has no method {name}")
                setattr(cls, name, kinds[kind])
        return cls

    return check


order = _seam("order")
"""A class of orders: ``score(self, state, job)``, the lowest is served first; ties go to the earlier queued job.

Optional: ``alike(self, state)``, in Python as a run begins: None if scores never change once a job is submitted, else
int64[n_jobs] arrays: of jobs that differ in none of them, the earlier queued one is never behind. Without, any score
may change at any time.
"""
hold = _seam("hold")
"""A class of hold-backs: ``admits(self, state, job, reserved)``, asked of the job that would be next; False skips it.

``reserved`` is the first waiting job's reservation (`procure.policies.place.Reservation`), if there is one. Optional:
``apart(self, state)``, as ``alike`` of orders: jobs that differ in none of the arrays are refused alike;
``waits(self, state)``, called when no waiting job may start; a field ``open``, bool[n_nodes]: the nodes that the job
that was admitted last may take.
"""
place = _seam("place")
"""A class of places: ``pick(self, state, job, n)``: of the ``n`` rows in ``state.chosen[:n]``, ascending, each of which
holds one node's share of the job, leave the ``state.n_nodes[job]`` that it gets first in ``chosen``.

Every class may have ``follow(self, state)``, called before each decision, and ``started(self, state, job)``, called
with the job that the decision starts, on the nodes in ``chosen``.
"""
