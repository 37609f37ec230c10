"""The first hours: what a model that has learnt little, or from short waits alone, says first and how much wider."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from serve_cases import make_log, make_place, quick_model

from procure.queue_time.calibrate import GRID
from procure.queue_time.predict import Request
from procure.queue_time.store import SiteModel
from procure.serve.engine import Snapshot
from procure.serve.keeper import Keeper
from procure.serve.store import Store
from procure.serve.young import careful, pooled, young


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    return make_log()


@pytest.fixture(scope="module")
def site(log: pd.DataFrame) -> SiteModel:
    return quick_model(log, int(log["submit_time"].iloc[300]))


def queue(log: pd.DataFrame, now: int, ages: list[float]) -> pd.DataFrame:
    """Return what was known of a log at a moment, and jobs that wait since so many seconds before."""
    seen = log[log["submit_time"] < now - 40_000]
    rows = log.tail(len(ages)).assign(submit_time=[int(now - age) for age in ages], start_time=pd.NA, end_time=pd.NA)
    return pd.concat([seen, rows.astype(seen.dtypes)], ignore_index=True)


def test_waits_beyond_all_that_was_learnt_are_said(log: pd.DataFrame, site: SiteModel) -> None:
    """From five of them, and a twentieth of the waits of now, on; with what it learnt and how long they are."""
    longest, now = site.model.longest, int(log["submit_time"].iloc[300]) + 50_000
    table = queue(log, now, [2 * longest] * 5 + [10.0] * 20)
    found = young(site, table, now)
    assert found is not None and found.lately is not None and found.lately.max() > 4 * longest
    assert f"learnt from {site.about['trained_rows']} jobs" in found.text and "5 of the " in found.text
    few = young(site, queue(log, now, [2 * longest] * 4 + [10.0] * 20), now)
    assert few is not None and few.lately is None and "not been proven" in few.text
    proven = SiteModel(site.method, site.model, site.about | {"trained_rows": 1000}, site.history, site.trend)
    assert young(proven, queue(log, now, [10.0] * 20), now) is None
    assert young(proven, table, now).lately is not None


def test_what_is_said_then_is_wider(log: pd.DataFrame, site: SiteModel) -> None:
    """An answer and the forecast that is kept reach to the waits of now, and the answer says so first."""
    longest, now = site.model.longest, int(log["submit_time"].iloc[300]) + 50_000
    table = queue(log, now, [3 * longest] * 10)
    calm, surge = Snapshot(site, queue(log, now, [5.0] * 10), now), Snapshot(site, table, now)
    [before], [after] = (one.answer([Request(2, 3600, partition="long", user="ann")]) for one in (calm, surge))
    assert after.interval_90[1] > 3 * longest > before.interval_90[1]
    assert "waited longer" in after.caution[0] and "not been proven" in before.caution[0]
    curve = np.tile(np.linspace(0, longest, len(GRID)), (2, 1))
    kept = careful(site, table, np.array([now - 40_000, now]), curve)
    assert kept[1, -2] > 3 * longest > kept[0, -2]
    proven = SiteModel(site.method, site.model, site.about | {"trained_rows": 1000}, site.history, site.trend)
    assert careful(proven, queue(log, now, [5.0]), np.array([now, now]), curve) is curve


def test_half_of_what_is_pooled_is_the_waits_of_now() -> None:
    """Quantiles ascend; half of the weight lies at the waits of now."""
    found = pooled(np.tile(np.linspace(0.0, 10.0, len(GRID)), (3, 1)), np.full(7, 1000.0))
    assert (np.diff(found, axis=1) >= 0).all() and found.shape == (3, len(GRID))
    assert (found[:, GRID < 0.49] <= 10).all() and (found[:, GRID > 0.51] == 1000).all()


def test_a_young_model_learns_as_soon_as_a_tenth_more_is_known(
    log: pd.DataFrame, site: SiteModel, tmp_path: Path
) -> None:
    """It does not wait for the hour; one that has seen a thousand waits does."""
    place, store = make_place(tmp_path, log), Store(tmp_path / "a.sqlite", writer=True)
    keeper = Keeper(place, store, lambda code, text: None, wait=False)
    keeper.site, keeper.updated = site, int(log["start_time"].iloc[300])
    more = max(int(site.about["n_rows"]) // 10, 20)
    later = log[log["start_time"] > keeper.updated]
    store.put_jobs(later.head(more - 1))
    assert not keeper._hurries()
    store.put_jobs(later.head(more))
    assert keeper._hurries()
    keeper.site = SiteModel(site.method, site.model, site.about | {"n_rows": 1000}, site.history, site.trend)
    assert not keeper._hurries()
