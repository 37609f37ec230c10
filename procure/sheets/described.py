"""A server whose whole configuration stands in one text: its parts are read, or the text is asked about."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from procure.sheets.cells import (
    CORES,
    NO_GPU,
    Reader,
    Unreadable,
    chips_in,
    cores_said,
    cores_stated,
    gpu_models,
    without_models,
    without_sum,
)
from procure.sheets.grid import Cell
from procure.sheets.headings import plain_words
from procure.sheets.words import MACHINE, PER, folded, pattern, themed

_BRACKETS = re.compile(r"\([^()]*\)")
_TWO = re.compile(r"^(?:dual|two|zwei|deux|dos|due|twee|två|to|dva|dwa|kaksi|2P|2S)\b\s*(?:x\s*)?", re.IGNORECASE)
_CLOCK = re.compile(r"\b(?:up to|bis(?: zu)?|max\.?|jusqu'à|fino a|hasta|tot)\s*[\d.,]+\s*[GM]Hz", re.IGNORECASE)
_MODULES = re.compile(r"\d{1,2}\s*[x×*]\s*\d{1,3}\s*G[Bo]\b\W*", re.IGNORECASE)
_SIZE = re.compile(r"\W*\d[\d.,]*\s*[GT](?:i?B|o)\b\W*", re.IGNORECASE)
"""A size of nobody knows what: a second memory, or a disk."""
_NAMED = re.compile(
    r"(?:\b(?:de|di|da|of|d)\b\W*)?\b" + pattern("memories").pattern + r"(?:\s+RAM)?\b|\bd[ei] (?=RAM)", re.I
)
_GRACE = re.compile(
    rf"(?<!\w)(\d\s*[x×*]\s*)?((?:NVIDIA\s+)?Grace CPU(?:\s+Superchip)?)"
    rf"(?:\s*[,(]\s*|\s+(?:(?:mit|with|avec|con|de|à|a)\s+)?)(?=\d+\D){CORES}\)?",
    re.IGNORECASE,
)
"""Processors of which one is written without a number: its cores are said, 144 of two on a board."""
_CONTENT = re.compile(r"(?:(?<=[;,\n])|^)\s*(?:NVIDIA\s+)?G[HB]\d{3}\s*:\s*(?=\d\s*[x×*])", re.IGNORECASE)
"""A board of processors and GPUs that are listed behind it."""
_GROUPED = re.compile(r"(?<![\w.,-])(\d) (\d{3})(?= ?G(?:i?B|o)\b)", re.IGNORECASE)
"""Memory with a blank between thousands: ``1 536 GB``."""
_CORES_EACH = re.compile(
    r"\b(?:mit )?je(?= \d+ (?:kern|core))"
    rf"|(?<=cores) {PER} (?:cpu|processor|socket)\b|(?<=kerne) {PER} (?:cpu|prozessor|sockel)\b"
    rf"|(?<=coeurs) {PER} (?:cpu|processeur)\b|(?<=core) {PER} (?:cpu|processore)\b"
)
"""What says that each of the processors has so many cores."""
_NODES = re.compile(rf"\b([2-9]|\d\d+)\W*x?\W*{MACHINE}\b|\b\d+ ?u ?[2-9] ?n\b", re.IGNORECASE)


@dataclass(frozen=True)
class Described:
    """What a text says of one server, as the quote table writes it; ``name`` is what stands before its parts."""

    name: str
    processor: str
    cpus: str
    mem_gb: str
    gpus: str
    gpu_type: str


def parts_of(text: str) -> list[str]:
    """Cut a text where its parts begin: at commas, lines and semicolons, and before ``2x``; not within brackets."""
    held, count = _BRACKETS.findall(text), itertools.count()
    text = _BRACKETS.sub(lambda _: f"\0{next(count)}\0", text)
    parts = [one.strip(" ,;:-–") for one in pattern("cuts", re.I).split(text) if one]
    return [re.sub(r"\0(\d+)\0", lambda one: held[int(one[1])], part) for part in parts if part]


def written_plainly(text: str) -> str:
    """Write counts as ``2x`` and memory without blanks: ``(2) AMD EPYC``, ``24 moduli da 32 GB``, ``1 536 GB``."""
    text = _GROUPED.sub(_joined, re.sub(r"[\xa0\u2009\u202f]", " ", text))
    text = re.sub(r"((?:^|[,;:\n])\s*)n[.°º]\s*(?=\d{1,2}\s+[^\W\d])", r"\1", text)  # n. 2 CPU
    text = re.sub(r"((?:^|[,;:\n])\s*)\((\d{1,2})\)\s*(?=[^\s,;:).])", r"\1\2x ", text)
    text = re.sub(r"(?<=\d)\s*([GT])t\b(?!/)", r" \1B", text)  # Finnish gigabytes
    text = _CONTENT.sub("", _GRACE.sub(lambda one: f"{one[1] or '1x '}{one[2]} ({one[3]} cores)", text))
    text = pattern("processors_of", re.I).sub(r"\1x ", text)
    text = pattern("pieces_of", re.I).sub(r"\1x ", text)
    text = pattern("modules_of", re.I).sub(r"\1\2x \3", text)
    return "\n".join(without_sum(line) if "=" in line else line for line in text.split("\n"))


def described(text: str, reader: Reader) -> Described | None:
    """Read the processors, memory and GPUs of one server from its description; None where it is no such text.

    Raises
    ------
    Unreadable
        It names processors and memory, and more than one server, or none plainly.
    """
    text = written_plainly(text)
    parts, name = parts_of(_CLOCK.sub(" ", text)), list[str]()
    found: dict[str, list[str]] = {"processors": [], "memory": [], "bare": [], "gpus": [], "other": [], "size": []}
    called = list[str]()
    for part in parts:
        if (chips := chips_in(_TWO.sub("2x ", part))) != "":
            before, _, rest = _TWO.sub("2x ", part).partition(chips)
            found["processors"].append(chips + rest)
            name += [before] if len(found["processors"]) == 1 else []
            continue
        kind = _kind(part)
        if kind == "gpus" and not any(found.values()) and not re.match(r"\W*\d", part):
            called.append(part)  # HGX H200 server: held against the GPUs that are counted
        elif kind == "other" and not any(found.values()):
            name.append(part)
        else:
            found[kind].append(part)
    if called and found["gpus"] and all(_is_of(one, found["gpus"][0]) for one in called):
        name = [*called, *name]
    else:
        found["gpus"] = [*called, *found["gpus"]]
    memory = [*found["memory"], *found["bare"]]
    if not found["processors"] or not memory:
        return None
    plain = plain_words(text)
    bare = NO_GPU.sub(" ", _CORES_EACH.sub(" ", plain_words(without_models(text))))
    if pattern("not_plainly").search(bare) or _NODES.search(folded(text)):
        raise Unreadable("may describe more than one server, or not all of it; give cores, memory and GPUs in columns")
    if (match := pattern("counted_sizes", re.I).search(text)) is not None:
        raise Unreadable(f"holds {match[0]!r}, not plainly the memory of one node; give it in a column")
    if len(found["processors"]) > 1 or len(memory) > 1 or len(found["gpus"]) > 1:
        more = next(of_it for of_it in (found["processors"], memory, found["gpus"]) if len(of_it) > 1)
        raise Unreadable(f"names both {more[0]!r} and {more[1]!r}; give cores, memory and GPUs in columns")
    sizes = [re.sub(r"\b\d{1,2} ?(?:U|HE|RU)\b", " ", one, flags=re.IGNORECASE) for one in (*name, *found["other"])]
    odd = [chips for chips in found["processors"] if re.search(r"\d\s*[GT](?:i?B|o)\b", chips, re.IGNORECASE)]
    odd += [one for one in sizes if re.search(r"\d", one) and _says_memory(one)]
    memory = [without_sum(memory[0]), *memory[1:]]
    if odd or re.search(r"\d", pattern("memory_numbers", re.I).sub(" ", memory[0])):
        raise Unreadable(f"holds {(*odd, memory[0])[0]!r}, not plainly the memory of one node; give it in a column")
    chips = found["processors"][0]
    if re.match(r"\W*(?:[3-9]|\d\d)\s*[x×*].*\bEPYC\b", chips, re.IGNORECASE):
        raise Unreadable(
            f"holds {chips!r}, and a server has two of them at most; give the cores of one node in a column"
        )
    cores, processor = cores_said(chips) or (0, "")
    if not cores:
        raise Unreadable(f"holds {chips!r}, which does not plainly say the cores of one node; give them in a column")
    n = int(match[1]) if (match := re.match(r"\W*(\d)\s*[x×*]", chips)) is not None else 1
    for part in found["other"]:
        if any(
            times * each != cores if times else each not in (cores, cores / n) for times, each in cores_stated(part)
        ):
            raise Unreadable(f"holds {part!r} beside {chips!r}; give the cores of one node in a column")
    of_one = 144 if "superchip" in chips.casefold() else 72
    if "grace" in chips.casefold() and cores != int(re.match(r"\d*", chips)[0] or 1) * of_one:  # type: ignore[index]
        raise Unreadable(
            f"holds {chips!r}, and a Grace CPU has 72 cores, a Superchip two; give the cores of one node in a column"
        )
    reader.others = {}
    memory = [_NAMED.sub("RAM", memory[0]), *memory[1:]]
    label = re.sub(rf"^(?:(?:{pattern('is_memory').pattern}|\W)\s*)+", "", memory[0], flags=re.IGNORECASE)
    mem_gb = Reader("mem_gb", None, reader.decimal, reader.to_usd, is_told=reader.is_told).read(Cell("", label))
    if not re.fullmatch(r"\d+(\.\d+)?", mem_gb):
        raise Unreadable(f"holds {memory[0]!r}, which is not plainly the memory of one node; give it in a column")
    for size in found["size"]:
        if size.strip(" .&") != f"{mem_gb} GB":
            raise Unreadable(f"names both {size!r} and {memory[0]!r}; give the memory of one node in a column")
    gpu, gpus = Reader("gpus", None, None, reader.to_usd), "0"
    if found["gpus"]:
        gpus = gpu.read(Cell("", re.sub(r"^[^\d]*:\s*", "", found["gpus"][0])))
    elif pattern("says_gpu").search(NO_GPU.sub(" ", plain.replace("nvidia grace cpu", " "))) or (
        "hbm" in plain and "max" not in chips.casefold()
    ):
        raise Unreadable("names GPUs, and not plainly how many; give their number and model in columns")
    if not re.fullmatch(r"\d{1,2}", gpus):
        raise Unreadable(f"holds {found['gpus'][0]!r}, not plainly GPUs of one node; give them in columns")
    name = [one for one in name if not themed("parts").issuperset(plain_words(one).split())]
    title = " ".join(re.sub(r'["“”„=\']', "", "; ".join(name)).replace(",", ";").split()).strip(" :;-–")
    return Described(title, processor, str(cores), mem_gb, gpus, gpu.others.get("gpu_type", "") if gpus != "0" else "")


def _is_of(name: str, counted: str) -> bool:
    """Tell whether a server's name has no other models of GPUs than those that are counted, and no number of them."""
    models = set(gpu_models(counted))
    return set(gpu_models(name)) <= models and re.search(r"\b\d{1,2}[ -]?(?:x|gpus?)\b|[x×]\s*\d", name, re.I) is None


def _joined(match: re.Match[str]) -> str:
    """Join thousands where the number is one of memory: ``2 512 GB`` may be two of 512."""
    whole = match[1] + match[2]
    return whole if int(whole) % 64 == 0 else match[0]


def _says_memory(part: str) -> bool:
    return pattern("is_memory").search(plain_words(part)) is not None


def is_memory(part: str) -> bool:
    """Tell whether a part of a description is memory, or modules of it."""
    return any(_kind(one) in ("memory", "bare") for one in parts_of(part))


def _kind(part: str) -> str:
    """Return what a part of a description is."""
    plain = plain_words(part)
    is_sure = pattern("sure_gpus").search(part) is not None
    if is_sure or (re.search(r"\b(nvidia|instinct|tesla|gpus?)\b", plain) and gpu_models(part)):
        return "gpus"
    size = re.search(r"\d\s*[GT](?:i?B|o)\b", part, re.IGNORECASE)
    if size is None or pattern("no_memory").search(plain):
        return "other"
    if _says_memory(part):
        return "memory"
    return "bare" if _MODULES.fullmatch(part) else "size" if _SIZE.fullmatch(part) else "other"
