"""Files as users have them: trailing commas, byte-order marks, other separators, standard input."""

import contextlib
import io
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from procure._version import __version__
from procure.errors import TableError
from procure.files import Archive, caches, keep_array, read_archive, whole_file, write_archive
from procure.files import read as files
from procure.files.read import _standard_input
from procure.packages import read_quotes
from procure.schemas import JOB, NODE, SCHEMAS, Column, Schema
from procure.study.existing import read_existing
from procure.tables import check, read, write
from procure.workload import generate, import_log

NODES = "node_id,cpus,mem_mb\na,4,1000\nb,8,2000\n"
JOBS = "job_id,submit_time,run_time,cpus_per_node,user\n1,100,10,4,ann\n2,160,20,8,bob\n"
QUOTES = "name,category,cpus,mem_gb,gpus,price_usd\nx,compute,32,128,0,6960\ny,compute,64,256,0,9960\n"


def trailing(text: str, extra: str = ",") -> str:
    """End every row but the header with an extra field."""
    header, *rows = text.splitlines()
    return "\n".join([header, *(row + extra for row in rows)]) + "\n"


def rows_of(reader, path):
    if reader == "nodes":
        return read(path, NODE)
    if reader == "jobs":
        return read(path, JOB)
    if reader == "quotes":
        return read_quotes(path)
    if reader == "existing":
        return read_existing(path).nodes
    return import_log(path, "csv").jobs


READERS = [("nodes", NODES), ("jobs", JOBS), ("quotes", QUOTES), ("existing", NODES), ("log", JOBS)]


@pytest.mark.parametrize(("reader", "text"), READERS, ids=[name for name, _ in READERS])
def test_a_row_with_more_fields_than_the_header_is_one_error(reader, text, tmp_path):
    """The error says which row, and how many fields it and the header have; whichever row it is."""
    path = tmp_path / "a.csv"
    n = text.split("\n")[0].count(",") + 1
    for bad, row in ((trailing(text, ",7"), 1), (text[:-1] + ",7\n", 2), (trailing(text)[:-1] + "7\n", 2)):
        path.write_text(bad)
        with pytest.raises(TableError, match=f"a.csv, row {row}: .*{n + 1} fields where the header has {n}"):
            rows_of(reader, path)


@pytest.mark.parametrize(("reader", "text"), READERS, ids=[name for name, _ in READERS])
def test_marks_separators_and_trailing_commas_of_a_spreadsheet_are_read(reader, text, tmp_path):
    """A byte-order mark, UTF-16, semicolons, tabs, and empty fields at the end of rows change no table."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    wanted = rows_of(reader, path)
    for form in (
        b"\xef\xbb\xbf" + text.encode(),
        text.replace(",", "\t").encode("utf-16"),
        text.replace(",", ";").encode(),
        text.replace(",", "\t").replace("\n", "\r\n").encode(),
        trailing(text).replace(",", ";").encode(),
        *(trailing(text, extra).encode() for extra in (",", ",,,", ", ")),
        (text[:-1] + ",\n").encode(),
        trailing(text).replace("\n", ",\n").encode(),
    ):
        path.write_bytes(form)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert rows_of(reader, path).equals(wanted), form


def test_a_comma_in_a_quoted_cell_is_no_field(tmp_path):
    """Quoted separators, quotes and breaks stay in their cell, also where the rows end with a comma."""
    path = tmp_path / "a.csv"
    path.write_text('job_id,submit_time,run_time,cpus_per_node,user\n"a;b,""c""\nd",100,10,4,ann,\n')
    assert read(path, JOB)["job_id"].tolist() == ['a;b,"c"\nd']


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_is_read(name, procure, monkeypatch):
    for command, text, wanted in (
        (["quotes", "check", name], QUOTES, "2 types"),
        (["workload", "import", name, "--log-format", "csv"], JOBS, "2 jobs kept"),
    ):
        _standard_input.cache_clear()  # a process reads it once
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code, out, err = procure(*command)
        assert code == 0 and wanted in out + err, err


def test_a_file_that_fails_halfway_leaves_the_old_one(tmp_path):
    """Neither a half-written file nor a temporary one stays behind."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), whole_file(path) as temporary:
        temporary.write_text("ne")
        raise RuntimeError
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    with pytest.raises(TableError, match="cannot be written"), whole_file(tmp_path / "no" / "b.txt"):
        pass


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_written_file_has_the_users_permissions(tmp_path, umask):
    """As every file that a program creates; the process's umask is not touched on the way."""
    code = f"import os, procure.files as f; os.umask({umask}); toggled = []; os.umask = toggled.append\n"
    code += f"with f.whole_file({str(tmp_path / 'a')!r}) as t: t.write_text('x')\nassert not toggled"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~umask


