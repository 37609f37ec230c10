"""Compiled kernels are kept by their content, in a folder into which nobody else can put code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from procure import __version__
from procure.cli import doctor
from procure.errors import TableError
from procure.files import caches, kernels
from procure.files.caches import kernel_places, prepare_site

PACKAGE = Path(kernels.__file__).parent.parent
KERNEL = """from procure.files.kernels import njit
from procure.room.callee import callee


@njit(cache=True)
def kernel():
    return callee()
"""
CALLEE = "from procure.files.kernels import njit\n\n\n@njit(cache=True)\ndef callee():\n    return {}\n"
RUN = """
import sys
from pathlib import Path
import procure, procure.files.caches as code
procure.__path__.append(sys.argv[1])
code._ROOT = Path(sys.argv[1])
from procure.room.caller import kernel
print(kernel(), sum(kernel.stats.cache_hits.values()))
"""


def room(root: Path, answer: int, comment: str = "") -> Path:
    """Write a package of two kernels, of which one calls the other."""
    (root / "room").mkdir(parents=True, exist_ok=True)
    (root / "room" / "__init__.py").write_text("")
    (root / "room" / "caller.py").write_text(KERNEL)
    (root / "room" / "callee.py").write_text(CALLEE.format(answer) + comment)
    return root


def ran(root: Path, cache: Path, home: str = "/nonexistent") -> tuple[str, str]:
    """Run the kernel in a process of its own; returns the answer with the number of hits, and what was said."""
    names = ("PROCURE_CACHE", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "NUMBA_DISABLE_JIT")
    env = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(root)], capture_output=True, text=True, check=True,
        env=env | {"XDG_CACHE_HOME": str(cache), "HOME": home},
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


@pytest.mark.slow
def test_a_kernel_is_kept_by_what_it_was_compiled_from(tmp_path: Path) -> None:
    """A changed callee in another file is compiled in; the same code at another place, or with a comment, is found."""
    cache = tmp_path / "cache"
    assert ran(room(tmp_path / "one", 1), cache)[0] == "1 0"
    assert ran(tmp_path / "one", cache)[0] == "1 1"
    assert ran(room(tmp_path / "other", 1, "# why\n"), cache)[0] == "1 1"
    assert ran(room(tmp_path / "one", 2), cache)[0] == "2 0"
    assert ran(tmp_path / "one", cache)[0] == "2 1"
    assert ran(tmp_path / "other", cache)[0] == "1 1"
    assert not list(tmp_path.rglob("*/room/**/*.nb?"))
    for file in cache.rglob("*.nb?"):  # a disk that was full
        file.write_bytes(file.read_bytes()[:50])
    assert ran(tmp_path / "one", cache) == ("2 0", "")
    assert ran(tmp_path / "one", cache)[0] == "2 1"


@pytest.mark.slow
def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    """The kernel runs; that it is not kept is said once, with what to do."""
    answer, said = ran(room(tmp_path, 3), Path("/proc/none"))
    assert answer == "3 0"
    assert said.count("compiled code is not kept") == 1
    assert "name a folder of your own with PROCURE_CACHE" in said


def test_every_kernel_of_procure_comes_through_the_door() -> None:
    """No file but `procure/files/kernels.py` has Numba's own `njit`, whose cache sees a single file."""
    door = re.compile(r"from numba import.*\bn?jit\b|numba\.n?jit\(")
    own = [path for path in PACKAGE.rglob("*.py") if door.search(path.read_text(encoding="utf-8"))]
    assert [path.relative_to(PACKAGE).as_posix() for path in own] == ["files/kernels.py"]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in ("PROCURE_CACHE", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    yield
    caches._places.cache_clear()


def test_the_users_own_folder_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below XDG_CACHE_HOME by default, else where PROCURE_CACHE says; of mode 0700, whatever the umask."""
    before = os.umask(0)
    try:
        own = kernel_places().own
        monkeypatch.setenv("PROCURE_CACHE", str(tmp_path / "mine"))
        named = kernel_places().own
    finally:
        os.umask(before)
    assert own == tmp_path / "home" / "procure" / "kernels"
    assert named == tmp_path / "mine" / "kernels"
    assert {place.stat().st_mode & 0o777 for place in (own, named)} == {0o700}


@pytest.mark.parametrize(("mode", "text"), [(0o770, "chmod go-w"), (0o707, "chmod go-w")])
def test_a_folder_that_others_can_write_is_refused(tmp_path, monkeypatch, mode, text) -> None:
    folder = tmp_path / "shared" / "kernels"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    monkeypatch.setenv("PROCURE_CACHE", str(folder.parent))
    with pytest.raises(TableError, match=text):
        kernel_places()


@pytest.mark.parametrize("named", ["relative/folder", "/proc/none"])
def test_what_is_named_and_cannot_be_used_is_an_error(named, monkeypatch) -> None:
    """One sentence names the variable, what it says, and what is wrong."""
    monkeypatch.setenv("PROCURE_CACHE", named)
    with pytest.raises(TableError, match=f"^PROCURE_CACHE={named}: "):
        kernel_places()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
def test_a_sites_kernels_are_read_and_others_refused(tmp_path, monkeypatch) -> None:
    """A folder of the code's owner is read, and what is missing goes to the user's own; another user's is refused."""
    prepare_site(tmp_path / "site")
    folder = tmp_path / "site" / "kernels"
    assert folder.stat().st_mode & 0o777 == 0o755
    os.chown(folder, 12345, 12345)
    monkeypatch.setenv("PROCURE_CACHE", str(folder.parent))
    with pytest.raises(TableError, match="belongs to another user"):
        kernel_places()
    code = tmp_path / "code"
    code.touch()
    os.chown(code, 12345, 12345)
    monkeypatch.setattr(caches, "_CODE", code)
    places = kernel_places()
    assert (places.site, places.own) == (folder, tmp_path / "home" / "procure" / "kernels")
    assert places.read == [places.site, places.own]


def test_kernels_of_other_packages_follow_their_whole_package(tmp_path: Path) -> None:
    """A module may take kernels from any other of its package, or, without one, from those beside it."""
    inner = tmp_path / "pack" / "inner"
    inner.mkdir(parents=True)
    own = [inner.parent / "__init__.py", inner / "__init__.py", inner / "a.py"]
    alone = [tmp_path / "b.py", tmp_path / "c.py"]
    for one in (*own, *alone):
        one.touch()
    assert kernels._beside(own[2]) == sorted(own) and kernels._beside(alone[0]) == alone


def test_two_processes_never_write_the_same_file(tmp_path: Path) -> None:
    """Code for another signature goes to another file, even when the index that was read is old."""
    one, other = (kernels._Files(str(tmp_path), "base", "stamp") for _ in range(2))
    one.save("a", "code of a")
    other._load_index = dict  # type: ignore[method-assign]  # as it was before the first had saved
    other.save("b", "code of b")
    assert {kernels._Files(str(tmp_path), "base", "stamp").load(key) for key in "ab"} == {None, "code of b"}
    assert len(list(tmp_path.glob("*.nbc"))) == 2


@pytest.mark.slow
def test_the_version_used_longest_ago_goes_first(tmp_path: Path) -> None:
    """Not the one written first: whoever goes back and forth between two checkouts keeps both; eight are kept."""
    cache = tmp_path / "cache"
    ran(room(tmp_path / "one", 1), cache)
    [first] = cache.rglob("room.caller-*")
    for number in range(12):
        (first.parent / f"room.caller-{number}").mkdir()
        os.utime(first.parent / f"room.caller-{number}", (number, number))
    os.utime(first, (0, 0))
    ran(tmp_path / "one", cache)
    assert first.stat().st_mtime > 12
    ran(room(tmp_path / "one", 2), cache)
    assert first.is_dir() and len(list(cache.rglob("room.caller-*"))) == 8


def test_it_says_what_is_installed(procure, tmp_path):
    """Versions of every package, what each extra lacks, where kernels go; exit code 0."""
    code, out, _ = procure("doctor", "--format", "json")
    found = json.loads(out)
    assert (code, found["ok"], found["problems"], found["procure"]) == (0, True, [], __version__)
    assert found["packages"]["numba"] and found["packages"]["dask"]
    assert found["extras"]["test"]["pytest"] == pytest.__version__
    assert found["caches"]["own"] == str(tmp_path / "home/procure/kernels")
    assert found["compiled"]["main_job"] is False


def test_kernels_of_the_code_of_today_are_counted(tmp_path):
    from procure.files.kernels import _CODE, compiled_files, kept_under

    source = _CODE / "simulator" / "fast_lane.py"
    own = tmp_path / "home/procure/kernels"
    today = own / kept_under("procure.simulator.fast_lane", str(source))
    for folder in (today, own / "simulator.fast_lane-0123456789abcdef"):
        folder.mkdir(parents=True)
        for name in ("batch.run-1.py311.nbi", "batch.run-1.py311.aa.nbc"):
            (folder / name).write_bytes(b"x")
    own.chmod(0o700)
    assert compiled_files() == {"simulator.fast_lane": 1}


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
