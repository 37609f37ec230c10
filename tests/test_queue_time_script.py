"""A batch script's #SBATCH lines, and what of the queue does not compete yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from procure.errors import TableError
from procure.queue_time.predict import Request
from procure.queue_time.script import read_script
from procure.queue_time.state import HELD, parse_state

HEAD = (
    "JOBID|USER|PARTITION|STATE|REASON|CPUS|NODES|MIN_MEMORY|TRES_PER_NODE|TIME_LIMIT|SUBMIT_TIME|START_TIME|PRIORITY\n"
)


def script(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/bash\n" + "\n".join(f"#SBATCH {line}" for line in lines) + "\nsrun x\n#SBATCH -n 999\n")
    return path


@pytest.mark.parametrize(
    ("lines", "request_"),
    [
        (("-n 8 -c2", "--time=2:00:00  # two hours", "--mem=8G"), Request(16, 7200, 8192)),
        (("-N 2", "--ntasks-per-node=4", "-t 30", "-p fast,slow"), Request(8, 1800, 0, 0, 2, "fast")),
        (("--ntasks 6", "--ntasks-per-node 4", "--time 1-00"), Request(6, 86400, 0, 0, 2)),
        (("-N2", "--gres=gpu:a100:2", "-t 60"), Request(2, 3600, 0, 4, 2, gpu_type="a100")),
        (("--gpus=h100:3", "-t 60"), Request(1, 3600, 0, 3, gpu_type="h100")),
        (("-n 4", "--gpus-per-task=1", "--mem-per-cpu=2G", "-t 60"), Request(4, 3600, 8192, 4)),
        (("-J x", "--exclusive", "--gres=gpu"), Request(1, 0, 0, 1)),
    ],
)
def test_a_script_asks_for_what_sbatch_reads(tmp_path: Path, lines: tuple[str, ...], request_: Request) -> None:
    """CPUs, nodes, memory, GPUs with their model, limit and partition; after the first command nothing is read."""
    assert read_script(script(tmp_path, *lines)).request == request_


def test_what_a_forecast_does_not_count_is_said(tmp_path: Path) -> None:
    """Dependencies, begin times, arrays with a limit and further components are named, a sentence each."""
    given = ("-t 60", "-d afterok:12", "--begin=16:00", "--array=0-99%5", "hetjob", "-n 999")
    found = read_script(script(tmp_path, *given))
    said = " / ".join(found.notes)
    assert found.request == Request(1, 3600)
    for text in ("afterok:12", "16:00", "first of 100 array tasks, and at most 5 of them", "first component"):
        assert text in said


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ((), "no #SBATCH line"),
        (("-n many",), "--ntasks=many is not a whole number"),
        (('-J "x',), "line 2: a quotation"),
        (("-n 2", "--time=$LIMIT"), "line 3: --time=.LIMIT"),
        (("--mem=lots", "-t 60"), "line 2: --mem=lots"),
        (("-t 60", "--mem-per-cpu=lots"), "line 3: --mem-per-cpu=lots"),
    ],
)
def test_a_script_that_cannot_be_read_is_refused(tmp_path: Path, lines: tuple[str, ...], text: str) -> None:
    with pytest.raises(TableError, match=text) as error:
        read_script(script(tmp_path, *lines))
    assert "job.sh" in str(error.value)
    with pytest.raises(TableError, match="no such file"):
        read_script(tmp_path / "none.sh")


def test_jobs_that_do_not_compete_are_kept_apart() -> None:
    """Held and dependent jobs, and jobs and array tasks beyond a limit, are left out, or kept with their reason."""
    rest = "1|1|1G|gres:gpu:a100:2|1:00:00|2026-01-01T00:00:00|N/A|1"
    lines = [f"2_[0-9%3]|a|b|PENDING|Priority|{rest}", f"3|a|b|PENDING|None|{rest}"]
    reasons = ("Dependency", "PartitionTimeLimit", "PartitionNodeLimit", "JobHeldAdmin", "JobHeldUser")
    lines += [f"{n}|a|b|PENDING|{reason}|{rest}" for n, reason in enumerate(reasons, 4)]
    text = HEAD + "\n".join(lines)
    assert parse_state(text, "squeue")["job_id"].to_list() == ["2_0", "2_1", "2_2", "3"]
    whole = parse_state(text, "squeue", held=True)
    held = whole[whole["state"] == HELD]
    assert held["reason"].value_counts().to_dict() == {"JobArrayTaskLimit": 7} | dict.fromkeys(reasons, 1)
    assert set(whole["gpu_type"]) == {"a100"} and set(whole["gpus_per_node"]) == {2}
    assert whole.set_index("job_id").loc["3", "reason"] == ""
