"""Costs: every column against the written formula, by hand and against a slow twin."""

import io
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import quote_table, write_study
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.errors import TableError
from procure.packages.costs import Costs, cost_notes, total_costs
from procure.packages.nodes import jobs_left_out, work_of
from procure.packages.quotes import check_quotes
from procure.schemas import COST_UNITS, JOB, NODE
from procure.study import load_plan, load_study
from procure.study.plan import works_of
from procure.sweep import run_sweep
from procure.sweep.results import costs_of
from procure.tables import check

ROOT = Path(__file__).resolve().parent.parent


def offers(**columns: list) -> pd.DataFrame:
    kinds = {"name": ["a", "g"], "category": ["compute", "gpu"], "cpus": [10, 20], "gpus": [0, 4]}
    kinds |= {"price_usd": [100, 1000], "power_w": [200, 1000], "idle_power_w": [100, 400], "rack_units": [1, 2.5]}
    kinds |= {"licence_usd_per_year": [None, 50], "support_usd_per_year": [10, 20]}
    return check_quotes(quote_table(**kinds | columns))


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


TYPES = {"a": (8, 0, "", 1), "b": (16, 0, "", 2), "g": (8, 4, "h100", 1), "v": (8, 2, "v100", 4)}
QUOTES = check_quotes(
    pd.DataFrame(
        [
            {"name": name, "category": "c", "cpus": cpus, "mem_gb": 64, "gpus": gpus, "gpu_type": model,
             "price_usd": 100, "spec_rate": speed, "power_w": 500, "idle_power_w": 100}
            for name, (cpus, gpus, model, speed) in TYPES.items()
        ]
    )
)  # fmt: skip
OWN = check(pd.DataFrame({"node_id": ["x", "y"], "kind": "old", "cpus": 12, "mem_mb": 64_000, "speed": 3.0}), NODE)
LOGGED = 2


def job_table(rows: list[tuple[int, int, int, int, int, str]]) -> pd.DataFrame:
    """Return jobs of (submission, run time, nodes, CPUs, GPUs, GPU model)."""
    names = ["submit_time", "run_time", "n_nodes", "cpus_per_node", "gpus_per_node", "gpu_type"]
    table = pd.DataFrame(rows, columns=names)
    return check(table.assign(job_id=[str(i) for i in range(len(rows))]), JOB)


def scaled(jobs: pd.DataFrame):
    """Return run times by speed, as a simulation has them."""
    return lambda speed, model, kind: procure.scale_run_time(jobs["run_time"].to_numpy(), LOGGED, speed)


