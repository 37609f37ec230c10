"""Costs: every column against the written formula, by hand and against a slow twin."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.packages import PackageRules
from procure.packages.costs import Costs, cost_notes, total_costs
from procure.packages.quotes import check_quotes
from procure.schemas import COST_UNITS, JOB
from procure.tables import check

ROOT = Path(__file__).resolve().parent.parent


def offers(**columns: list) -> pd.DataFrame:
    rows = {
        "name": ["a", "g"], "category": ["compute", "gpu"], "cpus": [10, 20], "mem_gb": 256, "gpus": [0, 4],
        "price_usd": [100, 1000], "power_w": [200, 1000], "idle_power_w": [100, 400], "rack_units": [1, 2.5],
        "licence_usd_per_year": [None, 50], "support_usd_per_year": [10, 20],
    }  # fmt: skip
    return check_quotes(pd.DataFrame(rows | columns))


def packages(*counts: tuple[int, int]) -> pd.DataFrame:
    a, g = zip(*counts, strict=True)
    return pd.DataFrame({"package_id": [f"p{i}" for i in range(len(a))], "price_usd": 1.0, "a": a, "g": g})


def workload(n_jobs: int = 101, cpus: int = 5, run_time: int = 40, gap: int = 10) -> pd.DataFrame:
    """A job of so many CPUs every so many seconds."""
    submit = np.arange(n_jobs) * gap
    columns = {"job_id": submit.astype(str), "submit_time": submit, "run_time": run_time, "cpus_per_node": cpus}
    return check(pd.DataFrame(columns), JOB)


FULL = Costs(
    years=2, usd_per_kwh=0.2, pue=1.5, nodes_per_switch=2, switch_usd=30, switch_power_w=10,
    switch_rack_units=1, cables_per_node=1.1, cable_usd=2, usd_per_rack_unit_year=3, staff_usd_per_year=1000,
    staff_usd_per_node_year=7,
)  # fmt: skip


def test_every_column_by_hand() -> None:
    """Three nodes, half busy: each figure is what pencil and paper give."""
    # 101 jobs × 5 CPUs × 40 s in 1,000 s ask for 20.2 CPUs of 40.
    found = total_costs(packages((2, 1)), offers(), FULL, {"day": workload()}).iloc[0]
    busy = 20.2 / 40
    watts = 2 * (100 + busy * 100) + 400 + busy * 600 + 2 * 10
    kwh = watts * 8.76 * 1.5
    expected = {
        "purchase_usd": 1.0, "fixed_usd": 0.0, "n_nodes": 3, "busy_share": busy, "energy_kwh_per_year": kwh,
        "energy_usd": kwh * 0.4, "rack_units": 2 + 2.5 + 2, "space_usd": 6.5 * 6, "n_switches": 2,
        "n_cables": 4, "network_usd": 68.0, "licence_usd": 100.0, "support_usd": 80.0,
        "staff_usd": 2000 + 42.0, "lines_usd": 0.0, "tax_usd": 0.0, "residual_usd": 0.0,
    }  # fmt: skip
    expected["tco_usd"] = sum(v for k, v in expected.items() if k.endswith("_usd"))
    expected["usd_per_job"] = expected["tco_usd"] / (101 / 1000 * 2 * 31_536_000)
    expected["usd_per_core_hour"] = expected["tco_usd"] / (20.2 * 2 * 8760)
    assert found[list(COST_UNITS)].to_dict() == pytest.approx(expected | {"carbon_t_per_year": np.nan}, nan_ok=True)


def test_existing_nodes_share_the_work_and_take_energy_where_watts_are_known() -> None:
    """Own watts, or those of the quote of the node's kind; a node with neither is said, not guessed."""
    existing = pd.DataFrame(
        {
            "node_id": ["x", "y", "z"], "kind": ["old", "g", "?"], "cpus": [20, 20, 0], "mem_mb": 1,
            "power_w": [300, None, None], "idle_power_w": [200, None, None],
        }
    )  # fmt: skip
    with_old, alone = (
        total_costs(packages((2, 1)), offers(), Costs(usd_per_kwh=1), {"day": workload()}, None, nodes).iloc[0]
        for nodes in (existing, None)
    )
    busy = 20.2 / 80
    assert with_old["busy_share"] == pytest.approx(busy) and alone["busy_share"] == pytest.approx(2 * busy)
    watts = 2 * (100 + busy * 100) + 400 + busy * 600 + 200 + busy * 100 + 400 + busy * 600
    assert with_old["energy_kwh_per_year"] == pytest.approx(watts * 8.76)
    assert "energy of 1 of 3 existing nodes" in cost_notes(offers(), Costs(usd_per_kwh=1), existing)[-1]


