"""Buy, rent or burst: prices on demand and reserved against slow twins, and a study of three jobs by hand."""

from pathlib import Path

import numpy as np
import pytest

from procure.errors import TableError
from procure.recommender.rent import compare_rent, read_prices
from procure.study.costs import package_costs

HOUR = 3600


STUDY = """
name = "rent"
quotes = "quotes.csv"
[packages]
budget_usd = 10_000
min_gpu_nodes = 0
[[workloads]]
name = "log"
jobs = "jobs.csv"
[simulate]
policies = ["fcfs"]
[costs]
years = 2
interest_percent = 5
"""
PRICES = """name,cpus,mem_gb,usd_per_hour,reserved_usd_per_hour
dear,16,64,2.00,
cheap,8,64,0.50,0.20
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a study of one node of 8 CPUs, and three jobs of two hours each that all want it."""
    (tmp_path / "quotes.csv").write_text("name,category,cpus,mem_gb,gpus,price_usd\nNode,compute,8,64,0,10000\n")
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_time,run_time,cpus_per_node\na,0,7200,8\nb,3600,7200,8\nc,36000,7200,4\n"
    )
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "cloud.csv").write_text(PRICES)
    return tmp_path


def test_a_study_by_hand(folder: Path) -> None:
    """Six hours of work in ten: every figure is what pencil and paper give."""
    found = compare_rent(folder / "study.toml", folder / "cloud.csv", package="Node=1", boot=0, wait_bounds=[1800])
    rows = found.table.set_index("way")
    worth = 1 / 1.05 + 1 / 1.05**2  # of US$ 1 a year for two years
    assert rows.loc["buy", "usd"] == 10_000
    assert (rows.loc["buy", "mean_wait_time"], rows.loc["buy", "max_wait_time"]) == (1200.0, 3600.0)
    on_demand = 6 * 0.50 / 10 * 8760 * worth
    assert rows.loc["on demand", "usd"] == pytest.approx(on_demand, abs=0.01)
    # 0 to 1 h: a, and what is left of c (its last two hours begin the next round): two instances; 1 to 2 h: three.
    # 2 to 3 h: one; the rest none, so that one is used for 0.3 of the time, less than 0.2 / 0.5.
    assert rows.loc["reserved", "usd"] == pytest.approx(on_demand, abs=0.01)
    # b waits an hour behind a, so that it is rented, and nobody waits.
    assert rows.loc["burst over 30 min", "usd"] == pytest.approx(10_000 + on_demand / 3, abs=0.01)
    assert (rows.loc["burst over 30 min", "rented_jobs"], rows.loc["burst over 30 min", "max_wait_time"]) == (1, 0.0)
    assert found.break_even["on demand"] == pytest.approx(10_000 / on_demand, rel=1e-3)
    bought = package_costs(folder / "study.toml", ["Node=1"]).packages["tco_usd"].iloc[0]
    assert rows.loc["buy", "usd"] == pytest.approx(bought)


def test_sixty_jobs_are_paid_as_a_twin_pays(folder: Path) -> None:
    """Jobs of one and two nodes on three types: on demand and reserved, second by second in a loop."""
    rng, submit = np.random.default_rng(7), 0
    jobs = [(0, 99_000, 1, 2)]  # longer than the log, which repeats for ever
    for _ in range(59):
        submit += int(rng.integers(0, 1500))
        jobs.append((submit, int(rng.integers(60, 9000)), int(rng.choice([1, 2, 4, 8])), int(rng.choice([1, 1, 2]))))
    rows = "".join(f"{n},{a},{b},{c},{k}\n" for n, (a, b, c, k) in enumerate(jobs))
    (folder / "jobs.csv").write_text("job_id,submit_time,run_time,cpus_per_node,n_nodes\n" + rows)
    (folder / "study.toml").write_text(STUDY.replace("10_000", "30_000"))
    types = [("big", 16, 2.0, 0.9), ("mid", 8, 0.5, 0.2), ("small", 4, 0.27, 0.11)]
    head = "name,cpus,mem_gb,usd_per_hour,reserved_usd_per_hour\n"
    (folder / "cloud.csv").write_text(head + "".join(f"{n},{c},64,{u},{r}\n" for n, c, u, r in types))
    found = compare_rent(folder / "study.toml", folder / "cloud.csv", package="Node=3", boot=180).table.set_index("way")
    span = jobs[-1][0] - jobs[0][0]
    scale = 8760 * HOUR / span * (1 / 1.05 + 1 / 1.05**2)
    on_demand = reserved = 0.0
    busy = {name: np.zeros(span) for name, *_ in types}
    for begin, took, cpus, nodes in jobs:
        hours = (took + 180) / HOUR
        cheapest, name = min((usd * hours * nodes, one) for one, holds, usd, *_ in types if holds >= cpus)
        on_demand += cheapest
        for second in range(begin - jobs[0][0], begin - jobs[0][0] + took + 180):
            busy[name][second % span] += nodes
    for name, _, usd, kept, *_ in types:
        most = int(busy[name].max())
        sums = [n * kept * span + usd * np.maximum(busy[name] - n, 0).sum() for n in range(most + 1)]
        reserved += min(sums) / HOUR
    for way, usd in (("on demand", on_demand), ("reserved", reserved)):
        assert found.loc[way, "usd"] == pytest.approx(usd * scale, abs=0.006)


def test_a_job_that_no_instance_holds_is_counted(folder: Path) -> None:
    """It costs nothing, and that is said; in a burst it stays on the package."""
    (folder / "cloud.csv").write_text("name,cpus,mem_gb,usd_per_hour\nsmall,4,64,0.25\n")
    found = compare_rent(folder / "study.toml", folder / "cloud.csv", package="Node=1", wait_bounds=[1800])
    rows = found.table.set_index("way")
    assert rows.loc["on demand", ["rented_jobs", "jobs_left_out"]].tolist() == [1, 2]
    assert any("on demand: 2 jobs cannot run there" in line for line in found.notes)
    assert rows.loc["burst over 30 min", ["rented_jobs", "jobs_left_out"]].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,cpus,mem_gb\na,1,1\n", "usd_per_hour"),
        ("name,cpus,mem_gb,usd_per_hour\na,1,1,free\n", "row 1, column usd_per_hour: 'free' is not a number"),
        ("name,cpus,mem_gb,usd_per_hour,spot_usd_per_hour\na,1,1,1,0.3\n", "spot_usd_per_hour"),
        ("name,cpus,mem_gb,usd_per_hour,reserved_usd_per_hour\na,1,1,1,2\n", "reserved_usd_per_hour: 2 was given"),
        ("name,cpus,mem_gb,usd_per_hour,speed\na,1,1,1,0\n", "column speed: 0 was given"),
        ("name,cpus,mem_gb,usd_per_hour\na,1,1,1\na,2,2,2\n", "duplicate 'a'"),
        ("name,cpus,mem_gb,usd_per_hour,eur\na,1,1,1,1\n", "unknown column 'eur'"),
    ],
)
def test_bad_prices_are_named_by_cell(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "cloud.csv"
    path.write_text(text)
    with pytest.raises(TableError) as error:
        read_prices(path)
    assert says in str(error.value)
    with pytest.raises(TableError, match=r"cloud.xlsx: a price list is read as .csv or .parquet; save the sheet as"):
        read_prices(tmp_path / "cloud.xlsx")
