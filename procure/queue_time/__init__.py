"""When will a job start? Features known at submission, models of the wait, and how good they are.

`features.site_features` → `model.QueueTimeModel` or `published.Published` → `predict.forecast`; beside it
`evaluation.evaluate`, `trend`, `drift` and `ready` for features that others have made.
"""
