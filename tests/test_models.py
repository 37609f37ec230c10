"""Features, folds, the surrogate and how it is kept."""

from __future__ import annotations

import zipfile

import numpy as np
import pandas as pd
import pytest
from small_study import quote_table

from procure.errors import TableError
from procure.files import load_booster, write_archive
from procure.models import Surrogate, WorkloadWaits, features, make_case, predict_packages
from procure.models import crossfit as split_module
from procure.models.crossfit import correlations, learn
from procure.models.surrogate import from_archive
from procure.schemas import QUOTE
from procure.tables import check

SIZES = {"cpus": [8, 16, 32], "mem_gb": [32, 64, 64], "gpus": [0, 2, 4], "price_usd": [1.0, 3.0, 5.0]}
QUOTES = check(quote_table(name=["A", "B", "total_cpus"], category=["compute", "gpu", "gpu"], **SIZES), QUOTE)


def make_packages(n: int = 60, seed: int = 0) -> pd.DataFrame:
    counts = np.random.default_rng(seed).integers(0, 30, (n, 3))
    table = pd.DataFrame(counts, columns=["A", "B", "other"])
    table["package_id"] = [f"p{i}" for i in range(n)]
    table["price_usd"], table["distinct"] = counts @ [1.0, 3, 5], True
    table["total_cpus_sum"] = counts @ [8, 16, 32]
    return table


def plain_quotes() -> pd.DataFrame:
    return QUOTES.assign(name=["A", "B", "other"])


def waits(packages: pd.DataFrame) -> np.ndarray:
    return 1e5 / (packages["total_cpus_sum"].to_numpy() + 10.0) + packages["B"].to_numpy()


def test_totals_are_the_published_three():
    table = features(make_packages(2), plain_quotes(), "totals")
    assert list(table.columns) == ["total_mem_gb", "total_cpus", "total_gpus"]
    assert table["total_cpus"].tolist() == make_packages(2)["total_cpus_sum"].tolist()


def test_composition_holds_counts_and_what_follows_from_them():
    """Counts per type, sums per category, nodes from each size up; no name twice whatever types are called."""
    packages = pd.DataFrame({"A": [2], "B": [1], "total_cpus": [3]})
    table = features(packages, QUOTES, "composition").iloc[0]
    assert table.index.is_unique
    assert table["type:total_cpus"] == 3 and table["total_cpus"] == 16 + 16 + 96
    assert table["category:gpu:nodes"] == 4 and table["category:gpu:gpus_per_node"] == 3.5
    assert table["nodes_mem_gb_from_64"] == 4 and table["nodes_gpus_from_4"] == 3
    assert not [name for name in table.index if "price" in name]


def test_no_package_is_predicted_by_a_model_that_saw_it(monkeypatch):
    """Each simulated package is held out once; each other is predicted by the model of all simulated ones."""
    asked = []

    class Watched(Surrogate):
        def fit(self, x, wait):
            self.rows_ = {int(i) for i in x[:, 0]}
            self.model_, self.profile_ = None, "fine"
            return self

        def predict(self, x):
            asked.append(({int(i) for i in x[:, 0]}, self.rows_))
            return np.ones(len(x))

    monkeypatch.setattr(split_module, "Surrogate", Watched)
    x = np.arange(100.0)[:, None]
    wait = np.where(np.arange(100) % 4 == 0, 5.0, np.nan)
    found = predict_packages(x, wait, folds=5)
    known = set(range(0, 100, 4))
    for test, train in asked[:5]:
        assert train | test == known and not train & test and len(test) == 5
    assert set().union(*(test for test, _ in asked[:5])) == known
    assert asked[5] == (set(range(100)) - known, known)
    assert not np.isnan(found.wait).any()


def test_too_few_simulated_packages_is_an_error_that_says_what_to_do():
    with pytest.raises(TableError, match=r"at least 10 .* there are 3"):
        predict_packages(np.zeros((9, 1)), np.array([1.0, 2, 3] + [np.nan] * 6))


def test_it_learns_repeats_and_survives_storage(tmp_path):
    """Better than the mean, the same twice and after loading; the file holds JSON and numbers."""
    packages = make_packages(120)
    x, wait = features(packages, plain_quotes()), waits(packages)
    found = predict_packages(x, wait, folds=2)
    assert found.relative_rmse < 1
    model = Surrogate(seed=3).fit(x, wait)
    assert (model.predict(x) == Surrogate(seed=3).fit(x, wait).predict(x)).all()
    path = tmp_path / "model.zip"
    write_archive(path, model.archive())
    assert (from_archive(model.archive(), "it").predict(x) == model.predict(x)).all()
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["head.json", "arrays.npz", "trees.ubj"]


