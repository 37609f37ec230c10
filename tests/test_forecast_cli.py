"""Patterns of `procure forecast`: what users type, and what they are told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.forecast import PatternSettings
from procure.forecast.confidence import MODES
from procure.forecast.forecasts import evaluate
from procure.schemas import JOB
from procure.tables import check, read

RUN = CliRunner()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    path = tmp_path_factory.mktemp("forecast") / "jobs.parquet"
    habits(days=20).to_parquet(path)
    return str(path)


def test_what_is_expected_is_a_job_table(jobs):
    moment = MONDAY + 15 * 86_400
    table = check(procure.forecast_jobs(read(jobs, JOB), 2, at=moment, confidence="hazard").table, JOB)
    assert len(table) and table["submit_time"].between(moment, moment + 2 * 86_400).all()
    assert {"confidence", "every", "burst"} <= set(table)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("evaluate", "--set", 'by=["usr"]'), 2, "'usr' is not known; did you mean"),
        (("evaluate", "--set", "tz=Europe/Bonn"), 2, "unknown time zone"),
        (("evaluate", "--set", "zone=UTC"), 2, "zone: unknown key"),
        (("evaluate", "--report", "f.html"), 2, "--format json"),
        (("next", "--days", "1"), 2, "forecast_jobs"),
    ],
)
def test_bad_input_is_one_error(jobs, arguments, code, message):
    """What cannot be is said once, with what is allowed, and nothing is written."""
    command, *rest = arguments
    found = RUN.invoke(app, ["forecast", command, jobs, *rest])
    assert found.exit_code == code
    said = " ".join((found.output + str(found.exception or "")).replace("│", " ").split())
    assert message in said


def test_log_without_dates(tmp_path):
    """Seconds of the log's own clock have no zone; without one they are used, and that is said."""
    path = tmp_path / "jobs.csv"
    frame = habits(days=10)
    pd.DataFrame(frame).assign(submit_time=frame["submit_time"] - MONDAY).to_csv(path, index=False)
    assert RUN.invoke(app, ["forecast", "evaluate", str(path), "--set", "tz=UTC"]).exit_code == 2
    found = RUN.invoke(app, ["forecast", "evaluate", str(path)])
    assert found.exit_code == 0 and "no dates" in found.stderr


def test_days_follow_the_clock_of_the_zone(tmp_path):
    """What comes at nine on a zone's clock is one pattern through a clock change, and expected at nine after it."""
    nine = pd.date_range("2026-03-23 09:00", periods=9, freq="D", tz="Europe/Berlin")
    six = pd.date_range("2026-03-23 06:30", periods=9, freq="D", tz="UTC")
    path = tmp_path / "jobs.csv"
    rows = [(int(day.timestamp()), user) for days, user in ((nine, "a"), (six, "b")) for day in days]
    frame = pd.DataFrame(sorted(rows), columns=["submit_time", "user"])
    frame.assign(job_id=range(18), run_time=60, cpus_per_node=1, requested_time=600).to_csv(path, index=False)

    table = read(path, JOB)

    def expected(zone):
        found = procure.forecast_jobs(
            table, 1, at=1774699200, confidence="hazard", least=0, settings=PatternSettings(tz=zone)
        )
        return {row.user: pd.Timestamp(row.submit_time, unit="s").strftime("%H:%M") for row in found.table.itertuples()}

    assert expected("Europe/Berlin") == {"a": "07:00", "b": "05:30"}
    assert expected(None) == {"a": "08:00", "b": "06:30"}
    listed = procure.find_patterns(table, PatternSettings(tz="Europe/Berlin")).table(3)
    assert {row.user: row.at for row in listed.itertuples() if row.every == "day"} == {"a": "09:00", "b": "08:30"}


DAY, HOUR = 86_400, 3600
MONDAY = 1_767_571_200  # 2026-01-05 00:00 UTC


def job_table(submit, user="a", cpus=1, run=600, limit=3600):
    n = len(submit)
    frame = {"job_id": [f"j{i}" for i in range(n)], "user": user, "submit_time": submit, "run_time": run}
    return check(pd.DataFrame(frame | {"cpus_per_node": cpus, "requested_time": limit}), JOB)


def habits(seed=0, days=40, n_users=12):
    """Users of whom each comes every day about one time, with a chance of his own, in bursts of one to three jobs."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(n_users):
        often, hour = rng.choice([0.15, 0.9]), rng.uniform(0, 24)
        for day in range(days):
            if rng.random() < often:
                begin = MONDAY + day * DAY + hour * HOUR + rng.normal(0, 1500)
                rows += [(int(begin) + 60 * k, f"u{user}") for k in range(rng.integers(1, 4))]
    rows.sort()
    return job_table([row[0] for row in rows], user=[row[1] for row in rows])


def test_forecasts_that_all_failed_are_judged_without_a_ranking():
    """Where no forecast came true, base rate and Brier score are there, the AUC is not, and a note says why."""
    jobs = job_table([MONDAY + DAY * day for day in range(10)], user=[f"u{day}" for day in range(10)])
    found = evaluate(jobs)
    rows = found.table[found.table["period"] == "day"]
    assert rows["confidence"].tolist() == list(MODES) and (rows["n_forecasts"] > 0).all()
    assert (rows["base_rate"] == 0.0).all() and rows["auc"].isna().all() and rows["brier"].notna().all()
    assert any("there is nothing to rank" in note for note in found.notes)
