"""GPU models: where jobs may run that ask for another one, and how long they take there."""

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import write_study
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.errors import TableError
from procure.tables import JOB, NODE, check, write
from procure.workload.speedups import (
    GpuModel,
    asked_gpu_models,
    find_gpu,
    map_gpu_models,
    nominal_gpus,
    propose_mapping,
    run_times_on,
)

QUOTES = """name,category,cpus,mem_gb,gpus,gpu_type,price_usd
Cpu,compute,16,64,0,,5000
Fast,gpu,16,64,4,H100,20000
Slow,gpu,16,64,4,L40S,10000
"""
MAPPED = '[gpu_models]\ntesla_v100 = { runs_on = ["H100", "L40S"], speed = { H100 = 4, L40S = 1.5 } }\n'


def gpu_jobs(n: int = 40, model: str = "tesla_v100") -> pd.DataFrame:
    return check(
        pd.DataFrame(
            {
                "job_id": [str(i) for i in range(n)], "submit_time": np.arange(n) * 60, "run_time": 4000,
                "cpus_per_node": 2, "gpus_per_node": [1, 0] * (n // 2), "gpu_type": [model, ""] * (n // 2),
            }
        ),
        JOB,
    )  # fmt: skip


def study(folder: Path, more: str = "", jobs: pd.DataFrame | None = None) -> Path:
    (folder / "quotes.csv").write_text(QUOTES)
    write(gpu_jobs() if jobs is None else jobs, folder / "jobs.csv")
    return write_study(folder / "study.toml", 'jobs = "jobs.csv"', more, quotes="quotes.csv", budget=60_000)


def nodes(*models: str) -> pd.DataFrame:
    names = [f"n{i}" for i in range(len(models))]
    return check(pd.DataFrame({"node_id": names, "cpus": 16, "mem_mb": 1000, "gpus": 4, "gpu_type": models}), NODE)


def test_a_job_runs_on_any_model_that_will_do_and_as_long_as_it_takes_there():
    """Asked for V100: on the H100 a quarter of the time, on the L40S two thirds, never on the A100."""
    model = GpuModel(runs_on=("H100", "L40S"), speed={"H100": 4, "L40S": 1.5})
    jobs = map_gpu_models(gpu_jobs(), {"Tesla_V100": model})
    assert jobs["gpu_type"].iloc[0] == "Tesla_V100|H100|L40S" and jobs["gpu_type"].iloc[1] == ""
    for name, seconds in (("h100", 1000), ("L40S", 2667), ("tesla_v100", 4000)):
        run = procure.simulate(jobs, nodes(name), "fcfs").schedule
        took = (run["end_time"] - run["start_time"])[jobs["gpus_per_node"] > 0]
        assert (took == seconds).all(), name
    run = procure.simulate(jobs, nodes("A100"), "fcfs").schedule
    assert run.loc[jobs["gpus_per_node"] > 0, "start_time"].isna().all()
    both = procure.simulate(jobs, nodes("A100", "H100"), "best-fit").schedule
    assert set(both.loc[jobs["gpus_per_node"] > 0, "node_ids"]) == {"n1"}


def test_jobs_that_name_no_model_scale_as_any():
    """They run everywhere; a node that states no model leaves run times as logged."""
    jobs = map_gpu_models(gpu_jobs(model=""), {"any": GpuModel(speed={"H100": 2})})
    assert run_times_on(jobs, None, None, "H100").tolist() == [2000, 4000] * 20
    assert run_times_on(jobs, None, None, "").tolist() == [4000] * 40


@given(
    run_time=st.integers(0, 10**7), factor=st.integers(1, 999), logged=st.sampled_from([None, "2.1"]),
    speed=st.sampled_from([None, "0.3", "7"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_run_times_are_exact_and_rounded_up_once(run_time, factor, logged, speed):
    """⌈run time × logged speed / (node speed × times faster)⌉, not rounded in between."""
    jobs = gpu_jobs(2).assign(run_time=run_time, gpu_speeds=f"H100={factor / 100}")
    ratio = Fraction(1) if logged is None or speed is None else Fraction(logged) / Fraction(speed)
    found = run_times_on(jobs, logged, speed, "h100")
    assert found.tolist() == [math.ceil(run_time * ratio / Fraction(factor, 100)), math.ceil(run_time * ratio)]


def test_packages_that_can_run_jobs_are_those_that_the_simulation_runs(tmp_path: Path):
    """With the mapping no job is left out, and faster GPUs shorten the waits."""
    path = study(tmp_path, MAPPED)
    assert CliRunner().invoke(app, ["sweep", str(path), "--farm", "serial"]).exit_code == 0
    ranking = procure.recommend(path, k=3, resamples=0).ranking
    has_gpus = ranking["package_id"].str.contains("Fast|Slow")
    assert has_gpus.any() and (ranking["jobs_left_out"] == np.where(has_gpus, 0, 20)).all()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("v100 = { speed = { H200 = 2 } }", "gpu_models.v100.speed: no quote .*'H200'"),
        ('v100 = { runs_on = ["A100"] }', "gpu_models.v100.runs_on: no quote .*'A100'; offered: H100, L40S"),
        ("v100 = { speed = { H100 = 0 } }", "a speed is a number above 0"),
        ('any = { runs_on = ["L4"] }', "'L4'"),
        ("v100 = { share = 1.5 }", "gpu_models.v100.share"),
        ('v100 = { runs_on = ["a|b"] }', "a GPU model is named without"),
    ],
)  # fmt: skip
def test_a_wrong_mapping_is_named_by_its_key(tmp_path: Path, more: str, says: str):
    from procure.study.check import check_study

    path = study(tmp_path, f"[gpu_models]\n{more}\n")
    with pytest.raises(TableError, match=says) as error:
        check_study(path)
    assert str(error.value).count(str(path)) == 1
    with pytest.raises(TableError, match=says):
        procure.load_plan(procure.load_study(path))


def test_models_are_listed_by_gpu_hours():
    jobs = pd.concat([gpu_jobs(4, "K80"), gpu_jobs(2, "p100").assign(n_nodes=9), gpu_jobs(2, "h100")])
    found = asked_gpu_models(jobs, ["H100"], {"K80": GpuModel(runs_on=("H100",))})
    assert found["model"].tolist() == ["p100", "k80"] and found["runs_on"].tolist() == [[], ["H100"]]
    assert found["gpu_hours"].tolist() == [10.0, 2.2]
    assert asked_gpu_models(gpu_jobs(2, ""), [], {}).empty


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("tesla_v100", "V100"), ("Tesla V100-16GB", "V100"), ("Tesla V100-SXM2-32GB", None), ("gpu:l40s", "L40S"),
        ("nvidia_a100-sxm4-80gb", "A100 80GB"), ("a100", "A100"), ("NVIDIA H100 PCIe", "H100 PCIe"), ("h100", "H100"),
        ("tesla_v100-32gb", None), ("V100 SXM2 32GB", None), ("H100 64GB", None), ("a100-80g", "A100 80GB"),
        ("a100_80", "A100 80GB"), ("A100 80 GB", "A100 80GB"), ("H100 80GB PCIe", "H100 PCIe"), ("A100-40GB", "A100"),
        ("A100-80GB", "A100 80GB"), ("v100s", None), ("h100_1g.10gb", None), ("H100 NVL", None),
        ("rtx_4000_ada", None), ("gpu", None), ("", None),
    ],
)  # fmt: skip
def test_a_name_means_a_row_of_the_table_or_none(name: str, model: str | None):
    """A size of memory that is stated is the row's, or there is none."""
    found = find_gpu(name)
    assert (found.model if found else None) == model


