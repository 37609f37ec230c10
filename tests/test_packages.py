"""Quotes and packages: what a budget can buy, against the published figures and against brute force."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import quote_table, three_quotes
from test_vendor_rules import cases, ids

from procure import tables
from procure.errors import TableError
from procure.packages import PackageRules, count_packages, expand_packages, package_nodes, write_packages
from procure.packages.constraints import build_constraints
from procure.packages.enumerate import blocks
from procure.packages.nodes import jobs_left_out, request_text
from procure.packages.quotes import check_quotes, read_quotes, summarise_quotes
from procure.run import simulate
from procure.schemas import JOB, QUOTE
from procure.tables import check

EXAMPLE = Path(__file__).resolve().parent.parent / "quotes" / "example-2023.csv"


@pytest.fixture(scope="module")
def quotes() -> pd.DataFrame:
    return read_quotes(EXAMPLE)


@pytest.fixture(scope="module")
def million(quotes: pd.DataFrame) -> pd.DataFrame:
    return expand_packages(quotes, PackageRules(rules="published", budget_usd=1_000_000))


def test_published_count(million: pd.DataFrame) -> None:
    """The 21 published quotes give 126,688 packages at $1,000,000, 123,742 of them distinct."""
    assert (len(million), int(million["distinct"].sum())) == (126_688, 123_742)


def test_distinct_marks_the_first_row_of_each_count_vector(quotes: pd.DataFrame, million: pd.DataFrame) -> None:
    """`distinct` is what a search for repeated count vectors over the whole table finds."""
    counts = million[quotes["name"].tolist()]
    assert (million["distinct"] == ~counts.duplicated()).all()
    assert million.loc[million["distinct"], "package_id"].is_unique


def test_row_order(million: pd.DataFrame) -> None:
    """GPU counts ascend slowest, then big-memory, then compute, inside each combination of types."""
    first = million["package_id"].head(3).tolist()
    assert first == [
        "ComputeNode1=139,GPUNode1=1",
        "ComputeNode1=137,BigMemNode1=1,GPUNode1=1",
        "ComputeNode1=136,BigMemNode1=2,GPUNode1=1",
    ]
    last = million["package_id"].iloc[-1]
    assert last == "GPUNode15=10"


def test_totals_are_those_of_the_counts(quotes: pd.DataFrame, million: pd.DataFrame) -> None:
    """Price and totals equal counts times the quotes' figures, and the identifier spells the counts."""
    counts = million[quotes["name"].tolist()].to_numpy()
    for total, column in [
        ("price_usd", "price_usd"), ("total_cpus", "cpus"), ("total_mem_gb", "mem_gb"), ("total_gpus", "gpus")
    ]:  # fmt: skip
        assert (million[total].to_numpy() == counts @ quotes[column].to_numpy()).all()
    names = quotes["name"].tolist()
    for row in range(0, len(million), 9_973):
        spelled = ",".join(f"{n}={c}" for n, c in zip(names, counts[row], strict=True) if c)
        assert million["package_id"].iloc[row] == spelled


@settings(max_examples=15, deadline=None)
@given(cases(), st.integers(1, 5))
def test_block_size_changes_nothing(case: tuple[list[dict], dict], size: int) -> None:
    rows, rules = case
    quotes = check_quotes(pd.DataFrame(rows))
    try:
        offer = build_constraints(quotes, PackageRules(rules="published", **rules))
    except TableError:
        return

    def listed(size: int) -> list:
        return [
            (list(block.types), *row)
            for block in blocks(offer, size)
            for row in zip(block.counts.tolist(), block.rest.tolist(), block.distinct.tolist(), strict=True)
        ]

    assert listed(size) == listed(1_000_000)


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"budget_usd": 25}, r"budget excludes every package: \$25.00.*costs \$30.00"),
        ({"budget_usd": 60, "fixed_cost_usd": 40}, r"\$20.00 after fixed costs"),
        ({"budget_usd": 99, "max_power_w": 200}, "max_power_w = 200 excludes .* at least 300"),
        ({"budget_usd": 99, "max_rack_units": 1.5}, "max_rack_units = 1.5 excludes .* at least 2 "),
        ({"budget_usd": 99, "min_gpu_nodes": 9, "types": {"g": {"max_count": 3}}}, "min_gpu_nodes.*at most 3"),
        ({"budget_usd": 99, "categories": {"gpu": 4}, "types": {"g": {"max_count": 3}}}, "categories.gpu = 4"),
        ({"budget_usd": 99, "categories": {"gpus": 1}}, "no such category; did you mean gpu"),
        ({"budget_usd": 99, "types": {"h": {"max_count": 3}}}, "types.h: .* known: a, b, g"),
    ],
)
def test_infeasible_names_the_rule(rules: dict, says: str) -> None:
    """Without any package the error names the rule that excluded the last, and what it would take."""
    quotes = three_quotes(power_w=[100, 100, 300], rack_units=[1, 1, 2])
    with pytest.raises(TableError, match=says):
        expand_packages(quotes, PackageRules(rules="published", **rules))


