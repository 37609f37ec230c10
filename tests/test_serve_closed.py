"""What is closed to jobs: drained nodes, reservations, limits of partitions; an answer knows of it."""

import json

import numpy as np
import pandas as pd
import pytest
from serve_cases import make_log, quick_model

from procure.queue_time.distribution import GRID
from procure.queue_time.predict import Request
from procure.serve.live import Snapshot
from procure.serve.slurm import Closed, read_closed
from procure.serve.store import forecasts

NOW = 1_700_000_000
NODE = "NodeName={} CPUTot=8 CoresPerSocket=1 Sockets=8 State={} Partitions={}  Reason=Not responding [root@1]\n"
PART = "PartitionName={} MaxTime={} Nodes={} State={} TotalNodes=3\n"
KEEPS = "ReservationName={} StartTime={} EndTime={} Nodes={} CoreCnt={} Flags={} Users={} Accounts=(null)\n"


def closed(*reservations: tuple, state: str = "UP") -> Closed:
    """Return four nodes of two partitions, c2 drained, and reservations of nodes from a time to a time after `NOW`."""
    nodes = "".join(
        NODE.format(name, shown, parts)
        for name, shown, parts in (
            ("c1", "MIXED", "cpu"),
            ("c2", "IDLE+DRAIN", "cpu"),
            ("c3", "IDLE+POWERED_DOWN", "cpu,all"),
            ("g1", "DOWN*", "all"),
        )
    )
    parts = PART.format("cpu", "04:00:00", "c[1-3]", state) + PART.format("all", "UNLIMITED", "c3,g1", "UP")
    kept = "".join(
        KEEPS.format(f"ann_{n}", NOW + begin, NOW + end, names, cores, flags, users)
        for n, (begin, end, names, cores, flags, users) in enumerate(reservations)
    )
    return read_closed(nodes, parts, kept or "No reservations in the system\n")


def ask(hours: float, nodes: int = 1, partition: str = "cpu", user: str = "ben") -> Request:
    return Request(nodes, int(3600 * hours), 0, 0, nodes, partition, user)


WHOLE = (1800, 9000, "c[1-3],g1", 32, "MAINT,SPEC_NODES", "root")


def test_what_scontrol_shows_is_counted() -> None:
    """Nodes that are down or drained are closed, one that sleeps is not; it survives as JSON."""
    found = closed(WHOLE)
    assert (found.parts["cpu"].n_nodes, found.parts["cpu"].n_closed, found.parts["cpu"].closed_cpus) == (3, 1, 8)
    assert (found.parts["all"].n_nodes, found.parts["all"].n_closed) == (2, 1)
    assert found.parts["cpu"].most_time == 14_400 and found.parts["all"].most_time == 0
    assert found.kept[0].nodes == {"cpu": 2, "all": 1}
    assert Closed.model_validate(json.loads(json.dumps(found.model_dump()))) == found
    assert read_closed("", "", "") == Closed()


@pytest.mark.parametrize(
    ("request_", "soonest"),
    [
        (ask(0.5), 0),  # it ends as the reservation begins
        (ask(0.6), 9000),
        (ask(0.6, user="root"), 0),  # its own
        (ask(0.6, partition="none"), 0),
        (ask(0.6, nodes=3), 0),  # too few nodes are up: nobody knows when
        (ask(0), 9000),  # no limit: the partition's
    ],
)
def test_a_job_that_would_run_into_a_reservation_starts_at_its_end(request_: Request, soonest: int) -> None:
    """By its limit, where the reservation leaves fewer nodes than it needs."""
    assert closed(WHOLE).first_start(request_, NOW) == soonest


def test_a_reservation_of_some_nodes_leaves_the_others() -> None:
    """A job of one node fits beside it, one of two waits; after one reservation comes the next."""
    one = (1800, 9000, "c1", 8, "", "ann")
    assert closed(one).first_start(ask(1), NOW) == 0
    assert closed(one).first_start(ask(1, nodes=2), NOW) == 9000
    assert closed(one, (10_000, 20_000, "c3", 8, "", "ann")).first_start(ask(1, nodes=2), NOW) == 20_000
    assert closed((-60, 9000, "c1,c3", 16, "", "ann")).first_start(ask(0.01), NOW) == 9000


