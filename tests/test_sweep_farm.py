"""Shards, locks, verification, poison, farms' settings without a farm, and what others leave in a study's folder."""

import errno
import fcntl
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sweep_lab import serial_results, small_plan
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.files import whole_file
from procure.schemas import RESULT
from procure.sweep import FarmOptions, read_results, run_sweep
from procure.sweep.connect import job_name, lifetime_arguments, make_cluster, n_local_workers
from procure.sweep.farm import Workers, compute_part
from procure.sweep.parts import SCHEMA, Receipt, batches, write_part
from procure.sweep.runner import MOST_POISON, SweepWork
from procure.sweep.store import fingerprint_text, locked, merge, open_folder, stored, verify
from procure.tables import check


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> pd.DataFrame:
    return serial_results(small_plan(tmp_path_factory.mktemp("undisturbed")).study.path)


def test_shards_hold_every_run_once(tmp_path):
    """Shards are disjoint, together everything, and the same whatever is done already."""
    plan = small_plan(tmp_path)
    shards = [batches(plan, {}, (i, 4)) for i in range(4)]
    rows = np.concatenate([batch.rows for shard in shards for batch in shard])
    assert sorted(rows) == plan.sampled_rows.tolist()
    assert len(rows) == len(set(rows))
    done = {plan.pairs[0]: shards[0][0].rows}
    again = np.concatenate([batch.rows for batch in batches(plan, done, (0, 4))])
    assert again.tolist() == [row for batch in shards[0][1:] for row in batch.rows]


def test_many_workloads_are_cut_into_few_batches(tmp_path, monkeypatch):
    """Without a batch size of its own, a study has a bounded number of batches, and at least 50 runs in each."""
    plan = small_plan(tmp_path, batch_size="0", budget="900_000")
    assert {len(batch.rows) for batch in batches(plan, {})[:-1]} == {50}
    assert len(batches(plan, {})) > 4
    monkeypatch.setattr("procure.sweep.parts.MOST_IN_ALL", 4)
    assert len(batches(plan, {})) <= 4
    assert sum(len(batch.rows) for batch in batches(plan, {})) == plan.n_runs


def test_shards_merged_equal_the_whole(tmp_path, undisturbed):
    """Two shards, then a merge: the serial table, in one file of the parts' schema; before, merge says what lacks."""
    plan = small_plan(tmp_path)
    first = run_sweep(plan, "serial", shard=(0, 2))
    parts = [pq.read_schema(path).remove_metadata() for path in (plan.study.folder / "parts").glob("*.parquet")]
    merge(plan)
    assert [*parts, pq.read_schema(plan.study.folder / "results.parquet")] == [SCHEMA] * (len(parts) + 1)
    assert verify(plan)[0]["n_missing"] == plan.n_runs - first.n_computed > 0
    second = run_sweep(plan, "serial", shard=(1, 2))
    assert second.n_computed == plan.n_runs - first.n_computed
    assert run_sweep(plan, "serial", shard=(0, 2)).n_computed == 0
    merge(plan)
    assert verify(plan)[0]["n_missing"] == 0
    assert [path.name for path in plan.study.folder.rglob("*.parquet")] == ["results.parquet"]
    pd.testing.assert_frame_equal(read_results(plan.study), undisturbed, check_exact=True)


def test_shards_and_the_whole_keep_each_other_out(tmp_path):
    """Shards run side by side; the same shard twice, or the whole study beside one, is refused with who holds it."""
    study = small_plan(tmp_path).study
    with locked(study, (3, 8)):
        with locked(study, (4, 8)):
            pass
        with pytest.raises(TableError, match=f"running: process {os.getpid()} on "), locked(study):
            pass
        with pytest.raises(TableError, match="running: process"), locked(study, (3, 8)):
            pass
    with locked(study), pytest.raises(TableError, match=f"running: process {os.getpid()} on "):
        locked(study, (3, 8)).__enter__()
    lock = study.folder / "lock"
    ended = subprocess.Popen(["true"])
    ended.wait()
    lock.write_text(lock.read_text().replace(f"process {os.getpid()} ", f"process {ended.pid} "))
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TableError, match="left no name"):
            locked(study).__enter__()
    with locked(study), lock.open() as stream, pytest.raises(OSError):
        fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    """Where flock is not offered, the error says so instead of naming a holder."""

    def refuse(stream, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("procure.sweep.store.fcntl.flock", refuse)
    with pytest.raises(TableError, match="this file system has no locks"), locked(small_plan(tmp_path).study):
        pass


def test_verify(tmp_path):
    """Verify is content with a finished study, and names a changed byte, a missing run and a run with two results."""
    plan = small_plan(tmp_path)
    run_sweep(plan, "serial")
    counts, problems = verify(plan)
    assert problems == []
    assert (counts["n_done"], counts["n_files"], counts["n_repeated"]) == (plan.n_runs, 1, 0)
    path = plan.study.folder / "results.parquet"
    table = pq.read_table(path)
    other = table.slice(0, 2)
    longer = [value + 1 for value in other["makespan"].to_pylist()]
    other = other.set_column(other.schema.get_field_index("makespan"), "makespan", [longer])
    write_part(path.parent / "parts/a.parquet", table.slice(2, 3), fingerprint_text(plan), 0.0)
    assert verify(plan)[1] == []
    write_part(path.parent / "parts/b.parquet", other.cast(SCHEMA), fingerprint_text(plan), 0.0)
    counts, problems = verify(plan)
    assert problems == ["2 runs have two results that differ"]
    assert counts["n_repeated"] == 5
    whole = path.read_bytes()
    path.write_bytes(whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:])
    counts, problems = verify(plan)
    assert f"{path}: damaged" in problems[0]
    assert problems[1] == f"{plan.n_runs - 5:,} planned runs have no result"
    assert CliRunner().invoke(app, ["study", "status", str(plan.study.path)]).exit_code == 1


