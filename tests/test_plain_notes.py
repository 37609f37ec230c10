"""What is easily taken wrong is said: clocks out of order and the zone of chosen days."""

from __future__ import annotations

import pandas as pd

from procure.study import load_study
from procure.study.workloads import write_workloads
from procure.workload import generate, import_log

SACCT = "JobID|State|Submit|Start|End|ReqCPUS|ElapsedRaw|NNodes\n"


def test_an_import_counts_times_out_of_order(tmp_path):
    """Two jobs start before their submission and one ends before its start; all are kept, and counted."""
    rows = ["1|COMPLETED|100|90|200|1|110|1", "2|COMPLETED|100|99|98|1|5|1", "3|COMPLETED|100|100|200|1|100|1"]
    (tmp_path / "a.psv").write_text(SACCT + "\n".join(rows) + "\n")
    notes = import_log(tmp_path / "a.psv", "sacct").account()
    assert any("2 jobs that start before they were submitted" in text for text in notes)
    assert any("1 job that end" in text for text in notes)
    (tmp_path / "b.psv").write_text(SACCT + rows[2] + "\n")
    assert not any("clock" in text for text in import_log(tmp_path / "b.psv", "sacct").account())


def test_chosen_days_keep_their_zone(tmp_path):
    """The study that takes them knows the zone in which they are days, and dates them in it."""
    days = {"2021-05-04": generate(1, 20)}
    write_workloads(days, pd.DataFrame({"day": ["2021-05-04"], "weight": [3]}), tmp_path, tz="America/Chicago")
    (tmp_path / "q.csv").write_text("name,category,cpus,mem_gb,gpus,price_usd\nx,c,32,128,0,6960\n")
    (tmp_path / "s.toml").write_text(
        'quotes = "q.csv"\nworkloads = "workloads.toml"\npackages = { budget_usd = 20_000, min_gpu_nodes = 0 }\n'
    )
    (workload,) = load_study(tmp_path / "s.toml").workloads
    assert (workload.tz, workload.weight) == ("America/Chicago", 3)
