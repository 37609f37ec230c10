"""When will a job start? Features known at submission, models of the wait, and how good they are.

`features.site_features` → `store.train` → `answer.predict_queue`; beside it `evaluation.evaluate` and `trend`.
"""
