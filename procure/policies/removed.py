"""Parameters of policies of earlier versions that a study or a script may hold, and what to do instead."""

from __future__ import annotations

REMOVED = {
    "as-logged": "its learned holds told 2 to 8 % of the waiting of later jobs; rules has what a fit keeps",
    **dict.fromkeys(("conservative:quantile", "easy:quantile"), "estimates are means of the history; leave it out"),
    **dict.fromkeys(
        [f"{policy}:owners" for policy in ("first-fit", "fcfs", "easy", "conservative")],
        "say whose nodes are whose by the partitions of --site, as Slurm does",
    ),
    "forecast:control": "exact and shuffled forecasts were controls of a measurement; leave it out",
    "forecast:tz": "days are counted from the first submission, within the tolerance; leave it out",
    "forecast:seed": "nothing is shuffled any more; leave it out",
    "learned:ahead": "looking ahead made no wait shorter; leave it out",
    **{
        f"{policy}:{key}": "no job is slowed; `procure topology worth` says from which cost isolation pays"
        for policy in ("any", "compact", "closest", "window", "easy", "fcfs", "conservative")
        for key in ("slowdown", "exponent")
    },
    "window:solve_time_per_job": "give the usual time of the solver as solve_time",
    "learned:every": "looking ahead made no wait shorter; leave it out",
}
"""By ``POLICY:PARAMETER``."""
