"""What is needed to install procure, in which versions, and what is said where something is missing."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from procure.errors import TableError

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_a_login_node_gets_no_gpu_libraries():
    """On Linux the build of XGBoost without them is asked for, elsewhere the one that there is; never both."""
    from packaging.requirements import Requirement

    asked = [one for one in map(Requirement, PROJECT["dependencies"]) if one.name.startswith("xgboost")]
    for system, machine, name in (
        ("Linux", "x86_64", "xgboost-cpu"), ("Linux", "aarch64", "xgboost-cpu"), ("Linux", "ppc64le", "xgboost"),
        ("Darwin", "arm64", "xgboost"),
    ):  # fmt: skip
        there = {"platform_system": system, "platform_machine": machine}
        assert [one.name for one in asked if one.marker and one.marker.evaluate(there)] == [name]


def test_the_search_for_a_policy_names_its_extra(monkeypatch):
    from procure.learn.search import search

    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(TableError, match=re.escape("pip install 'procure-hpc[learn]'")):
        search([])


def test_either_build_of_xgboost_says_its_version(monkeypatch):
    """The build for CPUs alone has another name; a manifest and a model's error name its version as well."""
    from procure.files import archive

    def version(name):
        if name != "xgboost-cpu":
            raise archive.PackageNotFoundError(name)
        return "3.2.0"

    monkeypatch.setattr(archive, "version", version)
    assert archive.installed_xgboost() == "3.2.0"


def test_manifest_and_report_ask_for_packages_that_are_required_by_that_name():
    """A package that an installation may lack would end a sweep or a report."""
    from procure.reports.sections import PROGRAMS
    from procure.sweep.store import _PACKAGES

    always = {re.split(r"[\[>=<;]", line)[0] for line in PROJECT["dependencies"] if ";" not in line}
    assert {*_PACKAGES, *PROGRAMS} <= always


INSTALLATION = ROOT / "installation"
NAMES = {
    "conda/recipe.yaml": {
        "xgboost-cpu": "py-xgboost-cpu", "tzdata": "python-tzdata",
        "dask": "distributed",
    },
    "spack/package.py": {"xgboost-cpu": "xgboost"},
    "easybuild/procure.eb": {"pyarrow": "Arrow", "pyyaml": "PyYAML"}
    | dict.fromkeys(("numpy", "pandas", "scipy"), "SciPy-bundle"),
}  # fmt: skip
"""What a dependency is called where it has another name."""


@pytest.mark.parametrize("recipe", NAMES)
def test_a_recipe_asks_for_every_dependency(recipe):
    """A dependency that is new in pyproject.toml is missing in no recipe, and its lowest version is the same."""
    text = (INSTALLATION / recipe).read_text(encoding="utf-8")
    for line in PROJECT["dependencies"]:
        name, low = re.match(r"([\w-]+)(?:\[.*?\])?(?:>=([\d.]+))?", line).groups()
        if name != "xgboost":
            there = NAMES[recipe].get(name, name)
            bound = {"conda/recipe.yaml": f" >={low}", "spack/package.py": f"@{low}:"}.get(recipe, "")
            assert re.search(
                rf"(^|[ \-\"']|py-){re.escape(there)}" + (re.escape(bound) if low else ""), text, re.MULTILINE
            ), name


@pytest.fixture
def release(monkeypatch):
    monkeypatch.syspath_prepend(str(INSTALLATION))
    import release as module

    return module


def test_a_release_sets_the_version_in_every_place(release, tmp_path):
    """Version, changelog, citation and recipes say it, with the day; nothing is left of the one before."""
    for path, text in release.edits(ROOT, "9.8.7", "2031-02-03").items():
        assert "9.8.7" in text, path
        assert PROJECT["name"] == "procure-hpc"
    changed = {path.name: text for path, text in release.edits(ROOT, "9.8.7", "2031-02-03").items()}
    assert "## Unreleased\n\n## 9.8.7 - 2031-02-03\n" in changed["CHANGELOG.md"]
    assert "version: 9.8.7\ndate-released: 2031-02-03\n" in changed["CITATION.cff"]
    assert changed["package.py"].count("9.8.7") == 2


