"""HTCondor's history, as ``condor_history -json``, ``-xml`` or ``-long`` writes it, as rows of sacct's fields.

The attributes are those of "Job ClassAd Attributes" in HTCondor's manual; memory is in MiB.
"""

from __future__ import annotations

import re
from typing import Any

from procure.workload.ledger import Rows, documents, duration

_STATES = {"1": "PENDING", "2": "RUNNING", "3": "CANCELLED", "4": "COMPLETED", "5": "PENDING"}
_PAIR = re.compile(r"([A-Za-z_]\w*)\s*=\s*(.*)")
_XML = re.compile(r'<a n="(\w+)">\s*<\w+>(.*?)</\w+>\s*</a>', re.DOTALL)
_OTHERS = re.compile(r"request(?!cpus|memory|gpus|disk)\w+")
_ELSEWHERE = (7, 9, 12)
"""Universes of the scheduler, of grids, and local."""


def recognises(lines: list[str]) -> bool:
    """Say whether a log is one of HTCondor."""
    head = "\n".join(lines[:400])
    return all(re.search(rf'{name}"?\s*[:=>]', head, re.IGNORECASE) for name in ("ClusterId", "QDate"))


def rows(text: str) -> Rows:
    """Return a row per job."""
    found = Rows(text)
    # Names of attributes are the same in small letters and in capitals.
    ads = [(n, {name.lower(): value for name, value in ad.items()}) for n, ad in _ads(text, found)]
    hosts = any("lastremotehost" in ad for _, ad in ads)  # else which jobs ran is told by their times
    for number, ad in ads:
        if _whole(ad, "JobUniverse") in _ELSEWHERE:
            found.skip("of the scheduler's, the local or a grid's universe: it ran elsewhere")
            continue
        start = _whole(ad, "JobCurrentStartDate") or _whole(ad, "JobStartDate")
        end = _whole(ad, "CompletionDate") or _whole(ad, "EnteredCurrentStatus")
        wall = _whole(ad, "RemoteWallClockTime")
        if _whole(ad, "LastJobStatus") in (1, 5):  # it was removed as it waited again
            end = min(end, start + wall)
        if _whole(ad, "NumJobStarts") > 1:
            found.note("{jobs} started more than once: only the last run is taken")
        host = str(ad.get("lastremotehost", "")).rsplit("@", 1)[-1]
        memory, gpus, cpus = (_amount(ad, name, found) for name in ("Memory", "Gpus", "Cpus"))
        n = max(_whole(ad, "MaxHosts"), 1) if _whole(ad, "JobUniverse") == 11 else 1  # the parallel universe
        cpus = max(cpus, 1)
        found.unread({name.removeprefix("request") for name in ad if _OTHERS.fullmatch(name) and _whole(ad, name)})
        found.add(
            number,
            JobID=f"{ad.get('clusterid', '')}_{ad.get('procid', 0)}",
            User=ad.get("owner", ad.get("user", "")),
            Account=ad.get("accountinggroup", ""),
            Submit=_whole(ad, "QDate") or "",
            Start=start or "",
            End=end or "",
            ElapsedRaw=end - start if start and end else wall,
            State=_STATES.get(str(ad.get("jobstatus", 4)), "COMPLETED"),
            NNodes=n,
            Timelimit=duration(str(_whole(ad, "AllowedExecuteDuration") or _whole(ad, "AllowedJobDuration"))),
            **({"NodeList": (host or "unnamed") if start else ""} if hosts else {}),
            ReqTRES=f"cpu={cpus * n},mem={memory * n}M,node={n},gres/gpu={gpus * n}",
            SubmitLine=f"condor_submit --nodes={n} --ntasks-per-node={cpus}",
        )
    found.note("HTCondor's jobs have a time limit only where AllowedExecuteDuration or AllowedJobDuration is one")
    return found


def _ads(text: str, found: Rows) -> list[tuple[int, dict[str, Any]]]:
    if text.lstrip()[:1] in "[{":
        try:
            every = [one for each in documents(text) for one in (each if isinstance(each, list) else [each])]
        except ValueError:
            found.bad(1, text[:60], "JSON as condor_history -json writes it")
            return []
        return list(enumerate((one for one in every if isinstance(one, dict)), 1))
    if text.lstrip().startswith("<"):
        return [(n, dict(_XML.findall(one))) for n, one in enumerate(text.split("<c>")[1:], 1)]
    ads: list[tuple[int, dict[str, Any]]] = [(1, {})]
    ended = False
    for number, line in enumerate(text.split("\n"), 1):
        pair = _PAIR.fullmatch(line.strip())
        if pair is None:
            ended = True  # an empty line, or the banner *** Offset = …
            continue
        if ended and ads[-1][1]:
            ads.append((number, {}))
        ended = False
        ads[-1][1][pair[1]] = pair[2].strip('"')
    return [(number, ad) for number, ad in ads if ad]


def _whole(ad: dict[str, Any], name: str) -> int:
    """Return an attribute's whole number; 0 where it is none, as of an expression."""
    try:
        return int(float(ad.get(name.lower(), 0)))
    except (TypeError, ValueError, OverflowError):
        return 0


def _amount(ad: dict[str, Any], name: str, found: Rows) -> int:
    """Return what a job asked for; of an expression, or where it asked for nothing, what it was given."""
    asked = str(ad.get(f"request{name.lower()}", "undefined"))
    if not re.fullmatch(r"[\d.]*|undefined", asked):
        found.note(f"{{jobs}} whose Request{name} is an expression, no number: what it got is taken, if it is told")
    return _whole(ad, f"Request{name}") or _whole(ad, f"{name}Provisioned")
