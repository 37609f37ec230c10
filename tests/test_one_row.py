"""A feature is one row: an objective, a yearly cost and a column of quotes, each added to a copy of the program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import procure

EDITS = {
    "schemas.py": [
        ('    _metric("makespan",', '    _metric("least_wait_time", "s", "least wait", ranked="least-wait"),\n'),
        ("COST_ITEMS = (", ' CostItem("cooling", "cooling", "other"),'),
        (
            '        _offered(\n            _float("mem_gb",',
            '        _offered(_int("bays", "bays", "drive bays per node", **_OPTIONAL), "drive bays", "4"),\n',
        ),
    ],
    "simulator/metrics.py": [("    out[INDEX.max_wait_time]", "    out[INDEX.least_wait_time] = 7.0\n")],
}
"""By file: before (of an opening bracket: after) what, and which row is added."""
PROGRAM = """
import numpy as np, pandas as pd
import procure
from procure.cli.main import app
from procure.objectives import OBJECTIVES
from procure.offers.template import write_template
from procure.packages.costs import Costs, total_costs
from procure.schemas import RESULT
from procure.workload import generate
from typer.testing import CliRunner

quotes = procure.read_quotes("quotes.csv")
assert quotes["bays"].tolist() == [4] and quotes["cooling_usd_per_year"].tolist() == [100.0]
write_template("template.csv")
assert {"bays", "cooling_usd_per_year"} <= set(open("template.csv").readline().strip().split(","))
packages = procure.expand_packages(quotes, procure.PackageRules(budget_usd=5000, min_gpu_nodes=0))
jobs = generate(1, 20)
costs = Costs(years=5, price_change_percent={"cooling": 0})
table = total_costs(packages, quotes, costs, {"day": jobs})
n = packages["A"]
assert (table["cooling_usd"] == 500 * n).all()
assert np.allclose(table["tco_usd"], packages["price_usd"] + 500 * n)
nodes = procure.package_nodes({"A": 5}, quotes)
assert procure.simulate(jobs, nodes, "fcfs").metrics["least_wait_time"] == 7.0
assert "least_wait_time" in RESULT.names and OBJECTIVES["least-wait"].unit == "s"
assert "least-wait" in CliRunner().invoke(app, ["recommend", "--help"], env={"COLUMNS": "999"}).stdout
"""


def test_an_objective_a_yearly_cost_and_a_column_are_a_row_each(tmp_path: Path):
    """From these come schema, reader, template, costs, objectives and help; a metric is also computed in the kernel."""
    home = Path(procure.__file__).parent
    shutil.copytree(home, tmp_path / "procure", ignore=shutil.ignore_patterns("__pycache__"))
    for name, edits in EDITS.items():
        path = tmp_path / "procure" / name
        text = path.read_text()
        for mark, row in edits:
            assert text.count(mark) == 1, mark
            text = text.replace(mark, mark + row if mark.endswith("(") else row + mark)
        path.write_text(text)
    (tmp_path / "quotes.csv").write_text(
        "Server type,category,cores,RAM (GB),gpus,price_usd,drive bays,cooling_usd_per_year\n"
        "A,compute,64,512,0,1000,4,100\n"
    )
    clean = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1", "PROCURE_CACHE": str(tmp_path / "c")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
