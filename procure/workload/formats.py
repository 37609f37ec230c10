"""The formats of logs, a row each: how one is told, and what reads it.

All but csv and swf become rows of sacct's fields, so that `procure.workload.read_sacct` has the rules for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from procure.workload import read_condor, read_jobcomp, read_lsf, read_pbs, read_sge, read_slurmdbd
from procure.workload.ledger import Imported
from procure.workload.log_settings import How
from procure.workload.read_csv import read_csv
from procure.workload.read_sacct import read_sacct
from procure.workload.read_swf import read_swf
from procure.workload.sacct_table import HEADER, MOST_BANNER


class Format(NamedTuple):
    """A format of logs."""

    name: str
    of: str
    recognises: Callable[[list[str]], bool]  # from a log's first lines that hold anything
    read: Callable[[Path, How], Imported]


def _like_sacct(name: str, of: str, module: ModuleType) -> Format:
    return Format(name, of, module.recognises, partial(read_sacct, rows=module.rows))


def _is_sacct(lines: list[str]) -> bool:
    head = lines[0].lstrip()
    names = set(re.split(r"\W+", head.lower()))  # as other tools write them
    return (
        bool(re.search(r"\bJobID(Raw)?\b", head) or any(map(HEADER.search, lines[:MOST_BANNER])))
        or {"jobid", "submit", "start", "end"} <= names
        or (head[:1] in "{[" and not read_condor.recognises(lines))
    )


def _is_swf(lines: list[str]) -> bool:
    numbers = next((line for line in lines if not line.startswith("#")), "").split()
    is_number = re.compile(r"-?\d+(\.\d*)?").fullmatch  # users and groups of other archives have names
    return lines[0].lstrip().startswith(";") or (len(numbers) >= 18 and all(map(is_number, numbers[:11])))


FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format("swf", "the Standard Workload Format", _is_swf, read_swf),
        _like_sacct("pbs", "accounting records of OpenPBS, PBS Professional, Torque", read_pbs),
        _like_sacct("lsf", "LSF's lsb.acct", read_lsf),
        _like_sacct("sge", "Grid Engine's accounting file", read_sge),
        _like_sacct("condor", "HTCondor's history, -json, -xml or -long", read_condor),
        _like_sacct("slurmdbd", "slurmdbd's job table, as CSV or of mysqldump", read_slurmdbd),
        _like_sacct("jobcomp", "Slurm's jobcomp/filetxt", read_jobcomp),
        Format("sacct", "sacct --parsable2 or --json", _is_sacct, read_sacct),
        Format(
            "csv",
            "columns that --column or a preset names",
            lambda lines: max(map(lines[0].count, ",;\t|")) > 0,
            read_csv,
        ),
    )
}
"""In the order in which a log is tried."""


_SACCT = "procure workload import --print-sacct-command"
_OTHERS = (
    (r"(?:---\s*\n)?jobs:\s*\n", "is YAML, as sacct --yaml prints it; sacct --json prints the same, and is read"),
    (r"JOBID +PARTITION ", f"is what squeue or sprio prints, the jobs of one moment; a log: {_SACCT}"),
    (r'PARTITION[ |]+AVAIL|NODELIST +NODES|NodeName=|PartitionName=|\{\s*"(?:sinfo|nodes)"',
     f"is what sinfo or scontrol prints of nodes, for procure site read; a log of jobs: {_SACCT}"),
    (r"-+\s*\n[\w/]+ (?:Utilization|Usage|Sizes)", f"is what sreport prints, sums of many jobs; a log: {_SACCT}"),
    (r"JobId=\d+ (?:\w+=\d+ )*JobName=", f"is what scontrol show job prints, jobs of one moment; a log: {_SACCT}"),
    (r"(?:.*\n){0,3}?Job (?:ID|id) +(?:Username|Name) |Job Id: |\{[^{}]*\"pbs_version\"",
     "is what qstat prints; a log of PBS is server_priv/accounting/ on its server"),
    (r"=+\s*\nqname ", "is what qacct -j prints; a log is its source, $SGE_ROOT/default/common/accounting"),
    (r"Accounting information about jobs|JOBID +USER +STAT |Job <\d+>|Summary of time in seconds"
     r'|\{[^{}]*"COMMAND": ?"b|"JOB_FINISH2"',
     "is of bacct, bhist, bjobs or lsb.stream; a log of LSF is LSB_SHAREDIR/CLUSTER/logdir/lsb.acct"),
    (r"\d{3} \(\d+\.\d+\.\d+\) |ID +OWNER +SUBMITTED|(?=.*\bQDate\b)(?=.*\bClusterId\b)[\w ,\t]+\n",
     "is of HTCondor, but not its history whole: condor_history -json prints that"),
    (r"\+-[-+]+\+\s*\n\|", "is a table of mysql for people; mysql --batch prints it as it is read"),
)  # fmt: skip
"""How files begin that are known but not read, and what is to be said of them."""


def not_read(text: str) -> str:
    """Say what a file is that is known but not read, and where the log is; nothing of any other."""
    text = re.sub(r"\A(?:\w{3} \w{3} +\d+ .*\n)?\s*", "", text.lstrip())  # the day on which squeue -l printed it
    return next((what for begins, what in _OTHERS if re.match(begins, text)), "")


def recognised(text: str) -> Format | None:
    """Return the format of a log, from its first characters; None where nothing tells."""
    lines = [line for line in text.split("\n") if line.strip()]
    return next((one for one in FORMATS.values() if lines and one.recognises(lines)), None)
