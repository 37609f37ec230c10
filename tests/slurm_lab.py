"""A Slurm to submit to: the one that is there, or one that a starter script starts."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def _answers() -> bool:
    return bool(shutil.which("sbatch")) and subprocess.run(["sinfo"], capture_output=True).returncode == 0


def _free_port() -> int:
    """Find the first of 20 ports that nobody has now."""
    for first in range(27000, 32000, 20):
        taken = False
        for port in range(first, first + 20):
            with socket.socket() as each:
                taken |= each.connect_ex(("127.0.0.1", port)) == 0
        if not taken:
            return first
    raise AssertionError("no free ports")


def slurm_lab() -> Iterator[None]:
    """Make sure of a Slurm; PROCURE_TEST_SLURM names the script that starts one where there is none."""
    if _answers():
        yield
        return
    starter = os.environ.get("PROCURE_TEST_SLURM")
    if not starter:
        pytest.skip("needs a Slurm: sbatch on the path, or PROCURE_TEST_SLURM naming a starter script")
    lab = tempfile.mkdtemp(prefix="procure-slurm-")
    Path(lab).chmod(0o755)
    before = dict(os.environ)
    os.environ |= {"SLURM_LAB_DIR": lab, "SLURM_LAB_PORT": str(_free_port())}
    stop = Path(starter).resolve().with_name("stop-slurm.sh")
    try:
        done = subprocess.run([Path(starter).resolve()], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        os.environ["SLURM_CONF"] = f"{lab}/etc/slurm.conf"
        yield
    finally:
        subprocess.run([stop, "--wipe"], capture_output=True, timeout=120)
        os.environ.clear()
        os.environ |= before
