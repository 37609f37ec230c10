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
    """Write the files of a service into a folder; those that are there already stay.

    Raises
    ------
    TableError
        The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)  # the socket is reached through it; its files are their owner's alone
        for name in ("studies", "run"):
            _open_folder(folder / name)
    except OSError as error:
        raise TableError(f"{folder}: cannot be written: {error.strerror}") from None
    folder = folder.resolve()
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
            temporary.chmod(0o640 if name == "config.toml" else 0o644)  # others run or include the rest
        written.append(path)
    if os.getuid() == 0:
        _give(folder)
    return written


def _open_folder(path: Path) -> None:
    """Make a folder that every account may enter; a link that somebody put in its place is refused, not followed."""
    path.mkdir(exist_ok=True)
    try:
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        raise TableError(f"{path}: is a link, not a folder; remove it, and see who made it") from None
    try:
        os.fchmod(held, 0o755)
    finally:
        os.close(held)


def _give(folder: Path) -> None:
    """Give a folder that root has made to the account of the unit, where there is that account."""
    try:
        account = pwd.getpwnam(ACCOUNT)
    except KeyError:
        return
    for path in (folder, folder / "studies", folder / "run", *(folder / name for name in NAMES)):
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def _toml(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