def slow(counts: list[int], rows: list[tuple], own: bool, seconds: int) -> tuple[Fraction, Fraction]:
    """Return the CPUs that a package has busy, before its own CPUs bound them, and the jobs that it runs."""
    nodes = [one for one, n in zip(TYPES.values(), counts, strict=True) for _ in range(n)]
    nodes += [(12, 0, "", 3)] * (2 if own else 0)
    groups: dict[tuple, list[list]] = {}
    for row in rows:
        _, _, n_nodes, cpus, gpus, model = row
        of_types = tuple(
            c >= cpus and g >= gpus and (not gpus or not model or not has or has == model)
            for c, g, has, _ in [*TYPES.values(), (12, 0, "", 3)]
        )
        able = [
            (c, g, speed)
            for c, g, has, speed in nodes
            if c >= cpus and g >= gpus and (not gpus or not model or not has or has == model)
        ]
        if len(able) >= n_nodes:
            took = [(c, -(-row[1] * LOGGED // speed)) for c, _, speed in able]
            mean = Fraction(sum(c * t for c, t in took), sum(c for c, _ in took)) * n_nodes / seconds
            groups.setdefault(of_types, []).append([Fraction(1), mean * cpus, mean * gpus, able])
    for types in sorted(groups, key=lambda one: (sum(one), [not held for held in one])):
        inside = [one for of, group in groups.items() if all(t or not o for o, t in zip(of, types, strict=True))
                  for one in group]  # fmt: skip
        for which in (0, 1):
            has = sum(one[which] for one in groups[types][0][3])
            asked = sum(one[0] * one[1 + which] for one in inside)
            for one in inside if asked > has else ():
                one[0] *= Fraction(has) / asked
    every = [one for group in groups.values() for one in group]
    return sum((one[0] * one[1] for one in every), Fraction(0)), sum((one[0] for one in every), Fraction(0))


ROWS = st.lists(
    st.tuples(
        st.integers(0, 5_000), st.integers(0, 20_000), st.integers(1, 3), st.integers(1, 20),
        st.integers(0, 4), st.sampled_from(["", "h100", "v100"]),
    ),
    min_size=1, max_size=7,
)  # fmt: skip
COUNTS = st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any), min_size=1, max_size=3)


@settings(max_examples=25, deadline=None)
@given(ROWS, COUNTS, st.booleans())
def test_busy_share_and_jobs_against_a_slow_twin(rows: list[tuple], counts: list[list[int]], own: bool) -> None:
    """Node by node and job by job in fractions: which jobs run, how long, and what the nodes for them get done."""
    jobs, existing = job_table(rows), OWN if own else None
    packages = pd.DataFrame(counts, columns=list(TYPES)).assign(package_id="p", price_usd=1.0)
    work = {"w": work_of(jobs, QUOTES, existing, scaled(jobs))}
    costs = Costs(years=1, usd_per_kwh=1)
    found = total_costs(packages, QUOTES, costs, work, None, existing)
    seconds = max(row[0] for row in rows) - min(row[0] for row in rows) or max(1, *(row[1] for row in rows), 1)
    for row, each in zip(found.itertuples(), counts, strict=True):
        cpus = sum(n * one[0] for n, one in zip(each, TYPES.values(), strict=True)) + 24 * own
        busy, ran = slow(each, rows, own, seconds)
        assert row.busy_share == pytest.approx(float(min(1, busy / cpus)))
        served = float(ran * min(1, cpus / busy) if busy else ran) / seconds * 31_536_000
        assert row.usd_per_job == pytest.approx(row.tco_usd / served if served else np.nan, nan_ok=True)
    left_out = jobs_left_out(packages, QUOTES, jobs, existing)
    runs = [int((work["w"].n_jobs * (served[0] > 0)).sum()) for _, served, _ in work["w"].on(np.array(counts[:1]))]
    assert runs == [len(jobs) - left_out[0]]


def test_a_package_that_runs_no_job_has_no_cost_per_job() -> None:
    """It is idle, and its cost per job is missing rather than low."""
    jobs = job_table([(0, 100, 1, 4, 4, "h100"), (50, 100, 1, 4, 4, "h100")])
    packages = pd.DataFrame([[5, 0, 0, 0], [0, 0, 5, 0]], columns=list(TYPES)).assign(package_id="p", price_usd=1.0)
    found = total_costs(packages, QUOTES, Costs(usd_per_kwh=1), {"w": jobs})
    assert found["busy_share"].tolist() == [0, pytest.approx(8 * 100 / 50 / 40)]
    assert found["usd_per_job"].isna().tolist() == [True, False]


def test_tasks_run_wherever_they_fit() -> None:
    """Twenty tasks of a CPU keep half of 2 × 16 CPUs and more busy, though the log had them on twenty nodes."""
    rows = {"job_id": ["1", "2"], "submit_time": [0, 100], "run_time": 50, "n_nodes": 20, "cpus_per_node": 1}
    jobs = check(pd.DataFrame(rows).assign(n_tasks=20, cpus_per_task=1), JOB)
    packages = pd.DataFrame([[0, 2, 0, 0], [0, 1, 0, 0]], columns=list(TYPES)).assign(package_id="p", price_usd=1.0)
    found = total_costs(packages, QUOTES, Costs(), {"w": work_of(jobs, QUOTES)})
    assert found["busy_share"].tolist() == [pytest.approx(2 * 20 * 50 / 100 / 32), 0]


def test_a_study_reckons_with_the_speeds_that_it_simulates_with(tmp_path: Path) -> None:
    """`logged_speed`, `[gpu_models]` and `kill_at_limit` count in the list's costs, for one job on paper."""
    QUOTES[QUOTES["name"] == "v"].to_csv(tmp_path / "quotes.csv", index=False)
    row = {"run_time": 1_000, "requested_time": 900, "cpus_per_node": 4, "gpus_per_node": 1, "gpu_type": "p100"}
    jobs = pd.DataFrame([{"job_id": "1", "submit_time": 0} | row, {"job_id": "2", "submit_time": 1_000} | row])
    jobs.to_csv(tmp_path / "jobs.csv", index=False)
    log, path = 'jobs = "jobs.csv"\nlogged_speed = 8', tmp_path / "s.toml"
    faster = '[gpu_models]\np100 = { runs_on = ["v100"], speed = { v100 = 2 } }'
    for kill, took in (("false", 1_000), ("true", 900)):
        more = f"[simulate]\nkill_at_limit = {kill}\n{faster}"
        plan = load_plan(load_study(write_study(path, log, more, quotes="quotes.csv", budget=100)))
        assert works_of(plan.study, plan.quotes, None, plan.workloads)["log"].run_times.tolist() == [[took, took]]
        found = costs_of(plan, plan.packages, {"log": 1.0})["busy_share"].tolist()
        assert found == [pytest.approx(min(1, 2 * took * 4 / 1_000 / 8))]


@pytest.mark.parametrize("objective", ["cost-per-job", "cost-per-core-hour", "mean-wait"])
def test_a_package_that_runs_no_job_is_last(tmp_path: Path, objective: str) -> None:
    """It stands first in the quotes, and no other one's means are taken by its jobs."""
    QUOTES[QUOTES["name"].isin(["b", "v"])].to_csv(tmp_path / "quotes.csv", index=False)
    row = {"run_time": 3_000, "cpus_per_node": 4, "gpus_per_node": 1, "gpu_type": "v100"}
    jobs = pd.DataFrame([{"job_id": str(i), "submit_time": i * 700} | row for i in range(50)])
    jobs.to_csv(tmp_path / "jobs.csv", index=False)
    more = f'[recommend]\nobjective = "{objective}"\n[costs]\nusd_per_kwh = 0.1'
    rules = {"quotes": "quotes.csv", "budget": 400, "packages": "min_gpu_nodes = 0"}
    write_study(tmp_path / "s.toml", 'jobs = "jobs.csv"', more, **rules)
    run_sweep(load_plan(load_study(tmp_path / "s.toml")), "serial")
    done = procure.recommend(tmp_path / "s.toml", k=9, resamples=0)
    assert done.results.cases[0].packages["package_id"].iloc[0] == "b=4"
    assert done.ranking["package_id"].to_list() == ["v=4", "b=4"]
