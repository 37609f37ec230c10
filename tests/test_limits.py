"""Inputs that would take more memory or time than a machine has are refused in one sentence, and counted first."""

import importlib
import pkgutil
import re
import zipfile

import annotated_types
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

import procure
from procure.cli import learn
from procure.cli.main import app
from procure.comparison.side_by_side import check_policies
from procure.errors import ArgumentError, TableError
from procure.files import check_parquet, read_archive
from procure.files.archive import _head_with_digest
from procure.packages import PackageRules, count_packages, expand_packages, read_quotes, write_packages
from procure.packages.constraints import PackageConstraints, build_constraints
from procure.packages.enumerate import EnumerationLimit, TooManyPackages, blocks
from procure.packages.quotes import check_quotes
from procure.settings import Settings
from procure.site.network import read_slurm_topology
from procure.topology.fat_tree import FatTree
from procure.workload import generate
from procure.workload.load import Futures, draw_futures
from procure.workload.slurm import expand_nodes


@pytest.mark.parametrize("text", ["a[1-1000][1-1000][1-1000]", "x" * 100_000 + "[1-100000]", "n[1-10000000:2]"])
def test_node_list_of_many_names_is_refused_at_once(text):
    """Products, long names and steps are counted before a name is written."""
    with pytest.raises(TableError, match="at most 1,000,000 can be named at once"):
        expand_nodes(text)


def test_model_archives(tmp_path):
    """A model file whose parts unpack to far more than it is refused, within its arrays too."""
    for inner in (False, True):
        path = tmp_path / "bomb.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("a.npy", "w") as stream:
            for _ in range(100):
                stream.write(bytes(1_000_000))
        content = path.read_bytes()
        if inner:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
                file.writestr("head.json", _head_with_digest({"schema": "s"}, {"arrays.npz": content}))
                file.writestr("arrays.npz", content)
        with pytest.raises(TableError, match="unpacks to 100,000,"):
            read_archive(path, "s")


