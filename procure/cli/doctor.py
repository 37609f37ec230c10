"""``procure doctor``: what is installed here, and can the main job run?"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import re
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import typer
from packaging.requirements import Requirement

import procure
from procure._version import __version__
from procure.cli import common
from procure.errors import TableError
from procure.files.caches import VARIABLE, kernel_places, prepare_site

_OURS = "procure-hpc"
_MODULES = {"dask": "distributed", "pyarrow": "pyarrow.parquet", "pyyaml": "yaml", "scikit-learn": "sklearn"}
_MODULES |= {"vl-convert-python": "vl_convert", "xgboost-cpu": "xgboost"}
"""What is imported of a package, where that is not its name."""
_BOTH_BUILDS = ("xgboost", "xgboost-cpu")
"""Packages that bring the same module: either will do."""


def doctor(
    warm: bool = typer.Option(
        False, "--warm", help="Compile every policy now, in parallel, so that no first use waits for it."
    ),
    site: Path | None = typer.Option(
        None, metavar="DIR", help="--warm: keep them in this folder, for every user to read, none to change."
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Print versions, packages, extras, and where compiled code is kept; exit code 1 if the main job cannot run.

    Compiled kernels are kept on the disk. With --warm --site a centre compiles them for its users, once for each type
    of processor; users name the folder in PROCURE_CACHE.

    Examples:
    procure doctor --format json
    procure doctor --warm
    procure doctor --warm --site /opt/procure/cache
    """
    if warm or site is not None:
        _compile(site, output)
        return
    found = examine()
    if output is common.Format.JSON:
        common.print_json(found)
    else:
        common.print_table(pd.DataFrame(_lines(found), columns=["what", "state"]), output, "installation")
        common.note(f"the main job {'can' if found['ok'] else 'cannot'} run here")
    for problem in found["problems"]:
        common.note(f"procure: {problem}")
    raise typer.Exit(0 if found["ok"] else 1)


def _compile(site: Path | None, output: common.Format) -> None:
    from procure.sweep.runner import warm  # which imports all that is to be examined

    if site is not None:
        prepare_site(site.absolute())
        os.environ[VARIABLE] = str(site.absolute())  # which the processes that compile inherit
    common.print_table(warm().round({"seconds": 1}), output, "compiled")
    if site is not None:
        common.note(f"users read it with: export {VARIABLE}={site.absolute()}")


def examine() -> dict[str, Any]:
    """Return what is installed here, as ``procure doctor --format json`` prints it."""
    problems: list[str] = []
    packages, extras = _packages(problems)
    caches, compiled = _caches(problems)
    return {
        "ok": not problems,
        "problems": problems,
        "procure": __version__,
        "code": str(Path(procure.__file__).parent),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()),
        "processors": len(os.sched_getaffinity(0)),
        "packages": packages,
        "extras": extras,
        "caches": caches,
        "compiled": compiled,
        "programs": {name: shutil.which(name) for name in ("sbatch", "chromium", "pdftotext")},
    }


def _version(*names: str) -> str | None:
    """Return the version of the first of some packages that is installed."""
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None


def _packages(problems: list[str]) -> tuple[dict[str, str | None], dict[str, dict[str, str | None]]]:
    """Return the version of each package that is needed, and of those of each extra; None is a missing one."""
    packages: dict[str, str | None] = {}
    extras: dict[str, dict[str, str | None]] = {}
    if _version(_OURS) is None:
        problems.append(f"{_OURS} is not installed in {sys.prefix}; pip install {_OURS}")
        return packages, extras
    for requirement in map(Requirement, metadata.requires(_OURS) or ()):
        name, extra = requirement.name, re.search(r"extra == ['\"]([\w-]+)['\"]", str(requirement))
        have = _version(name, *(_BOTH_BUILDS if name in _BOTH_BUILDS else ()))
        if extra is not None:
            extras.setdefault(extra[1], {})[name] = have
        elif requirement.marker is None or requirement.marker.evaluate():
            packages[name] = have
            if trouble := _trouble(requirement, have):
                problems.append(trouble)
    if all(map(_version, _BOTH_BUILDS)):
        problems.append("xgboost and xgboost-cpu bring the same module: pip uninstall both, then install one")
    return packages, extras


def _trouble(requirement: Requirement, have: str | None) -> str:
    """Say in one sentence why a package does not serve, if so."""
    name, needed = requirement.name, f"{requirement.name}{requirement.specifier}"
    if have is None:
        return f"{name} is missing: pip install '{needed}'"
    if not requirement.specifier.contains(have, prereleases=True):
        return f"{name} {have} is installed where {needed} is needed"
    try:
        importlib.import_module(_MODULES.get(name, name.replace("-", "_")))
    except Exception as error:  # a library that is missing in the system raises what it likes
        return f"{name} {have} cannot be imported: {str(error).partition(chr(10))[0] or type(error).__name__}"
    return ""


def _caches(problems: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return where compiled kernels are, and those that are there of today's code, by file."""
    try:
        places = kernel_places()
    except TableError as error:
        problems.append(str(error))
        return {"site": None, "own": None, "problem": str(error)}, {}
    caches = {name: place and str(place) for name, place in (("site", places.site), ("own", places.own))}
    size = sum(file.stat().st_size for place in places.read for file in place.glob("*/*.nb[ic]")) / 1e6
    kernels: dict[str, int] = {}
    if not any("numba" in problem or "llvmlite" in problem for problem in problems):
        from procure.files.kernels import compiled_files

        kernels = compiled_files()
    compiled = {"main_job": bool(kernels.get("simulator.fast_lane")), "kernels": kernels}
    return caches | {"problem": places.problem, "size_mb": round(size, 1)}, compiled


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [(name, str(found[name])) for name in ("procure", "code", "python", "platform", "libc", "processors")]
    lines += [(name, version or "missing") for name, version in found["packages"].items()]
    for extra, members in found["extras"].items():
        missing = [name for name, version in members.items() if version is None]
        lines.append((f"extra {extra}", f"without {', '.join(missing)}" if missing else "complete"))
    caches, compiled = found["caches"], found["compiled"]
    own = caches["own"] or f"none: {caches['problem']}; each run compiles again. Name a folder with PROCURE_CACHE"
    n, size = sum(compiled.get("kernels", {}).values()), caches.get("size_mb", 0)
    ready = "compiled" if compiled.get("main_job") else "compiled at first use; `procure doctor --warm` does so now"
    lines += [("kernels of the site", caches["site"] or "none named"), ("kernels of your own", own)]
    return [*lines, ("compiled", f"{n} kernels of this code, {size} MB in all"), ("main job", ready)]
