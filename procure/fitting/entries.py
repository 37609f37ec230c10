"""What this room adds to the catalog."""

from procure.policies.entries import Entry

RULES = Entry(
    "procure.fitting.policy:Rules",
    "easy, held back by the rules that a log shows: limits and pauses (site=FOLDER)",
    True,
    True,
)
