"""Boosted trees as arrays give what XGBoost gives, and are walked safely."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.errors import TableError
from procure.files import check_booster
from procure.queue_time import forest
from procure.queue_time.booster import fit_chances
from procure.queue_time.forest import Booster, from_bytes, of_learner

SETTINGS = {"max_depth": 4, "eta": 0.3, "nthread": 1, "verbosity": 0, "min_child_weight": 1}


def fitted(kind: str, seed: int) -> tuple[xgboost.Booster, np.ndarray]:
    """Fit a small XGBoost booster of a kind; return it and rows with missing values."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(200, 5)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    target = np.nan_to_num(rows).sum(axis=1) ** 2
    chosen: dict[str, object] = {"objective": "reg:squarederror"}
    if kind == "quantiles":
        chosen = {"objective": "reg:quantileerror", "quantile_alpha": np.array([0.1, 0.5, 0.9])}
    elif kind == "chance":
        chosen, target = {"objective": "binary:logistic"}, target > 2
    elif kind == "median":
        chosen = {
            "objective": "reg:absoluteerror",
            "max_depth": 0,
            "max_leaves": 31,
            "grow_policy": "lossguide",
        }
    return xgboost.train(SETTINGS | chosen, xgboost.QuantileDMatrix(rows, target, nthread=1), 12), rows


def taken(one: xgboost.Booster) -> Booster:
    return of_learner(check_booster(bytes(one.save_raw(raw_format="ubj")), "x"))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["quantiles", "chance", "mean", "median"]), st.integers(0, 10_000))
def test_arrays_say_what_xgboost_says(kind: str, seed: int) -> None:
    """For every kind of booster, missing values included, a row alone or many, and after writing and reading."""
    one, rows = fitted(kind, seed)
    kept = from_bytes(taken(one).to_bytes(), "x")
    stated = one.inplace_predict(rows)
    np.testing.assert_allclose(kept.predict(rows), stated, rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(kept.predict(rows[:1]), kept.predict(rows)[:1])


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_chances_that_were_all_the_same_stay_finite(answer: float) -> None:
    """Where every job of a log met every deadline, what was learnt is written, read again, and all but certain."""
    rows = np.arange(80, dtype=np.float32).reshape(-1, 2)
    kept = from_bytes(fit_chances(rows, np.full(len(rows), answer), 3, seed=1).to_bytes(), "x")
    np.testing.assert_allclose(kept.predict(rows), answer, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["quantiles", "chance", "mean", "median"]), st.integers(0, 10_000))
def test_a_walk_ends_at_the_last_node_of_the_way(kind: str, seed: int) -> None:
    """The walk that leaves each tree as it arrives reaches the leaves of the one that keeps every step."""
    one, rows = fitted(kind, seed)
    kept, rows = taken(one), np.concatenate([rows, np.array([[np.inf, -np.inf, np.nan, 0, 0]], np.float32)])
    np.testing.assert_array_equal(kept._reached(rows), kept._leaves(rows)[-1])


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["chance", "mean", "median", "quantiles"]), st.integers(0, 10_000))
def test_many_values_of_the_last_column_are_read_off_the_masks(kind: str, seed: int) -> None:
    """Each row with each value says what the walk says of all these pairs, to the bit; so does a tree of one leaf."""
    one, rows = fitted(kind, seed)
    kept, last = taken(one), np.array([-np.inf, -1.0, 0.0, 0.3, 2.0, np.inf], np.float32)
    pairs = np.column_stack([np.repeat(rows[:, :-1], len(last), axis=0), np.tile(last, len(rows))])
    if kind != "quantiles":
        assert kept._masks is not None
        np.testing.assert_array_equal(kept.predict_each(rows[:, :-1], last).ravel(), kept.predict(pairs))
        stump = fit_chances(rows, np.ones(len(rows)), 3, seed=1)
        np.testing.assert_array_equal(stump.predict_each(rows[:, :-1], last).ravel(), stump.predict(pairs))
    else:
        assert kept._masks is None


def test_boosters_side_by_side_say_what_each_says() -> None:
    """One walk through the trees of several boosters gives each one's own predictions, to the bit."""
    fits = [fitted(kind, seed) for seed, kind in enumerate(("mean", "quantiles", "median"))]
    rows, kept = fits[0][1], [taken(one) for one, _ in fits]
    said = Booster.of_all(kept).predict(rows)
    own = [one.predict(rows).reshape(len(rows), -1) for one in kept]
    np.testing.assert_array_equal(said, np.concatenate(own, axis=1))
    np.testing.assert_array_equal(Booster.of_all(kept[:1]).predict(rows), kept[0].predict(rows))


def test_the_compiled_walk_adds_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows take the compiled walk, with the same bits as NumPy's."""
    one, rows = fitted("quantiles", 3)
    kept = taken(one)
    plain = kept.predict(rows)
    monkeypatch.setattr(forest, "_FEW", 0)
    np.testing.assert_array_equal(kept.predict(rows), plain)


def test_contributions_are_xgboosts_and_add_up() -> None:
    """Each feature's part is XGBoost's approximate one; together they lead from the mean to the sum."""
    one, rows = fitted("chance", 5)
    parts = taken(one).contributions(rows[:20])
    known = one.predict(xgboost.DMatrix(rows[:20], nthread=1), pred_contribs=True, approx_contribs=True)
    np.testing.assert_allclose(parts, known[:, :-1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("left", 0),
        ("left", 2**30),
        ("right", -1),
        ("feature", 5),
        ("value", np.nan),
        ("root", -1),
        ("output", 7),
    ],
)
def test_trees_that_lead_outside_are_refused(name: str, value: float) -> None:
    """A child before its parent would be walked for ever; a child, feature or output out of range crash."""
    whole = taken(fitted("quantiles", 1)[0])
    arrays = (whole.nodes | whole.trees)[name].copy()
    inner = np.flatnonzero(whole.nodes["left"] != np.arange(len(whole.nodes["left"])))
    arrays[inner[1] if name in whole.nodes else 1] = value
    part = whole.nodes if name in whole.nodes else whole.trees
    part[name] = arrays
    with pytest.raises(TableError, match="damaged"):
        from_bytes(whole.to_bytes(), "x")


@pytest.mark.parametrize(
    "change", [{"link": "exp"}, {"n_nodes": 10**9}, {"n_features": 0}, {"base": "x"}, {"base": []}]
)
def test_a_wrong_head_is_refused(change: dict[str, object]) -> None:
    """Counts that do not fit, an unknown link, no base."""
    line, _, rest = taken(fitted("mean", 1)[0]).to_bytes().partition(b"\n")
    with pytest.raises(TableError, match="damaged"):
        from_bytes(json.dumps(json.loads(line) | change).encode() + b"\n" + rest, "x")
