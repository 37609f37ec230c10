"""Active search: a model proposes packages, the simulator answers, in spaces of any size.

`space` draws and exchanges packages without a list of them (`legal`: the rules as arrays), `field` keeps
those that run every job, `propose` chooses the next ones (`gaussian`: one of its two models), `engine`
goes round by round over what is `known`, `ask` simulates and keeps, and `run` does a whole study.
"""
