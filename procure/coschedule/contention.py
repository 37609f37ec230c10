"""What sharing costs: the paces of a donor and a guest, from their profiles, the quota and the CPUs.

A stated model of two forms. ``share``: a job that keeps a share c of its CPUs busy when alone runs at
pace min(1, s / c) when it may use a share s; both run slower by 1 / (1 + overhead) while both run, for
caches and switches. ``bandwidth``: besides, each is slowed by ``severity`` times the share of the memory
bandwidth that it draws itself times the share that the other draws at its pace: who needs no memory
neither disturbs nor is disturbed (the sensitivity and pressure of Mars et al., "Bubble-Up", 2011).
"""

from __future__ import annotations

from typing import NamedTuple

from procure.simulator.kernel import kernel

FORMS = ("share", "bandwidth")
IDLE = 2.0
"""In place of a quota: the guest has idle priority, and gets what the donor leaves over."""
LEAST_SHARE = 0.01
"""Of the CPUs: no job is taken for idler than this."""


class Contention(NamedTuple):
    """The model and its parameters."""

    bandwidth: int  # 1 = the form with a term for memory bandwidth
    overhead: float  # by how much longer anything takes while two share
    severity: float  # slowdown where both draw all of the bandwidth at their full paces


@kernel
def paces_of(model, quota, part, donor, guest):
    """Return the paces of donor and guest, each as a share of its pace alone, at most 1.

    ``quota`` is the share of the shared CPUs that the guest may use; the donor has the rest. At 0 the guest stands
    still and costs nothing. At `IDLE` the donor is first on every CPU. ``part`` of the donor's CPUs are shared.
    ``donor`` and ``guest`` are two shares, 0 to 1: of its own CPUs that each keeps busy when alone, and of their
    bandwidth that it draws.
    """
    if quota <= 0.0:
        return 1.0, 0.0
    of_donor = min(1.0, (1.0 - quota * part) / max(donor[0], LEAST_SHARE))
    of_guest = min(1.0, quota / max(guest[0], LEAST_SHARE))
    if quota == IDLE:
        of_donor, of_guest = 1.0, min(1.0, max(0.0, 1.0 - donor[0]) / max(guest[0], LEAST_SHARE))
        if of_guest == 0.0:
            return 1.0, 0.0
    slow = 1.0 + model.overhead
    product = model.bandwidth * model.severity * donor[1] * guest[1]
    return of_donor / (slow + product * of_guest * part), of_guest / (slow + product * of_donor)
