"""When will my job start, asked of a service that knows the queue? Collect, learn, answer, be judged in public.

`collector` polls Slurm or replays a log (`sources`), keeps what it saw (`store`), continues the model (`keeper`) and
writes down every forecast before its job starts (`ledger`); `http` answers from what the collector wrote.
"""
