"""When will my job start, asked of a service that knows the queue? Collect, learn, answer, be judged in public.

`collector` looks at Slurm (`slurm`), keeps what it saw (`store`), continues the model (`trainer`) and writes down every
forecast before its job starts (`ledger`); `app` answers from what the collector wrote (`live`, `answers`).
"""
