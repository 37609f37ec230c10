"""Boosters are trained, saved and loaded with the oldest and the newest XGBoost that `pyproject.toml` allows."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from procure.errors import TableError
from procure.files import check_booster
from tests.test_damaged_models import boosters

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


def test_keys_that_nothing_indexes_may_differ() -> None:
    """A later XGBoost that writes one more key, and an older one that writes a single base score, are both read."""
    content = boosters()["published"]
    key = b"L" + (7).to_bytes(8, "big") + b"new_key" + b"i\x01"
    at = content.index(b"gradient_booster") - 9
    assert check_booster(content[:at] + key + content[at:], "x").keys() > {"new_key"}


def test_another_version_is_named() -> None:
    """A model of another XGBoost that cannot be evaluated says which one wrote it."""
    content = boosters()["published"]
    at = content.index(b"version") + len("version")
    count = content[at + 1 + 1 + 1 : at + 3 + 8]  # [#L and the count, then three numbers
    assert content[at : at + 3] == b"[#L" and int.from_bytes(count, "big") == 3
    other = content[: at + 11] + b"i\x63" + content[at + 13 :]
    with pytest.raises(TableError, match=r"x: XGBoost 99\.\d+\.\d+ wrote this model, XGBoost \d.* is installed"):
        check_booster(other.replace(b"num_target", b"mum_target"), "x")
    check_booster(other, "x")
