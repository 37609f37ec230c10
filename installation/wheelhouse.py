"""Collect every wheel that procure needs on a platform, with a script that installs them without a network.

`make wheelhouse PLATFORM=manylinux_2_28_x86_64 PYTHON_VERSION=3.11` on a machine with a network; copy the folder
that it names to the other, and run `./install.sh DIR` there.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINUX = re.compile(r"manylinux_2_(\d+)_(\w+)")
NAMES = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
"""What some releases of glibc were called before platforms had their numbers."""


def platforms(named: str) -> list[str]:
    """Return the platforms whose wheels run on the one that is named: on Linux those of each older glibc, too."""
    found = LINUX.fullmatch(named)
    if found is None:
        return [named]
    glibc, machine = int(found[1]), found[2]
    older = [f"manylinux_2_{one}_{machine}" for one in range(glibc, 4, -1)]
    return older + [f"{name}_{machine}" for one, name in NAMES.items() if one <= glibc]


def pip(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run pip and return how it ended, with what it said."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def why(said: str, platform: str, python: str) -> str:
    """Say in one sentence what pip has found wrong."""
    if found := re.search(r"No matching distribution found for ([^\s;(]+)", said):
        return f"{found[1]} has no wheel for {platform} and Python {python}: name another platform or Python"
    if found := re.search(r"requires a different Python: .*", said):
        return f"Python {python} is too old: procure needs 3.11 or newer"
    errors = [line for line in said.splitlines() if line.startswith("ERROR")]
    return (errors or said.splitlines() or ["pip failed without a word"])[0]


def collect(platform: str, python: str, extras: str, out: Path) -> Path:
    """Fill a folder with wheels, a list of their digests and the script; returns the folder."""
    if not re.fullmatch(r"\d+\.\d+", python):
        raise SystemExit(f"--python {python}: a version such as 3.11 is allowed")
    if tuple(map(int, python.split("."))) < (3, 11):
        raise SystemExit(f"Python {python} is too old: procure needs 3.11 or newer")
    folder = out / f"procure-{platform}-py{python}"
    shutil.rmtree(folder, ignore_errors=True)
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    done = pip("wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ROOT)
    if done.returncode:
        raise SystemExit(f"procure itself cannot be built: {why(done.stderr, platform, python)}")
    (own,) = wheels.glob("procure_hpc-*.whl")
    wanted = f"{own}[{extras}]" if extras else str(own)
    tags = [word for one in platforms(platform) for word in ("--platform", one)]
    done = pip(
        "download", "--quiet", "--dest", wheels, "--only-binary=:all:", "--implementation", "cp",
        "--python-version", python, *tags, wanted,
    )  # fmt: skip
    if done.returncode:
        shutil.rmtree(folder)
        raise SystemExit(why(done.stderr, platform, python))
    (folder / "extras").write_text(extras, encoding="utf-8")
    (folder / "python").write_text(python, encoding="utf-8")
    files = sorted(wheels.iterdir())
    lines = [f"{hashlib.sha256(one.read_bytes()).hexdigest()}  wheels/{one.name}\n" for one in files]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    script = shutil.copy(Path(__file__).with_name("install.sh"), folder)
    Path(script).chmod(0o755)
    size = sum(one.stat().st_size for one in files) / 1e6
    print(f"{folder}: {len(files)} wheels, {size:.0f} MB; copy it, then ./install.sh DIR there")
    return folder


if __name__ == "__main__":
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", default="manylinux_2_28_x86_64", help="as wheels name it")
    parser.add_argument("--python", default=here, help="the version of Python there, such as 3.12")
    parser.add_argument("--extras", default="hpc", help="separated by commas; empty for none")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "wheelhouse")
    asked = parser.parse_args()
    collect(asked.platform, asked.python, asked.extras, asked.out.resolve())