def test_the_table_of_nominal_speeds_is_whole():
    """Every row has memory, bandwidth and a source, and is found by its own name; no MIG slice exceeds its GPU."""
    assert len({one.model for one in nominal_gpus()}) == len(nominal_gpus()) >= 15
    for one in nominal_gpus():
        assert one.memory_gb > 0 and one.bandwidth_gb_s > 0 and one.source
        assert find_gpu(one.model) == one
        slices = [re.fullmatch(r"(\d)g\.(\d+)gb", profile) for profile in one.mig.split()]
        assert all(part and int(part[1]) <= 7 and int(part[2]) <= one.memory_gb for part in slices)


@pytest.mark.parametrize(
    "cell", ["1xH100 + 4xL40S", "H100|L40S", "H100+H100", "2x H100 + 2x h100", "NVIDIA A100 / L40S", "4x A100 + 0x L4"]
)
def test_several_models_in_one_quoted_node_are_refused_unless_numbered(tmp_path: Path, cell: str):
    """In a quote table as in a sheet: the sentence names the cell, and what to write instead."""
    text = QUOTES.replace("H100", cell, 1)
    assert text != QUOTES
    (tmp_path / "quotes.csv").write_text(text)
    with pytest.raises(TableError) as error:
        procure.read_quotes(tmp_path / "quotes.csv")
    assert cell in str(error.value) and "column gpu_type" in str(error.value)
    assert "2x A100 + " in str(error.value) or "are 5 GPUs" in str(error.value)


def test_a_mapping_of_a_model_that_no_job_asks_for_is_named(tmp_path: Path):
    """A slip in the name would leave the jobs where they were, in silence."""
    path = study(tmp_path, MAPPED.replace("tesla_v100", "tesla_v10"))
    said = " ".join(CliRunner().invoke(app, ["study", "check", str(path)]).stderr.split())
    assert "careful: gpu_models.tesla_v10: no job asks for this model; did you mean tesla_v100?" in said
    assert "asks for this model" not in CliRunner().invoke(app, ["study", "check", str(study(tmp_path, MAPPED))]).stderr


def test_models_with_less_memory_than_stated_are_left_out():
    """Jobs of a V100 with 32 GB are not proposed for 16 or 24 GB, though no row has its speed."""
    lines = propose_mapping("tesla_v100-32gb", ["P100", "A10", "A100-80GB", "FancyGPU"])
    assert lines[1] == 'runs_on = ["A100-80GB", "FancyGPU"]'
    assert '# "P100" has 16 GB, "tesla_v100-32gb" 32 GB' in lines
    assert '"A100-80GB" = 1.0  # not in the table of nominal speeds: fill in' in lines
