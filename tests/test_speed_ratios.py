"""Speeds of quotes: whole-node rates are seen or taken apart, logged processors found, every stage says the same."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_study import quote_table

from procure.errors import TableError
from procure.packages.quotes import check_quotes, read_quotes
from procure.study import load_study
from procure.study.check import check_study, study_notes
from procure.study.plan import read_inputs
from procure.workload import scale_run_time
from procure.workload.speed import logged_processor_speed, published_rates, rate_warnings, speed_notes

pytestmark = pytest.mark.plain


def quotes(rates, cpus=(24, 32, 64), column="spec_rate", **more):
    names = [f"n{i}" for i in range(len(rates))]
    return check_quotes(quote_table(name=names, cpus=cpus[: len(rates)], **{column: rates} | more))


CORE, NODE = [7.0, 6.8, 6.453], [168.0, 217.6, 412.992]


def test_the_rate_of_a_whole_node_is_divided_by_its_cpus():
    """`spec_rate_node` gives the same speeds as the rates per core; both and different, or a rate of 0, are refused."""
    np.testing.assert_allclose(quotes(NODE, column="spec_rate_node")["spec_rate"], CORE)
    mixed = quotes([168.0, None, None], column="spec_rate_node", spec_rate=[None, 6.8, None])
    assert mixed["spec_rate"].tolist()[:2] == [7.0, 6.8]
    assert np.isnan(mixed["spec_rate"].iloc[2])
    with pytest.raises(TableError, match="row 1, column spec_rate_node: 168 for 24 CPUs is 7 each, and spec_rate is 9"):
        quotes([168.0], column="spec_rate_node", spec_rate=9.0)
    with pytest.raises(TableError, match="row 2, column spec_rate: a speed is a number above 0"):
        quotes([7.0, 0.0])


def test_ratios_are_logged_speed_by_rate_and_1_where_no_rate_is_quoted():
    said = speed_notes({"a": "7", "b": "14"}, {}, quotes([7.0, None, 3.5]), None)
    assert [one.split(" by ")[1] for one in said if "multiplied by " in one and "careful" not in one] == [
        "1 on n0, n1; 2 on n2",
        "1 on n1; 2 on n0; 4 on n2",
    ]


def test_rates_of_whole_nodes_and_outliers_are_warned_of_and_sound_ones_are_not():
    """Whole-node rates are seen by their ratio and by their growth; one type far from its like is named."""
    assert rate_warnings(quotes(CORE), [6.5]) == []
    said = " ".join(rate_warnings(quotes(NODE), [6.5]))
    assert "divided by up to 64" in said
    assert "grows with the number of CPUs" in said
    assert "multiplied by up to 4: a ratio beyond 3 on n0, n1, n2" in rate_warnings(quotes([1.5, 1.5, 1.5]), [6.0])[0]
    assert "the spec_rate of n2 is 70, and of its like 7" in rate_warnings(quotes([7.0, 7.0, 70.0], (24, 64, 24)))[0]
    same = quotes([7.0, 30.0], processor="AMD EPYC 7542")
    assert [text.split(" is ")[0] for text in rate_warnings(same)][:2] == ["the spec_rate of n0", "the spec_rate of n1"]


def test_a_processor_is_found_among_the_quotes_then_among_the_published():
    """As a person or lscpu writes it; an unknown one is answered with the nearest names."""
    table = quotes(CORE, processor=["AMD EPYC 7542", "Intel Xeon Gold 6338", ""])
    assert logged_processor_speed("amd epyc  7542", table) == (7.0, False)
    speed = published_rates().set_index("processor")["spec_rate"]["AMD EPYC 7742"]
    assert logged_processor_speed("AMD EPYC 7742 64-Core Processor", table) == (speed, True)
    assert logged_processor_speed("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", table)[1]
    with pytest.raises(TableError, match=r"unknown processor 'AMD EPIC 7743'; did you mean AMD EPYC 77"):
        logged_processor_speed("AMD EPIC 7743", table)
    with pytest.raises(TableError, match="or give logged_speed"):
        logged_processor_speed("PDP-11", table)
    twice = pd.DataFrame({"processor": ["AMD EPYC 7542", "AMD EPYC 7542", "none"], "spec_rate": [7.0, 6.5, np.nan]})
    for name, said in (("none", "did you mean none"), ("AMD EPYC 7542", "several values")):
        with pytest.raises(TableError, match=said):
            logged_processor_speed(name, twice)


def test_the_published_table_is_what_the_script_makes(shared_data):
    """The shipped medians are those of the published results, and agree with an independent summary within 1 %."""
    summary = pd.read_csv(shared_data("spec_cpu2017/spec_rate2017_selected_2chip.csv"))
    both = published_rates().merge(summary, on="processor")
    assert len(both) == len(summary)
    np.testing.assert_allclose(both["spec_rate"], both["int_per_core"], rtol=0.01)


def test_a_logged_processor_of_another_unit_is_warned_of():
    """Published rates beside quotes in a unit of their own make no sensible ratio."""
    odd = quotes([100.0, 98.0], processor="AMD EPYC 7542")
    notes = speed_notes({"w": "6.5"}, {"w": "AMD EPYC 7742"}, odd, None)
    assert any("in another unit" in text for text in notes)
    assert not any("in another unit" in text for text in speed_notes({"w": "6.5"}, {"w": None}, odd, None))


STUDY = """
quotes = "q.csv"
packages = {{ budget_usd = 20_000, min_gpu_nodes = 0 }}
simulate = {{ {simulate} }}
[[workloads]]
name = "a"
generate = {{ seed = 1, n_jobs = 20 }}
[[workloads]]
name = "b"
generate = {{ seed = 2, n_jobs = 20 }}
logged_speed = "3.5"
"""


def study(folder, simulate, header="", cells=""):
    (folder / "q.csv").write_text(f"name,category,cpus,mem_gb,gpus,price_usd{header}\nx,c,32,128,0,6960{cells}\n")
    path = folder / "s.toml"
    path.write_text(STUDY.format(simulate=simulate))
    return path


def test_a_speed_of_the_study_holds_for_every_workload_without_its_own(tmp_path):
    """[simulate] logged_speed or logged_processor; a workload's own goes before; both at once are refused."""
    path = study(tmp_path, 'logged_processor = "AMD EPYC 7542"', ",spec_rate", ",7")
    loaded, table = load_study(path), read_quotes(tmp_path / "q.csv")
    assert [loaded.logged_speed(workload, table) for workload in loaded.workloads] == ["6.531", "3.5"]
    path = study(tmp_path, 'logged_processor = "AMD EPYC 7542", logged_speed = 7', ",spec_rate", ",7")
    with pytest.raises(TableError, match="at most one of logged_processor and logged_speed"):
        check_study(path)


