"""`procure queue`: what users type, and what they are told."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.queue_time import evaluation, store
from procure.queue_time import predict as room
from procure.queue_time.state import parse_state
from tests.test_queue_time_model import QUICK, busy_model, busy_site

RUN = CliRunner()
LINE = "7|alice|batch|{state}|None|{cpus}|1|500M|N/A|2:00:00|2020-10-20T08:00:00|2020-10-20T08:00:00|100"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log and a quickly trained model of it."""
    path = tmp_path_factory.mktemp("queue")
    jobs = busy_site(900)
    jobs.to_parquet(path / "jobs.parquet")
    store.save(busy_model(), path / "site.model")
    (path / "squeue.txt").write_text(
        "\n".join([LINE.format(state="RUNNING", cpus=48), LINE.format(state="PENDING", cpus=32).replace("7|", "8|", 1)])
    )
    return path


def ask(folder: Path, *words: str) -> str:
    result = RUN.invoke(app, ["queue", *words])
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.stdout


def predict(folder: Path, *words: str) -> list[str]:
    return ["predict", "--model", str(folder / "site.model"), "--cpus", "4", "--time", "1:00:00", *words]


@pytest.mark.slow
def test_watch_and_update(folder: Path) -> None:
    words = ["--state", str(folder / "squeue.txt"), "--user", "alice"]
    assert "8" in ask(folder, "watch", "--model", str(folder / "site.model"), *words)
    later = busy_site(900)
    for name in ("submit_time", "start_time", "end_time"):
        later[name] += 50 * 86400
    later.to_parquet(folder / "later.parquet")
    ask(
        folder, "train", str(folder / "later.parquet"), "--update", str(folder / "site.model"),
        "--out", str(folder / "new.model"),
    )  # fmt: skip
    assert (folder / "new.model").is_file()


def asked(folder: Path, verb: str, log: str, *words: str) -> str:
    """What a command of a log says on stderr."""
    result = RUN.invoke(app, ["queue", verb, str(folder / log), *words])
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.stderr


def test_evaluate_judges_the_product_at_its_cadence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Naive guesses stand beside our rows, and it is said how the model that was judged is used."""
    monkeypatch.setattr(evaluation, "Settings", lambda **given: QUICK)
    words = ["evaluate", str(folder / "jobs.parquet"), "--method", "procure", "--format", "json"]
    result = RUN.invoke(app, ["queue", *words])
    rows = json.loads(result.stdout)
    assert {"zero", "last_like", "partition_5", "recent", "procure"} < {row["method"] for row in rows}
    assert "procure was trained at the cut" in result.stderr


def test_evaluate_takes_a_moment_to_test_from(folder: Path) -> None:
    jobs = pd.read_parquet(folder / "jobs.parquet")
    cut = int(jobs["submit_time"].iloc[600])
    found = evaluation.evaluate(jobs, methods=["gbt"], test_from=cut)
    assert found.rows[0]["n_test"] == int((jobs["submit_time"] >= cut).sum())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--partition", "bacth"], "did you mean batch"),
        (["--cpus", "9999"], "the most seen"),
        (["--state", "nowhere.txt"], "no such file"),
        (["--deadline", "2001-01-01T00:00"], "has passed"),
    ],
)
def test_bad_requests_are_one_sentence(folder: Path, words: list[str], said: str) -> None:
    result = RUN.invoke(app, ["queue", *predict(folder, *words)])
    assert isinstance(result.exception, TableError)
    assert said in str(result.exception)


@pytest.mark.parametrize("words", [["--time", "-5"], ["--mem", "lots"], ["--deadline", "soon"], ["--cpus", "0"]])
def test_bad_usage_is_exit_2(folder: Path, words: list[str]) -> None:
    """A negative time, memory that is none and an unreadable deadline are bad usage."""
    assert RUN.invoke(app, ["queue", *predict(folder, *words)]).exit_code == 2


def test_a_real_squeue_is_read(shared_data) -> None:  # type: ignore[no-untyped-def]
    """Every field layout of a real Slurm 22.05: running and pending jobs, held and dependent ones left out."""
    text = shared_data("slurm_22_05/squeue-all-pipe.txt").read_text()
    found = parse_state(text, "squeue")
    assert {"PENDING", "RUNNING"} == set(found["state"])
    assert found.loc[found["state"] == "RUNNING", "start_time"].notna().all()
    assert "27" not in set(found["job_id"])


def test_limits_and_memory_are_read_as_sbatch_reads_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--time 480 is eight hours, --mem 64G is 65,536 MiB, UNLIMITED is no limit."""
    asked = []
    monkeypatch.setattr(room, "check_request", lambda site, request, state: asked.append(request))
    words = ["predict", "--model", str(folder / "site.model"), "--cpus", "4", "--format", "json"]
    for time, mem in (("480", "64G"), ("2-00", "4000"), ("UNLIMITED", "1T")):
        ask(folder, *words, "--time", time, "--mem", mem)
    assert [(one.requested_time, one.mem_mb) for one in asked] == [
        (28_800, 65_536), (172_800, 4000), (0, 1_048_576),
    ]  # fmt: skip
