"""Which days of a log are chosen, by each rule, and what is written for a study."""

import json
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from test_workload_cli import procure  # noqa: F401

from procure.errors import TableError
from procure.schemas import JOB
from procure.study import load_study
from procure.sweep.choose_days import Probe
from procure.tables import check, read, write
from procure.workload import (
    day_table,
    describe,
    generate,
    import_log,
    merge,
    overview,
    slice_day,
    slice_times,
    split_days,
)
from procure.workload.parts import choose, local_days, without_quiet

MIDNIGHT = 1_620_104_400  # 2021-05-04 00:00 in Chicago
DAY = 86_400


def jobs(submits, **columns):
    frame = pd.DataFrame({"job_id": [f"j{i}" for i in range(len(submits))], "submit_time": submits})
    return check(frame.assign(**({"run_time": 3600, "cpus_per_node": 2} | columns)), JOB)


def table(days, **columns):
    return pd.DataFrame({"day": days} | columns)


def test_days_are_those_of_the_zone():
    """Midnight in Chicago begins the day there, and is still the same day in UTC."""
    log = jobs([MIDNIGHT - 1, MIDNIGHT, MIDNIGHT + DAY])
    assert local_days(log, "America/Chicago").tolist() == ["2021-05-03", "2021-05-04", "2021-05-05"]
    assert local_days(log, "UTC").tolist() == ["2021-05-04", "2021-05-04", "2021-05-05"]


def test_a_split_day_is_the_slice_of_that_day():
    """Cutting all days at once gives each as `slice_day` does, rows in their order, and nothing is lost."""
    rng = np.random.default_rng(1)
    log = jobs(1_615_500_000 + rng.integers(0, 6 * DAY, 300))  # with a day of 23 hours among them
    parts = split_days(log, "America/Chicago")
    assert list(parts) == sorted(parts)
    assert sum(map(len, parts.values())) == len(log)
    for day, part in parts.items():
        pd.testing.assert_frame_equal(part, slice_day(log, day, "America/Chicago"))


def test_times_beyond_the_calendar_have_no_days():
    """A time in milliseconds, or one before 1970, is one error and no year 10237."""
    for submit_time in (2**40 - 1, -1):
        with pytest.raises(TableError, match="are not days from 1970 to 9999"):
            local_days(generate(1, n_jobs=1).assign(submit_time=submit_time), "UTC")


def test_a_days_figures_by_hand():
    """Two jobs of 1 h and 3 h on 2 and 4 nodes' CPUs, the second with GPUs and an hour later."""
    log = jobs(
        [MIDNIGHT, MIDNIGHT + 3600], run_time=[3600, 10_800], cpus_per_node=[2, 1], n_nodes=[1, 4],
        mem_mb_per_node=[1_000, 500], gpus_per_node=[0, 1], user=["a", ""],
    )  # fmt: skip
    row = day_table(split_days(log, "America/Chicago")).iloc[0].to_dict()
    assert row == {
        "day": "2021-05-04", "weekday": "Tue", "n_jobs": 2, "n_users": 1, "cpu_hours": 14.0,
        "mem_gb_hours": 7.0, "gpu_jobs": 1, "gpu_hours": 12.0, "mean_cpus": 3.0, "mean_mem_gb": 1.5,
        "busiest_hour_share": 12 / 14,
    }  # fmt: skip


def test_the_calendar_spaces_days_evenly():
    """Three of nine days are the middles of three thirds; a month with fewer days than asked gives all."""
    nine = [f"2021-05-0{i}" for i in range(1, 10)]
    assert choose(table(nine), "calendar", n=3)["day"].tolist() == ["2021-05-02", "2021-05-05", "2021-05-08"]
    months = table(["2021-04-30", *nine])
    assert choose(months, "calendar", per_month=2)["day"].tolist() == ["2021-04-30", "2021-05-03", "2021-05-07"]
    assert choose(table(nine), "calendar", n=50)["day"].tolist() == nine


def day_like(day, hours):
    return {"day": day, "n_jobs": 10 * hours, "cpu_hours": hours} | dict.fromkeys(
        ["mem_gb_hours", "gpu_hours", "mean_cpus", "mean_mem_gb", "busiest_hour_share"], 1.0
    )


def test_a_chosen_day_stands_for_its_group():
    """Two busy days and five idle ones give one of each, weighing 2 and 5; the middle one is taken."""
    busy = [day_like("2021-05-01", 1000.0), day_like("2021-05-02", 1100.0)]
    idle = [day_like(f"2021-05-1{i}", 10.0 + i) for i in range(5)]
    chosen = choose(pd.DataFrame(busy + idle), "clustering", n=2)
    assert chosen["weight"].tolist() == [2, 5]
    assert chosen["day"].tolist()[1] == "2021-05-12"
    pd.testing.assert_frame_equal(chosen, choose(pd.DataFrame(busy + idle), "clustering", n=2))