@pytest.mark.parametrize(
    ("columns", "costs", "says"),
    [
        ({"power_w": [200, None]}, {"usd_per_kwh": 1}, "power_w of every quote .* g has none in column power_w"),
        ({"idle_power_w": [None, 400]}, {"usd_per_kwh": 1}, "a has none in column idle_power_w.*idle_share"),
        ({"rack_units": [1, None]}, {"usd_per_rack_unit_year": 1}, "g has none in column rack_units"),
    ],
)
def test_missing_figures_are_named_where_they_are_priced(columns: dict, costs: dict, says: str) -> None:
    """What is priced must be stated by every type that is bought; unpriced it is NaN there only."""
    quotes, jobs = offers(**columns), {"day": workload()}
    with pytest.raises(TableError, match=says):
        total_costs(packages((2, 1)), quotes, Costs(**costs), jobs)
    column = "rack_units" if "rack_units" in columns else "energy_kwh_per_year"
    free = total_costs(packages((2, 1), (2, 0), (0, 1)), quotes, Costs(), jobs)
    assert free[column].isna().sum() == 2 and free["tco_usd"].notna().all()
    without = next(i for i in (1, 2) if free[column].notna()[i])
    total_costs(packages([(2, 0), (0, 1)][without - 1]), quotes, Costs(**costs), jobs)


def test_idle_share_stands_in_for_idle_watts() -> None:
    """Idle watts that are not quoted are a share of the busy ones; those that are quoted stay."""
    quotes, jobs = offers(idle_power_w=[None, 400]), {"day": workload(run_time=0)}
    found = total_costs(packages((1, 1)), quotes, Costs(usd_per_kwh=1, idle_share=0.25), jobs).iloc[0]
    assert found["energy_kwh_per_year"] == pytest.approx((50 + 400) * 8.76)
    assert math.isnan(found["usd_per_core_hour"])


def test_a_node_without_watts_is_legal_and_noted() -> None:
    """Zero watts need no idle watts, cost no energy, and are said."""
    quotes = offers(power_w=[0, 1000], idle_power_w=[None, 400])
    found = total_costs(packages((5, 0)), quotes, Costs(usd_per_kwh=1), {"day": workload()}).iloc[0]
    assert found["energy_usd"] == 0
    assert "0 W for a" in cost_notes(quotes, Costs(usd_per_kwh=1))[0]
    assert "not priced" in cost_notes(quotes, Costs())[0]


def test_workloads_are_weighted() -> None:
    """Busy share and jobs are means over the workloads by their weights; jobs of one moment have a rate."""
    jobs = {"busy": workload(cpus=5, run_time=400), "idle": workload(n_jobs=1, cpus=5, run_time=10)}
    found = total_costs(packages((1, 0)), offers(), Costs(years=1), jobs, weights={"busy": 1, "idle": 3}).iloc[0]
    assert found["busy_share"] == pytest.approx(0.25 * 1 + 0.75 * 0.5)
    served = 0.25 * 0.101 * 10 / 202 + 0.75 * 0.1
    assert found["usd_per_job"] == pytest.approx(found["tco_usd"] / (served * 31_536_000))
    with pytest.raises(TableError, match="a workload is needed"):
        total_costs(packages((1, 0)), offers(), Costs(), {})


