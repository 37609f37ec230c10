"""Ask a service over its socket: a small program that imports nothing heavy, for a shell and for every sbatch."""

import _socket  # `socket` imports what takes as long as Python's own start
import os
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
        kind = "application/json" if given.get("format") == "json" and "advice" not in given else "text/plain"
        status, body, known = fetch(_place(given), _path(given), float(given.get("timeout", "5")), kind)
        if status != 200:
            raise Refused(_error(body, status), 2 if status == 400 else 1)
        if not known.startswith(kind):
            raise Refused("what the service answered cannot be read; is it of another version?", 1)
        text = body.decode("utf-8", "replace")
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


def _place(given):
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


def fetch(path, target, timeout, kind="application/json"):
    """Return the status, the body and the kind of an answer, which is asked for as text or as JSON."""
    stream = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        stream.settimeout(timeout)
        stream.connect(path)
        question = f"GET {target} HTTP/1.1\r\nhost: procure\r\naccept: {kind}\r\nconnection: close\r\n\r\n"
        stream.sendall(question.encode())
        parts, size = [], 0
        while (part := stream.recv(65_536)) and size < MOST:
            parts.append(part)
            size += len(part)
    except TimeoutError:
        raise Refused(f"{path}: the service has not answered within {timeout:g} s", 1) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Refused(f"{path}: no service answers there: {why}", 1) from None
    finally:
        stream.close()
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if not head.startswith(b"HTTP/1.1 ") or len(words) < 2 or not words[1].isdigit():
        raise Refused(f"{path}: what answers there is no procure service", 1)
    _, _, known = head.decode("latin-1").lower().partition("\r\ncontent-type: ")
    return int(words[1]), body, known


def _error(body, status):
    import json

    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the service answered {status}"


def _printable(text):
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)
