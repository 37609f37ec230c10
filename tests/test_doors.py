"""Whatever leaves procure goes through one door: to the terminal, into CSV, and onto the disk."""

import ast
import csv
import io
import itertools
import json
import re
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_lab import make_study
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.files.archive import Archive, write_archive
from procure.files.write import as_csv, with_formulas, without_formulas
from procure.page.html import write_page
from procure.queue_time import store
from procure.queue_time.store import train
from procure.tables import JOB, read, write
from procure.text import printable
from procure.topology.fat_tree import make_nodes
from tests.test_queue_time_model import QUICK, busy_site

pytestmark = pytest.mark.plain

ROOT = Path(procure.__file__).parent
EVIL = "=\x1b]0;own\x07\x1b[31m\x9b31m\u202e\r@x"
"""A formula, an OSC, a CSI, a C1 control, the mark that turns writing round, and what overwrites a line."""


@cache
def calls() -> list[tuple[str, str, ast.Call]]:
    """List all calls in the package: the file, the function as it is written, and the call."""
    return [
        (path.relative_to(ROOT).as_posix(), ast.unparse(node.func), node)
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]


def test_only_the_shared_doors_print():
    """What prints writes control characters out first; a command's own output and a version are let through."""
    doors = {"cli/common.py", "cli/main.py", "cli/progress.py", "cli/start.py", "coschedule/run.py"}
    printing = ("print", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write", "click.echo")
    found = {path for path, name, _ in calls() if name in printing}
    assert found == doors


def test_only_escaped_frames_become_csv():
    found = [(path, name) for path, name, _ in calls() if name.endswith(".to_csv")]
    assert found == [("files/write.py", "safe.to_csv")]


_WRITERS = "write_text write_bytes to_parquet to_csv savefig savez ZipFile open dump".split()
_ELSEWHERE = {
    "coschedule/groups.py",  # the kernel's control files
    "serve/collector.py",  # the lock: nothing is written into it
    "queue_time/published.py",  # adds a line to a log, and ends none
}
_HELD = {"temporary", "out", "packed", "packed_arrays"}
"""How the code calls the temporary file of `whole_file`, and a file that is only memory."""


def _writes(name: str, call: ast.Call) -> bool:
    last = name.rsplit(".", 1)[-1]
    texts = [one.value for one in ast.walk(call) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if last in ("open", "ZipFile"):  # "x" makes a new file or fails: it follows no link
        return any(set(text) <= set("rwab+t") and set(text) & set("wa+") for text in texts)
    return last in _WRITERS and not (last == "to_csv" and len(call.args) == 0)


def test_only_temporary_files_are_written():
    """A file is written under a new name and renamed, or is only memory: no link is followed, no target cut."""
    found, wrong = 0, []
    for path, name, call in calls():
        if path in _ELSEWHERE or not _writes(name, call):
            continue
        found += 1
        if not _HELD & {name.split(".")[0], *(ast.unparse(each) for each in call.args[:1])}:
            wrong.append((path, ast.unparse(call)))
    assert found > 12
    assert wrong == []


@pytest.mark.parametrize(
    "save",
    [
        lambda path: write(pd.DataFrame({"a": [1]}), path.with_name("link.csv")),
        lambda path: write_page(path.with_name("link.csv"), "<p>page</p>"),
        lambda path: write_archive(path.with_name("link.csv"), Archive({"schema": "x"}, {})),
    ],
    ids=["table", "page", "archive"],
)
def test_a_link_is_replaced_and_its_target_left_alone(save, tmp_path):
    """A link where a result is to be written does not lead to another's file."""
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs")
    (tmp_path / "link.csv").symlink_to(theirs)
    save(tmp_path / "link.csv")
    assert theirs.read_text() == "theirs"
    assert not (tmp_path / "link.csv").is_symlink() and (tmp_path / "link.csv").stat().st_size


def commanded(*arguments: object) -> str:
    """Run a command; return all that it printed."""
    done = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "100"})
    assert done.exit_code in (0, 1), done.output
    return done.output


BROKEN = f"{EVIL}\nFAKE"
NAMES = [BROKEN, "=1+1", "@x", "-x", "+x", "\tx"]


def harmless(*arguments: object) -> None:
    """Run a command for people and, where it has that, as CSV: no control, no line and no formula of a name's."""
    said = commanded(*arguments)
    assert said == printable(said, kept="\n\t") and "\nFAKE" not in said, said
    done = CliRunner().invoke(app, [*map(str, arguments), "--format", "csv"])
    for cell in itertools.chain(*csv.reader(done.stdout.splitlines(keepends=True))) if not done.exit_code else ():
        assert cell[:1] not in tuple("=@\t\r") and (cell[:1] not in tuple("+-") or float(cell) < 0), cell


