"""Make a process misbehave as the fault tests ask; Python runs this when the folder is on its path."""

import os
import signal
import sys
import time
from pathlib import Path

if os.environ.get("FAULT_CLOCK"):
    ahead, real_time = float(os.environ["FAULT_CLOCK"]), time.time
    time.time = lambda: real_time() + ahead

if os.environ.get("FAULT_VERSION"):
    import procure._version

    procure._version.__version__ = os.environ["FAULT_VERSION"]

if {"FAULT_POISON", "FAULT_LOG", "FAULT_SLEEP"} & set(os.environ) and "sbatch" not in sys.argv[0]:
    import procure.sweep.farm as run

    real_rows, real_part = run.simulate_rows, run.compute_part

    def simulate_rows(bench, package_ids, counts):
        time.sleep(float(os.environ.get("FAULT_SLEEP", 0)))
        if "FAULT_POISON" in os.environ:
            print("Traceback, as Dask prints it where a worker is closed while it starts", file=sys.stderr, flush=True)
        if os.environ.get("FAULT_POISON") in package_ids:
            os.kill(os.getpid(), signal.SIGKILL)
        return real_rows(bench, package_ids, counts)

    def compute_part(bench, package_ids, *rest):
        receipt = real_part(bench, package_ids, *rest)
        if "FAULT_LOG" in os.environ:
            with Path(os.environ["FAULT_LOG"]).open("a") as log:
                log.write(f"{receipt.n_runs}\n")
        return receipt

    run.simulate_rows, run.compute_part = simulate_rows, compute_part
