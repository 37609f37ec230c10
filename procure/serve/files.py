"""What `procure serve init` writes: settings, a unit, a filter for submissions, a widget, a proxy's lines."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from procure.errors import TableError
from procure.files import whole_file
from procure.serve.settings import Source
from procure.serve.sources import shell_commands

ACCOUNT = "procure"
"""As whom the unit runs that root has written."""
_HERE = Path(__file__).parent / "init"
NAMES = ("config.toml", "procure.service", "cli_filter.lua", "procure_widget.html.erb", "proxy.conf", "commands.sh")


def init(folder: Path, replay: Path | None = None) -> list[Path]:
    """Write the files of a service into a folder; what is there already stays, and stays whose it is.

    Raises
    ------
    TableError
        The folder cannot be written, or another account could put something else in its place.
    """
    _refuse_anothers(folder)
    folder = folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        modes = {folder: 0o711, folder / "studies": 0o755, folder / "run": 0o755}
        made = [path for path, mode in modes.items() if make(path, mode)]
        folder.chmod(folder.stat().st_mode | 0o011)  # the socket is reached through it
    except OSError as error:
        raise TableError(f"{folder}: cannot be written: {error.strerror}") from None
    source = 'kind = "slurm"'
    if replay is not None:
        source = f'kind = "replay"\nlog = "{_toml(str(replay.resolve()))}"\nspeed = 1000.0'
    command = Path(sys.executable).with_name("procure")
    values = {
        "@FOLDER@": str(folder),
        "@SOURCE@": source,
        "@COMMAND@": str(command),
        "@USER@": ACCOUNT if os.getuid() == 0 else str(os.environ.get("USER", "procure")),
        "@COMMANDS@": "\n".join(shell_commands(Source())),
    }
    written = []
    for name in NAMES:
        path = folder / name
        if path.is_symlink():
            raise TableError(f"{path}: is a link, not a file; remove it, and see who made it")
        if path.exists():
            continue
        text = (_HERE / name).read_text(encoding="utf-8")
        for mark, value in values.items():
            text = text.replace(mark, value)
        with whole_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
            temporary.chmod(0o600 if name == "config.toml" else 0o644)  # others run or include the rest
        written.append(path)
    if os.getuid() == 0 and (account := _account()) is not None:
        for path in (*made, *written):
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
    return written


def _refuse_anothers(folder: Path) -> None:
    """Refuse a folder, or a link on the way to it, of an account that is neither root, this one nor the unit's."""
    account = _account()
    trusted = {0, os.getuid(), *([account.pw_uid] if account else [])}
    whole = folder.absolute()
    links = [path for path in (whole, *whole.parents) if path.is_symlink()]
    for path in [*links, *([whole] if whole.exists() else [])]:
        owner = path.lstat().st_uid if path in links else path.stat().st_uid
        if owner not in trusted:
            what = "is a link" if path in links else "is a folder"
            raise TableError(
                f"{path}: {what} of the account {owner}, which could put another in its place; use another"
            )


def make(path: Path, mode: int) -> bool:
    """Make a folder of a mode where there is none; return whether it was made. A link in its place is refused."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise TableError(f"{path}: is a link or a file, not a folder; remove it, and see who made it")
    if path.exists():
        return False
    path.mkdir(mode=0o700)
    path.chmod(mode)
    return True


def _account() -> pwd.struct_passwd | None:
    """Return the account of the unit, where there is one."""
    try:
        return pwd.getpwnam(ACCOUNT)
    except KeyError:
        return None


def _toml(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
