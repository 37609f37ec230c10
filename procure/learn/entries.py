"""What this room adds to the catalog."""

from procure.policies.entries import Entry

LEARNED = Entry("procure.learn.policy:Learned", "what `procure learn train` found to be best", True, True)
