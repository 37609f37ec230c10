"""What does a log tell of the rules under which its jobs started, and how well does a replay by them agree with it?

`procure.fitting.fit.fit_site` infers rules, each kept only where the replay of a part of the log that it has not seen
comes closer to the log; policy ``rules`` is EASY with what was kept.
"""
