"""Features, folds, the surrogate and how it is kept."""

import io
import json
import os
import random
import subprocess
import sys
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_study import quote_table

from procure.errors import TableError
from procure.files import Archive, keep_array, load_booster, read_archive, write_archive
from procure.learn.features import FEATURES, RunTimes
from procure.learn.store import SCHEMA as POLICY
from procure.learn.store import UNTRAINED, read_policy, write_policy
from procure.models import Surrogate, WorkloadWaits, features, make_case, predict_packages, surrogate
from procure.models.surrogate import from_archive, learn
from procure.queue_time import store
from procure.queue_time.store import train
from procure.schemas import QUOTE
from procure.tables import check
from procure.window.solve import FEATURES as FEATURES_SEEN
from procure.window.solve import POSITIONS, read_network, write_network
from procure.window.solve import SCHEMA as NETWORK
from procure.workload import generate
from tests.test_queue_time_model import QUICK, busy_site
from tests.test_window import random_network

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

    monkeypatch.setattr(surrogate, "Surrogate", Watched)
    x = np.arange(100.0)[:, None]
    wait = np.where(np.arange(100) % 4 == 0, 5.0, np.nan)
    found = predict_packages(x, wait, folds=5)
    known = set(range(0, 100, 4))
    for test, seen in asked[:5]:
        assert seen | test == known and not seen & test and len(test) == 5
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
    labels = {"workload": "day", "policy": "best-fit", "status": "ok"}
    return rows[["package_id"]].assign(**labels, mean_wait_time=waits(rows))


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
    packages, quotes = make_packages(60), plain_quotes()
    case = make_case(packages, quotes, JOBS, make_results(packages), "day", "best-fit")
    own, real, calls = case.packages["package_id"].to_numpy(), surrogate.cross_validate, []
    monkeypatch.setattr(surrogate, "cross_validate", lambda *a, **k: calls.append(1) or real(*a, **k))

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


def test_a_model_that_xgboost_cannot_read_names_its_version() -> None:
    with pytest.raises(TableError, match=r"x: the model file is damaged, or written by another XGBoost than \d"):
        load_booster(b"{L\0\0\0\0\0\0\0\x07", "x")


ROWS = np.random.default_rng(1).random((300, 4)).astype(np.float32)
TARGET = ROWS.sum(axis=1).astype(np.float64)
SUFFIXES = {"xgboost": "zip", "site": "model", "policy": "policy", "network": "network", "kept": "zip"}
"""Each kind of file that a fitted model is kept in, a study's by how its trees grow, and the ending given here."""

# Reads archives in a process of its own, so that a crash is seen: a line each, "ok" or the error.
READ = """
import sys
from pathlib import Path
import numpy as np
from procure.errors import TableError
from procure.files import keep_array, read_archive
from procure.learn.store import read_policy
from procure.models import surrogate
from procure.queue_time import store
from procure.window.solve import read_network

rows = np.random.default_rng(1).random((300, 4)).astype(np.float32)
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        if path.suffix == ".model":
            store.load(path)
        elif path.suffix == ".policy":
            read_policy(path)
        elif path.suffix == ".network":
            read_network(path)
        elif path.name.startswith("kept"):
            made = []
            found = keep_array(path.parent, path.stem, [1], lambda: made.append(1) or rows)
            assert (found == rows).all()
            print("made anew" if made else "ok", flush=True)
            continue
        else:
            surrogate.from_archive(read_archive(path, surrogate.SCHEMA), str(path)).predict(rows)
        print("ok", flush=True)
    except TableError as error:
        print(error, flush=True)
"""


