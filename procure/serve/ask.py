"""Ask a service over its socket: a small program that imports nothing heavy, for a shell and for every sbatch."""

import os
import socket
import sys

PLACES = ("/run/procure/procure.sock", "/var/lib/procure/run/procure.sock")
"""Where the socket is looked for, unless PROCURE_SOCKET or --socket names it."""
OPTIONS = ("cpus", "mem", "time", "gpus", "nodes", "partition", "socket", "format", "timeout")
SWITCHES = ("pending", "advice")
MOST = 4_000_000


class Refused(Exception):
    """The service answered with an error, or not at all; the exit code is its second argument."""


def main(arguments):
    """Ask, print the answer, and return the exit code: 2 for bad usage, 1 for no answer."""
    try:
        given = read(arguments)
        status, body = fetch(_socket(given), _path(given), float(given.get("timeout", "5")))
        if status != 200:
            raise Refused(_error(body, status), 2 if status == 400 else 1)
        text = body.decode("utf-8", "replace")
        if "advice" not in given and given.get("format", "table") != "json":
            text = _table(text, "pending" in given)
        sys.stdout.write(_printable(text) if text.endswith("\n") else _printable(text) + "\n")
        sys.stdout.flush()
    except Refused as error:
        sys.stderr.write(f"procure: {_printable(str(error.args[0]))}\n")
        return error.args[1]
    return 0


def read(arguments):
    """Read options, ``--name value`` or ``--name=value``."""
    given, left = {}, list(arguments)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        name = name[2:] if name.startswith("--") else ""
        if name in SWITCHES and not equals:
            given[name] = ""
        elif name in OPTIONS:
            if not equals and not left:
                raise Refused(f"--{name} needs a value", 2)
            given[name] = value if equals else left.pop(0)
        else:
            known = ", ".join(f"--{one}" for one in (*OPTIONS, *SWITCHES))
            raise Refused(f"no such option: {word[:60]}; there are {known}", 2)
    for name in ("cpus", "gpus", "nodes"):
        if not (given.get(name, "0").isascii() and given.get(name, "0").isdigit()):
            raise Refused(f"--{name} {given[name][:40]}: a whole number", 2)
    if given.get("format", "table") not in ("table", "json"):
        raise Refused(f"--format {given['format'][:40]}: table or json", 2)
    try:
        if not 0 < float(given.get("timeout", "5")) <= 600:
            raise ValueError
    except ValueError:
        raise Refused(f"--timeout {given['timeout'][:40]}: seconds, above 0 and up to 600", 2) from None
    if "pending" not in given and not ("cpus" in given and "time" in given):
        raise Refused("ask with --cpus and --time, as in --cpus 16 --mem 64G --time 8:00:00, or with --pending", 2)
    return given


def _socket(given):
    named = given.get("socket") or os.environ.get("PROCURE_SOCKET")
    if named:
        return named
    return next((one for one in PLACES if os.path.exists(one)), PLACES[0])  # noqa: PTH110  pathlib takes 10 ms


def _path(given):
    if "pending" in given:
        return "/v1/pending"
    words = "&".join(f"{name}={_quoted(given[name])}" for name in OPTIONS[:6] if given.get(name))
    return f"/v1/{'advice' if 'advice' in given else 'predict'}?{words}"


def _quoted(text):
    plain = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
    return "".join(chr(one) if one in plain else f"%{one:02X}" for one in text.encode("utf-8", "surrogateescape"))


def fetch(path, target, timeout):
    """Return the status and the body of an answer."""
    try:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(timeout)
            stream.connect(path)
            stream.sendall(f"GET {target} HTTP/1.1\r\nhost: procure\r\nconnection: close\r\n\r\n".encode())
            parts, size = [], 0
            while (part := stream.recv(65_536)) and size < MOST:
                parts.append(part)
                size += len(part)
    except TimeoutError:
        raise Refused(f"{path}: the service has not answered within {timeout:g} s", 1) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Refused(f"{path}: no service answers there: {why}", 1) from None
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if not head.startswith(b"HTTP/1.1 ") or len(words) < 2 or not words[1].isdigit():
        raise Refused(f"{path}: what answers there is no procure service", 1)
    return int(words[1]), body


def _error(body, status):
    import json

    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the service answered {status}"


def _table(text, pending):
    """Return an answer as people read it."""
    import json

    try:
        said = json.loads(text)
        return _jobs(said) if pending else _answer(said)
    except (ValueError, KeyError, TypeError, IndexError):
        raise Refused("what the service answered cannot be read; is it of another version?", 1) from None


def _answer(said):
    low, high = said["interval_s"]
    start = "at once" if said["median_s"] < 2.5 else f"in about {roughly(said['median_s'])}"
    chance = ", ".join(f"{name[:-1]} h {share:.0%}" for name, share in said["chance"].items())
    lines = [
        f"starts {start} (as likely sooner as later)",
        f"  9 in 10: {roughly(low)} to {roughly(high)}",
        f"  chance of a start within {chance}",
        said["because"],
        *(f"Careful: {one}" for one in said["caution"]),
    ]
    return "\n".join(lines)


def _jobs(said):
    careful = [f"Careful: {one}" for one in said["caution"]]
    if not said["jobs"]:
        return "\n".join(["none of your jobs waits", *careful])
    lines = [f"{'job':<16} {'CPUs':>6}  {'partition':<12} {'may start in':<14} 9 in 10"]
    for job in said["jobs"]:
        low, high = job["interval_s"]
        between = "–" if low is None else f"{roughly(low)} to {roughly(high)}"
        lines.append(
            f"{job['job_id']:<16} {job['cpus']:>6}  {job['partition']:<12} {roughly(job['median_s']):<14} {between}"
        )
    if said["n"] > len(said["jobs"]):
        lines.append(f"{len(said['jobs'])} of {said['n']} shown, those that wait longest")
    return "\n".join(lines + careful)


def roughly(seconds):
    """Write a length of time as `procure.text.roughly` does, whose module takes longer to import than to ask."""
    if seconds < 2.5:
        return "at once"
    if seconds < 57.5:
        return f"{5 * round(seconds / 5)} s"
    minutes = max(round(seconds / 60), 1)
    if minutes < 60:
        return f"{minutes} min"
    if seconds < 5.9 * 3600:
        hours, tens = divmod(round(seconds / 600), 6)
        return f"{hours} h" + (f" {10 * tens} min" if tens else "")
    if seconds < 47.5 * 3600:
        return f"{round(seconds / 3600)} h"
    if seconds >= 2 * 31_557_600:
        return f"{seconds / 31_557_600:,.0f} years"
    days = round(seconds / 43_200) / 2 if seconds < 9.75 * 86_400 else round(seconds / 86_400)
    return f"{days:,g} days"


def _printable(text):
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)
