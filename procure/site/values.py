"""How the values of Slurm's settings are read: numbers, times, lists, limits; each as Slurm's own parser takes them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from procure.site.model import Mode
from procure.workload.slurm import slurm_duration

UNSET = re.compile(r"|-\d+|0( sec| min)?|all|no|global|infinite|unlimited|(.*/)?none")
"""Values, in lower case, by which a setting that is not modelled changes nothing."""


def whole(text: str) -> int:
    """Read a whole number from 0 on, as Slurm also writes ``30 sec``; of its suffixes it knows K alone."""
    match = re.fullmatch(r"(\d+)([kK]| sec| min)?", text.strip())
    if match is None:
        raise ValueError("a number from 0 on, without a unit, is needed")
    return int(match[1]) * (1024 if match[2] in ("k", "K") else 1)


def decimal(text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number is needed") from None


def if_positive(text: str) -> int | None:
    """Read a whole number above 0; 0, UNLIMITED and the like say nothing."""
    return None if UNSET.fullmatch(text.lower()) else whole(text)


def unless_negative(text: str) -> int | None:
    """Read a whole number; −1 leaves the usual one."""
    return None if text.startswith("-") else whole(text)


def positive(text: str) -> int | None:
    """Read a whole number from 1 on; −1 leaves the usual one."""
    if (number := unless_negative(text)) == 0:
        raise ValueError("a number from 1 on is needed")
    return number


def seconds(text: str) -> int:
    """Read D-HH:MM:SS, D-HH, HH:MM:SS or a number of minutes, in seconds."""
    if text.isdecimal():
        return 60 * int(text)
    found = slurm_duration(text)
    if math.isnan(found):
        raise ValueError("a time such as 7-0, 12:00:00 or a number of minutes is needed")
    return round(found)


def time_limit(text: str) -> int | None:
    """Read a limit of time, in whole minutes as Slurm keeps it; UNLIMITED and INFINITE are none."""
    return None if text.upper() in ("UNLIMITED", "INFINITE", "NONE", "-1") else -(-seconds(text) // 60) * 60


def or_usual(usual: float, read: Callable[[str], float]) -> Callable[[str], float]:
    """Read so, but of −1, by which sacctmgr takes a setting back, the usual value."""
    return lambda text: usual if text.startswith("-") else read(text)


def yes(text: str) -> bool:
    """Read YES or NO, as Slurm also writes them."""
    if text.lower() not in ("yes", "true", "up", "1", "no", "false", "down", "0"):
        raise ValueError("YES or NO is needed")
    return text.lower() in ("yes", "true", "up", "1")


def words(text: str) -> tuple[str, ...]:
    """Read a list with commas, in lower case."""
    return tuple(word.strip().lower() for word in text.split(",") if word.strip())


def enforced(text: str) -> tuple[str, ...]:
    """Read AccountingStorageEnforce, of which 1 and 2 are the old words; wckeys wants associations."""
    return tuple({"1": "associations", "2": "limits", "wckeys": "associations"}.get(word, word) for word in words(text))


def names(text: str) -> tuple[str, ...]:
    """Read a list of names with commas."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def unless_all(text: str) -> tuple[str, ...]:
    """Read a list of names; ALL is none that is named."""
    return () if text.upper() == "ALL" else names(text)


_PER_MB = {"k": 1024.0, "m": 1.0, "g": 1 / 1024, "t": 1 / 1024**2}


def billing_weights(text: str) -> dict[str, float]:
    """Read ``CPU=1.0,Mem=0.25G,GRES/gpu=16``; what memory costs is per MB."""
    found = {}
    for name, _, value in (item.partition("=") for item in names(text)):
        unit = value[-1:].lower()
        found[name.lower()] = decimal(value[:-1]) * _PER_MB[unit] if unit in _PER_MB else decimal(value)
    return found


def counts(text: str) -> dict[str, int]:
    """Read licenses such as ``matlab:10,ansys@server:5``; which server keeps them does not matter."""
    found: dict[str, int] = {}
    for name, *n in (re.split("[:=*]", item) for item in names(text)):  # what stands twice adds up, as in Slurm
        found[name.partition("@")[0]] = found.get(name.partition("@")[0], 0) + (whole(n[0]) if n else 1)
    return found


def shared(text: str) -> str:
    """Read OverSubscribe."""
    if not re.fullmatch(r"no|exclusive|(yes|force)(:\d+)?", text.lower()):
        raise ValueError("NO, EXCLUSIVE, YES:4 or FORCE:4 is needed")
    return text.lower()


def mode_of(text: str) -> Mode | None:
    """Return how preempted jobs end, from the words of a PreemptMode; None = it does not say."""
    if set(words(text)) - set("off cancel requeue suspend gang checkpoint within priority cluster".split()):
        raise ValueError("OFF, CANCEL, REQUEUE, SUSPEND or GANG is needed")
    modes: tuple[Mode, ...] = ("off", "cancel", "requeue", "suspend")
    return next((mode for mode in modes if mode in words(text)), None)
