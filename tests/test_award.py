"""The award matrix: points by the written rules, ends of weights against a scan, offers of vendors end to end."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import QUOTES, write_study
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.recommender.award import award, award_of, points_of, sensitivity, shares
from procure.recommender.recommendation import Recommendation
from procure.recommender.recommender import recommend
from procure.settings import validated
from procure.study import load_study
from procure.study.check import check_study
from procure.study.sections import Award
from procure.sweep import load_plan, run_sweep
from procure.workload.generate import generate

OFFERS = pd.DataFrame(
    {"price": [900_000.0, 960_000.0, 1_000_000.0], "waits": [3600.0, 1800.0, 1500.0], "support": [6.0, 9.0, 7.0]}
)
WEIGHTS = {"price": 40.0, "waits": 40.0, "support": 20.0}


def scored(**more: object) -> list[float]:
    rules = Award.model_validate({"weights": WEIGHTS, "points": {"support": {"A": 1}}} | more)
    return points_of(shares(OFFERS, rules), rules.weights).round(4).tolist()


def test_the_case_on_paper() -> None:
    assert scored() == [68.6667, 88.8333, 90.0]
    assert scored(rule="linear") == [52.0, 87.3333, 89.5556]
    assert scored(scale={"waits": {"full": "10min", "none": "70min"}}) == [58.6667, 82.1667, 80.0]


def at_weight(got: pd.DataFrame, weights: dict[str, float], name: str, weight: float) -> np.ndarray:
    """Score offers with one weight changed and the others in proportion, directly."""
    others = {one: value for one, value in weights.items() if one != name}
    total = sum(others.values())
    rest = {one: (100 - weight) * (value / total if total else 1 / len(others)) for one, value in others.items()}
    return points_of(got, {name: weight} | rest).to_numpy()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.floats(0, 1).map(lambda x: round(x, 3)), min_size=3, max_size=3), min_size=1, max_size=6),
    st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any),
)
def test_ends_of_weights_are_where_another_overtakes(rows: list[list[float]], parts: list[int]) -> None:
    """Within the ends nobody has more points than the winner; beyond an end the named offer has."""
    weights = {name: 100 * part / sum(parts) for name, part in zip("abc", parts, strict=True)}
    got = pd.DataFrame(rows, columns=list("abc"))
    winner = int(np.argmax(points_of(got, weights).to_numpy()))
    for row in sensitivity(got, weights, winner).itertuples():
        assert row.low - 1e-9 <= row.weight <= row.high + 1e-9
        for weight in np.linspace(row.low, row.high, 7):
            points = at_weight(got, weights, row.criterion, weight)
            assert points[winner] >= points.max() - 1e-6
        for end, who, way in ((row.low, row.below, -1), (row.high, row.above, 1)):
            beyond = end + way * 0.5
            if who >= 0 and 0 <= beyond <= 100:
                points = at_weight(got, weights, row.criterion, beyond)
                assert points[who] > points[winner]
            elif who < 0:
                assert end in (0.0, 100.0) or abs(end - 50 - way * 50) < 1e-6


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"weights": {"price": 40, "waits": 55}}, "weights: they add up to 95; they must add up to 100"),
        ({"weights": {"price": 40, "wait_s": 60}}, "weights.wait_s: is neither an objective nor among [award.points]"),
        ({"weights": {"rank": 100}}, "weights.rank: is neither an objective"),
        ({"weights": {"price": -10, "waits": 110}}, "weights.price: -10 was given"),
        ({"weights": {"price": 100}, "points": {"support": {"A": 1}}}, "points.support: has no weight"),
        ({"weights": {"support": 100}, "points": {"support": {"A": 11}}}, "points.support.A: 11 was given"),
        ({"weights": {"price": 100}, "scale": {"price": {"full": 9, "none": 5}}}, "none, 5, must be above full, 9"),
        ({"weights": {"price": 100}, "rule": "best"}, "rule: "),
    ],
)
def test_bad_rules_are_named_by_key(given_: dict, says: str) -> None:
    """A weight, a point or a rule that is wrong is one line that names it."""
    with pytest.raises(TableError) as error:
        validated(Award, given_, "award")
    assert says in str(error.value)


AWARD = "[award]\nweights = {{ price = 40, waits = 40, support = 20 }}\npoints = {{ support = {} }}"
MADE = "generate = { seed = 1, n_jobs = 100 }"


@pytest.fixture(scope="module")
def tender(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tender")
    quotes = pd.read_csv(QUOTES)
    quotes = quotes.assign(vendor=["Alder" if "1" in name or "4" in name else "Birch" for name in quotes["name"]])
    quotes.to_csv(folder / "quotes.csv", index=False)
    path = write_study(folder / "tender.toml", MADE, AWARD.format("{ Alder = 8, Birch = 6 }"), quotes="quotes.csv")
    run_sweep(load_plan(load_study(path)), "serial")
    return path


def test_offers_of_vendors_end_to_end(tender: Path) -> None:
    done = CliRunner().invoke(app, ["recommend", str(tender), "--format", "json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)[0]["award"]
    offers = document["offers"]
    assert {"Alder", "Birch"} >= {name for one in offers for name in one["offer"].split(" + ")}
    assert len({one["offer"] for one in offers}) == len(offers) > 1
    assert [one["points"] for one in offers] == sorted((one["points"] for one in offers), reverse=True)
    for one in offers:
        assert sum(one["points_by_criterion"].values()) == pytest.approx(one["points"], abs=1e-3)
        if one["offer"] in ("Alder", "Birch"):
            assert one["values"]["support"] == {"Alder": 8, "Birch": 6}[one["offer"]]
        else:
            assert 6 < one["values"]["support"] < 8
    cheapest = min(one["values"]["price"] for one in offers)
    assert all(one["points_by_criterion"]["price"] == pytest.approx(40 * cheapest / one["values"]["price"], abs=1e-3)
               for one in offers)  # fmt: skip
    assert [one["criterion"] for one in document["sensitivity"]] == ["price", "waits", "support"]


def test_a_panels_points_go_by_what_each_vendor_is_paid(tender: Path) -> None:
    """Of an offer of two vendors the points count by shares of the price after discounts."""
    path = tender.with_name("discount.toml")
    extra = '[[packages.discounts]]\nvendor = "Alder"\npercent = 50\n[[workloads]]'
    path.write_text(tender.read_text(encoding="utf-8").replace("[[workloads]]", extra, 1), encoding="utf-8")
    run_sweep(load_plan(load_study(path)), "serial")
    table = award(path).table
    quotes = pd.read_csv(tender.with_name("quotes.csv")).set_index("name")
    both = table[table["offer"].str.contains("+", regex=False)].iloc[0]
    paid = {"Alder": 0.0, "Birch": 0.0}
    for part in both["package_id"].split(","):
        name, count = part.split("=")
        one = quotes.loc[name]
        paid[one["vendor"]] += int(count) * one["price_usd"] * (0.5 if one["vendor"] == "Alder" else 1.0)
    assert both["support"] == pytest.approx((8 * paid["Alder"] + 6 * paid["Birch"]) / sum(paid.values()))


@pytest.mark.parametrize(("most", "left_out"), [(0, 1), (1, 2)])
def test_an_offer_that_leaves_out_what_another_holds_is_not_scored(tender: Path, monkeypatch, most, left_out) -> None:
    """Of the jobs that no package can hold offers leave out the same; what leaves out more is named."""
    done = recommend(tender, k=3, verify=False, resamples=0)
    lost = replace(done.case, left_out=np.full_like(done.case.left_out, left_out))
    monkeypatch.setattr(Recommendation, "case", property(lambda done: lost))
    monkeypatch.setattr("procure.recommender.award.left_out_by_all", lambda results: most)
    done = replace(done, ranking=done.ranking.assign(jobs_left_out=left_out))
    with pytest.raises(TableError, match=r"^award: no offer can be scored; not scored, .*Alder"):
        award_of(done)


def test_the_jobs_that_every_package_leaves_out_are_counted(tmp_path: Path) -> None:
    """One job of the log is larger than any package; all offers leave it out, and are scored."""
    jobs = generate(seed=1, n_jobs=100)
    jobs.loc[0, ["n_nodes", "cpus_per_node"]] = [1, 4096]
    jobs.to_parquet(tmp_path / "jobs.parquet")
    quotes = pd.read_csv(QUOTES)
    quotes.assign(vendor=["Alder"] * len(quotes)).to_csv(tmp_path / "quotes.csv", index=False)
    rules = AWARD.format("{ Alder = 8 }")
    path = write_study(tmp_path / "tender.toml", 'jobs = "jobs.parquet"', rules, quotes="quotes.csv")
    run_sweep(load_plan(load_study(path)), "serial")
    done = award(path, verify=False)
    assert done.table["offer"].tolist() == ["Alder"]
    assert "1 job that no package can hold: offers are scored on the others" in done.notes


def test_study_check_knows_the_vendors_of_a_panels_points(tender: Path) -> None:
    """Before a sweep of hours: a vendor that quotes nothing is an error by key, one without points is named."""
    path = tender.with_name("points.toml")
    write_study(path, MADE, AWARD.format("{ Alder = 8, Brich = 6 }"), quotes="quotes.csv")
    with pytest.raises(
        TableError, match=r"award\.points\.support\.Brich: no quote has this vendor; did you mean Birch"
    ):
        check_study(path)
    write_study(path, MADE, AWARD.format("{ Alder = 8 }"), quotes="quotes.csv")
    said = CliRunner().invoke(app, ["study", "check", str(path)])
    assert said.exit_code == 0 and "careful: award.points.support: Birch without points" in said.stderr


def test_what_is_not_simulated_is_not_scored(tender: Path) -> None:
    """An offer without results is simulated; where that is not wanted it is named, and an only offer wins nothing."""
    done = recommend(tender, k=1, verify=False, resamples=0)
    whole = award_of(done).table
    gone = whole["package_id"].iloc[1:]
    rows = done.ranking.loc[done.ranking["package_id"].isin(gone), "row"].to_numpy()
    for values in done.package_values.results.values():
        values[:, rows] = np.nan
    runs = done.results.results
    done = replace(done, results=replace(done.results, results=runs[~runs["package_id"].isin(gone)]))
    some = award_of(done)
    assert some.table["offer"].tolist() == whole["offer"].tolist()[:1]
    assert "they were not simulated" in some.notes[0]
    assert "is the only offer that is scored" in some.sentences()[0]
    pd.testing.assert_frame_equal(award_of(replace(done, verified=True)).table, whole)