def test_an_archive_comes_back_and_is_the_same_bytes(tmp_path):
    """Head, arrays and trees, at any time; an array of Python objects is refused."""
    one = Archive({"schema": "s/1", "x": [1, None]}, {"a": np.array([1.5, np.nan])}, {"t": b"{}"})
    for name in ("a.zip", "b.zip"):
        write_archive(tmp_path / name, one)
    again = read_archive(tmp_path / "a.zip", "s/1")
    assert again.head == one.head and again.trees == one.trees
    np.testing.assert_array_equal(again.arrays["a"], one.arrays["a"])
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with pytest.raises(ValueError, match="Python objects"):
        write_archive(tmp_path / "c.zip", Archive({}, {"a": np.array([object()])}))
    with pytest.raises(TableError, match=f"schema is 's/1'; procure {__version__} reads 's/2': train it again"):
        read_archive(tmp_path / "a.zip", "s/2")
    write_archive(tmp_path / "d.zip", Archive({"schema": "s/1", "written_by": "9.9"}, {}))
    with pytest.raises(TableError, match=r"procure 9\.9 wrote it; .*: use the version that wrote it, or"):
        read_archive(tmp_path / "d.zip", "s/2")


def test_a_damaged_archive_is_one_error(tmp_path):
    """Cut off anywhere, or with one byte changed, it is read as it was or refused."""
    path = tmp_path / "a.zip"
    write_archive(path, Archive({"schema": "s"}, {"a": np.arange(50)}))
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(TableError, match="not a whole model file"):
            read_archive(path, "s")
    for at in range(0, len(whole), 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with contextlib.suppress(TableError):
            assert (read_archive(path, "s").arrays["a"] == np.arange(50)).all()


def test_a_parquet_table_is_read_from_standard_input(tmp_path):
    """``-`` holds Parquet as well as CSV: by its first bytes, in commands that read a table or a log."""
    job = {"job_id": ["1"], "submit_time": [0], "run_time": [5], "cpus_per_node": [2], "requested_time": [2**31 - 1]}
    pd.DataFrame(job).to_parquet(tmp_path / "jobs.parquet")
    program = (
        "from procure.tables import JOB, read\nfrom procure.workload import read_log\n"
        "print(len(read('-', JOB)), read_log('-').jobs['requested_time'].tolist())"
    )
    with (tmp_path / "jobs.parquet").open("rb") as stdin:
        done = subprocess.run([sys.executable, "-c", program], stdin=stdin, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "[0]"], done.stderr


def test_an_array_is_made_once_for_the_same_inputs_and_anew_for_others(tmp_path: Path):
    """What was kept is read while no input has changed; another input, a damaged file and None are made anew."""
    made: list[int] = []

    def make() -> np.ndarray:
        made.append(1)
        return np.arange(3.0) + len(made)

    first = keep_array(tmp_path, "a", ["x", np.zeros(2)], make)
    again = keep_array(tmp_path, "a", ["x", np.zeros(2)], make)
    assert np.array_equal(first, again) and len(made) == 1
    keep_array(tmp_path, "a", ["x", np.ones(2)], make)
    keep_array(tmp_path, "a", ["x", np.zeros(2, np.int64)], make)
    assert len(made) == 3
    (tmp_path / "a.zip").write_bytes(b"no archive")
    keep_array(tmp_path, "a", ["x", np.zeros(2, np.int64)], make)
    keep_array(None, "a", ["x", np.zeros(2, np.int64)], make)
    assert len(made) == 5
    assert keep_array(tmp_path, "b", [], lambda: None) is None and not (tmp_path / "b.zip").exists()
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert keep_array(blocked / "folder", "a", [], make) is not None


def test_what_other_code_made_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A change of the code that computes, or of what it imports, counts; a comment or a docstring does not."""
    source = tmp_path / "computes.py"
    source.write_text("import procure.text\n\ndef make():\n    return np.zeros(1)\n")
    module = types.ModuleType("computes")
    module.__file__ = str(source)
    monkeypatch.setitem(sys.modules, "computes", module)

    def make() -> np.ndarray:
        made.append(1)
        return np.zeros(1)

    def calls() -> int:
        made.clear()
        caches._read.cache_clear()
        keep_array(tmp_path, "a", [], make)
        return len(made)

    made: list[int] = []
    monkeypatch.setattr(make, "__module__", "computes")
    assert (calls(), calls()) == (1, 0)
    source.write_text('# why\nimport procure.text\n\ndef make():\n    """Compute."""\n    return np.zeros(1)\n')
    assert calls() == 0
    source.write_text("import procure.text\n\ndef make(): return np.ones(1)\n")
    assert calls() == 1
    imported = Path(caches.__file__).parent.parent / "text.py"
    read = caches._read.__wrapped__
    monkeypatch.setattr(caches, "_read", _Changed(read, imported))
    keep_array(tmp_path, "a", [], make)
    assert len(made) == 2


class _Changed:
    """Reads files of code, one of them as if it had changed."""

    def __init__(self, read, path: Path) -> None:
        self.read, self.path = read, path

    def __call__(self, path: Path):
        digest, imports = self.read(path)
        return (b"other" if path == self.path else digest), imports


def test_a_damaged_row_group_is_named(tmp_path):
    """With its first row, as none before it need be thrown away; a file that is cut off is said to be."""
    jobs = generate(seed=1, n_jobs=3_000)
    path = tmp_path / "jobs.parquet"
    jobs.to_parquet(path, row_group_size=1_000)
    content = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset
    content[start : start + 400] = bytes(400)
    path.write_bytes(content)
    with pytest.raises(TableError, match="row group 2 of 3, from row 1,001 on, is damaged; write it anew"):
        read(path, JOB)
    path.write_bytes(content[:5_000])
    with pytest.raises(TableError, match="cut off"):
        read(path, JOB)


def test_a_full_disk_is_said_in_the_words_of_the_system(tmp_path):
    """Arrow's own sentence holds the number of the error alone; nothing half-written stays."""
    with pytest.raises(TableError, match="No space left on device; free some in"), whole_file(tmp_path / "a.parquet"):
        raise OSError("Error writing bytes to file. Detail: [errno 28] No space left on device")
    assert not list(tmp_path.iterdir())


FILLS = """mount -t tmpfs -o size=64k tmpfs "$1" && cd "$1" && printf older > "$2" && echo mounted || exit 7
"$3" -c "from procure.cli.start import run; run()" workload import "$4" --log-format swf --out "$2" >&2
echo $?; ls -A; cat "$2"
"""


@pytest.mark.parametrize("name", ["jobs.parquet", "jobs.csv", "jobs.csv.gz"])
def test_a_disk_that_fills_during_an_import_leaves_the_older_table(tmp_path, name):
    """A file system of 64 kB that is really full: one error, the older file as it was, and nothing else beside it."""
    rows = np.random.default_rng(1).integers(1, 10**6, (20_000, 18))
    rows[:, 0], rows[:, 7], rows[:, 10] = np.arange(20_000), rows[:, 7] % 4 + 1, 1
    (tmp_path / "log.swf").write_text("\n".join(" ".join(map(str, row)) for row in rows) + "\n")
    (disk := tmp_path / "disk").mkdir()
    private = ["unshare", "--map-root-user", "--mount", "sh", "-c", FILLS, "sh"]
    try:
        done = subprocess.run(
            [*private, disk, name, sys.executable, tmp_path / "log.swf"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no `unshare` to mount a file system with")
    if not done.stdout.startswith("mounted"):
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    assert done.stdout == f"mounted\n1\n{name}\nolder", done.stdout + done.stderr
    error = f"{name}: cannot be written: No space left on device; free some in {disk}, or write elsewhere"
    assert done.stderr.splitlines()[-1].endswith(error), done.stderr


def test_memory_that_does_not_suffice_is_said_before(tmp_path, monkeypatch):
    """A note where it is scarce, an error where jobs can never fit; a job's cgroup counts as a machine's memory."""
    path = tmp_path / "jobs.parquet"
    generate(seed=1, n_jobs=1_000).to_parquet(path)
    assert files.jobs_in(path) == 1_000
    group = tmp_path / "root/job"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("300000000\n")
    (group / "memory.current").write_text("100000000\n")
    (tmp_path / "own").write_text("0::/job\n")
    assert [*files._limits(tmp_path / "own", tmp_path / "root")] == [(200_000_000, 300_000_000)]
    monkeypatch.setattr(files, "_limits", lambda *where: [(200_000_000, 300_000_000)])
    said = files.lacking("its 1,000 jobs", 1_000, 1_000, "take fewer weeks")
    assert said == (
        "its 1,000 jobs need about 0.3 GB of memory, and 0.2 of 0.3 GB are free, enough for 0 jobs; take fewer weeks, "
        "or a machine with more memory"
    )
    with pytest.raises(TableError, match=r"its jobs need about 1\.2 GB of memory, and 0\.2 of 0\.3 GB are free"):
        files.lacking("its jobs", 1_000_000, 1_000, "take fewer weeks")


PAGE = Path(__file__).parent.parent / "docs" / "reference" / "tables.md"
TWO_NODES = {"node_id": ["a", "b"], "cpus": [4, 8], "mem_mb": [1000, 2000]}


def page_text() -> str:
    """Write the reference page of the tables out of their schemas."""
    lines = [
        "# Tables",
        "Made from the schemas in `procure/tables.py`; a test keeps it so.",
        "",
        "In CSV that procure writes or prints, text that a spreadsheet would run as a formula, because it begins with",
        "`=`, `+`, `-`, `@`, one of their full-width forms, a tab or a break, has an apostrophe before it; so has what",
        "follows a semicolon, a tab or a break within a text. Reading a table takes it away again; numbers, JSON and",
        "Parquet are as they are.",
    ]
    for schema in SCHEMAS.values():
        lines += ["", f"## {schema.name}"]
        if schema.unique:
            lines.append(f"One row per `{schema.unique}`.")
        if schema.open:
            lines.append("Further columns may follow (a count per quoted type, a log's own extras).")
        lines += ["", "| Column | Type | Unit | Meaning | If absent |", "| --- | --- | --- | --- | --- |"]
        for column in schema.columns:
            default = "–" if column.default is None else repr(column.default)
            absent = "required" if column.required else default
            meaning = column.meaning.replace("|", "\\|")
            lines.append(f"| `{column.name}` | {column.dtype} | {column.unit} | {meaning} | {absent} |")
    return "\n".join(lines) + "\n"


def test_reference_page_is_the_schemas():
    assert PAGE.read_text() == page_text()


BAD = [
    ({**TWO_NODES, "cpus": [4, -8]}, r"nodes, row 2, column cpus: -8 is below 0"),
    ({**TWO_NODES, "cpus": [4, "many"]}, r"nodes, row 2, column cpus: 'many' is not a whole number"),
    ({**TWO_NODES, "cpus": [4, 2.5]}, r"row 2, column cpus: 2.5 is not a whole number"),
    ({**TWO_NODES, "cpus": [4, None]}, r"row 2, column cpus: the value is missing"),
    ({**TWO_NODES, "cpus": [4, np.inf]}, r"row 2, column cpus: inf is not finite"),
    ({**TWO_NODES, "cpus": [4, 1e17]}, r"row 2, column cpus: 1e\+17 is too large"),
    ({**TWO_NODES, "node_id": ["a", "a"]}, r"row 2, column node_id: duplicate 'a', also in row 1"),
    ({**TWO_NODES, "node_id": ["a", ""]}, r"row 2, column node_id: the value is missing"),
    ({**TWO_NODES, "memory": [1, 1]}, r"unknown column 'memory'; did you mean mem_mb"),
    ({"node_id": ["a"]}, r"column cpus is missing; the table has node_id"),
    ({"node_id": ["a"], "x\nall is well": [1]}, r"the table has node_id, x\\nall is well"),
]


@pytest.mark.parametrize(("columns", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_what_is_wrong_is_said_with_row_and_column(columns, message):
    """Each kind of bad value gives one error that names the source, the row and the column."""
    with pytest.raises(TableError, match=message):
        check(pd.DataFrame(columns), NODE, "nodes")


def test_check_does_not_modify_its_argument():
    """The frame given to `check` is the same afterwards; the one returned has the schema's dtypes."""
    frame = pd.DataFrame(TWO_NODES)
    before = frame.copy()
    checked = check(frame, NODE)
    pd.testing.assert_frame_equal(frame, before)
    assert checked["gpus"].tolist() == [0, 0]
    assert checked["mem_mb"].dtype == "int64"


def test_a_shortened_column_name_is_not_taken_for_an_extra():
    """A job table with mem_mb instead of mem_mb_per_node is refused: its memory would count as none."""
    row = {"job_id": "a", "submit_time": 0, "run_time": 1, "cpus_per_node": 1, "mem_mb": 4000}
    with pytest.raises(TableError, match="rename it to mem_mb_per_node"):
        check(pd.DataFrame([row]), JOB)


@given(
    st.lists(
        st.tuples(st.integers(-(2**40), 2**40), st.integers(0, 2**40), st.integers(1, 100)), min_size=1, max_size=20
    ),
    st.sampled_from([".parquet", ".csv", ".csv.gz"]),
)
def test_written_and_read_back_is_the_same(tmp_path_factory, rows, suffix):
    columns = pd.DataFrame(rows, columns=["submit_time", "run_time", "cpus_per_node"])
    jobs = check(columns.assign(job_id=[f"{i}" for i in range(len(rows))], start_time=pd.NA), JOB)
    path = tmp_path_factory.mktemp("tables") / f"jobs{suffix}"
    pd.testing.assert_frame_equal(read(write(jobs, path), JOB), jobs)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("header.csv", b"node_id,cpus,mem_mb\n", "holds no node"),
        ("broken.parquet", b"PAR1 no", "cannot be read"),
        ("broken.csv.xz", b"\xfd7zXZ\x00", "cannot be read"),
    ],
)
def test_damaged_files_are_one_sentence(tmp_path, name, content, message):
    """An empty, truncated or foreign file is named with what is wrong."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError, match=message):
        read(path, NODE)


def test_schema_with_default_fills_missing_cells():
    """A missing cell of a column with a default takes the default; so does an absent column."""
    schema = Schema("t", (Column("a", "int", "", "a", required=False, default=7),))
    assert check(pd.DataFrame({"a": ["", "3"]}), schema)["a"].tolist() == [7, 3]


@pytest.mark.parametrize("name", ["jobs.txt", "jobs", "jobs.gz", "jobs.csv.zip", "csv", "jobs.CSV"])
def test_a_name_that_says_no_format_is_refused(name, tmp_path):
    """Nothing is written under it; the formats that there are, are named."""
    with pytest.raises(TableError, match=r"written as \.parquet or \.csv"):
        write(pd.DataFrame({"a": [1]}), tmp_path / name)
    assert not list(tmp_path.iterdir())
