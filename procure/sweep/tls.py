"""Keys with which drivers, schedulers and workers of one study know each other."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from procure.errors import TableError

DAYS = "365"


def make_keys(folder: Path) -> tuple[Path, Path]:
    """Return a study's certificate and key; make them if there are none.

    One self-signed certificate is everybody's, and the only authority. Both files are for their owner
    alone.

    Raises
    ------
    TableError
        ``openssl`` is not there or fails.
    """
    where = folder / "tls"
    cert, key = where / "cert.pem", where / "key.pem"
    if cert.exists() and key.exists():
        return cert, key
    command = (
        "openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", DAYS,
        "-subj", "/CN=procure", "-keyout", str(key), "-out", str(cert),
    )  # fmt: skip
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (key, cert):
            path.touch(mode=0o600)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TableError(f"{where}: keys for TLS cannot be made with openssl: {error}") from None
    if done.returncode:
        key.unlink(missing_ok=True)
        raise TableError(f"{where}: openssl made no keys: {done.stderr.strip().splitlines()[-1]}")
    for path in (key, cert):
        path.chmod(0o600)
    return cert, key


def make_security(folder: Path) -> Any:
    """Return Dask's security settings for a study's keys."""
    from distributed.security import Security

    cert, key = (os.fspath(path.resolve()) for path in make_keys(folder))
    roles = {
        f"tls_{role}_{what}": path
        for role in ("client", "scheduler", "worker")
        for what, path in (("cert", cert), ("key", key))
    }
    return Security(tls_ca_file=cert, require_encryption=True, **roles)


def dask_options(folder: Path) -> str:
    """Return what ``dask scheduler`` and ``dask worker`` must be told to take part."""
    cert, key = (path.resolve() for path in make_keys(folder))
    return f"--tls-ca-file {cert} --tls-cert {cert} --tls-key {key}"