def test_parquet_bombs(tmp_path):
    """A Parquet file of a few kilobytes that holds 10^8 values, or one long text in every row, is refused."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": pa.array([1]).take(pa.nulls(9_000_000, pa.int32()).fill_null(0))}), path)
    with pytest.raises(TableError, match="give it as plain CSV"):
        check_parquet(path)
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), pa.array(["x" * 10_000]))
    pq.write_table(pa.table({"a": text}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(TableError, match="give it as plain CSV"):
        check_parquet(path)
    pq.write_table(pa.table({"a": ["short"] * 100_000, "b": range(100_000)}), path)
    check_parquet(path)


def test_too_little_memory_is_said(tmp_path, monkeypatch, capsys):
    """Running out of memory is an error of one line, and no defect."""
    from procure.cli import main

    def greedy() -> None:
        raise MemoryError("Unable to allocate 8 TiB")

    monkeypatch.setattr(main, "app", greedy)
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said == "procure: out of memory (Unable to allocate 8 TiB): reduce the input\n"


QUOTES = """name,category,cpus,mem_gb,gpus,price_usd
A,compute,32,128,0,7000
B,bigmem,32,512,0,9000
C,gpu,32,128,2,20000
"""


def test_a_huge_budget_is_refused_not_enumerated(tmp_path, procure):
    """Packages are counted, written or held up to a stated number; the error says what allows more."""
    (tmp_path / "q.csv").write_text(QUOTES)
    rules = ("--set", "packages.rules=published", "--budget", "2e6")
    code, _, said = procure("packages", tmp_path / "q.csv", *rules, "--set", "sweep.max_packages=5000")
    assert code == 1 and re.search(r"more than [\d,]+ packages", said) and "sweep.max_packages allows more" in said
    quotes, rules = read_quotes(tmp_path / "q.csv"), PackageRules(rules="published", budget_usd=1e12)
    out = tmp_path / "p.parquet"
    for call in (
        lambda: expand_packages(quotes, rules, 100_000),
        lambda: count_packages(quotes, rules, most=100_000),
        lambda: write_packages(quotes, rules, out, most=100_000),
    ):
        with pytest.raises(TooManyPackages):
            call()
    assert not out.exists()
    assert (
        count_packages(quotes, PackageRules(rules="published", budget_usd=300_000), most=100_000)["n_packages"]
        < 100_000
    )


def many_types(n: int, **columns: list[object]) -> pd.DataFrame:
    """Quotes of n cheap types of one category."""
    given = {"name": [f"T{i}" for i in range(n)], "category": "compute", "cpus": 8, "mem_gb": 32.0, "gpus": 0}
    return pd.DataFrame(given | {"price_usd": [300.0 + i % 600 for i in range(n)]} | columns)


def test_hundreds_of_types_in_any_number_are_refused_and_searched(tmp_path, procure):
    """8 kB of quotes that combine in more ways than could be listed: no file is left, and a sweep would search."""
    path = tmp_path / "q.csv"
    many_types(300).to_csv(path, index=False)
    text = 'quotes = "q.csv"\n[packages]\nbudget_usd = 40000\nmin_gpu_nodes = 0\ntypes_per_category = "any"\n'
    text += '[sweep]\nmax_packages = 20_000\n[[workloads]]\nname = "w"\ngenerate = { recipe = "campus", seed = 1 }\n'
    (tmp_path / "s.toml").write_text(text)
    rules = ("--budget", 40000, "--set", "packages.types_per_category=any", "--set", "packages.min_gpu_nodes=0")
    asked = ("packages", path, *rules, "--set", "sweep.max_packages=20000", "--out", tmp_path / "p.csv")
    for words in (asked, ("study", "status", tmp_path / "s.toml")):
        code, _, said = procure(*words)
        assert code == 1 and "20,000 packages" in said and "sweep.max_packages allows more" in said
    code, _, said = procure("sweep", tmp_path / "s.toml", "--dry-run")
    assert code == 0 and "too many to list" in said and "2,000 runs" in said
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".csv"] == ["q.csv"]


def test_a_list_ends_where_it_takes_longer_than_so_many_packages_of_few_types():
    """Packages of many types, combinations of types and rows that lead to no package count for what they take."""
    with pytest.raises(TooManyPackages, match="would exceed the limit of 1,000 packages of 25 types"):
        list(blocks(offered(many_types(300), budget_usd=700), limit=EnumerationLimit(1_000)))
    lots = many_types(60, lot=[f"L{i % 20}" for i in range(60)], vendor=[f"V{i // 20}" for i in range(60)])
    with pytest.raises(TooManyPackages, match="would exceed"):
        list(blocks(offered(lots, budget_usd=700, one_vendor_per_lot=True), limit=EnumerationLimit(1_000)))


def test_why_there_is_no_package_is_not_looked_for_without_an_end():
    """That 60 mandatory types do not fit where 59 would is said in one sentence, soon."""
    quotes = many_types(60, price_usd=[7.0] * 60, min_count=[1] * 60, max_count=[40] * 60, mandatory=[True] * 60)
    quotes["rack_units"] = [1.0] * 60
    with pytest.raises(TableError, match="exclude"):
        count_packages(
            quotes,
            PackageRules(
                rules="published", budget_usd=5_000, min_gpu_nodes=0, types_per_category="any", max_rack_units=59
            ),
        )


def offered(quotes: pd.DataFrame, **rules: object) -> PackageConstraints:
    return build_constraints(
        check_quotes(quotes),
        PackageRules(rules="published", **{"min_gpu_nodes": 0, "types_per_category": "any"} | rules),
    )


def test_networks_of_more_nodes_than_can_be_held_are_refused(tmp_path):
    """A tree of 10^12 nodes, and a topology.conf whose lines name ever more nodes."""
    with pytest.raises(TableError, match="6,000,000,000 nodes; at most 10,000,000 are possible"):
        FatTree(10_000, 10_000, 60, uplinks=1, spines=1)
    lines = [f"SwitchName=s{n} Nodes=c{n}-[1-60000]" for n in range(1000)]
    (tmp_path / "topology.conf").write_text("\n".join(lines))
    with pytest.raises(TableError, match="line 17: with this line, more than 1,000,000 nodes are named in all"):
        read_slurm_topology(tmp_path / "topology.conf")
    chain = [f"SwitchName=s{n} Switches=s{n + 1}" for n in range(5000)]
    (tmp_path / "topology.conf").write_text("\n".join([*chain, "SwitchName=s5000 Nodes=n1"]))
    with pytest.raises(TableError, match="more than 100 levels of switches; at most 3 are supported"):
        read_slurm_topology(tmp_path / "topology.conf")


def commands(command=None, path=()):
    """Walk all commands of the tree, with their names."""
    command = command or typer.main.get_command(app)
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.resolve_command(context, [name])[1], (*path, name))


def whole_numbers():
    """List the options that take a whole number."""
    for name, command in commands():
        for option in command.params:
            kind = getattr(option, "type_descriptor", None)
            if kind is not None and kind.annotation in (int, int | None, list[int]):
                yield f"{name} {option.opts[0]}", option


def test_every_whole_number_on_the_command_line_has_an_upper_bound():
    found = dict(whole_numbers())
    assert len(found) > 12
    assert not [name for name, option in found.items() if option.max is None]


def settings_classes(base=Settings):
    """Walk all kinds of settings."""
    for one in base.__subclasses__():
        yield one
        yield from settings_classes(one)


def bounded(annotation, metadata) -> bool:
    """Tell whether all whole numbers in an annotation have an upper bound."""
    here = [*metadata, *getattr(annotation, "__metadata__", ())]
    here = [one for each in here for one in (each, *getattr(each, "metadata", ()))]
    if any(isinstance(one, annotated_types.Le | annotated_types.Lt) for one in here):
        return True
    parts = [part for part in getattr(annotation, "__args__", ()) if part is not Ellipsis]
    if hasattr(annotation, "__metadata__"):
        return bounded(annotation.__origin__, here)
    return annotation is not int and all(bounded(part, ()) for part in parts)


def test_every_whole_number_in_settings_has_an_upper_bound():
    for module in pkgutil.walk_packages(procure.__path__, "procure."):
        importlib.import_module(module.name)
    classes = [one for one in settings_classes() if one.__module__.startswith("procure.")]
    assert len(classes) > 40
    free = {
        f"{one.__name__}.{name}"
        for one in classes
        for name, field in one.model_fields.items()
        if not bounded(field.annotation, field.metadata)
    }
    assert free == set()


def test_too_many_policies_are_not_compared():
    with pytest.raises(TableError, match="20,000 policies were given; at most 1,000 are compared"):
        check_policies(["fcfs"] * 20_000)


def test_futures_without_an_end_are_refused():
    """Growth of ten times a year for twenty years would hold more jobs than memory."""
    jobs = pd.concat(
        [generate(1, 50).assign(submit_time=lambda day, n=n: day["submit_time"] + n * 86_400) for n in range(30)],
        ignore_index=True,
    ).assign(job_id=np.arange(1500).astype(str))
    with pytest.raises(TableError, match="jobs; at most 3,000,000 are drawn"):
        list(draw_futures(jobs, Futures(growth=10, years=20)))


def test_an_error_names_no_option_that_the_command_has_not(tmp_path, monkeypatch):
    """What the library refuses of its own arguments is a failure of the command, not bad usage of it."""

    def refuse(path):
        raise ArgumentError("ended_by" if path.name == "a" else "file", "7 s lies before 8 s")

    monkeypatch.setattr(learn, "read_policy", refuse)
    tables = ["--jobs", "j", "--nodes", "n"]
    inner = CliRunner().invoke(app, ["learn", "evaluate", "a", *tables])
    assert isinstance(inner.exception, TableError) and not isinstance(inner.exception, ArgumentError)
    assert "ended" not in inner.output and inner.exit_code == 1
    own = CliRunner().invoke(app, ["learn", "evaluate", "b", *tables], env={"COLUMNS": "200"})
    assert own.exit_code == 2 and "FILE" in own.output and "7 s lies before 8 s" in own.output
