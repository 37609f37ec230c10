"""Keys with which drivers, schedulers and workers of one study, or of one run, know each other."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from procure.errors import TableError

DAYS = 365
_RENEW = 30 * 86_400
"""Seconds before they expire in which keys are made anew."""


def make_keys(folder: Path) -> tuple[Path, Path]:
    """Return a study's certificate and key; make them if there are none, or if they soon expire.

    One self-signed certificate is everybody's, and the only authority. Both files are for their owner alone: that they
    may be known to others (a file or the folder is not ours, is a link, others may use it, anybody may replace it) is
    an error.
    """
    where = folder / "tls"
    cert, key = where / "cert.pem", where / "key.pem"
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_shared(where, stat.S_ISDIR)
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise TableError(
                f"{folder}: has mode {stat.S_IMODE(mode):04o}, so that anybody can put other keys in the place of "
                "yours and run code as you; chmod o-w, or name another results folder"
            )
        with _locked(where / ".lock"):
            there = [path for path in (cert, key) if os.path.lexists(path)]
            for path in there:
                _refuse_shared(path, stat.S_ISREG)
            if len(there) == 2 and time.time() - cert.stat().st_mtime < DAYS * 86_400 - _RENEW:
                return cert, key
            # Whoever is killed in between leaves no pair, never two halves of different ones.
            cert.unlink(missing_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=where) as aside:
                for path, text in zip((key, cert), reversed(_generate()), strict=True):
                    new = Path(aside) / path.name
                    new.touch(mode=0o600, exist_ok=False)
                    new.write_text(text)
                    new.replace(path)
    except OSError as error:
        raise TableError(f"{where}: keys for TLS cannot be made: {error}") from None
    return cert, key


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one driver at a time look for keys and make them."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _refuse_shared(path: Path, kind: Any) -> None:
    found = path.lstat()
    if not kind(found.st_mode):
        wrong = "is a link or no plain file"
    elif found.st_uid != os.geteuid():
        wrong = f"belongs to the user with the id {found.st_uid}, not to you"
    elif found.st_mode & 0o077:
        wrong = f"has mode {stat.S_IMODE(found.st_mode):04o}, so that others may use it"
    else:
        return
    raise TableError(
        f"{path}: {wrong}; whoever has the keys can run code as you. Remove the folder "
        f"{path if path.is_dir() else path.parent}, and new keys are made"
    )


def _generate() -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "procure")])
    now = datetime.datetime.now(datetime.UTC)
    cert = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        # Clocks of nodes differ: a certificate that begins now would be refused on some.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return (
        cert.public_bytes(Encoding.PEM).decode(),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )


def make_security(folder: Path) -> Any:
    """Return Dask's security settings for a study's keys."""
    return _security(*(os.fspath(path.resolve()) for path in make_keys(folder)))


def one_run_security() -> Any:
    """Return Dask's security settings with keys of their own, which are never on a disk."""
    return _security(*_generate())


def _security(cert: str, key: str) -> Any:
    from distributed.security import Security

    roles = {
        f"tls_{role}_{what}": value
        for role in ("client", "scheduler", "worker")
        for what, value in (("cert", cert), ("key", key))
    }
    return Security(tls_ca_file=cert, require_encryption=True, **roles)


def dask_options(folder: Path) -> str:
    """Return what ``dask scheduler`` and ``dask worker`` must be told to take part."""
    cert, key = (path.resolve() for path in make_keys(folder))
    return f"--tls-ca-file {cert} --tls-cert {cert} --tls-key {key}"
