"""What this room adds to the catalog."""

from procure.policies.entries import Entry

SLURM = Entry(
    "procure.site.policy:Slurm",
    "as the Slurm of a site would: its order, limits, main scheduler, backfill and choice of nodes (site=FOLDER)",
    True,
    True,
)
