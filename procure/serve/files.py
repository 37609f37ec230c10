"""What `procure serve init` writes: settings, a unit, a filter for submissions, a widget, a proxy's lines."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from procure.errors import TableError
from procure.files import whole_file
from procure.serve.slurm import script

ACCOUNT = "procure"
"""As whom the unit runs that root has written."""
_HERE = Path(__file__).parent / "init"
NAMES = ("config.toml", "procure.service", "cli_filter.lua", "procure_widget.html.erb", "proxy.conf", "commands.sh")


def init(folder: Path) -> list[Path]:
    """Write the files of a service into a folder; what is there already stays, and stays whose it is.

    A `TableError` says that it cannot be written, or that another account could put something else in its place.
    """
    account = next((one for one in pwd.getpwall() if one.pw_name == ACCOUNT), None) if os.getuid() == 0 else None
    _refuse_anothers(folder, {0, os.getuid(), *([account.pw_uid] if account else [])})
    folder = folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = [path for path, mode in ((folder, 0o711), (folder / "run", 0o755)) if make(path, mode)]
        folder.chmod(folder.stat().st_mode | 0o011)  # the socket is reached through it
    except OSError as error:
        raise TableError(f"{folder}: cannot be written: {error.strerror}") from None
    values = {
        "@FOLDER@": str(folder),
        "@COMMAND@": str(Path(sys.executable).with_name("procure")),
        "@USER@": ACCOUNT if os.getuid() == 0 else str(os.environ.get("USER", ACCOUNT)),
        "@COMMANDS@": script(),
    }
    written = []
    for path in (folder / name for name in NAMES):
        if path.is_symlink():
            raise TableError(f"{path}: is a link, not a file; remove it, and see who made it")
        if path.exists():
            continue
        text = (_HERE / path.name).read_text(encoding="utf-8")
        for mark, value in values.items():
            text = text.replace(mark, value)
        with whole_file(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
            temporary.chmod(0o600 if path.name == "config.toml" else 0o644)  # others run or include the rest
        written.append(path)
    if account:
        for path in (*made, *written):
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
    return written


def _refuse_anothers(folder: Path, trusted: set[int]) -> None:
    """Refuse a folder, or a link on the way to it, of an account that is none of the trusted."""
    whole = folder.absolute()
    owners = {path: path.lstat().st_uid for path in (whole, *whole.parents) if path.is_symlink()}
    if whole.exists():
        owners.setdefault(whole.resolve(), whole.stat().st_uid)
    for path, owner in owners.items():
        if owner not in trusted:
            text = f"is of the account {owner}, which could put another in its place; use another"
            raise TableError(f"{path}: {text}")


def make(path: Path, mode: int) -> bool:
    """Make a folder of a mode where there is none; return whether it was made. A link in its place is refused."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise TableError(f"{path}: is a link or a file, not a folder; remove it, and see who made it")
    if path.exists():
        return False
    path.mkdir(mode=0o700)
    path.chmod(mode)
    return True
