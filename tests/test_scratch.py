"""Where workers keep locks and spill: a folder that no other user can have prepared."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from sweep_lab import finish, make_long_study, start, under_way

from procure.sweep import FarmOptions
from procure.sweep.connect import connect

NOBODY = 65534


def plant(folder: Path, victim: Path, name: str = "public") -> Path:
    """Make, as another user where that is possible, Dask's folder in a public one: its locks lead to a file of ours."""
    public = folder / name
    public.mkdir()
    public.chmod(0o1777)
    planted = public / "dask-scratch-space"
    planted.mkdir()
    for name in ("global.lock", "purge.lock"):
        (planted / name).symlink_to(victim)
    planted.chmod(0o777)
    if os.getuid() == 0:
        os.chown(planted, NOBODY, NOBODY)
    return public


def refuse_planted(public: Path, victim: Path) -> None:
    assert victim.read_text() == "dear to me\n"
    planted = public / "dask-scratch-space"
    assert sorted(path.name for path in planted.iterdir()) == ["global.lock", "purge.lock"]


@pytest.fixture
def victim(tmp_path) -> Path:
    path = tmp_path / "thesis.txt"
    path.write_text("dear to me\n")
    return path


@pytest.mark.slow
def test_local_workers_leave_a_planted_folder_alone(tmp_path, victim, monkeypatch):
    """Another user's dask-scratch-space is not used; what is used is ours alone, and gone afterwards."""
    public = plant(tmp_path, victim)
    monkeypatch.setattr(tempfile, "tempdir", str(public))
    with connect("local", FarmOptions(jobs=1), print) as (client, _):
        client.wait_for_workers(1)
        folders = client.run(lambda dask_worker: dask_worker.local_directory)
        folders |= client.run(lambda dask_worker: dask_worker.local_directory, nanny=True)
        folders["scheduler"] = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.local_directory)
        (own,) = public.glob("procure-*")
        assert (own.stat().st_mode & 0o777, own.stat().st_uid) == (0o700, os.getuid())
        assert all(Path(folder).is_relative_to(own) for folder in folders.values()), folders
    refuse_planted(public, victim)
    left = {path.name for path in public.iterdir()} - {path.name for path in public.glob("pymp-*")}
    assert left == {"dask-scratch-space"}  # multiprocessing's folder ends with this process


@pytest.mark.slow
@pytest.mark.parametrize("name", ["public", "of-a-path-that-no-socket-of-unix-can-have-" * 2])
def test_interrupted_sweep_leaves_no_folder(tmp_path, victim, name):
    """Whether it ends, is interrupted or is told to end: a sweep removes its folder for temporary files."""
    public = plant(tmp_path, victim, name)
    path = make_long_study(tmp_path)
    sweep = start("sweep", path, TMPDIR=str(public))
    under_way(path, sweep)
    sweep.terminate()
    assert finish(sweep)[0] == 130
    refuse_planted(public, victim)
    assert [path.name for path in public.iterdir()] == ["dask-scratch-space"]
