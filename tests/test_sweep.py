"""The sweep: the same table whatever the farm, whatever happened on the way."""

import json
import pickle
import re
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from sweep_lab import make_study, results, serial_results
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.packages import package_nodes
from procure.run import run_prepared, simulate
from procure.schemas import METRICS
from procure.study import load_study
from procure.sweep import load_plan, read_results, run_sweep
from procure.sweep.runner import share
from procure.sweep.store import verify
from procure.sweep.trial import simulate_packages


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> pd.DataFrame:
    """The small study's results, computed serially in one go."""
    return serial_results(make_study(tmp_path_factory.mktemp("undisturbed")))


def test_results_are_those_of_single_simulations(tmp_path, undisturbed):
    """Every row of the sweep is what `simulate` says of that package's nodes, to the last bit."""
    plan = load_plan(load_study(make_study(tmp_path)))
    assert undisturbed["package_id"].tolist() == plan.packages["package_id"].iloc[plan.sampled_rows].tolist()
    for _, row in undisturbed.iloc[::7].iterrows():
        package = plan.packages[plan.packages["package_id"] == row["package_id"]].iloc[0]
        nodes = package_nodes(package, plan.quotes)
        run = simulate(plan.workloads["day"], nodes, "best-fit", kill_at_limit=False, logged_speed="5")
        expected = {name: None if pd.isna(row[name]) else row[name] for name in (c.name for c in METRICS)}
        assert {name: run.metrics[name] for name in expected} == expected


def test_runs_at_once_are_those_one_by_one(tmp_path, monkeypatch):
    """However many cores simulate packages here, by the kernel for many or by a policy's own: the same rows."""
    plan = load_plan(load_study(make_study(tmp_path)))
    counts = plan.packages[plan.types].to_numpy("int64")[::20]
    for policy in ("best-fit", "easy", "tabu"):
        monkeypatch.setattr("procure.sweep.trial.n_local_workers", lambda: 1)
        alone = simulate_packages(plan, counts, "day", policy)
        monkeypatch.setattr("procure.sweep.trial.n_local_workers", lambda: 5)
        pd.testing.assert_frame_equal(simulate_packages(plan, counts, "day", policy), alone, check_exact=True)


def test_existing_nodes_stand_before_every_package(tmp_path):
    """An existing system's nodes are in every run, typed GPUs and speeds included."""
    path = make_study(tmp_path)
    (tmp_path / "old.csv").write_text(
        "node_id,kind,cpus,mem_mb,gpus,gpu_type,speed\nold1,old,4,16000,1,k80,2.5\nold2,old,4,16000,0,,2.5\n"
    )
    path.write_text(path.read_text().replace("[[work", 'existing_nodes = "old.csv"\n[[work', 1))
    plan = load_plan(load_study(path))
    ids = plan.packages["package_id"].iloc[plan.sampled_rows[::9]].tolist()
    counts = plan.packages.iloc[plan.sampled_rows[::9]][plan.types].to_numpy()
    rows = simulate_packages(plan, counts, "day", "best-fit")
    for package_id, mean_wait in zip(ids, rows["mean_wait_time"], strict=True):
        package = plan.packages.iloc[plan.row_of[package_id]]
        nodes = package_nodes(package, plan.quotes, plan.existing)
        assert nodes["node_id"].iloc[0] == "old1"
        run = simulate(plan.workloads["day"], nodes, kill_at_limit=False, logged_speed="5")
        assert run.metrics["mean_wait_time"] == mean_wait


def test_local_workers_map_arrays_and_equal_serial(tmp_path, monkeypatch):
    """Two local workers give the serial table, value for value; each is sent some kB, and no file of arrays is left."""
    path = make_study(tmp_path / "local", n_jobs="3000", sample="20")
    more = "[[workloads]]\nname = 'next'\ngenerate = { seed = 4, n_jobs = 3000 }\nlogged_speed = 5\n[simulate]"
    path.write_text(path.read_text().replace("[simulate]", more))
    expected = serial_results(Path(shutil.copytree(path.parent, tmp_path / "serial")) / path.name)
    sent: list[tuple[int, int]] = []

    def watched(bench, file):
        shared = share(bench, file)
        sent.append((len(pickle.dumps(shared)), file.stat().st_size))
        return shared

    monkeypatch.setattr("procure.sweep.runner.share", watched)
    monkeypatch.setattr("procure.sweep.farm.n_local_workers", lambda: 2)
    assert run_sweep(path, "local").n_computed == len(expected)
    assert [small < 16_000 < 100_000 < large for small, large in sent] == [True, True], sent
    pd.testing.assert_frame_equal(results(path), expected, check_exact=True)
    assert [each.name for each in (path.parent / "results").rglob("*") if each.name.endswith(".arrays")] == []


def test_wider_sample_reuses_what_is_there(tmp_path, undisturbed):
    """From every tenth package to all only the other nine tenths are computed; the manifest says what they turn on."""
    run_sweep(load_plan(load_study(make_study(tmp_path, sample="10"))), "serial")
    plan = load_plan(load_study(make_study(tmp_path)))
    summary = run_sweep(plan, "serial")
    assert summary.n_computed == len(undisturbed) - len(undisturbed.iloc[::10])
    pd.testing.assert_frame_equal(read_results(plan.study), undisturbed, check_exact=True)
    assert run_sweep(plan, "serial").n_computed == 0 == verify(plan)[0]["n_missing"]
    assert [p.name for p in plan.study.folder.rglob("*.parquet")] == ["results.parquet"]
    manifest = json.loads((plan.study.folder / "manifest.json").read_text())
    assert manifest["seeds"]["day"] == 3 and {"procure", "python", "numba", "pandas"} <= set(manifest["versions"])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": "4"}, "workload day changed"),
        ({"budget": "80_000"}, "packages changed"),
        ({"kill": "true"}, "kill_at_limit changed"),
        ({"speed": '"4"'}, "workload day changed"),
    ],
)
def test_changed_input_is_refused_and_named(tmp_path, changes, named):
    """Results of other inputs are never mixed: the error says which input changed, and nothing is lost."""
    run_sweep(load_plan(load_study(make_study(tmp_path, sample="10"))), "serial")
    before = (tmp_path / "results/small/results.parquet").read_bytes()
    plan = load_plan(load_study(make_study(tmp_path, sample="10", **changes)))
    with pytest.raises(TableError, match=named):
        run_sweep(plan, "serial")
    with pytest.raises(TableError, match=named):
        read_results(plan.study)
    assert (tmp_path / "results/small/results.parquet").read_bytes() == before


