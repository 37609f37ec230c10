"""When will my job start, asked of a service that knows the queue? Collect, learn, answer, be judged in public.

`collector` looks at Slurm (`slurm`), continues the model, and keeps what it saw and every forecast, written down before
its job starts (`store`). `serving` lets callers in, and `app` answers them from what the collector wrote (`live`).
"""
