"""Logs and configurations that are damaged anywhere are read, or refused in one line; nothing else."""

from __future__ import annotations

import contextlib
import random
import re

import pytest
from test_log_formats import CONDOR, LONG, LSF, PBS, ROW, SACCT, SGE, SLURMDBD

from procure.errors import TableError
from procure.site.understand import read_slurm
from procure.workload import import_log

JOB = "1|a|1704186000|1704186600|1704190200|COMPLETED|02:00:00|4|8G|1|01:00:00\n"
LOGS = [
    PBS,
    LSF,
    SGE,
    LONG,
    str([CONDOR]).replace("'", '"'),
    SLURMDBD,
    f"; Version: 2.2\n{ROW}",
    f"{SACCT}\n{JOB}{JOB}",
]
FILES = {
    "slurm.conf": "ClusterName=c\nSelectTypeParameters=CR_Core_Memory\nAccountingStorageEnforce=limits,qos\n"
    "NodeName=n[1-4] CPUs=8 RealMemory=8000 Gres=gpu:a:2 \\\n  Feature=x\nNodeSet=s Feature=x\n"
    "DownNodes=n4 State=DOWN\n"
    "PartitionName=p Nodes=s QOS=long TRESBillingWeights=CPU=1,Mem=0.25G MaxTime=2-0\nLicenses=m@x:2\n",
    "qos.txt": "Name|Priority|GrpTRES|MaxWall|Flags|\nnormal|0||||\nlong|5|cpu=8,gres/gpu=1|1-00:00:00|NoDecay|\n",
    "assoc.txt": "Account|User|Share|MaxJobs|QOS|\nroot||1||normal|\n a||1|3|long|\n  a|u|1||normal,long|\n",
    "topology.conf": "SwitchName=s0 Nodes=n[1-2]\nSwitchName=s1 Nodes=n[3-4]\nSwitchName=t Switches=s[0-1]\n",
    "reservation.txt": "ReservationName=r StartTime=2024-01-10T14:00:00 EndTime=2024-01-10T18:00:00 Nodes=n1\n"
    "   Flags=WEEKLY\n",
}
PIECES = [
    "|",
    ",",
    "=",
    ":",
    "[",
    "]",
    "\n",
    "-",
    "9" * 21,
    '"',
    "'",
    "{",
    "\x00",
    "\ufffd",
    "%",
    "nan",
    "NULL",
    "()",
    "\\\n",
]


def mutated(text: str, rng: random.Random) -> str:
    """Change a text in up to five places."""
    for _ in range(rng.randint(1, 5)):
        at, lines = rng.randrange(len(text) + 1), text.split("\n")
        numbers = list(re.finditer(r"\d+", text))
        how = rng.randrange(6)
        if how == 0:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif how == 1:
            text = text[:at] + text[at + rng.randint(1, 20) :]
        elif how == 2:
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
            text = "\n".join(lines)
        elif how == 3:
            del lines[rng.randrange(len(lines))]
            text = "\n".join(lines)
        elif how == 4 and numbers:
            one = rng.choice(numbers)
            text = text[: one.start()] + rng.choice(["0", "-1", "1e9", "9" * 20, "", "x", "3.5"]) + text[one.end() :]
        else:
            text = text[:at]
    return text


@pytest.mark.parametrize("place", range(len(LOGS)))
def test_a_damaged_log_is_read_or_refused(tmp_path, place):
    """Forty of each format."""
    rng, path = random.Random(place), tmp_path / "log"
    for _ in range(40):
        path.write_text(mutated(LOGS[place], rng))
        with contextlib.suppress(TableError):
            import_log(path, tz="UTC", skip_bad_rows=rng.random() < 0.5)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_configuration_is_read_or_refused(tmp_path, name):
    """Sixty of each file beside the others."""
    rng = random.Random(name)
    for other, text in FILES.items():
        (tmp_path / other).write_text(text)
    read_slurm(tmp_path)
    for _ in range(60):
        (tmp_path / name).write_text(mutated(FILES[name], rng))
        with contextlib.suppress(TableError):
            read_slurm(tmp_path)
