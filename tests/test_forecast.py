"""Forecasts: the policy `forecast`, EASY around nodes held for expected jobs, and what users of forecasts are told."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from naive_forecast import HeldNodes, HeldPool
from policy_cases import as_dicts, few, found, job_table, node_table, pool_case, shared_case
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.errors import TableError
from procure.forecast import PatternSettings, reservations
from procure.forecast.confidence import MODES, confidence_of
from procure.forecast.forecasts import evaluate
from procure.forecast.policies import Forecast
from procure.forecast.reservations import lay_out
from procure.policies import catalog
from procure.policies.easy import Easy
from procure.run import simulate
from procure.schemas import JOB
from procure.simulator.state import FAR
from procure.tables import check, read

DAY, HOUR = 86_400, 3600

pytestmark = pytest.mark.plain


def starts(jobs, nodes, policy):
    first = jobs["submit_time"].min()
    return (simulate(jobs, nodes, policy).schedule["start_time"] - first).tolist()


@pytest.mark.parametrize("case", [pool_case, shared_case])
def test_without_forecasts_it_is_easy(case):
    """Where nothing is expected, jobs start when and where they do under EASY."""
    for seed in range(few(12)):
        jobs, nodes = case(np.random.default_rng(seed))
        ours, easy = (simulate(jobs, nodes, name).schedule for name in ("forecast:confidence=hazard", "easy"))
        pd.testing.assert_frame_equal(ours, easy)


def nightly(n_days=9, come=True):
    """On three nodes a short job at noon every day, which waits; on the last day a long one would be in its way.

    What else has run shows that a wait costs long jobs little.
    """
    last = (n_days - 1) * DAY
    rows = [(k * HOUR, "w", HOUR, 1) for k in range(8)]  # before the first noon
    rows += [(day * DAY + 11 * HOUR, "z", 4 * HOUR, 3) for day in range(n_days - 1)]  # everything until 15:00
    rows += [(day * DAY + 12 * HOUR, "n", 10, 2) for day in range(n_days - 1 + come)]
    rows += [(day * DAY + 20 * HOUR, "x", 6 * HOUR, 2) for day in range(n_days - 1)]
    rows += [
        (last + 7 * HOUR, "w", 14 * HOUR, 1),
        (last + 8 * HOUR, "z", 4 * HOUR, 3),
        (last + 9 * HOUR, "x", 6 * HOUR, 2),
    ]
    rows.sort()
    submit, user, run, width = map(list, zip(*rows, strict=True))
    jobs = job_table(submit_time=submit, user=user, run_time=run, requested_time=run, n_nodes=width)
    return jobs, node_table(3)


def last_starts(jobs, nodes, policy):
    """Hours after the last midnight at which the last of each user started."""
    schedule = simulate(jobs, nodes, policy).schedule
    hours = (schedule["start_time"] - jobs["submit_time"].min() - 8 * DAY) / HOUR
    return dict(zip(jobs["user"], hours, strict=True))


def test_expected_job_finds_its_nodes():
    """A long job that would overtake the first one does not in the expected one's way, which starts at once."""
    jobs, nodes = nightly()
    assert last_starts(jobs, nodes, "easy") == {"w": 7, "x": 9, "n": 15, "z": 21}
    found = last_starts(jobs, nodes, "forecast:confidence=hazard,a=0,b=0")
    assert found["n"] == 12
    assert found["x"] >= 12
    assert found["z"] == 21  # the first one is not delayed


def test_first_job_is_never_held_up():
    """Whatever is expected, the first waiting job starts as soon as there is room for it."""
    jobs, nodes = nightly()
    jobs = jobs[(jobs["user"] != "z") | (jobs["submit_time"] < jobs["submit_time"].min() + 8 * DAY)]
    jobs = jobs.reset_index(drop=True)
    assert last_starts(jobs, nodes, "forecast:confidence=hazard,a=0,b=0")["x"] == 9


def test_nodes_are_released_when_nobody_comes():
    """Held nodes are given up at the expected time plus the tolerance, though nothing else happens then."""
    jobs, nodes = nightly(come=False)
    policy = "forecast:confidence=hazard,a=0,b=0,tolerance=3600"
    assert last_starts(jobs, nodes, policy)["x"] == pytest.approx(13 + 1 / HOUR)


