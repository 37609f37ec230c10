"""Build a release and try it: `make release VERSION=0.2.0`; nothing outside build/release changes without --write.

The files of the last commit are copied, given the version and the date, built twice (the bytes must be equal), checked
by twine, listed, installed from the wheel into an empty environment, and the tutorial is run in an empty folder.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "procure_hpc"
BUILDERS = ["build>=1.2", "twine>=6", "setuptools>=77"]
NEVER = re.compile(r"(^|/)(tests?|benchmarks|results|data|\.ci|\.git|__pycache__)(/|$)|\.(parquet|nb[ic]|pyc)$")
"""What is in no distribution."""
DATA = (".toml", ".csv", ".html", ".css", ".js")
RECIPES = {
    "conda/recipe.yaml": r'(version: ")[^"]*(")',
    "spack/package.py": r'(version\("|procure_hpc-)\d[^"]*?(\.tar\.gz"|"\))',
    "easybuild/procure.eb": r"(?m)(^version = ')[^']*(')",
}
"""Where else the version stands."""


def version_of(text: str) -> str:
    """Return a version that is written as releases are."""
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", text):
        raise SystemExit(f"VERSION={text}: a version is three numbers, 0.2.0, or 0.2.0rc1 before it")
    return text


def edits(root: Path, version: str, day: str) -> dict[Path, str]:
    """Return the files that a release changes, with what is to be in them: version, changelog, citation, recipes."""
    version_file, changes, citation = root / "procure" / "_version.py", root / "CHANGELOG.md", root / "CITATION.cff"
    log = changes.read_text(encoding="utf-8")
    if f"\n## {version} " in log:
        raise SystemExit(f"CHANGELOG.md: {version} is there already")
    if not re.search(r"^## Unreleased\n+\S", log, re.MULTILINE) or re.search(
        r"^## Unreleased\n+## ", log, re.MULTILINE
    ):
        raise SystemExit("CHANGELOG.md: nothing is under Unreleased")
    cited = re.sub(r"^version: .*$", f"version: {version}", citation.read_text(encoding="utf-8"), flags=re.MULTILINE)
    cited = re.sub(r"^date-released: .*\n", "", cited, flags=re.MULTILINE)
    cited = re.sub(r"^(version: .*\n)", rf"\g<1>date-released: {day}\n", cited, flags=re.MULTILINE)
    old = version_file.read_text(encoding="utf-8")
    recipes = {
        root / "installation" / name: re.sub(
            pattern, rf"\g<1>{version}\g<2>", (root / "installation" / name).read_text()
        )
        for name, pattern in RECIPES.items()
    }
    return recipes | {
        version_file: re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', old),
        changes: log.replace("## Unreleased\n", f"## Unreleased\n\n## {version} - {day}\n", 1),
        citation: cited,
    }


def run(*command: str | Path, cwd: Path | None = None, **env: str) -> str:
    """Run a command to its end; what it said is shown if it fails."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=os.environ | env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{' '.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout


def copy_of_head(to: Path) -> None:
    """Lay out the files of the last commit, with equal permissions whatever the umask."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(to, filter="data")
    for path in to.rglob("*"):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def even_out(sdist: Path, moment: int) -> None:
    """Write a source archive again with names in order and the same time and owner for all."""
    with tarfile.open(sdist) as tar:
        members = sorted((one for one in tar.getmembers()), key=lambda one: one.name)
        contents = {one.name: tar.extractfile(one).read() for one in members if one.isfile()}  # type: ignore[union-attr]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for one in members:
            plain = tarfile.TarInfo(one.name)
            plain.type, plain.mtime, plain.mode = one.type, moment, 0o755 if one.isdir() or one.mode & 0o100 else 0o644
            plain.size = len(contents.get(one.name, b""))
            tar.addfile(plain, io.BytesIO(contents[one.name]) if one.isfile() else None)
    sdist.write_bytes(gzip.compress(packed.getvalue(), mtime=moment))


def build(source: Path, python: Path, to: Path, moment: int) -> list[Path]:
    """Build a source archive, and the wheel from what is in it."""
    run(python, "-m", "build", "--no-isolation", "--outdir", to, source, SOURCE_DATE_EPOCH=str(moment))
    (sdist,) = to.glob("*.tar.gz")
    even_out(sdist, moment)
    return sorted(to.iterdir())


def check_contents(wheel: Path, sdist: Path) -> str:
    """Hold what the wheel contains against the source: every module, template and preset, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    listed = run("git", "ls-files", "procure", cwd=ROOT).splitlines()
    wanted = {name for name in listed if name.endswith((".py", *DATA)) or name.endswith("py.typed")}
    if missing := wanted - names:
        raise SystemExit(f"{wheel.name} lacks {', '.join(sorted(missing)[:5])}")
    if extra := names - wanted:
        raise SystemExit(f"{wheel.name} has {', '.join(sorted(extra)[:5])}, which the source does not list")
    with tarfile.open(sdist) as tar:
        packed = [one.partition("/")[2] for one in tar.getnames()]
    if wrong := [name for name in packed if NEVER.search(name.replace("procure/", ""))]:
        raise SystemExit(f"{sdist.name} has {', '.join(sorted(wrong)[:5])}")
    return f"{len(names)} files of procure, {sum(name.endswith(DATA) for name in names)} of them data"