def drive(work: SweepWork, deadly: set[str]) -> list[int]:
    """Take batches as a farm does whose workers die over some packages; return how large those batches were."""
    killed = []
    while (batch := work.take()) is not None:
        ids, *rest = work.arguments(batch)
        if deadly & set(ids):
            killed.append(len(ids))
            work.put(batch, Receipt(0, 0.0, died=True))
        else:
            work.put(batch, compute_part(work.bench(batch), ids, *rest))
    return killed


@pytest.mark.parametrize(("batch_size", "killed"), [("16", [13, 1]), ("1", [1, 1])])
def test_a_run_that_kills_its_workers_is_one_row(tmp_path, undisturbed, batch_size, killed):
    """It is found among single runs, each alone on the farm, and no other run suffers."""
    plan = small_plan(tmp_path, batch_size=batch_size)
    stored_before, _ = open_folder(plan)
    notes: list[str] = []
    work = SweepWork(plan, batches(plan, stored_before.done(plan)), notes.append)
    poison = undisturbed["package_id"].iloc[21]
    assert drive(work, {poison}) == killed
    assert work.n_done == plan.n_runs
    assert notes == [f"package {poison} on day under best-fit killed every worker that tried it; recorded as failed"]
    rows = check(stored(plan).table.to_pandas(), RESULT)
    bad = rows["package_id"] == poison
    assert rows.loc[bad, "reason"].tolist() == ["killed every worker that tried it"]
    pd.testing.assert_frame_equal(rows[~bad], undisturbed[~bad], check_exact=True)


def test_what_killed_its_workers_is_tried_alone(tmp_path):
    """While anything else is being computed no suspect is given out: a death then has one cause."""
    plan = small_plan(tmp_path)
    open_folder(plan)
    work = SweepWork(plan, batches(plan, {})[:2], lambda text: None)
    first, second = work.take(), work.take()
    work.put(first, Receipt(0, 0.0, died=True))
    assert work.take(alone=False) is None
    work.put(second, Receipt(len(second.rows), 0.0))
    assert len(work.take(alone=True).rows) == 1


@pytest.mark.parametrize("all_of_them", [False, True])
def test_workers_that_always_die_are_no_poison(tmp_path, undisturbed, all_of_them):
    """When more than a few runs or batches kill their workers, the sweep stops and asks about memory."""
    plan = small_plan(tmp_path, batch_size="2")
    open_folder(plan)
    work = SweepWork(plan, batches(plan, {}), lambda text: None)
    deadly = set(undisturbed["package_id"] if all_of_them else undisturbed["package_id"].iloc[: MOST_POISON + 1])
    with pytest.raises(TableError, match="enough memory"):
        drive(work, deadly)


def test_a_written_part_is_not_computed_again(tmp_path):
    """A batch whose part is there, but whose receipt was lost with a worker, is not simulated twice."""
    plan = small_plan(tmp_path)
    open_folder(plan)
    work = SweepWork(plan, batches(plan, {})[:1], lambda text: None)
    batch = work.take()
    compute_part(work.bench(batch), *work.arguments(batch))
    work.put(batch, Receipt(0, 0.0, died=True))
    assert work.n_done == len(batch.rows)
    assert work.take() is None


def test_arrays_of_a_killed_driver_are_removed(tmp_path):
    """They are taken for no part, and the next sweep removes them."""
    plan = small_plan(tmp_path)
    open_folder(plan)
    SweepWork(plan, [], lambda text: None).sent(plan.pairs[0])
    [left] = (plan.study.folder / "parts").iterdir()
    assert left.suffix == ".arrays"
    assert run_sweep(plan, "serial").n_computed == plan.n_runs
    assert not left.exists()