def noon(n_days=8):
    """One job at noon every day, which another keeps waiting, and on the last day a long one shortly before it."""
    rows = [(day * DAY, "n", HOUR) for day in range(n_days)]
    rows += [(day * DAY - HOUR, "z", 2 * HOUR) for day in range(n_days - 1)]
    rows.append(((n_days - 1) * DAY - 3 * HOUR, "x", 6 * HOUR))
    submit, user, run = map(list, zip(*sorted(rows), strict=True))
    return job_table(submit_time=np.array(submit) + DAY, user=user, run_time=run, requested_time=run)


def test_middle_band_only_moves_jobs_elsewhere():
    """In the middle band a job takes other nodes if any will do, and starts no later."""
    jobs = noon()
    jobs["cpus_per_node"] = np.where(jobs["user"] == "x", 2, 4)
    nodes = node_table(2, cpus=[4, 4])
    soft = "forecast:confidence=hazard,a=0,b=1,eta=0"
    assert starts(jobs, nodes, soft) == starts(jobs, nodes, "easy")
    unlike = node_table(2, cpus=[2, 4])  # the wide job fits on the second only
    fits_both = jobs.assign(cpus_per_node=np.where(jobs["user"] == "x", 1, 4))
    where = simulate(fits_both, unlike.iloc[::-1].reset_index(drop=True), soft).schedule["node_ids"]
    assert where.iloc[-2] == "n0"  # by row it would have been n1
    assert simulate(fits_both, unlike.iloc[::-1].reset_index(drop=True), "easy").schedule["node_ids"].iloc[-2] == "n1"


def dealt(patterns, forecasts, mode):
    """Deal the confidences out anew, so that any may stand beside any."""
    return np.random.default_rng(0).permutation(confidence_of(patterns, forecasts, mode))


class Composed(Forecast, Easy):
    """The policy `forecast`, as the catalog composes it."""

    hold: str = "forecast"


class Watched(Composed):
    """The same policy, which keeps what it lays out."""

    kept: ClassVar[list] = []

    def make_with(self, state, facts):
        self.kept.append(lay_out(state, self.confidence, self.tolerance))
        return super().make_with(state, facts)