@pytest.mark.parametrize(("header", "cells"), [("", ""), (",spec_rate", ","), (",spec_rate", ",7")])
def test_check_and_sweep_say_the_same_of_speeds(header, cells, tmp_path):
    path = study(tmp_path, "logged_speed = 7", header, cells)
    notes = study_notes(check_study(path)[0])
    assert [text for text in read_inputs(load_study(path), ["best-fit"]).notes if "workload" in text] == notes
    wanted = "run times are multiplied by 1 on x" if cells == ",7" else "no speed is given for every type"
    assert any(wanted in text for text in notes)


SPEEDS = st.decimals(min_value="0.001", max_value="5000", places=3)


@given(st.lists(st.integers(0, 10**7), max_size=20), SPEEDS, SPEEDS)
def test_a_scaled_run_time_is_the_exact_ratio_rounded_up(run, logged, node):
    scaled = scale_run_time(np.array(run, dtype=np.int64), logged, str(node))
    assert scaled.tolist() == [math.ceil(value * Fraction(logged) / Fraction(node)) for value in run]


def test_speeds_are_read_as_the_decimals_they_are_written_as():
    assert math.ceil(1 * 2.1 / 0.3) == 8
    assert scale_run_time(np.array([1]), 2.1, 0.3).tolist() == [7]
    assert scale_run_time(np.array([1]), "2.1", Decimal("0.3")).tolist() == [7]
    assert scale_run_time(np.array([1]), np.float64(2.1), 0.3).tolist() == [7]


@pytest.mark.parametrize("unknown", [None, "", float("nan"), pd.NA])
def test_an_unknown_speed_is_ratio_one(unknown):
    """Of run times of its own: what is done to them changes nothing that was given."""
    run = np.array([3, 5])
    for speeds in ((unknown, 2), (2, unknown), (unknown, unknown)):
        same = scale_run_time(run, *speeds)
        assert same.tolist() == [3, 5]
        same[0] = 9


def test_products_beyond_64_bits_stay_exact_and_results_beyond_are_refused():
    run = np.array([2**52 + 1, 3])
    assert scale_run_time(run, "1.000000001", "1.000000003").tolist() == [
        math.ceil((2**52 + 1) * Fraction(1000000001, 1000000003)),
        3,
    ]
    with pytest.raises(TableError, match="too large"):
        scale_run_time(run, 10**6, 1)


@pytest.mark.parametrize("speed", [0, -1, "fast", float("inf"), "-0.5"])
def test_a_speed_must_be_a_number_above_zero(speed):
    with pytest.raises(TableError, match=r"node speed: .*(above 0|not a number)"):
        scale_run_time(np.array([1]), 1, speed)
    with pytest.raises(TableError, match="negative"):
        scale_run_time(np.array([-1]), 1, 2)
