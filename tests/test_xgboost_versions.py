"""Boosters are trained, saved and loaded with the oldest and the newest XGBoost that `pyproject.toml` allows."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from procure.errors import TableError
from procure.files import load_booster

ROOT = Path(__file__).parent.parent
FILES = ("test_queue_time_model.py", "test_models.py", "test_xgboost_versions.py")


def allowed() -> tuple[str, str]:
    """Return what pip is asked for: the oldest version that is allowed, and the newest."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (line,) = (one.partition(";")[0] for one in listed if one.startswith("xgboost-cpu"))
    oldest = next(one.partition(">=")[2] for one in line.split(",") if ">=" in one)
    return f"xgboost-cpu=={oldest}", line


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["oldest", "newest"])
def test_models_work_with_every_xgboost_allowed(tmp_path: Path, which: int) -> None:
    """The tests of models pass in a process of its own, with that XGBoost installed for it alone."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    installed = subprocess.run(
        [*pip, "install", "-q", "--no-deps", "--target", str(tmp_path / "lib"), allowed()[which]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if installed.returncode:
        pytest.skip(f"{allowed()[which]} cannot be installed here: {installed.stderr.strip()[-200:]}")
    tests = [str(ROOT / "tests" / name) for name in FILES]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *tests],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "lib")}, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_model_that_xgboost_cannot_read_names_its_version() -> None:
    with pytest.raises(TableError, match=r"x: the model file is damaged, or written by another XGBoost than \d"):
        load_booster(b"{L\0\0\0\0\0\0\0\x07", "x")
