"""The manifest of a study's folder: what its results depend on, and what made them."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import version

from procure._version import __version__
from procure.errors import TableError
from procure.files import from_json, installed_xgboost, whole_file
from procure.study import Plan
from procure.study.plan import OF_CLASS, OF_POLICY

MANIFEST = "manifest.json"
_PACKAGES = ("numpy", "pandas", "numba", "pyarrow", "dask", "scikit-learn")


class OtherInputs(TableError):
    """A folder holds results of other inputs."""


def refuse_other_inputs(plan: Plan) -> None:
    """Raise `OtherInputs` if the study's folder holds results of other inputs: say which input changed."""
    path = plan.study.folder / MANIFEST
    if not path.exists():
        return
    try:
        manifest = from_json(path.read_text(encoding="utf-8"))
        before, writer = manifest["fingerprint"], manifest.get("versions", {}).get("procure", __version__)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise TableError(f"{path}: is no manifest of a sweep; move it or name another results folder") from None
    now = plan.fingerprint
    changed = [name for name in now if name in before and before[name] != now[name]]
    # Policies and classes may come and go, with what they read; every part of the results names its own.
    gone = [name for name in before if name not in now and not name.startswith((OF_POLICY, OF_CLASS))]
    if changed or gone:
        what = "; ".join(
            [f"{name} changed (was {before[name]}, is {now[name]})" for name in changed]
            + [f"{name} is not in the study any more" for name in gone]
        )
        raise OtherInputs(
            f"{plan.study.folder}: holds results of other inputs: {what}. "
            f"procure buy {plan.study.path} moves them aside and simulates again; or give the study another name"
            + (f"; procure {writer} wrote them, and reads them" if writer != __version__ else "")
        )


def write_manifest(plan: Plan) -> None:
    """Write the manifest, whole or not at all."""
    path = plan.study.folder / MANIFEST
    manifest = {
        "study": plan.study.document(),
        "fingerprint": plan.fingerprint,
        "versions": {name: version(name) for name in _PACKAGES}
        | {"xgboost": installed_xgboost(), "procure": __version__, "python": platform.python_version()},
        "seeds": {
            workload.name: workload.generate.seed for workload in plan.study.workloads if workload.generate is not None
        }
        | ({} if plan.study.futures is None else {"futures": plan.study.futures.seed})
        | {"model": plan.study.model.seed},
        "n_packages": len(plan.packages),
        "n_distinct": int(plan.packages["distinct"].sum()),
        "n_runs": plan.n_runs,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2, default=str) + "\n", encoding="utf-8")