def test_weights_add_up_and_equal_days_are_one_group():
    """Whatever the number of groups, every day is stood for once; days that are alike cannot be parted."""
    warnings.simplefilter("error")  # k-means warns of more groups than there are different days
    days = pd.DataFrame([day_like(f"2021-05-{i:02d}", float(i // 3 + 1)) for i in range(1, 25)])
    for n in (1, 4, 9, 25):
        chosen = choose(days, "clustering", n=n)
        assert chosen["weight"].sum() == 24
        assert len(chosen) == min(n, 9)


def test_the_hardest_days_wait_longest_and_ties_go_to_the_earlier():
    """Sorted by median wait; the result is in order of days; all weigh 1."""
    days = table(["2021-05-01", "2021-05-02", "2021-05-03"], median_wait=[60.0, 90.0, 60.0])
    assert choose(days, "hardest", n=2)["day"].tolist() == ["2021-05-01", "2021-05-02"]
    assert choose(days, "hardest", n=2)["weight"].tolist() == [1, 1]


def test_days_under_a_minute_are_named_and_left_out():
    """59.9 s is quiet, 60 s is not, and where nothing ran nothing waited; unprobed days are all kept."""
    days = table(["a", "b", "c"], median_wait=[59.9, 60.0, np.nan])
    able, quiet = without_quiet(days)
    assert (able["day"].tolist(), quiet) == (["b"], ["a", "c"])
    assert without_quiet(table(["a"]))[1] == []


def test_a_day_by_hand_must_be_there():
    with pytest.raises(TableError, match="'2021-05-07'; did you mean 2021-05-0"):
        choose(table(["2021-05-06", "2021-05-08"]), named=["2021-05-07"])


STUDY = """
quotes = "quotes.csv"
[packages]
rules = "published"
budget_usd = 100_000
[[workloads]]
name = "any"
generate = { n_jobs = 5 }
logged_speed = "1.0"
"""
QUOTES = "name,category,cpus,mem_gb,gpus,price_usd\nsmall,compute,8,256,0,9000\nlarge,compute,64,512,0,30000\n"


@pytest.fixture
def log(tmp_path):
    """Two files of two days each: the first day has one job, the others wait."""
    days = [generate(i, n).assign(submit_time=lambda j, i=i: j["submit_time"] + i * DAY) for i, n in
            enumerate((1, 400, 300, 400))]  # fmt: skip
    write(merge(days[:2]), tmp_path / "a.parquet")
    write(merge(days[2:]), tmp_path / "b.parquet")
    (tmp_path / "quotes.csv").write_text(QUOTES)
    (tmp_path / "study.toml").write_text(STUDY.replace("[packages]", "[packages]\nmin_gpu_nodes = 0"))
    return days


def test_days_are_chosen_written_and_taken_by_a_study(procure, log, tmp_path, monkeypatch):  # noqa: F811
    """Files that follow each other are one log; the quiet day is named; the study reads what was written."""
    arguments = ("days", "a.parquet", "b.parquet", "--by", "hardest", "-n", "2", "--study", "study.toml")
    monkeypatch.setattr("procure.cli.workload.Probe", partial(Probe, every=3, farm="serial"))
    code, out, err = procure(*arguments, "--out", "d", "--format", "json")
    assert code == 0, err
    listed = {row["day"]: row for row in json.loads(out)}
    assert list(listed) == ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"]
    assert [row["chosen"] for row in listed.values()].count(True) == 2
    assert listed["2024-01-02"]["median_wait"] == 0
    assert "2024-01-02; to see them under more load: procure workload slice d/probe/jobs-2024-01-02" in err
    chosen = [day for day, row in listed.items() if row["chosen"]]
    (tmp_path / "many.toml").write_text(
        'workloads = "d/workloads.toml"\nquotes = "quotes.csv"\n[packages]\nrules = "published"\nbudget_usd = 100_000\n'
    )
    study = load_study(tmp_path / "many.toml")
    assert [one.name for one in study.workloads] == chosen
    assert [str(one.logged_speed) for one in study.workloads] == ["1.0", "1.0"]
    n_jobs = {"2024-01-03": 400, "2024-01-04": 300, "2024-01-05": 400}
    assert [len(read(one.jobs, JOB)) for one in study.workloads] == [n_jobs[day] for day in chosen]


HARDEST = (
    "2021-03-15 2021-03-19 2021-03-22 2021-03-26 2021-03-31 2021-04-02 2021-04-13 2021-04-14 2021-04-15 2021-04-17 "
    "2021-04-18 2021-04-20 2021-04-22 2021-04-24 2021-04-26 2021-04-30 2021-05-03 2021-05-05 2021-05-10 2021-05-11 "
    "2021-05-12 2021-05-13 2021-05-21 2021-05-26 2021-06-02"
)


@pytest.mark.slow
def test_the_25_hardest_days_of_a_real_log(procure, shared_data, tmp_path):  # noqa: F811
    """Over every 1,237th package, these days of three monthly files wait longest."""
    from conftest import ROOT

    files = [shared_data(f"beocat_2021/all_jobs_20210{month}.csv.xz") for month in (3, 4, 5)]
    assert len(import_log(files[0], "csv", "beocat").jobs) > 60_000
    quotes = ROOT / "quotes/example-2023.csv"
    (tmp_path / "s.toml").write_text(
        f'quotes = "{quotes}"\n[packages]\nrules = "published"\n'
        f'budget_usd = 1_000_000\n[[workloads]]\nname = "any"\ngenerate = {{}}\n'
    )
    options = ("--tz", "America/Chicago", "--by", "hardest", "--study", "s.toml")
    tables = [tmp_path / f"{month}.parquet" for month in (3, 4, 5)]
    for file, table in zip(files, tables, strict=True):
        write(import_log(file, "csv", "beocat").jobs, table)
    code, out, err = procure("days", *tables, *options, "--format", "json")
    assert code == 0, err
    assert [row["day"] for row in json.loads(out) if row["chosen"]] == HARDEST.split()


DST_DAY = 1_615_701_600  # 2021-03-14 00:00 in Chicago, a day of 23 hours


def test_a_day_is_local_and_half_open_and_keeps_row_order():
    """One on which clocks change has its own length."""
    table = jobs([MIDNIGHT + 86_400, MIDNIGHT + 86_399, MIDNIGHT, MIDNIGHT - 1])
    assert slice_day(table, "2021-05-04", "America/Chicago")["job_id"].tolist() == ["j1", "j2"]
    assert len(table) == 4
    table = jobs([DST_DAY + 23 * 3600 - 1, DST_DAY + 23 * 3600])
    assert slice_day(table, "2021-03-14", "America/Chicago")["job_id"].tolist() == ["j0"]


def test_a_day_without_jobs_says_what_the_workload_spans():
    with pytest.raises(TableError, match=r"no job was submitted on 2020-01-01.*2021-05-04 05:00:00 UTC"):
        slice_day(jobs([MIDNIGHT]), "2020-01-01", "America/Chicago")


def test_a_log_without_unix_times_can_only_be_sliced_by_seconds():
    table = jobs([5, 10, 15])
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
    first, second = jobs([10, 10, 30]), jobs([10, 20])
    second["user"] = "late"
    assert merge([first, second])["submit_time"].tolist() == [10, 10, 30, 10, 20]
    assert merge([first, second], drop_repeated=True)["submit_time"].tolist() == [10, 10, 30, 20]
    again = jobs([10, 10])
    again["job_id"] = "same"
    assert len(merge([again, second], drop_repeated=True)) == 4
    log = second.copy()
    log.attrs["clock"] = "log"
    with pytest.raises(TableError, match="Unix times"):
        merge([first, log])
    with pytest.raises(TableError, match="at least one"):
        merge([])


def test_description_counts_whole_jobs_in_stated_units():
    table = jobs([0, 0, 50], n_nodes=[1, 1, 4], mem_mb_per_node=[1000, 2000, 3000], requested_time=7200)
    table["run_time"] = [0, 3600, 1800]
    table["user"] = ["a", "b", ""]
    found = describe(table).set_index("quantity")
    assert found.loc["requested_mem", ["mean", "min", "max"]].tolist() == [5, 1, 12]
    assert found.loc["requested_cpus", "max"] == 8
    assert found.loc["run_time", "std"] == pytest.approx(0.5)
    assert overview(table) == {
        "n_jobs": 3, "n_users": 2, "n_shapes": 3, "single_node_share": pytest.approx(2 / 3), "gpu_job_share": 0.0,
        "zero_run_share": pytest.approx(1 / 3), "same_second_share": pytest.approx(2 / 3), "first_submit": 0,
        "last_submit": 50, "span": 50, "offered_cpu_hours": pytest.approx(2 + 4), "offered_gpu_hours": 0.0,
        "clock": "unix",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("month", "day", "count"), [("202104", "2021-05-04", 12_765), ("202103", "2021-03-16", 15_999)]
)
def test_two_days_of_beocat_have_their_known_number_of_jobs(shared_data, month, day, count):
    path = shared_data(f"beocat_2021/all_jobs_{month}.csv.xz")
    assert len(slice_day(import_log(path, "csv", "beocat").jobs, day, "US/Central")) == count