def read_all(folder: Path) -> dict[str, str]:
    """Read and evaluate every file of a folder; return what each gave, by its name."""
    done = subprocess.run([sys.executable, "-c", READ, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    names, said = sorted(path.name for path in folder.iterdir()), done.stdout.splitlines()
    return dict(zip(names, said, strict=True))


@cache
def trained() -> store.SiteModel:
    return train(busy_site(300), QUICK)


def saved(kind: str, folder: Path) -> Path:
    """Save a small model of a kind: a study's, a site's for its queue, or a policy that knows past run times."""
    path = folder / ("whole.zip" if kind == "kept" else "whole")
    {
        "site": lambda: store.save(trained(), path),
        "kept": lambda: keep_array(folder, "whole", [1], lambda: ROWS),
        "policy": lambda: write_policy(path, replace(UNTRAINED, history=RunTimes().fit(generate(1, n_jobs=200)))),
        "network": lambda: write_network(path, random_network()),
        "xgboost": lambda: write_archive(path, surrogate.Surrogate(1).fit(ROWS, TARGET * 100).archive()),
    }[kind]()
    return path


def altered(content: bytes, rng: random.Random) -> bytes:
    """Change a byte or a few, cut, double or empty a stretch."""
    changed = bytearray(content)
    at = rng.randrange(len(content))
    what = rng.randrange(6)
    if what == 0:
        del changed[at:]
    elif what == 1:
        changed[at : at + rng.randrange(1, 64)] = b""
    elif what == 2:
        changed[at:at] = content[at : at + 16]
    else:
        for _ in range(rng.choice((1, 1, 4))):
            changed[rng.randrange(len(content))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return bytes(changed)


N = int(os.environ.get("PROCURE_TEST_CASES", "100"))
"""Alterations of each kind; docs/claims/safe.md has what 1,000 gave."""


@pytest.mark.slow
def test_altered_model_files(tmp_path, n=N):
    """Bytes altered in a file are refused by the digest, as are those in a part of it whose checksum is put right.

    Bytes of a zip file that mean nothing, such as dates, are no part of the content: then it is read as it was.
    """
    folder = tmp_path / "altered"
    folder.mkdir()
    rng, whole = random.Random(n), {kind: saved(kind, tmp_path).read_bytes() for kind in SUFFIXES}
    for kind, suffix in SUFFIXES.items():
        (folder / f"{kind}-empty.{suffix}").write_bytes(b"")
        for number in range(n):
            outside = altered(whole[kind], rng)
            (folder / f"{kind}-bytes-{number}.{suffix}").write_bytes(outside if outside != whole[kind] else b"")
            (folder / f"{kind}-part-{number}.{suffix}").write_bytes(_part_altered(whole[kind], rng))
    said = read_all(folder)
    for kind in SUFFIXES:
        (tmp_path / "whole").write_bytes(whole[kind])
        of_kind = {name: text for name, text in said.items() if name.startswith(f"{kind}-")}
        as_it_was = [name for name, text in of_kind.items() if text == "ok"]
        refused = [text for text in of_kind.values() if ("made anew" if kind == "kept" else "train it again") in text]
        print(f"{kind}: {len(of_kind):,} altered, {len(refused):,} refused, {len(as_it_was):,} as it was")
        assert len(refused) + len(as_it_was) == len(of_kind) == 2 * n + 1, set(of_kind.values())
        assert all("bytes" in name and content(folder / name) == content(tmp_path / "whole") for name in as_it_was)
        assert len(as_it_was) < len(of_kind) / 20


def content(path: Path) -> tuple[object, ...]:
    """Return all that a model is made from."""
    with zipfile.ZipFile(path) as file:
        archive = read_archive(path, json.loads(file.read("head.json"))["schema"])
    arrays = {name: (array.dtype, array.shape, array.tobytes()) for name, array in archive.arrays.items()}
    return archive.head, arrays, archive.trees


def _part_altered(whole: bytes, rng: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(whole)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    name = rng.choice(sorted(parts))
    before = parts[name]
    while parts[name] == before:
        parts[name] = altered(before, rng)
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return changed.getvalue()


TEXTS, WRONG = np.array(["x"] * len(FEATURES)), np.full((POSITIONS * FEATURES_SEEN, 16), np.nan, np.float32)
FORGED = [
    ("policy", {"history": []}, {}),
    ("policy", {"history": {"as_of": "x"}}, {}),
    ("policy", {"history": {"by_user": True, "as_of": 1}}, {}),
    ("policy", {"history": {"tables": []}}, {}),
    ("policy", {"trained": 5}, {}),
    ("policy", {"schema": "procure-learned-policy/1"}, {}),
    ("policy", {"method": ["search"]}, {}),
    ("policy", {"method": "luck"}, {}),
    ("policy", {"features": ["shoe_size"]}, {}),
    ("policy", {"features": 5}, {}),
    ("policy", {}, {"policy/weights": TEXTS}),
    ("policy", {}, {"policy/weights": np.zeros(3)}),
    ("policy", {}, {"policy/weights": np.full(len(FEATURES), np.nan)}),
    ("policy", {}, {"policy/trust": None}),
    ("policy", {}, {"history/1/counts": None}),
    ("policy", {}, {"policy/weights": np.array(1.0)}),
    ("policy", {}, {"policy/trust": np.array([np.inf])}),
    ("policy", {}, {"history/0/keys": np.array("x")}),
    ("policy", {}, {"history/0/counts": np.array([["x"] * 40])}),
    ("network", {"tree": {"pods": -1, "leaves": 2, "nodes": 3}}, {}),
    ("network", {"tree": {"pods": 1e999, "leaves": 2, "nodes": 3}}, {}),
    ("network", {"tree": 5}, {}),
    ("network", {"n_layers": 10**12}, {}),
    ("network", {"training": 5}, {}),
    ("network", {"most_nodes": 1e999}, {}),
    ("network", {}, {"matrix0": WRONG}),
    ("network", {}, {"matrix0": WRONG.astype(str)}),
    ("network", {}, {"bias0": np.array(1.0)}),
    ("site", {"settings": "x"}, {}),
    ("site", {"method": []}, {}),
]


@pytest.mark.parametrize(("kind", "head", "arrays"), FORGED)
def test_forged_files_that_bear_a_right_digest(tmp_path, kind, head, arrays):
    """A policy or a network whose head or arrays are not what they must be is one error, not a crash later on."""
    path = saved(kind, tmp_path)
    schema, read = {
        "policy": (POLICY, read_policy), "network": (NETWORK, read_network), "site": (store.SCHEMA, store.load)
    }[kind]  # fmt: skip
    whole = read_archive(path, schema)
    read(path)
    arrays = {name: one for name, one in (whole.arrays | arrays).items() if one is not None}
    write_archive(path, Archive(whole.head | head, arrays))
    with pytest.raises(TableError, match="train it again"):
        read(path)
