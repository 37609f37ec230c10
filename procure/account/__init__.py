"""Why did jobs wait? Each second of each wait falls to one cause.

`procure.account.account.account_waits` gives the account, `procure.account.sweep` says which cause is the first that
applies, `procure.account.inferred` what a log itself shows of the rules.
"""
