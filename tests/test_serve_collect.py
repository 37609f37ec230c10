"""The collector: what it sees it keeps once, forecasts before the start, and judges as `queue evaluate` does."""

import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from serve_cases import (
    EVERY,
    QUICK,
    SACCT,
    SQUEUE,
    hurried,
    keep_model,
    make_log,
    make_place,
    play,
    quick_model,
    replaying,
)

from procure.errors import TableError
from procure.queue_time.evaluation import brier, covered, evaluate
from procure.serve import slurm
from procure.serve.collector import Collector, lock
from procure.serve.live import Snapshot
from procure.serve.settings import Place, Service, Source, read_service
from procure.serve.store import JOB_COLUMNS, Store, record, track_record, warning


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    return make_log()


@pytest.fixture(scope="module")
def replayed(log: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return a service that has replayed the second half of the log."""
    place = make_place(tmp_path_factory.mktemp("replayed"))
    at = int(log["submit_time"].iloc[300])
    keep_model(place, quick_model(log, at))
    collector = replaying(place, log, at)
    play(collector)
    collector.close()
    return place


def test_every_job_of_a_replay_is_forecast_once_and_settled(replayed: Place, log: pd.DataFrame) -> None:
    """Each job submitted since the service began has one forecast, whose wait is the log's."""
    store = Store(replayed.database)
    began = store.fact("began")
    rows = store.rows("select job_id, submit_time, wait, source from forecasts order by submit_time, job_id")
    after = log[log["submit_time"] > began].sort_values(["submit_time", "job_id"])
    assert [row[0] for row in rows] == after["job_id"].to_list()
    assert [row[2] for row in rows] == (after["start_time"] - after["submit_time"]).to_list()
    assert {row[3] for row in rows} == {"poll", "late"}  # who starts between two looks is seen late


def test_the_record_is_what_the_metrics_say_of_the_same_rows(replayed: Place) -> None:
    """Coverage, error and Brier score of the page equal `procure.queue_time.evaluation` on the ledger's rows."""
    store = Store(replayed.database)
    [found] = record(store)
    rows = store.rows(
        "select wait, lower_90, upper_90, lower_50, upper_50, median, chance_4h from forecasts where source = 'poll'"
    )
    values = np.array(rows, dtype=float)
    wait = values[:, 0]
    assert found["n"] == len(values) > 100
    assert found["coverage_90"] == pytest.approx(covered(wait, values[:, 1:3]).mean())
    assert found["coverage_50"] == pytest.approx(covered(wait, values[:, 3:5]).mean())
    assert found["mae"] == pytest.approx(np.abs(wait - values[:, 5]).mean())
    assert found["brier_4h"] == pytest.approx(brier(values[:, 6], wait <= 14_400))
    assert found["mae_zero"] == pytest.approx(wait.mean())
    parts = record(store, by="partition")
    assert sum(part["n"] for part in parts) == found["n"]
    assert sum(day["n"] for day in record(store, by="day")) == found["n"]


@pytest.mark.slow
def test_coverage_is_that_of_queue_evaluate(replayed: Place, log: pd.DataFrame) -> None:
    """What was given out covers as `procure queue evaluate` says of the same rows, and is the same until they learn."""
    store = Store(replayed.database)
    cut = int(log["submit_time"].iloc[300])
    found = evaluate(log, ["chronological"], ["procure"], test_from=cut, settings=QUICK, every=EVERY)
    test, forecast = found.forecasts["chronological", "procure"]
    inside = pd.Series(covered(found.wait[test], forecast.interval), found.jobs["job_id"].to_numpy()[test])
    given = dict(store.rows("select job_id, wait >= lower_90 and wait <= upper_90 from forecasts"))
    mine = pd.Series(given)
    assert len(mine) > 200
    assert mine.mean() == pytest.approx(inside[mine.index].mean(), abs=0.02)
    theirs = pd.Series(forecast.point, found.jobs["job_id"].to_numpy()[test])
    query = "select job_id, median from forecasts where issued = (select min(issued) from forecasts)"
    first = pd.Series(dict(store.rows(query)))
    assert len(first) > 20
    np.testing.assert_allclose(np.log1p(first), np.log1p(theirs[first.index]), atol=1e-3)


def test_a_look_that_fails_is_followed_by_the_next(
    tmp_path: Path, log: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that nobody foresaw is said with its kind, and the collector goes on."""
    monkeypatch.setattr("procure.serve.collector.FEWEST", 10**9)  # no model is trained meanwhile
    collector = replaying(make_place(tmp_path), log, int(log["submit_time"].iloc[300]))
    hurried(collector)
    stop, looks, tick = threading.Event(), [], collector.tick

    def once() -> None:
        looks.append(collector.store.problems().get("look"))
        if len(looks) > 2:
            stop.set()
        return tick() if len(looks) > 1 else {}["ann"]

    collector.tick = once  # type: ignore[method-assign]
    collector.run(stop)
    assert looks[0] is None and "KeyError" in looks[1] and "ann" not in looks[1] and looks[2] is None
    collector.close()


def test_only_the_owner_reads_what_is_kept(replayed: Place) -> None:
    """The database, the model's queue and the lock are their owner's alone, and a model that was put there is."""
    lock(replayed).close()
    replayed.model.chmod(0o644)
    Collector(replayed).close()
    for path in (replayed.database, replayed.queue, replayed.lock, replayed.model):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_second_collector_is_refused(replayed: Place) -> None:
    held = lock(replayed)
    with pytest.raises(TableError, match="another collector"):
        lock(replayed, patience=0)
    held.close()
    lock(replayed, patience=0).close()


def test_a_folder_of_another_source_is_refused(tmp_path: Path) -> None:
    """Jobs of two clusters do not come into one database; the same source goes on."""
    for _ in range(2):
        Collector(make_place(tmp_path)).close()
    with pytest.raises(TableError, match="cluster other; use another folder"):
        Collector(make_place(tmp_path, cluster="other"))


@pytest.mark.slow
def test_a_collector_goes_on_where_it_was(replayed: Place, log: pd.DataFrame, tmp_path: Path) -> None:
    """Stopped between two looks and started again, it forecasts each job once and loses none."""
    place, at = make_place(tmp_path), int(log["submit_time"].iloc[300])
    keep_model(place, quick_model(log, at))
    collector = replaying(place, log, at)
    play(collector, 4)
    collector.lock.close()  # as a kill does: nothing is closed in order
    again = replaying(place, log, at + 4 * EVERY)
    play(again)
    keys = "select job_id, submit_time, wait from forecasts order by 1, 2"
    assert Store(place.database).rows(keys) == Store(replayed.database).rows(keys)
    again.close()


def jobs_of(*rows: tuple) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["job_id", "submit_time", "start_time", "end_time"])
    for name in ("start_time", "end_time"):
        frame[name] = pd.array(frame[name].to_list(), dtype="Int64")
    rest = {"user": "ann", "partition": "p", "requested_time": 60, "run_time": 0, "n_nodes": 1, "cpus_per_node": 1}
    rest |= {"mem_mb_per_node": 0, "gpus_per_node": 0, "state": ""}
    return frame.assign(**rest)[list(JOB_COLUMNS)]


def test_a_job_read_twice_is_one_job(tmp_path: Path) -> None:
    """Overlapping accounting, and a queue that knows less, neither doubles a job nor takes away what is known."""
    store = Store(tmp_path / "a.sqlite", writer=True)
    store.put_jobs(jobs_of(("1", 100, None, None)))
    store.put_jobs(jobs_of(("1", 100, 150, 300), ("2", 100, None, 120)))
    store.put_jobs(jobs_of(("1", 100, 150, None)))
    store.put_jobs(jobs_of(("1", 400, None, None)))  # requeued: another submission
    found = store.jobs("submit_time > ?", (0, 10))
    assert found[["job_id", "submit_time"]].to_numpy().tolist() == [["1", 100], ["2", 100], ["1", 400]]
    assert found["end_time"].to_list()[:2] == [300, 120]


def test_a_job_that_gave_up_is_no_wait_and_a_late_forecast_is_not_judged(tmp_path: Path) -> None:
    """One cancelled in the queue is settled without a wait; of five forecasts one counts for the coverage."""
    store = Store(tmp_path / "a.sqlite", writer=True)
    about = {"partition": "p", "issued": 101, "median": 10.0, "lower_50": 0.0, "upper_50": 20.0}
    about |= {"lower_90": 0.0, "upper_90": 60.0}
    keys = pd.DataFrame({"job_id": ["1", "2", "3", "4", "5"], "submit_time": 100}).assign(**about)
    store.put_forecasts(keys.assign(source=["poll"] * 3 + ["late", "poll"]))
    store.put_jobs(jobs_of(("1", 100, 150, None), ("2", 100, None, 120), ("3", 100, None, None), ("4", 100, 900, None)))
    assert store.settle() == 3
    waits = [(50, None), (None, 1), (None, None), (800, None), (None, None)]
    assert store.rows("select wait, gave_up from forecasts order by job_id") == waits
    assert track_record(store, 0, 0, ())["counts"] == {
        "given": 5,
        "judged": 1,
        "late": 1,
        "gave_up": 1,
        "open": 2,
    }
    assert record(store)[0]["coverage_90"] == 1.0


def test_a_week_below_80_percent_is_said(tmp_path: Path) -> None:
    """The warning comes below 80 % of at least 30 jobs of a week; who waits beyond an interval was missed by it."""
    store = Store(tmp_path / "a.sqlite", writer=True)
    put = "insert into forecasts (job_id, submit_time, source, lower_90, upper_90, wait) values (?, 1000, ?, 0, ?, ?)"

    def kept(n: int, inside: int) -> str | None:
        store.db.execute("delete from forecasts")
        store.db.executemany(put, [(str(row), "poll", 9, 5 if row < inside else 50) for row in range(n)])
        return warning(store, 2000)

    assert "78%" in str(kept(41, 32))
    assert (kept(40, 32), kept(29, 0), kept(40, 40)) == (None, None, None)
    store.db.executemany(put, [(f"waits {n}", "poll" if n < 60 else "late", 600, None) for n in range(90)])
    assert warning(store, 1600) is None
    assert "only 40%" in str(warning(store, 1601))


def test_what_waits_and_runs_is_shown_however_many_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of questions keeps every open job, older ones too, and the last of those that have ended."""
    monkeypatch.setattr("procure.serve.collector.MOST_TABLE", 3)
    monkeypatch.setattr("procure.serve.collector.LEAST_TABLE", 2)
    collector = Collector(make_place(tmp_path))
    at = collector.at
    collector.open = jobs_of(("waits", at - 900, None, None), ("runs", at - 800, at - 700, None))
    collector.store.put_jobs(jobs_of(*((str(n), at - 500 + n, at - 400, at - 300) for n in range(10))))
    collector.write(collector.table())
    assert pd.read_parquet(collector.place.queue)["job_id"].to_list() == ["waits", "runs", "7", "8", "9"]
    collector.close()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A Slurm of this process: what squeue and sacct know, at a clock that the test moves."""
    made = SimpleNamespace(now=1_700_000_000, queue=[], ended=[], asked=[], fails=lambda begin, end: False)
    made.sinfo, made.shown, made.commands = "cpu|up|4/4/0/8\n", {}, []
    made.before, made.is_down = "", False

    def run(command: list[str]) -> str:
        made.commands.append(command)
        if made.is_down:
            raise TableError("slurm_load: Unable to contact")
        if command[0] == "sinfo":
            return made.sinfo
        if command[0] == "scontrol":
            return made.shown.get(
                next(word for word in command[2:] if word in ("node", "partition", "reservation", "config")), ""
            )
        if command[0] == "squeue":
            return made.before + "".join(f"{line}\n" for line in [SQUEUE, *made.queue])
        when = (one.split("=")[1] for one in command if one.startswith(("--starttime", "--endtime")))
        begin, end = (int(time.mktime(time.strptime(one, "%Y-%m-%dT%H:%M:%S"))) for one in when)
        made.asked.append((begin, end))
        if made.fails(begin, end):
            raise TableError("sacct has not answered within 60 s")
        rows = [row for row, ended, seen in made.ended if begin <= ended <= end and seen <= made.now]
        return "".join(f"{row}\n" for row in [SACCT, *rows])

    monkeypatch.setattr("procure.serve.slurm.run_slurm", run)
    monkeypatch.setattr("procure.serve.slurm.clock.time", lambda: float(made.now))
    made.collector = Collector(Place(tmp_path, Service(source=Source(history_days=1))))
    yield made
    made.collector.close()


def ended(fake: SimpleNamespace, job: object, user: str, submit: int, start: int, end: int, **how: Any) -> None:
    """Put a job into the accounting of a fake Slurm, which shows it from ``seen`` on."""
    times, state = f"{submit}|{submit}|{start}|{end}", how.get("state", "COMPLETED")
    row = f"{job}|{user}|a|cpu|n|{times}|{state}|60|2|100M|cpu=2,mem=100M,node=1|cpu=2|1|c1|1|{max(end - start, 0)}"
    fake.ended.append((row, end, how.get("seen", 0)))


def test_slurm_away_is_a_gap_and_no_crash(fake: SimpleNamespace) -> None:
    """Looks that fail are said in a sentence, and mended; the jobs that ended meanwhile are read once it is back."""
    t0, collector = fake.now, fake.collector
    fake.queue = [f"7|ann|cpu|RUNNING|None|2|1|100M|N/A|1:00:00|{t0 - 50}|{t0 - 20}|1"]
    collector.tick()
    assert collector.store.rows("select job_id, start_time from jobs") == [("7", t0 - 20)]
    fake.is_down = True
    for _ in range(5):
        fake.now += 900
        collector.tick()
    assert {"model", "squeue", "sacct"} <= set(collector.store.problems())
    assert "Unable to contact" in " ".join(collector.store.problems().values())
    fake.is_down, fake.queue = False, []
    ended(fake, 7, "ann", t0 - 50, t0 - 20, fake.now - 1000)
    fake.now += 900
    collector.tick()
    assert collector.store.rows("select end_time from jobs") == [(fake.now - 1900,)]
    assert set(collector.store.problems()) == {"model"}
    [(begin, end)] = collector.store.rows("select begin, end from gaps")
    assert end - begin == 6 * 900


def test_slurm_is_asked_once_a_look(fake: SimpleNamespace) -> None:
    """One squeue a look, sacct once a minute with overlap, sinfo and each question to scontrol every five minutes."""
    for _ in range(10):
        fake.collector.tick()
        fake.now += 30
    asked = [command[0] for command in fake.commands]
    expected = {"squeue": 10, "sacct": 6, "sinfo": 1, "scontrol": 3}  # two days first
    assert {name: asked.count(name) for name in expected} == expected
    assert all("--duplicates" in one and "--state" in " ".join(one) for one in fake.commands if one[0] == "sacct")


def test_accounting_that_comes_hours_late_is_not_lost(fake: SimpleNamespace) -> None:
    """Jobs that slurmdbd hears of hours after their end are kept, whether or not they were seen in the queue."""
    t0 = fake.now
    fake.queue = [f"7|ann|cpu|RUNNING|None|2|1|100M|N/A|1:00:00|{t0 - 50}|{t0 - 20}|1"]
    fake.collector.tick()
    fake.queue = []
    ended(fake, 7, "ann", t0 - 50, t0 - 20, t0 + 600, seen=t0 + 20_000)
    ended(fake, 8, "ann", t0 + 10, t0 + 11, t0 + 610, seen=t0 + 20_000)
    for _ in range(30):
        fake.now += 900
        fake.collector.tick()
    rows = fake.collector.store.rows("select job_id, state, end_time from jobs order by job_id")
    assert rows == [("7", "COMPLETED", t0 + 600), ("8", "COMPLETED", t0 + 610)]


def test_a_long_history_is_read_in_parts_that_are_remembered(fake: SimpleNamespace) -> None:
    """A day at a time; after one that took too long the next look goes on there, with half as much."""
    fake.collector.accounted = fake.now - 10 * 86_400
    t0, day = fake.now, 86_400
    fake.fails = lambda begin, end: begin < t0 - 6 * day < end and end - begin > 0.8 * day
    fake.collector.tick()
    assert fake.collector.store.fact("accounted") == t0 - 7 * day
    assert "sacct" in fake.collector.store.problems()
    fake.now += 61
    first = len(fake.asked)
    fake.collector.tick()
    assert fake.collector.store.fact("accounted") == fake.now
    assert min(begin for begin, _ in fake.asked[first:]) == t0 - 7 * day - 1800
    assert max(end - begin for begin, end in fake.asked) <= day + 1801


def test_a_heterogeneous_job_is_one_job(fake: SimpleNamespace) -> None:
    """Its components in squeue are the one job that the accounting knows."""
    submit, start = fake.now - 50, fake.now - 20
    for part in (0, 1):
        fake.queue.append(f"12+{part}|ann|cpu|RUNNING|None|{2 + part}|1|100M|N/A|1:00:00|{submit}|{start + part}|1")
        ended(fake, f"12+{part}", "ann", submit, start + part, fake.now + 100)
    fake.collector.tick()
    job = "select job_id, n_nodes, cpus_per_node, start_time, end_time from jobs"
    assert fake.collector.store.rows(job) == [("12", 2, 3, start + 1, None)]
    fake.queue, fake.now = [], fake.now + 200
    fake.collector.tick()
    assert fake.collector.store.rows("select job_id, end_time from jobs") == [("12", fake.now - 100)]


def test_after_a_gap_no_job_that_came_in_it_is_judged(fake: SimpleNamespace, log: pd.DataFrame) -> None:
    """Those that still wait would be a choice of the long waits; those of the last two looks are judged."""
    collector = fake.collector
    collector.store.put_jobs(log)
    collector.trainer.site = quick_model(log, int(log["end_time"].max()) + 1)
    collector.tick()
    gap, fake.now = fake.now, fake.now + 18_000
    line = "{}|ben|long|{}|None|2|1|100M|N/A|10:00:00|{}|{}|1"
    fake.queue = [line.format(job, "RUNNING", gap + 300, gap + 330) for job in range(3)]
    fake.queue += [line.format(7, "PENDING", gap + 300, "N/A"), line.format(8, "PENDING", fake.now - 100, "N/A")]
    collector.tick()
    source_of = dict(collector.store.rows("select job_id, source from forecasts"))
    assert source_of == {"0": "late", "1": "late", "2": "late", "7": "late", "8": "poll"}


def test_another_cluster_is_named_to_every_command(fake: SimpleNamespace) -> None:
    """The cluster of config.toml is asked about everywhere; where it is this machine's, sacct alone is told so."""
    fake.collector.origin.source = Source(cluster="other")
    for name, told in (("lab", 5), ("other", 0)):
        fake.shown["config"] = f"Configuration data as of now\nClusterName             = {name}\n"
        fake.collector.origin.local, fake.collector.origin.counted_at = None, 0.0
        fake.commands.clear()
        fake.collector.origin.queue()
        assert sum("--clusters=other" in command for command in fake.commands) == told
    fake.queue = [f"7|ann|cpu|RUNNING|None|2|1|100M|N/A|1:00:00|{fake.now - 50}|{fake.now - 20}|1"]
    fake.before = "CLUSTER: other\n"  # as squeue begins then
    assert fake.collector.origin.queue().jobs["job_id"].to_list() == ["7"]


def test_clocks_that_differ_stop_nothing(fake: SimpleNamespace, log: pd.DataFrame) -> None:
    """A start before the submission counts as at once, a job of the future is left out; forecasts go on, it is said."""
    collector = fake.collector
    collector.store.put_jobs(log)
    collector.trainer.site = quick_model(log, int(log["end_time"].max()) + 1)
    t0 = fake.now
    ended(fake, 1, "ann", t0 - 500, t0 - 520, t0 - 300)
    ended(fake, 2, "ben", t0 - 500, t0 - 400, t0 - 450)
    ended(fake, 3, "cleo", t0 + 90_000, t0 + 90_010, t0 - 200)
    for _ in range(2):
        collector.tick()
        fake.now += 61
        fake.queue = [f"8|ben|long|PENDING|Priority|2|1|100M|N/A|1:00:00|{t0 + 10}|N/A|1"]
    rows = collector.store.rows(
        "select job_id, start_time, end_time from jobs where job_id in ('1', '2', '3') order by 1"
    )
    assert rows == [("1", t0 - 500, t0 - 300), ("2", t0 - 400, t0 - 400)]
    assert collector.store.rows("select source from forecasts where job_id = 8") == [("poll",)]
    problems = collector.store.problems()
    assert "synchronise" in problems["clocks"] and "look" not in problems
    Snapshot(collector.trainer.site, collector.table(), fake.now)


def test_a_clock_that_is_put_right_stops_nothing(fake: SimpleNamespace, log: pd.DataFrame) -> None:
    """Two days ahead, then right again, while it runs or at a restart: all is asked and learnt within its interval."""
    collector = fake.collector
    collector.store.put_jobs(log)
    collector.trainer.site = quick_model(log, int(log["end_time"].max()) + 1)
    right, fake.now = fake.now, fake.now + 2 * 86_400
    collector.tick()
    fake.now = right + 300
    ended(fake, 1, "ann", right - 100, right, right + 200)
    for again in (collector, None):
        fake.commands.clear()
        if again is None:
            collector.store.remember(accounted=right + 2 * 86_400)
            collector.close()
            fake.collector = again = Collector(collector.place)
        again.tick()
        assert {command[0] for command in fake.commands} == {"squeue", "sacct", "sinfo", "scontrol"}
        assert (again.accounted, again.tidied) == (fake.now, fake.now)
        assert again.store.rows("select end_time from jobs where job_id = 1") == [(right + 200,)]
    assert collector.trainer.updated == fake.now and again.store.fact("began") <= fake.now
    fake.now += 30
    fake.queue.append(f"9|ben|long|PENDING|Priority|2|1|100M|N/A|1:00:00|{fake.now - 10}|N/A|1")
    again.tick()
    assert again.store.rows("select source from forecasts where job_id = 9") == [("poll",)]


def test_a_queue_that_is_hidden_is_said(fake: SimpleNamespace) -> None:
    """CPUs are allocated and no job is shown: twice, since a job may end between two commands."""
    said = []
    for sinfo, queue in (("4/4/0/8", 0), ("4/4/0/8", 0), ("4/4/0/8", 1), ("0/8/0/8", 0)):
        line = f"7|ann|cpu|RUNNING|None|2|1|100M|N/A|1:00:00|{fake.now - 50}|{fake.now - 20}|1"
        fake.sinfo, fake.queue = f"cpu|up|{sinfo}\n", [line] * queue
        fake.collector.tick()
        said.append("unseen" in fake.collector.store.problems())
        fake.now += 301
    assert said == [False, True, False, False]


def test_a_line_that_cannot_be_read_costs_that_line_alone(fake: SimpleNamespace) -> None:
    """A requeued job without a start, memory without end and such an array leave the others; they are counted."""
    line = "{}|ann|cpu|{}|None|2|1|100M|N/A|1:00:00|{}|{}|1"
    fake.queue = [line.format(job, "RUNNING", fake.now - 50, fake.now - 20) for job in range(40)]
    fake.queue.insert(7, line.format(100, "COMPLETING", fake.now - 50, "N/A"))
    fake.queue.insert(9, line.format(101, "RUNNING", fake.now - 50, fake.now - 20).replace("100M", "99999999999T"))
    fake.queue.append(line.format("9_[5,10-1000000:2%7]", "PENDING", fake.now - 50, "N/A"))
    fake.queue.append(line.format("10_[0-99999]", "PENDING", fake.now - 50, "N/A"))
    fake.collector.tick()
    names = fake.collector.open["job_id"].to_list()
    assert names[:40] == [str(job) for job in range(40)] and names[40:43] == ["9_5", "9_10", "9_12"]
    assert len([name for name in names if name.startswith("10_")]) == 2000
    problems = fake.collector.store.problems()
    assert "left out: 2, such as" in problems["lines"] and "squeue" not in problems


def test_the_run_of_a_requeued_job_has_an_end(fake: SimpleNamespace) -> None:
    """The accounting is asked for requeued runs too, and lists of tasks are asked for whole."""
    assert "RQ" in slurm.ENDED.split(",")
    t0 = fake.now
    fake.queue = [f"20|ann|cpu|RUNNING|None|2|1|100M|N/A|1:00:00|{t0 - 50}|{t0 - 20}|1"]
    fake.collector.tick()
    ended(fake, 20, "ann", t0 - 50, t0 - 20, t0 + 30, state="REQUEUED")
    fake.queue, fake.now = [f"20|ann|cpu|PENDING|BeginTime|2|1|100M|N/A|1:00:00|{t0 + 30}|N/A|1"], t0 + 70
    fake.collector.tick()
    assert fake.collector.store.rows("select state, end_time from jobs") == [("REQUEUED", t0 + 30)]


def test_a_full_disk_is_said_and_the_rest_goes_on(
    tmp_path: Path, log: pd.DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    """A database that may not grow is one sentence in the log; each look is made all the same, and kept once it may."""
    collector = replaying(make_place(tmp_path), log, int(log["submit_time"].iloc[300]))
    hurried(collector)
    [(size,)] = collector.store.rows("pragma page_count")
    collector.store.db.execute(f"pragma max_page_count = {size}")
    stop, looks, tick = threading.Event(), [], collector.tick

    def counted() -> None:
        looks.append(collector.store.rows("select count(*) from jobs")[0][0])
        if len(looks) == 4:
            collector.store.db.execute(f"pragma max_page_count = {2**30}")
        if len(looks) == 6:
            stop.set()
        collector.origin.moment += 7200
        tick()

    collector.tick = counted  # type: ignore[method-assign]
    collector.run(stop)
    assert looks[3] < looks[5]
    assert caplog.text.count("disk is full") == 1
    assert "disk" not in set(collector.store.problems())
    collector.close()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("[source]\nevery = 10", "at most every 30 s"),
        ('[source]\nkind = "replay"', "removed"),
        ('[source]\ndumps = "none"', "no such folder"),
        ('[http]\nlisten = "0.0.0.0:80"', "listen"),
        ('[http]\nproxy_user = "no-such-account-here"', "there is no account"),
        ('[http]\nsockt = "x"', "unknown key"),
        ("[http]\nrate = 250.0", "removed"),
    ],
)
def test_wrong_settings_are_a_sentence(tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "config.toml").write_text(lines)
    with pytest.raises(TableError, match=said):
        read_service(tmp_path / "config.toml")