@pytest.mark.parametrize(
    "words",
    [
        "compare --jobs jobs.csv --nodes nodes.csv --policies easy,coschedule",
        "simulate --jobs jobs.csv --nodes nodes.csv --policy fcfs --out s.csv",
        "topology check schedule.csv --nodes nodes.csv",
        "topology make nodes.csv",
    ],
)  # fmt: skip
def test_names_of_jobs_and_nodes_are_only_names(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    nodes = make_nodes(2, 2, 2)
    nodes["node_id"] = [f"{name}{i}" for i, name in enumerate(NAMES * 2)][: len(nodes)]
    write(nodes, "nodes.csv")
    jobs = pd.DataFrame({"job_id": NAMES, "user": NAMES, "submit_time": 0, "run_time": 9, "n_nodes": 3})
    write(jobs.assign(cpus_per_node=1), "jobs.csv")
    taken = [";".join(nodes["node_id"][i : i + 3]) for i in (0, 2, 5, 1, 3, 4)]
    write(jobs[["job_id"]].assign(submit_time=0, start_time=0, end_time=9, node_ids=taken), "schedule.csv")
    harmless(*words.split())


@pytest.mark.slow
def test_names_in_a_queue_are_only_names(tmp_path, monkeypatch):
    """Jobs, users and partitions of a log, of what squeue printed, and of a model trained on them."""
    monkeypatch.chdir(tmp_path)
    jobs = busy_site(300)
    jobs["user"], jobs["partition"] = NAMES * 50, [BROKEN, "=p"] * 150
    store.save(train(jobs[:250], settings=QUICK), Path("site.model"))
    write(jobs, "jobs.parquet")
    row = "{0}|{0}|{0}|PENDING|4|1|1G|1:00:00|2020-10-10T10:00:00|N/A"
    names = "JOBID|USER|PARTITION|STATE|CPUS|NODES|MIN_MEMORY|TIME_LIMIT|SUBMIT_TIME|START_TIME"
    for name in (EVIL.replace("\r", ""), *NAMES[1:5]):
        Path("squeue.txt").write_text("\n".join([names, row.format(name)]))
        known = ("--model", "site.model", "--state", "squeue.txt")
        harmless("queue", "watch", *known, "--user", name)
        for more in ((), ("--what-if",)) if name is NAMES[1] else ((),):
            asked = ("--cpus", 4, "--time", "1:00:00", "--partition", name)
            harmless("queue", "predict", *known, *asked, *more)
    harmless("queue", "train", "jobs.parquet", "--update", "site.model", "--out", f"{EVIL}.model")


@pytest.mark.slow
def test_names_of_quotes_are_only_names(tmp_path, monkeypatch):
    """Types, categories and vendors, where packages are listed, ranked, explained, changed and searched."""
    monkeypatch.chdir(tmp_path)
    study, evil = make_study(tmp_path, n_jobs="60", budget="60_000"), EVIL[1:].replace("\r", "")
    rows = [f"@S,{evil}c,8,32,0,5000,4.5,{evil}", f"{evil},b,16,512,0,9000,5,+v", "-G[b],g,16,64,2,15000,6,=v"]
    Path("quotes.csv").write_text("\n".join(["name,category,cpus,mem_gb,gpus,price_usd,spec_rate,vendor", *rows]))
    commanded("sweep", study, "--farm", "serial")
    ranked = json.loads(CliRunner().invoke(app, ["recommend", str(study), "--format", "json"]).stdout)
    first, second = (one["package_id"] for one in ranked[:2])
    for command in ("packages", "recommend", "explain", "what-if", "search", "evaluate"):
        more = {
            "explain": (first, second),
            "what-if": ("--package", first, "--growth", 1.5),
            "search": ("--set", "search.runs=8"),
        }
        harmless(command, study, *more.get(command, ()))
    harmless("quotes", "check", "quotes.csv")


SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20"


@given(st.lists(st.text(alphabet=f"{SIGNS};,\t\r\n' a\"", max_size=12), min_size=1, max_size=4))
def test_no_reader_of_csv_sees_a_formula(texts):
    """Whichever of commas, semicolons, tabs and breaks separate, no cell begins with a sign; all is read back."""
    frame = pd.DataFrame({"job_id": texts, "user": texts[::-1]})
    content = as_csv(frame) or ""
    pieces = [cell for row in csv.reader(io.StringIO(content, newline="")) for cell in row]
    assert not [cell for cell in pieces if cell.lstrip(" ")[:1] in tuple(f"{SIGNS}\t\r\n")]
    for line in re.split(r"[;\t\r\n]", content):
        assert line.lstrip(' "')[:1] not in tuple(SIGNS)
    pd.testing.assert_frame_equal(with_formulas(without_formulas(frame)), frame)


def test_a_table_keeps_evil_names_and_a_spreadsheet_runs_none(tmp_path):
    """What begins like a formula is escaped in the file, and read back as it was."""
    names = ["=1+1", "@x", "-x", "+x", "\tx", "a\r=1+1", "\n=1", "x;=1", "\uff1d1", "'=1", "a;''-b"]
    jobs = pd.DataFrame({"job_id": names, "submit_time": 0, "run_time": 1, "cpus_per_node": 1, "user": EVIL})
    path = write(jobs, tmp_path / "jobs.csv")
    assert (as_csv(jobs) or "").encode() == path.read_bytes()
    again = read(path, JOB)
    assert again["job_id"].tolist() == jobs["job_id"].tolist() and set(again["user"]) == {EVIL}
    head, rest = path.read_bytes().split(b"\n", 1)  # with a trailing comma, as spreadsheets write
    path.write_bytes(head + b"\n" + rest.replace(b'"\n', b'",\n'))
    assert read(path, JOB)["job_id"].tolist() == jobs["job_id"].tolist()
