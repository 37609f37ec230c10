"""Small inputs that once took gigabytes or minutes, in a process that may take 2 GB and 40 s for each kind of them."""

import bz2
import gzip
import lzma
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sweep_lab import make_study

from procure.files import read_bytes, read_rows
from procure.objectives.constraints import parse
from procure.settings import MOST_TOML, read_toml
from procure.site.network import read_slurm_topology
from procure.study.check import check_study
from procure.study.existing import read_existing
from procure.text import money, seconds
from procure.workload import generate, import_log
from procure.workload.load import scale_load
from procure.workload.read_swf import MOST_FIELDS
from procure.workload.slurm import array_tasks, expand_nodes, node_names

SACCT = (
    "JobID|User|Submit|Start|End|State|ReqCPUS|TimelimitRaw|ElapsedRaw|NodeList\n"
    "1|u|2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T01:00:00|COMPLETED|1|60|3600|c[1-99999999999]\n"
)
SWF = "{} {} 5 60 4 -1 -1 4 100 -1 1 1 1 1 1 1 -1 -1"


def refuses(match: str, call, *arguments: object) -> None:
    with pytest.raises(ValueError, match=match):
        call(*arguments)


def toml(folder: Path) -> None:
    """A key of 45,000 parts took 7.75 GB."""
    path = folder / "deep.toml"
    for key in ("a." * 45_000 + "a = 1", '"a" . ' * 45_000 + "a = 1", "[" + "a." * 45_000 + "a]"):
        path.write_text(f"name = 'x'\n{key}\n")
        refuses("line 2: a key of more than 16 parts", read_toml, path)
    path.write_text("#" * (MOST_TOML + 1))
    refuses("a settings file has at most 4,000,000", read_toml, path)
    path.write_text("a.b.c = 'a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s'\n")
    assert read_toml(path)["a"]["b"]["c"].startswith("a.b.c.d")


def words(folder: Path) -> None:
    """Regular expressions tried every way to divide what does not fit."""
    refuses("at most 300 characters", parse, " " * 3000)
    refuses("cannot be read", parse, " " * 299)
    assert parse("  p95_wait  <= 4 h ").op == "<="
    for text in ("1" + " " * 1_000_000 + "x", "-" + " " * 1_000_000 + "x", "1," * 500_000):
        refuses("no amount", money, text)
        refuses("length of time", seconds, text)
    for text in ("[" * 300_000, "a[1" * 300_000, "],[" * 300_000):
        expand_nodes(text)
    assert array_tasks("7_[" * 200_000) == ["7_[" * 200_000]
    assert array_tasks("7_[1-3%2]") == ["7_1", "7_2", "7_3"]
    assert expand_nodes("c[1-2],g[1]b[2]") == ["c1", "c2", "g1b2"]


def slurm(folder: Path) -> None:
    """Brackets that never close, and numbers of a million digits."""
    nodes = folder / "nodes.txt"
    nodes.write_text("NodeName=a CPUTot=4 RealMemory=1000 State=IDLE Gres=" + "(" * 300_000)
    read_existing(nodes)
    topology = folder / "topology.conf"
    for text in ("c[" + "1" * 300_000 + "]", "c[1-" + "1" * 300_000 + "]", "c" * 300_000 + "["):
        topology.write_text(f"SwitchName=s0 Nodes={text}\n")
        refuses("host list", read_slurm_topology, topology)


def packed(folder: Path) -> None:
    """A log that unpacks to far more than logs do is a bomb; ten megabytes that are mostly alike are none."""
    content = b"1 2 3\n" * 2_000_000
    bomb = "unpack it and give the plain file"
    for suffix, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        path = folder / f"log.swf{suffix}"
        path.write_bytes(pack(bytes(2_000_000)) * 40)
        assert path.stat().st_size < 1_000_000
        refuses(bomb, import_log, path, "swf")
        path.write_bytes(pack(content[:6_000_000]) + pack(content[6_000_000:]))  # in any number of pieces
        assert read_bytes(path) == content
    path = folder / "log.zst"
    path.write_bytes(pa.Codec("zstd").compress(content, asbytes=True))
    assert read_bytes(path) == content
    path.write_bytes(pa.Codec("zstd").compress(bytes(100_000_000), asbytes=True))
    refuses(bomb, read_bytes, path)


def names(folder: Path) -> None:
    """A node list of 10^11 names, a log of many lists of a million, and as many nodes to retire."""
    log, nodes = folder / "log.psv", folder / "nodes.csv"
    log.write_text(SACCT)
    refuses("names 99,999,999,999 nodes or tasks; at most 1,000,000", partial(import_log, tz="UTC"), log, "sacct")
    lists = pa.array([f"c[{n}-{n + 9_000}]" for n in range(5_000)]).to_pandas()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("procure.workload.slurm._FEWEST_IN_ALL", 1_000_000)
        refuses("leave the column with the node lists out", node_names, lists)
    nodes.write_text("node_id,cpus,mem_mb\nn01,8,1000\n")
    refuses("at most 1,000,000", read_existing, nodes, ["n[01-99999999999]"])


def loads(folder: Path) -> None:
    """A load that makes too many jobs."""
    assert len(scale_load(generate(1, 2), 1000)) == 2000
    refuses("at most 3,000,000 are made", scale_load, generate(1, 4_000), 999)


def tables(folder: Path) -> None:
    """A line of 450,000 fields is no job, and a header of as many columns no table."""
    log = folder / "log.swf"
    log.write_text("\n".join([SWF.format(1, 0), SWF.format(2, 9) + " 7" * 450_000, SWF.format(3, 9)]))
    refuses(f"line 2: more than {MOST_FIELDS} fields where SWF has 18", import_log, log, "swf")
    assert import_log(log, "swf", skip_bad_rows=True).jobs["job_id"].tolist() == ["1", "3"]
    refuses("450,000 columns; at most 20,000", read_rows, b"\n" + b",".join([b"a"] * 450_000) + b"\n", "x")


def lists(folder: Path) -> None:
    """A cell that is a list may hold a milliard of values in a small file; and an error lists no thousand problems."""
    path = folder / "lists.parquet"
    pq.write_table(pa.table({"node_id": [["a"] * 1_000_000], "cpus": [1], "mem_mb": [1]}), path)
    refuses("column node_id holds lists; a cell of a table is one value", read_existing, path)
    study = make_study(folder / "listed")
    study.write_text(study.read_text() + "[[workloads]]\n" * 500)
    refuses(r"500 problems(.*\n){31}  and 470 more$", check_study, study)


def workloads(folder: Path) -> None:
    """999 workloads are made up and checked."""
    path = make_study(folder)
    one = '[[workloads]]\nname = "day"\ngenerate = { seed = 3, n_jobs = 150 }\n'
    many = (one.replace('"day"', f'"day{n}"').replace("seed = 3", f"seed = {n}") for n in range(999))
    assert one in path.read_text()
    path.write_text(path.read_text().replace(one, "".join(many)))
    assert len(check_study(path)[0].workloads) == 999


@pytest.mark.slow
def test_a_small_input_costs_little(tmp_path):
    """Within the limits of the process, each is read or refused in one sentence."""
    done = subprocess.run([sys.executable, __file__, str(tmp_path)], capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


if __name__ == "__main__":
    with Path("/proc/self/statm").open() as stream:
        now = int(stream.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 2 * 10**9,) * 2)
    for number, case in enumerate((toml, words, slurm, packed, names, loads, tables, lists, workloads), start=1):
        resource.setrlimit(resource.RLIMIT_CPU, (40 * number, -1))
        print(case.__name__, flush=True)
        case(Path(sys.argv[1]))
