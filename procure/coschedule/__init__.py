"""Who may share an allocation?

A donor's CPUs are lent to a guest at a quota that a learner sets while both run: the learner with its
bounds, what sharing costs, the policy of the one loop, and a driver that does it to real processes.
"""