def forecast_rows(e):
    names = ("issued", "moment", "tolerance", "sure", "came", "key", "job", "copies")
    columns = zip(*(getattr(e, name).tolist() for name in names), strict=True)
    rows = [dict(zip(names, values, strict=True)) for values in columns]
    return [row | {"came": None if row["came"] == FAR else row["came"]} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("dealt_out", [False, True], ids=["learnt", "dealt out anew"])
def test_pool_equals_its_twin(dealt_out, monkeypatch):
    """Starts are those of the slow twin, second for second, whatever was expected."""
    changed = 0
    if dealt_out:
        monkeypatch.setattr(reservations, "confidence_of", dealt)
    for seed in range(10):
        jobs, n_nodes = habitual(seed)
        watched = Watched(confidence="hazard", a=0.1, b=0.3)
        found = starts(jobs, node_table(n_nodes), watched)
        e = Watched.kept[-1]
        submit = (jobs["submit_time"] - jobs["submit_time"].min()).tolist()
        columns = (
            submit,
            *(jobs[name].tolist() for name in ("run_time", "requested_time", "n_nodes")),
            e.key_of.tolist(),
        )
        names = ("submit", "run", "est", "n", "key")
        plain = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        assert found == HeldPool(plain, forecast_rows(e), n_nodes, 0.1, 0.3, 0.02).simulate()
        changed += found != starts(jobs, node_table(n_nodes), "easy")
    assert changed  # what was expected mattered


@pytest.mark.slow
@pytest.mark.parametrize("dealt_out", [False, True], ids=["learnt", "dealt out anew"])
def test_shared_nodes_equal_their_twin(dealt_out, monkeypatch):
    """On shared nodes of several kinds starts and nodes are those of the slow twin, whatever was expected."""
    n_unlike_easy = n_kept_clear = 0
    if dealt_out:
        monkeypatch.setattr(reservations, "confidence_of", dealt)
    for seed in range(10):
        jobs, nodes = shared_habits(seed)
        easy = found(simulate(jobs, nodes, "easy"), jobs)
        for a, b in ((0.1, 0.3), (0, 1)):  # in the second nothing is held, and jobs keep clear
            watched = Watched(confidence="hazard", a=a, b=b)
            schedule = simulate(jobs, nodes, watched)
            e = Watched.kept[-1]
            rows, servers = as_dicts(jobs, nodes, True)
            plain = [row | {"key": key} for row, key in zip(rows, e.key_of.tolist(), strict=True)]
            twin = HeldNodes(plain, servers, forecast_rows(e), a, b, 0.02)
            start = twin.simulate()
            where = [tuple(f"n{n}" for n in nodes_of) for nodes_of in twin.where]
            assert found(schedule, jobs) == (start, where), seed
            if b < 1:
                n_unlike_easy += easy[0] != start
            else:
                n_kept_clear += easy != (start, where)
    assert n_unlike_easy  # what was expected mattered
    assert n_kept_clear or dealt_out  # so did keeping clear


def shared_habits(seed):
    jobs, n_nodes = habitual(seed, days=7)
    rng = np.random.default_rng(seed)
    shape = jobs["user"].str[1:].astype(int).to_numpy() % 4
    jobs = jobs.assign(
        n_nodes=np.minimum(jobs["n_nodes"], 2), cpus_per_node=rng.integers(1, 4, 4)[shape],
        mem_mb_per_node=rng.choice([0, 300], 4)[shape], gpus_per_node=rng.choice([0, 0, 1], 4)[shape],
        gpu_type=rng.choice(["", "a100"], 4)[shape],
    )  # fmt: skip
    return jobs, node_table(
        n_nodes, cpus=[3, 5, 4, 3], mem_mb=[600, 1000, 600, 1000], gpus=[2, 2, 1, 0], gpu_type=["a100", "a100", "", ""]
    )


def habitual(seed, days=9):
    """Users with habits; half of them with jobs that end at once, the others with long ones in their way."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(6):
        hour, often = rng.uniform(8, 14), rng.choice([0.8, 1.0])
        limit, width = int(rng.choice([2, 6, 12])) * HOUR, int(rng.integers(1, 4))
        for day in range(days):
            if rng.random() < often:
                begin = int(day * DAY + hour * HOUR + rng.normal(0, 1500) + DAY)
                for k in range(int(rng.integers(1, 3))):
                    run = int(rng.integers(1, 30)) if user % 2 else int(limit * rng.uniform(0.3, 1))
                    rows.append((begin + 60 * k, f"u{user}", limit, width, run))
    rows.sort()
    submit, user, limit, width, run = map(list, zip(*rows, strict=True))
    return job_table(submit_time=submit, user=user, requested_time=limit, n_nodes=width, run_time=run), 4


def test_future_rows_change_no_forecast():
    """What is known of a run's first half is the same whether the second half is in the workload or not."""
    jobs, n_nodes = habitual(1, days=12)
    cut = int(jobs["submit_time"].iloc[0]) + 6 * DAY
    long, short = (
        {
            (row[0], row[1], row[2]): row[3]
            for row in zip(*(getattr(e, name).tolist() for name in ("issued", "moment", "job", "sure")), strict=True)
        }
        for e in (_laid_out(jobs, n_nodes), _laid_out(jobs[jobs["submit_time"] <= cut], n_nodes))
    )
    assert short and all(long[key] == sure for key, sure in short.items())


def _laid_out(jobs, n_nodes):
    simulate(jobs.reset_index(drop=True), node_table(n_nodes), Watched(confidence="hazard"))
    return Watched.kept[-1]


def test_bad_parameters_are_one_error():
    """Bands out of order and unknown modes are refused with what is allowed."""
    with pytest.raises(TableError, match=r"a is at most b; a=0\.5 and b=0\.2 were given"):
        catalog.spec("forecast:a=0.5,b=0.2")
    with pytest.raises(TableError, match=r"'pfd' is not known; did you mean"):
        catalog.spec("forecast:confidence=pfd")
    with pytest.raises(TableError, match="counted from the first"):
        catalog.spec("forecast:tz=Europe/Prague")
    with pytest.raises(TableError, match="b: '2' was given; at most 1"):
        catalog.spec("forecast:b=2")


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


MONDAY = 1_767_571_200  # 2026-01-05 00:00 UTC


def checked_jobs(submit, user="a", cpus=1, run=600, limit=3600):
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
    return checked_jobs([row[0] for row in rows], user=[row[1] for row in rows])


def test_forecasts_that_all_failed_are_judged_without_a_ranking():
    """Where no forecast came true, base rate and Brier score are there, the AUC is not, and a note says why."""
    jobs = checked_jobs([MONDAY + DAY * day for day in range(10)], user=[f"u{day}" for day in range(10)])
    found = evaluate(jobs)
    rows = found.table[found.table["period"] == "day"]
    assert rows["confidence"].tolist() == list(MODES) and (rows["n_forecasts"] > 0).all()
    assert (rows["base_rate"] == 0.0).all() and rows["auc"].isna().all() and rows["brier"].notna().all()
    assert any("there is nothing to rank" in note for note in found.notes)
