"""A model file whose bytes were altered, by accident or on purpose, is one clear error and never a crash."""

from __future__ import annotations

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
import pytest

from procure.errors import TableError
from procure.files import Archive, keep_array, read_archive, write_archive
from procure.learn.class_features import FEATURES
from procure.learn.run_times import RunTimes
from procure.learn.store import SCHEMA as POLICY
from procure.learn.store import UNTRAINED, TrainedPolicy, read_policy, write_policy
from procure.models import surrogate
from procure.queue_time import store
from procure.queue_time.training import train
from procure.window.network import FEATURES as FEATURES_SEEN
from procure.window.network import POSITIONS, read_network, write_network
from procure.window.network import SCHEMA as NETWORK
from procure.workload import generate
from tests.test_queue_time_model import QUICK, busy_site
from tests.test_window_neural import random_network

ROWS = np.random.default_rng(1).random((300, 4)).astype(np.float32)
TARGET = ROWS.sum(axis=1).astype(np.float64)
SUFFIXES = {
    "xgboost": "zip", "site": "model", "policy": "policy", "network": "network",
    "kept": "zip",
}  # fmt: skip
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
from procure.window.network import read_network

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


def fitted() -> surrogate.Surrogate:
    return surrogate.Surrogate(1).fit(ROWS, TARGET * 100)


@cache
def trained() -> store.SiteModel:
    return train(busy_site(300), QUICK)


def saved(kind: str, folder: Path) -> Path:
    """Save a small model of a kind: a study's, or a site's for its queue."""
    path = folder / "whole"
    if kind == "site":
        store.save(trained(), path)
        return path
    if kind == "kept":
        keep_array(folder, "whole", [1], lambda: ROWS)
        return folder / "whole.zip"
    if kind == "policy":
        write_policy(path, policy())
        return path
    if kind == "network":
        write_network(path, random_network())
        return path
    write_archive(path, fitted().archive())
    return path


def policy() -> TrainedPolicy:
    """Return a policy that knows the run times of past jobs."""
    past = generate(1, n_jobs=200)
    return replace(UNTRAINED, history=RunTimes().fit(past), trained={"nodes": 5})


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
