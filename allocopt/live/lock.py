"""A lock that keeps a second service of the same kind from running on this machine."""

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
    """Hold the lock ``name``. Raises `UsageError` if another service holds it; ``does`` says what that one does."""
    path = lock_folder() / f"live-{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.lock"
    # A link to another user's file must not be followed, and a FIFO must not block.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another service {does}, stop it first (it locks {path})") from None
        yield


def lock_folder() -> Path:
    """Return the folder of locks, which only this user can write. Raises `UsageError` if it cannot be made."""
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
        raise UsageError(f"{folder}: cannot create this folder for the service's lock file: {error.strerror}") from None
    if not is_private(folder, user):
        raise UsageError(
            f"{folder}: must be a folder that belongs to this user and only this user can write; remove it"
        )
    return folder


def is_private(folder: Path, user: int) -> bool:
    """Return whether a path is a folder that belongs to a user and only that user can write."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o022
