"""When within a second the passes of policy slurm come, and what has ended is over: kernels."""

from __future__ import annotations

from procure.simulator.kernel import part
from procure.site.work import BACKFILL_SLOW, BEYOND, MAIN_SLOW


@part
def over_at(own, job):
    """Return when a job that has ended is over, ms: limits count it no longer."""
    return own.work.ended[job] * 1000 + BEYOND + own.work.begun_at[job]


@part
def free_at(own, job):
    """Return when the nodes of a job that has ended are free, ms."""
    return over_at(own, job) + own.tables.late


@part
def _moment(own, first, slow, second):
    """Return the ms within a second at which periodic work comes whose clock runs slow; from 1000 on it is the next's.

    It came first, with the clock's second, at ``first`` ms.
    """
    since, period = (second - own.rules.clock) * 1_000_000 - first * 1000, 1_000_000 + slow
    return (-(-since // period) * period - since) // 1000


@part
def at_main(own, second):
    """Return the ms within a second at which the main scheduler comes."""
    return _moment(own, own.rules.main_at, MAIN_SLOW, second)


@part
def at_backfill(own, second):
    """Return the ms within a second at which backfill comes."""
    return _moment(own, own.rules.backfill_at, BACKFILL_SLOW, second)