def test_no_gpus_and_a_free_type_say_which_rule_is_needed() -> None:
    """With no GPU quoted min_gpu_nodes = 0 lifts the rule; a price of zero without max_count has endless packages."""
    quotes = three_quotes(gpus=0)
    with pytest.raises(TableError, match="min_gpu_nodes = 0 lifts the rule"):
        ids(quotes, budget_usd=45)
    assert "a=1,g=1" in ids(quotes, budget_usd=45, min_gpu_nodes=0)
    with pytest.raises(TableError, match="a costs nothing"):
        ids(three_quotes(price_usd=[0, 15, 30]), budget_usd=45)
    assert ids(three_quotes(price_usd=[0, 15, 30], max_count=[4, 0, 1]), budget_usd=45) == ["a=4,g=1"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_written_table_is_the_expanded_one(tmp_path, quotes: pd.DataFrame, suffix: str) -> None:
    rules = PackageRules(rules="published", budget_usd=150_000)
    path = tmp_path / f"packages{suffix}"
    summary = write_packages(quotes, rules, path)
    expected = expand_packages(quotes, rules)
    pd.testing.assert_frame_equal(
        tables.read(path, tables.PACKAGE).astype(dict.fromkeys(quotes["name"], "int64")), expected
    )
    assert summary["n_packages"] == len(expected)
    assert summary == count_packages(quotes, rules)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


# The peak of a process that ran other tests, or of one that it forked, says nothing of this; VmHWM begins anew.
STREAM = """
import re, sys
from pathlib import Path
from procure.packages import PackageRules, write_packages
from procure.packages.quotes import read_quotes

summary = write_packages(read_quotes(sys.argv[1]), PackageRules(rules="published", budget_usd=10_000_000), sys.argv[2])
print(summary["n_packages"], re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.slow
def test_ten_million_dollars_stream_within_2_gb(tmp_path: Path) -> None:
    """More than 10 million packages go to Parquet within 2 GB of memory."""
    command = [sys.executable, "-c", STREAM, str(EXAMPLE), str(tmp_path / "packages.parquet")]
    n_packages, peak_kb = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(n_packages) > 10_000_000
    assert int(peak_kb) < 2_000_000


def test_package_nodes() -> None:
    """A package's nodes stand in quote order, existing ones first, memory rounded up to the MB."""
    quotes = three_quotes(mem_gb=[256.1, 0.0001, 1], gpu_type=["", "", "a100"], spec_rate=[4.5, None, 7])
    existing = pd.DataFrame({"node_id": ["old"], "cpus": [8], "mem_mb": [10]})
    nodes = package_nodes({"g": 1, "a": 2, "b": 1}, quotes, existing)
    assert nodes["node_id"].tolist() == ["old", "a-001", "a-002", "b-001", "g-001"]
    assert nodes["kind"].tolist() == ["node", "a", "a", "b", "g"]
    assert nodes["mem_mb"].tolist() == [10, 256_100, 256_100, 1, 1000]
    assert nodes["gpus"].tolist() == [0, 0, 0, 0, 2]
    assert nodes["gpu_type"].iloc[-1] == "a100"
    assert nodes["speed"].tolist()[1:3] == [4.5, 4.5] and pd.isna(nodes["speed"].iloc[3])


@pytest.mark.parametrize(
    ("package", "says"),
    [({"c": 1}, "no quote is named 'c'"), ({"a": 1.5}, "1.5 was given"), ({"a": -1}, "whole number")],
)
def test_package_nodes_refuses(package: dict, says: str) -> None:
    """A type that is not quoted, or a count that is none, is refused by name."""
    with pytest.raises(TableError, match=says):
        package_nodes(package, three_quotes())


HEADER = "name,category,cpus,mem_gb,gpus,price_usd"
GOOD = "A1,compute,24,256,0,6960"


def quote_file(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "quotes.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_the_shipped_quotes_are_the_published_ones(shared_data) -> None:
    """Every published figure stands in the shipped file, in the published order."""
    published = pd.read_csv(shared_data("ksu_procurement/vendor_quotes_21.csv"))
    quotes = read_quotes(EXAMPLE)
    assert quotes["name"].tolist() == published["name"].tolist()
    for ours, theirs in [("mem_gb", "memory_gb"), ("cpus", "cores"), ("gpus", "gpus"), ("price_usd", "price_usd")]:
        assert quotes[ours].tolist() == published[theirs].tolist()


def test_summary_is_table_3_1() -> None:
    """Types and ranges by category are those of the published Table 3.1."""
    summary = summarise_quotes(read_quotes(EXAMPLE))
    assert summary["n_types"].tolist() == [4, 2, 15]
    assert summary["price_usd_min"].tolist() == [6960, 11_112, 14_730]
    assert summary["price_usd_max"].tolist() == [9516, 12_450, 100_000]
    assert summary["gpus_max"].tolist() == [0, 0, 8]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("A1,compute,24,256,0,6960", r"row 2, column name: duplicate 'A1', also in row 1"),
        ("A2,compute,24,256,0,1.005", r"row 2, column price_usd: .* cent"),
        ("A2,compute,24,256,0,2e15", r"row 2, column price_usd: .* at most 1e\+12"),
        ("A=2,compute,24,256,0,1", r"row 2, column name: 'A=2' holds '='"),
        ('"A,2",compute,24,256,0,1', r"row 2, column name: 'A,2' holds ','"),
        ("distinct,compute,24,256,0,1", r"row 2, column name: 'distinct' is a column of every package table"),
        ("A2 ,compute,24,256,0,1", r"row 2, column name: 'A2 ' begins or ends with a space"),
        ("A2,compute,1000000000,256,0,1", "row 2, column cpus: .*at most 100,000 CPUs is allowed"),
        ("A2,compute,24,0,0,1", "row 2, column mem_gb: .*memory per node.* must be at least 1e-06"),
        (f"{'x' * 5_000_000},c,24,256,0,1", "row 2, column name: .*5,000,002 characters.* is too long; 200 characters"),
        (f"A2,{'x' * 201},24,256,0,1", "row 2, column category: .*200 characters are allowed"),
    ],
    ids=lambda one: one[:40],
)
def test_a_bad_row_is_named(tmp_path: Path, row: str, says: str) -> None:
    """A wrong cell, or one that no vendor means, is an error with file, row, column, and what was given."""
    with pytest.raises(TableError, match=rf"quotes\.csv, {says}") as error:
        read_quotes(quote_file(tmp_path, GOOD, row))
    assert len(str(error.value).replace(str(tmp_path), "")) < 400


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("min_count,max_count", "5,4", "row 1, column min_count: 5 was given; at most max_count is allowed, 4"),
        ("power_w,idle_power_w", "100,200", "row 1, column idle_power_w: 200 was given"),
        ("valid_until", "30.6.2023", "row 1, column valid_until: '30.6.2023' is no date"),
        ("valid_until", "2023-02-30", "row 1, column valid_until"),
        ("valid_until", "20230228", "row 1, column valid_until"),
        ("price_us", "1", "unknown column 'price_us'; did you mean price_usd"),
        ("spec_rate", "1e-300", "row 1, column spec_rate: .*a speed is a number above 0, at least 1e-06"),
        ("spec_rate_node", "1e300", "row 1, column spec_rate_node: .*at most 1,000,000,000 any speed is allowed"),
    ],
)
def test_a_bad_optional_column_is_named(tmp_path: Path, column: str, value: str, says: str) -> None:
    """Optional columns are checked as strictly, and an unknown one offers the nearest legal name."""
    with pytest.raises(TableError, match=says):
        read_quotes(quote_file(tmp_path, f"{GOOD},{value}", header=f"{HEADER},{column}"))