@pytest.mark.parametrize(
    ("farm", "walltime", "limit"),
    [
        ("", "1:00:00", 3600), ("", "0:01:00", 60), ("", "60", 3600), ("", "1-0:00:00", 86_400), ("", "02:00", 7200),
        ("slurm", "10:30", 630), ("lsf", "10:30", 37_800), ("pbs", "3600", 3600), ("sge", "10:30", 630),
    ],
)  # fmt: skip
def test_workers_leave_before_the_limit(farm, walltime, limit):
    """Lifetime plus stagger stays below the limit, which every batch system writes in its own way."""
    stagger = min(150, limit // 10)
    said = ["--lifetime", f"{limit - 2 * stagger}s", "--lifetime-stagger", f"{stagger}s"]
    assert lifetime_arguments(walltime, farm) == said


@pytest.mark.parametrize(
    ("farm", "lines"),
    [
        (
            "slurm",
            ["#SBATCH -p fast", "#SBATCH -A us", "--cpus-per-task=2", "#SBATCH -t 1:00:00", "--mem=4G"],
        ),
        ("pbs", ["#PBS -q fast", "#PBS -A us", "walltime=1:00:00", "ncpus=2"]),
        ("lsf", ["#BSUB -q fast", '#BSUB -P "us"', "#BSUB -W 1:00", "#BSUB -n 2"]),
        ("sge", ["#$ -q fast", "#$ -P us", "h_rt=1:00:00"]),
    ],
)
def test_job_scripts(tmp_path, farm, lines, monkeypatch):
    """What the user asks for stands in the job's script, for each batch system; one thread per worker."""
    monkeypatch.setattr("dask_jobqueue.lsf.lsf_detect_units", lambda: "kb")
    walltime = "1:00" if farm == "lsf" else "1:00:00"
    options = FarmOptions(
        cores=2, memory="4 GiB", walltime=walltime, partition="fast", account="us", folder=tmp_path / "study"
    )
    with make_cluster(farm, options) as cluster:
        script = cluster.job_script()
    for line in [*lines, "--nthreads 1", "--nworkers 2", "--lifetime 3300s", "export OMP_NUM_THREADS=1"]:
        assert line in script, script
    assert job_name(options.folder) in script


def test_local_workers_keep_to_what_slurm_gave(monkeypatch):
    """One worker where Slurm gave one CPU, whatever the node has."""
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    assert n_local_workers() == 1


class FewWorkers:
    """A Dask client as far as a pool looks at it: other workers at each look."""

    def __init__(self, n: int):
        self.n, self.looks = n, 0

    def nthreads(self) -> dict[str, int]:
        self.looks += 1
        return {f"tcp://node:{self.looks * 100 + i}": 1 for i in range(self.n)}


def pool_of(n_workers, monkeypatch, hopeless=False, **options):
    monkeypatch.setattr("procure.sweep.farm.TICK", 0.0)
    monkeypatch.setattr("procure.sweep.farm.SAY_AFTER", 0.0)
    notes: list[str] = []
    return Workers(
        FewWorkers(n_workers), FarmOptions(**options), notes.append, lambda: ("Slurm says no", hopeless)
    ), notes


def test_workers_that_finish_nothing_end_the_sweep(monkeypatch):
    """Workers that come and go without finishing a batch are noticed; one receipt and all is well."""
    pool, _ = pool_of(2, monkeypatch)
    for _ in range(30):
        pool.look()
        pool.succeed()
    with pytest.raises(TableError, match="none has finished a batch"):
        for _ in range(30):
            pool.look()


def test_no_worker_is_explained(monkeypatch):
    """Without a worker the user is told why, once for a while; if none can come, that is an error."""
    pool, notes = pool_of(0, monkeypatch)
    for _ in range(3):
        pool.look()
    assert [note.partition("; ")[2] for note in notes] == ["Slurm says no"]
    pool, _ = pool_of(0, monkeypatch, hopeless=True)
    with pytest.raises(TableError, match="Slurm says no"):
        pool.look()


WRITE = """
import sys, time
import procure.tables
from procure.cli.main import run

def as_csv(frame, out):
    print("writing", flush=True)
    time.sleep(60)

procure.tables.as_csv = as_csv
sys.argv = ["procure", "workload", "generate", "--out", sys.argv[1]]
run()
"""


def test_a_shard_leaves_the_half_written_parts_of_another(tmp_path):
    """What is being written in the folder is neither read nor renamed when another shard starts."""
    plan = small_plan(tmp_path, sample="40")
    run_sweep(plan, "serial", shard=(0, 2))
    part = next((plan.study.folder / "parts").glob("*.parquet"))
    with whole_file(part.with_name("day.best-fit.000000007-01234567.parquet")) as temporary:
        temporary.write_bytes(part.read_bytes()[:100])
        _, notes = open_folder(plan)
        assert notes == []
        run_sweep(plan, "serial", shard=(1, 2))
        assert temporary.exists()
        temporary.write_bytes(part.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_leaves_no_half_file(tmp_path, number):
    """Ctrl-C, TERM and HUP end a command in one line, with exit code 130."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, str(tmp_path / "jobs.csv")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # under nohup it would ignore HUP
    ) as command:  # fmt: skip
        assert command.stdout is not None
        assert command.stdout.readline() == "writing\n"
        command.send_signal(number)
        assert command.communicate(timeout=60)[1] == "procure: interrupted\n"
    assert command.returncode == 130
    assert not list(tmp_path.iterdir())
