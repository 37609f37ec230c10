"""Options of the commands that simulate a centre's own rules, and what these commands say of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pandas as pd
import typer

from procure.cli.common import Format, note, print_table, read_job_table
from procure.tables import NODE, read
from procure.text import counted
from procure.workload.shapes import Shape, shape_jobs

if TYPE_CHECKING:
    from procure.site.model import Site

NodesOption = Annotated[
    Path | None,
    typer.Option(help="Node table: node_id,kind,cpus,mem_mb,gpus[,speed,gpu_type,leaf,pod]; the site's without."),
]
SiteOption = Annotated[
    Path | None,
    typer.Option("--site", help="A site folder (see `procure site read`): its nodes, and the rules of policy slurm."),
]
RulesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="RULE",
        help="Change a rule of the centre, in Slurm's words: 'qos long GrpTRES=cpu=20%', 'bf_max_job_user=50', "
        "'partition gpu MaxTime=1-0', 'user eve MaxJobs=5'; may stand several times. The result says who waits how "
        "long before and after.",
    ),
]


ShapeOption = Annotated[
    Shape | None,
    typer.Option(
        "--shape",
        help="How jobs of several nodes meet nodes of another size: tasks (whole-node jobs, too) wherever there is "
        "room, or on the nodes as-logged; without, each job as its row says.",
    ),
]


_BY_SITE = ("slurm", "rules")
"""Policies that go by a site."""


def read_system(
    jobs: Path, nodes: Path | None, site: Path | None, shape: Shape | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read a job table, and the node table that is named, else the site's; neither is bad usage.

    Jobs of tasks have tasks unless ``shape`` is as-logged. Where it is tasks, whole-node jobs become tasks, too, unless
    they run on the site's nodes, which are of their size.
    """
    if nodes is None and site is None:
        raise typer.BadParameter("give a node table, or a site with --site", param_hint="--nodes")
    table = shape_jobs(read_job_table(jobs, "tasks"), shape or "tasks", repack=shape == "tasks" and nodes is not None)
    if site is None:
        assert nodes is not None
        return table, read(nodes, NODE)
    from procure.site.store import read_site  # a room that plugs in: for this option only

    found = read_site(site)
    return never_ended(table, found.rules), found.nodes if nodes is None else read(nodes, NODE)


def never_ended(jobs: pd.DataFrame, rules: Site) -> pd.DataFrame:
    """Return the jobs as if none had been ended for another (`procure.site.past.as_never_ended`), and say so."""
    from procure.site.past import as_never_ended  # a room that plugs in, too

    table, said = as_never_ended(jobs, rules)
    if said:
        note(said)
    return table


def with_site(policy: str, site: Path | None) -> str:
    """Give a policy that goes by a site its folder, where it has none."""
    if site is None or policy.partition(":")[0] not in _BY_SITE or "site=" in policy:
        return policy
    return f"{policy}{',' if ':' in policy else ':'}site={site.as_posix()}"


def note_rejections(policy: str, schedule: pd.DataFrame, nodes: pd.DataFrame) -> None:
    """Say which jobs of a schedule a site's rules never let start, by reason; nothing under another policy."""
    if policy.partition(":")[0] != "slurm":
        return
    from procure.policies import catalog  # which imports kernels, as the next: for this policy only
    from procure.site.policy import Slurm, rejections

    parameters = catalog.spec(policy).parameters
    assert isinstance(parameters, Slurm)
    for reason, ids in rejections(parameters, schedule, nodes).items():
        more = f" and {len(ids) - 3:,} more" if len(ids) > 3 else ""
        note(f"{counted(len(ids), 'job')} set aside: {reason} ({', '.join(ids[:3])}{more})")
    if "ended_by" in schedule:
        _note_preempted(schedule)


def _note_preempted(schedule: pd.DataFrame) -> None:
    """Say how many jobs were ended for others or by nodes that went down, and what their times in the schedule mean."""
    again, over = schedule["restarts"].astype(int), schedule["ended_by"] != ""
    if again.any():
        lost = float(schedule["lost_time"].astype(float).sum()) / 3600
        who, often = counted(int((again > 0).sum()), "job"), counted(int(again.sum()), "time")
        note(
            f"{who} ended and queued again {often}: their start, wait and run are those of the last start; the runs "
            f"before took {lost:,.1f} h and count nowhere"
        )
    for why, part in schedule[over].groupby("ended_by"):
        note(f"{counted(len(part), 'job')} ended before their time ({why}): their runs count as long as they took")


def print_waits(waits: pd.DataFrame) -> None:
    """Print waits by class before and after a change of rules."""
    shown = waits if waits[["unstarted_before", "unstarted_after"]].to_numpy().any() else waits.iloc[:, :6]
    units = {name: "s" for name in shown.columns if name.startswith(("mean", "p95"))}
    print_table(shown, Format.TABLE, "waits before and after, by class of job", units)
