"""`procure queue`: what users type, and what they are told."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.queue_time import evaluation, store
from procure.queue_time.answer import cautions
from procure.queue_time.predict import Request, pending_waits, read_script, situation
from procure.queue_time.state import FIELDS, HELD, live_state, parse_state
from procure.queue_time.store import train
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
    assert {"zero", "mean", "last_like", "partition_5", "recent", "procure"} < {row["method"] for row in rows}
    assert (pd.DataFrame(rows).groupby(["split", "method"]).size() == 5).all()  # a row per deadline
    assert "procure was trained at the cut" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--partition", "bacth"], "did you mean batch"),
        (["--cpus", "9999"], "the most seen"),
        (["--gpus", "4"], "GPUs"),
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


PRINTED = """\
JOBID|USER|PARTITION|STATE|REASON|CPUS|NODES|MIN_MEMORY|TRES_PER_NODE|TIME_LIMIT|SUBMIT_TIME|START_TIME|PRIORITY
101|bob|batch|RUNNING|None|48|1|16G|N/A|1-00:00:00|1603180800|1603184400|400
102|alice|batch|PENDING|Resources|32|1|500M|N/A|2:00:00|1603188000|N/A|300
103_[1-3%2]|alice|batch|PENDING|Priority|4|1|1000Mc|gres:gpu:1|2:00:00|1603188060|N/A|200
104|carol|batch|PENDING|JobHeldUser|4|1|1G|N/A|2:00:00|1603188060|N/A|0
"""


@pytest.fixture
def model(folder: Path) -> Path:
    return folder / "site.model"


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


HEAD = PRINTED[: PRINTED.index("\n") + 1]


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