def try_it(wheel: Path, base: Path, version: str) -> str:
    """Install the wheel into an empty environment and run the tutorial in an empty folder with the example quotes."""
    run(sys.executable, "-m", "venv", base / "env")
    run(base / "env/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel)
    empty = base / "empty"
    (empty / "quotes").mkdir(parents=True)
    shutil.copy(ROOT / "quotes" / "example-2023.csv", empty / "quotes")
    path = f"{base / 'env/bin'}:{os.environ['PATH']}"
    said = run("procure", "--version", cwd=empty, PATH=path).strip()
    if said != f"procure {version}":
        raise SystemExit(f"the installed command says {said}")
    run("procure", "doctor", cwd=empty, PATH=path)
    page = (ROOT / "docs" / "tutorial" / "first-study.md").read_text(encoding="utf-8")
    script = "\n".join(["set -e", *re.findall(r"^```bash\n(.*?)^```", page, re.DOTALL | re.MULTILINE)])
    run("bash", "-c", script, cwd=empty, PATH=path)
    if not (empty / "results" / "first" / "report.html").is_file():
        raise SystemExit("the tutorial has written no report")
    return "the tutorial ran in an empty folder"


def sums(paths: list[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def check_tagged(root: Path, version: str) -> dict[Path, str]:
    """Refuse a tag whose files say another version; nothing is to be changed then."""
    said = re.search(r'__version__ = "(.*)"', (root / "procure" / "_version.py").read_text(encoding="utf-8"))
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if said is None or said[1] != version or f"\n## {version} " not in log:
        raise SystemExit(f"version and changelog do not say {version}: make release VERSION={version} WRITE=1")
    return {}


def release(version: str, *, write: bool, tagged: bool, tutorial: bool, out: Path) -> None:
    """Make everything in a copy; with ``write`` what a release changes is changed here, too."""
    when = int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    day = datetime.datetime.fromtimestamp(when, datetime.UTC).date().isoformat()
    if write and run("git", "status", "--porcelain", cwd=ROOT).strip():
        raise SystemExit("there are changes that are not committed: commit them first")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="procure-release-") as folder:
        base = Path(folder)
        run(sys.executable, "-m", "venv", base / "tools")
        python = base / "tools/bin/python"
        run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *BUILDERS)
        built = []
        for turn in ("one", "two"):
            source = base / turn / "source"
            source.mkdir(parents=True)
            copy_of_head(source)
            changed = check_tagged(source, version) if tagged else edits(source, version, day)
            for path, text in changed.items():
                path.write_text(text, encoding="utf-8")
            built.append(build(source, python, base / turn / "dist", when))
        if sums(built[0]) != sums(built[1]):
            raise SystemExit(f"two builds differ: {sums(built[0])} and {sums(built[1])}")
        print(run(python, "-m", "twine", "--no-color", "check", "--strict", *built[0]).strip())
        sdist, wheel = sorted(built[0], key=lambda path: path.suffix)
        print(check_contents(wheel, sdist))
        if tutorial:
            print(try_it(wheel, base, version))
        for path in built[0]:
            shutil.copy(path, out)
    for name, digest in sums(sorted(out.iterdir())).items():
        print(digest, name, f"{(out / name).stat().st_size / 1e6:.2f} MB")
    print(f"{version} of {day} is in {out}; the same bytes twice")
    if write:
        for path, text in edits(ROOT, version, day).items():
            path.write_text(text, encoding="utf-8")
        print(f"changed: version, changelog, citation. Commit them, then: git tag v{version}")
    elif not tagged:
        print("dry: nothing was changed here; WRITE=1 writes version, changelog and citation")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", type=version_of)
    parser.add_argument("--write", action="store_true", help="change version, changelog and citation here")
    parser.add_argument("--tagged", action="store_true", help="the commit says this version already")
    parser.add_argument("--no-tutorial", action="store_true", help="do not install it and run the tutorial")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "release")
    asked = parser.parse_args()
    release(
        asked.version, write=asked.write, tagged=asked.tagged, tutorial=not asked.no_tutorial, out=asked.out.resolve()
    )
