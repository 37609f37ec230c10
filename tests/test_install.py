"""What is needed to install procure, and what is said where something is missing."""

from __future__ import annotations

import re
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
    """Without cma it is one sentence."""
    from procure.learn.search import search

    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(TableError, match=re.escape("pip install 'procure-hpc[learn]'")):
        search([])


def test_either_build_of_xgboost_says_its_version(monkeypatch):
    """The build for CPUs alone has another name; a manifest and a model's error name its version as well."""
    from procure.files import booster

    def version(name):
        if name != "xgboost-cpu":
            raise booster.PackageNotFoundError(name)
        return "3.2.0"

    monkeypatch.setattr(booster, "version", version)
    assert booster.installed_xgboost() == "3.2.0"


def test_the_manifest_asks_for_packages_that_are_required_by_that_name():
    """A package that an installation may lack would end a sweep."""
    from procure.sweep.manifest import _PACKAGES

    always = {re.split(r"[\[>=<;]", line)[0] for line in PROJECT["dependencies"] if ";" not in line}
    assert set(_PACKAGES) <= always
