"""How Slurm writes things, read back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procure.workload.slurm import (
    array_tasks,
    expand_nodes,
    parse_tres,
    slurm_duration,
    slurm_limit,
    slurm_memory,
    slurm_memory_limit,
)


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_every_spelling_of_a_duration_gives_its_seconds(d, h, m, s):
    assert slurm_duration(f"{d}-{h:02d}:{m:02d}:{s:02d}") == ((d * 24 + h) * 60 + m) * 60 + s
    assert slurm_duration(f"{h:02d}:{m:02d}:{s:02d}") == (h * 60 + m) * 60 + s
    assert slurm_duration(f"{m:02d}:{s:02d}.123") == m * 60 + s
    assert slurm_duration(f"{d} days {h:02d}:{m:02d}:{s:02d}") == ((d * 24 + h) * 60 + m) * 60 + s
    assert slurm_duration(f"{d}-{h:02d}") == (d * 24 + h) * 3600
    assert slurm_duration(f"{d}-{h:02d}:{m:02d}") == (d * 24 + h) * 3600 + m * 60


@given(st.text(max_size=8))
def test_any_text_is_a_duration_or_not_a_number_and_what_names_no_limit_is_none(text):
    assert math.isnan(slurm_duration(text)) or slurm_duration(text) >= 0
    assert not any(map(slurm_duration, ("UNLIMITED", "Partition_Limit", "")))


@pytest.mark.parametrize(
    ("text", "mb", "per"),
    [
        ("500M", 500, "job"), ("1G", 1024, "job"), ("4000Mc", 4000, "cpu"), ("4Gn", 4096, "node"),
        ("1.50T", 1.5 * 1024**2, "job"), ("2048K", 2, "job"), ("64", 64, "job"), ("", 0, "job"),
        ("2147486448Mn", 2800, "cpu"),
    ],
)  # fmt: skip
def test_memory_is_read_with_what_it_is_per(text, mb, per):
    assert slurm_memory(text) == (mb, per)


@pytest.mark.parametrize(
    ("text", "gpus", "model"),
    [
        ("cpu=1,gres/gpu:a100=2,gres/gpu=2", 2, "a100"),
        ("cpu=1,gres/gpu=2", 2, ""),
        ("cpu=1,gres/gpu:a100=2", 2, "a100"),
        ("cpu=1,gres/gpu:a100=1,gres/gpu:v100=2,gres/gpu=3", 3, ""),
        ("cpu=1,mem=500M,node=1", 0, ""),
        ("CPU=1,gres:GPU:A100=2", 2, "A100"),
        ("billing=5,cpu=1,gres/gpumem=0,gres/gpuutil=0", 0, ""),
    ],
)
def test_typed_and_untyped_gpus_are_counted_once(text, gpus, model):
    assert parse_tres(text)[3:5] == (gpus, model)
    assert [parse_tres(each)[5] for each in (text, "", "cpu=many", "nonsense")] == [False, False, True, True]


@given(st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True), st.booleans())
def test_a_folded_node_list_gives_its_names_back(numbers, padded):
    names = [f"c{n:02d}" if padded else f"c{n}" for n in numbers]
    assert expand_nodes("c[" + ",".join(name[1:] for name in names) + "]") == names
    assert expand_nodes(",".join(names)) == names


def test_node_lists_keep_order_padding_and_racks_and_a_pending_array_names_its_tasks():
    assert expand_nodes("c[1-3,5],g2") == ["c1", "c2", "c3", "c5", "g2"]
    assert expand_nodes("cpn-f15-[08-10]") == ["cpn-f15-08", "cpn-f15-09", "cpn-f15-10"]
    assert expand_nodes("r[1-2]n[1-2]") == ["r1n1", "r1n2", "r2n1", "r2n2"]
    assert array_tasks("12_[4-6%2]") == ["12_4", "12_5", "12_6"]
    assert array_tasks("12_[0-8:4,11]") == ["12_0", "12_4", "12_8", "12_11"]
    assert array_tasks("12_3") == ["12_3"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("480", 28_800), ("30:15", 1815), ("8:00:00", 28_800), ("2-00", 172_800), ("1-12:30", 131_400),
        ("1-00:00:01", 86_401), ("UNLIMITED", 0), ("0", 0), ("90m", 5400), ("8h", 28_800), ("2d", 172_800),
    ],
)  # fmt: skip
def test_a_limit_is_read_as_sbatch_reads_it(text, seconds):
    """A plain number is minutes, two fields are minutes and seconds; a unit may be written, too."""
    assert slurm_limit(text) == seconds


@given(st.text(max_size=8))
def test_any_text_is_a_limit_or_one_error(text):
    try:
        assert slurm_limit(text) >= 0
    except ValueError as error:
        assert "no time limit" in str(error)


@given(st.integers(0, 10**6), st.sampled_from(["K", "", "M", "G", "T"]), st.sampled_from(["", "B", "iB", " "]))
def test_memory_is_read_as_sbatch_reads_it(tenths, unit, end):
    """In MB of 2^20 bytes, exact and rounded up; 64G is 65,536; units in capitals or not."""
    scale = {"K": 1, "": 2**10, "M": 2**10, "G": 2**20, "T": 2**30}[unit]
    text = f"{tenths // 10}.{tenths % 10}{unit}{end}".strip()
    assert slurm_memory_limit(text) == slurm_memory_limit(text.lower()) == -(-tenths * scale // 10_240)


@pytest.mark.parametrize("text", ["", "G", "-1G", "1,5G", "64 Gi", "1.2.3G", "lots"])
def test_what_is_no_memory_is_refused(text):
    with pytest.raises(ValueError, match="no amount of memory"):
        slurm_memory_limit(text)
