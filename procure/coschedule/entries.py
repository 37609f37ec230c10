"""What this room adds to the catalog."""

from procure.policies.entries import Entry

COSCHEDULE = Entry(
    "procure.coschedule.policy:Coschedule",
    "first-fit, and jobs with profiles may run inside others' allocations, at idle priority or a quota",
    True,
    True,
)