def test_waits_that_are_all_zero_are_learnt_as_zero():
    """A workload without waiting is no error, and its predictions rank nothing above another."""
    x = features(make_packages(60), plain_quotes())
    assert Surrogate().fit(x, np.zeros(60)).predict(x) == pytest.approx(np.zeros(60), abs=1e-3)


def make_results(packages: pd.DataFrame, every: int = 2) -> pd.DataFrame:
    rows = packages.iloc[::every]
    return pd.DataFrame(
        {
            "package_id": rows["package_id"],
            "workload": "day",
            "policy": "best-fit",
            "status": "ok",
            "mean_wait_time": waits(rows),
        }
    )


JOBS = pd.DataFrame({"n_nodes": 1, "cpus_per_node": [1, 9], "mem_mb_per_node": 0, "gpus_per_node": 0, "gpu_type": ""})


def test_a_case_joins_results_with_packages():
    """Simulated waits stand at their packages; failed runs, other policies and other workloads do not count."""
    packages = make_packages(20)
    results = make_results(packages)
    results.iloc[0, results.columns.get_loc("status")] = "failed"
    case = make_case(packages, plain_quotes(), JOBS, results, "day", "best-fit")
    assert case.simulated.tolist() == [i % 2 == 0 and i > 0 for i in range(20)]
    with pytest.raises(TableError, match="no package was simulated"):
        make_case(packages, plain_quotes(), JOBS, results, "day", "easy")
    results.iloc[2, 0] = "unheard of"
    with pytest.raises(TableError, match="other quotes or another budget"):
        make_case(packages, plain_quotes(), JOBS, results, "day", "best-fit")


@pytest.mark.slow
def test_what_was_learnt_is_kept_until_something_changes(tmp_path, monkeypatch):
    """A second call reads, of a longer list, too; a seed or a wait that changed learns anew; damage is no obstacle."""
    from procure.models import crossfit as keep

    packages, quotes = make_packages(60), plain_quotes()
    case = make_case(packages, quotes, JOBS, make_results(packages), "day", "best-fit")
    own, real, calls = case.packages["package_id"].to_numpy(), keep.cross_validate, []
    monkeypatch.setattr(keep, "cross_validate", lambda *a, **k: calls.append(1) or real(*a, **k))

    def learnt(case, folder=tmp_path, **more):
        return learn(case, features(case.packages, quotes).to_numpy(), folder=folder, **more)

    first, again = learnt(case), learnt(case)
    assert len(calls) == 1 and np.array_equal(first.wait, again.wait, equal_nan=True)
    assert again.rmse_seconds == first.rmse_seconds and (again.errors.ratio == first.errors.ratio).all()
    longer = make_case(make_packages(90), quotes, JOBS, make_results(packages), "day", "best-fit")
    assert (longer.packages["package_id"][: len(own)] == own).all() and len(longer.packages) > len(own)
    from_kept = learnt(longer)
    assert len(calls) == 1 and np.array_equal(from_kept.wait, learnt(longer, folder=None).wait, equal_nan=True)
    learnt(case, seed=2)
    changed = WorkloadWaits(case.name, case.packages, case.left_out, np.where(case.simulated, case.wait + 1, np.nan), 2)
    learnt(changed)
    for path in tmp_path.glob("*.zip"):
        path.write_bytes(b"")
    learnt(changed)
    assert len(calls) == 5


def test_correlations_follow_the_published_table():
    """4 × 4 over simulated packages only; a perfect line is 1."""
    table = pd.DataFrame({"total_mem_gb": [1.0, 2, 3, 9], "total_cpus": [3, 2, 1, 0], "total_gpus": 1})
    found = correlations(table, np.array([10.0, 20, 30, np.nan]))
    assert found.loc["total_mem_gb", "mean_wait_time"] == pytest.approx(1)
    assert found.loc["total_cpus", "mean_wait_time"] == pytest.approx(-1)
    assert np.isnan(found.loc["total_gpus", "mean_wait_time"])


def test_a_model_that_xgboost_cannot_read_names_its_version() -> None:
    with pytest.raises(TableError, match=r"x: the model file is damaged, or written by another XGBoost than \d"):
        load_booster(b"{L\0\0\0\0\0\0\0\x07", "x")
