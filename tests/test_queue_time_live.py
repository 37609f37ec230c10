"""`procure queue predict --live` and `watch` ask squeue: here a stand-in on PATH that prints what one printed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.queue_time import store
from procure.queue_time.explain import cautions
from procure.queue_time.predict import Request, pending_waits, situation
from procure.queue_time.state import FIELDS, live_state
from procure.queue_time.training import train
from tests.test_queue_time_model import QUICK, busy_model, busy_site

RUN = CliRunner()
PRINTED = """\
JOBID|USER|PARTITION|STATE|REASON|CPUS|NODES|MIN_MEMORY|TRES_PER_NODE|TIME_LIMIT|SUBMIT_TIME|START_TIME|PRIORITY
101|bob|batch|RUNNING|None|48|1|16G|N/A|1-00:00:00|1603180800|1603184400|400
102|alice|batch|PENDING|Resources|32|1|500M|N/A|2:00:00|1603188000|N/A|300
103_[1-3%2]|alice|batch|PENDING|Priority|4|1|1000Mc|gres:gpu:1|2:00:00|1603188060|N/A|200
104|carol|batch|PENDING|JobHeldUser|4|1|1G|N/A|2:00:00|1603188060|N/A|0
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quickly trained model file."""
    path = tmp_path_factory.mktemp("live") / "site.model"
    store.save(busy_model(), path)
    return path


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Put a squeue on PATH that prints a text, notes how it was called, and ends with a code."""

    def install(text: str, code: int = 0) -> Path:
        (tmp_path / "printed").write_text(text)
        script = tmp_path / "squeue"
        script.write_text(
            f'#!/bin/sh\necho "$SLURM_TIME_FORMAT $*" > "{tmp_path}/asked"\n'
            f'cat "{tmp_path}/printed"\n[ {code} = 0 ] || echo "slurm_load_jobs error" >&2\nexit {code}\n'
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return tmp_path / "asked"

    return install


def live(model: Path, *words: str) -> list[str]:
    return ["queue", "predict", "--model", str(model), "--cpus", "4", "--time", "1h", "--live", *words]


def test_live_asks_squeue_for_known_fields_and_answers(model: Path, squeue) -> None:  # type: ignore[no-untyped-def]
    """squeue is asked for our fields with times in Unix seconds; the answer is the usual JSON object."""
    asked = squeue(PRINTED)
    result = RUN.invoke(app, live(model, "--deadline", "2h", "--format", "json"))
    assert result.exit_code == 0, result.output
    assert 0 <= json.loads(result.stdout)["p_before_deadline"] <= 1
    assert asked.read_text().split(maxsplit=1)[0] == "%s"
    assert FIELDS in asked.read_text()


def test_live_rows_are_running_and_waiting_jobs(squeue) -> None:  # type: ignore[no-untyped-def]
    """An array is a row per task, a held job does not compete, memory per CPU and GPUs are per node."""
    squeue(PRINTED)
    found = live_state().set_index("job_id")
    assert list(found.index) == ["101", "102", "103_1", "103_2"]
    assert found.loc["101", "start_time"] == 1603184400
    assert found.loc["103_2", "mem_mb_per_node"] == 4000
    assert found.loc["103_2", "gpus_per_node"] == 1
    assert found["start_time"].isna().sum() == 3


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("      47 batch sleep alice R 0:10 1 c1\n", 0, "unknown layout"),
        ("JOBID|USER|PARTITION\n1|a|b\n", 0, "column STATE is missing"),
        (PRINTED + "105|dave\n", 0, "line 5: 2 fields where 13 are known"),
        (PRINTED.replace("1603184400", "N/A"), 0, "line 1, column START_TIME: 'N/A' is not a time"),
        ("", 1, "squeue failed: slurm_load_jobs error"),
    ],
)
def test_a_squeue_that_cannot_be_read_is_one_sentence(  # type: ignore[no-untyped-def]
    model: Path, squeue, text: str, code: int, said: str
) -> None:
    """An unknown layout, a missing column, a broken line and a failing squeue name what is wrong."""
    squeue(text, code)
    for words in (live(model), ["queue", "watch", "--model", str(model)]):
        result = RUN.invoke(app, words)
        assert isinstance(result.exception, TableError)
        assert said in str(result.exception)


@pytest.mark.parametrize("partition", ["", "batch"])
def test_a_model_without_partitions_sees_the_whole_queue(squeue, partition: str) -> None:  # type: ignore[no-untyped-def]
    """All that waits is ahead and all that runs counts, whatever partition is asked for; a caution says so."""
    squeue(PRINTED.replace("103_[1-3%2]|alice|batch", "103_[1-3%2]|alice|long"))
    site, queue = train(busy_site(300).assign(partition=""), settings=QUICK), live_state()
    asked = Request(4, 3600, partition=partition, user="alice")
    here = situation(site, [asked], queue)
    assert here.features["partition_depth"].iloc[0] == 3 and here.features["cpus_in_use"].iloc[0] > 0
    assert any("names no partitions" in one.text for one in cautions(site, asked, here, 0, queue))
    assert len(pending_waits(site, queue, "alice")) == 3