@pytest.mark.parametrize("text", ["", HEADER + "\n", "name,category\nA1,compute\n"])
def test_a_file_without_quotes_is_an_error(tmp_path: Path, text: str) -> None:
    """An empty file, a header alone, and missing columns are each one error that names the file."""
    path = tmp_path / "empty.csv"
    path.write_text(text)
    with pytest.raises(TableError, match=r"empty\.csv"):
        read_quotes(path)


KINDS = {"category": ["compute", "bigmem", "gpu"], "gpu_type": ["", "", "a100"]}
SIZES = {"cpus": [8, 4, 16], "mem_gb": [32, 512, 64.5], "gpus": [0, 0, 2]}
TYPES = check(quote_table(name=["Small", "Big", "Gpu"], **KINDS, **SIZES), QUOTE)


def packages(*counts: tuple[int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(counts, columns=["Small", "Big", "Gpu"])


def jobs(*requests: tuple) -> pd.DataFrame:
    names = ["n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node", "gpu_type"]
    table = pd.DataFrame(requests, columns=names)
    table["job_id"], table["submit_time"], table["run_time"] = range(len(table)), 0, 10
    return check(table, JOB)


def test_a_request_is_said_as_it_was_made():
    asked = {"n_tasks": 16, "cpus_per_task": 1, "mem_mb_per_task": 4_000, "mem_mb_per_node": 0, "gpus_per_node": 0}
    assert request_text(asked) == "16 tasks with 1 CPU and 4.0 GB each"
    asked |= {"mem_mb_per_task": 0, "mem_mb_per_node": 9_000, "gpus_per_node": 1}
    assert request_text(asked) == "16 tasks with 1 CPU each, and 9.0 GB and 1 GPU on each node"


@settings(max_examples=40, deadline=None)
@given(
    counts=st.tuples(*[st.integers(0, 2)] * 3).filter(any),
    requests=st.lists(
        st.tuples(
            st.just(1),
            st.integers(0, 20),
            st.sampled_from([0, 32_000, 32_001, 64_500, 512_000]),
            st.integers(0, 3),
            st.sampled_from(["", "a100", "h100"]),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_equals_what_a_simulation_counts(counts, requests):
    """The count is the simulator's n_unrunnable, without simulation."""
    table, one = jobs(*requests), packages(counts)
    run = simulate(table, package_nodes(one.iloc[0], TYPES))
    assert jobs_left_out(one, TYPES, table)[0] == run.metrics["n_unrunnable"]


@settings(max_examples=100, deadline=None)
@given(
    counts=st.tuples(*[st.integers(0, 3)] * 3).filter(any),
    own=st.integers(0, 2),
    tasks=st.tuples(
        st.integers(1, 60),
        st.sampled_from([1, 2, 5]),
        st.sampled_from([0, 4_000, 40_000]),
        st.sampled_from([0, 0, 1]),
        st.sampled_from([0, 3]),
        st.integers(1, 3),
        st.sampled_from([0, 3, 4]),
    ),
)
def test_tasks_fit_on_the_largest_nodes_that_they_may_have(counts, own, tasks):
    """Counted one by one: so many nodes at most, each with as many tasks as it holds when empty."""
    names = ["n_tasks", "cpus_per_task", "mem_mb_per_task", "gpus_per_task", "tasks_per_node", "min_nodes", "max_nodes"]
    asked = dict(zip(names, tasks, strict=True))
    if asked["max_nodes"] and asked["tasks_per_node"]:
        asked["n_tasks"] = min(asked["n_tasks"], asked["max_nodes"] * asked["tasks_per_node"])
    table = check(pd.DataFrame([{"job_id": "1", "submit_time": 0, "run_time": 1} | asked]), JOB)
    existing = pd.DataFrame({"cpus": [12] * own, "mem_mb": 9_000, "gpus": 0, "gpu_type": ""})
    nodes = [(8, 32_000, 0)] * counts[0] + [(4, 512_000, 0)] * counts[1] + [(16, 64_500, 2)] * counts[2]
    held = []
    for cpus, mem, gpus in [*nodes, *[(12, 9_000, 0)] * own]:
        n = 0
        while (
            n < (asked["tasks_per_node"] or 99)
            and (n + 1) * asked["cpus_per_task"] <= cpus
            and (n + 1) * asked["mem_mb_per_task"] <= mem
            and (n + 1) * asked["gpus_per_task"] <= gpus
        ):
            n += 1
        held += [n] * (n > 0)
    held = sorted(held, reverse=True)[: asked["max_nodes"] or 99]
    runs = sum(held) >= asked["n_tasks"] and len(held) >= min(asked["min_nodes"], asked["n_tasks"])
    assert jobs_left_out(packages(counts), TYPES, table, existing)[0] == (not runs)
