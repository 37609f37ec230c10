"""``procure doctor``: what is installed, what is kept, and whether the main job can run."""

from __future__ import annotations

import json

import pytest

from procure import __version__
from procure.cli import doctor
from procure.files import caches


@pytest.fixture(autouse=True)
def places(monkeypatch, tmp_path):
    monkeypatch.setenv("PROCURE_CACHE", str(tmp_path / "cache"))
    caches._places.cache_clear()
    yield tmp_path / "cache"
    caches._places.cache_clear()


def test_it_says_what_is_installed(procure, places):
    """Versions of every package, what each extra lacks, where kernels go; exit code 0."""
    code, out, _ = procure("doctor", "--format", "json")
    found = json.loads(out)
    assert (code, found["ok"], found["problems"], found["procure"]) == (0, True, [], __version__)
    assert found["packages"]["numba"] and found["packages"]["dask"]
    assert found["extras"]["test"]["pytest"] == pytest.__version__
    assert found["caches"]["own"] == str(places / "kernels")
    assert found["compiled"]["main_job"] is False


def test_kernels_of_the_code_of_today_are_counted(places):
    from procure.files.kernels import _CODE, compiled_files, kept_under

    source = _CODE / "simulator" / "batch.py"
    today = places / "kernels" / kept_under("procure.simulator.batch", str(source))
    for folder in (today, places / "kernels" / "simulator.batch-0123456789abcdef"):
        folder.mkdir(parents=True)
        for name in ("batch.run-1.py311.nbi", "batch.run-1.py311.aa.nbc"):
            (folder / name).write_bytes(b"x")
    (places / "kernels").chmod(0o700)
    assert compiled_files() == {"simulator.batch": 1}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("no-such-package>=2", "no-such-package is missing: pip install 'no-such-package>=2'"),
        ("numpy>=999", "is installed where numpy>=999 is needed"),
    ],
)
def test_what_is_missing_is_one_sentence_and_exit_code_1(procure, monkeypatch, line, text):
    """A package that is missing or too old is named with what to do."""
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: [line])
    code, _, err = procure("doctor")
    assert code == 1
    assert text in err
    assert "the main job cannot run here" in err


def test_both_builds_of_xgboost_are_a_problem(procure, monkeypatch):
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: [])
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "3.2.0")
    code, _, err = procure("doctor")
    assert code == 1
    assert "xgboost and xgboost-cpu bring the same module" in err


def test_a_cache_that_cannot_be_used_is_said(procure, monkeypatch):
    """One sentence on stderr, and exit code 1."""
    monkeypatch.setenv("PROCURE_CACHE", "/proc/none")
    code, _, err = procure("doctor")
    assert code == 1
    assert "PROCURE_CACHE=/proc/none: /proc/none cannot be made" in err
