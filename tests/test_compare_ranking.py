"""The multi-criteria ranking gives the published matrices and eigenvectors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from procure.comparison import PUBLISHED_WEIGHTS, rank

COLUMNS = ["makespan", "usage", "slowdown"]
ZEWURA = pd.DataFrame(
    [
        [14977165, 90.989, 493.1645],
        [15074443, 92.642, 261.7794],
        [15223893, 92.284, 257.016],
        [15372390, 92.749, 238.4517],
    ],
    index=["ConsBF", "DL", "BestGap", "Tabu"],
    columns=COLUMNS,
)
TABLE_III = [
    [1, 0.053464727, 0.146786008, 0.2],
    [18.7039206, 1, 13.99131226, 1.902052263],
    [6.812638428, 0.071472924, 1, 0.502942619],
    [5, 0.525747909, 1.988298389, 1],
]
LOMONOSOV = pd.DataFrame(
    [
        [107108258, 99.027, 69.33852],
        [107097817, 98.547, 151.0045],
        [107099792, 99.131, 186.2868],
        [107098164, 98.89, 76.40185],
        [107098060, 98.965, 88.26473],
        [107098124, 99.051, 90.6587],
    ],
    index=["SmallestJF", "EASY", "PBS", "DL", "BestGap", "Tabu"],
    columns=COLUMNS,
)
TABLE_V = [
    [1, 3.738761168, 2.570680305, 0.672726853, 0.714458873, 0.519489967],
    [0.267468275, 1, 0.547116287, 0.010761058, 0.007653458, 0.008980744],
    [0.389002086, 1.827764998, 1, 0.277450973, 0.212094044, 0.104856179],
    [1.486487414, 92.92766715, 3.604240378, 1, 1.140552745, 0.658719961],
    [1.399660691, 130.659892, 4.714889595, 0.876767869, 1, 0.229324149],
    [1.924964993, 111.3493506, 9.53687245, 1.51809579, 4.360639751, 1],
]
CASES = {
    "Table III": (ZEWURA, TABLE_III, [0.038, 0.9474, 0.1391, 0.2856], 4.3774),
    "Table V": (LOMONOSOV, TABLE_V, [0.1813, 0.0143, 0.0585, 0.4249, 0.4442, 0.7653], 7.6467),
}


@pytest.mark.parametrize("name", CASES)
def test_published_tables(name):
    """Ratios agree with the printed ones to 1e-6, the eigenvector to its four printed places."""
    criteria, ratios, vector, value = CASES[name]
    found = rank(criteria, PUBLISHED_WEIGHTS, {"usage"})
    np.testing.assert_allclose(found.ratios.to_numpy(), ratios, rtol=1e-6)
    # the eigenvector of the printed matrix, to 1e-6, and the printed eigenvector, to its places
    values, vectors = np.linalg.eig(np.array(ratios))
    exact = np.abs(vectors[:, np.argmax(values.real)].real)
    np.testing.assert_allclose(found.score, exact / np.linalg.norm(exact), atol=1e-6)
    np.testing.assert_allclose(found.score, vector, atol=5e-5)
    assert found.value == pytest.approx(value, abs=5e-5)


def test_printed_slowdown_of_conservative_backfilling_is_an_error():
    """With the 1493.1645 that Table II prints, Table III cannot be had."""
    printed = ZEWURA.copy()
    printed.loc["ConsBF", "slowdown"] = 1493.1645
    found = rank(printed, PUBLISHED_WEIGHTS, {"usage"})
    assert np.abs(found.ratios.to_numpy() - TABLE_III).max() > 1


def test_weights_are_the_row_sums_of_table_one():
    """Makespan 0.5, slowdown 1.5, usage 1."""
    assert PUBLISHED_WEIGHTS == {"makespan": 0.5, "slowdown": 1.5, "usage": 1.0}


def test_dominance_and_ties():
    """A policy that is nowhere worse comes first; equal policies score the same; nothing is infinite."""
    criteria = pd.DataFrame({"makespan": [1, 2, 2], "slowdown": [1, 3, 3], "usage": [9, 8, 8]}, index=list("abc"))
    found = rank(criteria, PUBLISHED_WEIGHTS, {"usage"})
    assert found.score.idxmax() == "a"
    assert found.score["b"] == pytest.approx(found.score["c"])
    assert np.isfinite(found.ratios.to_numpy()).all()
    same = rank(criteria.iloc[1:], PUBLISHED_WEIGHTS, {"usage"})
    assert same.score["b"] == pytest.approx(same.score["c"])
