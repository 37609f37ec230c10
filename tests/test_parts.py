"""Buying in parts: the money, the prices, the nodes that stand each year, and the verdict."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from small_study import QUOTES
from test_futures import log

from procure.errors import ArgumentError, TableError
from procure.packages.ids import counts_of_ids
from procure.recommender.parts import Purchases, _verdict, plan_purchases
from procure.study import load_study
from procure.sweep import trial
from procure.tables import write

QUICK = {"candidates": 4, "beam": 2, "draws": 2}


@pytest.fixture
def study(tmp_path):
    write(log(weeks=4, n=250).assign(n_nodes=1), tmp_path / "jobs.parquet")
    nodes = pd.DataFrame({"node_id": ["a", "b", "c"], "kind": ["old", "old", "new"], "cpus": 16, "mem_mb": 128_000})
    write(nodes, tmp_path / "nodes.csv")
    path = tmp_path / "study.toml"
    path.write_text(
        f'quotes = "{QUOTES}"\n[packages]\nrules = "published"\nbudget_usd = 60_000\nexisting_nodes = "nodes.csv"\n'
        '[[workloads]]\nname = "log"\njobs = "jobs.parquet"\n'
        '[futures]\nlength = "14d"\ngrowth = 1.3\n'
    )
    return path


@pytest.mark.slow
def test_the_money_of_every_year_adds_up(study):
    """What is bought costs its list price less the fall; what is left is kept; all now spends at once."""
    done = plan_purchases(study, 3, 60_000, price_fall=0.2, **QUICK)
    quotes = load_study(study).read_quotes()
    types, prices = quotes["name"].tolist(), quotes["price_usd"].to_numpy()
    cash = 0.0
    for row in done.parts.table.itertuples():
        cash += 60_000 - row.spent_usd
        assert row.left_usd == pytest.approx(cash) and cash >= 0
        counts = counts_of_ids([row.package_id] if row.package_id else [], types)
        assert row.spent_usd == pytest.approx(float((counts @ prices).sum()) * 0.8 ** (row.year - 1), abs=1)
    now = done.now.table
    assert now["spent_usd"].iloc[0] > 0 and (now["spent_usd"].iloc[1:] == 0).all()
    assert now["spent_usd"].sum() <= 180_000 and now["year"].tolist() == [1, 2, 3]
    bought = counts_of_ids([name for name in done.parts.table["package_id"] if name], types).sum()
    assert done.parts.table["n_nodes"].iloc[-1] == 3 + bought


@pytest.mark.slow
def test_nodes_that_retire_are_gone_from_their_year_on(study):
    done = plan_purchases(study, 3, 60_000, retire={2: ["old"]}, **QUICK)
    n = done.now.table["n_nodes"].to_numpy()
    assert n[0] - n[1] == 2 and n[1] == n[2]


def test_a_run_that_fails_is_named_with_its_year(study, monkeypatch):
    n_calls = []

    def simulate(*given):
        n_calls.append(1)
        rows, seconds = simulate_batch(*given)
        return rows.assign(status="failed", reason="broke") if len(n_calls) == 3 else rows, seconds

    simulate_batch = trial.simulate_batch
    monkeypatch.setattr(trial, "simulate_batch", simulate)
    with pytest.raises(TableError, match=r"year 2: package .* broke"):
        plan_purchases(study, 2, 60_000, **QUICK)  # the third call is the second year's first future


@pytest.mark.slow
def test_the_same_seed_gives_the_same_plan(study):
    one, other = (plan_purchases(study, 2, 60_000, seed=4, **QUICK).table for _ in range(2))
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.parametrize(
    ("now", "parts", "text"),
    [
        ([1000.0, 1010, 990, 1005], [1010.0, 1000, 1002, 998], "not worth it"),
        ([1000.0] * 6, [5000.0, 5100, 4900, 5000, 99_000, 5000], "all now is better"),
        ([5000.0, 5100, 4900, 5000, 5000, 5000], [1000.0] * 6, "in parts is better"),
        ([1000.0] * 4, [5000.0, 5100, 4900, 5000], "are too few to say"),  # luck alone, once in eight
        ([1000.0, 9000, 1000, 9000], [9000.0, 1000, 3000, 9000], "do not agree"),
    ],
)
def test_the_verdict_is_about_a_difference_that_matters(now, parts, text):
    ways = [Purchases(pd.DataFrame({"jobs_left_out": [0]}), np.array([waits])) for waits in (now, parts)]
    assert any(text in line for line in _verdict(*ways, fall=0.1))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"years": 0}, "years"), ({"price_fall": 1.0}, "price_fall"), ({"retire": {9: ["old"]}}, "retire")],
)
def test_bad_arguments_are_named(study, arguments, name):
    with pytest.raises(ArgumentError) as error:
        plan_purchases(study, **({"years": 2, "budget_per_year": 1e5} | arguments))
    assert error.value.argument == name


@pytest.mark.slow
def test_the_command_prints_what_to_buy_when(study, procure):
    command = [
        "plan",
        str(study),
        "--years",
        "2",
        "--budget-per-year",
        "$60,000",
        "--candidates",
        "3",
        "--draws",
        "2",
    ]
    code, out, err = procure(*command, "--beam", "1", "--format", "json", "--retire", "2=old")
    assert code == 0, err
    document = json.loads(out)
    assert [(row["way"], row["year"]) for row in document["ways"]] == [
        ("all now", 1), ("all now", 2), ("in parts", 1), ("in parts", 2),
    ]  # fmt: skip
    assert document["notes"]
