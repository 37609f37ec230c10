"""Parts of a workload, several as one, and what describes one."""

from __future__ import annotations

import pandas as pd
import pytest

from procure.errors import TableError
from procure.schemas import JOB
from procure.tables import check
from procure.workload import describe, import_log, merge, overview, slice_day, slice_times


def jobs(*submits, **columns):
    frame = pd.DataFrame({"job_id": [f"j{i}" for i in range(len(submits))], "submit_time": submits})
    defaults = {"run_time": 3600, "cpus_per_node": 2} | columns
    return check(frame.assign(**defaults), JOB)


MIDNIGHT = 1_620_104_400  # 2021-05-04 00:00 in Chicago
DST_DAY = 1_615_701_600  # 2021-03-14 00:00 in Chicago, a day of 23 hours


def test_a_day_is_local_and_half_open_and_keeps_row_order():
    table = jobs(MIDNIGHT + 86_400, MIDNIGHT + 86_399, MIDNIGHT, MIDNIGHT - 1)
    assert slice_day(table, "2021-05-04", "America/Chicago")["job_id"].tolist() == ["j1", "j2"]
    assert len(table) == 4


def test_a_day_on_which_clocks_change_has_its_own_length():
    table = jobs(DST_DAY + 23 * 3600 - 1, DST_DAY + 23 * 3600)
    assert slice_day(table, "2021-03-14", "America/Chicago")["job_id"].tolist() == ["j0"]


def test_a_day_without_jobs_says_what_the_workload_spans():
    with pytest.raises(TableError, match=r"no job was submitted on 2020-01-01.*2021-05-04 05:00:00 UTC"):
        slice_day(jobs(MIDNIGHT), "2020-01-01", "America/Chicago")


@pytest.mark.parametrize(("day", "tz"), [("4 May", "UTC"), ("2021-02-30", "UTC"), ("2021-05-04", "Chicago")])
def test_what_is_not_a_day_or_a_zone_is_refused(day, tz):
    with pytest.raises(TableError, match=r"is not a day|unknown time zone"):
        slice_day(jobs(MIDNIGHT), day, tz)


def test_a_log_without_unix_times_can_only_be_sliced_by_seconds():
    table = jobs(5, 10, 15)
    table.attrs["clock"] = "log"
    with pytest.raises(TableError, match="own clock"):
        slice_day(table, "2021-05-04")
    part = slice_times(table, 5, 15)
    assert part["submit_time"].tolist() == [5, 10]
    assert part.attrs["clock"] == "log"
    assert len(slice_times(table, start=10)) == len(slice_times(table, end=15)) == 2
    with pytest.raises(TableError, match="not after"):
        slice_times(table, 5, 5)


def test_merging_keeps_the_order_and_drops_repeated_jobs_only_on_request():
    first, second = jobs(10, 10, 30), jobs(10, 20)
    second["user"] = "late"
    assert merge([first, second])["submit_time"].tolist() == [10, 10, 30, 10, 20]
    assert merge([first, second], drop_repeated=True)["submit_time"].tolist() == [10, 10, 30, 20]
    again = jobs(10, 10)
    again["job_id"] = "same"
    assert len(merge([again, second], drop_repeated=True)) == 4
    log = second.copy()
    log.attrs["clock"] = "log"
    with pytest.raises(TableError, match="Unix times"):
        merge([first, log])
    with pytest.raises(TableError, match="at least one"):
        merge([])


def test_description_counts_whole_jobs_in_stated_units():
    table = jobs(0, 0, 50, n_nodes=[1, 1, 4], mem_mb_per_node=[1000, 2000, 3000], requested_time=7200)
    table["run_time"] = [0, 3600, 1800]
    table["user"] = ["a", "b", ""]
    found = describe(table).set_index("quantity")
    assert found.loc["requested_mem", ["mean", "min", "max"]].tolist() == [5, 1, 12]
    assert found.loc["requested_cpus", "max"] == 8
    assert found.loc["run_time", "std"] == pytest.approx(0.5)
    assert overview(table) == {
        "n_jobs": 3,
        "n_users": 2,
        "n_shapes": 3,
        "single_node_share": pytest.approx(2 / 3),
        "gpu_job_share": 0.0,
        "zero_run_share": pytest.approx(1 / 3),
        "same_second_share": pytest.approx(2 / 3),
        "first_submit": 0,
        "last_submit": 50,
        "span": 50,
        "offered_cpu_hours": pytest.approx(2 + 4),
        "offered_gpu_hours": 0.0,
        "clock": "unix",
    }


@pytest.mark.parametrize(
    ("month", "day", "count"), [("202104", "2021-05-04", 12_765), ("202103", "2021-03-16", 15_999)]
)
def test_two_days_of_beocat_have_their_known_number_of_jobs(shared_data, month, day, count):
    path = shared_data(f"beocat_2021/all_jobs_{month}.csv.xz")
    assert len(slice_day(import_log(path, "csv", "beocat").jobs, day, "US/Central")) == count
