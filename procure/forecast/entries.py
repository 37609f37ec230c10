"""What this room adds to the catalog."""

from procure.policies.entries import Entry

FORECAST = Entry(
    "procure.policies.easy:Easy",
    "easy, with nodes held for jobs that are expected",
    True,
    True,
    preset={"hold": "forecast"},
)
