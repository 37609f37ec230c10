"""The command line as a whole: help everywhere, exit codes, one JSON document on stdout, no traceback."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from small_study import swept
from test_limits import commands
from typer.testing import CliRunner

from procure.cli.common import Format, print_table
from procure.cli.main import app
from procure.errors import TableError
from procure.policies import catalog
from procure.policies.entries import REMOVED

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_every_command_shows_an_example(name):
    """--help of every command works and holds an example that calls it."""
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    assert f"procure {name}" in shown.output.replace("Usage: ", "", 1).split("Usage", 1)[-1]
    assert "Example" in shown.output


def test_version_is_printed():
    assert CliRunner().invoke(app, ["--version"]).output.startswith("procure ")


def test_help_imports_nothing_heavy():
    """`procure --help` loads neither pandas nor numpy, numba, pyarrow, dask or xgboost."""
    script = (
        "import sys, procure.cli.main\n"
        "print([m for m in ('pandas', 'numpy', 'numba', 'pyarrow', 'dask', 'xgboost', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


BAD = [
    (("nosuch",), 2, "No such command"),
    (("simulate", "--jobs", "x"), 2, "--nodes"),
    (("packages", "quotes/example-2023.csv", "--budget", "many"), 2, "many"),
    (("simulate", "--jobs", "nope.parquet", "--nodes", "nope.csv"), 1, "nope.parquet: no such file"),
    (("sweep", "nope.toml"), 1, "nope.toml: no such file"),
    (("packages", "quotes/example-2023.csv", "--budget", "1000"), 1, "the budget excludes every package"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), BAD, ids=[" ".join(a)[:40] for a, _, _ in BAD])
def test_bad_input_is_one_error(arguments, code, message, procure, monkeypatch):
    """Bad usage exits with 2, failure with 1; stderr holds the reason and no traceback, stdout nothing."""
    monkeypatch.chdir(ROOT)
    ended, out, said = procure(*arguments)
    assert ended == code
    assert message in said
    assert "Traceback" not in said
    assert out == ""


JOBS = "job_id,submit_time,run_time,cpus_per_node\n1,0,60,1\n2,5,60,1\n"
NODES = "node_id,cpus,mem_mb\nn1,4,8000\n"
QUOTES = str(ROOT / "quotes" / "example-2023.csv")
BAD_VALUES = [
    ("recommend STUDY --constraint p95_wait", "--constraint"),
    ("recommend STUDY --constraint p95_wait<=1h --constraint p95_wait>=2h", "contradict each other"),
    ("recommend STUDY --objective foo", "--objective"),
    ("recommend STUDY --out ranking.txt", ".parquet or .csv"),
    ("what-if STUDY --package x --growth 0", "growth 0 was given"),
    ("what-if STUDY --package x --gpu-share 2", "--gpu-share"),
    ("what-if STUDY --package x --budget 60k", "removed"),
    ("what-if STUDY --package x --policy esy", "did you mean easy"),
    ("what-if STUDY --package x --growth 2", "no quote is named"),
    ("what-if STUDY --package x", "nothing changes"),
    ("explain STUDY x", "no quote is named"),
    ("explain STUDY x x", "the same package is given twice"),
    ("train STUDY --set model.feature-set=foo", "did you mean feature_set"),
    ("recommend STUDY --set recommend", "KEY=VALUE"),
    ("recommend STUDY --set workloads.7.jobs=a.csv", "workloads"),
    ("sweep STUDY --set farm.jobs=0", "farm.jobs"),
    ("sweep STUDY --set farm.wait=-1", "farm.wait"),
    ("sweep STUDY --set farm.scheduler_file=f", "unknown key"),
    ("sweep STUDY --shard x", "--shard"),
    ("packages QUOTES --budget 100000 --set packages.max_power=9", "did you mean max_power_w"),
    ("sweep STUDY --farm foo", "--farm"),
    ("packages QUOTES", "a budget is needed"),
    ("quotes check QUOTES --rate EUR", "--rate"),
    ("quotes check QUOTES --set currency=bits", "--set"),
    ("sweep STUDY --set farm.walltime=soon", "--set"),
    ("packages STUDY --costs --package x", "--package"),
    ("study init new.toml --budget much", "--budget"),
    ("workload slice jobs.csv --load 0 --out more.csv", "--load"),
    ("workload generate --n-jobs 1000000000000 --out more.csv", "at most 10,000,000"),
    ("workload slice jobs.csv --out more.csv", "--day"),
    ("workload days jobs.csv --tz Mars/Olympus", "--tz"),
    ("workload slice jobs.csv --day 2024-02-30 --out day.csv", "is not a day; write YYYY-MM-DD"),
    ("workload slice jobs.csv --from noon --out day.csv", "--from"),
    ("workload import jobs.csv --preset foo", "--preset"),
    ("workload import jobs.csv --log-format csv --column foo", "--column"),
    ("queue train jobs.csv --tz Mars --out site.model", "--tz"),
    ("simulate --jobs jobs.csv --nodes nodes.csv --policy foo", "--policy"),
    ("simulate --jobs jobs.csv --nodes nodes.csv --policy easy:order=foo", "'foo' is not known"),
    ("simulate --jobs jobs.csv --nodes nodes.csv --logged-speed fast", "--logged-speed"),
    ("compare --jobs jobs.csv --nodes nodes.csv --policies foo", "--policies"),
    ("compare --jobs jobs.csv --nodes nodes.csv --slices hour", "--slices"),
    ("compare-rent STUDY --prices nodes.csv --wait-bound soon", "--wait-bound"),
    ("workload days jobs.csv --by hardest", "--study"),
    ("workload days jobs.csv --out d", "nothing is chosen"),
    ("recommend STUDY --pareto wait", "two axes"),
    ("recommend STUDY --pareto wait,colour", "colour"),
    ("recommend STUDY --pareto wait,cost --rule published", "--rule"),
    ("recommend STUDY --constraint waits<=1h", "did you mean"),
    ("search STUDY --set search.share=2", "search.share: 2 was given"),
    ("search STUDY --method magic", "is unknown"),
    ("recommend STUDY -k ten", "'ten' was given; a whole number is needed"),
    ("recommend STUDY -k 0", "'0' was given; at least 1 is needed"),
    ("recommend STUDY --format xml", "'xml' is not one of 'table', 'json', 'csv'"),
    ("recommend STUDY --resamples 1000000000000", "allowed"),
    ("workload generate --out more.csv --seed 99999999999999999999", "allowed"),
    ("simulate --jobs jobs.csv --nodes nodes.csv --gantt chart.doc", "--gantt"),
]


@pytest.mark.parametrize(("line", "message"), BAD_VALUES, ids=[line for line, _ in BAD_VALUES])
def test_a_bad_value_of_an_option_is_bad_usage(line, message, tmp_path, monkeypatch):
    """It exits with 2, before anything is read or written; only what a file holds is a failure."""
    monkeypatch.chdir(tmp_path)
    Path("jobs.csv").write_text(JOBS)
    Path("nodes.csv").write_text(NODES)
    words = [{"STUDY": str(swept()), "QUOTES": QUOTES}.get(word, word) for word in line.split()]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "300"})
    assert done.exit_code == 2, (done.output, done.exception)
    assert message in done.stderr and done.stdout == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv", "nodes.csv"]


def test_the_objectives_that_are_listed_are_those_of_this_study():
    """The example quotes state no watts, so energy is none that could be chosen."""
    done = CliRunner().invoke(app, ["recommend", str(swept()), "--objective", "energi"], env={"COLUMNS": "300"})
    assert "cost-per-job" in done.stderr and "energy" not in done.stderr


@pytest.mark.parametrize(
    "line", ["quotes check .", "workload describe .", "workload import . --log-format csv", "study check ."]
)
def test_a_folder_is_not_said_to_be_missing(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, line.split())
    assert isinstance(done.exception, TableError) and str(done.exception) == ".: is a folder; name a file"


def test_package_ids_and_numbers_stay_whole_in_a_narrow_terminal(monkeypatch, capsys):
    """At 80 columns ids are broken at their commas only, numbers not at all; a wide one has them on a line."""
    table = pd.DataFrame({"rank": [1, 2], "package_id": ["ComputeNode3=92,BigMemNode2=14,GPUNode4=4", "GPUNode10=1"]})
    for name in ("price", "tco", "low", "high"):
        table[name] = [1234567.5, 2.0]
    for width in (80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(table.assign(wait_is="simulated", ranks="1–50"), Format.TABLE, "a title")
        said = capsys.readouterr().out
        assert max(map(len, said.splitlines())) <= width
        assert said.count("1,234,568") == 4 and "2.0" not in said and said.count("simulated") == 2
        parts = ["ComputeNode3=92,", "BigMemNode2=14,", "GPUNode4=4"]
        assert [part in said.split() for part in parts] == [width == 80] * 3
        assert ("".join(parts) in said) == (width == 200)
    monkeypatch.setenv("COLUMNS", "80")
    print_table(pd.DataFrame({"cost": ["price"]} | {"".join(parts).replace("92", n): [1] for n in "123"}), Format.TABLE)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80  # ids in heads are broken, too


def test_a_defect_is_one_line(procure, monkeypatch):
    """An error that nobody foresaw is one line without a traceback, exit code 1."""

    def broken(path, reading):
        raise RuntimeError("oh")

    monkeypatch.setattr("procure.cli.quotes.read_quote_file", broken)
    code, out, said = procure("quotes", "check", "x.csv")
    assert (code, out) == (1, "")
    assert "RuntimeError: oh" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("arguments", [("quotes", "check"), ("workload", "describe"), ("study", "check")])
def test_a_file_that_is_no_text_is_told_without_codecs(procure, tmp_path, arguments):
    """A table or settings that are not UTF-8: the sentence names the byte."""
    path = tmp_path / "x.toml"
    path.write_bytes(b"name\n\xb7\xff\n")
    code, _, said = procure(*arguments, path)
    assert code == 1 and "the byte 0xb7 in it is not text in UTF-8" in said
    assert "codec" not in said


VOID = (
    ("learn train --jobs j.csv --nodes n.csv --out p --method ppo-published --set generations=5", "generations"),
    ("learn train --jobs j.csv --nodes n.csv --out p --set steps=5", "steps"),
    ("learn evaluate p --jobs j.csv --nodes n.csv --set max_jobs=5", "max_jobs"),
    ("workload days log.swf -n 5", "-n"),
    ("packages study.toml --package a=1", "--package"),
)


@pytest.mark.parametrize(("words", "option"), VOID)
def test_a_void_option_is_bad_usage(words: str, option: str) -> None:
    """Exit code 2, nothing on stdout, and the option's name, though not one of the files exists."""
    done = CliRunner().invoke(app, words.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.search(rf"(?<!\S)'?{option}\b", done.stderr) and "no such file" not in done.stderr


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("warm", "procure doctor --warm"),
        ("queue train log.swf --out m --refit", "train anew"),
        ("study merge s.toml", "procure study status STUDY --merge"),
        ("window compare", "solve_window"),
        ("search s.toml --stable-rounds 2", "--set search.stable_rounds=VALUE"),
        ("sweep s.toml --memory 3", "--set farm.memory=VALUE"),
        ("packages q.csv --max-power 3", "--set packages.max_power_w=VALUE"),
        ("simulate --depth 4", "--policy NAME:depth=VALUE"),
        ("queue train log --preset beocat", "--set preset=VALUE"),
        ("award s.toml --no-verify", "procure recommend"),
        ("topology check s.csv --plot x.svg", "--format json"),
    ],
)
def test_what_was_removed_is_named_with_what_to_do_instead(words: str, instead: str) -> None:
    """Exit code 2, and the sentence of the one table."""
    done = CliRunner().invoke(app, words.split(), prog_name="procure", env={"COLUMNS": "300"})
    assert done.exit_code == 2 and "removed" in done.stderr and instead in done.stderr


def test_a_removed_parameter_of_a_policy_is_named_with_what_to_do_instead() -> None:
    for label, instead in REMOVED.items():
        name, colon, key = label.partition(":")
        if colon:
            with pytest.raises(TableError, match=re.escape(instead)):
                catalog.spec(name, {key: 1})