def test_results_of_another_version_name_it(tmp_path):
    """Where inputs differ and another version of procure wrote the results, the error says which one reads them."""
    plan = load_plan(load_study(make_study(tmp_path)))
    write_manifest_of(plan, "9.9.9")
    with pytest.raises(TableError, match=r" changed .*; procure 9\.9\.9 wrote them, and reads them"):
        read_results(plan.study)


def write_manifest_of(plan, writer):
    plan.study.folder.mkdir(parents=True)
    before = plan.fingerprint
    name = next(iter(before))
    manifest = {"fingerprint": before | {name: "another"}, "versions": {"procure": writer}}
    (plan.study.folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def test_damaged_and_foreign_parts_are_set_aside(tmp_path, undisturbed):
    """A truncated part and one of another study are set aside by name, and their runs are done again."""
    plan = load_plan(load_study(make_study(tmp_path)))
    run_sweep(plan, "serial")
    results = plan.study.folder / "results.parquet"
    part = plan.study.folder / "parts" / "day.best-fit.000000000-00000000.parquet"
    part.write_bytes(results.read_bytes()[:1000])
    pd.DataFrame({"a": [1]}).to_parquet(part.with_name("foreign.parquet"))
    pq.write_table(pq.read_table(results).slice(0, 7), part.with_name("half.parquet"))
    results.unlink()
    notes: list[str] = []
    summary = run_sweep(plan, "serial", note=notes.append)
    assert summary.n_computed == len(undisturbed) - 7
    assert len(notes) == 2
    pd.testing.assert_frame_equal(read_results(plan.study), undisturbed, check_exact=True)


def test_failed_run_is_a_row_with_its_reason(tmp_path, monkeypatch):
    """A run that fails is a row with status failed and its reason; the others are not lost."""
    import procure.sweep.runner as bench

    def poisoned(ready, *rest):
        if len(ready.kind_of) % 2:
            raise TableError("poison")
        return run_prepared(ready, *rest)

    monkeypatch.setattr(bench, "run_prepared", poisoned)
    monkeypatch.setattr(bench.catalog, "is_batched", lambda policy: False)
    plan = load_plan(load_study(make_study(tmp_path, sample="10")))
    notes: list[str] = []
    summary = run_sweep(plan, "serial", note=notes.append)
    rows = read_results(plan.study)
    assert re.search(r"careful: \d+ of \d+ runs failed; the first: \S+ on day under \S+: .*poison", notes[-1])
    assert 0 < summary.n_failed < len(rows) == len(plan.sampled_rows)
    failed = rows[rows["status"] == "failed"]
    assert failed["reason"].str.contains("poison").all()
    assert failed["mean_wait_time"].isna().all()
    assert (rows["n_jobs"] == 150).all()


def test_results_of_other_code_are_refused(tmp_path, monkeypatch):
    """Where the code of the simulation or of a policy has changed, the folder's results are not mixed with new ones."""
    plan = load_plan(load_study(make_study(tmp_path, sample="10")))
    run_sweep(plan, "serial")
    monkeypatch.setattr("procure.study.plan.code_digest", lambda *modules: "other")
    with pytest.raises(TableError, match=r"policy code procure.policies.\w+ changed .*; simulation code changed"):
        run_sweep(load_plan(plan.study), "serial")


def test_unknown_farm_and_dead_address_are_clear_errors(tmp_path, monkeypatch):
    """A farm that is not there is one sentence, and the parts stay."""
    monkeypatch.setattr("procure.sweep.connect.CONNECT_TIMEOUT", "1s")
    plan = load_plan(load_study(make_study(tmp_path)))
    with pytest.raises(TableError, match="known: serial, local"):
        run_sweep(plan, "cloud")
    with pytest.raises(TableError, match="no Dask scheduler answers"):
        run_sweep(plan, "tcp://127.0.0.1:1")


def test_a_truncated_result_table_is_named_and_not_taken_for_no_results(tmp_path):
    """Every reader says which file cannot be read and what to do; the next sweep repeats what was lost."""
    path = make_study(tmp_path)
    plan = load_plan(load_study(path))
    run_sweep(plan, "serial")
    whole = read_results(plan.study)
    table = plan.study.folder / "results.parquet"
    table.write_bytes(table.read_bytes()[:2000])
    for command in (["recommend"], ["report"], ["explain", whole["package_id"][0]]):
        done = CliRunner().invoke(app, [command[0], str(path), *command[1:]])
        assert done.exit_code == 1 and isinstance(done.exception, TableError)
        assert f"{table}: cannot be read, damaged" in str(done.exception)
        assert f"run: procure sweep {path}" in str(done.exception)
    notes: list[str] = []
    assert run_sweep(plan, "serial", note=notes.append).n_computed == plan.n_runs
    assert "set aside as results.refused" in notes[0]
    pd.testing.assert_frame_equal(read_results(plan.study), whole)