def one_by_one(counts: tuple[int, int], rows: list[dict], costs: Costs, jobs: pd.DataFrame) -> float:
    """Reckon the total cost of one package node by node."""
    cpus = sum(n * row["cpus"] for n, row in zip(counts, rows, strict=True))
    asked = int(jobs["cpus_per_node"].iloc[0])
    can = sum(n * row["cpus"] for n, row in zip(counts, rows, strict=True) if row["cpus"] >= asked)
    times = jobs["submit_time"].tolist()
    work = sum(r * c for r, c in zip(jobs["run_time"], jobs["cpus_per_node"], strict=True))
    busy = min(can, work / (max(times) - min(times))) / cpus
    total = costs.staff_usd_per_year * costs.years
    for n, row in zip(counts, rows, strict=True):
        for _ in range(n):
            watts = (1 - busy) * row["idle_power_w"] + busy * row["power_w"]
            total += row["price_usd"] + watts / 1000 * 8760 * costs.years * costs.pue * costs.usd_per_kwh
            total += row["support_usd_per_year"] * costs.years
    return total


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)).filter(any), min_size=1, max_size=4),
    st.builds(
        Costs, years=st.floats(0.5, 9), pue=st.floats(1, 2), usd_per_kwh=st.floats(0, 1),
        staff_usd_per_year=st.integers(0, 9999).map(float),
    ),
    st.integers(2, 40), st.integers(1, 64), st.integers(0, 5000),
)  # fmt: skip
def test_equals_node_by_node(counts, costs, n_jobs, cpus, run_time) -> None:
    """The total cost of any package is the sum over its nodes one by one, to the cent."""
    quotes = offers(licence_usd_per_year=[0, 0])
    jobs = workload(n_jobs, cpus, run_time)
    rules = PackageRules(budget_usd=1)
    found = total_costs(packages(*counts), quotes, costs, {"day": jobs}, rules)["tco_usd"]
    rows = quotes.to_dict(orient="records")
    # Energy, staff and support are each rounded to the cent.
    assert found.tolist() == pytest.approx([one_by_one(each, rows, costs, jobs) for each in counts], abs=0.02)


def test_command(tmp_path) -> None:
    """`packages STUDY --costs` shows each column with its unit, for all or for named packages."""
    study = str(ROOT / "pipelines" / "vendor-rules.toml")
    out = tmp_path / "costs.csv"
    result = CliRunner().invoke(app, ["packages", study, "--costs", "--out", str(out), "--format", "json"])
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    units = {name: unit for name, unit in COST_UNITS.items() if name != "carbon_t_per_year"}  # no file gives it
    assert {each["cost"]: each["unit"] for each in document} == units
    written = pd.read_csv(out)
    by_name = {each["cost"]: each for each in document}
    assert by_name["tco_usd"]["max"] == pytest.approx(written["tco_usd"].max())
    wanted = written["package_id"].iloc[[5, 2]].tolist()
    result = CliRunner().invoke(
        app, ["packages", study, "--costs", "--package", wanted[0], "--package", wanted[1], "--format", "csv"]
    )
    beside = pd.read_csv(io.StringIO(result.stdout)).set_index("cost")
    assert list(beside) == ["unit", *wanted] and list(beside.index) == list(units)
    expected = written.set_index("package_id").loc[wanted, "tco_usd"].tolist()
    assert beside.loc["tco_usd", wanted].astype(float).tolist() == pytest.approx(expected)
    assert CliRunner().invoke(app, ["packages", study, "--package", "x"]).exit_code == 2
    unknown = CliRunner().invoke(app, ["packages", study, "--costs", "--package", "x=1"], env={"COLUMNS": "200"})
    assert unknown.exit_code == 2 and "the study has no package" in unknown.stderr