def test_reservations_at_one_moment_add_up() -> None:
    """Each leaves a node of two; both together leave none until the first ends."""
    both = closed((-60, 9000, "c1", 8, "", "ann"), (-60, 20_000, "c3", 8, "", "ann"))
    assert both.first_start(ask(0.5), NOW) == 9000
    later = closed((-60, 3600, "c1", 8, "", "ann"), (7200, 9000, "c3", 8, "", "ann"))
    assert later.first_start(ask(4), NOW) == 3600  # no node is free for the whole of its run before


@pytest.mark.parametrize(
    "left_out", [(1800, 9000, "c[1-3]", 4, "", "ann"), (1800, 9000, "c[1-3]", 24, "TIME_FLOAT", "")]
)
def test_a_reservation_of_cores_or_one_that_moves_is_left_out(left_out: tuple) -> None:
    assert closed(left_out).kept == []


def test_cautions_say_what_is_closed_and_name_nobody() -> None:
    """Each in a sentence: a drained partition, a limit, too few nodes, a reservation, whose name is a user's."""
    found = " ".join(closed(WHOLE, state="DRAIN").cautions(ask(5, nodes=3), NOW, 60.0))
    assert "cpu starts no job now (drain)" in found and "at most 4 h" in found
    assert "1 of 3 nodes of cpu is down or drained" in found
    assert "keeps all 2 open nodes of cpu: jobs that would run into it wait there until its end" in found
    assert "in 30 min" in found and "ann" not in found and "root" not in found
    assert closed(WHOLE).cautions(ask(0.1), NOW, 60.0) == []
    assert closed(WHOLE).cautions(ask(0.1, partition="p"), NOW, 60.0) == []
    assert len(closed(WHOLE).cautions(ask(0.1), NOW, 7200.0)) == 1  # if it starts late it runs into it
    assert [text.split(" keeps ")[1][:30] for text in closed(WHOLE).notices(NOW, {"all"})] == [
        "all 2 open nodes of cpu: jobs "
    ]


def test_a_distribution_is_held_until_a_start_is_possible() -> None:
    """It ascends, no quantile lies before, and without a bound nothing changes."""
    curve = np.sort(np.random.default_rng(0).exponential(3000, (2, len(GRID))), axis=1)
    found = closed(WHOLE).held(curve, [(ask(0.5), NOW), (ask(0.6), NOW)])
    assert (found[0] == curve[0]).all()
    assert (np.diff(found, axis=1) >= 0).all() and (found[1] >= np.maximum(curve[1], 9000)).all()


def test_answers_forecasts_and_my_jobs_know_of_a_reservation() -> None:
    """What is said to who asks, what is kept of a job, and when a waiting job may start: not before its end."""
    log = make_log()
    now = int(log["submit_time"].iloc[400])
    site = quick_model(log, now)
    table = log[log["submit_time"] < now].copy()
    for name in ("start_time", "end_time"):
        table[name] = table[name].mask(table[name] >= now)
    table.loc[table.index[-1], ["start_time", "end_time", "user", "partition"]] = [pd.NA, pd.NA, "ann", "long"]
    nodes = NODE.format("n1", "IDLE", "long,unseen")
    end = 500_000
    kept = KEEPS.format("x", now + 60, now + end, "n1", 8, "MAINT", "root")
    found = read_closed(nodes, PART.format("long", "UNLIMITED", "n1", "UP"), kept)
    free, shut = (Snapshot(site, table, now, closed=one) for one in (Closed(), found))
    one = Request(2, 3600, 0, 0, 1, "long", "ann")
    [before], [after] = free.answer([one]), shut.answer([one])
    assert before["median_s"] < end - 1 < min(after["median_s"], after["interval_s"][0])
    assert list(after["chance"].values()) == [0.0] * 3
    assert [any("until its end" in text for text in answer["caution"]) for answer in (before, after)] == [False, True]
    mine, _ = shut.pending("ann")
    last = [job for job in mine if job["partition"] == "long"]
    assert last and all(min(*job["interval_s"], *job["interval_50_s"], job["median_s"]) > end - 1 for job in last)
    late = pd.Series([False], [len(table) - 1])
    said = forecasts(site, table.reset_index(drop=True), late, now, found)
    assert said["lower_90"].iloc[0] > end - 60 - 86_400 and said["chance_12h"].iloc[0] == 0
    assert [one["nodes_closed"] for one in shut.totals() if one["partition"] == "long"] == [0]
