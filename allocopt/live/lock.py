"""Keeps a second service of the same kind off this machine."""

import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from allocopt.errors import UsageError


@contextmanager
def only_service(name: str, does: str) -> Iterator[None]:
    """Hold the lock of a name. Raises `UsageError`, which says what the service does that holds it, if one does."""
    path = lock_folder() / f"live-{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.lock"
    # Not another user's file, and nothing that opening waits for.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another service {does}: {path}") from None
        yield


def lock_folder() -> Path:
    """Return a folder that only this user can write. Raises `UsageError` if somebody else has made it."""
    user = os.geteuid()
    runtime, own = os.environ.get("XDG_RUNTIME_DIR", ""), Path(os.environ.get("TMPDIR", "."))
    if own.is_absolute() and is_private(own, user):
        folder = own / "allocopt"
    elif user == 0 and os.access("/run", os.W_OK):
        folder = Path("/run/allocopt")
    elif os.path.isabs(runtime):
        folder = Path(runtime) / "allocopt"
    else:
        folder = Path(tempfile.gettempdir()) / f"allocopt-{user}"
    try:
        folder.mkdir(0o700, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: no folder for the lock of the service: {error.strerror}") from None
    if not is_private(folder, user):
        raise UsageError(f"{folder}: must be a folder of this user that nobody else can write; remove it")
    return folder


def is_private(folder: Path, user: int) -> bool:
    """Whether a path is a folder of a user that nobody else can write."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o022
