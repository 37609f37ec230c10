"""What this room adds to the catalog."""

from procure.policies.entries import Entry

LEARNED = Entry(
    "procure.learn.order:LearnedPolicy",
    "what `procure learn train` wrote: easy in a learned order, or the published agent (file=FILE)",
    True,
    True,
    preset={"order": "learned"},
)