def test_a_platform_without_wheels_is_one_sentence(monkeypatch):
    """So is an old Python; the package, the platform and the way out are named."""
    monkeypatch.syspath_prepend(str(INSTALLATION))
    import wheelhouse

    said = "x\nERROR: No matching distribution found for pyarrow>=18 (from procure-hpc)\n"
    assert wheelhouse.why(said, "win_arm", "3.13") == (
        "pyarrow>=18 has no wheel for win_arm and Python 3.13: name another platform or Python"
    )
    with pytest.raises(SystemExit, match=r"Python 3\.10 is too old: procure needs 3\.11 or newer"):
        wheelhouse.collect("manylinux_2_28_x86_64", "3.10", "", Path("/nonexistent"))
    assert wheelhouse.platforms("manylinux_2_17_aarch64")[0] == "manylinux_2_17_aarch64"
    assert "manylinux2014_aarch64" in wheelhouse.platforms("manylinux_2_28_aarch64")


@pytest.fixture
def house(tmp_path):
    """A wheelhouse without a wheel, for this Python."""
    folder = tmp_path / "house"
    (folder / "wheels").mkdir(parents=True)
    (folder / "wheels" / "one.whl").write_text("x")
    (folder / "python").write_text("{}.{}".format(*sys.version_info[:2]))
    (folder / "extras").write_text("")
    (folder / "SHA256SUMS").write_text(f"{hashlib.sha256(b'x').hexdigest()}  wheels/one.whl\n")
    (folder / "install.sh").write_text((INSTALLATION / "install.sh").read_text())
    return folder


def install(house, target, python=sys.executable):
    done = subprocess.run(
        ["sh", str(house / "install.sh"), str(target)], env=os.environ | {"PYTHON": python},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr.strip()


def test_install_sh_says_what_is_wrong_in_one_sentence(house, tmp_path):
    """Another Python, none, a damaged wheel, a folder that is there: exit code 1, and nothing is made."""
    target = tmp_path / "new"
    version = (house / "python").read_text()
    missing = f"install.sh: /nonexistent/python is not here; name a Python {version} with PYTHON"
    assert install(house, target, "/nonexistent/python") == (1, missing)
    assert install(house, tmp_path)[1].endswith("is there already; name a folder that is not")
    (house / "wheels" / "one.whl").write_text("y")
    assert "a wheel is damaged or missing" in install(house, target)[1]
    (house / "python").write_text("3.10")
    assert "these wheels are for 3.10" in install(house, target)[1]
    assert not target.exists()


@pytest.mark.slow
def test_install_sh_leaves_nothing_where_pip_fails(house, tmp_path):
    code, said = install(house, tmp_path / "new")
    assert code == 1
    assert "pip could not install" in said and "procure-hpc" in said
    assert not (tmp_path / "new").exists()


SAFE = {
    "jinja2": (3, 1, 6),  # CVE-2025-27516: templates break out of the sandbox
    "cryptography": (46, 0, 7),  # CVE-2024-12797, CVE-2026-26007, CVE-2026-39892
    "dask": (2026, 1, 0),  # CVE-2026-23528: code run through the dashboard
    "pyarrow": (14, 0, 1),  # CVE-2023-47248: files that run code
    "scikit-learn": (1, 5),  # CVE-2024-5206: words kept in a model
    "pydantic": (2, 4, 0),  # CVE-2024-3772: a regular expression without end
}
"""Since which version no advisory is known, where there was one."""


def oldest() -> dict[str, tuple[int, ...]]:
    """Return what `make test-oldest` installs."""
    done = subprocess.run([sys.executable, str(ROOT / ".ci/oldest.py")], capture_output=True, text=True, check=True)
    pairs = (line.split("==") for line in done.stdout.splitlines())
    return {name: tuple(map(int, number.split("."))) for name, number in pairs}


def test_every_dependency_has_a_lowest_version_that_is_tried():
    """`make test-oldest` pins each dependency at its lower bound; time zones alone have none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[\[>=<]", line)[0] for line in project["dependencies"]}
    assert names - set(oldest()) == {"tzdata"}


@pytest.mark.parametrize("name", SAFE)
def test_no_version_with_a_known_hole_is_allowed(name):
    """The lower bound is at, or above, the version that mended the last one known."""
    assert oldest()[name] >= SAFE[name]
